"""What an application puts into a public class: None is absent, and a wrong value is an error of that call alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import redstart
from asking.player import Player
from redstart import Client, Context, Prompt, RegistrationError, Server
from redstart.wire.types import GetPromptResult
from spec_facts import REVISIONS, problems
from support import ERAS, MODERN, ask, refused, run

r: Any = redstart  # so that a type checker lets wrong values pass
every = pytest.mark.parametrize("era", ERAS)


def result(era: str, value: Callable[[], Any]) -> dict[str, Any]:
    """The result of a tool that returns `value()`."""
    server = Server("absent", expose_errors=True)
    server.tool(name="t")(value)
    return ask(server, era, "tools/call", name="t", arguments={})


@every
@pytest.mark.parametrize(
    ("value", "block"),
    [
        (lambda: r.Text("a", annotations=None, meta=None), {"type": "text", "text": "a"}),
        (
            lambda: r.Text("a", annotations=r.Annotations(None, None, None)),
            {"type": "text", "text": "a", "annotations": {}},
        ),
        (lambda: r.Image(b"a", None), {"type": "image", "data": "YQ==", "mimeType": "image/png"}),
        (lambda: r.Audio(b"a", None), {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}),
        (
            lambda: r.ResourceLink("a:b", "b", mime_type=None, size=None, title=None, icons=None, description=None),
            {"type": "resource_link", "uri": "a:b", "name": "b"},
        ),
        (
            lambda: r.EmbeddedResource(r.ResourceContents("a:b", None, text="x")),
            {"type": "resource", "resource": {"uri": "a:b", "text": "x"}},
        ),
        (lambda: r.ToolResult(content=[r.Text("a")], is_error=None, meta=None), {"type": "text", "text": "a"}),
        (lambda: r.ToolResult(content="hello"), {"type": "text", "text": "hello"}),
        (lambda: r.ToolResult(content=r.Text("hello")), {"type": "text", "text": "hello"}),
        (
            lambda: r.Text("a", annotations={"audience": ("user",)}),
            {"type": "text", "text": "a", "annotations": {"audience": ["user"]}},
        ),
    ],
)
def test_none_is_absent_in_a_result(era: str, value: Callable[[], Any], block: dict[str, Any]) -> None:
    found = result(era, value)
    assert (found["content"], "isError" in found) == ([block], False)


@every
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: r.Text(5), "Text: text must be a string, not 5"),
        (lambda: [r.Text(None)], "Text: text must be a string, not None"),
        (lambda: r.Text("a", annotations=r.Annotations(priority=5)), "priority must be a number from 0 to 1, not 5"),
        (lambda: r.Text("a", annotations=r.Annotations(priority=float("nan"))), "from 0 to 1, not nan"),
        (lambda: r.Text("a", annotations=r.Annotations(audience="user")), "audience must be a list of"),
        (lambda: r.Text("a", meta={"x": object()}), "meta must be a dict that JSON can carry"),
        (lambda: r.Image("a"), "Image: data must be bytes, not 'a'"),
        (lambda: r.EmbeddedResource("text"), "EmbeddedResource: resource must be a ResourceContents, not 'text'"),
        (lambda: r.EmbeddedResource(r.ResourceContents("a:b")), "without exactly one of text"),
        (lambda: r.EmbeddedResource(r.ResourceContents("a:b", 5, text="a")), "mime_type must be a string, not 5"),
        (lambda: r.ResourceLink("a:b", "b", size="3"), "ResourceLink: size must be an integer, not '3'"),
        (lambda: r.ResourceLink("a:b", "b", icons=["https://x"]), "icons must be a list of Icons"),
        (
            lambda: r.ResourceLink("a:b", "b", icons=[r.Icon("https://x", sizes="48x48")]),
            "a list of strings, not '48x48'",
        ),
        (lambda: r.ToolResult(content=[], is_error="no"), "ToolResult: is_error must be True or False, not 'no'"),
        (lambda: r.ToolResult(content=[], meta="x"), "ToolResult: meta must be a dict"),
        (lambda: r.ToolError("no", content=[r.Text(5)]), "Text: text must be a string, not 5"),
    ],
)
def test_a_wrong_value_is_that_calls_error(era: str, value: Callable[[], Any], words: str) -> None:
    found = result(era, value)
    assert found["isError"]
    assert words in found["content"][0]["text"]


@every
def test_a_raised_error_with_wrong_content_is_answered_too(era: str) -> None:
    def fail() -> None:
        raise r.ToolError("no", content=[r.Text(5)])

    assert "text must be a string" in result(era, fail)["content"][0]["text"]


@every
def test_empty_content_is_sent(era: str) -> None:
    assert result(era, lambda: r.ToolResult())["content"] == []
    assert result(era, lambda: r.ToolResult(content=None))["content"] == []


def test_a_result_takes_its_parts_by_name() -> None:
    with pytest.raises(TypeError):
        r.ToolResult("hello")


@every
def test_contents_of_a_resource(era: str) -> None:
    server = Server("absent")

    @server.resource("a:guessed")
    def guessed() -> Any:
        return r.ResourceContents("a:guessed", None, text="x")

    @server.resource("a:wrong")
    def wrong() -> Any:
        return r.ResourceContents("a:wrong", 5, text="x")

    (found,) = ask(server, era, "resources/read", uri="a:guessed")["contents"]
    assert found["text"] == "x"
    assert found.get("mimeType", "text/plain") == "text/plain"
    assert "mime_type must be a string, not 5" in refused(server, era, "resources/read", uri="a:wrong")["message"]


@every
@pytest.mark.parametrize("kind", [redstart.PromptResult, GetPromptResult])
def test_a_prompts_description(era: str, kind: Any) -> None:
    server = Server("absent")
    server.prompt(name="wrong")(lambda: kind(description=5, messages=["a"]))
    server.prompt(name="none")(lambda: kind(description=None, messages=["a"]))
    assert "description must be a string, not 5" in refused(server, era, "prompts/get", name="wrong")["message"]
    assert "description" not in ask(server, era, "prompts/get", name="none")


@every
def test_arguments_of_prompts(era: str) -> None:
    none = r.PromptArgument("a", title=None, description=None, required=None)
    server = Server("absent", prompts=[Prompt(name="p", arguments=[none], handler=lambda a="": a)])
    assert ask(server, era, "prompts/list")["prompts"][0]["arguments"] == [{"name": "a", "required": False}]
    with pytest.raises(RegistrationError, match="PromptArgument: title must be a string, not 5"):
        Server("wrong", prompts=[Prompt(name="p", arguments=[r.PromptArgument("a", title=5)], handler=lambda a="": a)])


@every
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (lambda ctx: ctx.progress(float("nan")), "ctx.progress(): progress must be a number, not nan"),
        (lambda ctx: ctx.progress("1"), "ctx.progress(): progress must be a number, not '1'"),
        (lambda ctx: ctx.progress(1, total="x"), "ctx.progress(): total must be a number, not 'x'"),
        (lambda ctx: ctx.progress(1, message=5), "ctx.progress(): message must be a string, not 5"),
        (lambda ctx: ctx.log("error", "x", logger=5), "ctx.log(): logger must be a string, not 5"),
    ],
)
def test_progress_and_log(era: str, said: Callable[[Context], Any], words: str) -> None:
    server = Server("absent", expose_errors=True)

    @server.tool
    async def t(ctx: Context) -> None:
        await said(ctx)

    async def call() -> str:
        async with Client(server, protocol=era, log_level="debug" if era == MODERN else None) as client:
            return (await client.call_tool("t", {})).text

    assert words in asyncio.run(call())


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_message_of_progress_is_left_out_where_a_revision_has_none(revision: str) -> None:
    server = Server("progress")

    @server.tool
    async def t(ctx: Context) -> None:
        await ctx.progress(1, total=3, message="reading")
        await ctx.log("error", {"a": None}, logger="reader")

    async def call() -> list[dict[str, Any]]:
        meta = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug"}
        player = await Player(server, revision, meta=meta).open()
        await player.call("tools/call", name="t", arguments={})
        return player.notices

    progress, log = run(call(), server)
    message = {} if revision == REVISIONS[0] else {"message": "reading"}
    assert progress["params"] == {"progressToken": 7, "progress": 1, "total": 3, **message}
    assert log["params"] == {"level": "error", "data": {"a": None}, "logger": "reader"}


def test_what_a_client_reads_is_none_where_absent() -> None:
    server = Server("absent")
    server.tool(name="t")(lambda: r.Text("a"))

    async def read() -> tuple[Any, ...]:
        async with Client(server) as client:
            (tool,) = await client.list_tools()
            (block,) = (await client.call_tool("t", {})).content
            assert isinstance(block, r.Text)
            return tool.title, tool.icons, tool.meta, block.annotations, block.meta

    assert asyncio.run(read()) == (None,) * 5


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_boolean_property_schemas_go_out_as_objects(revision: str) -> None:
    schema = {"type": "object", "properties": {"any": True, "never": False, "n": {"type": "integer"}}}
    server = Server("absent")
    server.tool(name="t", input_schema=schema)(lambda arguments: 1)
    (tool,) = ask(server, revision, "tools/list")["tools"]
    assert problems(tool, "Tool", revision) == []
    assert tool["inputSchema"]["properties"]["any"] == {}
    assert tool["inputSchema"]["properties"]["never"] == {"not": {}}


@every
def test_a_hint_that_is_none_is_absent(era: str) -> None:
    server = Server("absent")
    server.tool(name="some", annotations={"title": None, "readOnlyHint": True})(lambda: 1)
    server.tool(name="none", annotations={"title": None})(lambda: 1)
    some, none = ask(server, era, "tools/list")["tools"]
    assert (some["annotations"], "annotations" in none) == ({"readOnlyHint": True}, False)


@pytest.mark.parametrize("revision", REVISIONS[:2])
def test_annotations_given_as_a_dict_are_gated(revision: str) -> None:
    server = Server("absent")
    server.tool(name="t")(lambda: r.Text("a", annotations={"lastModified": "2026-01-01", "priority": 1}))
    (block,) = ask(server, revision, "tools/call", name="t", arguments={})["content"]
    assert block["annotations"] == {"priority": 1}
