"""Subprocesses: how they start, what they may write, how they end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from client.support import MCP_STDIO, reply, run, scripted
from redstart.client import Client, ClientError, ConnectionClosed, RequestError, stdio

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
OLD = {"initialize": [reply(INITIALIZED)]}


PREAMBLE = f"""
import json, signal, sys, time
INITIALIZED = {INITIALIZED!r}
def say(id, result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
"""


def python(code: str) -> list[str]:
    """The command of a server that is a few lines of code, with `say` to answer and INITIALIZED to begin."""
    return [sys.executable, "-c", PREAMBLE + code]


def client(command: list[str], **options: Any) -> Client:
    return Client(command, protocol="2025-11-25", stderr="capture", **options)


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


def test_noise_batches_blank_lines_and_split_characters(caplog: pytest.LogCaptureFixture) -> None:
    lines = [
        "Server is starting!",
        "",
        "   ",
        '{"jsonrpc":"2.0","method":"notifications/unknown","params":7}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":"1","result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
        '[{"jsonrpc":"2.0","method":"notifications/x"},' + reply({"text": "\N{SNOWMAN}"}) + "]",
    ]

    async def main() -> None:
        async with client(scripted(**OLD, x__y=lines)) as c:
            assert await c.request("x/y") == {"text": "\N{SNOWMAN}"}

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "Server is starting!" in caplog.text
    assert "what?" in caplog.text


def test_replies_out_of_order() -> None:
    script = """
held = []
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        say(m["id"], INITIALIZED)
    elif "id" in m:
        held.append(m)
        if len(held) == 10:
            for m in reversed(held):
                say(m["id"], {"n": m["params"]["n"]})
"""

    async def main() -> None:
        async with client(python(script)) as c:
            answers = await asyncio.gather(*(c.request("x", {"n": n}) for n in range(10)))
            assert [answer["n"] for answer in answers] == list(range(10))

    run(main())


def test_a_message_of_many_megabytes_both_ways() -> None:
    async def main() -> None:
        async with Client(MCP_STDIO, protocol="2025-11-25", stderr="capture") as c:
            text = "\N{SNOWMAN}" * 1_000_000
            assert (await c.call_tool("echo", {"text": text})).text == text

    run(main())


def test_a_python_file_with_environment_and_directory(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(
        "import os\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('file')\n"
        "def where() -> list[str]:\n"
        "    return [os.environ['COLOUR'], os.getcwd(), os.environ['PATH']]\n"
        "server.add_tool(where)\n"
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


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
while True:
    signal.pause()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_server_that_ignores_eof_and_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)

    async def main() -> int:
        async with client(python(STUBBORN)) as c:
            pid = c._requests.connection.transport._process.get_pid()  # type: ignore[attr-defined]
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        return int(pid)

    run(main())


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_close_that_is_cancelled_kills_the_server_at_once() -> None:
    async def main() -> None:
        c = await client(python(STUBBORN)).__aenter__()
        transport: Any = c._requests.connection.transport
        closing = asyncio.create_task(c.__aexit__(None, None, None))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await transport._exited.wait()
        assert transport._process.get_returncode() is not None

    run(main())


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_server_names_its_signal() -> None:
    async def main() -> None:
        async with client(scripted(**OLD, x__y="ignore")) as c:
            call = asyncio.create_task(c.request("x/y"))
            await asyncio.sleep(0)
            os.kill(c._requests.connection.transport._process.get_pid(), signal.SIGKILL)  # type: ignore[attr-defined]
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
            async with client(python(script)):
                pass

    run(main(), seconds=10)


def test_an_error_has_code_message_and_data() -> None:
    error = '{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"bad","data":{"uri":"a"}}}'
    broken = '{"jsonrpc":"2.0","id":$id,"error":"just text"}'

    async def main() -> None:
        async with client(scripted(**OLD, x__y=[error], x__z=[broken])) as c:
            with pytest.raises(RequestError) as caught:
                await c.request("x/y")
            assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "bad", {"uri": "a"})
            with pytest.raises(RequestError, match="malformed error"):
                await c.request("x/z")

    run(main())


def test_pages_are_joined_and_a_cursor_that_repeats_ends_it() -> None:
    script = """
pages = {None: (["a", "b"], ""), "": (["c"], "2"), "2": (["d"], None)}
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        result = INITIALIZED
    elif m["method"] == "tools/list":
        names, cursor = pages[m.get("params", {}).get("cursor")]
        result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names], "nextCursor": cursor}
    else:
        result = {"prompts": [{"name": "p"}], "nextCursor": "again"}
    if "id" in m:
        say(m["id"], result)
"""

    async def main() -> None:
        async with client(python(script)) as c:
            assert [tool.name for tool in await c.list_tools()] == ["a", "b", "c", "d"]
            with pytest.raises(ClientError, match="cursor 'again' twice"):
                await c.list_prompts()

    run(main())


@pytest.mark.parametrize("target", ["server", "ftp://x/y", b"x", 7, None, {"command": "x"}, [], Path("server.txt")])
def test_what_is_no_target_fails_at_once(target: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Client(target)


@pytest.mark.parametrize("options", [{"protocol": "1999-01-01"}, {"log_level": "loud"}, {"stderr": "eat"}])
def test_options_that_do_not_exist_fail_at_once(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Client(["x"], **options)  # type: ignore[arg-type]


def test_a_client_is_used_inside_its_block() -> None:
    async def main() -> None:
        c = client(scripted(**OLD))
        with pytest.raises(ClientError, match="not open"):
            await c.list_tools()
        async with c:
            with pytest.raises(ClientError, match="open already"):
                await c.__aenter__()
        async with c:  # and again
            assert c.server_info.name == "s"

    run(main())


DEAF = """
say(json.loads(sys.stdin.readline())["id"], INITIALIZED)
time.sleep(60)
"""


def test_a_server_that_stops_reading_is_waited_for_and_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)

    async def main() -> None:
        async with client(python(DEAF)) as c:
            calls = [c.request("x/y", {"t": "x" * 1_000_000}, timeout=0.3) for _ in range(4)]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, TimeoutError)
                assert "x/y" in str(outcome)

    run(main())
