"""The modern era: the envelope, the order of the checks, the shape of every result."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.support import Wire, headers, make_server, modern, notification, request
from redstart import Text, ToolResult
from redstart.protocol.call import Call, Refusal
from redstart.wire.jsonrpc import RESOURCE_NOT_FOUND, ProtocolError
from redstart.wire.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO
from support import ENVELOPE, HANDSHAKES, MODERN

LIST = headers("tools/list")
CALL = headers("tools/call", "echo")
NO_VERSION: dict[str, Any] = {CLIENT_CAPABILITIES: {}}
NO_CAPABILITIES = {PROTOCOL_VERSION: MODERN}
OTHER = {**ENVELOPE, PROTOCOL_VERSION: "1900-01-01"}


@pytest.mark.parametrize(
    ("message", "sent", "outcome"),
    [
        (modern(1, "tools/list"), LIST, (200, 0)),
        (modern(1, "tools/call", {"name": "echo"}), CALL, (200, 0)),
        # 4, 5: JSON, then shape
        (b"{", LIST, (400, -32700)),
        (b"[]", LIST, (400, -32600)),
        (b"[" + modern(1, "tools/list") + b"]", LIST, (400, -32600)),
        (b"{}", LIST, (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', LIST, (400, -32600)),
        (modern(None, "tools/list"), LIST, (400, -32600)),
        (modern(1.5, "tools/list"), LIST, (400, -32600)),
        (modern(1, "tools/list").replace(b'"2.0"', b'"1.0"'), LIST, (400, -32600)),
        # 6: the envelope, even where the headers are wrong or absent
        (request(1, "tools/list"), LIST, (400, -32602)),
        (request(1, "tools/list", {}), LIST, (400, -32602)),
        (request(1, "tools/list", []), LIST, (400, -32602)),
        (modern(1, "tools/list", meta={}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta=[]), LIST, (400, -32602)),
        (request(1, "tools/list", {"_meta": None}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta=NO_VERSION), LIST, (400, -32602)),
        (modern(1, "tools/list", meta=NO_VERSION), {}, (400, -32602)),
        (modern(1, "tools/list", meta=NO_CAPABILITIES), LIST, (400, -32602)),
        (modern(1, "tools/list", meta=NO_CAPABILITIES), {}, (400, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, PROTOCOL_VERSION: 5}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, PROTOCOL_VERSION: None}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, CLIENT_CAPABILITIES: "all"}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, CLIENT_CAPABILITIES: None}), LIST, (400, -32602)),
        (modern(1, "server/discover", meta={}), {}, (400, -32602)),
        (request(1, "no/such"), LIST, (400, -32602)),
        (request(1, "initialize", {"protocolVersion": MODERN}), headers("initialize"), (400, -32602)),
        # 7: headers before the version is judged
        (modern(1, "tools/list"), {}, (400, -32020)),
        (modern(1, "tools/list", meta=OTHER), LIST, (400, -32020)),
        (modern(1, "tools/list"), headers("tools/list", version="1900-01-01"), (400, -32020)),
        (modern(1, "tools/list"), headers("tools/list", version="2025-11-25"), (400, -32020)),
        (modern(1, "tools/list"), {b"mcp-protocol-version": MODERN.encode()}, (400, -32020)),
        (modern(1, "tools/list"), headers("TOOLS/LIST"), (400, -32020)),
        (modern(1, "no/such"), LIST, (400, -32020)),
        (modern(1, "tools/call", {"name": "echo"}), headers("tools/call"), (400, -32020)),
        (modern(1, "tools/call", {"name": "echo"}), headers("tools/call", "other"), (400, -32020)),
        (modern(1, "tools/call", {}), headers("tools/list"), (400, -32020)),
        # 8: the version before the method
        (modern(1, "tools/list", meta=OTHER), headers("tools/list", version="1900-01-01"), (400, -32022)),
        (modern(1, "no/such", meta=OTHER), headers("no/such", version="1900-01-01"), (400, -32022)),
        *[
            (
                modern(1, "tools/list", meta={**ENVELOPE, PROTOCOL_VERSION: old}),
                headers("tools/list", version=old),
                (400, -32022),
            )
            for old in HANDSHAKES
        ],
        # 9: the method
        (modern(1, "no/such"), headers("no/such"), (404, -32601)),
        (modern(1, "initialize", {"protocolVersion": MODERN}), headers("initialize"), (404, -32601)),
        (modern(1, "ping"), headers("ping"), (404, -32601)),
        (modern(1, "logging/setLevel", {"level": "info"}), headers("logging/setLevel"), (404, -32601)),
        (modern(1, "resources/subscribe", {"uri": "a:b"}), headers("resources/subscribe"), (404, -32601)),
        (modern(1, "prompts/list"), headers("prompts/list"), (404, -32601)),  # not offered by this server
        # 12: the handler, whose refusals ride on 200
        (modern(1, "tools/call", {"name": "ecko"}), headers("tools/call", "ecko"), (200, -32602)),
        (modern(1, "tools/list", {"cursor": "junk"}), LIST, (200, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, LOG_LEVEL: "loud"}), LIST, (400, -32602)),
        (modern(1, "tools/list", meta={**ENVELOPE, LOG_LEVEL: "info"}), LIST, (200, 0)),
    ],
)
def test_the_order_of_the_checks(message: bytes, sent: dict[bytes, bytes], outcome: tuple[int, int]) -> None:
    wire = Wire()
    assert wire.outcome(message, sent) == outcome
    assert wire.link.calls == {}
    assert wire.link.session is None


def test_the_id_is_echoed_in_every_refusal() -> None:
    cases = [
        (modern("a", "tools/list", meta={}), {}),
        (modern("a", "tools/list"), {}),
        (modern("a", "no/such"), headers("no/such")),
        (modern("a", "tools/list").replace(b'"2.0"', b"2.0"), LIST),
        (b'{"jsonrpc":"2.0","id":"a"}', LIST),
    ]
    for message, sent in cases:
        assert Wire().one(message, sent)["id"] == "a"


def test_what_an_unsupported_version_is_told() -> None:
    error = Wire().one(modern(1, "tools/list", meta=OTHER))["error"]
    assert error["data"] == {"supported": [MODERN], "requested": "1900-01-01"}
    found = Wire().one(modern(1, "server/discover"))["result"]["supportedVersions"]
    assert found == error["data"]["supported"]


@pytest.mark.parametrize("info", [None, {"name": "c", "version": "1"}, {"name": "c"}])
def test_client_info_is_optional(info: Any) -> None:
    meta = ENVELOPE if info is None else {**ENVELOPE, CLIENT_INFO: info}
    assert Wire().code(modern(1, "tools/list", meta=meta)) == 0


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request(1, "server/discover"), -32602),
        (modern(1, "tools/list", meta=NO_VERSION), -32602),
        (modern(1, "tools/list", meta=NO_CAPABILITIES), -32602),
        (modern(1, "ping"), -32601),
        (modern(1, "initialize"), -32601),
        (modern(1, "tools/list", meta={"progressToken": 1}), -32600),  # a handshake request, and there was none
    ],
)
def test_half_modern_on_stdio(message: bytes, code: int) -> None:
    assert Wire().code(message) == code


@pytest.mark.parametrize(
    ("message", "sent", "outcome"),
    [
        (request(1, "tools/list"), None, (200, 0)),
        (request(1, "tools/list"), {}, (200, 0)),
        (request(1, "tools/list"), {b"mcp-protocol-version": b" 2025-11-25 "}, (200, 0)),
        (modern(1, "tools/list", meta={"progressToken": 1}), None, (200, 0)),
        (modern(1, "tools/list"), None, (200, 0)),
        (modern(1, "tools/list", meta=NO_VERSION), None, (400, -32602)),
        (modern(1, "tools/list", meta=NO_VERSION), {}, (400, -32602)),
        (request(1, "tools/list"), LIST, (400, -32602)),
        (request(1, "tools/list", []), LIST, (400, -32602)),
        (request(1, "tools/list", []), {}, (200, -32602)),
        (request(1, "tools/call", {"name": 7, "_meta": {"progressToken": 1}}), {}, (200, -32602)),
        (request(1, "server/discover"), None, (400, -32602)),
        (request(1, "server/discover", []), None, (400, -32602)),
        (modern(1, "tools/call", {"name": 7}), CALL, (200, -32602)),
        (modern(1, "tools/call", {"name": 7}, meta=OTHER), None, (400, -32022)),
        (modern(1, "no/such", meta={**ENVELOPE, CLIENT_INFO: 7}), None, (200, -32601)),
        (request(1, "no/such"), None, (200, -32601)),
        (request(1, "no/such", []), None, (200, -32601)),
    ],
)
def test_half_modern_in_a_session(message: bytes, sent: dict[bytes, bytes] | None, outcome: tuple[int, int]) -> None:
    wire = Wire(HANDSHAKES[-1])
    assert wire.outcome(message, sent) == outcome
    assert wire.code(request(2, "ping")) == 0


def test_the_era_belongs_to_the_message() -> None:
    wire = Wire("2025-06-18")
    for n in range(3):
        assert "resultType" not in wire.one(request(2 * n, "tools/list"))["result"]
        assert wire.one(modern(2 * n + 1, "tools/list"))["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("method", "params"),
    [("server/discover", {}), ("tools/list", {}), ("tools/call", {"name": "echo"})],
)
def test_every_result_says_what_it_is_and_who_made_it(method: str, params: dict[str, Any]) -> None:
    result = Wire().one(modern(1, method, params))["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER_INFO] == {"name": "test", "version": "1"}
    if method != "tools/call":
        assert isinstance(result["ttlMs"], int)
        assert result["cacheScope"] in ("public", "private")
    assert "serverInfo" not in result


@pytest.mark.parametrize("given", [{}, {"example.com/a": 1}, {SERVER_INFO: {"name": "p", "version": "2"}}])
def test_the_meta_of_a_result_is_kept_beside_ours(given: dict[str, Any]) -> None:
    server = make_server()

    @server.tool
    async def marked() -> ToolResult:
        return ToolResult(content=[], meta=given)

    result = Wire(None, server).one(modern(1, "tools/call", {"name": "marked"}))["result"]
    assert result["_meta"] == {SERVER_INFO: {"name": "test", "version": "1"}, **given}


def test_a_result_object_that_is_used_twice_serves_both_eras() -> None:
    server = make_server()
    same = ToolResult(content=[Text("same")])

    @server.tool
    async def constant() -> ToolResult:
        return same

    wire = Wire("2025-06-18", server)
    assert wire.one(modern(1, "tools/call", {"name": "constant"}))["result"]["resultType"] == "complete"
    assert set(wire.one(request(2, "tools/call", {"name": "constant"}))["result"]) == {"content"}


def test_notifications_need_no_envelope() -> None:
    for sent in (None, LIST):
        assert Wire().send(notification("notifications/cancelled", {"requestId": 1}), sent) == []
        assert Wire().send(notification("no/such"), sent) == []


def test_a_modern_call_is_cancelled_by_its_id() -> None:
    wire = Wire()
    (call,) = wire.receive(modern("x", "tools/call", {"name": "echo"}))
    assert isinstance(call, Call)
    wire.receive(notification("notifications/cancelled", {"requestId": "x"}))
    assert not call.open


@pytest.mark.parametrize("revision", [*HANDSHAKES, MODERN])
def test_a_missing_resource_has_the_code_of_the_revision(revision: str) -> None:
    wire = Wire(None if revision == MODERN else revision)
    wanted = -32602 if revision == MODERN else -32002
    (call,) = wire.receive(modern(1, "tools/list") if revision == MODERN else request(1, "tools/list"))
    assert isinstance(call, Call)
    data = wire.link.fail(call, ProtocolError(RESOURCE_NOT_FOUND, "no", {"uri": "a:b"}))
    assert data is not None
    assert b'"code":%d' % wanted in data
    assert b'"uri"' in data


def test_refusals_are_already_bytes() -> None:
    (event,) = Wire().receive(modern(1, "no/such"), headers("no/such"))
    assert isinstance(event, Refusal)
    assert b"\n" not in event.data
