"""What may wait for a client that does not read, and what is never held against one that does."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from redstart import Context, Server
from redstart.protocol.framing import sse_event
from redstart.transports.request import AsgiRequest, Limits
from redstart.transports.stream import (
    EVENT_COST,
    KEPT_SHARE,
    MAX_BYTES,
    MAX_EVENTS,
    SHED,
    EventLog,
    KeptEvents,
    Stream,
    Writer,
)
from support import MODERN, LeapingLoop, leap, message, modern, run
from transports.support import Http


class Client:
    """The other end of an event stream: reads while it may."""

    def __init__(self) -> None:
        self.body = b""
        self.parts: list[bytes] = []
        self.reads = asyncio.Event()
        self.ended = False
        self.error: Exception | None = None

    def open_stream(self, limits: Limits | None = None) -> Writer:
        request = AsgiRequest({"method": "GET"}, {}, limits or Limits(), _receive=self.receive, _send=self.send)
        return Writer(request, [])

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        if self.error is not None:
            raise self.error
        self.body += message.get("body", b"")
        self.parts.append(message.get("body", b""))
        self.ended = message.get("more_body") is False


async def turn() -> None:
    """Let the writer do what it can."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("size", "count"), [(20, 5000), (100_000, 50)])
def test_a_burst_in_one_turn_is_no_fault_of_the_clients(size: int, count: int) -> None:
    async def test() -> None:
        client = Client()
        client.reads.set()
        writer = client.open_stream()
        for _ in range(3):
            for _ in range(count):
                writer.push(b"x" * size)
            await writer.ready()
        assert not writer.closed
        writer.close()
        await writer.finished()
        assert len(client.body) == 3 * size * count

    run(test())


@pytest.mark.parametrize(
    ("size", "most"),
    [(20, MAX_EVENTS), (MAX_BYTES // 8, 8), (5 * MAX_BYTES, 1)],
    ids=["many small", "some large", "one huge"],
)
def test_what_waits_is_bounded_by_number_and_by_size(size: int, most: int, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream()
        await turn()  # now it waits for its client
        for number in range(most):
            writer.push(b"x" * size)
            assert not writer.closed, number
        writer.push(b"one too many")
        assert writer.closed
        client.reads.set()
        await writer.finished()
        assert client.body == SHED
        assert client.ended

    with caplog.at_level(logging.WARNING, "redstart"):
        run(test())
    assert f"{most} events" in caplog.text


def test_a_huge_result_behind_small_words_is_not_lost() -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream()
        await turn()
        words = [b"x" * 20] * (MAX_EVENTS - 1)
        for word in words:
            writer.push(word)
        writer.push(b"r" * 4 * MAX_BYTES)
        writer.close()
        client.reads.set()
        await writer.finished()
        assert client.body == b"".join(words) + b"r" * 4 * MAX_BYTES

    run(test())


def test_who_is_behind_and_reads_on_is_never_shed() -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream()
        await turn()
        event, rounds = sse_event(b"{}"), 20
        for _ in range(rounds):
            for _ in range(MAX_EVENTS):
                writer.push(event)
            client.reads.set()
            await writer.ready()
            client.reads.clear()
        client.reads.set()
        writer.close()
        await writer.finished()
        assert client.body == event * MAX_EVENTS * rounds

    run(test())


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream;q=0"])
def test_a_client_that_takes_no_events_cannot_listen_and_is_told_so_at_once(accept: str) -> None:
    async def test() -> None:
        server = Server("quiet")
        http = Http(server.asgi())
        wanted = {"notifications": {"toolsListChanged": True}}
        response = await http.modern(7, "subscriptions/listen", wanted, headers={"accept": accept})
        assert (response.status, response.json()["id"]) == (406, 7)
        assert "text/event-stream" in response.json()["error"]["message"]
        assert not server.runtime.hub.listeners
        assert len(asyncio.all_tasks()) == 1
        await server.runtime.stop()

    run(test())


def test_a_thousand_words_before_a_result_all_arrive() -> None:
    server = Server("chatty")

    @server.tool
    async def count(ctx: Context, upto: int) -> str:
        for number in range(1, upto + 1):
            await ctx.progress(number)
        return "counted"

    async def test() -> None:
        http = Http(server.asgi())
        params = {"name": "count", "arguments": {"upto": 3000}}
        sent = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "count"}
        response = await http.send(modern(1, "tools/call", params, progressToken="t"), headers=sent)
        *words, result = response.messages()
        assert [word["params"]["progress"] for word in words] == list(range(1, 3001))
        assert result["result"]["content"][0]["text"] == "counted"
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_tool_is_held_back_while_its_client_does_not_read(era: str) -> None:
    server, said, go = Server("chatty"), 0, asyncio.Event()

    @server.tool
    async def count(ctx: Context) -> str:
        nonlocal said
        for said in range(1, 3001):
            await ctx.progress(said)
            await go.wait()
        return "counted"

    async def test() -> None:
        http = Http(server.asgi())
        params = {"name": "count", "_meta": {"progressToken": "t"}}
        if era == "modern":
            response = http.start_modern(1, "tools/call", {"name": "count"}, meta={"progressToken": "t"})
        else:
            response = http.start(message(1, "tools/call", params), headers=await http.open())
        await response.until(lambda r: b"progress" in r.body)
        response.may_send.clear()
        go.set()
        last = -1
        while said != last:
            last = said
            for _ in range(10):
                await asyncio.sleep(0)
        assert said < 100
        response.may_send.set()
        *words, result = (await response.done()).messages()
        assert [word["params"]["progress"] for word in words] == list(range(1, 3001))
        assert result["result"]["content"][0]["text"] == "counted"
        await server.runtime.stop()

    run(test())


def test_the_last_event_and_the_end_are_one_part() -> None:
    """Each part is a write, which wakes the client."""

    async def test() -> None:
        client = Client()
        client.reads.set()
        writer = client.open_stream()
        writer.push(b"first")
        await turn()
        assert client.parts == [b"", b"first"]  # the head, and what was there when it was sent
        writer.push(b"last", last=True)
        writer.push(b"too late")
        await writer.finished()
        assert client.parts == [b"", b"first", b"last"]
        assert client.ended

    run(test())


def test_nothing_follows_the_end_of_a_stream() -> None:
    async def test() -> None:
        client = Client()
        client.reads.set()
        writer = client.open_stream()
        writer.push(b"last")
        writer.close()
        writer.push(b"too late")
        await writer.finished()
        assert client.body == b"last"

    run(test())


def test_who_sent_an_event_longest_ago_loses_its_events_first() -> None:
    kept = KeptEvents(3 * (len(sse_event(b"{}", "a-1")) + EVENT_COST) - 1)
    first, second, third = (Stream(name, EventLog(kept)) for name in "abc")
    for stream in (first, second, first, third):
        stream.send(b"{}")
    assert [stream.can_resume(0) for stream in (first, second, third)] == [True, True, True]
    for stream in (first, second, third):
        stream.end()
    assert [stream.can_resume(0) for stream in (first, second, third)] == [True, False, True]


class Line(AsgiRequest, eq=False, kw_only=True):
    """A connection that takes what is written at once, while its client is not behind."""

    client: Client
    takes: bool = True
    held: int = 0

    def hold(self, size: int) -> None:
        self.held += size

    def write(self, data: bytes) -> bool:
        if self.takes:
            self.client.body += data
        return self.takes


def test_what_is_written_at_once_overtakes_nothing() -> None:
    async def test() -> None:
        client = Client()
        line = Line({"method": "GET"}, {}, Limits(), _receive=client.receive, _send=client.send, client=client)
        writer = Writer(line, [])
        writer.push(b"a")  # the head has not been sent
        await turn()
        assert client.body == b""
        client.reads.set()
        await turn()
        writer.push(b"b")
        assert client.body == b"ab"  # at once
        line.takes = False
        writer.push(b"c")
        line.takes = True
        writer.push(b"d")
        client.reads.clear()
        await turn()
        writer.push(b"e")  # what came before it is being sent
        assert client.body == b"ab"
        client.reads.set()
        writer.close()
        await writer.finished()
        assert client.body == b"abcde"
        assert client.ended

    run(test())


def test_only_what_waits_now_counts_against_a_client() -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream()
        for _ in range(4 * MAX_BYTES // 100_000):
            client.reads.clear()
            for _ in range(3):
                writer.push(b"x" * 50_000)
                await turn()
            client.reads.set()
            await writer.ready()
        assert not writer.closed
        writer.close()
        await writer.finished()

    run(test())


def test_a_connection_is_told_how_much_waits_for_a_client_that_is_behind() -> None:
    async def test() -> None:
        client = Client()
        line = Line({"method": "GET"}, {}, Limits(), _receive=client.receive, _send=client.send, client=client)
        writer = Writer(line, [])
        writer.push(b"abc")  # is sent with the head
        await turn()
        assert line.held == 0
        writer.push(b"de")
        writer.push(b"f")
        assert line.held == 3
        client.reads.set()
        writer.close()
        await writer.finished()
        assert client.body == b"abcdef"

    run(test())


@pytest.mark.parametrize("own_connection", [False, True])
def test_a_client_that_has_not_read_for_too_long_is_hung_up_on(own_connection: bool) -> None:
    class Own(AsgiRequest, eq=False, kw_only=True):
        own_connection = True

    async def test() -> None:
        client, told = Client(), asyncio.Event()
        limits = Limits(keep_alive=10, write_deadline=15)
        kind = Own if own_connection else AsgiRequest
        writer = Writer(kind({"method": "GET"}, {}, limits, _receive=client.receive, _send=client.send), [])
        writer.on_shed = told.set
        if own_connection:  # the connection has its own deadline, and knows whether the client reads slowly
            for _ in range(3):
                await leap(12)
            assert not writer.closed
            client.reads.set()
            writer.close()
            await writer.finished()
            return
        await leap(12)
        assert not writer.closed
        await leap(12)
        assert writer.closed
        with pytest.raises(ConnectionAbortedError):
            await writer.finished()
        assert told.is_set()
        assert client.body == b""

    run(test(), loop=LeapingLoop, seconds=100)


def test_a_client_that_reads_before_the_deadline_is_not_hung_up_on() -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream(Limits(keep_alive=10, write_deadline=60))
        for _ in range(4):
            await leap(12)
        client.reads.set()
        for _ in range(3):
            await leap(12)
        assert client.body.count(b": keep-alive") == 3
        writer.close()
        await writer.finished()

    run(test(), loop=LeapingLoop, seconds=200)


def test_who_is_shed_is_reported_and_hung_up_on_when_it_still_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "patience", 0.01)

    async def test() -> None:
        client, told = Client(), []
        writer = client.open_stream()
        writer.on_shed = lambda: told.append(writer.closed)
        await turn()
        for _ in range(MAX_EVENTS + 1):
            assert not told
            writer.push(b"x")
        assert told == [True]
        with pytest.raises(ConnectionAbortedError):
            await writer.finished()

    run(test())


def test_who_waits_for_a_client_goes_on_when_the_client_has_gone() -> None:
    async def test() -> None:
        client = Client()
        writer = client.open_stream()
        await turn()
        writer.push(b"a")
        held_back = asyncio.create_task(writer.ready())
        await turn()
        assert not held_back.done()
        writer.client_gone()
        await held_back
        client.reads.set()
        await writer.finished()
        assert client.body == b""

    run(test())


@pytest.mark.parametrize("error", [ConnectionResetError, RuntimeError])
def test_a_server_that_cannot_send_ends_the_stream(error: type[Exception]) -> None:
    async def test() -> None:
        client = Client()
        client.error = error()
        writer = client.open_stream()
        await turn()
        writer.push(b"a")
        held_back = asyncio.create_task(writer.ready())
        await turn()
        client.reads.set()
        if error is RuntimeError:  # a fault, not a client that has gone
            with pytest.raises(RuntimeError):
                await writer.finished()
        else:
            await writer.finished()
        await held_back
        writer.push(b"b")
        await writer.ready()

    run(test())


def test_a_stream_that_has_ended_leaves_nothing_behind() -> None:
    server = Server("chatty")

    @server.tool
    async def say(ctx: Context) -> str:
        await ctx.progress(1)
        return "said"

    async def test() -> None:
        http = Http(server.asgi())
        session = await http.open()
        pushed = http.start(method="GET", headers=session)
        await pushed.started.wait()
        spoken = await http.modern(1, "tools/call", {"name": "say"}, meta={"progressToken": "t"})
        assert len(spoken.messages()) == 2
        assert (await http.send(method="DELETE", headers=session)).status == 200
        await pushed.done()
        del spoken, pushed
        await turn()
        gc.collect()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        assert [one for one in gc.get_objects() if isinstance(one, Writer)] == []
        await server.runtime.stop()

    run(test())


def test_a_client_that_comes_back_gets_what_it_missed_of_its_stream_only() -> None:
    async def test() -> None:
        stream, other = (Stream(name, log) for log in [EventLog(KeptEvents())] for name in "ab")
        for _ in range(3):
            stream.send(b"{}")
            other.send(b"{}")
        first, second = Client(), Client()
        for client in (first, second):
            client.reads.set()
            writer = client.open_stream()
            stream.attach(writer, 1)
            await writer.ready()
            assert client.body == b"".join(sse_event(b"{}", f"a-{number}") for number in (2, 3))
        await turn()
        assert first.ended  # the other connection has taken its place
        assert not second.ended
        stream.detach()
        assert stream.writer is None
        await writer.finished()
        assert second.ended

    run(test())


def test_a_stream_that_has_ended_can_be_resumed_while_its_last_event_is_kept() -> None:
    size = len(sse_event(b"{}", "a-1")) + EVENT_COST
    log = EventLog(KeptEvents(KEPT_SHARE * 3 * size))  # of which one session has three events
    ended, other = Stream("a", log), Stream("b", log)
    ended.send(b"{}")
    ended.send(b"{}")
    ended.end()
    other.send(b"{}")
    assert ended.can_resume(0)
    other.send(b"{}")
    assert ended.can_resume(0)
    other.send(b"{}")
    assert not ended.can_resume(1)
    assert ended.can_resume(2)  # nothing was missed


def test_sessions_with_more_events_than_their_share_make_room_for_each_other() -> None:
    size = len(sse_event(b"{}", "a-1")) + EVENT_COST
    kept = KeptEvents(KEPT_SHARE * 2 * size)
    streams = [Stream("a", EventLog(kept)) for _ in range(KEPT_SHARE + 1)]
    for stream in streams[:-1]:
        for _ in range(3):
            stream.send(b"{}")
    assert kept.size == KEPT_SHARE * 2 * size  # just what fits
    streams[-1].send(b"{}")
    for stream in streams:
        stream.end()
    assert [stream.can_resume(0) for stream in streams] == [False] + [True] * KEPT_SHARE


def test_a_session_that_has_lost_its_events_is_passed_by_when_the_next_one_has_to() -> None:
    size = len(sse_event(b"{}", "a-1")) + EVENT_COST
    kept = KeptEvents(2 * size)
    streams = [Stream("a", EventLog(kept)) for _ in range(4)]
    for stream in streams:
        stream.send(b"{}")
        stream.end()
    assert [stream.can_resume(0) for stream in streams] == [False, False, True, True]
