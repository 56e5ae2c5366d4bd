"""Who is told of a change: both eras by one call, only what was asked for, and nobody held up by one who sleeps."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from typing import Any

import pytest

from redstart import Server
from redstart.features import subscriptions
from redstart.transports.stream import MAX_BYTES, Writer
from support import MODERN, NOVEMBER, Peer, exchange, message, run
from transports.support import Http


def notes() -> Server:
    server = Server("notes")

    @server.resource("notes://one")
    def one() -> str:
        return "1"

    @server.resource("notes://two")
    def two() -> str:
        return "2"

    return server


def listen(*uris: str, **kinds: bool) -> dict[str, Any]:
    return {"notifications": {**kinds, **({"resourceSubscriptions": list(uris)} if uris else {})}}


def told(messages: list[dict[str, Any]]) -> list[str]:
    """What a stream was told, in short."""
    found = []
    for one in messages:
        method = one.get("method", "result").removeprefix("notifications/")
        found.append(f"{method} {one.get('params', {}).get('uri', '')}".strip())
    return found


def test_one_call_reaches_both_eras_and_only_who_asked() -> None:
    async def test() -> None:
        server = notes()
        http = Http(server.asgi())
        modern = http.start_modern(1, "subscriptions/listen", listen("notes://one"))
        other = http.start_modern(1, "subscriptions/listen", listen("notes://two", toolsListChanged=True))
        session = await http.open()
        await http.send(message(2, "resources/subscribe", {"uri": "notes://one"}), headers=session)
        stream = http.start(method="GET", headers={**session, "accept": "text/event-stream"})
        await stream.started.wait()
        for each in (modern, other):
            await each.until(lambda r: r.messages())
        server.notify("notes://one")
        server.notify("notes://none")
        server.notify("notes://two")
        await modern.until(lambda r: len(r.messages()) >= 2)
        await other.until(lambda r: len(r.messages()) >= 2)
        await stream.until(lambda r: r.messages())
        assert told(modern.messages()) == ["subscriptions/acknowledged", "resources/updated notes://one"]
        assert told(other.messages()) == ["subscriptions/acknowledged", "resources/updated notes://two"]
        assert told(stream.messages()) == ["resources/updated notes://one"]
        for each in (modern, other, stream):
            each.disconnect()
            await asyncio.wait([each.task])
        await server.runtime.stop()

    run(test())


def test_all_together_wait_for_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and streams count together, and what one lets go another may have."""
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIBED_BY_ALL", 15_000)

    async def test() -> None:
        server = notes()
        http = Http(server.asgi())
        first, second = await http.open(), await http.open()

        async def code(session: dict[str, str], method: str, uri: str) -> int:
            answer = await http.send(message(2, method, {"uri": uri}), headers=session)
            return int(answer.json().get("error", {}).get("code", 0))

        assert await code(first, "resources/subscribe", "notes://" + "x" * 6000) == 0
        stream = http.start_modern(1, "subscriptions/listen", listen("notes://" + "y" * 6000))
        await stream.until(lambda r: r.messages())
        assert await code(first, "resources/subscribe", "notes://" + "x" * 6000) == 0  # twice is once
        assert await code(second, "resources/subscribe", "notes://" + "o" * 2500) == -32603
        stream.disconnect()
        await asyncio.wait([stream.task])
        assert await code(second, "resources/subscribe", "notes://" + "o" * 2500) == 0
        assert await code(second, "resources/subscribe", "notes://" + "z" * 6000) == -32603
        await http.send(method="DELETE", headers=first)
        assert await code(second, "resources/subscribe", "notes://" + "z" * 6000) == 0
        assert await code(second, "resources/unsubscribe", "notes://" + "o" * 2500) == 0
        third = await http.open()
        assert await code(third, "resources/subscribe", "notes://" + "w" * 6000) == 0
        await server.runtime.stop()

    run(test())


def test_the_headers_that_are_kept_with_a_subscription_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIBED_BY_ALL", 100_000)

    async def test() -> None:
        server = notes()
        http = Http(server.asgi())
        sessions = [{**await http.open(), "x-large": "x" * 60_000} for _ in range(2)]

        async def code(number: int, method: str) -> int:
            answer = await http.send(message(2, method, {"uri": "notes://one"}), headers=sessions[number])
            return int(answer.json().get("error", {}).get("code", 0))

        for _ in range(2):  # those of the last call, not of all
            assert await code(0, "resources/subscribe") == 0
        assert await code(1, "resources/subscribe") == -32603
        assert await code(0, "resources/unsubscribe") == 0  # who waits for nothing keeps nothing
        assert await code(1, "resources/subscribe") == 0
        await server.runtime.stop()

    run(test())


def test_the_answers_of_a_batch_are_not_kept_with_its_subscription() -> None:
    async def test() -> int:
        server = notes()

        @server.resource("notes://long")
        def long() -> str:
            return "x" * 2_000_000

        http = Http(server.asgi())
        parts = [
            message(id, f"resources/{what}", {"uri": "notes://long"}) for id, what in enumerate(("subscribe", "read"))
        ]
        sessions = [await http.open("2025-03-26") for _ in range(6)]
        tracemalloc.start()
        try:
            for session in sessions:
                answer = await http.send(b"[%b]" % b",".join(parts), headers=session)
                assert len(answer.body) > 2_000_000
            del answer
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            await server.runtime.stop()

    assert run(test()) < 4_000_000


@pytest.mark.requirement("T55")
def test_subscribing_twice_is_once_and_unsubscribing_from_nothing_is_fine() -> None:
    server = notes()
    requests: list[tuple[str, dict[str, Any]]] = [
        ("resources/unsubscribe", {"uri": "notes://never"}),
        ("resources/subscribe", {"uri": "notes://one"}),
        ("resources/subscribe", {"uri": "notes://one"}),
        ("resources/unsubscribe", {"uri": "notes://one"}),
        ("resources/unsubscribe", {"uri": "notes://one"}),
    ]
    assert all(answer["result"] == {} for answer in exchange(server, NOVEMBER, requests))

    async def heard() -> list[str]:
        peer = await Peer(server, NOVEMBER).open()
        messages = []
        for _ in range(2):
            await peer.request("resources/subscribe", {"uri": "notes://one"})
        server.notify("notes://one")
        messages.append(await peer.receive())
        await peer.request("resources/unsubscribe", {"uri": "notes://one"})
        server.notify("notes://one")
        await asyncio.sleep(0)
        peer.start("ping", {})  # what had been told would come before the answer
        messages.append(await peer.receive())
        await peer.close()
        await server.runtime.stop()
        return told(messages)

    assert run(heard()) == ["resources/updated notes://one", "result"]


def test_many_changes_in_one_turn_are_told_once() -> None:
    async def test() -> None:
        server = notes()
        http = Http(server.asgi())
        stream = http.start_modern(1, "subscriptions/listen", listen("notes://one", toolsListChanged=True))
        await stream.until(lambda r: r.messages())
        for number in range(100):
            server.notify("notes://one")
            server.tool(name=f"t{number}")(lambda: "x")
        await stream.until(lambda r: len(r.messages()) >= 3)
        await asyncio.sleep(0)
        assert sorted(told(stream.messages())[1:]) == ["resources/updated notes://one", "tools/list_changed"]
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())


@pytest.mark.requirement("T105")
def test_one_of_a_hundred_that_does_not_read_is_shed_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Writer, "patience", 0.0)
    uri = "notes://" + "x" * 8_000

    async def test() -> None:
        server = notes()
        server.resource(uri)(lambda: "x")
        http = Http(server.asgi())
        streams = [http.start_modern(n, "subscriptions/listen", listen(uri)) for n in range(100)]
        for stream in streams:
            await stream.until(lambda r: r.messages())
        slow, *others = streams
        slow.may_send.clear()
        rounds = 0
        while len(server.runtime.hub.listeners) == 100:
            server.notify(uri)
            rounds += 1
            for stream in others:  # every other one has this change before the next one happens
                await stream.until(lambda r, n=rounds: r.body.count(b"resources/updated") == n)
            assert rounds < 1000
        assert rounds * 8_000 < 5 * MAX_BYTES
        assert len(server.runtime.hub.listeners) == 99
        # It had its chance to read the reason; then it is hung up on.
        with pytest.raises(ConnectionAbortedError):
            await slow.task
        server.notify(uri)
        for stream in others:
            await stream.until(lambda r: r.body.count(b"resources/updated") == rounds + 1)
            stream.disconnect()
            await asyncio.wait([stream.task])
        assert not server.runtime.hub.listeners
        await server.runtime.stop()

    with caplog.at_level(logging.WARNING, "redstart"):
        run(test(), seconds=50)
    assert "does not read" in caplog.text


def test_who_wakes_up_in_time_reads_why_it_was_shed() -> None:
    uri = "notes://" + "x" * 8_000

    async def test() -> None:
        server = notes()
        server.resource(uri)(lambda: "x")
        http = Http(server.asgi())
        slow = http.start_modern(1, "subscriptions/listen", listen(uri))
        await slow.until(lambda r: r.messages())
        slow.may_send.clear()
        while server.runtime.hub.listeners:
            server.notify(uri)
            await asyncio.sleep(0)
        slow.may_send.set()
        await slow.until(lambda r: r.complete)
        assert slow.body.endswith(b": closed, because this client does not read\n\n")
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize("era", [NOVEMBER, MODERN])
def test_what_is_removed_or_registered_on_a_running_server_is_told(era: str) -> None:
    async def test() -> None:
        server = notes()
        http = Http(server.asgi())
        if era == MODERN:
            kinds = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
            server.declare(["prompts"])
            stream = http.start_modern(1, "subscriptions/listen", listen(**kinds))
            await stream.until(lambda r: r.messages())
        else:
            session = await http.open()
            stream = http.start(method="GET", headers={**session, "accept": "text/event-stream"})
            await stream.started.wait()
        first = len(stream.messages())
        server.tool(name="new")(lambda: "x")
        server.prompt(name="p")(lambda: "x")
        server.remove("notes://two")
        await stream.until(lambda r: len(r.messages()) >= first + 3)
        expected = ["tools/list_changed", "prompts/list_changed", "resources/list_changed"]
        assert told(stream.messages())[first:] == expected
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())


def secrets(allowed: set[str]) -> Server:
    """A server whose secrets only those in `allowed` may see; its notes are for everybody."""
    server = notes()

    @server.resource("secret://one", visible=lambda user: user in allowed)
    def one() -> str:
        return "1"

    @server.resource("secret://{name}/{part}", visible=lambda user: user in allowed)
    def part(name: str, part: str) -> str:
        return name

    return server


class Subscriber(Peer):
    """A client that wants to hear of some URIs."""

    async def subscribe(self, *uris: str) -> list[Any]:
        """What the server answers."""
        await self.open()
        if self.modern:
            self.start("subscriptions/listen", listen(*uris))
            return [await self.receive()]
        return [await self.request("resources/subscribe", {"uri": uri}) for uri in uris]

    async def told(self) -> list[str]:
        """The updates up to that of a resource for everybody."""
        uris = [(await self.receive())["params"]["uri"]]
        while uris[-1] != "notes://one":
            uris.append((await self.receive())["params"]["uri"])
        return uris


@pytest.mark.parametrize("era", [NOVEMBER, MODERN])
def test_an_update_reaches_only_those_who_may_see_the_resource(era: str) -> None:
    uris = ("secret://one", "secret://two/a", "notes://one")

    async def test() -> None:
        allowed = {"ada"}
        server = secrets(allowed)
        ada, bob = (Subscriber(server, era, principal=user) for user in ("ada", "bob"))
        assert await ada.subscribe(*uris) == await bob.subscribe(*uris)

        async def told_now() -> list[list[str]]:
            for uri in uris:
                server.notify(uri)
            return [await ada.told(), await bob.told()]

        assert await told_now() == [list(uris), ["notes://one"]]
        allowed.symmetric_difference_update({"ada", "bob"})  # what was subscribed before follows the rule of now
        assert await told_now() == [["notes://one"], list(uris)]
        for each in (ada, bob):
            await each.close()
        await server.runtime.stop()

    run(test())
