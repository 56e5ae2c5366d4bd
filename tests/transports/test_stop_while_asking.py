"""SIGINT and SIGTERM while calls run: who waits for a person ends at once, who works has a moment, nobody is silent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support import DEADLINE, initialize, message
from transports.support import HERE, Child
from transports.test_serve import Socket

SIGNALS = pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
SOON = 10
"""Seconds: far fewer than the 30 that calls have to finish, and enough for a slow machine."""
A_MOMENT = 0.2
REVISION = "2025-06-18"
STREAM = "Accept: application/json, text/event-stream"


@contextmanager
def serving(*more: str, env: dict[str, str] | None = None, **options: Any) -> Iterator[tuple[Child, str, int]]:
    with Child(json.dumps({"port": 0, **options}), *more, script=HERE / "stopping_server.py", env=env or {}) as child:
        line = child.read_until(b"\n", "stderr").decode()
        host, _, port = line.rsplit("/", 1)[0].rpartition("//")[2].rpartition(":")
        yield child, host, int(port)


def open_session(client: Socket) -> str:
    client.post(initialize(REVISION, elicitation={}))
    return f"Mcp-Session-Id: {client.response()[1]['mcp-session-id']}"


def call(client: Socket, session: str, tool: str, arguments: Any = None) -> None:
    body = message("mine", "tools/call", {"name": tool, "arguments": arguments or {}})
    client.post(body, session, STREAM)


def until(client: Socket, mark: bytes) -> None:
    while mark not in (line := client.file.readline()):
        assert line


def rest(client: Socket) -> list[Any]:
    """The messages up to the end of a chunked body, which must have one."""
    data = client.ended()
    assert data.endswith(b"0\r\n\r\n")
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]


@SIGNALS
def test_the_question_of_a_task_ends_at_once(signal: str) -> None:
    with serving() as (child, host, port), Socket(host, port) as client:
        client.post(initialize("2025-11-25", elicitation={}))
        session = f"Mcp-Session-Id: {client.response()[1]['mcp-session-id']}"
        client.post(message("mine", "tools/call", {"name": "asks", "arguments": {}, "task": {}}), session, STREAM)
        created = json.loads(client.response()[2])["result"]["task"]
        client.post(message("result", "tasks/result", {"taskId": created["taskId"]}), session, STREAM)
        until(client, b"elicitation/create")
        status, seconds = child.end(signal)
        answer = rest(client)[-1]
        assert answer["id"] == "result"
        assert "server is stopping" in answer["error"]["message"]
        assert status == 0
        assert seconds < SOON


@SIGNALS
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("tool", ["asks", "asks_in_a_thread"])
def test_a_question_ends_at_once(tool: str, loop: str, signal: str) -> None:
    with serving(env={"REDSTART_LOOP": loop}) as (child, host, port), Socket(host, port) as client:
        call(client, open_session(client), tool)
        until(client, b"elicitation/create")
        status, seconds = child.end(signal)
        withdrawn, answer = rest(client)
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == "ask-1"
        assert answer["id"] == "mine"
        assert "server is stopping" in answer["error"]["message"]
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b"cleaned up\n"


@SIGNALS
def test_a_question_whose_client_has_gone_ends_at_once(signal: str) -> None:
    with serving() as (child, host, port):
        with Socket(host, port) as client:
            call(client, open_session(client), "asks")
            until(client, b"elicitation/create")
        status, seconds = child.end(signal)
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b"cleaned up\n"


@SIGNALS
@pytest.mark.parametrize("tool", ["naps", "naps_in_a_thread"])
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_call_that_goes_on_for_long_is_ended_with_an_answer(era: str, tool: str, signal: str) -> None:
    with serving(drain=A_MOMENT) as (child, host, port), Socket(host, port) as client:
        if era == "handshake":
            call(client, open_session(client), tool)
            until(client, b"napping")
        else:
            client.modern("mine", "tools/call", {"name": "rests", "arguments": {"seconds": 60}})
            child.read_until(b"resting\n", "stderr")
        status, seconds = child.end(signal)
        answer = rest(client)[-1] if era == "handshake" else json.loads(client.response()[2])
        assert answer["id"] == "mine"
        assert "server is stopping" in answer["error"]["message"]
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b"the server stops, and 1 call is not done\n"


@SIGNALS
def test_how_long_calls_may_go_on_can_be_said(signal: str) -> None:
    told = {"SIGINT": b"stopping: open requests have 20 s to finish; Ctrl-C ends them now\n", "SIGTERM": b""}
    with serving(drain=20) as (child, host, port), Socket(host, port) as client:
        client.modern(1, "tools/call", {"name": "rests", "arguments": {"seconds": 2}})
        child.read_until(b"resting\n", "stderr")
        assert child.end(signal)[0] == 0
        assert json.loads(client.response()[2])["result"]["content"][0]["text"] == "rested"
        assert child.rest("stderr") == told[signal]
    with serving(drain=0) as (child, host, port), Socket(host, port) as client:
        client.modern(1, "tools/call", {"name": "rests", "arguments": {"seconds": 60}})
        child.read_until(b"resting\n", "stderr")
        assert child.end("SIGTERM")[1] < SOON


@SIGNALS
def test_a_route_that_goes_on_for_long_is_refused(signal: str) -> None:
    with serving(drain=A_MOMENT) as (child, host, port), Socket(host, port) as client:
        client.socket.sendall(f"GET /slow HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        child.read_until(b"slow\n", "stderr")
        status, seconds = child.end(signal)
        assert client.response()[0] == 503
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b""


@SIGNALS
def test_open_streams_end_at_once(signal: str) -> None:
    with serving(legacy_sse=True) as (child, host, port):
        sockets = [Socket(host, port) for _ in range(3)]
        listener, pushed, legacy = sockets
        listener.modern("L", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        until(listener, b"acknowledged")
        session = open_session(pushed)
        get = f"GET {{}} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{{}}\r\n"
        pushed.socket.sendall(get.format("/mcp", f"{session}\r\n").encode())
        until(pushed, b"text/event-stream")
        legacy.socket.sendall(get.format("/sse", "").encode())
        until(legacy, b"event: endpoint")
        status, seconds = child.end(signal)
        assert [one["result"]["resultType"] for one in rest(listener)] == ["complete"]
        assert rest(pushed) == rest(legacy) == []
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b""
        for client in sockets:
            client.__exit__()


def test_a_request_that_waits_for_its_turn_holds_up_nobody() -> None:
    with serving(drain=A_MOMENT) as (child, host, port), Socket(host, port) as client:
        call(client, open_session(client), "naps")
        until(client, b"napping")
        client.post(message(2, "ping"))  # it waits for its turn, and never has one
        status, seconds = child.end("SIGTERM")
        assert status == 0
        assert seconds < SOON
        assert b"Traceback" not in child.rest("stderr")


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_second_ctrl_c_ends_it_at_once(loop: str) -> None:
    env = {"REDSTART_LOOP": loop}
    with serving("slow_end", drain=DEADLINE, env=env) as (child, host, port), Socket(host, port) as client:
        client.modern(1, "tools/call", {"name": "rests", "arguments": {"seconds": 60}})
        child.read_until(b"resting\n", "stderr")
        with Socket(host, port) as idle:
            child.process.send_signal(2)
            idle.ended()  # it is stopping now
        status, seconds = child.end("SIGINT")
        assert status == 0
        assert seconds < SOON
        said = child.rest("stderr").splitlines()
        assert not [line for line in said if not line.startswith(b"stopping: ")]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_second_ctrl_c_ends_a_lifespan_that_does_not_end(loop: str) -> None:
    with serving("slow_end", env={"REDSTART_LOOP": loop}) as (child, _, _):
        child.process.send_signal(2)
        child.read_until(b"ending\n", "stderr")
        status, seconds = child.end("SIGINT")
        assert status == 0
        assert seconds < SOON
        assert child.rest("stderr") == b""


IN_A_LOOP = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from stopping_server import server

async def main() -> None:
    await server.run_async("http", port=0, drain=0)
    print("after", file=sys.stderr)

asyncio.run(main())
"""


@SIGNALS
def test_a_loop_of_ones_own_goes_on_afterwards(signal: str) -> None:
    with Child(command=[sys.executable, "-c", IN_A_LOOP, str(HERE)]) as child:
        port = int(child.read_until(b"\n", "stderr").decode().rsplit("/", 1)[0].rpartition(":")[2])
        with Socket("127.0.0.1", port) as client:
            call(client, open_session(client), "asks")
            until(client, b"elicitation/create")
            status, _ = child.end(signal)
            assert rest(client)[-1]["id"] == "mine"
        assert status == 0
        assert child.rest("stderr") == b"cleaned up\nafter\n"
