"""What one caller may have: calls and streams at once, calls per time; each refusal says which limit and its option."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, Server
from redstart.features.rules import OptionError
from redstart.transports.request import HttpRequest, Limits
from redstart.transports.shares import Seats
from support import message, run
from transports.support import Http, Response


class Stage:
    """A server whose calls wait, and clients of some addresses."""

    def __init__(self, server: dict[str, Any] | None = None, **options: Any) -> None:
        self.server = Server("shares", **(server or {}))
        self.go = asyncio.Event()
        self.running = 0

        @self.server.tool
        async def wait() -> str:
            self.running += 1
            try:
                await self.go.wait()
            finally:
                self.running -= 1
            return "went"

        @self.server.tool
        async def quick(ctx: Context) -> str:
            return "quick"

        self.http = Http(self.server.asgi(**options))

    def start(self, client: str, tool: str = "wait", **options: Any) -> Response:
        return self.http.start_modern(7, "tools/call", {"name": tool, "arguments": {}}, client=client, **options)

    async def wait(self, client: str, **options: Any) -> Response:
        """A call that runs."""
        before, response = self.running, self.start(client, **options)
        while self.running == before:
            assert not response.task.done()
            await asyncio.sleep(0)
        return response

    async def status(self, client: str, tool: str = "quick", **options: Any) -> int:
        return (await self.start(client, tool, **options).done()).status

    def listen(self, client: str) -> Response:
        wanted = {"notifications": {"toolsListChanged": True}}
        return self.http.start_modern(9, "subscriptions/listen", wanted, client=client)

    async def end(self, *responses: Response) -> None:
        self.go.set()
        for response in responses:
            response.disconnect()
            await response.task
        await self.server.runtime.stop()


ADA, BOB = "203.0.113.1", "203.0.113.2"


def test_one_caller_has_a_share_of_the_calls_and_others_go_on() -> None:
    async def test() -> None:
        stage = Stage(max_calls_per_caller=3)
        calls = [await stage.wait(ADA) for _ in range(3)]
        refused = await stage.start(ADA, "quick").done()
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        answer = refused.json()
        assert answer["id"] == 7
        assert answer["error"]["message"] == (
            "This caller runs 3 calls, and at most 3: try again later. The operator can change this with "
            "max_calls_per_caller=. Callers without a user are told apart by their address: behind a proxy set "
            "trusted_proxies=."
        )
        assert await stage.status(BOB) == 200
        stage.go.set()
        for call in calls:
            assert (await call.done()).status == 200
        assert await stage.status(ADA) == 200
        await stage.end()

    run(test())


def test_a_user_is_a_caller_wherever_it_comes_from() -> None:
    async def test() -> None:
        stage = Stage({"auth": {"a": "ada", "b": "bob"}.get}, max_calls_per_caller=2)
        ada, bob = ({"headers": {"authorization": f"Bearer {token}"}} for token in "ab")
        calls = [await stage.wait(f"203.0.113.{number}", **ada) for number in range(2)]
        refused = await stage.start("203.0.113.9", "quick", **ada).done()
        assert refused.status == 429
        assert "address" not in refused.json()["error"]["message"]
        assert (await stage.start("203.0.113.9", "quick", **bob).done()).status == 200
        await stage.end(*calls)

    run(test())


def test_beyond_the_calls_of_all_the_server_sheds() -> None:
    async def test() -> None:
        stage = Stage(max_calls=4, max_calls_per_caller=3)
        calls = [await stage.wait(f"203.0.113.{number}") for number in range(4)]
        refused = await stage.start("203.0.113.9", "quick").done()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert "runs 4 calls, and at most 4" in refused.json()["error"]["message"]
        assert "max_calls=" in refused.json()["error"]["message"]
        calls[0].disconnect()
        await calls[0].task
        assert await stage.status("203.0.113.9") == 200
        await stage.end(*calls[1:])

    run(test())


def test_the_shares_are_exact_whatever_comes_and_goes() -> None:
    """Callers are counted only while much runs: what was there before counts too, and nobody is counted twice."""

    async def test() -> None:
        stage = Stage(max_calls=100, max_calls_per_caller=4)
        for _ in range(3):
            ada = [await stage.wait(ADA) for _ in range(4)]
            bob = [await stage.wait(BOB) for _ in range(3)]
            assert await stage.status(ADA) == 429
            assert await stage.status(BOB) == 200
            ada.pop().disconnect()
            while stage.running == 7:
                await asyncio.sleep(0)
            assert await stage.status(ADA) == 200
            bob.append(await stage.wait(BOB))
            assert await stage.status(BOB) == 429
            for call in (*ada, *bob):
                call.disconnect()
                await call.task
            assert stage.running == 0
        await stage.end()

    run(test())


def test_callers_that_have_gone_take_no_memory() -> None:
    import tracemalloc

    def request(number: int) -> HttpRequest:
        return HttpRequest({"number": number}, {}, Limits())

    seats = Seats("calls", 10, 2, lambda request: str(request.scope["number"]))
    for number in (1, 2):  # so much runs that callers are counted
        assert seats.take(request(number), 1) is None
    tracemalloc.start()
    try:
        for number in range(10_000, 30_000):
            one = request(number)
            assert seats.take(one, 1) is None
            seats.release(one)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_each_call_of_a_batch_counts() -> None:
    async def test() -> None:
        stage = Stage(max_calls_per_caller=3)
        session = await stage.http.open("2025-03-26")
        quick = {"name": "quick", "arguments": {}}
        batches = {size: [json.loads(message(n, "tools/call", quick)) for n in range(size)] for size in (3, 4)}
        sent = {**session, "accept": "application/json"}
        fits = await stage.http.send(json.dumps(batches[3]).encode(), headers=sent)
        assert fits.status == 200
        refused = await stage.http.send(json.dumps(batches[4]).encode(), headers=sent)
        assert refused.status == 429
        assert [one["id"] for one in refused.json()] == [0, 1, 2, 3]
        again = await stage.http.send(json.dumps(batches[3]).encode(), headers=sent)
        assert again.status == 200  # the session does not think that the refused ones are still open
        await stage.end()

    run(test())


def test_streams_have_a_limit_of_their_own() -> None:
    async def test() -> None:
        stage = Stage(max_streams=3, max_streams_per_caller=2, max_calls_per_caller=1)
        streams = [stage.listen(ADA) for _ in range(2)]
        for stream in streams:
            await stream.started.wait()
        refused = await stage.listen(ADA).done()
        assert refused.status == 429
        assert "max_streams_per_caller=" in refused.json()["error"]["message"]
        assert await stage.status(ADA) == 200  # a stream is not a call
        session = await stage.http.open(client=BOB)
        pushed = stage.http.start(method="GET", headers={**session, "accept": "text/event-stream"}, client=BOB)
        await pushed.started.wait()
        assert pushed.status == 200
        full = await stage.http.send(method="GET", headers={**session, "accept": "text/event-stream"}, client=BOB)
        assert full.status == 503
        assert "max_streams=" in full.json()["error"]["message"]
        pushed.disconnect()
        await pushed.task
        later = stage.http.start(method="GET", headers={**session, "accept": "text/event-stream"}, client=BOB)
        await later.started.wait()
        assert later.status == 200
        await stage.end(*streams, later)

    run(test())


# ---------------------------------------------------------------- rates


def test_a_rate_holds_for_all_processes_that_share_a_store(tmp_path: Path) -> None:
    async def test() -> None:
        store = {"store": f"sqlite:///{tmp_path / 'rates.db'}"}
        one, two = (Stage(store, rate_limit="6/hour") for _ in range(2))
        statuses = [await stage.status(ADA) for _ in range(4) for stage in (one, two)]
        assert statuses == [200] * 6 + [429] * 2
        refused = await two.start(ADA, "quick").done()
        assert 500 < int(refused.headers["retry-after"]) <= 600
        assert refused.json()["error"]["message"].startswith("This caller may make 6 calls in 3600 s: try again in ")
        assert refused.json()["error"]["message"].endswith("The operator can change this with rate_limit=.")
        assert await two.status(BOB) == 200
        await one.end()
        await two.end()

    run(test())


def test_a_tool_may_have_a_rate_of_its_own() -> None:
    async def test() -> None:
        stage = Stage(tool_rate_limits={"quick": "2/minute"})
        stage.go.set()
        assert [await stage.status(ADA) for _ in range(3)] == [200, 200, 429]
        assert await stage.status(ADA, "wait") == 200
        assert await stage.status(BOB) == 200
        refused = await stage.start(ADA, "quick").done()
        assert "2 calls of the tool quick in 60 s" in refused.json()["error"]["message"]
        assert "tool_rate_limits=" in refused.json()["error"]["message"]
        await stage.end()

    run(test())


def test_a_rate_for_a_tool_that_is_not_there_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        stage = Stage(tool_rate_limits={"quikc": "2/minute", "wait": "2/minute"})
        assert await stage.status(ADA) == 200
        await stage.end()

    run(test())
    [said] = [record.getMessage() for record in caplog.records]
    assert said.endswith('limits nothing by "quikc": no tool has this name now. Did you mean "quick"?')


def test_tokens_come_back() -> None:
    async def test() -> None:
        stage = Stage(rate_limit="2/s")
        while await stage.status(ADA) != 429:
            pass  # it makes many calls in the time in which one comes back
        while await stage.status(ADA) != 200:
            await asyncio.sleep(0.05)
        await stage.end()

    run(test())


def test_the_first_transport_has_the_same_rate() -> None:
    async def test() -> None:
        stage = Stage(rate_limit="2/hour", legacy_sse=True)
        stream = stage.http.start(method="GET", path="/sse", client=ADA)
        await stream.until(lambda response: b"session_id=" in response.body)
        query = stream.body.split(b"?")[1].split()[0]
        opening = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        for number, method in enumerate(("initialize", "ping", "ping")):
            body = message(number, method, opening if number == 0 else {})
            assert (await stage.http.send(body, path="/messages", query=query, client=ADA)).status == 202
        await stream.until(lambda response: b"may make 2 calls" in response.body)
        await stage.end(stream)

    run(test())


@pytest.mark.parametrize("value", ["fast", "0/s", "5/fortnight", 5, "5/s "])
def test_a_rate_that_cannot_be_read_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match='rate_limit must be a rate such as "100/minute"'):
        Server("shares").asgi(rate_limit=value)
    with pytest.raises(OptionError, match="tool_rate_limits of add must be a rate"):
        Server("shares").asgi(tool_rate_limits={"add": value})


def test_a_call_that_is_refused_is_not_run_and_its_id_is_free() -> None:
    async def test() -> None:
        stage = Stage(max_calls_per_caller=1)
        first = await stage.wait(ADA)
        session = await stage.http.open(client=BOB)
        waits = stage.http.start(
            message(1, "tools/call", {"name": "wait", "arguments": {}}), headers=session, client=BOB
        )
        while stage.running < 2:
            await asyncio.sleep(0)
        again = message(2, "tools/call", {"name": "quick", "arguments": {}})
        assert (await stage.http.send(again, headers=session, client=BOB)).status == 429
        stage.go.set()
        await waits.done()
        assert (await stage.http.send(again, headers=session, client=BOB)).status == 200
        await stage.end(first)

    run(test())
