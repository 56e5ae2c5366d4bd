"""A server that a thread serves: from its start to its end, and while cells register more."""

from __future__ import annotations

import threading

import pytest

from redstart import Client, Server
from support import ERAS, free_port, run


def double() -> Server:
    server = Server("lab")

    @server.tool
    def twice(n: int) -> int:
        return 2 * n

    return server


@pytest.mark.parametrize("revision", ERAS)
def test_clients_call_it_and_learn_of_what_is_registered_later(revision: str) -> None:
    server = double()

    async def main(url: str) -> list[str]:
        async with Client(url, protocol=revision) as client:
            assert (await client.call_tool("twice", {"n": 21})).data == 42
            async with client.listen(tools=True) as events:
                server.tool(lambda: 1, name="later", description="x")
                assert (await anext(aiter(events))).kind == "tools"
            return [tool.name for tool in await client.list_tools()]

    with server.serve_background(port=0) as served:
        assert run(main(served.url)) == ["twice", "later"]


def test_a_second_server_of_the_same_name_takes_over_the_port() -> None:
    first = double().serve_background(port=0)
    second = double().serve_background(port=0)
    try:
        assert second.url == first.url
        assert "stopped" in repr(first)
        assert "served" in repr(second)
    finally:
        second.stop()
    second.stop()  # a second time, too
    assert not [thread for thread in threading.enumerate() if thread.name == "redstart lab"]


def test_it_starts_again_after_a_stop() -> None:
    server = double()

    async def main(url: str) -> object:
        async with Client(url) as client:
            return (await client.call_tool("twice", {"n": 1})).data

    for _ in range(2):
        with server.serve_background(port=0) as served:
            assert run(main(served.url)) == 2


def test_what_keeps_it_from_starting_is_raised_in_the_callers_thread() -> None:
    async def broken(server: Server):  # type: ignore[no-untyped-def]
        raise RuntimeError("no database")
        yield

    with pytest.raises(RuntimeError, match="no database"):
        Server("s", lifespan=broken).serve_background(port=0)
    with pytest.raises(RuntimeError, match="can be reached from other machines"):
        double().serve_background(host="0.0.0.0", port=0)
    port = free_port()
    with double().serve_background(port=port), pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{port}"):
        Server("other").serve_background(port=port)


def test_a_notebook_shows_where_it_is_and_what_it_has() -> None:
    server = Server("<lab>")
    for number in range(12):
        server.tool(lambda: 1, name=f"tool_{number}", description="x")
    with server.serve_background(port=0) as served:
        card = served._repr_html_()
    assert "&lt;lab&gt;" in card
    assert f"<code>{served.url}</code>" in card
    assert "<li>tools: <code>tool_0</code>" in card
    assert card.count("<code>tool_") == 10
    assert "prompts" not in card


def test_options_are_checked() -> None:
    with pytest.raises(TypeError, match=r"server\.serve_background\(\).*hots"):
        double().serve_background(hots="x")  # type: ignore[call-arg]
