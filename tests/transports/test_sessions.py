"""How many sessions there are, whose they are, what they keep, and when one is unknown: in process, over ASGI."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest

from redstart import Context, Server
from redstart.protocol.handshake import negotiate
from redstart.transports.address import checked_proxies, client_site
from redstart.transports.response import Response as PostResponse
from redstart.transports.sessions import MAX_STREAMS
from redstart.wire.types import InitializeParams
from support import HANDSHAKES, initialize, message, run
from transports.support import Http

LATEST = HANDSHAKES[-1]
TOKENS = {"a": {"sub": "ada"}, "b": {"sub": "bob"}}
ADA, BOB = {"authorization": "Bearer a"}, {"authorization": "Bearer b"}
KEYS = {"keys": ["a key that processes share"]}


class Stage:
    """A server with a tool that waits, one that says a lot, and one that asks."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("sessions", version="1", **options)
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        stage = self

        @self.server.tool
        async def wait() -> str:
            stage.began.set()
            await stage.go.wait()
            return "went on"

        @self.server.tool
        async def say(ctx: Context, times: int, size: int) -> str:
            for number in range(times):
                await ctx.progress(number + 1, message="x" * size)
            return "said"

        @self.server.tool
        async def name(ctx: Context) -> str:
            stage.began.set()
            return await ctx.ask("Your name?", str)

        @self.server.tool
        async def poll(ctx: Context) -> str:
            return f"closed: {await ctx.close_stream()}"

        @self.server.resource("notes://one")
        def note() -> str:
            return "one"

    def http(self, **options: Any) -> Http:
        return Http(self.server.asgi(**options))


def call(id: Any, tool: str, **arguments: Any) -> bytes:
    return message(id, "tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}})


PING = message("ping", "ping")
SUBSCRIBE = message("sub", "resources/subscribe", {"uri": "notes://one"})


async def status(http: Http, session: dict[str, str], **options: Any) -> int:
    return (await http.send(PING, headers=session, **options)).status


# ---------------------------------------------------------------- what is kept


async def replayed(http: Http, session: dict[str, str], first: str) -> bytes:
    response = await http.send(method="GET", headers={**session, "last-event-id": first})
    return response.body if response.status == 200 else b""


def test_a_session_keeps_so_many_bytes_of_events_and_always_the_result() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        response = await http.send(call(1, "say", times=40, size=100_000), headers=session)
        assert len(response.body) > 4_000_000
        again = await replayed(http, session, response.events()[0]["id"])
        assert len(again) < 1_100_000
        assert b'"id":1,"result"' in again

    run(test())


def test_small_events_cost_memory_too() -> None:
    async def test() -> None:
        http = Stage().http(max_kept_bytes=64 * 100_000)
        session = await http.open()
        response = await http.send(call(1, "say", times=2000, size=1), headers=session)
        again = await replayed(http, session, response.events()[0]["id"])
        assert again.count(b"data:") < 500
        assert b'"id":1,"result"' in again

    run(test())


def test_all_sessions_together_keep_so_many_bytes() -> None:
    async def test() -> None:
        http = Stage().http(max_kept_bytes=640_000)
        firsts = []
        for _ in range(100):
            session = await http.open()
            response = await http.send(call(1, "say", times=1, size=9000), headers=session)
            firsts.append((session, response.events()[0]["id"]))
        kept = [await replayed(http, session, first) for session, first in firsts]
        assert sum(map(len, kept)) < 640_000
        assert b'"id":1,"result"' in kept[-1]
        assert kept[0] == b""  # its result is gone, and nothing is made up: it is unknown

    run(test())


def test_a_result_that_is_larger_than_a_share_can_be_fetched() -> None:
    async def test() -> None:
        stage = Stage()

        @stage.server.tool
        async def large(ctx: Context) -> str:
            await ctx.progress(1)
            return "x" * 3_000_000

        http = stage.http()
        session = await http.open()
        response = await http.send(call(1, "large"), headers=session)
        again = await replayed(http, session, response.events()[0]["id"])
        assert again.count(b"x") >= 3_000_000

    run(test())


# ---------------------------------------------------------------- how many, and whose


def test_one_caller_evicts_nobody_else_and_no_call_that_runs() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(max_sessions=50)
        victim = await http.open(client="10.0.0.1")
        assert (await http.send(SUBSCRIBE, headers=victim)).status == 200
        own = await http.open(client="10.0.0.2")
        running = http.start(call(1, "wait"), headers=own)
        await stage.began.wait()
        flood = [await http.open(client="10.0.0.2") for _ in range(200)]
        stage.go.set()
        await running.done()
        assert running.json()["result"]["content"][0]["text"] == "went on"
        assert await status(http, victim) == 200
        assert await status(http, flood[-1]) == 200
        assert len(stage.server.runtime.hub.peers) <= 1 + 5

    run(test())


def test_a_user_has_a_share_wherever_the_requests_come_from() -> None:
    async def test() -> None:
        stage = Stage(auth=TOKENS.get)
        http = stage.http(max_sessions=50)
        victim = await http.open(headers=ADA)
        assert (await http.send(SUBSCRIBE, headers=victim)).status == 200
        for number in range(100):
            await http.open(headers=BOB, client=f"10.0.0.{number}")
        assert await status(http, victim) == 200
        assert len(stage.server.runtime.hub.peers) <= 1 + 5

    run(test())


def test_where_all_are_in_use_a_new_one_is_told_to_come_back() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(max_sessions=20)
        running = []
        for _ in range(2):
            session = await http.open(client="10.0.0.1")
            stage.began.clear()
            running.append(http.start(call(1, "wait"), headers=session))
            await stage.began.wait()
        opened = await http.send(
            message(1, "initialize", {"protocolVersion": LATEST, "capabilities": {}}), client="10.0.0.1"
        )
        third = {"mcp-session-id": opened.headers["mcp-session-id"]}
        refused = await http.send(PING, headers=third, client="10.0.0.1")
        assert refused.status == 503
        assert "retry-after" in refused.headers
        assert "sessions" in refused.json()["error"]["message"]
        stage.go.set()
        for response in running:
            assert (await response.done()).json()["result"]["content"][0]["text"] == "went on"
        assert await status(http, third, client="10.0.0.1") == 200

    run(test())


LEVEL = message("level", "logging/setLevel", {"level": "error"})


@pytest.mark.parametrize("told", [SUBSCRIBE, LEVEL, None], ids=["subscribed", "log level", "nothing"])
def test_a_session_that_nobody_uses_is_let_go(told: bytes | None) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.05)
        session = await http.open()
        if told is not None:
            assert (await http.send(told, headers=session)).status == 200
        while stage.server.runtime.hub.peers:
            await asyncio.sleep(0.01)
        # What it knew is gone: its client starts anew. If it knew nothing, it goes on as if nothing had happened.
        assert await status(http, session) == (200 if told is None else 404)

    run(test())


def test_a_server_that_starts_again_lets_go_of_idle_sessions_again() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.5)  # more than the process may stand still
        for _ in range(2):
            await http.open()
            assert len(stage.server.runtime.hub.peers) == 1
            await stage.server.runtime.stop()
            assert not stage.server.runtime.hub.peers
        for _ in range(2):
            await http.open()
            while stage.server.runtime.hub.peers:
                await asyncio.sleep(0.01)

    run(test())


def test_the_session_that_goes_is_the_one_that_was_not_used_for_longest() -> None:
    async def test() -> None:
        http = Stage().http(max_sessions=20)  # two for each address
        for where in ([f"10.0.1.{number // 2}" for number in range(21)], ["10.0.0.1"] * 3):  # all, and one caller's
            used, idle = [await http.open(client=where[number]) for number in (0, 1)]
            for session in (used, idle):
                assert (await http.send(SUBSCRIBE, headers=session, client=where[0])).status == 200
            assert await status(http, used, client=where[0]) == 200
            for address in where[2:]:
                await http.open(client=address)
            assert await status(http, used, client=where[0]) == 200
            assert await status(http, idle, client=where[0]) == 404

    run(test())


def test_a_session_that_is_used_now_and_then_is_not_idle() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.5)
        used, idle = await http.open(), await http.open()
        for session in (used, idle):
            await http.send(SUBSCRIBE, headers=session)
        while len(stage.server.runtime.hub.peers) > 1:
            assert await status(http, used) == 200
            await asyncio.sleep(0.01)
        assert await status(http, used) == 200
        while stage.server.runtime.hub.peers:  # and then it is
            await asyncio.sleep(0.01)
        assert await status(http, used) == 404

    run(test())


def test_a_session_whose_stream_is_open_is_in_use() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.05)
        held = await http.open()
        stream = http.start(method="GET", headers=held)
        await stream.started.wait()
        other = await http.open()
        await http.send(SUBSCRIBE, headers=other)
        while len(stage.server.runtime.hub.peers) > 1:
            await asyncio.sleep(0.01)
        assert not stream.complete
        assert await status(http, other) == 404
        stream.disconnect()
        await stream.done()
        while stage.server.runtime.hub.peers:  # from now on it is idle
            await asyncio.sleep(0.01)

    run(test())


@pytest.mark.parametrize("tool", ["wait", "name"])
def test_a_call_goes_with_the_session_that_its_client_has_left_alone(tool: str) -> None:
    """Nobody will answer the question, and nobody comes back for the result."""

    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.5)  # more than the process may stand still before the calls have begun
        waits, left = [await opened_for_questions(http) for _ in range(2)]
        calls = []
        for session in (waits, left):
            stage.began.clear()
            calls.append(http.start(call(1, tool), headers=session))
            await stage.began.wait()
        calls[1].disconnect()
        await calls[1].done()
        assert len(stage.server.runtime.hub.peers) == 1  # a client that waits is there, however long that takes
        calls[0].disconnect()
        await calls[0].done()
        while stage.server.runtime.hub.peers:
            await asyncio.sleep(0.01)

    run(test())


async def opened_for_questions(http: Http) -> dict[str, str]:
    opened = await http.send(initialize(LATEST, elicitation={}))
    session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": LATEST}
    await http.send(message(None, "notifications/initialized"), headers=session)
    return session


FORWARDED = "203.0.113.9, 10.0.0.3"


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "found"),
    [
        ("192.0.2.1", None, [], "192.0.2.1"),
        ("192.0.2.1", FORWARDED, [], "192.0.2.1"),
        ("192.0.2.1", FORWARDED, ["10.0.0.0/8"], "192.0.2.1"),  # anybody can send that header
        ("10.0.0.2", FORWARDED, ["10.0.0.2"], "10.0.0.3"),
        ("10.0.0.2", FORWARDED, ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.2", "6.6.6.6, 203.0.113.9, 10.0.0.3", ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.2", None, ["10.0.0.0/8"], "10.0.0.2"),
        ("::ffff:10.0.0.2", "203.0.113.9", ["10.0.0.2"], "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", None, [], "2001:db8:1:2::/64"),
        ("10.0.0.2", "2001:db8:1:2::9", ["10.0.0.2"], "2001:db8:1:2::/64"),
        ("10.0.0.2", "x" * 1000, ["10.0.0.2"], "x" * 64),
        ("10.0.0.2", "203.0.113.9:4711", ["10.0.0.2"], "203.0.113.9"),  # some proxies name the port: it is no caller
        ("10.0.0.2", "203.0.113.9:4711, 10.0.0.3:80", ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.2", "[2001:db8:1:2::9]:4711", ["10.0.0.2"], "2001:db8:1:2::/64"),
        ("10.0.0.2", "203.0.113.9," + "10.0.0.3," * 5000 + "10.0.0.4", ["10.0.0.0/8"], "10.0.0.3"),
        (None, None, [], ""),
    ],
)
def test_the_address_of_a_caller(client: Any, forwarded: str | None, proxies: list[str], found: str) -> None:
    headers = {} if forwarded is None else {b"x-forwarded-for": forwarded.encode()}
    scope = {"client": None if client is None else (client, 1)}
    assert client_site(checked_proxies(proxies).restated(scope, headers)[0]) == found


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("trusted_proxies", "10.0.0.1"),
        ("trusted_proxies", ["localhost"]),
        ("max_sessions", 0),
        ("session_idle", "1"),
        ("max_kept_bytes", 1.5),
        ("write_deadline", 0),
    ],
)
def test_options_that_make_no_sense(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        Stage().http(**{option: value})


# ---------------------------------------------------------------- when one is unknown


def test_a_session_that_has_ended_stays_ended() -> None:
    async def test() -> None:
        http = Stage(**KEYS).http()
        session = await http.open()
        assert (await http.send(method="DELETE", headers=session)).status == 200
        state = negotiate(InitializeParams(protocol_version=LATEST))
        for _ in range(10_100):
            assert http.app.sessions.end(http.app.sessions.mint(state, ""), "")
        assert await status(http, session) == 404
        assert await status(http, await http.open()) == 200

    run(test())


def test_sessions_that_were_opened_later_outlive_those_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redstart.transports.sessions.MAX_ENDED", 10)

    async def test() -> None:
        sessions = Stage().http().app.sessions
        state = negotiate(InitializeParams(protocol_version=LATEST))
        before = sessions.mint(state, "")
        ended = [sessions.mint(state, "") for _ in range(5)]
        later = sessions.mint(state, "")
        ended += [sessions.mint(state, "") for _ in range(8)]
        assert all(sessions.end(id, "") for id in ended)
        assert not any(sessions.find(id, "", lambda: "here") for id in (before, *ended))
        assert sessions.find(later, "", lambda: "here") is not None

    run(test())


def test_callers_that_have_gone_are_forgotten() -> None:
    async def test() -> None:
        sessions = Stage().http(max_sessions=10).app.sessions
        state = negotiate(InitializeParams(protocol_version=LATEST))

        def use(callers: range) -> None:
            for number in callers:
                assert sessions.find(sessions.mint(state, ""), "", lambda n=number: f"address {n}") is not None

        use(range(100))
        tracemalloc.start()
        try:
            use(range(100, 3000))
            assert tracemalloc.get_traced_memory()[0] < 300_000
        finally:
            tracemalloc.stop()

    run(test())


def test_after_a_restart_a_client_is_told_to_start_anew() -> None:
    """Its subscriptions are gone, and it would wait in vain for news."""

    async def test() -> None:
        before = Stage(**KEYS).http()
        session = await before.open()
        assert (await before.send(SUBSCRIBE, headers=session)).status == 200
        after = Stage(**KEYS).http()
        assert await status(after, session) == 404
        assert await status(after, await after.open()) == 200
        assert await status(before, session) == 200

    run(test())


def test_nobody_takes_over_a_session_that_another_process_opened() -> None:
    async def test() -> None:
        one, other = Stage(auth=TOKENS.get, **KEYS).http(), Stage(auth=TOKENS.get, **KEYS).http()
        session = await one.open(headers=ADA)
        for method in ("POST", "GET", "DELETE"):
            stolen = await other.send(PING, method=method, headers={**session, **BOB})
            assert stolen.status == 404, method
        assert await status(other, session) == 200

    run(test())


def test_a_session_that_another_process_opened_can_be_asked_and_is_told() -> None:
    """What its client has said of itself is in the id; that it is initialized it told the other process."""

    async def test() -> None:
        stage = Stage(**KEYS)
        one, other = Stage(**KEYS).http(), stage.http()
        opened = await one.send(initialize(LATEST, elicitation={}))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": LATEST}
        await one.send(message(None, "notifications/initialized"), headers=session)
        asking = other.start(call(1, "name"), headers=session)
        await asking.until(lambda r: len(r.messages()) == 1)
        assert asking.messages()[0]["method"] == "elicitation/create"
        news = other.start(method="GET", headers=session)
        await news.started.wait()
        stage.server.runtime.hub.changed("tools")
        await news.until(lambda r: r.messages())
        assert news.messages()[0]["method"] == "notifications/tools/list_changed"
        for response in (asking, news):
            response.disconnect()
        await news.done()
        await other.send(message(None, "notifications/cancelled", {"requestId": 1}), headers=session)
        await asking.done()

    run(test())


def test_an_event_of_another_process_names_no_stream() -> None:
    async def test() -> None:
        one, other = Stage(**KEYS).http(), Stage(**KEYS).http()
        session = await one.open()
        seen = await one.send(call(1, "say", times=2, size=1), headers=session)
        await other.send(call(2, "say", times=2, size=1), headers=session)
        for event in seen.events():
            response = await other.send(method="GET", headers={**session, "last-event-id": event["id"]})
            assert response.status == 404

    run(test())


def test_a_session_remembers_so_many_streams_the_newest() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        streams = [await http.send(call(n, "say", times=1, size=1), headers=session) for n in range(MAX_STREAMS + 8)]
        found = []
        for stream in streams:
            headers = {**session, "last-event-id": stream.events()[0]["id"]}
            found.append((await http.send(method="GET", headers=headers)).status)
        assert found == [404] * 8 + [200] * MAX_STREAMS

    run(test())


@pytest.mark.parametrize("number", ["", "x", "1.5", "9" * 13, "9" * 5000])
def test_an_event_that_has_no_such_number_is_unknown(number: str) -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        seen = await http.send(call(1, "say", times=1, size=1), headers=session)
        name = seen.events()[0]["id"].rpartition("-")[0]
        for last in (f"{name}-{number}", f"{name}{number}"):
            assert (await http.send(method="GET", headers={**session, "last-event-id": last})).status == 404

    run(test())


def test_a_client_whose_result_is_not_kept_any_more_is_told_so() -> None:
    """An empty stream would look as if the call had never been answered."""

    async def test() -> None:
        http = Stage().http(max_kept_bytes=640_000)
        session, other = await http.open(), await http.open()
        seen = await http.send(call(1, "say", times=3, size=1), headers=session)
        first, last = ({**session, "last-event-id": seen.events()[place]["id"]} for place in (0, -1))
        assert (await http.send(method="GET", headers=first)).status == 200
        for number in range(2):
            await http.send(call(number, "say", times=1, size=700_000), headers=other)
        assert (await http.send(method="GET", headers=first)).status == 404
        assert (await http.send(method="GET", headers=last)).status == 200  # it has missed nothing

    run(test())


# ---------------------------------------------------------------- answers, cancellations, polling


def test_an_answer_to_what_was_never_asked_is_refused_and_a_late_one_is_not() -> None:
    async def test() -> None:
        http = Stage().http()
        response = await http.send(
            message(1, "initialize", {"protocolVersion": LATEST, "capabilities": {"elicitation": {}}})
        )
        session = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": LATEST}
        await http.send(message(None, "notifications/initialized"), headers=session)
        asking = http.start(call(1, "name"), headers=session)
        await asking.until(lambda r: len(r.messages()) == 1)
        (question,) = asking.messages()
        answer = message(question["id"], "x", None).replace(b'"method": "x"', b'"result": {"action": "decline"}')
        assert (await http.send(answer, headers=session)).status == 202
        await asking.done()
        late = await http.send(answer, headers=session)
        assert (late.status, late.body) == (202, b"")
        for id in (b'"ask-99"', b'"ask-0"', b'"x"', b"1", b'"ask-' + b"9" * 5000 + b'"'):
            stray = await http.send(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id, headers=session)
            assert stray.status == 400, id
            assert "asked" in stray.json()["error"]["message"]

    run(test())


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
def test_a_request_that_was_cancelled_ends_as_a_stream_without_an_answer(revision: str, accept: str) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = {**await http.open(revision), "accept": accept}
        response = http.start(call(7, "wait"), headers=session)
        await stage.began.wait()
        await http.send(message(None, "notifications/cancelled", {"requestId": 7}), headers=session)
        await response.done()
        assert response.status == 200
        if "event-stream" in accept:
            assert response.is_sse
            assert response.body == b""
        else:
            assert response.headers["content-type"] == "application/json"
            assert response.json()["id"] == 7
            assert "cancelled" in response.json()["error"]["message"]

    run(test())


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_stream_is_closed_early_only_where_its_client_can_come_back(revision: str) -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open(revision)
        response = await http.send(call(1, "poll"), headers=session)
        if revision == LATEST:
            (prime,) = response.events()
            assert prime["data"] == ""
        else:
            assert response.messages()[-1]["result"]["content"][0]["text"] == "closed: False"

    run(test())


def test_a_stream_is_not_closed_early_for_a_client_that_takes_json_only() -> None:
    async def test() -> None:
        http = Stage().http()
        session = {**await http.open(), "accept": "application/json"}
        response = await http.send(call(1, "poll"), headers=session)
        assert not response.is_sse
        assert response.json()["result"]["content"][0]["text"] == "closed: False"

    run(test())


def test_of_too_many_calls_without_a_stream_the_oldest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redstart.transports.response.MAX_LEFT", 2)

    async def test() -> None:
        stage, ended = Stage(), []

        @stage.server.tool
        async def last(number: int) -> None:
            try:
                stage.began.set()
                await stage.go.wait()
            except asyncio.CancelledError:
                ended.append(number)
                raise

        http = stage.http()
        session = {**await http.open(), "accept": "application/json"}
        for number in range(4):
            stage.began.clear()
            response = http.start(call(number, "last", number=number), headers=session)
            await stage.began.wait()
            response.disconnect()
            for _ in range(5):
                await asyncio.sleep(0)
        assert ended == [0, 1]
        stage.go.set()
        await stage.server.runtime.stop()

    run(test())


async def left(http: Http, session: dict[str, str], number: int) -> str:
    """Begin a call and go away; the id of the event that the client has seen."""
    response = http.start(call(number, "wait"), headers=session)
    await response.until(lambda r: r.events())
    response.disconnect()
    for _ in range(5):
        await asyncio.sleep(0)
    return response.events()[0]["id"]


@pytest.mark.parametrize("limit", ["MAX_LEFT", "MAX_LEFT_BYTES"])
@pytest.mark.parametrize("back", [False, True])
def test_of_too_many_calls_without_a_client_the_oldest_ends(
    limit: str, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(json.dumps({"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}}))
    monkeypatch.setattr(f"redstart.transports.response.{limit}", 2 * (size if limit == "MAX_LEFT_BYTES" else 1))

    async def test() -> None:
        stage = Stage()
        http = stage.http(keep_alive=0.02)
        session = await http.open()
        seen = [await left(http, session, 1), await left(http, session, 2)]
        streams = []
        if back:
            streams.append(http.start(method="GET", headers={**session, "last-event-id": seen[0]}))
            await streams[0].started.wait()
        seen.append(await left(http, session, 3))
        stage.go.set()
        for id in seen[len(streams) :]:
            streams += [http.start(method="GET", headers={**session, "last-event-id": id})]
        answers = []
        for stream in streams:
            await stream.done()
            answers += stream.messages()
        assert [answer["id"] for answer in answers] == [1, 2, 3]
        ended = [answer["id"] for answer in answers if "error" in answer]
        assert ended == [2 if back else 1]
        assert "too many such calls" in answers[ended[0] - 1]["error"]["message"]

    run(test())


def test_a_session_ends_after_the_server_below_has_cancelled_one_of_its_requests() -> None:
    async def test() -> None:
        stage = Stage()
        http = Http(stage.server.asgi())
        session = await http.open()
        call = http.start(message(1, "tools/call", {"name": "wait"}), headers=session)
        await stage.began.wait()
        call.task.cancel()
        await asyncio.wait([call.task])
        assert (await http.send(method="DELETE", headers=session)).status == 200
        await stage.server.runtime.stop()

    run(test())


def test_a_client_that_waits_is_there_although_it_has_left_another_call() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(session_idle=0.5)
        session = {**await http.open(), "accept": "application/json"}
        calls = []
        for number in (1, 2):
            stage.began.clear()
            calls.append(http.start(call(number, "wait"), headers=session))
            await stage.began.wait()
        calls[0].disconnect()
        for _ in range(5):
            await asyncio.sleep(0)
        cancelled = message(None, "notifications/cancelled", {"requestId": 1})
        assert (await http.send(cancelled, headers=session)).status == 202
        await calls[0].done()
        other = await http.open()
        assert (await http.send(SUBSCRIBE, headers=other)).status == 200
        while len(stage.server.runtime.hub.peers) > 1:  # until the other session has been idle for too long
            await asyncio.sleep(0.01)
        assert not calls[1].complete
        stage.go.set()
        assert (await calls[1].done()).json()["result"]["content"][0]["text"] == "went on"
        await stage.server.runtime.stop()

    run(test())


def test_a_large_request_whose_client_has_gone_takes_no_room_of_one_whose_client_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redstart.transports.http.MAX_RUNNING_BYTES", 100_000)

    async def test() -> None:
        stage = Stage()
        http = stage.http(max_body_bytes=100_000)
        session = {**await http.open(), "accept": "application/json"}
        more = {"name": "wait", "arguments": {}, "_meta": {"more": "x" * 70_000}}
        first = http.start(message(1, "tools/call", more), headers=session)
        await stage.began.wait()
        assert (await http.send(message(2, "tools/call", more), headers=session)).status == 503
        first.disconnect()
        for _ in range(5):
            await asyncio.sleep(0)
        stage.began.clear()
        second = http.start(message(3, "tools/call", more), headers=session)
        await stage.began.wait()
        stage.go.set()
        assert (await second.done()).status == 200
        await stage.server.runtime.stop()

    run(test())


def test_a_call_that_ends_after_its_client_has_gone_leaves_nothing() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = {**await http.open(), "accept": "application/json"}
        calls = []
        for number in range(3):
            stage.began.clear()
            calls.append(http.start(call(number, "wait"), headers=session))
            await stage.began.wait()
            calls[-1].disconnect()
        for _ in range(5):
            await asyncio.sleep(0)
        stage.go.set()
        for one in calls:
            await one.task
        gc.collect()
        assert not [one for one in gc.get_objects() if type(one) is PostResponse]
        await stage.server.runtime.stop()

    run(test())
