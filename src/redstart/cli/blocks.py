"""The content of a result: texts are printed, pictures and sounds are saved, or shown where the terminal can."""

from __future__ import annotations

import base64
import mimetypes
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from redstart.cli.output import CommandError, is_terminal, printable, say, show

if TYPE_CHECKING:
    from redstart.wire.types import ResourceContents

CHUNK: Final = 4096
"""The most characters of a picture in one escape sequence of kitty."""
ITERM: Final = ("iTerm.app", "WezTerm", "vscode")
KITTY: Final = ("xterm-kitty", "xterm-ghostty")


class Blob(NamedTuple):
    """Bytes in a result, with what they are."""

    data: bytes
    mime_type: str
    what: str

    @property
    def suffix(self) -> str:
        kind = self.mime_type.partition(";")[0].strip()
        return FIRST.get(kind) or mimetypes.guess_extension(kind) or ".bin"


FIRST: Final = {
    "image/jpeg": ".jpg",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "text/plain": ".txt",
}
"""Suffixes where there are several, and the usual one is not the first."""


def texts_and_blobs(content: Sequence[object]) -> Iterator[str | Blob]:
    """The blocks of a result in their order, each as a text or as bytes."""
    from redstart.wire import types as t

    for block in content:
        match block:
            case t.Text():
                yield block.text
            case t.Image():
                yield Blob(block.data, block.mime_type, "image")
            case t.Audio():
                yield Blob(block.data, block.mime_type, "audio")
            case t.EmbeddedResource():
                yield of_resource(block.resource)
            case t.ResourceLink():
                title = block.title or block.name
                yield f"{title}: {block.uri}" + (f" ({block.mime_type})" if block.mime_type else "")
            case _:
                import json

                yield json.dumps(block, ensure_ascii=False, default=str)


def of_resource(contents: ResourceContents) -> str | Blob:
    """The contents of a resource."""
    if contents.blob is not None:
        return Blob(contents.blob, contents.mime_type or "application/octet-stream", contents.uri)
    return contents.text or ""


def deliver(content: Sequence[object], save: str | None, name: str) -> None:
    """Print texts to stdout; save bytes where `save` says, else show them, else say what they are."""
    parts = list(texts_and_blobs(content))
    blobs = [part for part in parts if isinstance(part, Blob)]
    paths = iter(paths_for(save, blobs, name)) if save not in (None, "-") else iter(())
    if save and not blobs:
        say("there is nothing to save: the result has no image, audio or binary resource")
    for part in parts:
        if isinstance(part, str):
            if save != "-":
                show(part)
        elif save == "-":
            sys.stdout.flush()
            sys.stdout.buffer.write(part.data)
        elif save:
            write(next(paths), part)
        elif (inline := picture(part)) is not None:
            sys.stdout.write(inline + "\n")
        else:
            say(printable(f"[{part.what}: {part.mime_type}, {len(part.data)} bytes; --save FILE keeps it]"))


def paths_for(save: str | None, blobs: Sequence[Blob], name: str) -> list[Path]:
    """A file for each: the one that was named, or numbered ones beside it, or files of that folder."""
    assert save is not None
    place = Path(save).expanduser()
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:60] or "result"
    if save.endswith(("/", os.sep)) or place.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        place = place / safe
    if len(blobs) == 1:
        return [place if place.suffix else place.with_name(place.name + blobs[0].suffix)]
    return [place.with_name(f"{place.stem}-{number}{blob.suffix}") for number, blob in enumerate(blobs, 1)]


def write(path: Path, blob: Blob) -> None:
    """Write a file, and say so."""
    try:
        path.write_bytes(blob.data)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
    say(printable(f"saved {path} ({blob.mime_type}, {len(blob.data)} bytes)"))


def picture(blob: Blob) -> str | None:
    """The escape sequence that shows a picture, for terminals that are known to have one."""
    if not blob.mime_type.startswith("image/") or not is_terminal(sys.stdout):
        return None
    if os.environ.get("TMUX") or os.environ.get("STY"):  # these do not pass it on
        return None
    encoded = base64.b64encode(blob.data).decode()
    if os.environ.get("KITTY_WINDOW_ID") or os.environ.get("TERM") in KITTY:
        return _kitty(encoded) if blob.mime_type == "image/png" else None
    if os.environ.get("TERM_PROGRAM") in ITERM or os.environ.get("LC_TERMINAL") == "iTerm2":
        return f"\033]1337;File=inline=1;size={len(blob.data)}:{encoded}\a"
    return None


def _kitty(encoded: str) -> str:
    pieces = [encoded[start : start + CHUNK] for start in range(0, len(encoded), CHUNK)] or [""]
    last = len(pieces) - 1
    return "".join(
        f"\033_G{'a=T,f=100,' if number == 0 else ''}m={int(number != last)};{piece}\033\\"
        for number, piece in enumerate(pieces)
    )
