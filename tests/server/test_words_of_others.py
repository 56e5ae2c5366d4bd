"""What somebody writes who knows another framework, or mistypes: refused where it is written, with our word."""

# ruff: noqa: E501 — a row of the table is a line

from __future__ import annotations

import asyncio
import copy
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastmcp import FastMCP
from fastmcp.tools import ToolResult as FastResult
from mcp.types import CallToolResult, TextContent

from redstart import (
    Accepted,
    Cancelled,
    Client,
    Context,
    Declined,
    Depends,
    Directory,
    File,
    RegistrationError,
    Server,
    SyncContext,
)
from redstart.features.rules import OptionError

HERE = Path(__file__)


def text_of_others() -> TextContent:
    return TextContent(type="text", text="hi")


def texts_of_others() -> list[TextContent]:
    return [text_of_others()]


def result_of_others() -> CallToolResult:
    return CallToolResult(content=[text_of_others()], is_error=True)


def result_of_fastmcp() -> FastResult:
    return FastResult("hi")


async def wrong_context(ctx: SyncContext) -> str:
    return ""


def depends_alone(n: Annotated[int, Depends]) -> int:
    return n


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda server: server.tool(text_of_others), "belongs to another framework: write redstart.Text"),
    (lambda server: server.tool(texts_of_others), "belongs to another framework: write redstart.Text"),
    (lambda server: server.tool(result_of_others), "belongs to another framework: write redstart.ToolResult"),
    (lambda server: server.tool(result_of_fastmcp), "belongs to another framework: write redstart.ToolResult"),
    (lambda server: server.tool(wrong_context), "wrong_context is an `async def`, so write `ctx: Context`"),
    (lambda server: server.tool(depends_alone), "write Depends(function), not Depends alone"),
    (lambda server: server.tool(lambda: 1), "'<lambda>' is not a valid tool name; give it one with name="),
    (lambda server: server.route(text_of_others), 'write @server.route("/path", methods=["GET"])'),
    (lambda server: server.route("/a", methods=["GETT"])(lambda: ""), "methods must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, not 'GETT'. Did you mean \"GET\"?"),
    (lambda server: server.route("/a", methods=5)(lambda: ""), "methods must be a list of texts, not 5"),
    (lambda server: Server("s", auth=lambda: "ada"), "Server: auth must be a function of the token that returns the user, or None, not one of other parameters"),
    (lambda server: File(str(HERE), "files://a"), "is not a URI; it begins with a scheme"),
    (lambda server: File("files://a", HERE.parent), "is a directory; give the file itself"),
    (lambda server: File("files://{a}", HERE), "a File has one URI; use Directory for a template"),
    (lambda server: Directory("files://{a}/{b}", HERE.parent), "a Directory has one variable, {path} or {+path}"),
    (lambda server: Directory(str(HERE.parent), "files://a"), "is not a URI; it begins with a scheme"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "said"), WRONG, ids=[said for _, said in WRONG])
def test_it_is_refused_with_file_and_line(write: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(
        RegistrationError,
        match=rf"{re.escape(str(HERE))}:\d+: .*{re.escape(said)}|^{re.escape(str(HERE))}:\d+: {re.escape(said)}",
    ):
        write(Server("s"))


@pytest.mark.parametrize(
    ("name", "ours"),
    [("add_tool", "server.register("), ("http_app", "server.asgi()"), ("custom_route", "@server.route(")],
)
def test_methods_of_others_are_named(name: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"a Server has no attribute {name!r}: write {ours}")):
        getattr(Server("s"), name)
    assert not hasattr(Server("s"), "zzz")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("tols", "tool"), ("toolz", "tool"), ("promt", "prompt"), ("resorce", "resource"), ("regster", "register"), ("rn", "run"), ("versoin", "version")],
)  # fmt: skip
def test_a_name_that_is_mistyped_is_suggested_once(name: str, meant: str) -> None:
    """The decorator, and not the list of the same name; Python appends no suggestion of its own."""
    with pytest.raises(AttributeError) as caught:
        getattr(Server("s"), name)
    lines = traceback.format_exception_only(caught.value)
    assert lines == [f'AttributeError: a Server has no attribute {name!r}. Did you mean "{meant}"?\n']


def test_a_name_of_our_own_is_not_suggested() -> None:
    with pytest.raises(AttributeError, match=r"^a Server has no attribute 'dispatch'$"):
        _ = Server("s").dispatch  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", [Accepted("x"), Declined(), Cancelled()])
@pytest.mark.parametrize("name", ["action", "content"])
def test_an_answer_says_how_it_is_read(answer: Any, name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(answer, name)
    kind = type(answer).__name__
    assert str(caught.value) == (
        f"{kind} has no {name!r}: write `match answer:` with `case Accepted(data):`, `case Declined():` and "
        "`case Cancelled():`, or `if isinstance(answer, Accepted):` and answer.data"
    )
    assert copy.deepcopy(answer) == answer
    assert not hasattr(answer, "__fspath__")


@pytest.mark.parametrize(
    ("name", "said"),
    [("port", 'write it where it is served: server.run("http", port=…)'), ("stateless_http", "leave it out: ")],
)
def test_options_of_others_are_told_apart(name: str, said: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(OptionError, match=re.escape(f'a Server has no option "{name}"; {said}')):
        Server("s", **options)


def said_by(call: Callable[[Client], Any], *tools: Callable[..., Any]) -> str:
    server = Server("s", tools=tools, expose_errors=True)
    server.register(Directory("files://all", HERE.parent))

    @server.resource("a://none")
    def none() -> None:
        return None

    async def run() -> str:
        async with Client(server) as client:
            try:
                result = await call(client)
            except Exception as error:
                return str(error)
            return str(getattr(result, "text", "") or result.contents[0].text)

    return asyncio.run(run())


def unpromised() -> Any:
    return result_of_others()


async def lifespan_of_others(ctx: Context) -> str:
    return str(ctx.request_context)  # type: ignore[attr-defined]


async def unkept(ctx: Context) -> str:
    await ctx.state.set("a", object())
    return ""


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (unpromised, "CallToolResult belongs to another framework: write redstart.ToolResult"),
        (lifespan_of_others, "ctx.request_context: a Context does not have this name; write ctx.lifespan"),
        (unkept, "TypeError: ctx.state.set('a', …): a value of type object has no JSON form"),
    ],
)
def test_it_is_said_when_it_runs(tool: Callable[..., Any], said: str) -> None:
    assert said in said_by(lambda client: client.call_tool(tool.__name__), tool)


def test_a_resource_without_contents_is_not_suggested_for_itself() -> None:
    assert said_by(lambda client: client.read_resource("a://none")) == "Resource not found: a://none (-32602)"


def test_the_slash_at_the_end_of_a_directory_may_be_left_out() -> None:
    assert said_by(lambda client: client.read_resource(f"files://all/{HERE.name}")) == HERE.read_text()


def test_a_server_of_others_is_not_a_target() -> None:
    with pytest.raises(TypeError, match="is not a target: expected a Server"):
        Client(FastMCP("x"))
