"""What runs calls holds a finished description of the server; another one may take its place."""

from __future__ import annotations

import asyncio

import pytest

from redstart import Client, Server, Tool


def test_another_description_takes_the_place_of_the_first() -> None:
    first, second = Server("shop", version="1"), Server("shop", version="2")
    first.register(Tool("old", handler=lambda: "from the first"))
    second.register(Tool("new", handler=lambda: "from the second"))

    async def test() -> list[list[str]]:
        async with Client(first) as client:
            names = [[tool.name for tool in await client.list_tools()]]
            first.runtime.description = second.runtime.description
            await second.runtime.start()
            names.append([tool.name for tool in await client.list_tools()])
            assert (await client.call_tool("new")).text == "from the second"
            await second.runtime.stop()
        return names

    assert asyncio.run(test()) == [["old"], ["new"]]


def test_a_change_of_what_is_offered_makes_another_description() -> None:
    server = Server("desk")
    before = server.runtime.description
    with pytest.raises(AttributeError):
        before.capabilities = {}  # type: ignore[misc]
    server.prompt(lambda topic: f"About {topic}", name="about")
    after = server.runtime.description
    assert ("prompts" in before.capabilities, "prompts" in after.capabilities) == (False, True)
