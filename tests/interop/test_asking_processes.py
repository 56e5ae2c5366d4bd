"""The modern dialogue needs no process in particular: it survives restarts, other processes, and crowds."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart.client import Client, ElicitRequest
from support import DEADLINE, ROOT, await_port, free_port

SERVER = str(ROOT / "tests" / "interop" / "dialogue_server.py")
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": CAPABILITIES}
OLD, NEW, OTHER = "the old key that was shared", "the new key that was shared", "the key of somebody else"
CROWD = 400


class Process:
    """A real server over HTTP."""

    def __init__(self, port: int, prelude: str = "", **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDSTART_")}
        run = f"import runpy, sys; {prelude or 'pass'}; runpy.run_path({SERVER!r}, run_name='__main__')"
        command = [sys.executable, "-c", run, str(port)]
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._popen = subprocess.Popen(command, env={**clean, **environment}, stdin=subprocess.DEVNULL, stderr=-1)
        await_port(self._popen, port)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.communicate(timeout=DEADLINE)

    def call(self, tag: int = 7, tool: str = "secret", **more: Any) -> tuple[int, dict[str, Any]]:
        """One request on a connection of its own, always with the same id."""
        params = {"name": tool, "arguments": {"tag": tag}, "_meta": META, **more}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request("POST", "/mcp", body, {**HEADERS, "Mcp-Name": tool})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


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
    result = message["result"]
    assert result["resultType"] == "input_required"
    (key,) = result["inputRequests"]
    return {"requestState": result["requestState"], "inputResponses": {key: accept(value)}}


def text(reply: tuple[int, dict[str, Any]]) -> str:
    status, message = reply
    assert status == 200, message
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
@pytest.mark.parametrize("key", [OTHER, ""], ids=["other-key", "no-key"])
def test_a_foreign_state_is_refused(key: str) -> None:
    with process(REDSTART_KEYS=OLD) as one, process(REDSTART_KEYS=key) as two:
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


def test_a_crowd_with_equal_ids_never_mixes() -> None:
    """Each dialogue has its own connection and the id 1, and its rounds go to the two processes in turn."""
    with process(REDSTART_KEYS=OLD) as one, process(REDSTART_KEYS=OLD) as two:
        found = asyncio.run(asyncio.wait_for(_crowd([one.port, two.port]), 50))
    assert found == [f"{tag} {tag * 3} {tag + 1000} {tag + 2000}" for tag in range(CROWD)]


async def _crowd(ports: list[int]) -> list[str]:
    asked = 0
    everyone = asyncio.Event()

    async def dialogue(tag: int) -> str:
        nonlocal asked
        more: dict[str, Any] = {}
        for turn, value in enumerate((tag + 1000, tag + 2000)):
            more = answered(await _post(ports[(tag + turn) % 2], tag, more), value)
            asked += 1
            if asked == CROWD:
                everyone.set()
            await everyone.wait()  # all dialogues are open before any goes on
        return text(await _post(ports[tag % 2], tag, more))

    return await asyncio.gather(*(dialogue(tag) for tag in range(CROWD)))


async def _post(port: int, tag: int, more: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    params = {"name": "secret", "arguments": {"tag": tag}, "_meta": META, **more}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    named = {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(body)), "Connection": "close", "Mcp-Name": "secret"}
    head = "".join(f"{name}: {value}\r\n" for name, value in (named | HEADERS).items())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        raw = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    answer, _, content = raw.partition(b"\r\n\r\n")
    return int(answer.split()[1]), json.loads(content)
