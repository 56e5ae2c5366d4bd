# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart[dev]"]
# ///
"""A folder of Markdown notes that clients read, search and change, and that they see change.

A note that is saved by anybody, an editor for example, reaches every client that has subscribed to it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from watchfiles import Change, awatch

from redstart import Complete, Message, Server, ToolError

FOLDER = Path(os.environ.get("NOTES", "notes")).resolve()
NAME = re.compile(r"[\w-]{1,80}")
LARGEST = 1_000_000


def path_of(name: str) -> Path:
    """The file of a note. A name has no dots and slashes, so it cannot lead out of the folder."""
    if not NAME.fullmatch(name):
        raise ToolError(f"{name!r} is not the name of a note: use letters, digits, - and _")
    return FOLDER / f"{name}.md"


def names(prefix: str = "") -> list[str]:
    found = (file.stem for file in FOLDER.glob("*.md"))
    return sorted(name for name in found if name.startswith(prefix) and NAME.fullmatch(name))


@asynccontextmanager
async def watched(server: Server) -> AsyncIterator[None]:
    """Watch the folder while the server runs, and tell clients what has changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()

    async def watch() -> None:
        async for changes in awatch(FOLDER, stop_event=stop, debounce=50, step=10):
            for kind, file in changes:
                if file.endswith(".md"):
                    server.notify(f"notes://{Path(file).stem}")
                    if kind != Change.modified:
                        server.notify("notes://index")

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        stop.set()
        await watching


server = Server("notes", version="1.0.0", lifespan=watched)
Name = Annotated[str, Complete(names)]


@dataclass
class Hit:
    name: str
    line: int
    text: str


@server.resource("notes://index", mime_type="application/json")
def index() -> list[str]:
    """The names of all notes."""
    return names()


@server.resource("notes://{name}", mime_type="text/markdown")
def note(name: Name) -> str | None:
    """One note."""
    file = path_of(name)
    return file.read_text(encoding="utf-8") if file.is_file() else None


@server.tool(annotations={"readOnlyHint": True})
def search(words: Annotated[str, "All of these words, in any order"], limit: int = 20) -> list[Hit]:
    """Find lines that have all of the words."""
    wanted = words.lower().split()
    found = (
        Hit(name, number, line.strip()[:300])
        for name in names()
        for number, line in enumerate(path_of(name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if all(word in line.lower() for word in wanted)
    )
    return [hit for hit, _ in zip(found, range(limit), strict=False)]


@server.tool
def write(name: str, text: str) -> str:
    """Write a note; what it had before is replaced."""
    if len(text) > LARGEST:
        raise ToolError(f"a note has at most {LARGEST} characters; this has {len(text)}")
    file = path_of(name)
    new = not file.exists()
    draft = file.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)  # at once, so that nobody reads half a note
    return f"{name} is {'new' if new else 'changed'}"


@server.tool
def append(name: Name, line: str) -> str:
    """Add a line to a note."""
    return write(name, f"{note(name) or ''}{line.rstrip()}\n")


@server.prompt
def review(name: Name) -> list[Message]:
    """Go through a note: what is done, what is next."""
    text = note(name)
    if text is None:
        raise ToolError(f"there is no note {name}")
    return [Message("user", f"These are my notes. What is done, what is next, what is unclear?\n\n{text}")]


if __name__ == "__main__":
    server.run()
