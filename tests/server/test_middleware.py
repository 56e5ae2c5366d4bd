"""Middleware: its order, that it sees every method and its result, and that it may refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redstart import (
    Call,
    Client,
    ListResult,
    Next,
    ProtocolError,
    RegistrationError,
    Result,
    Server,
    Text,
    ToolError,
    ToolResult,
)
from support import ERAS, MODERN, NOVEMBER, Peer, ask, exchange, exchanged, refused


def desk(**options: Any) -> Server:
    server = Server("desk", **options)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fail() -> None:
        raise ToolError("no")

    @server.prompt
    def review() -> str:
        return "review"

    @server.resource("notes://one")
    def note() -> str:
        return "one"

    return server


@pytest.mark.parametrize("era", ERAS)
def test_the_first_is_outermost(era: str) -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def wrap(call: Any, next: Any) -> Any:
            order.append(f"{name} in")
            try:
                return await next(call)
            finally:
                order.append(f"{name} out")

        return wrap

    server = desk(middleware=[layer("a"), layer("b")])
    server.add_middleware(layer("c"))
    ask(server, era, "prompts/get", name="review")
    assert order[-6:] == ["a in", "b in", "c in", "c out", "b out", "a out"]


@pytest.mark.parametrize("era", ERAS)
def test_it_sees_every_method_and_every_result(era: str) -> None:
    server = desk()
    seen: dict[str, str] = {}

    @server.add_middleware
    async def watch(call: Any, next: Any) -> Any:
        try:
            result = await next(call)
        except ProtocolError as error:
            seen[call.method.name] = str(error.code)
            raise
        seen[call.method.name] = type(result).__name__
        return result

    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "none"}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "notes://one"}),
        ("server/discover", {}) if era == MODERN else ("ping", {}),
    ]
    exchange(server, era, requests)
    assert set(seen) == {method for method, _ in requests} | ({"initialize"} if era == NOVEMBER else set())
    assert (seen["tools/call"], seen["prompts/get"]) == ("ToolResult", "-32602")


@pytest.mark.parametrize("era", ERAS)
def test_it_may_refuse_or_change_what_comes_back(era: str) -> None:
    server = desk()

    @server.add_middleware
    async def gate(call: Any, next: Any) -> Any:
        if call.method.name == "prompts/get":
            raise ProtocolError(-32001, "not today")
        result = await next(call)
        if call.method.name == "tools/call":
            result.meta = {"com.example/seen": True}
        return result

    error = refused(server, era, "prompts/get", name="review")
    assert (error["code"], error["message"]) == (-32001, "not today")
    result = ask(server, era, "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert result["_meta"]["com.example/seen"] is True
    assert result["content"][0]["text"] == "3"
    assert ask(server, era, "tools/call", name="fail")["isError"] is True


def test_a_layer_that_fails_is_an_error_with_an_id_and_no_more() -> None:
    server = desk()

    @server.add_middleware
    async def broken(call: Any, next: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    error = refused(server, MODERN, "tools/list")
    assert error["code"] == -32603
    assert "RuntimeError" in error["message"]
    assert "error id" in error["message"]
    assert "hunter2" not in error["message"]


@pytest.mark.parametrize("era", ERAS)
def test_one_added_while_the_server_runs_counts_at_once(era: str) -> None:
    async def test() -> None:
        server = desk()
        seen: list[str] = []
        await exchanged(server, era, [("tools/list", {})])

        @server.add_middleware
        async def watch(call: Any, next: Any) -> Any:
            seen.append(call.method.name)
            return await next(call)

        await exchanged(server, era, [("tools/list", {})])
        assert seen[-1] == "tools/list"

        watching = await Peer(server, NOVEMBER).open()

        @server.resource("late://{x}")
        def late(x: str) -> str:
            return x

        while not watching.notices:  # who comes after that is not told of the change
            await asyncio.sleep(0)
        await watching.close()
        (answer,) = await exchanged(server, era, [("resources/read", {"uri": "late://1"})])
        assert answer["result"]["contents"][0]["text"] == "1"
        assert seen[-1] == "resources/read"
        await server.runtime.stop()

    asyncio.run(test())


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("era", ERAS)
def test_a_call_says_what_is_asked_for(era: str) -> None:
    server = desk()
    seen: dict[str, Any] = {}

    @server.add_middleware
    async def watch(call: Call, next: Next) -> Result:
        seen[call.method] = (call.name, call.uri, dict(call.arguments), call.user)
        return await next(call)

    ask(server, era, "tools/call", name="add", arguments={"a": 1, "b": 2})
    ask(server, era, "prompts/get", name="review", arguments={})
    ask(server, era, "resources/read", uri="notes://one")
    ask(server, era, "tools/list")
    assert seen["tools/call"] == ("add", None, {"a": 1, "b": 2}, None)
    assert seen["prompts/get"] == ("review", None, {}, None)
    assert seen["resources/read"] == (None, "notes://one", {}, None)
    assert seen["tools/list"] == (None, None, {}, None)


def test_it_knows_the_user() -> None:
    server = desk(auth=lambda token: token)
    seen: list[Any] = []

    @server.add_middleware
    async def watch(call: Call, next: Next) -> Result:
        seen.append(call.user)
        return await next(call)

    async def test() -> None:
        async with Client(server, user="ada") as client:
            await client.list_tools()

    asyncio.run(test())
    assert set(seen) == {"ada"}


@pytest.mark.parametrize("era", ERAS)
def test_arguments_are_changed_by_assigning_others(era: str) -> None:
    server = desk()

    @server.prompt
    def hail(name: str) -> str:
        return f"Hail {name}"

    @server.add_middleware
    async def change(call: Call, next: Next) -> Result:
        if call.name == "add":
            call.arguments = {**call.arguments, "b": 40}
        elif call.name == "hail":
            call.arguments = {"name": "you"}
        return await next(call)

    assert ask(server, era, "tools/call", name="add", arguments={"a": 1, "b": 2})["content"][0]["text"] == "41"
    hailed = ask(server, era, "prompts/get", name="hail", arguments={"name": "me"})
    assert hailed["messages"][0]["content"]["text"] == "Hail you"


def test_arguments_are_not_changed_in_place() -> None:
    server = desk()
    errors: list[Exception] = []

    @server.add_middleware
    async def change(call: Call, next: Next) -> Result:
        try:
            call.arguments["b"] = 40  # type: ignore[index]
        except TypeError as error:
            errors.append(error)
        try:
            call.arguments = {}
        except AttributeError as error:
            errors.append(error)
        return await next(call)

    ask(server, MODERN, "tools/list")
    assert "mappingproxy" in str(errors[0])
    assert str(errors[1]) == "a request tools/list has no arguments"


@pytest.mark.parametrize("era", ERAS)
def test_lists_are_objects_that_can_be_changed(era: str) -> None:
    server = desk(page_size=1)

    @server.add_middleware
    async def hide(call: Call, next: Next) -> Result:
        result: Result = await next(call)
        if isinstance(result, ListResult) and result.tools:
            result.tools = [tool for tool in result.tools if tool.name != "add"]
        return result

    first = ask(server, era, "tools/list")
    assert first["tools"] == []
    second = ask(server, era, "tools/list", cursor=first["nextCursor"])
    assert [tool["name"] for tool in second["tools"]] == ["fail"]
    error = refused(server, era, "tools/list", cursor="")
    assert "cursor" in error["message"]


@pytest.mark.parametrize("era", ERAS)
def test_it_may_answer_by_itself(era: str) -> None:
    server = desk()

    @server.add_middleware
    async def known(call: Call, next: Next) -> Result:
        if call.method == "tools/call":
            return ToolResult(content=[Text("from the cache")])
        return await next(call)

    assert ask(server, era, "tools/call", name="add")["content"] == [{"type": "text", "text": "from the cache"}]


async def forgetful(call: Call, next: Next) -> Any:
    result = await next(call)
    return result if call.method == "initialize" else None


async def loose(call: Call, next: Next) -> Any:
    result = await next(call)
    return result if call.method == "initialize" else {"tools": []}


def plain(call: Call, next: Next) -> Any:
    return next(call) if call.method == "initialize" else None


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (forgetful, "it returned None; write `return await next(call)`"),
        (loose, "it returned a dict; write `return await next(call)`"),
        (plain, "it returned None; write `async def`, or return `next(call)`"),
    ],
    ids=["forgotten return", "not a result", "not awaitable"],
)
@pytest.mark.parametrize("era", ERAS)
def test_a_broken_contract_is_an_error_that_names_the_layer(
    era: str, layer: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def outer(call: Call, next: Next) -> Result:
        return await next(call)

    error = refused(desk(middleware=[outer, layer]), era, "tools/list")
    assert error["code"] == -32603
    assert "MiddlewareError" in error["message"]
    assert words in caplog.text
    assert f"in the middleware {layer.__name__} (" in caplog.text
    assert "in the middleware outer" not in caplog.text


def test_a_layer_that_fails_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = desk()

    @server.add_middleware
    async def broken(call: Call, next: Next) -> Result:
        raise RuntimeError("no room")

    refused(server, MODERN, "tools/list")
    assert "in the middleware broken (" in caplog.text
    assert "test_middleware.py:" in caplog.text


class Old:
    async def on_call_tool(self, context: Any, call_next: Any) -> Any: ...


class Callable_:
    async def __call__(self, call: Call, next: Next) -> Result:
        return await next(call)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda call: None, "cannot be called with (call, next)"),
        (lambda call, next, more: None, "cannot be called with (call, next)"),
        (Old(), "Old is not a function"),
        (Callable_, "is a class"),
        ("timed", "str is not a function"),
    ],
    ids=["one parameter", "three", "an object of another library", "a class", "a text"],
)
def test_what_cannot_be_middleware_is_refused_when_it_is_added(layer: Any, words: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        desk(middleware=[layer])
    assert words in str(caught.value)
    assert "async def layer(call, next)" in str(caught.value)
    with pytest.raises(RegistrationError):
        desk().add_middleware(layer)


def test_an_object_that_can_be_called_is_middleware() -> None:
    assert len(ask(desk(middleware=[Callable_()]), MODERN, "tools/list")["tools"]) == 2
