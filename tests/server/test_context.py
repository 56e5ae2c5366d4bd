"""What a handler holds: the lifespan, the server's own things, and the context from deep inside."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redstart import (
    Context,
    ProtocolError,
    RegistrationError,
    Server,
    SyncContext,
    Tool,
    ToolError,
    current_context,
)
from spec_facts import REVISIONS
from support import ERAS, MODERN, Peer, ask, message, run
from transports.support import Http


@dataclass
class App:
    name: str
    open: bool = True


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[App]:
    app = App(server.name)
    try:
        yield app
    finally:
        app.open = False


def text(result: dict[str, Any]) -> str:
    assert result.get("isError") is not True, result
    return "\n".join(block["text"] for block in result["content"])


# ---------------------------------------------------------------- the lifespan


@pytest.mark.parametrize("era", ERAS)
def test_the_lifespan_is_typed_by_the_context(era: str) -> None:
    server = Server("birds", lifespan=lifespan)
    seen: list[App] = []

    @server.tool
    async def on_loop(ctx: Context[App]) -> str:
        app: App = ctx.lifespan
        seen.append(app)
        return app.name

    @server.tool
    def in_thread(ctx: SyncContext[App]) -> bool:
        return ctx.lifespan.open

    @server.prompt
    async def prompt(ctx: Context[App]) -> str:
        return ctx.lifespan.name

    assert text(ask(server, era, "tools/call", name="on_loop")) == "birds"
    assert text(ask(server, era, "tools/call", name="in_thread")) == "true"
    assert ask(server, era, "prompts/get", name="prompt")["messages"][0]["content"]["text"] == "birds"
    assert [app.open for app in seen] == [False]  # `ask` has stopped the server


# ---------------------------------------------------------------- facts and words


@pytest.mark.requirement("119")
def test_who_asks_and_which_request_it_is() -> None:
    server = Server("s", auth=lambda token: {"sub": token})

    @server.tool
    async def who(ctx: Context) -> list[Any]:
        return [ctx.request_id, ctx.user, ctx.headers.get("x-trace"), ctx.cancelled]

    @server.tool
    def who_in_thread(ctx: SyncContext) -> list[Any]:
        return [ctx.request_id, ctx.user, ctx.headers.get("x-trace"), ctx.cancelled]

    async def over_http() -> None:
        http = Http(server.asgi())
        for tool in ("who", "who_in_thread"):
            sent = {"authorization": "Bearer ada", "x-trace": "t1"}
            answer = await http.modern("r7", "tools/call", {"name": tool, "arguments": {}}, headers=sent)
            assert answer.json()["result"]["content"][0]["text"] == '["r7",{"sub":"ada"},"t1",false]'
        await server.runtime.stop()

    run(over_http())
    assert text(ask(server, MODERN, "tools/call", name="who")) == "[1,null,null,false]"


def test_what_a_client_says_it_is() -> None:
    server = Server("s")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client and ctx.client.name} {ctx.client and ctx.client.version} {ctx.protocol_version}"

    async def over_http() -> None:
        http, params = Http(server.asgi()), {"name": "who", "arguments": {}}
        answers = []
        for info in ({"name": "m", "version": "2"}, None):
            meta = {} if info is None else {"io.modelcontextprotocol/clientInfo": info}
            answers.append(await http.modern(1, "tools/call", params, meta=meta))
        for revision in REVISIONS[:-1]:
            session = await http.open(revision)
            answers.append(await http.send(message(1, "tools/call", params), headers=session))
        said = [answer.messages()[-1]["result"]["content"][0]["text"] for answer in answers]
        known = [f"test 1 {revision}" for revision in REVISIONS[:-1]]
        assert said == [f"m 2 {MODERN}", f"None None {MODERN}", *known]
        await server.runtime.stop()

    run(over_http())


@pytest.mark.requirement("117", "118", "T62", "T63")
@pytest.mark.parametrize("era", REVISIONS)
@pytest.mark.parametrize("tool", ["steps", "steps_in_thread"])
def test_progress_needs_a_token_and_only_says_what_was_said(era: str, tool: str) -> None:
    server = Server("s")

    @server.tool
    async def steps(ctx: Context) -> list[bool]:
        return [await ctx.progress(1), await ctx.progress(2, total=2, message="done"), await ctx.progress(2)]

    @server.tool
    def steps_in_thread(ctx: SyncContext) -> list[bool]:
        return [ctx.progress(1), ctx.progress(2, total=2, message="done"), ctx.progress(2)]

    async def said(token: Any) -> list[dict[str, Any]]:
        peer = await Peer(server, era, meta={} if token is None else {"progressToken": token}).open()
        peer.start("tools/call", {"name": tool, "arguments": {}})
        found: list[dict[str, Any]] = []
        while not found or "id" not in found[-1]:
            found.append(await peer.receive())
        await peer.close()
        await server.runtime.stop()
        return found

    words = {} if era == REVISIONS[0] else {"message": "done"}  # the first revision has no words there
    (alone,) = run(said(None))
    assert alone["result"]["content"][0]["text"] == "[false,false,false]"
    for token in (7, "seven"):
        first, second, last = run(said(token))
        assert first["params"] == {"progressToken": token, "progress": 1}
        assert second["params"] == {"progressToken": token, "progress": 2, "total": 2, **words}
        assert last["result"]["content"][0]["text"] == "[true,true,false]"


def decoded(data: bytes) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(data)
    return found


# ---------------------------------------------------------------- the server's own things


def outcomes(added: Any, failed: Any, wrong: Any, read: Any, message: Any) -> list[Any]:
    what_failed = [failed.is_error, failed.content[0].text, wrong.is_error]
    return [added.structured, *what_failed, read.text, message.role, message.content.text]


def house() -> Server:
    server = Server("house")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fail() -> None:
        raise ToolError("the reason")

    @server.tool(visible=lambda user: user == "admin")
    def secret() -> str:
        return "s"

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        return f"note {name}"

    @server.prompt
    def review(code: str) -> str:
        return f"Review {code}"

    @server.tool
    async def use(ctx: Context) -> list[Any]:
        added = await ctx.call_tool("add", {"a": 1, "b": 2})
        failed = await ctx.call_tool("fail")
        wrong = await ctx.call_tool("add", {"a": "x"})
        read = await ctx.read_resource("notes://one")
        (message,) = await ctx.get_prompt("review", {"code": "x = 1"})
        return outcomes(added, failed, wrong, read[0], message)

    @server.tool
    def use_in_thread(ctx: SyncContext) -> list[Any]:
        added = ctx.call_tool("add", {"a": 1, "b": 2})
        failed = ctx.call_tool("fail")
        wrong = ctx.call_tool("add", {"a": "x"})
        read = ctx.read_resource("notes://one")
        (message,) = ctx.get_prompt("review", {"code": "x = 1"})
        return outcomes(added, failed, wrong, read[0], message)

    @server.tool
    async def misuse(ctx: Context, what: str) -> int:
        try:
            await reached(ctx, what)
        except ProtocolError as error:
            return error.code
        return 0

    @server.tool
    def misuse_in_thread(ctx: SyncContext, what: str) -> int:
        try:
            reached_in_thread(ctx, what)
        except ProtocolError as error:
            return error.code
        return 0

    return server


async def reached(ctx: Context, what: str) -> Any:
    if what == "prompt":
        return await ctx.get_prompt("none")
    if what == "argument":
        return await ctx.get_prompt("review", {})
    return await (ctx.read_resource("none://x") if what == "resource" else ctx.call_tool(what))


def reached_in_thread(ctx: SyncContext, what: str) -> Any:
    if what == "prompt":
        return ctx.get_prompt("none")
    if what == "argument":
        return ctx.get_prompt("review", {})
    return ctx.read_resource("none://x") if what == "resource" else ctx.call_tool(what)


@pytest.mark.parametrize("era", ["2024-11-05", *ERAS])
@pytest.mark.parametrize("tool", ["use", "use_in_thread"])
def test_a_handler_may_use_the_servers_own_things(era: str, tool: str) -> None:
    expected = '[3,true,"the reason",true,"note one","user","Review x = 1"]'  # whatever the client's revision
    assert text(ask(house(), era, "tools/call", name=tool)) == expected


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["misuse", "misuse_in_thread"])
@pytest.mark.parametrize("what", ["none", "secret", "prompt", "argument", "resource"])
def test_what_is_not_there_or_not_seen_is_the_error_a_client_would_get(era: str, tool: str, what: str) -> None:
    code = "-32002" if what == "resource" else "-32602"  # its number on the wire is for the dialect to choose
    assert text(ask(house(), era, "tools/call", name=tool, arguments={"what": what})) == code


def test_who_may_see_a_tool_may_use_it_from_another() -> None:
    result = ask(house(), MODERN, "tools/call", "admin", name="misuse", arguments={"what": "secret"})
    assert text(result) == "0"


# ---------------------------------------------------------------- from deep inside


def test_the_context_of_the_request_is_there_deep_inside() -> None:
    server = Server("deep")

    def deep() -> str:
        ctx = current_context()
        return f"{type(ctx).__name__} {ctx.request_id}"

    @server.tool
    async def on_loop() -> str:
        return deep()

    @server.tool
    def in_thread() -> str:
        return deep()

    @server.prompt
    async def prompt() -> str:
        return deep()

    assert text(ask(server, MODERN, "tools/call", name="on_loop")) == "Context 1"
    assert text(ask(server, MODERN, "tools/call", name="in_thread")) == "SyncContext 1"
    assert ask(server, MODERN, "prompts/get", name="prompt")["messages"][0]["content"]["text"] == "Context 1"
    with pytest.raises(RuntimeError, match="no request"):
        current_context()


# ---------------------------------------------------------------- annotations


def test_a_context_in_a_closure_is_found_by_its_annotation() -> None:
    from redstart import Context as Elsewhere  # a local name, and the annotations here are text

    server = Server("s")

    @server.tool
    async def local(ctx: Elsewhere, x: int = 1) -> str:
        return f"{type(ctx).__name__} {x}"

    (entry,) = ask(server, MODERN, "tools/list")["tools"]
    assert list(entry["inputSchema"]["properties"]) == ["x"]
    assert text(ask(server, MODERN, "tools/call", name="local")) == "Context 1"


def test_a_name_under_type_checking_is_named_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "guarded.py").write_text(
        textwrap.dedent("""
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from redstart import Server
        if TYPE_CHECKING:
            from redstart import Context

        async def handler(x: int, ctx: Context) -> str:
            return ""
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    guarded = importlib.import_module("guarded")
    try:
        with pytest.raises((RegistrationError, TypeError), match=r"guarded.py:8.*Import Context.*TYPE_CHECKING"):
            Server("s").tool(guarded.handler)
    finally:
        del sys.modules["guarded"]


@pytest.mark.parametrize(
    ("name", "ours"), [("report_progress", "ctx.progress"), ("get_state", "ctx.state.get"), ("warn", "ctx.warning")]
)
@pytest.mark.parametrize("kind", [Context, SyncContext])
def test_a_name_of_another_framework_is_an_error_that_names_ours(kind: Any, name: str, ours: str) -> None:
    contexts: list[Any] = []

    async def on_loop(ctx: Context) -> None:
        contexts.append(ctx)

    def in_thread(ctx: SyncContext) -> None:
        contexts.append(ctx)

    server = Server("s", tools=[Tool("take", handler=on_loop if kind is Context else in_thread)])
    ask(server, MODERN, "tools/call", name="take", arguments={})
    (ctx,) = contexts
    with pytest.raises(AttributeError, match=rf"ctx\.{name}.*; write {ours}$"):
        getattr(ctx, name)
    with pytest.raises(AttributeError, match=r"does not have this name$"):
        getattr(ctx, "x" * 9)
    assert not hasattr(ctx, "__deepcopy__")
