"""The end of a sign-in: the browser comes back to a page of ours on the loopback address (RFC 8252).

A request without the `state` that we sent is not the end: any program of this machine can send one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from redstart.client.background import BackgroundTasks
from redstart.client.errors import SignInError

PATH: Final = "/callback"
_SECONDS: Final = 10.0
"""In which a browser must have sent its request."""
_MAX_HEAD: Final = 32 * 1024
_PAGE: Final = (
    b"HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n"
    b"Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'\r\n\r\n%s"
)


class LoopbackReceiver:
    """A page on the loopback address that waits for one answer."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._serving = BackgroundTasks()
        self.uri = ""

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[LoopbackReceiver]:
        """Wait on `port`, or on a free one if it is 0 or taken by another program."""
        try:
            server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=_MAX_HEAD)
        except OSError:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MAX_HEAD)
        self.uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{PATH}"
        try:
            yield self
        finally:
            server.close()
            await self._serving.cancel()  # browsers connect in advance, and say nothing

    async def answer(self, seconds: float) -> dict[str, str]:
        """The parameters with which the browser came back."""
        try:
            async with asyncio.timeout(seconds):
                return await self._answer
        except TimeoutError:
            raise SignInError(f"nobody signed in within {seconds:g} seconds") from None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.start(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unread = (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)  # the last: not a URL
        with contextlib.closing(writer), contextlib.suppress(OSError, TimeoutError, *unread):
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._page(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
                writer.write(_PAGE % (status, len(text), text))
                await writer.drain()

    def _page(self, line: str) -> tuple[bytes, bytes]:
        method, _, rest = line.partition(" ")
        parts = urlsplit(rest.rpartition(" ")[0])
        if method != "GET" or parts.path != PATH:
            return b"404 Not Found", b"There is nothing here."
        found = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50))
        if not hmac.compare_digest(found.get("state", "").encode(), self._state.encode()):
            return b"400 Bad Request", b"This is not the answer to the sign-in that was begun."
        if not self._answer.done():
            self._answer.set_result(found)
        said = b"The sign-in did not succeed." if "error" in found else b"You are signed in."
        return b"200 OK", b"<!doctype html><title>redstart</title><p>" + said + b" You can close this page."


def open_browser(url: str) -> None:
    """Show `url` in the user's browser, and write it to stderr for those without one. No shell sees it."""
    import webbrowser

    sys.stderr.write(f"Sign in at {url}\n")
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
