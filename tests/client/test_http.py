"""Streamable HTTP at its edges: streams in pieces, sessions that end, streams that break, redirects, headers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.support import DISCOVERED, INFO, MODERN, Request, http_server, run
from redstart.client import (
    Client,
    ClientError,
    ConnectionClosed,
    HttpError,
    InvalidReply,
    RequestError,
    SessionExpired,
    http,
)

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": INFO}
Start = Callable[..., str]
Handler = Callable[[Request], Awaitable[None]]


def modern(handler: Handler) -> Handler:
    """`handler` behind an answer to the opening question."""

    async def handle(request: Request) -> None:
        if request.message["method"] == "server/discover":
            await request.result(DISCOVERED)
        else:
            await handler(request)

    return handle


def handshake(handler: Handler, session: str | None = "s1", get: int = 405, version: str = "2025-11-25") -> Handler:
    """`handler` behind a handshake; the GET stream and DELETE are refused unless `get` is 200."""

    async def handle(request: Request) -> None:
        method = request.message and request.message.get("method")
        if method == "initialize":
            headers = {} if session is None else {"Mcp_Session_Id": session}
            await request.result({**INITIALIZED, "protocolVersion": version}, **headers)
        elif method == "notifications/initialized":
            await request.answer(202)
        elif request.method == "DELETE" or (request.method == "GET" and get != 200):
            await request.answer(405)
        else:
            await handler(request)

    return handle


def event(method: str, params: Any = None, *, at: str | None = None, id: Any = None) -> bytes:
    """A notification of the server, or its request where it has an `id`, as the server-sent event `at`."""
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return sse(message if id is None else {**message, "id": id}, at)


def answer(request: Request, result: Any, *, at: str | None = None) -> bytes:
    """The answer to `request` as the server-sent event `at`."""
    return sse({"jsonrpc": "2.0", "id": request.message["id"], "result": result}, at)


def sse(message: dict[str, Any], at: str | None) -> bytes:
    head = "" if at is None else f"id: {at}\r\n"
    return f"{head}data: {json.dumps(message, ensure_ascii=False)}\r\n\r\n".encode()


# ---------------------------------------------------------------- streams and bodies


def test_a_stream_in_single_bytes_with_comments_and_split_characters() -> None:
    async def handler(request: Request) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        stream = b": hello\r\n\r\nevent: other\ndata: not json\n\n"
        stream += event("notifications/progress", {"progressToken": token, "progress": 1})
        stream += b'data: {\ndata: "jsonrpc":"2.0","method":"notifications/x"}\n\n'
        stream += answer(request, {"content": [{"type": "text", "text": "\N{SNOWMAN}"}]})
        await request.stream(*(bytes([byte]) for byte in stream))

    async def main() -> None:
        seen: list[float] = []
        others: list[str] = []
        async with (
            http_server(modern(handler)) as url,
            Client(url, on_notification=lambda n: others.append(n.method)) as c,
        ):
            raw = await c._requests.connection.request("x/y", on_progress=lambda p: seen.append(p.progress))
            assert json.loads(bytes(raw))["content"][0]["text"] == "\N{SNOWMAN}"
            assert seen == [1]
            assert others == ["notifications/progress", "notifications/x"]

    run(main())


@pytest.mark.parametrize(
    ("status", "body", "exception", "text"),
    [
        (200, {"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": "m"}}, RequestError, "5"),
        (400, {"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": "m"}}, RequestError, "5"),
        (404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "m"}}, RequestError, "-32601"),
        (200, {"jsonrpc": "2.0", "id": 999, "result": {}}, InvalidReply, "no answer to the request"),
        (200, b"<html>", InvalidReply, "no answer to the request"),
        (202, b"", InvalidReply, "HTTP 202"),
        (500, b"<html>\n  oops", HttpError, "HTTP 500: <html> oops"),
        (401, b"", HttpError, "HTTP 401"),
        (302, b"", HttpError, "HTTP 302"),
    ],
)
def test_bodies_that_are_no_result(status: int, body: Any, exception: type[ClientError], text: str) -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.answer(status, body))) as url, Client(url) as c:
            with pytest.raises(exception, match=text):
                await c.request("x/y")

    run(main())


def test_a_token_is_a_header() -> None:
    seen: list[str] = []

    async def handler(request: Request) -> None:
        seen.append(request.headers["authorization"])
        await request.result({"resultType": "complete"})

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url, token="s3cret") as c:
            await c.request("x/y")

    run(main())
    assert seen == ["Bearer s3cret"]


def test_a_time_to_retry_without_measure_does_no_harm() -> None:
    async def handler(request: Request) -> None:
        await request.stream(b"retry: " + b"9" * 4000 + b"\n\n", answer(request, {"text": "here"}))

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url) as c:
            assert await c.request("x/y") == {"text": "here"}

    run(main())


def test_a_modern_stream_that_ends_early_is_no_answer() -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.stream(b"id: 1\ndata:\n\n"))) as url, Client(url) as c:
            with pytest.raises(ConnectionClosed, match="ended the answer to x/y early"):
                await c.request("x/y")

    run(main())


def test_a_server_that_hangs_up() -> None:
    async def handler(request: Request) -> None:
        request._writer.close()

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url) as c:
            with pytest.raises(ConnectionClosed, match="POST"):
                await c.request("x/y")

    run(main())


def test_closing_the_stream_is_the_cancellation() -> None:
    async def main() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> None:
            arrived.set()
            await request.gone()
            left.set()

        async with http_server(modern(handler)) as url, Client(url) as c:
            call = asyncio.create_task(c.request("x/y"))
            await arrived.wait()
            call.cancel()
            await left.wait()

    run(main())


# ---------------------------------------------------------------- modern headers


TOOL = {
    "name": "Köln",
    "inputSchema": {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}},
}
BROKEN = {"name": "bad", "inputSchema": {"properties": {"r": {"type": "number", "x-mcp-header": "R"}}}}
DONE = {"resultType": "complete", "content": []}


def test_modern_headers_and_one_list_for_many_calls() -> None:
    lists: list[Request] = []
    calls: list[Request] = []

    async def handler(request: Request) -> None:
        if request.message["method"] == "tools/list":
            lists.append(request)
            await request.result({"resultType": "complete", "tools": [TOOL, BROKEN]})
        else:
            calls.append(request)
            await request.result(DONE)

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url, headers={"X-Key": "k"}) as c:
            await asyncio.gather(*(c.call_tool("Köln", {"r": "ü"}) for _ in range(5)))
            await c.call_tool("Köln", {})

    run(main())
    assert len(lists) == 1
    sent = calls[0].headers
    assert sent["mcp-protocol-version"] == MODERN
    assert sent["mcp-method"] == "tools/call"
    assert sent["mcp-name"] == "=?base64?S8O2bG4=?="
    assert sent["mcp-param-region"] == "=?base64?w7w=?="
    assert sent["x-key"] == "k"
    assert "mcp-session-id" not in sent
    assert "mcp-param-region" not in calls[-1].headers


def test_tools_with_invalid_annotations_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        listed = {"resultType": "complete", "tools": [TOOL, BROKEN]}
        async with http_server(modern(lambda request: request.result(listed))) as url, Client(url) as c:
            assert [tool.name for tool in await c.list_tools()] == ["Köln"]

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "'bad' is left out" in caplog.text


@pytest.mark.parametrize("changed", [True, False])
def test_a_header_mismatch_reads_the_tools_again_and_tries_once_more(changed: bool) -> None:
    lists = 0

    async def handler(request: Request) -> None:
        nonlocal lists
        if request.message["method"] == "tools/list":
            lists += 1
            tool = TOOL if changed and lists > 1 else {**TOOL, "inputSchema": {"type": "object"}}
            await request.result({"resultType": "complete", "tools": [tool]})
        elif "mcp-param-region" in request.headers:
            await request.result(DONE)
        else:
            await request.error(400, -32020, id=request.message["id"])

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url) as c:
            if changed:
                await c.call_tool("Köln", {"r": "x"})
            else:
                with pytest.raises(RequestError, match="-32020"):
                    await c.call_tool("Köln", {"r": "x"})

    run(main())
    assert lists == 2


# ---------------------------------------------------------------- rounds of questions


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


# ---------------------------------------------------------------- sessions


def test_a_session_is_named_everywhere_and_deleted_at_the_end() -> None:
    seen: list[Request] = []

    async def handler(request: Request) -> None:
        seen.append(request)
        if request.method == "POST":
            await request.result({})
        else:
            await request.answer(405)

    async def main() -> None:
        async def record(request: Request) -> None:
            if request.method in ("GET", "DELETE"):
                seen.append(request)
            await handshake(handler)(request)

        async with http_server(record) as url, Client(url, protocol="2025-11-25", log_level="info") as c:
            await c._requests.connection.transport.listening()
            await c.ping()

    run(main())
    assert {"GET", "POST", "DELETE"} == {request.method for request in seen}
    assert seen[-1].method == "DELETE"
    assert {request.headers["mcp-session-id"] for request in seen} == {"s1"}
    assert {request.headers["mcp-protocol-version"] for request in seen} == {"2025-11-25"}
    assert any(request.message and request.message["method"] == "logging/setLevel" for request in seen)


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


def test_a_server_without_sessions_gets_no_session_header() -> None:
    seen: list[Request] = []

    async def handler(request: Request) -> None:
        seen.append(request)
        await request.result({})

    async def main() -> None:
        server = handshake(handler, session=None, version="2025-06-18")
        async with http_server(server) as url, Client(url, protocol="2025-06-18") as c:
            await c.ping()

    run(main())
    assert [request.method for request in seen] == ["POST"]
    assert "mcp-session-id" not in seen[0].headers


# ---------------------------------------------------------------- streams that go on


def test_a_broken_answer_is_resumed_where_it_broke_off() -> None:
    waiting: list[Request] = []
    resumed: list[str | None] = []

    async def handler(request: Request) -> None:
        if request.method == "POST":
            waiting.append(request)
            note = event("notifications/x", at="a/2")
            await request.stream(b"id: a/1\nretry: 1\ndata:\n\n", note)
            return
        resumed.append(request.headers.get("last-event-id"))
        if resumed[-1] is None:
            await request.answer(405)  # the GET stream of its own, which this server lacks
        elif resumed[-1] == "a/2":
            await request.stream(event("notifications/y", at="a/3"))
        else:
            await request.stream(answer(waiting[0], {"text": "at last"}, at="a/4"))

    async def main() -> None:
        heard: list[str] = []
        server = handshake(handler, get=200)
        async with (
            http_server(server) as url,
            Client(url, protocol="2025-11-25", on_notification=lambda n: heard.append(n.method)) as c,
        ):
            assert await c.request("x/y") == {"text": "at last"}
            assert heard == ["notifications/x", "notifications/y"]

    run(main())
    assert [id for id in resumed if id] == ["a/2", "a/3"]


def test_resuming_gives_up_when_the_server_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ATTEMPTS", 2)

    async def handler(request: Request) -> None:
        if request.method == "POST":
            await request.stream(b"id: 1\nretry: 1\ndata:\n\n")
        elif "last-event-id" in request.headers:
            request._writer.close()
        else:
            await request.answer(405)

    async def main() -> None:
        async with http_server(handshake(handler, get=200)) as url, Client(url, protocol="2025-11-25") as c:
            with pytest.raises(ConnectionClosed, match="GET"):
                await c.request("x/y")

    run(main())


def test_a_resumption_that_is_refused_fails_the_call() -> None:
    async def handler(request: Request) -> None:
        if request.method == "POST":
            await request.stream(b"id: 1\nretry: 1\ndata:\n\n")
        else:
            await request.answer(400, b"no such event")

    async def main() -> None:
        async with http_server(handshake(handler, get=200)) as url, Client(url, protocol="2025-11-25") as c:
            with pytest.raises(HttpError, match="no such event"):
                await c.request("x/y")

    run(main())


def test_the_get_stream_goes_on_after_a_break() -> None:
    async def main() -> None:
        ids: list[str | None] = []
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def handler(request: Request) -> None:
            ids.append(request.headers.get("last-event-id"))
            n = len(ids)
            await request.stream(b"retry: 1\n\n", event(f"notifications/{n}", at=f"g/{n}"))

        server = handshake(handler, get=200)
        async with (
            http_server(server) as url,
            Client(url, protocol="2025-11-25", on_notification=lambda n: heard.put_nowait(n.method)),
        ):
            assert [await heard.get() for _ in range(3)] == ["notifications/1", "notifications/2", "notifications/3"]
        assert ids[:3] == [None, "g/1", "g/2"]

    run(main())


def test_a_get_stream_without_ids_is_not_asked_for_again_at_once() -> None:
    streams: list[Request] = []

    async def handler(request: Request) -> None:
        if request.method == "GET":
            streams.append(request)
            await request.stream(b"retry: 3600000\n\n")
        else:
            await request.result({})

    async def main() -> None:
        server = handshake(handler, get=200)
        async with http_server(server) as url, Client(url, protocol="2025-11-25") as c, c.listen(tools=True):
            for _ in range(5):
                await c.ping()

    run(main())
    assert len(streams) == 1


def test_the_sdk_server_drops_the_stream_of_a_call(start_http: Start) -> None:
    async def main() -> None:
        async with Client(start_http("resume"), protocol="2025-11-25") as c:
            assert (await c.call_tool("drop")).text == "survived"

    run(main())


# ---------------------------------------------------------------- questions in a session


def test_a_question_on_the_stream_of_a_call_is_answered_by_a_post() -> None:
    async def main() -> None:
        answered: asyncio.Queue[Any] = asyncio.Queue()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                await request.answer(202)
                await answered.put(request)
                return
            ask = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            questions = event("elicitation/create", ask, id="q1") + event("ping", id=0) + event("x/unknown", id=5)
            await request.hold(questions)
            replies = [await answered.get() for _ in range(3)]
            assert all(r.headers["mcp-session-id"] == "s1" for r in replies)
            texts = {json.dumps(r.message, sort_keys=True) for r in replies}
            await request.more(answer(request, {"replies": sorted(texts)}))

        async with (
            http_server(handshake(handler)) as url,
            Client(url, protocol="2025-11-25", on_elicit=lambda r: {"a": 1}) as c,
        ):
            replies = [json.loads(text) for text in (await c.request("x/y"))["replies"]]
            by_id = {r["id"]: r for r in replies}
            assert by_id["q1"]["result"] == {"action": "accept", "content": {"a": 1}}
            assert by_id[0]["result"] == {}
            assert by_id[5]["error"]["code"] == -32601

    run(main())


def test_a_withdrawn_question_is_not_answered() -> None:
    async def main() -> None:
        asked, withdrawn = asyncio.Event(), asyncio.Event()
        posts: list[Any] = []

        async def elicit(request: Any) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                posts.append(request.message)
                await request.answer(202)
                return
            await request.hold(event("elicitation/create", {"message": "?"}, id=1))
            await asked.wait()
            await request.more(event("notifications/cancelled", {"requestId": 1}))
            await withdrawn.wait()
            await request.more(answer(request, {}))

        async with http_server(handshake(handler)) as url, Client(url, protocol="2025-11-25", on_elicit=elicit) as c:
            await c.request("x/y")
        assert posts == []

    run(main())


def test_a_callback_that_fails_is_an_error_for_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        answered: asyncio.Queue[Any] = asyncio.Queue()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                await answered.put(request.message)
                await request.answer(500, b"I did not want to know")  # which is logged, and no more
                return
            await request.hold(event("elicitation/create", {"message": "?"}, id=7))
            await request.more(answer(request, {"reply": await answered.get()}))

        def broken(request: Any) -> None:
            raise LookupError("a secret")

        server = handshake(handler)
        async with http_server(server) as url, Client(url, protocol="2025-11-25", on_elicit=broken) as c:
            reply = (await c.request("x/y"))["reply"]
            assert reply["error"] == {"code": -32603, "message": "elicitation/create: LookupError"}

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "a secret" in caplog.text


def test_a_modern_server_may_not_ask_by_request(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Request) -> None:
        await request.stream(event("elicitation/create", {"message": "?"}, id=7), answer(request, {}))

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url, on_elicit=lambda r: {}) as c:
            await c.request("x/y")

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "does not allow" in caplog.text


def test_a_notification_that_is_refused() -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.answer(500, b"no"))) as url, Client(url) as c:
            with pytest.raises(HttpError, match="HTTP 500: no"):
                await c.notify("notifications/x")

    run(main())


# ---------------------------------------------------------------- where to


def test_a_redirect_on_the_same_origin_is_followed_and_no_other() -> None:
    async def main() -> None:
        elsewhere: list[Request] = []

        async def other(request: Request) -> None:
            elsewhere.append(request)
            await request.answer(500)

        async def handler(request: Request) -> None:
            if request.path == "/mcp":
                await request.answer(307, Location="/mcp/")
            elif request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
            elif request.message["method"] == "x/loop":
                await request.answer(308, Location="/mcp/")
            else:
                await request.answer(307, Location=other_url)

        async with http_server(other) as other_url, http_server(handler) as url, Client(url) as c:
            with pytest.raises(HttpError, match=f"redirect to {other_url}"):
                await c.request("x/y")
            with pytest.raises(HttpError, match="too many redirects"):
                await c.request("x/loop")
        assert elsewhere == []

    run(main())


def test_without_httpx2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for module in ("http", "http_endpoint", "http_sse"):
        monkeypatch.delitem(sys.modules, f"redstart.client.{module}", raising=False)
    with pytest.raises(ClientError, match=r'pip install "redstart\[client\]"'):
        Client("http://127.0.0.1:1/mcp")


# ---------------------------------------------------------------- the first revision's transport


@pytest.mark.parametrize("protocol", ["auto", "2024-11-05"])
def test_the_sdk_server_with_the_two_endpoints_of_the_first_revision(start_http: Start, protocol: str) -> None:
    async def main() -> None:
        async with Client(start_http("sse"), protocol=protocol, on_elicit=lambda r: {"name": "Ada"}) as c:
            assert c.protocol_version == ("2025-11-25" if protocol == "auto" else protocol)
            answers = await asyncio.gather(*(c.call_tool("add", {"a": i}) for i in range(10)))
            assert [answer.data for answer in answers] == [i + 2 for i in range(10)]
            if protocol == "auto":
                assert (await c.call_tool("greet")).text == "Hello Ada, True"

    run(main())


def first_revision(get: Handler) -> Handler:
    """A server that knows GET alone."""

    async def handle(request: Request) -> None:
        if request.method == "GET":
            await get(request)
        else:
            await request.answer(405)

    return handle


@pytest.mark.parametrize(
    ("get", "exception", "text"),
    [
        (lambda request: request.answer(404, b"nothing here"), HttpError, "HTTP 405"),
        (lambda request: request.stream(b": nothing\n\n"), HttpError, "HTTP 405"),
        (lambda request: request.hold(b"event: endpoint\ndata: http://127.0.0.2/x\n\n"), HttpError, "HTTP 405"),
        (lambda request: request.stream(b"event: endpoint\ndata: /messages\n\n"), ClientError, "ended its stream|405"),
    ],
)
def test_a_server_that_only_looks_like_the_first_revision(
    get: Handler, exception: type[ClientError], text: str
) -> None:
    async def main() -> None:
        async with http_server(first_revision(get)) as url, Client(url):
            pass

    with pytest.raises(exception, match=text):
        run(main())
