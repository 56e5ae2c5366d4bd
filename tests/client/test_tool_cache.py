"""What a client remembers of tools: arguments that go into headers, results that are wrapped."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from msgspec import UNSET

from client.support import Request, http_server, modern
from redstart.client import Client, InvalidReply, RequestError
from redstart.client.tool_cache import ToolCache, is_wrapped
from redstart.wire import types as t
from support import MODERN, run

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


def test_a_schema_that_is_nested_too_deeply_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    schema: dict[str, object] = {}
    for _ in range(5000):
        schema = {"not": schema}
    deep, plain = t.ListedTool("deep", input_schema=schema), t.ListedTool("plain", input_schema={})

    async def fetch() -> None:
        raise AssertionError("the tools are known")

    async def main() -> None:
        cache = ToolCache(fetch)
        assert cache.learn([deep, plain], http=True, modern=True) == [plain]
        assert (await cache.get("plain")).wrapped is False

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "'deep' is left out" in caplog.text


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


RESULT = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}


@pytest.mark.parametrize(
    ("schema", "wrapped"),
    [
        ({**RESULT, "title": "addOutput"}, True),
        ({**RESULT, "x-fastmcp-wrap-result": True}, True),
        ({**RESULT, "title": "Answer"}, False),
        ({**RESULT, "required": []}, False),
        ({"type": "object", "properties": {"result": {}, "more": {}}, "required": ["result"]}, False),
        (UNSET, False),
    ],
)
def test_which_schemas_are_wrappers(schema: object, wrapped: bool) -> None:
    assert is_wrapped(schema, modern=True) is wrapped
    assert is_wrapped(schema, modern=False) is wrapped


def test_a_bare_object_is_a_wrapper_only_where_wrappers_are_needed() -> None:
    assert is_wrapped(RESULT, modern=False)
    assert not is_wrapped(RESULT, modern=True)


# ---------------------------------------------------------------- output schemas


def validated(schema: Any, result: dict[str, Any], **options: Any) -> Any:
    """What a client makes of the result of a tool with this output schema."""
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    answers = {"tools/list": {"tools": [tool]}, "tools/call": {"content": [], **result}}

    async def handler(request: Request) -> None:
        await request.result({"resultType": "complete", **answers[request.message["method"]]})

    async def main() -> Any:
        async with http_server(modern(handler)) as url, Client(url, **options) as c:
            return (await c.call_tool("x")).structured

    return run(main())


NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        (NUMBER, {"structuredContent": {"n": 1, "more": True}}),
        ({"type": ["array", "null"]}, {"structuredContent": None}),
        (NUMBER, {"isError": True}),
        (NUMBER, {"isError": True, "structuredContent": "anything"}),
        ({"type": "object", "$ref": "https://schemas.example/x"}, {"structuredContent": {"n": "unchecked"}}),
        ({"$schema": "https://other.example/dialect"}, {"structuredContent": 5}),
        ("not a schema", {"structuredContent": 5}),
    ],
)
def test_a_result_that_fits_or_cannot_be_checked(schema: Any, result: dict[str, Any]) -> None:
    assert validated(schema, result) == result.get("structuredContent")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"structuredContent": {"n": "1"}}, "does not fit the output schema.*n"),
        ({"structuredContent": {"n": -1}}, "does not fit the output schema"),
        ({"structuredContent": {}}, "does not fit the output schema"),
        ({"structuredContent": [1]}, "does not fit the output schema"),
        ({}, "lacks the structured content"),
    ],
)
def test_a_result_that_does_not_fit_is_refused(result: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidReply, match=said):
        validated(NUMBER, result)
    assert validated(NUMBER, result, validate=False) == result.get("structuredContent")
