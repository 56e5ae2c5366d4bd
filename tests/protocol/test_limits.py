"""What a peer names is bounded in length, and a batch in its messages and in the size of its answers."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from protocol.support import Wire, headers, modern, notification, request
from redstart import Server
from redstart.protocol.call import Batch
from redstart.transports.memory import MemoryPeer
from support import HANDSHAKES

LATEST, BATCHES = HANDSHAKES[-1], HANDSHAKES[1]
LONG: dict[str, tuple[str, Any, Any]] = {
    "progress token": ("tools/call", {"name": "echo", "_meta": {"progressToken": "x" * 257}}, "progressToken"),
    "progress number": ("tools/call", {"name": "echo", "_meta": {"progressToken": 2**53 + 1}}, "progressToken"),
    "tool": ("tools/call", {"name": "x" * 257}, "name"),
    "prompt": ("prompts/get", {"name": "x" * 257}, "name"),
    "resource": ("resources/read", {"uri": "x:" + "y" * 8192}, "uri"),
    "subscription": ("resources/subscribe", {"uri": "x:" + "y" * 8192}, "uri"),
    "unsubscription": ("resources/unsubscribe", {"uri": "x:" + "y" * 8192}, "uri"),
    "cursor": ("tools/list", {"cursor": "x" * 4097}, "cursor"),
    "completed prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "x" * 257}, "argument": {"name": "a", "value": ""}},
        "ref.name",
    ),
    "completed template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "x" * 8193}, "argument": {"name": "a", "value": ""}},
        "ref.uri",
    ),
    "completed argument": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x" * 257, "value": ""}},
        "argument.name",
    ),
}


@pytest.mark.parametrize("what", LONG)
def test_what_is_too_long_is_refused_in_words(what: str) -> None:
    method, params, named = LONG[what]
    answer = Wire(LATEST).one(request(1, method, params))
    assert answer["error"]["code"] == -32602
    assert len(answer["error"]["message"]) < 200
    assert named in answer["error"]["message"]
    assert any(number in answer["error"]["message"] for number in ("256", "8192", "4096", str(2**53)))


def test_a_modern_request_is_refused_with_its_own_code() -> None:
    wire = Wire()
    meta = {**json.loads(modern(1, "x"))["params"]["_meta"], "progressToken": "x" * 257}
    data = modern(1, "tools/call", {"name": "echo"}, meta)
    assert wire.outcome(data, headers("tools/call", "echo")) == (400, -32602)
    listen = modern(2, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x" * 8193]}})
    assert wire.code(listen, headers("subscriptions/listen")) == -32602


def test_what_is_just_short_enough_is_served() -> None:
    wire = Wire(LATEST)
    assert wire.code(request(1, "tools/call", {"name": "echo", "_meta": {"progressToken": "x" * 256}})) == 0
    assert wire.code(request(2, "tools/call", {"name": "echo", "_meta": {"progressToken": -(2**53)}})) == 0


def subscriber() -> Wire:
    server = Server("notes", version="1")

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        return name

    return Wire(LATEST, server)


def test_one_session_subscribes_to_so_much_and_no_more() -> None:
    wire = subscriber()
    uris = [f"notes://{n}{'x' * 8000}" for n in range(40)]
    codes = [wire.code(request(n, "resources/subscribe", {"uri": uri})) for n, uri in enumerate(uris)]
    assert codes[:16] == [0] * 16
    assert codes[16:] == [-32602] * 24
    assert wire.code(request("again", "resources/subscribe", {"uri": uris[0]})) == 0  # twice is once
    assert wire.code(request("less", "resources/unsubscribe", {"uri": uris[0]})) == 0
    assert wire.code(request("more", "resources/subscribe", {"uri": uris[20]})) == 0


def test_one_session_subscribes_to_so_many_and_no_more() -> None:
    wire = subscriber()
    codes = [wire.code(request(n, "resources/subscribe", {"uri": f"notes://{n}"})) for n in range(1030)]
    assert codes == [0] * 1024 + [-32602] * 6


# ---------------------------------------------------------------- batches


def batch(*parts: bytes) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def test_a_batch_has_so_many_messages() -> None:
    wire = Wire(BATCHES)
    (answers,) = wire.send(batch(*(notification("notifications/x") for _ in range(255)), request(1, "ping")))
    assert [answer["id"] for answer in answers] == [1]
    refused = wire.one(batch(*(request(n, "ping") for n in range(257))))
    assert refused["error"]["code"] == -32600
    assert "256" in refused["error"]["message"]


def test_a_batch_of_too_many_is_refused_before_it_takes_memory() -> None:
    wire = Wire(BATCHES)
    data = b"[" + b"1," * 2_000_000 + b"1]"
    tracemalloc.start()
    try:
        assert wire.code(data) == -32600
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_the_answers_of_a_batch_have_a_size_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "max_bytes", 10_000)
    server = Server("long", version="1")

    ran = 0

    @server.tool
    async def long(size: int) -> str:
        nonlocal ran
        ran += 1
        return "x" * size

    async def test() -> list[Any]:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        await server.runtime.start()
        peer = MemoryPeer(server, lambda data: answered.set_result(data) if data[:1] == b"[" else None)
        peer.send(request(0, "initialize", {"protocolVersion": BATCHES, "capabilities": {}}))
        calls = (request(n, "tools/call", {"name": "long", "arguments": {"size": 4000}}) for n in range(1, 51))
        peer.send(batch(*calls))
        try:
            data = await asyncio.wait_for(answered, 10)
        finally:
            await server.runtime.stop()
        assert len(data) < 30_000
        answers: list[Any] = json.loads(data)
        return answers

    answers = asyncio.run(test())
    assert sorted(answer["id"] for answer in answers) == list(range(1, 51))
    assert sum("result" in answer for answer in answers) == 2
    assert ran == 3  # the third is one too many, and the others would have run for nothing
    assert {"by itself" in answer["error"]["message"] for answer in answers if "error" in answer} == {True}


def test_one_large_answer_is_not_lost_because_it_came_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "max_bytes", 1000)
    (answers,) = Wire(BATCHES).send(
        batch(request(1, "tools/call", {"name": "echo", "arguments": {"text": "x" * 5000}}))
    )
    assert len(answers[0]["result"]["content"][0]["text"]) == 5000
