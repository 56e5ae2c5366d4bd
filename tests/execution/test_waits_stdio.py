"""The end of the input while a `def` handler waits: its `finally` runs, and the process ends soon."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import initialize, message
from transports.support import Child

SERVER = str(Path(__file__).parent / "waiting_server.py")


@pytest.mark.parametrize("how", ["eof", "SIGTERM"])
@pytest.mark.parametrize("tool", ["question", "tool", "stuck"])
def test_the_end_of_a_process_whose_thread_waits(tool: str, how: str) -> None:
    with Child(command=[sys.executable, SERVER]) as child:
        child.ask(initialize(elicitation={}))
        child.write(message(None, "notifications/initialized"))
        child.write(message(1, "tools/call", {"name": tool, "arguments": {}}))
        assert child.answer()["method"] in ("elicitation/create", "notifications/message")
        status, seconds = child.end(how)
        assert status == 0
        assert seconds < 4  # half a second for the calls, one for the threads, and a slow machine
        said = child.rest("stderr")
        assert f"the end of {tool}".encode() in said
        assert b"Traceback" not in said
