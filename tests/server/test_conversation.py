"""A whole conversation as bytes: what is answered, in which order, under which id, and what ends with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from redstart import Server, Tool
from redstart.transports.memory import MemoryPeer
from support import ERAS, NOVEMBER, REVISIONS, ask, capabilities, exchange, initialize, message, run
from transports.support import Http


def greeting() -> Server:
    server = Server("greeting", version="2.1", instructions="Say hello.")

    @server.tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


async def answers(server: Server, *messages: bytes, count: int) -> list[Any]:
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    peer = MemoryPeer(server, inbox.put_nowait)
    for one in messages:
        peer.send(one)
    found = [json.loads(await inbox.get()) for _ in range(count)]
    await peer.close()
    await server.runtime.stop()
    return found


@pytest.mark.requirement("7", "14", "16", "T3")
def test_the_first_three_requests_of_a_session_are_answered_in_order() -> None:
    said = (initialize(id="init"), message(2, "ping"), message("three", "tools/list"))
    first, second, third = run(answers(greeting(), *said, count=3))
    assert [answer["id"] for answer in (first, second, third)] == ["init", 2, "three"]
    assert first["result"]["protocolVersion"] == NOVEMBER
    assert first["result"]["serverInfo"] == {"name": "greeting", "version": "2.1"}
    assert first["result"]["instructions"] == "Say hello."
    assert second["result"] == {}
    assert [tool["name"] for tool in third["result"]["tools"]] == ["greet", "add"]


@pytest.mark.requirement("15", "24")
@pytest.mark.parametrize("name", ["notifications/initialized", "initialized", "notifications/no-such", "no/such"])
def test_a_notification_is_never_answered_known_or_not(name: str) -> None:
    said = (initialize(), message(None, name), message(2, "ping"))
    assert [answer["id"] for answer in run(answers(greeting(), *said, count=2))] == ["init", 2]


@pytest.mark.requirement("24", "25")
@pytest.mark.parametrize("era", ERAS)
def test_what_is_unknown_or_incomplete_has_its_code(era: str) -> None:
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("no/such", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "none"}, -32602),
    ]
    for method, params, code in cases:
        assert exchange(greeting(), era, [(method, params)])[0]["error"]["code"] == code, method


@pytest.mark.requirement("17", "18")
@pytest.mark.parametrize("era", ERAS)
def test_tools_are_listed_and_called(era: str) -> None:
    first, second = ask(greeting(), era, "tools/list")["tools"]
    assert (first["name"], first["description"]) == ("greet", "Greet somebody.")
    assert first["inputSchema"]["required"] == ["name"]
    assert second["name"] == "add"
    result = ask(greeting(), era, "tools/call", name="greet", arguments={"name": "world"})
    assert result["content"] == [{"type": "text", "text": "Hello, world!"}]
    assert "isError" not in result


@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision != NOVEMBER])
def test_no_tasks_are_offered_to_revisions_that_have_none(revision: str) -> None:
    server = Server("tasks", tools=Tool("job", handler=lambda: "done", task="optional"))
    assert "tasks" not in capabilities(server, revision)
    (tool,) = ask(server, revision, "tools/list")["tools"]
    assert "execution" not in tool


@pytest.mark.requirement("T10", "T11")
def test_the_end_of_a_connection_ends_its_session() -> None:
    async def test() -> None:
        server = greeting()
        inbox: asyncio.Queue[bytes] = asyncio.Queue()
        peer = MemoryPeer(server, inbox.put_nowait)
        peer.send(initialize())
        await inbox.get()
        assert peer.link.session is not None
        await peer.close()
        assert not server.runtime.hub.peers
        for stopped in (False, True):
            if stopped:
                await server.runtime.stop()
            peer.send(message(None, "notifications/initialized"))  # too late: it revives nothing
            peer.send(message(2, "tools/list"))
            await asyncio.sleep(0)
            assert inbox.empty()
            assert not server.runtime.hub.peers
        assert not server.runtime.started
        (refusal,) = await answers(server, message(1, "tools/list", {}), count=1)  # another connection starts anew
        assert refusal["error"]["code"] == -32600

    run(test())


@pytest.mark.requirement("T10", "T11")
def test_an_ended_http_session_stays_ended() -> None:
    async def test() -> None:
        server = greeting()
        http = Http(server.asgi())
        session = await http.open()
        assert (await http.send(method="DELETE", headers=session)).status == 200
        for body in (message(None, "notifications/initialized"), message(2, "tools/list")):
            assert (await http.send(body, headers=session)).status == 404
        assert not server.runtime.hub.peers
        await server.runtime.stop()

    run(test())
