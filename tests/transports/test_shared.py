"""Two processes that share a store serve the same clients: each request may come to either of them."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redstart import Accepted, Client, Context, Server
from redstart.client.errors import ConnectionClosed
from redstart.store.shared import MAX_MESSAGE, SharedState, StoreAway
from redstart.store.sqlite import SqliteStore
from redstart.transports.http_options import EndpointOptions
from redstart.transports.shared import SharedSession
from round_robin import round_robin
from store.engines import Engine, Redis, running
from support import MODERN, NOVEMBER, ROOT, Peer, free_port, initialize, launch, message, run
from transports.support import Http, Response

IDLE = 2.0
SSE = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
def redis() -> Iterator[Engine]:
    with running("redis") as engine:
        yield engine


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Engine]:
    with running("postgresql") as engine:
        yield engine


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.db'}"
    engine: Engine = request.getfixturevalue(request.param)
    return engine.url


SLOW = pytest.mark.slow("time itself is tested; SQLite is the quick one")
EACH = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("redis", marks=SLOW), pytest.param("postgresql", marks=SLOW)], indirect=True
)


class Process:
    """One of the processes: a server of its own, with connections of its own to the store."""

    def __init__(self, url: str | SharedState, endpoint: EndpointOptions | None = None, **options: Any) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.server = server = Server("shared", store=url, **options)
        self.http = Http(server.asgi(**(endpoint or {})))

        @server.tool
        async def log(ctx: Context) -> str:
            await ctx.info("hello")
            return "logged"

        @server.tool
        async def wait(ctx: Context) -> str:
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return ""

        @server.tool
        async def ask(ctx: Context) -> str:
            answer = await ctx.elicit("How many?", int)
            return f"{answer.data} many" if isinstance(answer, Accepted) else "none"

        @server.tool
        async def slow(ctx: Context) -> str:
            await ctx.close_stream()
            self.started.set()
            await self.cancelled.wait()
            return "at last"

        @server.tool(task="optional")
        async def work(ctx: Context) -> str:
            return "worked"

        @server.resource("birds://{name}")
        def bird(name: str) -> str:
            return name

        @server.resource("secret://ada", visible=lambda user: user == "ada")
        def secret() -> str:
            return ""


Script = Callable[[Process, Process], Awaitable[None]]


def two(url: str, script: Script, **options: Any) -> None:
    """Run a script with two processes that share a store."""

    async def test() -> None:
        first, second = Process(url, **options), Process(url, **options)
        try:
            await script(first, second)
        finally:
            for process in (first, second):
                await process.server.runtime.stop()
                await process.server.runtime.store.close()

    run(test())


async def open_stream(process: Process, session: dict[str, str], **more: str) -> Response:
    stream = process.http.start(method="GET", headers={**session, **SSE, **more})
    await stream.started.wait()
    assert stream.status == 200, stream.body
    return stream


def tool(id: int, name: str, **arguments: Any) -> bytes:
    return message(id, "tools/call", {"name": name, "arguments": arguments})


def methods(response: Response) -> list[str]:
    return [one["method"] for one in response.messages() if "method" in one]


async def close(*responses: Response) -> None:
    for response in responses:
        response.disconnect()
        await response.done()


def test_a_session_goes_on_in_any_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        for process in (second, first, second):
            answer = await process.http.send(tool(1, "log"), headers=session)
            assert answer.messages()[-1]["result"]["content"][0]["text"] == "logged"

    two(url, script)


def test_the_log_level_is_known_in_all_processes(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        for level, told in (("debug", True), ("error", False), ("info", True)):
            await first.http.send(message(1, "logging/setLevel", {"level": level}), headers=session)
            answer = await second.http.send(tool(2, "log"), headers=session)
            assert ("notifications/message" in methods(answer)) is told, level

    two(url, script)


def test_a_deleted_session_is_unknown_in_all_processes(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(second, session)
        assert (await first.http.send(method="DELETE", headers=session)).status == 200
        await stream.done()  # the other process is told, and ends the stream
        for process in (first, second):
            for method in ("POST", "GET", "DELETE"):
                accept = {} if method == "POST" else SSE
                answer = await process.http.send(tool(1, "log"), method=method, headers={**session, **accept})
                assert answer.status == 404, (method, answer.body)

    two(url, script)


def test_a_session_of_another_user_is_unknown_in_all_processes(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open(headers={"authorization": "Bearer ada"})
        for process in (first, second):
            stolen = {**session, "authorization": "Bearer bob"}
            assert (await process.http.send(tool(1, "log"), headers=stolen)).status == 404
            assert (await process.http.send(method="DELETE", headers=stolen)).status == 404
            assert (await process.http.send(method="GET", headers={**stolen, **SSE})).status == 404
            assert (await process.http.send(tool(1, "log"), headers=session)).status == 200

    two(url, script, auth=lambda token: token)


def test_subscriptions_and_changes_reach_the_stream_in_another_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(first, session)
        subscribe = message(1, "resources/subscribe", {"uri": "birds://redstart"})
        assert "result" in (await second.http.send(subscribe, headers=session)).json()
        second.server.notify("birds://robin")  # nobody wants it
        second.server.notify("birds://redstart")
        await stream.until(lambda response: methods(response))
        second.server.notify_changed("tools")
        await stream.until(lambda response: len(methods(response)) == 2)
        assert methods(stream) == ["notifications/resources/updated", "notifications/tools/list_changed"]
        unsubscribe = message(2, "resources/unsubscribe", {"uri": "birds://redstart"})
        assert "result" in (await second.http.send(unsubscribe, headers=session)).json()
        first.server.notify("birds://redstart")
        second.server.notify_changed("prompts")
        await stream.until(lambda response: len(methods(response)) == 3)
        assert methods(stream)[-1] == "notifications/prompts/list_changed"
        await close(stream)

    two(url, script)


def test_a_stream_that_is_opened_again_elsewhere_gets_what_was_missed_and_what_is_new(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(first, session)
        first.server.notify_changed("tools")
        await stream.until(lambda response: methods(response))
        await close(stream)
        last = stream.events()[-1]["id"]
        await second.http.modern(1, "server/discover")
        second.server.notify_changed("prompts")  # nobody hears it now
        again = await open_stream(second, session, **{"last-event-id": last})
        second.server.notify_changed("resources")
        # A change at the moment of the move may be told twice.
        await again.until(lambda response: len(set(methods(response))) == 2)
        assert set(methods(again)) == {"notifications/prompts/list_changed", "notifications/resources/list_changed"}
        await close(again)

    two(url, script)


def test_an_answer_that_comes_to_another_process_reaches_the_question(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        opening = {
            "protocolVersion": NOVEMBER,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = await second.http.send(message(0, "initialize", opening))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
        long = "x" * 10_000  # an answer of any size: this one is too large for the bus
        for extra in ("", long):
            asking = first.http.start(tool(1, "ask"), headers=session)
            await asking.until(lambda response: methods(response))
            question = asking.messages()[-1]
            result = {"action": "accept", "content": {"answer": 7}, "_meta": {"extra": extra}}
            answer = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": result}).encode()
            assert (await second.http.send(answer, headers=session)).status == 202
            done = await asking.done()
            assert done.messages()[-1]["result"]["content"][0]["text"] == "7 many"
            assert (await second.http.send(answer, headers=session)).status == 202  # too late, as in one process
        tag = question["id"].split("-")[1]
        never = json.dumps({"jsonrpc": "2.0", "id": f"ask-{tag}-999", "result": {}}).encode()
        refused = await second.http.send(never, headers=session)
        assert refused.status == 404
        assert "No question" in refused.json()["error"]["message"]

    two(url, script)


@EACH
def test_an_answer_to_a_process_that_has_gone_is_refused(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        await second.http.send(tool(1, "log"), headers=session)
        answer = json.dumps({"jsonrpc": "2.0", "id": f"ask-{'0' * 12}-1", "result": {}}).encode()
        refused = await second.http.send(answer, headers=session)
        assert refused.status == 404
        assert "has gone" in refused.json()["error"]["message"]

    two(url, script)


class Counting(SqliteStore):
    """Knows which large values it was given, and which of them it still has."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.given: list[str] = []
        self.kept: set[str] = set()

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        if len(value) > MAX_MESSAGE:
            self.given.append(key)
            self.kept.add(key)
        return await super().kv_set(key, value, ttl, nx, durable)

    async def kv_delete(self, key: str) -> None:
        self.kept.discard(key)
        await super().kv_delete(key)


def counted(tmp_path: Path, script: Callable[[Process, Counting], Awaitable[None]]) -> None:
    async def test() -> None:
        store = Counting(tmp_path / "shared.db")
        process = Process(store)
        try:
            await script(process, store)
        finally:
            await process.server.runtime.stop()
            await store.close()

    run(test())


@pytest.mark.slow("it waits until the answer is given up")
def test_a_large_answer_that_nobody_takes_is_kept_once_and_then_no_more(tmp_path: Path) -> None:
    async def script(process: Process, store: Counting) -> None:
        session = await process.http.open()
        result = {"action": "cancel", "_meta": {"extra": "x" * 100_000}}
        answer = json.dumps({"jsonrpc": "2.0", "id": f"ask-{'0' * 12}-1", "result": result}).encode()
        assert (await process.http.send(answer, headers=session)).status == 404
        assert len(store.given) == 1
        assert store.kept == set()

    counted(tmp_path, script)


@pytest.mark.parametrize(("lock", "seconds", "deleted"), [(20.0, 0.0, 1), (0.2, 0.4, 0)])
def test_a_lock_that_was_held_for_too_long_is_left_to_the_next_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: float, seconds: float, deleted: int
) -> None:
    monkeypatch.setattr("redstart.transports.shared.LOCK", lock)
    locks: list[str] = []

    class Slow(SqliteStore):
        async def kv_set(
            self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
        ) -> bool:
            kept = await super().kv_set(key, value, ttl, nx, durable)
            await asyncio.sleep(0 if nx else seconds)  # the change is written late
            return kept

        async def kv_delete(self, key: str) -> None:
            locks.append(key)
            await super().kv_delete(key)

    async def test() -> None:
        store = Slow(str(tmp_path / "shared.db"))
        process = Process(store)
        session = await process.http.open()
        subscribe = message(1, "resources/subscribe", {"uri": "birds://redstart"})
        assert (await process.http.send(subscribe, headers=session)).status == 200
        assert len(locks) == deleted
        await process.server.runtime.stop()
        await store.close()

    run(test())


def test_a_cancellation_with_a_long_reason_is_not_kept(tmp_path: Path) -> None:
    async def script(process: Process, store: Counting) -> None:
        session = await process.http.open()
        cancel = message(None, "notifications/cancelled", {"requestId": 5, "reason": "x" * 100_000})
        assert (await process.http.send(cancel, headers=session)).status == 202
        assert store.given == []

    counted(tmp_path, script)


def test_a_cancellation_that_comes_to_another_process_ends_the_call(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        waiting = first.http.start(tool(5, "wait"), headers=session)
        await first.started.wait()
        cancel = message(None, "notifications/cancelled", {"requestId": 5})
        assert (await second.http.send(cancel, headers=session)).status == 202
        await first.cancelled.wait()
        await waiting.done()
        assert not [one for one in waiting.messages() if one.get("id") == 5]

    two(url, script)


@EACH
def test_the_answer_of_a_call_can_be_fetched_from_another_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        begun = first.http.start(tool(5, "slow"), headers=session)
        await begun.until(lambda response: response.complete)  # the stream ends before the answer
        last = begun.events()[-1]["id"]
        again = await open_stream(second, session, **{"last-event-id": last})
        first.cancelled.set()
        await again.done()
        assert again.messages()[-1]["result"]["content"][0]["text"] == "at last"
        late = await first.http.send(method="GET", headers={**session, **SSE, "last-event-id": last})
        assert late.messages() == again.messages()  # it is kept
        other = await second.http.open()
        for foreign in (last, f"{'0' * 12}.1-0", f"{'0' * 12}-3", "x", "-1"):
            answer = await first.http.send(method="GET", headers={**other, **SSE, "last-event-id": foreign})
            assert answer.status == 404, foreign

    two(url, script)


def test_the_status_of_a_task_reaches_the_stream_in_another_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(first, session)
        begin = message(1, "tools/call", {"name": "work", "arguments": {}, "task": {}})
        created = (await second.http.send(begin, headers=session)).json()["result"]["task"]
        await stream.until(lambda response: "notifications/tasks/status" in methods(response))
        told = stream.messages()[-1]["params"]
        assert (told["taskId"], told["status"]) == (created["taskId"], "completed")
        await close(stream)

    two(url, script)


def test_a_stream_that_is_opened_elsewhere_ends_here_and_what_happens_here_is_told_there(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        old = await open_stream(first, session)
        new = await open_stream(second, session)
        await old.done()
        begin = message(1, "tools/call", {"name": "work", "arguments": {}, "task": {}})
        await first.http.send(begin, headers=session)
        await new.until(lambda response: "notifications/tasks/status" in methods(response))
        await close(new)

    two(url, script)


def test_the_stream_of_a_call_that_is_resumed_elsewhere_ends_here(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        opened = await first.http.send(initialize(NOVEMBER, elicitation={}))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
        call = first.http.start(tool(1, "ask"), headers=session)
        await call.until(lambda response: "elicitation/create" in methods(response))
        again = await open_stream(second, session, **{"last-event-id": call.events()[-1]["id"]})
        await call.until(lambda response: response.complete)
        answer = {"jsonrpc": "2.0", "id": call.messages()[-1]["id"], "result": {"action": "cancel"}}
        await second.http.send(json.dumps(answer).encode(), headers=session)
        await again.done()
        assert again.messages()[-1]["result"]["content"][0]["text"] == "none"

    two(url, script)


def test_two_processes_may_have_the_first_request_of_a_session_at_the_same_time(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        for _ in range(5):
            opened = await first.http.send(initialize(NOVEMBER))
            session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
            for _ in range(2):
                answers = [each.http.send(tool(1, "log"), headers=session) for each in (first, second)]
                assert [answer.status for answer in await asyncio.gather(*answers)] == [200, 200]

    two(url, script)


class Failing(SqliteStore):
    """A store that cannot be written to when a test says so."""

    fails = False

    async def kv_set(self, *args: Any, **options: Any) -> bool:
        if self.fails:
            raise StoreAway("the test says so")
        return await super().kv_set(*args, **options)


def test_a_log_level_that_could_not_be_kept_is_not_used(tmp_path: Path) -> None:
    async def test() -> None:
        store = Failing(str(tmp_path / "shared.db"))
        process = Process(store)
        session = await process.http.open()
        for fails, told in ((True, True), (False, False)):
            store.fails = fails
            await process.http.send(message(1, "logging/setLevel", {"level": "error"}), headers=session)
            store.fails = False
            answer = await process.http.send(tool(2, "log"), headers=session)
            assert ("notifications/message" in methods(answer)) is told
        await process.server.runtime.stop()
        await store.close()

    run(test())


def test_a_modern_listener_hears_changes_of_another_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["birds://redstart"]}
        stream = first.http.start_modern(1, "subscriptions/listen", {"notifications": wanted})
        await stream.until(lambda response: methods(response))
        await second.http.modern(1, "server/discover")
        second.server.notify_changed("tools")
        second.server.notify("birds://redstart")
        await stream.until(lambda response: len(methods(response)) == 3)
        first.server.notify_changed("tools")
        await stream.until(lambda response: len(methods(response)) == 4)
        changed, updated = "notifications/tools/list_changed", "notifications/resources/updated"
        assert methods(stream)[1:] == [changed, updated, changed]
        await close(stream)

    two(url, script)


def test_a_question_of_one_process_is_continued_by_another(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        meta: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        params: dict[str, Any] = {"name": "ask", "arguments": {}}
        asked = (await first.http.modern(1, "tools/call", params, meta=meta)).json()["result"]
        [key] = asked["inputRequests"]
        reply = {key: {"action": "accept", "content": {"answer": 3}}}
        params |= {"inputResponses": reply, "requestState": asked["requestState"]}
        done = (await second.http.modern(2, "tools/call", params, meta=meta)).json()["result"]
        assert done["content"][0]["text"] == "3 many"

    two(url, script)


def test_given_keys_are_used_instead_of_the_keys_in_the_store(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        given, other, stored = Process(url, keys=["k" * 32]), Process(url, keys=["k" * 32]), Process(url)
        session = await given.http.open()
        assert (await other.http.send(tool(1, "log"), headers=session)).status == 200
        assert (await stored.http.send(tool(1, "log"), headers=session)).status == 404
        assert [record.message for record in caplog.records if "the same store= and keys=" in record.message]
        for process in (given, other, stored):
            await process.server.runtime.stop()
            await process.server.runtime.store.close()

    run(test())


def test_changes_of_a_session_at_the_same_time_are_all_kept(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(first, session)
        uris = [f"birds://{number}" for number in range(20)]
        bodies = [message(number, "resources/subscribe", {"uri": uri}) for number, uri in enumerate(uris)]
        sent = [(first, second)[n % 2].http.send(body, headers=session) for n, body in enumerate(bodies)]
        for answer in await asyncio.gather(*sent):
            assert "result" in answer.json()
        for uri in uris:
            second.server.notify(uri)
        await stream.until(lambda response: len(methods(response)) == 20)
        assert {one["params"]["uri"] for one in stream.messages()} == set(uris)
        await close(stream)

    two(url, script)


def test_a_session_goes_on_after_all_processes_were_started_again(url: str) -> None:
    async def before(first: Process, second: Process) -> None:
        session.update(await first.http.open())
        level = message(1, "logging/setLevel", {"level": "debug"})
        assert "result" in (await second.http.send(level, headers=session)).json()

    async def after(first: Process, second: Process) -> None:
        answer = await second.http.send(tool(2, "log"), headers=session)
        assert methods(answer) == ["notifications/message"]

    session: dict[str, str] = {}
    two(url, before)
    two(url, after)


@EACH
def test_a_session_lives_while_it_is_used_and_is_forgotten_when_it_was_idle(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        used, streaming, idle = [await first.http.open() for _ in range(3)]
        stream = await open_stream(second, streaming)
        for session in (used, streaming, idle):
            assert (await second.http.send(tool(1, "log"), headers=session)).status == 200
        until = time.monotonic() + 2.5 * IDLE
        while time.monotonic() < until:
            assert (await first.http.send(tool(1, "log"), headers=used)).status == 200
            await asyncio.sleep(IDLE / 10)  # time itself is tested
        assert (await first.http.send(tool(1, "log"), headers=streaming)).status == 200
        for process in (first, second):
            assert (await process.http.send(tool(1, "log"), headers=idle)).status == 404
        await close(stream)

    two(url, script, endpoint={"session_idle": IDLE})


@EACH
def test_a_call_goes_with_the_session_that_its_client_has_left_alone_in_all_processes(url: str) -> None:
    """A client that has come back at another process has not left it."""

    async def script(first: Process, second: Process) -> None:
        calls, sessions = [], []
        for _ in range(2):
            opened = await first.http.send(initialize(NOVEMBER, elicitation={}))
            session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
            call = first.http.start(tool(1, "ask"), headers=session)
            await call.until(lambda response: "elicitation/create" in methods(response))
            sessions.append(session)
            calls.append(call)
        last = calls[0].events()[-1]["id"]
        for call in calls:
            call.disconnect()
        again = await open_stream(second, sessions[0], **{"last-event-id": last})
        await calls[1].done()
        answer = {"jsonrpc": "2.0", "id": calls[0].messages()[-1]["id"], "result": {"action": "cancel"}}
        await second.http.send(json.dumps(answer).encode(), headers=sessions[0])
        await again.done()
        assert again.messages()[-1]["result"]["content"][0]["text"] == "none"

    two(url, script, endpoint={"session_idle": IDLE})


def test_a_change_of_any_size_reaches_other_processes(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        uri = "birds://" + "x" * 8000  # too large for the bus
        session = await second.http.open()
        stream = await open_stream(first, session)
        subscribed = await second.http.send(message(1, "resources/subscribe", {"uri": uri}), headers=session)
        assert "result" in subscribed.json()
        second.server.notify(uri)
        await stream.until(lambda response: methods(response))
        assert stream.messages()[0]["params"]["uri"] == uri
        await close(stream)

    two(url, script)


def test_who_may_not_see_a_resource_is_not_told_of_it_by_any_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        for name in ("ada", "bob"):
            user = {"authorization": f"Bearer {name}"}
            session = await second.http.open(headers=user)
            stream = await open_stream(first, session)
            for uri in ("secret://ada", "birds://redstart"):
                await second.http.send(message(1, "resources/subscribe", {"uri": uri}), headers=session)
            second.server.notify("secret://ada")
            second.server.notify("birds://redstart")
            await stream.until(lambda response: "birds://redstart" in str(response.body))
            told = [one["params"]["uri"] for one in stream.messages()]
            assert told == (["secret://ada"] if name == "ada" else []) + ["birds://redstart"]
            await close(stream)

    two(url, script, auth=lambda token: token)


def test_another_process_goes_on_when_one_is_killed(tmp_path: Path) -> None:
    """Real processes, behind a proxy that gives each request to the next."""
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    ports = [free_port() for _ in range(3)]
    command = [sys.executable, str(ROOT / "tests" / "conformance" / "server.py")]
    processes = [launch([*command, str(port), store], port) for port in ports[1:]]

    async def test() -> None:
        async def elicit(question: Any) -> dict[str, Any]:
            return {"username": "ada", "email": "a@example.com"}

        url = f"http://127.0.0.1:{ports[0]}/mcp"
        async with Client(url, protocol=NOVEMBER, on_elicit=elicit) as client:
            for _ in range(4):
                answer = await client.call_tool("test_elicitation", {"message": "Who?"})
                assert "ada" in answer.text
            processes[0].kill()
            processes[0].wait()
            answered = 0
            for _ in range(6):  # each second one meets the process that has gone
                try:
                    await client.call_tool("test_simple_text")
                    answered += 1
                except ConnectionClosed:
                    pass
            assert answered >= 3

    try:
        with round_robin(ports[0], ports[1:]):
            run(test())
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_session_whose_state_the_store_has_lost_is_unknown_and_the_keys_are_given_back() -> None:
    async def test() -> None:
        first, second, third = (Process(engine.at) for _ in range(3))
        session = await first.http.open()
        assert (await second.http.send(tool(1, "log"), headers=session)).status == 200
        subscribe = message(1, "resources/subscribe", {"uri": "birds://redstart"})
        assert (await first.http.send(subscribe, headers=session)).status == 200
        stream = await open_stream(first, session)
        engine.kill()  # it keeps nothing on disk
        await asyncio.to_thread(engine.start)
        while not methods(stream):  # until it listens again
            first.server.notify_changed("tools")
            await asyncio.sleep(0.05)
        for process in (first, second, first):  # it had a subscription, and a new one must not look the same
            assert (await process.http.send(tool(1, "log"), headers=session)).status == 404
        again = await third.http.open()  # a process that starts now has the same keys
        for process in (first, second, third):
            assert (await process.http.send(tool(1, "log"), headers=again)).status == 200
        await stream.done()
        for process in (first, second, third):
            await process.server.runtime.stop()

    engine = Redis("off")
    try:
        engine.start()
        run(test())
    finally:
        engine.close()


def test_the_store_keeps_a_bounded_number_of_sessions(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        statuses = []
        for number in range(12):
            answer = await first.http.send(initialize())
            session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
            used = await (first, second)[number % 2].http.send(tool(1, "log"), headers=session)
            statuses.append(used.status)
        assert statuses == [200] * 10 + [503] * 2
        assert int(used.headers["retry-after"]) > 0

    two(url, script, endpoint={"max_sessions": 1})


@EACH
def test_the_store_keeps_a_bounded_part_of_the_events(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        answers = [await first.http.send(tool(1, "log"), headers=session) for _ in range(30)]
        oldest = answers[0].events()[0]["id"]
        newest = answers[-1].events()[0]["id"]
        again = await second.http.send(method="GET", headers={**session, **SSE, "last-event-id": newest})
        assert again.messages()[-1]["result"]["content"][0]["text"] == "logged"
        status = 200
        while status == 200:  # what is dropped is gone a second later
            lost = second.http.start(method="GET", headers={**session, **SSE, "last-event-id": oldest})
            await lost.started.wait()
            status = lost.status
            await close(lost)
        assert status == 404

    two(url, script, endpoint={"max_kept_bytes": 10_000})


def test_a_process_without_http_tells_of_its_changes_too(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        stream = first.http.start_modern(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await stream.until(lambda response: methods(response))
        peer = await Peer(second.server, NOVEMBER).open()
        second.server.notify_changed("tools")
        await stream.until(lambda response: len(methods(response)) == 2)
        assert (await peer.receive())["method"] == "notifications/tools/list_changed"
        await peer.close()
        await close(stream)

    two(url, script)


def test_two_endpoints_of_one_server_share_their_sessions(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        other = Http(first.server.asgi())
        session = await first.http.open()
        stream = other.start(method="GET", headers={**session, **SSE})
        await stream.started.wait()
        subscribe = message(1, "resources/subscribe", {"uri": "birds://redstart"})
        assert "result" in (await first.http.send(subscribe, headers=session)).json()
        second_session = await second.http.open()
        assert (await other.send(tool(1, "log"), headers=second_session)).status == 200
        second.server.notify("birds://redstart")
        await stream.until(lambda response: methods(response))
        await close(stream)

    two(url, script)


def test_answers_and_cancellations_in_a_batch_reach_another_process(url: str) -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open("2025-03-26")
        waiting = first.http.start(tool(5, "wait"), headers=session)
        await first.started.wait()
        cancel = message(None, "notifications/cancelled", {"requestId": 5})
        batch = b"[%b,%b]" % (cancel, tool(6, "log"))
        answer = await second.http.send(batch, headers=session)
        assert answer.status == 200
        await first.cancelled.wait()
        await waiting.done()

    two(url, script)


class Held(SqliteStore):
    """A store that holds one message back when a test says so, and then sends it, or is away."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.holds = self.away = False
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def publish(self, topic: str, data: bytes) -> None:
        if self.holds:
            self.holds = False
            self.asked.set()
            await self.go.wait()
            if self.away:
                raise StoreAway("the test says so")
        await super().publish(topic, data)


def test_a_batch_that_the_store_could_not_pass_on_can_be_sent_again(tmp_path: Path) -> None:
    async def test() -> None:
        store = Held(tmp_path / "shared.db")
        process = Process(store)
        session = await process.http.open("2025-03-26")
        waiting = process.http.start(tool(5, "wait"), headers=session)
        await process.started.wait()
        cancels = [message(None, "notifications/cancelled", {"requestId": id}) for id in (99, 5)]
        batch = b"[%b]" % b",".join([*cancels, tool(1, "log"), tool(2, "log")])
        store.holds = store.away = True
        store.go.set()
        assert (await process.http.send(batch, headers=session)).status == 503
        await process.cancelled.wait()  # this process needs no store to cancel its own call
        await waiting.done()
        again = await process.http.send(batch, headers=session)
        assert [(answer["id"], "result" in answer) for answer in again.messages()[-1]] == [(1, True), (2, True)]
        await process.server.runtime.stop()
        await store.close()

    run(test())


@pytest.mark.parametrize("ids", [[1], [1, 2]])
@pytest.mark.parametrize("how", ["DELETE", "stop"])
def test_a_batch_does_not_run_when_its_session_has_ended_before_it_was_passed_on(
    how: str, ids: list[int], tmp_path: Path
) -> None:
    async def test() -> None:
        store = Held(tmp_path / "shared.db")
        process = Process(store)
        session = await process.http.open("2025-03-26")
        cancel = message(None, "notifications/cancelled", {"requestId": 99})
        batch = b"[%b]" % b",".join([cancel, *[tool(id, "wait") for id in ids]])
        store.holds = True
        sent = process.http.start(batch, headers=session)
        await store.asked.wait()
        if how == "DELETE":
            assert (await process.http.send(method="DELETE", headers=session)).status == 200
        else:
            await process.server.runtime.stop()
        store.go.set()
        (answers,) = (await sent.done()).messages()
        assert [answer["id"] for answer in answers] == ids
        assert all("session has ended" in answer["error"]["message"] for answer in answers)
        assert not process.started.is_set()
        await process.server.runtime.stop()
        await store.close()

    run(test())


def test_without_its_store_a_pipe_gets_a_json_rpc_error() -> None:
    async def test() -> None:
        server = Process(f"redis://127.0.0.1:{free_port()}").server
        capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        peer = await Peer(server, MODERN, capabilities=capabilities).open()
        answer = await peer.request("tools/call", {"name": "work", "arguments": {}})
        assert answer["error"]["code"] == -32603
        assert "away" in answer["error"]["message"]
        assert await peer.text("log") == "logged"  # and it goes on
        await peer.close()
        await server.runtime.stop()

    run(test())


def test_an_id_of_another_process_is_unknown_and_the_log_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        session = await Http(Server("alone").asgi()).open()
        other = Http(Server("alone").asgi())
        with caplog.at_level(logging.WARNING, "redstart"):
            for _ in range(3):
                assert (await other.send(tool(1, "log"), headers=session)).status == 404
            assert (await other.send(tool(1, "log"), headers={**session, "mcp-session-id": "x" * 80})).status == 404
        told = [record.message for record in caplog.records if "the same store= and keys=" in record.message]
        assert len(told) == 1

    run(test())


def test_while_the_store_is_away_requests_are_put_off_and_all_goes_on_when_it_is_back() -> None:
    async def script(first: Process, second: Process) -> None:
        session = await first.http.open()
        stream = await open_stream(first, session)
        engine.kill()
        for process in (first, second):
            answer = await process.http.send(tool(1, "log"), headers=session)
            assert answer.status == 503
            assert int(answer.headers["retry-after"]) <= 5
            assert "away" in answer.json()["error"]["message"]
        begin = {"name": "work", "arguments": {}}
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        }
        task = await first.http.modern(1, "tools/call", begin, meta=meta)
        assert (task.status, "retry-after" in task.headers) == (503, True)
        plain = await first.http.modern(1, "tools/call", {"name": "log", "arguments": {}})
        assert plain.status == 200  # what needs no store goes on
        await asyncio.to_thread(engine.start)
        back = time.monotonic()
        while (await second.http.send(tool(1, "log"), headers=session)).status == 503:
            await asyncio.sleep(0.05)
        while not methods(stream):
            second.server.notify_changed("tools")
            await asyncio.sleep(0.05)
        assert time.monotonic() - back < 5
        await close(stream)

    with running("redis") as engine:
        two(engine.url, script)


def test_nothing_is_kept_of_sessions_that_have_ended(tmp_path: Path) -> None:
    kinds = (SharedSession, asyncio.Event, asyncio.Future)

    def counted() -> Counter[str]:
        gc.collect()
        return Counter(kind.__name__ for one in gc.get_objects() for kind in kinds if type(one) is kind)

    async def use(first: Process, second: Process) -> None:
        """A session that does what leaves something in another process: a stream, and an answer that is not wanted."""
        opening = {
            "protocolVersion": NOVEMBER,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = await second.http.send(message(0, "initialize", opening))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
        asking = first.http.start(tool(1, "ask"), headers=session)
        await asking.until(lambda response: methods(response))
        question = asking.messages()[-1]["id"]
        unknown = json.dumps({"jsonrpc": "2.0", "id": f"{question.rpartition('-')[0]}-999", "result": {}}).encode()
        assert (await second.http.send(unknown, headers=session)).status == 404
        result = {"action": "accept", "content": {"answer": 7}}
        answer = json.dumps({"jsonrpc": "2.0", "id": question, "result": result}).encode()
        assert (await second.http.send(answer, headers=session)).status == 202
        await asking.done()
        stream = await open_stream(second, session)
        await close(stream)
        assert (await second.http.send(method="DELETE", headers=session)).status < 300

    async def script(first: Process, second: Process) -> None:
        for _ in range(3):
            await use(first, second)
        before = counted()
        for _ in range(10):
            await use(first, second)
        after = counted()
        assert {kind: number - before[kind] for kind, number in after.items() if number - before[kind] > 5} == {}

    two(f"sqlite:///{tmp_path / 'shared.db'}", script)
