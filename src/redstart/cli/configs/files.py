"""Files of other programs: read and replaced whole, with a copy of what was there before."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from redstart.cli.configs.edit import MOST, EditError


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where redstart remembers what it has written into the files of others."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "redstart"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "redstart"
    return Path(env.get("XDG_STATE_HOME") or home / ".local" / "state") / "redstart"


def read(file: Path) -> bytes | None:
    """What is in the file; None if there is none."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would wait for its other end
            raise EditError("it is not a file")
        with open(file, "rb") as stream:
            data = stream.read(MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EditError(f"it cannot be read: {error.strerror or error}") from None
    if len(data) > MOST:
        raise EditError(f"it has more than {MOST >> 20} MiB")
    return data


def decoded(data: bytes) -> str:
    """The text of a file, with its line ends and its byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise EditError("it is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EditError("it is not UTF-8", line) from None


def write(file: Path, data: bytes, before: bytes | None, mode: int = 0o600) -> None:
    """Replace the file in one step. A link stays a link, and the permissions stay as they are.

    A new file has the permissions `mode` that the umask leaves: a configuration may hold tokens, so it is ours to read.
    """
    real = Path(os.path.realpath(file))
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        if read(real) != before:
            raise EditError("it has been changed by another program in this moment; try again")
        _replace(real, data, mode)
    except OSError as error:
        raise EditError(f"it cannot be written: {error.strerror or error}") from None


def _replace(real: Path, data: bytes, mode: int) -> None:
    name = real.with_name(f".{real.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            status = real.stat()
            os.chmod(name, status.st_mode & 0o7777)
            if hasattr(os, "chown"):
                with suppress(PermissionError):
                    os.chown(name, status.st_uid, status.st_gid)
        os.replace(name, real)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def missing_folders(file: Path) -> tuple[str, ...]:
    """The folders that must be made for a file, the innermost first."""
    return tuple(str(folder) for folder in Path(os.path.realpath(file)).parents if not folder.exists())


def remove(file: Path, folders: tuple[str, ...]) -> None:
    """Remove a file and those of the folders that are empty then."""
    os.unlink(file)
    with suppress(OSError):
        for folder in folders:
            os.rmdir(folder)


def back_up(file: Path, data: bytes, client: str) -> Path:
    """Keep a copy in our own folder: a file beside it could be read, or committed, as a second configuration."""
    folder = state_folder() / "backups"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        copy = folder / f"{client}-{stamp}{f'-{number}' if number else ''}-{file.name.lstrip('.')}"
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        return copy
    raise EditError(f"there are too many copies in {folder}")
