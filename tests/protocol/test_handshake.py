"""The handshake era: negotiation, what may come before it, batches, and which revision knows which field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.support import Wire, make_server, modern, notification, request
from redstart import ProtocolError
from redstart.protocol.call import Answer, Call, Cancel, Refusal
from redstart.wire.types import Result, ToolResult
from support import HANDSHAKES, MODERN

LATEST = HANDSHAKES[-1]


@pytest.mark.requirement("3", "7", "14", "T4")
@pytest.mark.parametrize(
    ("params", "answered"),
    [
        *[({"protocolVersion": revision}, revision) for revision in HANDSHAKES],
        ({"protocolVersion": MODERN}, LATEST),
        ({"protocolVersion": "2099-01-01"}, LATEST),
        ({"protocolVersion": "1999-01-01"}, LATEST),
        ({"protocolVersion": ""}, LATEST),
        ({"protocolVersion": "DRAFT-2026-v1"}, LATEST),
        ({}, LATEST),
        (None, LATEST),
        ({"protocolVersion": "2025-06-18", "clientInfo": 7, "capabilities": "all"}, "2025-06-18"),
    ],
    ids=str,
)
def test_initialize_answers_a_revision_that_has_a_handshake(params: Any, answered: str) -> None:
    result = Wire().one(request(1, "initialize", params))["result"]
    assert result["protocolVersion"] == answered
    assert result["serverInfo"]["name"] == "test"
    assert "resultType" not in result
    assert "_meta" not in result


@pytest.mark.requirement("16", "24", "T5")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request(1, "ping"), 0),
        (request(1, "ping", {}), 0),
        (request(1, "ping", None), 0),
        (request(1, "tools/list"), -32600),
        (request(1, "tools/call", {"name": "echo"}), -32600),
        (request(1, "logging/setLevel", {"level": "info"}), -32600),
        (request(1, "resources/subscribe", {"uri": "a:b"}), -32600),
        (request(1, "no/such"), -32601),
        (request(1, "server/discover"), -32602),
        (request(1, "subscriptions/listen", {"notifications": {}}), -32602),
        (modern(1, "tools/list"), 0),
        (modern(1, "server/discover"), 0),
    ],
)
def test_before_initialize(message: bytes, code: int) -> None:
    assert Wire().code(message) == code


def test_a_request_before_the_handshake_is_told_both_ways_in() -> None:
    text = Wire().one(request(1, "tools/list"))["error"]["message"]
    assert "initialize" in text
    assert "_meta" in text


@pytest.mark.requirement("T9")
def test_a_bare_initialized_arms_nothing() -> None:
    wire = Wire()
    assert wire.send(notification("notifications/initialized")) == []
    assert wire.link.session is None
    assert wire.code(request(1, "tools/list")) == -32600


@pytest.mark.requirement("15")
@pytest.mark.parametrize("name", ["notifications/initialized", "initialized"])
def test_initialized_is_remembered_also_under_its_old_name(name: str) -> None:
    wire = Wire()
    wire.one(request(1, "initialize", {"protocolVersion": LATEST}))
    assert wire.link.session is not None
    assert not wire.link.session.initialized
    for other in ("notifications/roots/list_changed", "notifications/progress", "tools/list", "no/such"):
        assert wire.receive(notification(other)) == []
    assert not wire.link.session.initialized
    assert wire.receive(notification(name)) == []
    assert wire.link.session.initialized


@pytest.mark.requirement("14")
def test_a_new_initialize_ends_the_session_and_begins_another() -> None:
    wire = Wire("2025-06-18")
    wire.one(request(1, "resources/subscribe", {"uri": "a://b"}))
    old, other, lasting = (
        call
        for id, make in ((1, request), (2, request), (3, modern))
        for call in wire.receive(make(id, "tools/call", {"name": "echo"}))
        if isinstance(call, Call)
    )
    asked = wire.link.ask(old, "roots/list", {})
    assert asked is not None
    *ended, opened = wire.receive(request(1, "initialize", {"protocolVersion": LATEST}))  # the id of an open call
    assert [(event.call, event.data) for event in ended if isinstance(event, Cancel)] == [(old, None), (other, None)]
    assert isinstance(opened, Call)
    assert (old.open, other.open, lasting.open, opened.open) == (False, False, True, True)
    assert (wire.link.reply(old, Result()), wire.link.notify(other, "notifications/message", {})) == (None, None)
    assert not wire.link.pending
    session = wire.link.session
    assert session is not None
    assert (session.revision, session.initialized, session.subscriptions) == (LATEST, False, set())


def test_an_initialize_that_another_one_overtakes_is_answered_and_so_is_a_ping() -> None:
    """Their sender may wait for them; under the id of the new one only the new one is answered."""
    wire = Wire()
    again = request(3, "initialize", {"protocolVersion": LATEST})
    for data in (request(1, "initialize", {"protocolVersion": LATEST}), request(2, "ping"), request(3, "ping")):
        wire.receive(data)
    first, ping, unanswered, opened = wire.receive(again)
    assert isinstance(first, Cancel)
    assert isinstance(ping, Cancel)
    error = json.loads(first.data or b"")
    assert (error["id"], error["error"]["code"]) == (1, -32600)
    assert json.loads(ping.data or b"") == {"jsonrpc": "2.0", "id": 2, "result": {}}
    assert isinstance(unanswered, Cancel)
    assert unanswered.data is None
    assert isinstance(opened, Call)
    assert (opened.open, list(wire.link.calls)) == (True, [3])
    overtaken, opened = wire.receive(again)
    assert isinstance(overtaken, Cancel)
    assert overtaken.data is None
    assert list(wire.link.calls.values()) == [opened]


def test_the_first_initialize_ends_no_modern_call() -> None:
    wire = Wire()
    (lasting,) = wire.receive(modern(1, "tools/call", {"name": "echo"}))
    (opened,) = wire.receive(request(2, "initialize", {"protocolVersion": LATEST}))
    assert isinstance(lasting, Call)
    assert isinstance(opened, Call)
    assert (lasting.open, opened.open) == (True, True)
    assert wire.code(request(1, "initialize", {"protocolVersion": LATEST})) == -32600  # the id of the modern call
    assert (lasting.open, opened.open) == (True, True)


@pytest.mark.parametrize(
    "data", [request(1, "initialize", {"protocolVersion": 7}), b"[%b]" % request(1, "initialize", {})]
)
def test_an_initialize_that_is_refused_ends_no_session(data: bytes) -> None:
    wire = Wire("2025-03-26")
    (call,) = wire.receive(request(5, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    assert "error" in str(wire.send(data))
    assert call.open
    assert wire.link.session is call.session


def test_a_session_over_http_is_not_opened_twice() -> None:
    wire = Wire("2025-06-18")
    wire.link = wire.server.runtime.link(wire.link.session)
    assert wire.code(request(2, "initialize", {"protocolVersion": LATEST}), {}) == -32600


def test_an_initialize_that_is_refused_opens_no_session() -> None:
    wire = Wire()
    (call,) = wire.receive(modern(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    assert wire.code(request(1, "initialize", {"protocolVersion": LATEST})) == -32600
    assert wire.link.session is None
    assert wire.code(request(2, "initialize", {"protocolVersion": LATEST})) == 0


def test_initialize_cannot_be_cancelled() -> None:
    wire = Wire()
    (call,) = wire.receive(request(1, "initialize", {"protocolVersion": LATEST}))
    assert isinstance(call, Call)
    assert wire.receive(notification("notifications/cancelled", {"requestId": 1})) == []
    assert call.open


@pytest.mark.requirement("24", "25", "T6", "T7")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request(1, "no/such"), -32601),
        (request(1, "no/such", [1, 2]), -32601),
        (request(1, "tools/list", None), 0),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}', 0),
        (request(1, "tools/list", {"cursor": None}), 0),
        (request(1, "tools/list", []), -32602),
        (request(1, "tools/list", True), -32602),
        (request(1, "tools/list", 1234), -32602),
        (request(1, "tools/list", {}, error={}), -32600),
        (request(1, "tools/list", {}, result={}), -32600),
        (request(1, "tools/list", {"cursor": 7}), -32602),
        (request(1, "tools/list", {"cursor": "junk"}), -32602),
        (request(1, "tools/call", {}), -32602),
        (request(1, "tools/call", {"name": 7}), -32602),
        (request(1, "tools/call", {"name": "ecko"}), -32602),
        (request(1, "logging/setLevel", {"level": "bogus"}), -32602),
        (request(1, "logging/setLevel", {"level": "debug"}), 0),
        (request(1, "notifications/initialized"), -32601),
        (request(1, "server/discover"), -32602),
    ],
)
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_requests_of_a_session(revision: str, message: bytes, code: int) -> None:
    wire = Wire(revision)
    assert wire.code(message) == code
    assert wire.code(request(2, "ping")) == 0


@pytest.mark.requirement("T65")
def test_the_log_level_takes_effect_live() -> None:
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    wire.one(request(2, "logging/setLevel", {"level": "debug"}))
    assert call.session is not None
    assert call.session.log_level == "debug"


def test_answers_carry_nothing_modern() -> None:
    wire = Wire(LATEST)
    for message in (request(1, "tools/list"), request(2, "tools/call", {"name": "echo"}), request(3, "ping")):
        result = wire.one(message)["result"]
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


@pytest.mark.parametrize("message", [b"{", b"1", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b"{}"])
@pytest.mark.parametrize(("revision", "null"), [(None, False), *[(one, one < LATEST) for one in HANDSHAKES]])
def test_an_id_that_cannot_be_read_is_null_or_absent(message: bytes, revision: str | None, null: bool) -> None:
    answer = Wire(revision).one(message)
    assert answer.get("id", "absent") == (None if null else "absent")


# ---------------------------------------------------------------- batches


def batch(*parts: bytes) -> bytes:
    return b"[" + b",".join(parts) + b"]"


@pytest.mark.requirement("3")
@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
def test_only_one_revision_has_batches(revision: str | None) -> None:
    wire = Wire(revision)
    answer = wire.one(batch(request(1, "ping")))
    assert (answer["error"]["code"], wire.status) == (-32600, 400)
    assert wire.code(request(1, "ping")) == 0


@pytest.mark.requirement("3")
@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (batch(request(1, "ping"), request(2, "ping")), [[{1: 0, 2: 0}]]),
        (batch(request(1, "ping"), notification("notifications/initialized")), [[{1: 0}]]),
        (batch(notification("notifications/initialized")), []),
        (batch(request(1, "ping"), request(2, "no/such")), [[{1: 0, 2: -32601}]]),
        (batch(request(2, "no/such")), [[{2: -32601}]]),
        (batch(b"1", b"null", b'"x"', b"{}"), [[{None: -32600}]]),
        (batch(request(1, "ping"), b"[]"), [[{1: 0, None: -32600}]]),
        (b"  [" + request(1, "ping") + b" ] ", [[{1: 0}]]),
        (b"[]", [{None: -32600}]),
        (b"[1,", [{None: -32700}]),
        (batch(request(1, "initialize", {})), [{None: -32600}]),
        (batch(request(1, "ping"), modern(2, "tools/list")), [{None: -32600}]),
        (batch(request(1, "tools/call", {"name": "echo", "arguments": {"text": "initialize"}})), [[{1: 0}]]),
        # a word that looks like `initialize` or a version: every message is still judged by itself
        (batch(b'"initialize"', request(1, "ping")), [[{1: 0, None: -32600}]]),
        (batch(request(1, "ping", {"a": "initialize", "_meta": {"progressToken": 1}})), [[{1: 0}]]),
        (batch(b'{"method":"initialize","id":1e999}', request(1, "ping")), [[{1: 0, None: -32600}]]),
        (batch(b'{"a":"initialize","method":7}', request(1, "ping")), [[{1: 0, None: -32600}]]),
        (batch(b'{"a":"initialize","method":"ping","params":[1]}', request(1, "ping")), [[{1: 0}]]),
        (batch(b'{"a":"initialize","b":' + b"[" * 900 + b"]" * 900 + b"}", request(1, "ping")), [{None: -32700}]),
        (batch(b'{"a":"initialize","b":' + b"[" * 9000 + b"]" * 9000 + b"}", request(1, "ping")), [{None: -32700}]),
    ],
)
def test_batches(data: bytes, answers: list[Any]) -> None:
    def codes(answer: Any) -> Any:
        if isinstance(answer, list):
            return [{one["id"]: one.get("error", {}).get("code", 0) for one in answer}]
        return {answer["id"]: answer["error"]["code"]}

    wire = Wire("2025-03-26")
    out = wire.send(data)
    assert [codes(answer) for answer in out] == answers
    assert wire.status == (400 if out and isinstance(out[0], dict) else 200)
    assert wire.code(request(9, "ping")) == 0


def test_a_duplicate_id_in_a_batch_is_refused_and_the_first_one_served() -> None:
    answers = Wire("2025-03-26").one(batch(request(1, "ping"), request(1, "ping")))
    assert sorted(answer.get("error", {}).get("code", 0) for answer in answers) == [-32600, 0]


def test_every_request_of_a_batch_is_answered_in_the_batch() -> None:
    answers = Wire("2025-03-26").one(batch(*(request(n, "ping") for n in range(50))))
    assert sorted(answer["id"] for answer in answers) == list(range(50))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"protocolVersion", b"protocol\\u0056ersion"),
        (b"protocol/", b"protocol\\/"),
        (b'"_meta"', b'"a": 1e999, "_meta"'),  # a number that some decoders refuse
        (b'"id"', b'"a": 1e999, "id"'),
        (b'"_meta": {', b'"_meta": {"a": 1e999, '),
    ],
)
def test_a_modern_element_cannot_hide_in_a_batch(old: bytes, new: bytes) -> None:
    hidden = modern(2, "tools/list").replace(old, new, 1)
    assert hidden != modern(2, "tools/list")
    refused = Wire("2025-03-26").send(batch(request(1, "ping"), hidden))
    assert [answer["error"]["code"] for answer in refused if isinstance(answer, dict)] == [-32600]


def test_a_cancellation_inside_a_batch_neither_completes_it_early_nor_twice() -> None:
    wire = Wire("2025-03-26")
    cancel = notification("notifications/cancelled", {"requestId": 1})
    events = wire.receive(batch(b'{"jsonrpc":"2.0","id":9}', request(1, "ping"), cancel, request(2, "ping")))
    sent: list[Any] = []
    for event in events:
        if isinstance(event, Cancel) and event.data is not None:
            sent += json.loads(event.data)
    for event in events:
        if isinstance(event, Call) and event.open:
            data = wire.link.fail(event, ProtocolError(-32603, "x"))
            sent += json.loads(data or b"[]")
    assert sorted(answer["id"] for answer in sent) == [2, 9]
    assert [event.call.id for event in events if isinstance(event, Cancel)] == [1]


def test_a_cancellation_completes_a_batch_that_waits_for_nothing_else() -> None:
    wire = Wire("2025-03-26")
    first, second = wire.receive(batch(request(1, "ping"), request(2, "ping")))
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert wire.link.fail(first, ProtocolError(-32603, "x")) is None
    (cancel,) = wire.receive(notification("notifications/cancelled", {"requestId": 2}))
    assert isinstance(cancel, Cancel)
    assert [answer["id"] for answer in json.loads(cancel.data or b"")] == [1]


# ---------------------------------------------------------------- cancellation and answers


@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": 99}, {"requestId": "1"}, {"requestId": 1.5}, {"requestId": None}, [], 7]
)
def test_a_cancellation_that_names_no_open_request_is_ignored(params: Any) -> None:
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    assert wire.receive(notification("notifications/cancelled", params)) == []
    assert call.open


def test_a_cancelled_call_gets_nothing_more() -> None:
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    question = wire.link.ask(call, "roots/list", {})
    (cancel,) = wire.receive(notification("notifications/cancelled", {"requestId": 1, "reason": "bored"}))
    assert isinstance(cancel, Cancel)
    assert (cancel.call, cancel.reason) == (call, "bored")
    assert wire.link.reply(call, Result()) is None
    assert wire.link.notify(call, "notifications/progress", {}) is None
    assert wire.link.ask(call, "roots/list", {}) is None
    assert question is not None
    assert wire.receive(b'{"jsonrpc":"2.0","id":"%b","result":{}}' % question[0].id.encode()) == []
    assert wire.code(request(1, "ping")) == 0  # and its id is free again


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_one_id_space_for_both_eras(era: str) -> None:
    wire = Wire(LATEST)
    first, second = request(1, "tools/call", {"name": "echo"}), modern(1, "tools/call", {"name": "echo"})
    wire.receive(second if era == "handshake" else first)
    assert wire.code(first if era == "handshake" else second) == -32600


def test_an_answer_is_taken_once_and_only_by_its_id() -> None:
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    asked = [wire.link.ask(call, "roots/list", {}) for _ in range(3)]
    first, second, third = (json.loads(found[1])["id"] for found in asked if found is not None)

    def answer(id: Any, body: str) -> list[Any]:
        return wire.receive(b'{"jsonrpc":"2.0","id":%b,%b}' % (json.dumps(id).encode(), body.encode()))

    assert answer(1, '"result":{}') == []
    assert answer(None, '"result":{}') == []
    assert answer("ask-99", '"result":{}') == []
    (found,) = answer(second, '"result":{"roots":[]}')
    assert isinstance(found, Answer)
    assert found.pending is (asked[1] or [None])[0]
    assert bytes(found.outcome) == b'{"roots":[]}'  # type: ignore[arg-type]
    assert answer(second, '"result":{}') == []
    (found,) = answer(first, '"error":{"code":-1,"message":"no"}')
    assert isinstance(found.outcome, ProtocolError)
    assert found.outcome.code == -1
    wire.link.reply(call, ToolResult())
    assert answer(third, '"result":{}') == []  # nobody waits any more
    assert not wire.link.pending


@pytest.mark.parametrize(
    ("id", "late"),
    [
        ("ask-1", True),
        ("ask-2", True),
        ("ask-3", False),
        ("ask-0", False),
        ("ask-", False),
        ("ask-" + "9" * 5000, False),
        ("x", False),
        (1, False),
        (None, False),
    ],
    ids=str,
)
def test_an_answer_that_nobody_waits_for(id: Any, late: bool) -> None:
    """Over HTTP it is refused, unless it may have come too late; on a pipe an answer cannot be answered."""
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    for _ in range(2):
        assert wire.link.ask(call, "roots/list", {}) is not None
    wire.link.reply(call, ToolResult())
    data = json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode()
    assert wire.receive(data) == []
    refused = [event for event in wire.receive(data, {}) if isinstance(event, Refusal)]
    assert [(event.status, json.loads(event.data)["error"]["code"]) for event in refused] == [(400, -32600)][late:]


def test_a_question_that_is_withdrawn_is_no_longer_open() -> None:
    wire = Wire("2025-03-26")
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    first, second = (asked[0] for _ in range(2) if (asked := wire.link.ask(call, "roots/list", {})) is not None)
    told = json.loads(wire.link.withdraw(first))
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", first.id)
    assert list(wire.link.pending) == [second.id]
    answers = [b'{"jsonrpc":"2.0","id":"%b","result":{}}' % one.id.encode() for one in (first, second)]
    (found,) = wire.receive(batch(*answers))  # those of a batch count, too
    assert isinstance(found, Answer)
    assert found.pending is second


def test_malformed_errors_are_answers_too() -> None:
    wire = Wire(LATEST)
    (call,) = wire.receive(request(1, "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    asked = wire.link.ask(call, "roots/list", {})
    assert asked is not None
    (found,) = wire.receive(b'{"jsonrpc":"2.0","id":"%b","error":7}' % asked[0].id.encode())
    assert found.outcome.code == -32600  # type: ignore[union-attr]


def test_a_fault_that_json_cannot_carry_is_still_an_answer() -> None:
    server = make_server()

    @server.tool
    async def bad() -> None:
        raise ProtocolError(-32602, "lone \ud800", {"data": object()})

    answer = Wire(LATEST, server).one(request(1, "tools/call", {"name": "bad"}))
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"].startswith("lone ")
