"""Dependencies: planned at registration, made once a call, cleaned up in every case."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from redstart import Context, Depends, RegistrationError, Server, SyncContext, ToolError
from support import Peer, play, until

if TYPE_CHECKING:
    from decimal import Decimal

events: list[str] = []


@pytest.mark.parametrize("module", ["fastmcp", "mcp.server.mcpserver"])
@pytest.mark.parametrize("form", ["plain", "optional"])
def test_the_context_of_another_framework_is_refused_with_the_name_of_ours(module: str, form: str) -> None:
    foreign = pytest.importorskip(module).Context

    async def asks(ctx: Any) -> None: ...

    def works(ctx: Any) -> None: ...

    for fn, name in ((asks, "Context"), (works, "SyncContext")):
        fn.__annotations__["ctx"] = foreign if form == "plain" else foreign | None
        with pytest.raises(RegistrationError, match=f"test_dependencies.py.*from redstart import {name}"):
            Server("refuses").tool(fn)


@pytest.fixture(autouse=True)
def _no_events() -> None:
    events.clear()


def value() -> int:
    events.append("value")
    return 1


async def coroutine(one: Annotated[int, Depends(value)]) -> int:
    events.append("coroutine")
    return one + 1


def generator(one: Annotated[int, Depends(value)]) -> Iterator[int]:
    events.append("open")
    try:
        yield one + 10
    finally:
        events.append("close")


async def async_generator(two: Annotated[int, Depends(coroutine)]) -> AsyncIterator[int]:
    events.append("aopen")
    try:
        yield two + 100
    finally:
        events.append("aclose")


def sync_tool(
    x: int,
    a: Annotated[int, Depends(value)],
    b: Annotated[int, Depends(coroutine)],
    c: Annotated[int, Depends(generator)],
    d: Annotated[int, Depends(async_generator)],
) -> list[int]:
    events.append("handler")
    return [x, a, b, c, d]


async def async_tool(
    x: int,
    a: Annotated[int, Depends(value)],
    b: Annotated[int, Depends(coroutine)],
    c: Annotated[int, Depends(generator)],
    d: Annotated[int, Depends(async_generator)],
) -> list[int]:
    events.append("handler")
    return [x, a, b, c, d]


def inline_tool(
    x: int, c: Annotated[int, Depends(generator)], d: Annotated[int, Depends(async_generator)]
) -> list[int]:
    events.append("handler")
    return [x, c, d]


@pytest.mark.parametrize(
    ("tool", "options", "expected"),
    [
        (sync_tool, {}, [0, 1, 2, 11, 102]),
        (async_tool, {}, [0, 1, 2, 11, 102]),
        (inline_tool, {"executor": "inline"}, [0, 11, 102]),
    ],
)
def test_everything_is_made_once_in_order_and_cleaned_up_after_the_handler(
    tool: Any, options: dict[str, Any], expected: list[int]
) -> None:
    server = Server("depends")
    server.tool(**options)(tool)
    [served] = server.tools.items.values()
    assert list(served.input_schema["properties"]) == ["x"]
    result = play(server, lambda peer: peer.tool(tool.__name__, x=0))
    assert result["structuredContent"] == {"result": expected}
    assert events.count("value") == 1
    assert events.index("handler") < events.index("close")
    assert events.index("handler") < events.index("aclose")
    assert sorted(events) == sorted(["value", "coroutine", "open", "aopen", "handler", "close", "aclose"])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_clean_up_sees_the_error_and_cannot_swallow_it(kind: str) -> None:
    server = Server("depends")
    seen: list[str] = []

    def swallows() -> Iterator[int]:
        try:
            yield 1
        except ToolError as error:
            seen.append(str(error))

    if kind == "sync":

        @server.tool
        def fails(n: Annotated[int, Depends(swallows)]) -> None:
            raise ToolError("no")

    else:

        @server.tool(name="fails")
        async def fails_too(n: Annotated[int, Depends(swallows)]) -> None:
            raise ToolError("no")

    assert play(server, lambda peer: peer.failure("fails")) == "no"
    assert seen == ["no"]


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_clean_up_after_a_cancelled_async_handler(how: str) -> None:
    server = Server("depends")
    started = asyncio.Event()

    @server.tool(timeout=0.5 if how == "timeout" else None)
    async def waits(c: Annotated[int, Depends(generator)], d: Annotated[int, Depends(async_generator)]) -> None:
        started.set()
        await asyncio.Event().wait()

    async def script(peer: Peer) -> None:
        id, _ = peer.begin("waits")
        await started.wait()
        if how == "cancel":
            peer.cancel(id)
        await until(lambda: "close" in events and "aclose" in events)

    play(server, script)


def test_what_a_thread_still_uses_is_not_closed_under_it() -> None:
    server = Server("depends")
    started, go_on = threading.Event(), threading.Event()

    @server.tool
    def works(d: Annotated[int, Depends(async_generator)]) -> None:
        started.set()
        go_on.wait(20)
        events.append("thread ends")

    async def script(peer: Peer) -> None:
        id, _ = peer.begin("works")
        await until(started.is_set)
        peer.cancel(id)
        await asyncio.sleep(0.02)
        assert "aclose" not in events
        go_on.set()
        await until(lambda: "aclose" in events)

    play(server, script)
    assert events.index("thread ends") < events.index("aclose")


def test_a_sync_dependency_lives_in_the_thread_of_its_handler() -> None:
    server = Server("depends")

    def database() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(":memory:")  # refuses to be used in another thread
        try:
            yield connection
        finally:
            connection.close()

    @server.tool
    def query(db: Annotated[sqlite3.Connection, Depends(database)]) -> int:
        found: int = db.execute("select 41 + 1").fetchone()[0]
        return found

    assert play(server, lambda peer: peer.text("query")) == "42"


def test_dependencies_may_take_a_context_and_be_written_as_a_default() -> None:
    server = Server("depends")

    def who(ctx: SyncContext) -> str:
        return f"request {ctx.request_id}"

    async def version(ctx: Context) -> str:
        return ctx.protocol_version

    @server.tool
    def tell(one: str = Depends(who), two: str = Depends(version)) -> str:  # type: ignore[assignment]
        return f"{one}, {two}"

    assert play(server, lambda peer: peer.text("tell")) == "request 1, 2026-07-28"


def test_a_failing_dependency_is_the_tools_error() -> None:
    server = Server("depends")

    def broken() -> int:
        raise ToolError("the database is closed")

    @server.tool
    def use(n: Annotated[int, Depends(broken)], c: Annotated[int, Depends(generator)]) -> int:
        return n

    assert play(server, lambda peer: peer.failure("use")) == "the database is closed"


# ---------------------------------------------------------------- registration


def chicken(x: Annotated[int, Depends("egg")]) -> int:
    return x


def left(x: Annotated[int, Depends(right)]) -> int:
    return x


def right(x: Annotated[int, Depends(left)]) -> int:
    return x


def lacks(path: str) -> int:
    return len(path)


def hidden(x: Decimal) -> None: ...


def wrong_context(ctx: Context) -> int:
    return 1


@pytest.mark.parametrize(
    ("depends", "words"),
    [
        (left, "left → right → left"),
        (chicken, "provide of Depends must be a function"),
        (lacks, "nothing provides it"),
        (wrong_context, "write `ctx: SyncContext`"),
    ],
)
def test_what_cannot_be_provided_fails_at_registration(depends: Any, words: str) -> None:
    def tool(x: int = Depends(depends)) -> None: ...  # type: ignore[assignment]

    with pytest.raises(TypeError, match=words) as caught:
        Server("refuses").tool(tool)
    assert "test_dependencies.py:" in str(caught.value)


def test_a_missing_import_is_named() -> None:
    with pytest.raises(TypeError, match="uses Decimal") as caught:
        Server("refuses").tool(hidden)
    assert "test_dependencies.py:" in str(caught.value)


def test_closures_are_resolved() -> None:
    server = Server("closure")

    class Local:
        n = 5

    def make() -> Local:
        return Local()

    @server.tool
    def use(local: Annotated[Local, Depends(make)]) -> int:
        assert isinstance(local, Local)
        return local.n

    assert play(server, lambda peer: peer.text("use")) == "5"


def test_registration_errors_are_registration_errors() -> None:
    def tool(x: int = Depends(left)) -> None: ...  # type: ignore[assignment]

    with pytest.raises(RegistrationError):
        Server("refuses").tool(tool)
