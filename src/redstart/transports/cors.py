"""CORS: what a browser must read before it lets a page of another site use the server.

Only the sites of `allowed_origins=` are told so. A page sends its token itself, so credentials of the browser (cookies)
are never allowed. Spec: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from redstart.transports.request import Direct, HeaderList, HttpRequest, Watcher

METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"
_ORIGIN: Final = b"access-control-allow-origin"
_NAMES: Final = re.compile(rb"[\w!#$%&'*+.^`|~, -]{1,4096}", re.ASCII)
_EXPOSED: Final = (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate")
_MAX_AGE: Final = (b"access-control-max-age", b"600")


def preflight(headers: Mapping[bytes, bytes]) -> HeaderList:
    """The permission that a browser asks for; what a method or a header leads to is decided when the request comes.

    The names are repeated, because `Mcp-Param-*` is a family of them and `*` does not stand for `Authorization`.
    """
    asked = ((b"access-control-allow-methods", METHOD), (b"access-control-allow-headers", _HEADERS))
    return [_MAX_AGE, *((given, headers[name]) for given, name in asked if _NAMES.fullmatch(headers.get(name, b"")))]


class PageRequest:
    """A page of an allowed site: every response, errors too, says that the page may read it."""

    __slots__ = ("_granted", "_request")

    def __init__(self, request: HttpRequest, origin: bytes) -> None:
        self._request = request
        self._granted: HeaderList = [(_ORIGIN, origin), (b"vary", b"Origin"), _EXPOSED]

    @property
    def task(self) -> asyncio.Task[Any] | None:
        return self._request.task

    @property
    def deadline(self) -> float:
        return self._request.deadline

    @property
    def direct(self) -> Direct | None:
        return self._request.direct

    async def body(self, headers: Mapping[bytes, bytes], limit: int) -> bytes | None:
        return await self._request.body(headers, limit)

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        await self._request.reply(status, body, self._with(headers))

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": self._with(message["headers"])}
        await self._request.send(message)

    def _with(self, headers: HeaderList) -> HeaderList:
        own = any(name == _ORIGIN for name, _ in headers)  # a route that does this itself
        return headers if own else [*headers, *self._granted]

    def watch(self, watcher: Watcher, patience: float) -> None:
        self._request.watch(watcher, patience)

    def unwatch(self) -> None:
        self._request.unwatch()
