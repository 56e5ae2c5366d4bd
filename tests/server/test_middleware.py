"""Middleware: its order, that it sees every method and its result, and that it may refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from features.support import ERAS, HANDSHAKE, MODERN, ask, converse, refused, talk
from redstart import ProtocolError, Server, ToolError


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
    talk(server, era, requests)
    assert set(seen) == {method for method, _ in requests} | ({"initialize"} if era == HANDSHAKE else set())
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
        await converse(server, era, [("tools/list", {})])

        @server.add_middleware
        async def watch(call: Any, next: Any) -> Any:
            seen.append(call.method.name)
            return await next(call)

        await converse(server, era, [("tools/list", {})])
        assert seen[-1] == "tools/list"

        @server.resource("late://{x}")
        def late(x: str) -> str:
            return x

        (answer,) = await converse(server, era, [("resources/read", {"uri": "late://1"})])
        assert answer["result"]["contents"][0]["text"] == "1"
        assert seen[-1] == "resources/read"
        await server.host.stop()

    asyncio.run(test())
