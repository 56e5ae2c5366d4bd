"""The thread that watches folders, when the process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import SECONDS

BEGINNING = """\
import asyncio, contextlib, pathlib, sys
if sys.argv[2] == "poll":
    sys.modules["watchfiles"] = None
from redstart.adopt.watching import watching
folders = [pathlib.Path(sys.argv[1])]
"""
CLOSED = """
async def main():
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):  # at different moments of their periods
            changed = await stack.enter_async_context(watching(folders))
            await changed.wait()
            await asyncio.sleep(0.005)
asyncio.run(main())
"""
LEFT_OPEN = """
block = watching(folders)
loop = asyncio.new_event_loop()
loop.run_until_complete(block.__aenter__())
"""


@pytest.mark.parametrize("program", [CLOSED, LEFT_OPEN], ids=["closed", "left open"])
@pytest.mark.parametrize("how", ["watchfiles", "poll"])
def test_a_process_that_has_watched_ends_in_order(program: str, how: str, tmp_path: Path) -> None:
    """A daemon thread inside of watchfiles 1.0 aborted the interpreter that ended."""
    if how == "watchfiles":
        pytest.importorskip("watchfiles")
    command = [sys.executable, "-c", BEGINNING + program, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    assert (done.returncode, b"FATAL" in done.stderr) == (0, False), done.stderr.decode()
