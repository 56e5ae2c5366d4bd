"""From a request to its result: rounds of questions, sessions that end, pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.support import INITIALIZED, Handler, Request, handshake_client, http_server, modern, python
from redstart.client import Client, ClientError, InvalidReply, SessionExpired, requests
from support import run

DONE = {"resultType": "complete", "content": []}


def test_rounds_have_new_ids_and_echo_the_state() -> None:
    seen: list[Any] = []

    async def handler(request: Request) -> None:
        message, params = request.message, request.message["params"]
        ask = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
        result: dict[str, Any] = {"resultType": "input_required"}
        if message["method"] == "tools/list":
            await request.result({"resultType": "complete", "tools": []})
            return
        seen.append(message)
        if "requestState" not in params:
            result |= {"requestState": "s1", "inputRequests": {"a": ask, "b": ask}}
        elif params["requestState"] == "s1":
            result |= {"requestState": "s2"}
        else:
            result = DONE
        await request.result(result)

    async def main() -> None:
        both = asyncio.Barrier(2)

        async def elicit(question: Any) -> dict[str, str]:
            await both.wait()  # the two are asked at the same time, or never
            return {"key": question.key}

        async with http_server(modern(handler)) as url, Client(url, on_elicit=elicit) as c:
            await c.call_tool("t", {"x": 1}, meta={"traceparent": "00-1"})

    run(main())
    assert len({message["id"] for message in seen}) == 3
    first, second, third = (message["params"] for message in seen)
    assert second["inputResponses"] == {
        "a": {"action": "accept", "content": {"key": "a"}},
        "b": {"action": "accept", "content": {"key": "b"}},
    }
    assert third["inputResponses"] == {}
    assert third["requestState"] == "s2"
    assert first["arguments"] == second["arguments"] == third["arguments"] == {"x": 1}
    assert all(params["_meta"]["traceparent"] == "00-1" for params in (first, second, third))


@pytest.mark.parametrize(
    ("result", "exception", "text"),
    [
        ({"resultType": "later"}, InvalidReply, "resultType 'later'"),
        ({"resultType": "input_required", "inputRequests": {"a": {}}}, InvalidReply, "question 'a' has no method"),
        (
            {"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/createMessage"}}},
            ClientError,
            "does not answer sampling/createMessage",
        ),
        (
            {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}},
            ClientError,
            "still asks after 3 rounds",
        ),
        (
            {
                "resultType": "input_required",
                "inputRequests": {"a": {"method": "roots/list", "params": {"message": "That is no number."}}},
            },
            ClientError,
            "still asks after 3 rounds: That is no number.",
        ),
    ],
)
def test_rounds_that_lead_nowhere(result: Any, exception: type[ClientError], text: str) -> None:
    async def main() -> None:
        handler = modern(lambda request: request.result(result))
        async with http_server(handler) as url, Client(url, roots=[], max_rounds=3) as c:
            with pytest.raises(exception, match=text):
                await c.read_resource("a:b")

    run(main())


def test_nobody_is_asked_for_a_round_that_will_not_be_sent() -> None:
    question = {"method": "elicitation/create", "params": {"message": "Again?", "requestedSchema": {}}}
    asked: list[str] = []

    def answer(request: Any) -> str:
        asked.append(request.message)
        return "decline"

    async def main() -> None:
        handler = modern(
            lambda request: request.result({"resultType": "input_required", "inputRequests": {"a": question}})
        )
        async with http_server(handler) as url, Client(url, on_elicit=answer, max_rounds=3) as c:
            with pytest.raises(ClientError, match=r"still asks after 3 rounds: Again\?"):
                await c.read_resource("a:b")

    run(main())
    assert len(asked) == 3


def test_questions_are_not_allowed_everywhere() -> None:
    async def main() -> None:
        handler = modern(lambda request: request.result({"resultType": "input_required", "requestState": "s"}))
        async with http_server(handler) as url, Client(url) as c:
            with pytest.raises(InvalidReply, match="tools/list"):
                await c.list_tools()

    run(main())


def forgetful() -> tuple[Handler, list[str]]:
    """A server that forgets its first session after the handshake."""
    made: list[str] = []
    done: list[str] = []

    async def handle(request: Request) -> None:
        method = request.message and request.message.get("method")
        if method == "initialize":
            made.append(f"s{len(made) + 1}")
            await request.result(INITIALIZED, Mcp_Session_Id=made[-1])
        elif request.method != "POST":
            await request.answer(405)
        elif method == "notifications/initialized":
            await request.answer(202)
        elif request.headers["mcp-session-id"] == "s1":
            await request.error(404, -32600)
        else:
            done.append(method)
            await request.result({"tools": [], "content": []})

    return handle, done


def test_a_forgotten_session_is_opened_again_for_what_can_be_repeated() -> None:
    handler, done = forgetful()

    async def main() -> None:
        async with http_server(handler) as url, Client(url, protocol="2025-11-25") as c:
            await asyncio.gather(*(c.list_tools() for _ in range(5)))
            assert done == ["tools/list"] * 5

    run(main())


def test_a_forgotten_session_fails_a_tool_call_but_not_the_next() -> None:
    handler, done = forgetful()

    async def main() -> None:
        async with http_server(handler) as url, Client(url, protocol="2025-11-25") as c:
            with pytest.raises(SessionExpired, match="a new one is open now, but tools/call was not repeated"):
                await c.call_tool("t")
            await c.call_tool("t")
            assert done == ["tools/call"]

    run(main())


def test_a_list_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_PAGES", 3)
    script = """
for number, line in enumerate(sys.stdin):
    m = json.loads(line)
    if "id" in m:
        say(m["id"], INITIALIZED if m["method"] == "initialize" else {"prompts": [], "nextCursor": str(number)})
"""

    async def main() -> None:
        async with handshake_client(python(script)) as c:
            with pytest.raises(ClientError, match="more than 3 pages"):
                await c.list_prompts()

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
        async with handshake_client(python(script)) as c:
            assert [tool.name for tool in await c.list_tools()] == ["a", "b", "c", "d"]
            with pytest.raises(ClientError, match="cursor 'again' twice"):
                await c.list_prompts()

    run(main())
