"""Messages to fuzz with: valid ones of both eras, broken in ways that know their structure; and what must follow."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

CLAIM = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = "2026-07-28"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
    ("tools/call", {"name": "fail", "arguments": {}}),
    ("tools/call", {"name": "tell", "arguments": {"n": 2}}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "MTph"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "review", "arguments": {"code": "x"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "notes://one"}),
    ("resources/subscribe", {"uri": "notes://one"}),
    ("resources/unsubscribe", {"uri": "notes://one"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": ""}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("ping", {}),
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}}),
    ("no/such", {}),
)
NOTIFICATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1, "reason": "fuzz"}),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
    ("notifications/roots/list_changed", {}),
)
NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 2**31, 2**53, 2**53 + 1, 2**63, 10**40, 1e308, "", "x", "é☃😀", "\u0000",
    "\ud800", "a" * 300, "../../etc", "=?base64?QQ==?=", [], {}, [[]], {"": ""}, {"$ref": "#"}, "2026-07-28",
    "1900-01-01", "tools/call",
)  # fmt: skip
RAW = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000, b"01", b"'x'", b"undefined", b'"\\ud800"', b'"\\u0000"',
    b'"\xff"', b"\xef\xbb\xbf", b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70, b'"' + b"\\\\" * 50, b"//",
    b"\x00",
)  # fmt: skip


class Mutator:
    """An endless source of messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0

    def message(self) -> bytes:
        """One message without a newline in it."""
        choose = self.random.random
        value: Any = self._valid()
        if choose() < 0.03:
            value = [self._valid() for _ in range(self.random.randint(0, 4))]
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            value = self._edit(value)
        data = json.dumps(value, ensure_ascii=choose() < 0.5, separators=self.random.choice(((",", ":"), (", ", ": "))))
        raw = data.encode("utf-8", "surrogatepass")
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 2))):
            raw = self._break(raw)
        return raw.replace(b"\n", b" ").replace(b"\r", b" ")

    def headers(self, data: bytes) -> dict[str, str]:
        """The headers of a POST: mostly those that agree with the body."""
        sent: dict[str, str] = {}
        try:
            body = json.loads(data)
            meta = body["params"]["_meta"]
            sent = {"mcp-protocol-version": str(meta[CLAIM]), "mcp-method": str(body["method"])}
            named = body["params"].get("uri" if body["method"] == "resources/read" else "name")
            if named is not None:
                sent["mcp-name"] = str(named)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        if self.random.random() < 0.1:
            sent[self.random.choice(("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "accept"))] = (
                str(self.random.choice(NASTY))
            )
        return {k: v.encode("latin-1", "replace").decode("latin-1").replace("\n", " ") for k, v in sent.items()}

    def _valid(self) -> dict[str, Any]:
        pick = self.random
        self._count += 1
        if pick.random() < 0.1:
            method, params = pick.choice(NOTIFICATIONS)
            note: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
            if method == "notifications/cancelled":
                note["params"]["requestId"] = pick.choice((self._count - 1, self._count, "x"))
            return note
        if pick.random() < 0.03:
            return {"jsonrpc": "2.0", "id": pick.choice(("ask-1", 1, None)), "result": {}}
        method, params = pick.choice(METHODS)
        params = dict(params)
        if pick.random() < 0.6:
            params["_meta"] = {CLAIM: MODERN, CAPABILITIES: {}}
            if pick.random() < 0.3:
                params["_meta"] |= {"progressToken": self._count, "io.modelcontextprotocol/logLevel": "debug"}
        id: Any = self._count if pick.random() < 0.8 else f"s{self._count}"
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    def _edit(self, value: Any) -> Any:
        """Change one place of a JSON value."""
        pick = self.random
        if isinstance(value, dict) and value and pick.random() < 0.85:
            key = pick.choice(list(value))
            match pick.randrange(6):
                case 0:
                    return {k: v for k, v in value.items() if k != key}
                case 1:
                    return {**value, key: pick.choice(NASTY)}
                case 2:
                    return {**value, str(pick.choice(NASTY)): value[key]}
                case 3:
                    return {**{k: v for k, v in value.items() if k != key}, key.swapcase(): value[key]}
                case _:
                    return {**value, key: self._edit(value[key])}
        if isinstance(value, list) and value and pick.random() < 0.8:
            place = pick.randrange(len(value))
            return [*value[:place], self._edit(value[place]), *value[place + 1 :]]
        return pick.choice(NASTY)

    def _break(self, data: bytes) -> bytes:
        """Change the bytes."""
        pick = self.random
        at = pick.randrange(len(data) + 1)
        match pick.randrange(8):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + bytes([pick.randrange(256)]) + data[at:]
            case 2:
                return data[:at] + data[at + pick.randint(1, 8) :]
            case 3:
                return data[:at] + pick.choice(RAW) + data[at:]
            case 4:  # a key twice
                key = pick.choice((b'"id"', b'"method"', b'"params"', b'"name"', b'"_meta"', b'"jsonrpc"'))
                return data.replace(key, key + b":1," + key, 1)
            case 5:  # a letter of a key escaped
                letter = pick.choice((b"i", b"d", b"m", b"p", b"n", b"/"))
                return data.replace(letter, b"\\u%04x" % letter[0] if letter != b"/" else b"\\/", pick.randint(1, 3))
            case 6:
                return data[:at] + data[at : at + 20] * pick.randint(2, 5) + data[at + 20 :]
            case _:
                start = data.find(b":", at)
                end = min((p for p in (data.find(b",", start), data.find(b"}", start)) if p > 0), default=-1)
                return data if start < 0 or end < 0 else data[: start + 1] + pick.choice(RAW) + data[end:]


@dataclass
class Expected:
    """What must follow a message: how many answers, and with which id (`ANY` where nothing is said about it)."""

    least: int
    most: int
    id: Any
    cancels: Any = None
    listens: bool = False


ANY = object()


class _Unclean(ValueError):
    """JSON that a strict reader may refuse as a whole."""


def expected(data: bytes) -> Expected:
    """Judged by another JSON library than the one under test."""
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_float, parse_int=_int
        )
        _check(value, 0)
    except (ValueError, RecursionError):
        return Expected(0, 1, ANY, cancels=ANY)
    if isinstance(value, list):
        return Expected(0, 1, ANY, cancels=ANY)
    if not isinstance(value, dict):
        return Expected(1, 1, None)
    method, id = value.get("method", ANY), value.get("id", ANY)
    if method is ANY:
        if "result" in value or "error" in value:
            return Expected(0, 1, ANY)
        return Expected(1, 1, ANY)
    if not isinstance(method, str):
        return Expected(1, 1, ANY)
    if id is ANY:
        params = value.get("params")
        cancels = params.get("requestId") if method == "notifications/cancelled" and isinstance(params, dict) else None
        return Expected(0, 0 if isinstance(value.get("jsonrpc", ""), str) else 1, ANY, cancels=cancels)
    good = (type(id) is int and abs(id) <= 2**53) or (type(id) is str and len(id) <= 256)
    return Expected(1, 1, id if good else None, listens=method == "subscriptions/listen")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unclean
    return found


def _refuse(text: str) -> Any:
    raise _Unclean


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Unclean
    return value


def _int(text: str) -> int:
    if len(text) > 18:
        raise _Unclean
    return int(text)


def _check(value: Any, depth: int) -> None:
    if depth > 60:
        raise _Unclean
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a UnicodeEncodeError
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode()
            _check(item, depth + 1)
