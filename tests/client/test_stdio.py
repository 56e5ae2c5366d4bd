"""Subprocesses: how they start, what they may write, how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from client.support import PEER_PYTHON, PEERS, handshake_client, python
from redstart.client import Client, ClientError, ConnectionClosed, InvalidReply, stdio
from redstart.client.transport import Inbox
from support import run, until

MCP_STDIO = [PEER_PYTHON, str(PEERS / "mcp_server.py"), "stdio"]
"""A process as users have it; other tests take forks of one, with `peer`."""


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_a_server_that_dies_fails_every_call_with_its_last_words(protocol: str) -> None:
    async def main() -> None:
        async with Client(MCP_STDIO, protocol=protocol, stderr="capture") as c:
            waiting = [asyncio.create_task(c.call_tool("was_cancelled", {"tag": "x"})) for _ in range(3)]
            deadly = asyncio.create_task(c.call_tool("die"))
            for call in (*waiting, deadly):
                with pytest.raises(ConnectionClosed, match="exit status 3") as caught:
                    await call
                assert caught.value.exit_status == 3
                assert caught.value.stderr[-1] == "these are my last words"
            with pytest.raises(ConnectionClosed, match="last words"):
                await c.list_tools()
            with pytest.raises(ConnectionClosed, match="last words"):
                await c.notify("notifications/x")

    run(main())


def test_a_command_that_does_not_exist() -> None:
    async def main() -> None:
        async with Client(["/no/such/command", "x"]):
            pass

    with pytest.raises(ClientError, match="cannot start '/no/such/command x'"):
        run(main())


def test_a_server_that_ends_before_it_answers() -> None:
    async def main() -> None:
        async with Client([sys.executable, "-c", "raise SystemExit('broken import')"], stderr="capture"):
            pass

    with pytest.raises(ConnectionClosed, match=r"exit status 1(?s:.)*broken import"):
        run(main())


def test_a_message_of_many_megabytes_both_ways() -> None:
    async def main() -> None:
        async with Client(MCP_STDIO, protocol="2025-11-25", stderr="capture") as c:
            text = "\N{SNOWMAN}" * 1_000_000
            assert (await c.call_tool("echo", {"text": text})).text == text

    run(main())


TOO_LONG = """
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "long":
        print("x" * 2000, flush=True)
    elif m["method"] == "short":
        say(m["id"], {"fine": True})
"""


def test_a_line_over_the_limit_fails_the_requests_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 1000)

    async def main() -> None:
        async with handshake_client(python(TOO_LONG), timeout=60) as c:
            calls = [asyncio.create_task(c.request(method)) for method in ("other", "long")]
            for call in calls:  # it may have been the answer to each of them
                with pytest.raises(InvalidReply, match="sent a message of more than 1000 bytes"):
                    await call
            assert await c.request("short") == {"fine": True}

    run(main())


def test_a_line_over_the_limit_that_nobody_waits_for_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 1000)

    async def main() -> None:
        async with handshake_client(python(TOO_LONG)) as c:
            await c.notify("long")
            await until(lambda: "sent a message of more than 1000 bytes" in caplog.text)
            assert await c.request("short") == {"fine": True}

    run(main())


def test_a_python_file_with_environment_and_directory(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(
        "import os\n"
        "from redstart import Server\n"
        "server = Server('file')\n"
        "@server.tool\n"
        "def where() -> list[str]:\n"
        "    return [os.environ['COLOUR'], os.getcwd(), os.environ['PATH']]\n"
        "server.run()\n"
    )

    async def main() -> None:
        async with Client(file, env={"COLOUR": "blue"}, cwd=tmp_path, stderr="capture") as c:
            assert (await c.call_tool("where")).data == ["blue", str(tmp_path), os.environ["PATH"]]

    run(main())


def test_stderr_is_passed_on_unless_captured(capfd: pytest.CaptureFixture[str]) -> None:
    async def main(stderr: Literal["inherit", "capture"]) -> None:
        with pytest.raises(ConnectionClosed):
            async with Client([sys.executable, "-c", "import sys; sys.exit('h\\u00e9llo')"], stderr=stderr):
                pass

    run(main("capture"))
    assert "h\u00e9llo" not in capfd.readouterr().err
    run(main("inherit"))
    assert "h\u00e9llo" in capfd.readouterr().err


TALKATIVE = """
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
sys.stdin.readline()
id = json.loads(sys.stdin.readline())["id"]
sys.stderr.write("before the answer\\n")
say(id, {})
sys.stdin.read()
"""


def test_what_the_server_wrote_to_stderr_is_shown_before_its_answer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = stdio.StdioTransport.open
    pipes: list[Any] = []

    async def late(self: stdio.StdioTransport, inbox: Inbox) -> None:
        await opened(self, inbox)
        assert self._process is not None
        pipes.append(self._process.get_pipe_transport(2))
        pipes[0].pause_reading()  # as if the loop came to it later

    monkeypatch.setattr(stdio.StdioTransport, "open", late)

    async def main() -> None:
        async with Client(python(TALKATIVE), protocol="2025-11-25") as c:
            await c.request("talk")
            assert capfd.readouterr().err == "before the answer\n"
            pipes[0].resume_reading()

    run(main())


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
INITIALIZED["serverInfo"]["version"] = str(os.getpid())
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
while True:
    signal.pause()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_server_that_ignores_eof_and_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)

    async def main() -> None:
        async with handshake_client(python(STUBBORN)) as c:
            pid = int(c.server_info.version)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(main())


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_close_that_is_cancelled_kills_the_server_at_once_and_waits_for_its_end() -> None:
    async def main() -> None:
        c = await handshake_client(python(STUBBORN)).__aenter__()
        pid = int(c.server_info.version)
        closing = asyncio.create_task(c.__aexit__(None, None, None))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ProcessLookupError):  # no zombie either
            os.kill(pid, 0)

    run(main())


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_server_names_its_signal() -> None:
    async def main() -> None:
        async with handshake_client(python(STUBBORN)) as c:
            call = asyncio.create_task(c.request("x/y"))
            await asyncio.sleep(0)
            os.kill(int(c.server_info.version), signal.SIGKILL)
            with pytest.raises(ConnectionClosed) as caught:
                await call
            assert caught.value.exit_status == -signal.SIGKILL

    run(main())


def test_a_grandchild_that_holds_the_pipes_does_not_hold_us(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(2)'])\n"
        "sys.exit('gone')\n"
    )
    monkeypatch.setattr(stdio, "_SETTLE", 0.2)

    async def main() -> None:
        with pytest.raises(ConnectionClosed, match="exit status 1"):
            async with handshake_client(python(script)):
                pass

    run(main(), seconds=10)


DEAF = """
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
time.sleep(60)
"""


def test_a_server_that_stops_reading_is_waited_for_and_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)

    async def main() -> None:
        async with handshake_client(python(DEAF)) as c:
            calls = [c.request("x/y", {"t": "x" * 1_000_000}, timeout=0.3) for _ in range(4)]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, TimeoutError)
                assert "x/y" in str(outcome)

    run(main())
