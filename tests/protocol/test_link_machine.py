"""A state machine on Link: every request is answered exactly once, or never if it was cancelled.

Both eras, batches, duplicate ids, questions, cancellations and hostile messages come in any order on one pipe.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.support import Wire, modern, notification, request
from redstart.protocol.call import Answer, Call, Cancel, Event, Pending, Refusal
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import Result

pytestmark = pytest.mark.sends_anything("its results, questions and notifications are empty")

IDS = st.sampled_from([0, 1, 2, "1", "", "x"])
KINDS = st.sampled_from(["handshake", "modern", "unknown", "malformed", "shape"])
PARTS = st.sampled_from(["handshake", "handshake", "shape", "cancel", "cancel", "malformed", "unknown", "note"])


def message(kind: str, id: Any) -> bytes:
    match kind:
        case "handshake":
            return request(id, "tools/call", {"name": "echo"})
        case "modern":
            return modern(id, "tools/call", {"name": "echo"})
        case "unknown":
            return request(id, "no/such")
        case "malformed":
            return request(id, "tools/call", {"name": 7})
    return json.dumps({"jsonrpc": "2.0", "id": id}).encode()


class Peer(RuleBasedStateMachine):
    """The model counts, for each id, what was sent, answered, cancelled and is held back in a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.link = Wire("2025-03-26").link
        self.sent: Counter[Any] = Counter()
        self.answered: Counter[Any] = Counter()
        self.cancelled: Counter[Any] = Counter()
        self.held: dict[int, Counter[Any]] = {}
        self.calls: list[Call] = []
        self.questions: list[Pending] = []
        self.asked: set[str] = set()

    # ------------------------------------------------------------ what goes out

    def out(self, data: bytes | None) -> None:
        if data is None:
            return
        found = json.loads(data)
        for one in found if isinstance(found, list) else [found]:
            self.answered[one["id"]] += 1

    def close(self, call: Call, data: bytes | None, *, quietly: bool) -> None:
        """A call was closed by an answer (perhaps held back in its batch) or by a cancellation (`quietly`)."""
        if quietly:
            self.cancelled[call.id] += 1
        if call.batch is None:
            assert (data is None) is quietly
        else:
            held = self.held.setdefault(id(call.batch), Counter())
            if not quietly:
                held[call.id] += 1
            if data is not None:
                held.clear()
        self.out(data)

    def take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Call):
                self.calls.append(event)
            elif isinstance(event, Refusal):
                self.out(event.data)
            elif isinstance(event, Cancel):
                self.close(event.call, event.data, quietly=True)
            elif isinstance(event, Answer):
                assert event.pending.call.open
                assert event.pending.id in self.asked
                self.asked.discard(event.pending.id)

    # ------------------------------------------------------------ what comes in

    @rule(kind=KINDS, id=IDS)
    def send(self, kind: str, id: Any) -> None:
        self.sent[id] += 1
        self.take(self.link.receive(message(kind, id)))

    @rule(parts=st.lists(st.tuples(PARTS, st.sampled_from([1, "x"])), min_size=1, max_size=6))
    def send_batch(self, parts: list[tuple[str, Any]]) -> None:
        data, refused = [], Counter[Any]()
        for kind, id in parts:
            if kind == "cancel":
                data.append(notification("notifications/cancelled", {"requestId": id}))
            elif kind == "note":
                data.append(notification("notifications/initialized"))
            else:
                self.sent[id] += 1
                refused[id] += 1
                data.append(message(kind, id))
        events = self.link.receive(b"[" + b",".join(data) + b"]")
        mine = [event for event in events if isinstance(event, Call)]
        if mine:  # what was refused waits in the batch for the calls
            held = self.held.setdefault(id_of(mine[0]), Counter())
            held.update(refused - Counter(call.id for call in mine))
        self.take(events)
        if mine and mine[0].batch is not None and not mine[0].batch.open:
            self.held.pop(id_of(mine[0]), None)

    @rule(id=IDS)
    def cancel(self, id: Any) -> None:
        self.take(self.link.receive(notification("notifications/cancelled", {"requestId": id})))

    @rule(data=st.sampled_from([b"", b"{", b"[]", b"[1,", b"\xff", b"null", b'{"id":1,"id":2,"method":"ping"}']))
    def send_garbage(self, data: bytes) -> None:
        (event,) = self.link.receive(data)
        assert isinstance(event, Refusal)
        assert json.loads(event.data)["id"] is None

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), error=st.booleans())
    def answer(self, data: st.DataObject, error: bool) -> None:
        pending = data.draw(st.sampled_from(self.questions))
        body = b'"error":{"code":1,"message":"x"}' if error else b'"result":{}'
        waits = pending.id in self.asked
        events = self.link.receive(b'{"jsonrpc":"2.0","id":"%b",%b}' % (pending.id.encode(), body))
        assert len(events) == waits
        self.take(events)

    # ------------------------------------------------------------ what handlers do

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        call = data.draw(st.sampled_from(self.calls))
        was_open = call.open
        done = self.link.fail(call, ProtocolError(-32603, "x")) if fails else self.link.reply(call, Result())
        if was_open:
            self.close(call, done, quietly=False)
            self.asked -= {question.id for question in self.questions if question.call is call}
        else:
            assert done is None

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def speak(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        assert (self.link.notify(call, "notifications/progress", {}) is not None) is call.open
        asked = self.link.ask(call, "roots/list", {})
        assert (asked is not None) is call.open
        if asked is not None:
            self.questions.append(asked[0])
            self.asked.add(asked[0].id)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        if call.open:
            self.close(call, self.link.forget(call), quietly=True)
        else:
            assert self.link.forget(call) is None

    # ------------------------------------------------------------ what must hold

    @invariant()
    def every_request_is_accounted_for(self) -> None:
        held = sum(self.held.values(), Counter[Any]())
        open_now = Counter(list(self.link.calls))
        for id, sent in self.sent.items():
            assert self.answered[id] + self.cancelled[id] + open_now[id] + held[id] == sent, id
        assert set(self.answered) <= set(self.sent)

    @invariant()
    def questions_belong_to_open_calls(self) -> None:
        self.asked = {question.id for question in self.questions if question.id in self.asked and question.call.open}
        assert set(self.link.pending) == self.asked


def id_of(call: Call) -> int:
    return id(call.batch)


TestPeer = Peer.TestCase
TestPeer.settings = settings(max_examples=100, stateful_step_count=30)
