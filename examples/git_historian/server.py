# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart"]
# ///
"""Who changed this, and why: the history of a git repository.

git runs as a process, without a shell. What a model writes is only ever an argument behind `--`, or is checked first.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from redstart import Context, Message, Server, ToolError

ROOT = Path(os.environ.get("REPOSITORY", ".")).resolve()
REVISION = re.compile(r"[A-Za-z0-9][\w./~^@{}-]{0,199}")
MOST = 200_000
"""How many bytes of git's output are used."""
SECONDS = 20

server = Server("git-historian", version="1.0.0", timeout=60)
File = Annotated[str, "A path inside of the repository"]


@dataclass
class Commit:
    id: str
    author: str
    date: str
    subject: str


@dataclass
class Line:
    number: int
    commit: str
    author: str
    text: str


async def git(*words: str) -> str:
    """What git prints; an error of git is told to the model. No configuration of the repository can start a program."""
    safe = ("-c", "core.fsmonitor=false", "-c", "diff.external=", "--no-pager", "--no-optional-locks")
    process = await asyncio.create_subprocess_exec(
        "git", *safe, *words, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(SECONDS):
            output = b""
            while len(output) < MOST and (part := await process.stdout.read(65536)):
                output += part
            if len(output) >= MOST:
                return output[:MOST].decode(errors="replace") + "\n… cut off here"
            errors = await process.stderr.read(2000)
            await process.wait()
    except TimeoutError:
        raise ToolError(f"git took more than {SECONDS} seconds; ask for less") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError(f"git says: {errors.decode(errors='replace').strip()}")
    return output.decode(errors="replace")


def inside(path: str) -> str:
    """A path as git takes it, if it is inside of the repository."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT) or ".git" in found.relative_to(ROOT).parts:
        raise ToolError(f"{path} is not in the repository")
    return str(found.relative_to(ROOT))


def revision(text: str) -> str:
    """A commit, branch or tag; never an option of git."""
    if not REVISION.fullmatch(text):
        raise ToolError(f"{text!r} is not a revision: write a commit id, a branch or a tag")
    return text


@server.tool(annotations={"readOnlyHint": True})
async def history(
    path: File = ".", words: Annotated[str, "In the message of the commit"] = "", limit: int = 20
) -> list[Commit]:
    """The commits that changed a file or folder, newest first."""
    options = [f"--max-count={min(max(limit, 1), 200)}", "--format=%h%x1f%an%x1f%as%x1f%s"]
    if words:
        options += ["--fixed-strings", "--regexp-ignore-case", f"--grep={words}"]
    lines = (await git("log", *options, "--", inside(path))).splitlines()
    return [Commit(*line.split("\x1f", 3)) for line in lines if line.count("\x1f") >= 3]


@server.tool(annotations={"readOnlyHint": True})
async def blame(path: File, first: int = 1, last: int = 50) -> list[Line]:
    """Who last changed each line of a part of a file."""
    last = max(first, min(last, first + 499))
    output = await git("blame", "--line-porcelain", "-L", f"{max(first, 1)},{last}", "--", inside(path))
    lines, commit, author, number = [], "", "", 0
    for text in output.splitlines():
        if match := re.match(r"([0-9a-f]{40}) \d+ (\d+)", text):
            commit, number = match[1][:10], int(match[2])
        elif text.startswith("author "):
            author = text.removeprefix("author ")
        elif text.startswith("\t"):
            lines.append(Line(number, commit, author, text[1:]))
    return lines


@server.tool(annotations={"readOnlyHint": True})
async def show(commit: Annotated[str, "A commit id, a branch or a tag"]) -> str:
    """The message and the changes of a commit."""
    return await git("show", "--no-ext-diff", "--no-textconv", "--stat", "--patch", revision(commit), "--")


@server.tool(annotations={"readOnlyHint": True})
async def authors(ctx: Context, path: File = ".") -> dict[str, int]:
    """How many commits each author has."""
    await ctx.info(f"counting the commits of {path}")
    lines = (await git("shortlog", "--summary", "--numbered", "HEAD", "--", inside(path))).splitlines()
    return {name: int(count) for count, _, name in (line.strip().partition("\t") for line in lines)}


@server.prompt(title="Why is this so?")
def why(path: str, line: int) -> list[Message]:
    """Find out why a line is as it is."""
    order = "Use blame, then show the commit, then look at the history around it."
    return [Message("user", f"Why is line {line} of {path} as it is? {order}")]


if __name__ == "__main__":
    server.run()
