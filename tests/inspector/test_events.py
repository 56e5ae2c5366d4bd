"""The ring of events: its bounds, what is left out, what a reader gets."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from redstart import Server
from redstart.inspector import events
from redstart.inspector.events import LogEvent, Ring
from redstart.inspector.host import Host
from support import ERAS, Peer, run


def log(text: str) -> LogEvent:
    return LogEvent(level="info", logger="", text=text, source="logging")


def batches(sent: list[bytes]) -> list[Any]:
    return [json.loads(data.partition(b"data: ")[2]) for data in sent]


def test_the_oldest_events_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_EVENTS", 3)
    ring, sent = Ring(), list[bytes]()
    for number in range(1, 6):
        ring.add(log(str(number)))
    ring.follow(0, sent.append, lambda: None)
    (batch,) = batches(sent)
    assert [event["text"] for event in batch["events"]] == ["3", "4", "5"]
    assert (batch["seq"], batch["missed"], batch["epoch"]) == (5, True, ring.epoch)


def test_the_ring_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_BYTES", 10_000)
    ring, sent = Ring(), list[bytes]()
    for _ in range(10):
        ring.add(log("x" * 3000))
    ring.follow(0, sent.append, lambda: None)
    assert sum(len(batch["events"]) for batch in batches(sent)) == 3


def test_a_reader_gets_what_came_after_the_event_that_it_knows() -> None:
    ring, sent = Ring(), list[bytes]()
    for number in range(1, 4):
        ring.add(log(str(number)))
    ring.follow(2, sent.append, lambda: None)
    ring.follow(None, sent.append, lambda: None)
    known, new = batches(sent)
    assert ([event["text"] for event in known["events"]], known["missed"]) == (["3"], False)
    assert (new["events"], new["seq"]) == ([], 3)


def test_a_number_of_another_process_is_noticed() -> None:
    ring, sent = Ring(), list[bytes]()
    ring.follow(77, sent.append, lambda: None)
    assert batches(sent)[0]["missed"] is True


def test_large_replays_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_BATCH", 1000)
    ring, sent = Ring(), list[bytes]()
    for number in range(10):
        ring.add(log(str(number) * 300))
    ring.follow(0, sent.append, lambda: None)
    got = batches(sent)
    assert len(got) > 3
    assert [event["seq"] for batch in got for event in batch["events"]] == list(range(1, 11))


def test_events_of_a_moment_come_together_and_what_was_left_out_is_counted() -> None:
    async def main() -> list[Any]:
        ring, sent, came = Ring(), list[bytes](), asyncio.Event()

        def push(data: bytes) -> None:
            sent.append(data)
            if len(sent) == 2:
                came.set()

        ring.follow(None, push, lambda: None)
        ring.leave_out("message")
        for number in range(3):
            ring.add(log(str(number)))
        await came.wait()
        return batches(sent)

    _, batch = run(main())
    assert [event["text"] for event in batch["events"]] == ["0", "1", "2"]
    assert batch["leftOut"] == {"message": 1, "call": 0}


def test_above_the_rate_there_is_no_room() -> None:
    ring = Ring()
    for _ in range(events.MAX_RATE):
        assert ring.has_room()
        ring.add(log(""))
    assert not ring.has_room()


def test_after_a_second_with_very_many_events_fewer_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(events, "perf_counter", lambda: clock[0])
    ring = Ring()
    ring.add(log(""))
    ring.passed += events.BUSY_RATE
    for room in (events.MAX_BUSY_RATE, events.MAX_RATE):
        clock[0] += 1
        shown = 0
        while ring.has_room():
            ring.add(log(""))
            shown += 1
        assert shown == room


@pytest.mark.parametrize("era", ERAS)
def test_of_calls_that_are_not_shown_a_failure_is_and_all_are_counted(era: str) -> None:
    server = Server("busy")

    @server.tool
    async def half(number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number // 2

    async def main() -> tuple[Host, dict[str, int], list[Any]]:
        host, seen = Host(server), list[Any]()
        peer = await Peer(host, era).open()  # type: ignore[arg-type]
        await peer.request("tools/call", {"name": "half", "arguments": {"number": 2}})
        host.ring.full_until = float("inf")
        host.ring.listeners.append(seen.append)
        before = host.ring.left_out
        for number in (4, 6, 7):
            await peer.request("tools/call", {"name": "half", "arguments": {"number": number}})
        left = {kind: count - before[kind] for kind, count in host.ring.left_out.items()}
        await host.stop()
        return host, left, seen

    host, left, seen = run(main())
    [failed] = [event for event in seen if isinstance(event, events.CallEvent)]
    assert (failed.state, failed.outcome, failed.name, failed.method) == ("done", "tool_error", "half", "tools/call")
    assert failed.ms > 0
    assert abs(failed.began - time.time()) < 60
    assert left == {"message": 6, "call": 2}
    figures = host.seen.tallies["half"].shown()
    assert (figures.count, figures.errors, len(figures.last)) == (4, 1, 4)
