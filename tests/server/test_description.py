"""What runs calls holds a finished description of the server; a change of the server makes another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from redstart import Call, Client, Next, Prompt, Resource, Result, Server, SyncContext, Tool


def test_another_description_takes_the_place_of_the_first() -> None:
    """What is compiled for one server runs in the threads, and with the lifespan, of the one that runs its calls."""

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        yield server.version

    def handler(ctx: SyncContext) -> str:
        return f"with the lifespan of {ctx.lifespan}"

    first = Server("shop", version="1", lifespan=lifespan, tools=[Tool("old", handler=handler)])
    second = Server("shop", version="2", lifespan=lifespan, tools=[Tool("new", handler=handler)])

    async def test() -> list[list[str]]:
        async with Client(first) as client:
            names = [[tool.name for tool in await client.list_tools()]]
            first.runtime.current = second.runtime.description
            names.append([tool.name for tool in await client.list_tools()])
            assert (await client.call_tool("new")).text == "with the lifespan of 1"
            assert first.runtime.pool.counts.threads > 0
            assert second.runtime.pool.counts.threads == 0
        return names

    assert asyncio.run(test()) == [["old"], ["new"]]


def test_a_description_does_not_change() -> None:
    server = Server("desk")
    server.register(Tool("old", handler=lambda: "old"))
    before = server.runtime.description
    with pytest.raises(AttributeError):
        before.capabilities = {}  # type: ignore[misc]
    server.register(Tool("new", handler=lambda: "new"))
    server.prompt(lambda topic: f"About {topic}", name="about")
    server.remove("old")
    after = server.runtime.description
    assert (list(before.tools.items), list(after.tools.items)) == (["old"], ["new"])
    assert ("prompts" in before.capabilities, "prompts" in after.capabilities) == (False, True)


def test_there_is_one_description_until_the_next_change() -> None:
    server = Server("desk", tools=[Tool("a", handler=lambda: "a")])
    first = server.runtime.description
    assert server.runtime.description is first
    server.register(Prompt("p", handler=lambda: "p"))
    second = server.runtime.description
    assert second is not first
    assert second.tools is first.tools  # with its encoded pages: only the prompts have changed


def test_a_call_keeps_what_it_began_with() -> None:
    """A tool that is removed or replaced while its calls wait in middleware is still called by them."""
    server = Server("shop", on_duplicate="replace")
    for name in ("gone", "other"):
        server.register(Tool(name, handler=lambda name=name: f"the first {name}", parameters=[]))

    async def test() -> list[str]:
        arrived, go = asyncio.Event(), asyncio.Event()
        waiting: list[str | None] = []

        @server.add_middleware
        async def hold(call: Call, next: Next) -> Result:
            if call.method == "tools/call" and not go.is_set():
                waiting.append(call.name)
                if len(waiting) == 2:
                    arrived.set()
                await go.wait()
            return await next(call)

        async with Client(server) as client:
            calls = [asyncio.create_task(client.call_tool(name)) for name in ("gone", "other")]
            await arrived.wait()
            server.remove("gone")
            server.register(Tool("other", handler=lambda: "the second other"))
            go.set()
            texts = [(await call).text for call in calls]
            texts.append((await client.call_tool("other")).text)
            with pytest.raises(Exception, match="Unknown tool: gone"):
                await client.call_tool("gone")
        return texts

    assert asyncio.run(test()) == ["the first gone", "the first other", "the second other"]


def test_who_is_told_of_a_resource_follows_the_server_as_it_is_now() -> None:
    """Nothing has been asked since the resource was hidden, so no call has made another description."""
    server = Server("desk", resources=[Resource("a://b", handler=lambda: "x")])

    async def test() -> list[str]:
        told: asyncio.Queue[str] = asyncio.Queue()
        note = lambda notification: told.put_nowait(notification.method)  # noqa: E731
        async with Client(server, protocol="2025-11-25", on_notification=note) as client:
            await client.subscribe("a://b")
            server.notify("a://b")
            heard = [await told.get()]
            server.register(Resource("a://b", handler=lambda: "x", visible=lambda user: False), replace=True)
            server.notify("a://b")
            server.notify_changed("prompts")
            while "notifications/prompts/list_changed" not in heard:
                heard.append(await told.get())
            return heard

    changed = ["notifications/resources/list_changed", "notifications/prompts/list_changed"]
    assert asyncio.run(test()) == ["notifications/resources/updated", *changed]


def test_registering_in_threads_is_never_lost() -> None:
    server = Server("desk")
    stop = threading.Event()

    def describe() -> None:
        while not stop.is_set():
            assert server.runtime.description.tools.items is not None

    def register(part: int) -> None:
        for number in range(200):
            server.register(Tool(f"t{part}_{number}", handler=lambda: "x"))

    reader = threading.Thread(target=describe)
    writers = [threading.Thread(target=register, args=(part,)) for part in range(3)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert len(server.runtime.description.tools.items) == 600
