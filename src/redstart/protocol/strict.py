"""The strict door: refuses JSON that libraries accept and a protocol must not.

msgspec accepts duplicate keys, unchecked UTF-8 in what it skips, and nesting up to the interpreter's limit.
Two parsers that read one message differently are a security hole, so such a message is refused here.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from redstart.protocol.methods import Method, decode_params
from redstart.wire.jsonrpc import (
    INVALID_REQUEST,
    MAX_BATCH,
    MAX_ID,
    MAX_ID_LENGTH,
    PARSE_ERROR,
    Envelope,
    ProtocolError,
    decode_batch,
    decode_envelope,
    encode,
)
from redstart.wire.meta import PROTOCOL_VERSION, RequestMeta

MAX_DEPTH: Final = 64
"""How deeply a message may be nested, if the server does not say otherwise."""
_DEEP: Final = "Nested deeper than %d levels (max_depth=)"
LARGE: Final = 64 * 1024
"""Above this size a message is not searched once for each key."""

# The keys that route a message: if one occurs twice, a proxy and we might route differently.
_ENVELOPE: Final = (b'"jsonrpc"', b'"id"', b'"method"', b'"params"')
_ANSWER: Final = (b'"id"', b'"result"', b'"error"')
_LEAST: Final = len(b'{"jsonrpc":"2.0","id":,"method":"","params":}')
_LEAST_CALL: Final = len(b'{"name":"","arguments":,"_meta":}')
_IN_META: Final = (b'"%b"' % PROTOCOL_VERSION.encode(), b'"name"')
MAX_META: Final = 1024
MAX_METAS: Final = 256
"""How many `_meta` are remembered, and how large each of them may be."""
Meta: TypeAlias = RequestMeta | UnsetType
_metas: Final[dict[bytes, RequestMeta]] = {}
_decode_meta: Final = msgspec.json.Decoder(RequestMeta).decode
# What occurs in a message that may not be part of a batch, even if a letter of it is escaped.
_ALONE: Final = (b"initialize", b"protocolVersion", b"\\u00")
# Possessive, and the end of the data may replace the closing quote: linear in time and constant in memory,
# even for a hostile message that is one endless string of escapes.
_PARAMS: Final = rb'"params"[ \t\r\n]*:[ \t\r\n]*'
_ARGUMENTS: Final = rb'"arguments"[ \t\r\n]*:[ \t\r\n]*'
_STRING: Final = rb'"(?s:[^"\\]++|\\.)*+"?'
_NOT_BRACKETS: Final = bytes(b for b in range(256) if b not in b"[]{}")
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_BRACKET: Final = ord("[")
_BACKSLASH: Final = ord("\\")
"""Numbers, because `in` finds a number five times as fast as a `bytes` of length one."""
_UP_AND_DOWN: Final = rb"(\[++)\]*+"


def open_envelope(data: bytes, depth: int) -> tuple[Envelope, bytes | None]:
    """Decode one message, or raise a ProtocolError. The bytes are those of its id, if it is the id of a request."""
    check_text(data, depth)
    try:
        envelope = decode_envelope(data)
    except msgspec.ValidationError as error:
        raise ProtocolError(INVALID_REQUEST, f"Not a JSON-RPC message: {error}") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(PARSE_ERROR, f"Not valid JSON: {error}") from None
    raw_id, method, params = id_bytes(envelope.id), envelope.method, envelope.params
    known = raw_id is not None and method and params and envelope.jsonrpc == "2.0"
    if known and len(data) == _LEAST + len(raw_id) + len(method) + len(params):  # type: ignore[arg-type]
        return envelope, raw_id  # it has no byte more than its four members need, so none of them stands twice
    around = data if len(data) < LARGE else _around(data, _PARAMS, params)
    for key in _ENVELOPE if method is not UNSET else _ANSWER:
        if around.count(key) > 1:
            _refuse_ambiguous(data, key, envelope)
    return envelope, raw_id


def _around(data: bytes, key: bytes, member: object) -> bytes:
    """`data` without a large member: the keys that route a message stand around it, and each look at it takes time.

    Where the member is not found at once, `data` as it is: the answer is the same, and only takes longer.
    """
    found = re.search(key, data)
    if found is None or not isinstance(member, Raw):
        return data
    start = found.end()
    return data[:start] + data[start + len(member) :] if data.startswith(memoryview(member), start) else data


def open_batch(data: bytes, depth: int) -> list[bytes]:
    """The messages of a JSON-RPC batch, still as bytes, or a ProtocolError."""
    try:
        parts = [bytes(part) for part in decode_batch(data)]
    except msgspec.ValidationError:  # at the first message too many: the rest of them is not even read
        raise ProtocolError(INVALID_REQUEST, f"A batch has at most {MAX_BATCH} messages") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(PARSE_ERROR, f"Not valid JSON: {error}") from None
    except RecursionError:
        raise ProtocolError(PARSE_ERROR, _DEEP % depth) from None
    check_text(data, depth)
    if not parts:
        raise ProtocolError(INVALID_REQUEST, "A batch has at least one message")
    if any(word in data for word in _ALONE) and any(_stands_alone(part) for part in parts):
        raise ProtocolError(INVALID_REQUEST, "initialize and requests with their own version cannot be part of a batch")
    return parts


def _stands_alone(part: bytes) -> bool:
    """Whether a message may not be part of a batch: it settles the version, or brings its own.

    It is decoded as it will be when its turn comes, so that both decoders find the same.
    """
    try:
        envelope = decode_envelope(part)
        if envelope.method == "initialize":
            return True
        meta = read_params(envelope.params, None)[1] if isinstance(envelope.params, Raw) else UNSET
    except (msgspec.DecodeError, ProtocolError):
        return False  # refused when its turn comes
    return meta is not UNSET and meta.protocol_version is not UNSET


def check_text(data: bytes, depth: int) -> None:
    """Strict UTF-8, bounded nesting, and no key hidden behind an escape."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(PARSE_ERROR, f"Not valid UTF-8 at byte {error.start}") from None
    if data.count(b"{") + (_BRACKET in data and data.count(b"[")) > depth and _too_deep(data, depth):
        raise ProtocolError(PARSE_ERROR, _DEEP % depth)
    if _BACKSLASH in data and (b"\\u00" in data or b"protocol\\/" in data):
        refuse_duplicates(data)


def _refuse_ambiguous(data: bytes, key: bytes, envelope: Envelope) -> None:
    """A second occurrence of a key inside of another member is not a duplicate."""
    inside = sum(bytes(m).count(key) for m in (envelope.params, envelope.result, envelope.error) if m is not UNSET)
    if data.count(key) - inside > 1:
        refuse_duplicates(data)


def read_params(raw: bytes | Raw, row: Method | None) -> tuple[Any, Meta]:
    """The params of a request and their `_meta`, or a DecodeError. No key that routes may stand twice."""
    params: Any = row.decode(raw) if row else decode_params(raw)
    meta, arguments = params.meta, getattr(params, "arguments", UNSET)
    known = type(meta) is Raw and type(arguments) is Raw
    # Where there is no byte more than these three members need, none of them stands twice.
    if row and not (known and len(raw) == _LEAST_CALL + len(params.name) + len(arguments) + len(meta)):  # type: ignore[arg-type]
        _refuse_repeated(bytes(raw), row.routing, meta, arguments)
    if meta is UNSET:
        return params, UNSET
    data = bytes(meta)
    return params, _metas.get(data) or _read_meta(data)


def _refuse_repeated(raw: bytes, keys: tuple[bytes, ...], *members: object) -> None:
    """Refuse params where one of the keys stands twice, except inside of these members."""
    around = raw if len(raw) < LARGE else _around(raw, _ARGUMENTS, members[-1])
    for key in keys:
        if around.count(key) > 1:
            found = raw.count(key)
            for member in members:
                found -= bytes(member).count(key) if isinstance(member, Raw) else 0
            if found > 1:
                refuse_duplicates(raw)


def _read_meta(data: bytes) -> RequestMeta:
    """Most clients send the same `_meta` each time, so some that were read are remembered."""
    try:
        meta = _decode_meta(data)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{problem} - at `$._meta{path or '`'}") from None
    if any(data.count(key) > 1 for key in _IN_META):
        refuse_duplicates(data)
    # Icons are a list, which a handler could change for others.
    if len(data) <= MAX_META and (meta.client_info is UNSET or meta.client_info.icons is None):
        if len(_metas) >= MAX_METAS:
            _metas.clear()
        _metas[data] = meta
    return meta


def refuse_duplicates(data: bytes) -> None:
    """The slow parse, used only if a key may occur twice."""
    import json  # slow to load, and seldom needed

    try:
        json.loads(data, object_pairs_hook=_unique, parse_int=str)
    except ProtocolError:
        raise
    except ValueError as error:
        raise ProtocolError(PARSE_ERROR, f"Not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ProtocolError(PARSE_ERROR, f"The key {twice!r} occurs twice in one object")
    return found


def _too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Peel one level of brackets a pass while that shrinks them well, then walk what is left: linear, at C speed."""
    brackets = re.sub(_STRING, b"", data).translate(_ONE_KIND, _NOT_BRACKETS)
    too_many = b"[" * (limit + 1)
    while brackets:
        if not limit or too_many in brackets:
            return True
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"")
        limit -= 1
        if size - len(brackets) < size // 8:  # few peaks: the runs between them are long
            return _climbs_above(limit, brackets)
    return False


def _climbs_above(limit: int, brackets: bytes) -> bool:
    depth = 0
    for run in re.finditer(_UP_AND_DOWN, brackets):
        top = run.end(1)
        depth += top - run.start()
        if depth > limit:
            return True
        depth -= run.end() - top
    return False


def id_bytes(value: object) -> bytes | None:
    """The bytes of the id of a request; None where the value cannot be one."""
    if type(value) is int:
        return b"%d" % value if -MAX_ID <= value <= MAX_ID else None
    return encode(value) if type(value) is str and len(value) <= MAX_ID_LENGTH else None


def bad_id() -> ProtocolError:
    """Says what the id of a request may be."""
    return ProtocolError(
        INVALID_REQUEST,
        f"A request id is an integer within ±2^53 or a string of at most {MAX_ID_LENGTH} characters",
    )
