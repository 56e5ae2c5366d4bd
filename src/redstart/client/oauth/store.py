"""Where tokens and registrations are kept: in memory, or in a file that only its owner can read."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from redstart.client.errors import SignInError
from redstart.wire.jsonrpc import JsonObject

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class TokenStore(Protocol):
    """A place for secrets, such as a keyring. The keys are texts that name a server; the values are JSON."""

    def load(self, key: str) -> JsonObject | None:
        """What was saved last, or None."""

    def save(self, key: str, value: JsonObject | None) -> None:
        """Keep `value`; None forgets it."""


class MemoryTokens:
    """Tokens that end with the process.

    >>> store = MemoryTokens()
    >>> store.save("a", {"access_token": "t"})
    >>> store.load("a")
    {'access_token': 't'}
    """

    def __init__(self) -> None:
        self._values: dict[str, JsonObject] = {}

    def load(self, key: str) -> JsonObject | None:
        return self._values.get(key)

    def save(self, key: str, value: JsonObject | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


class FileTokens:
    """Tokens in a JSON file with the permissions 0600, which several processes may share.

    >>> FileTokens("~/.local/state/my-app/tokens.json").path.name
    'tokens.json'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()

    def load(self, key: str) -> JsonObject | None:
        found = self._read().get(key)
        return found if isinstance(found, dict) else None

    def save(self, key: str, value: JsonObject | None) -> None:
        with self._locked():
            values = self._read()
            values.pop(key, None)
            if value is not None:
                values[key] = value
            new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            with contextlib.suppress(FileNotFoundError):
                new.unlink()
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as output:
                json.dump(values, output)
            new.replace(self.path)

    def _read(self) -> JsonObject:
        try:
            with self.path.open(encoding="utf-8") as file:
                me = getattr(os, "geteuid", int)()  # 0 is root, or Windows
                if me and os.fstat(file.fileno()).st_uid not in (0, me):
                    raise PermissionError("it belongs to another user, who has chosen what is in it")
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise SignInError(
                f"the tokens in {self.path} cannot be read: {error}; remove the file, and sign in"
            ) from None
        return found if isinstance(found, dict) else {}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let no other process write meanwhile, so that no entry is lost."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = getattr(os, "O_NOFOLLOW", 0)  # in a folder of many, somebody may have put a link there
        lock = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_WRONLY | os.O_CREAT | link, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
