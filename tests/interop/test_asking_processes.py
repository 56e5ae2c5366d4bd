"""The modern dialogue needs no process in particular: it survives restarts, other processes, and crowds."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart.client import Client, ElicitRequest
from support import DEADLINE, ROOT, free_port, launch

SERVER = str(ROOT / "tests" / "interop" / "dialogue_server.py")
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": CAPABILITIES}
OLD, NEW, OTHER = "the old key that was shared", "the new key that was shared", "the key of somebody else"
CROWD = 1000
STRAYS = range(0, CROWD, 20)
CONNECTIONS = 50  # to each process


class Process:
    """A real server over HTTP."""

    def __init__(self, port: int, prelude: str = "", **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDSTART_")}
        run = f"import runpy, sys; {prelude or 'pass'}; runpy.run_path({SERVER!r}, run_name='__main__')"
        command = [sys.executable, "-c", run, str(port)]
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._popen = launch(command, port, env={**clean, **environment})

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait(DEADLINE)

    def call(self, tag: int = 7, tool: str = "secret", **more: Any) -> tuple[int, dict[str, Any]]:
        """One request on a connection of its own, always with the same id."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request("POST", "/mcp", request(tag, tool, more), {**HEADERS, "Mcp-Name": tool})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


def request(tag: int, tool: str, more: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": {"tag": tag}, "_meta": META, **more}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "tools/call",
}


@contextmanager
def process(port: int = 0, prelude: str = "", **environment: str) -> Iterator[Process]:
    found = Process(port or free_port(), prelude, **environment)
    try:
        yield found
    finally:
        found.kill()


def accept(value: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"answer": value}}


def answered(reply: tuple[int, dict[str, Any]], value: int) -> dict[str, Any]:
    """The parameters of the next round."""
    status, message = reply
    assert status == 200, message
    assert "result" in message, message
    result = message["result"]
    assert result["resultType"] == "input_required"
    (key,) = result["inputRequests"]
    return {"requestState": result["requestState"], "inputResponses": {key: accept(value)}}


def text(reply: tuple[int, dict[str, Any]]) -> str:
    status, message = reply
    assert status == 200, message
    assert "result" in message, message
    found: str = message["result"]["content"][0]["text"]
    return found


@pytest.mark.requirement("T89")
def test_the_server_dies_between_the_rounds() -> None:
    port = free_port()
    with process(port, REDSTART_KEYS=OLD) as first:
        more = answered(first.call(), 1)
        first.kill()  # SIGKILL: nothing is saved
    with process(port, REDSTART_KEYS=OLD) as second:
        more = answered(second.call(**more), 2)
        second.kill()
    with process(port, REDSTART_KEYS=OLD) as third:
        assert text(third.call(**more)) == "7 21 1 2"


def test_each_round_goes_to_another_process() -> None:
    with process(REDSTART_KEYS=OLD) as one, process(REDSTART_KEYS=OLD) as two:
        more = answered(one.call(), 1)
        assert text(one.call(**answered(two.call(**more), 2))) == "7 21 1 2"


def test_questions_of_all_kinds_share_a_round_and_its_process_may_change() -> None:
    answers = {
        "name": accept("Ada"),
        "age": accept(36),
        "said": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
        "roots": {"roots": [{"uri": "file:///home/ada"}]},
    }
    with process(REDSTART_KEYS=OLD) as one, process(REDSTART_KEYS=OLD) as two:
        result = one.call(tool="together")[1]["result"]
        assert result["inputRequests"].keys() == answers.keys()
        # half of the answers: the others are asked for again, and only they
        some = {
            "requestState": result["requestState"],
            "inputResponses": {key: answers[key] for key in ("age", "said")},
        }
        result = two.call(tool="together", **some)[1]["result"]
        assert result["inputRequests"].keys() == {"name", "roots"}
        rest = {"requestState": result["requestState"], "inputResponses": answers}
        assert text(one.call(tool="together", **rest)) == "7 {'name': 'Ada', 'age': 36} hi file:///home/ada"


def test_a_client_does_not_notice_that_its_server_was_replaced() -> None:
    """Our client answers on one connection while the process behind it is killed and started again."""
    port = free_port()
    running = [Process(port, REDSTART_KEYS=OLD)]

    def replace(request: ElicitRequest) -> dict[str, int]:
        running[-1].kill()
        running.append(Process(port, REDSTART_KEYS=OLD))
        return {"answer": len(running)}

    async def main() -> str:
        async with Client(running[0].url, protocol=MODERN, on_elicit=replace) as client:
            return (await client.call_tool("secret", {"tag": 7})).text

    try:
        assert asyncio.run(asyncio.wait_for(main(), DEADLINE)) == "7 21 2 3"
    finally:
        running[-1].kill()


@pytest.mark.requirement("T90")
def test_keys_are_rotated_while_dialogues_are_open(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    with process(REDSTART_KEYS=OLD) as old, process(REDSTART_KEY_FILE=str(file)) as both:
        more = answered(both.call(**answered(old.call(), 1)), 2)
        assert old.call(**more)[1]["error"]["code"] == -32602  # it does not know the new key yet
        with process(REDSTART_KEYS=NEW) as new:
            assert text(new.call(**more)) == "7 21 1 2"


@pytest.mark.requirement("T90")
@pytest.mark.parametrize("keys", [{"REDSTART_KEYS": OTHER}, {}], ids=["other-key", "no-key"])
def test_a_foreign_state_is_refused(keys: dict[str, Any]) -> None:
    with process(REDSTART_KEYS=OLD) as one, process(**keys) as two:
        more = answered(one.call(), 1)
        assert two.call(**more)[1]["error"]["code"] == -32602


def test_without_cryptography_states_are_signed_and_hold_no_step() -> None:
    without = "sys.modules['cryptography'] = None"
    with process(REDSTART_KEYS=OLD) as full, process(prelude=without, REDSTART_KEYS=OLD) as bare:
        for server, encrypted in ((full, True), (bare, False)):
            more = answered(server.call(tag=123_457), 1)
            raw = base64.b64decode(more["requestState"])
            assert b"370371" not in raw  # what the step gave
            assert (b"First of" in raw) is not encrypted
            assert (
                text(server.call(tag=123_457, **answered(server.call(tag=123_457, **more), 2))) == "123457 370371 1 2"
            )
            more["requestState"] = base64.b64encode(raw.replace(raw[-9:], bytes(9))).decode()
            assert server.call(tag=123_457, **more)[1]["error"]["code"] == -32602


def test_a_restarted_process_that_only_signs_does_not_repeat_a_step() -> None:
    without, port = "sys.modules['cryptography'] = None", free_port()
    with process(port, prelude=without, REDSTART_KEYS=OLD) as before:
        more = answered(before.call(), 1)
    with process(port, prelude=without, REDSTART_KEYS=OLD) as after:
        error = after.call(**more)[1]["error"]
        assert error["code"] == -32603
        assert error["message"].startswith(
            "The step 'reserve' of this dialogue has been performed, and its result is lost"
        )
        assert text(after.call(**answered(after.call(**answered(after.call(), 1)), 2))) == "7 21 1 2"


# ---------------------------------------------------------------- a crowd


def test_a_thousand_dialogues_with_equal_ids_never_mix() -> None:
    """All of them are open at once, all requests have the id 1, and each round goes to the other process."""
    with process(REDSTART_KEYS=OLD) as one, process(REDSTART_KEYS=OLD) as two:
        found = asyncio.run(asyncio.wait_for(_crowd(one.port, two.port), 50))
    assert found == [f"{tag} {tag * 3} {tag + 1000} {tag + 2000}" for tag in range(CROWD)]


async def _crowd(*ports: int) -> list[str]:
    async with Wires(ports[0]) as one, Wires(ports[1]) as two:

        async def all_of_them(turn: int, more: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
            """One round of every dialogue: over when the last of them has its answer."""
            return await asyncio.gather(*((one, two)[(tag + turn) % 2].call(tag, more[tag]) for tag in range(CROWD)))

        more: list[dict[str, Any]] = [{}] * CROWD
        for turn, word in enumerate(("First", "Second")):
            replies = await all_of_them(turn, more)
            more = [answered(reply, tag + 1000 * (turn + 1)) for tag, reply in enumerate(replies)]
            assert list(map(_question, replies)) == [f"{word} of {tag}?" for tag in range(CROWD)]
            assert len({each["requestState"] for each in more}) == CROWD
            # who brings the state of its neighbour is sent away, and nobody's dialogue suffers
            strays = await asyncio.gather(*((one, two)[tag // 20 % 2].call(tag, more[tag + 1]) for tag in STRAYS))
            assert [message["error"]["code"] for _, message in strays] == [-32602] * len(STRAYS)
        return list(map(text, await all_of_them(2, more)))


def _question(reply: tuple[int, dict[str, Any]]) -> str:
    (asked,) = reply[1]["result"]["inputRequests"].values()
    found: str = asked["params"]["message"]
    return found


class Wires:
    """A few connections to one process, which many dialogues use in turn."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._all: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def __aenter__(self) -> Wires:
        for _ in range(CONNECTIONS):
            wire = await asyncio.open_connection("127.0.0.1", self._port)
            self._all.append(wire)
            self._idle.put_nowait(wire)
        return self

    async def __aexit__(self, *error: object) -> None:
        for _, writer in self._all:
            writer.close()
        for _, writer in self._all:
            await writer.wait_closed()

    async def call(self, tag: int, more: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        body = request(tag, "secret", more)
        named = {"Host": f"127.0.0.1:{self._port}", "Content-Length": str(len(body)), "Mcp-Name": "secret"}
        head = "".join(f"{name}: {value}\r\n" for name, value in (named | HEADERS).items())
        reader, writer = wire = await self._idle.get()
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        (length,) = (int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        reply = int(status.split()[1]), json.loads(await reader.readexactly(length))
        self._idle.put_nowait(wire)  # a wire that failed is used no more
        return reply
