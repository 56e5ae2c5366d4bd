"""A relay in front of a server that means harm: what it sends is its own business, and the next answer comes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from redstart.client import relay as relays
from redstart.client.relay import Relay
from redstart.client.stdio import StdioTransport
from redstart.wire.jsonrpc import ProtocolError, decode
from support import run

SERVER = """
import json, sys
lines, got = open(sys.argv[1], "rb").read(), []
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "method" not in asked:
        got.append(asked["error"]["message"])
        continue
    result = got if asked["method"] == "got" else json.loads(sys.argv[2])
    before = b"" if asked["method"] == "got" else lines
    answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
    sys.stdout.buffer.write(before + answer + b"\\n")
    sys.stdout.buffer.flush()
"""


class Silent:
    """Who sends a request, and never answers a question."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.asked = 0

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self.told.append((method, params))

    async def ask(self, method: str, params: Raw) -> Raw:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def relayed(folder: Path, lines: bytes, result: object = "fine") -> AsyncIterator[tuple[Relay, list[Any]]]:
    (folder / "lines").write_bytes(lines)
    command = [sys.executable, "-c", SERVER, str(folder / "lines"), json.dumps(result)]
    unasked: list[Any] = []
    transport = StdioTransport(command, {"env": None, "cwd": None, "stderr": "capture"})
    relay = Relay(transport, lambda *told: unasked.append(told))
    await relay.open()
    try:
        yield relay, unasked
    finally:
        await relay.close()


HOSTILE = [
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[1]}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{"a":1}}}',
    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":[]}}}',
    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}}",
    b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}',
    b'{"jsonrpc":"2.0","method":"notifications/\xff"}',
    b'{"jsonrpc":"2.0","id":[1],"result":{}}',
    b'{"jsonrpc":"2.0","id":true,"result":"of nobody"}',
    b"not JSON",
    b"\xff\xfe",
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:70]))
def test_a_message_that_cannot_be_read_does_not_take_the_next_one_with_it(tmp_path: Path, line: bytes) -> None:
    async def main() -> None:
        async with relayed(tmp_path, line + b"\n") as (relay, _):
            for _ in range(2):
                found = await relay.request("a", "tools/list", b"{}", {}, Silent(), modern=True)
                assert decode(found) == "fine"

    run(main())


DEEP = b"[" * 20_000 + b"]" * 20_000


FAR = b'"x":"' + b"x" * 300 + b'"'


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":%b}',
        b'{"result": %b, "id": 1 }\r',
        b"{" + FAR + b',"id":1,"result":%b,' + FAR + b"}",
        b'[{"id":2,"result":{}},{"id":1,"result":%b}]',
    ],
    ids=["before", "behind", "far", "batch"],
)
def test_an_answer_that_is_nested_too_deeply_ends_its_request(tmp_path: Path, line: bytes) -> None:
    async def main() -> None:
        async with relayed(tmp_path, line % DEEP + b"\n") as (relay, _):
            with pytest.raises(ProtocolError, match="nested too deeply"):
                await relay.request("a", "tools/list", b"{}", {}, Silent(), modern=True)

    run(main())


@pytest.mark.parametrize("line", [b'{"id":1,"method":"x","params":%b}', b'{"params":%b,"method":"x","id":1}'])
def test_a_question_that_is_nested_too_deeply_ends_no_request(tmp_path: Path, line: bytes) -> None:
    """Its id is the server's own, and may be that of a request."""

    async def main() -> None:
        async with relayed(tmp_path, line % DEEP + b"\n") as (relay, _):
            assert decode(await relay.request("a", "tools/list", b"{}", {}, Silent(), modern=True)) == "fine"

    run(main())


@pytest.mark.parametrize("result", [[], "x", None, {"protocolVersion": 5}, {"protocolVersion": "1\r\nx: y"}])
def test_an_answer_to_the_handshake_that_is_none(tmp_path: Path, result: object) -> None:
    async def main() -> None:
        async with relayed(tmp_path, b"", result) as (relay, _):
            found = await relay.request("a", "initialize", b"{}", {}, Silent(), modern=False)
            assert decode(found) == result

    run(main())


def test_questions_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that nobody answers end with the request that they belong to."""
    monkeypatch.setattr(relays, "MAX_QUESTIONS", 3)
    lines = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}\n' % n for n in range(10))
    requester = Silent()

    async def main() -> list[str]:
        async with relayed(tmp_path, lines) as (relay, _):
            for _ in range(2):  # the room of the first ones is free again
                await relay.request("a", "tools/list", b"{}", {}, requester, modern=False)
            got: list[str] = []
            while len(got) < 20:
                got = decode(await relay.request("a", "got", b"{}", {}, requester, modern=False))
            return got

    got = run(main())
    assert sum("Too many questions" in text for text in got) == 14
    assert sum("has been answered" in text for text in got) == 6
    assert requester.asked == 6


def test_a_server_that_refuses_in_its_own_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with relayed(tmp_path, b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}\n') as (relay, _):
            with pytest.raises(ProtocolError, match="cannot be read"):
                await relay.request("a", "tools/list", b"{}", {}, Silent(), modern=True)

    run(main())
