"""JSON-RPC 2.0: the envelope, the error codes, and the bytes around a result.

Knows nothing of MCP's methods or revisions. An absent member is `UNSET`; a `null` member is `None`.
Spec: https://www.jsonrpc.org/specification, /specification/2026-07-28/basic (error codes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Id: TypeAlias = int | str
MAX_ID: Final = 2**53
MAX_ID_LENGTH: Final = 256
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as it was decoded."""
JsonMapping: TypeAlias = Mapping[str, Any]
"""An object that can be encoded as JSON."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002  # handshake era only
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042  # one handshake revision only


class ProtocolError(Exception):
    """An answer that is a JSON-RPC error: raise it where the request itself cannot be served.

    >>> raise ProtocolError(-32602, "Unknown city", {"city": "Atlantis"})
    Traceback (most recent call last):
    ...
    redstart.wire.jsonrpc.ProtocolError: Unknown city
    """

    retry_after: ClassVar[int] = 0
    """Seconds after which the client may try again, if only the moment was wrong: over HTTP the status is 503."""

    at_start = ""
    """The words for who starts a server, if it ends one that starts; the message is for clients."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def scopes(self) -> Sequence[str]:
        """What the token of the caller needs, if that is why: over HTTP the status is 403, with a challenge."""
        return ()

    def __reduce__(self) -> tuple[type[ProtocolError], tuple[int, str, Any]]:
        return type(self), (self.code, self.message, self.data)


class Envelope(Struct):
    """Any JSON-RPC message, its members still raw; which kind it is depends on what is there."""

    jsonrpc: str | UnsetType = UNSET
    id: int | float | str | bool | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Fault(Struct):
    """The `error` member of a response."""

    code: int
    message: str
    data: Any = UNSET


_PLAIN: Final[dict[type, Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, bytes: bytes.__bytes__
}  # fmt: skip


def plain(value: object) -> object:
    """The plain str, int, float or bytes of an object whose class is derived from one of them: msgspec refuses it."""
    for kind, convert in _PLAIN.items():
        if isinstance(value, kind):
            return convert(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=plain)
encode = _encoder.encode
decode = msgspec.json.Decoder().decode
decode_envelope = msgspec.json.Decoder(Envelope).decode
MAX_BATCH: Final = 256


@cache
def _batch() -> type[Struct]:
    """The messages of a batch. The length of a list can be checked only after all of it has become objects: 4 MB of
    `[1,1,…]` are then 130 MB. Here the decoder stops at the first message beyond the limit."""
    parts = [(f"part{n}", Raw | UnsetType, UNSET) for n in range(MAX_BATCH)]
    return msgspec.defstruct("Batch", parts, array_like=True, forbid_unknown_fields=True)


def decode_batch(data: bytes) -> list[Raw]:
    """The messages of a batch; a ValidationError says that there are more than MAX_BATCH of them."""
    parts = msgspec.structs.astuple(msgspec.json.decode(data, type=_batch()))
    return [part for part in parts if part is not UNSET]


def decode_fault(data: bytes | Raw) -> Fault:
    return msgspec.json.decode(data, type=Fault)


RESPONSE: Final = b'{"jsonrpc":"2.0","id":%b,"result":%b}'
"""A successful response, for its id and its result."""


def failure(raw_id: bytes | None, error: ProtocolError) -> bytes:
    """The bytes of an error response; where no id could be read, `raw_id` is `b"null"`, or None to leave it out."""
    try:
        fault = encode(Fault(error.code, error.message, error.data))
    except Exception:  # data or a lone surrogate that JSON cannot carry: the peer still needs an answer
        text = str(error.message).encode(errors="backslashreplace").decode()
        fault = encode(Fault(error.code, text))
    id = b"" if raw_id is None else b'"id":%b,' % raw_id
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (id, fault)


def notification(method: str, params: Any) -> bytes:
    """The bytes of a notification."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def request(raw_id: bytes, method: str, params: Any) -> bytes:
    """The bytes of a request."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (raw_id, encode(method), encode(params))
