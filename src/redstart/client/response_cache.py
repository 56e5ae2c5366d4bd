"""Results that a modern server allows to keep: for how long (`ttlMs`), and what makes them old.

One cache belongs to one open client, and is emptied when somebody signs in, so it has one user: results that only
this user may see (`cacheScope: "private"`) and those for all (`"public"`) are kept in the same way, and end with the
connection.
Spec: /specification/2026-07-28/server/utilities/caching.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from redstart.wire.jsonrpc import JsonMapping, JsonObject, encode

METHODS: Final = {
    "tools/list": "notifications/tools/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
    "resources/list": "notifications/resources/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
    "resources/read": "notifications/resources/updated",
}
"""The requests whose results may be kept, and the notification after which they are old."""

LONGEST: Final = 24 * 3600.0
"""Seconds for which a result is kept at most, whatever the server says."""
MAX_RESULTS: Final = 1000
MAX_CACHED_BYTES: Final = 16 * 1024 * 1024


class _Hints(Struct, rename="camel"):
    """The part of a result that says whether it may be kept."""

    ttl_ms: float | None = None


class _KeptResult(Struct):
    until: float
    method: str
    params: JsonObject
    result: Raw


class ResponseCache:
    """Results by method and parameters. It is a listener of the connection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[bytes, _KeptResult] = {}
        self._bytes = 0

    def get(self, method: str, params: JsonMapping) -> Raw | None:
        """A result that is still good."""
        found = self._kept.get(_key(method, params)) if method in METHODS else None
        if found is None:
            return None
        if found.until <= self._clock():
            self._remove(_key(method, params))
            return None
        return found.result

    def put(self, method: str, params: JsonMapping, result: Raw) -> None:
        """Keep a result for as long as it says itself. The oldest ones go first if there are too many."""
        if method not in METHODS:
            return
        key = _key(method, params)
        self._remove(key)
        size = len(bytes(result))
        seconds = _seconds(result)
        if seconds <= 0 or size > MAX_CACHED_BYTES:
            return
        self._kept[key] = _KeptResult(self._clock() + seconds, method, dict(params), result)
        self._bytes += size
        while len(self._kept) > MAX_RESULTS or self._bytes > MAX_CACHED_BYTES:
            self._remove(next(iter(self._kept)))

    def drop(self, method: str | None = None, uri: str | None = None) -> None:
        """Forget all results, those of a method, or that of one resource and of what is below it."""
        for key, kept in list(self._kept.items()):
            if method in (None, kept.method) and (uri is None or _is_below(str(kept.params.get("uri")), uri)):
                self._remove(key)

    def notified(self, method: str, params: JsonObject) -> None:
        """Forget what a notification makes old."""
        for cached, notification in METHODS.items():
            if method == notification:
                uri = params.get("uri")
                self.drop(cached, uri if cached == "resources/read" and isinstance(uri, str) else None)

    def end(self, error: BaseException | None) -> None:
        """No more notifications will come; what is kept ends at its time."""

    def _remove(self, key: bytes) -> None:
        removed = self._kept.pop(key, None)
        if removed is not None:
            self._bytes -= len(bytes(removed.result))


def _key(method: str, params: JsonMapping) -> bytes:
    return encode([method, sorted(params.items())])


def _is_below(uri: str, other: str) -> bool:
    """Whether one of two URIs is the other, or below it: a change of a part is a change of the whole."""
    return uri == other or uri.startswith(other.rstrip("/") + "/") or other.startswith(uri.rstrip("/") + "/")


def _seconds(result: Raw) -> float:
    try:
        milliseconds = msgspec.json.decode(result, type=_Hints).ttl_ms
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0
    return min(milliseconds / 1000, LONGEST) if milliseconds is not None else 0
