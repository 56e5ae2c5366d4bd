"""Streamable HTTP: one POST per message, answered by a JSON body or a stream of events. In the handshake era also a
session, a GET stream for the server's own messages, and streams that continue after a break.

Must not know what the messages ask.
Spec: /specification/2026-07-28/basic/transports/streamable-http, /specification/2025-11-25/basic/transports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import httpx2

from redstart.client.errors import ClientError, ConnectionClosed, InvalidReply
from redstart.client.http_endpoint import SESSION, HttpEndpoint, body_of, content_type, error_in, events, is_stream
from redstart.client.http_sse import HttpSseTransport
from redstart.client.transport import Inbox, Outgoing, Transport

log = logging.getLogger("redstart.client")

RETRY: Final = 1.0
"""Seconds before a broken stream is asked for again, if the server does not name a time."""
ATTEMPTS: Final = 5
"""How many attempts in a row may fail."""
_LONGEST_RETRY: Final = 3_600_000
"""The longest time that a server may name, in milliseconds."""
_LINGER: Final = 1.0
"""Seconds in which a stream may end after its answer, so that its connection can be used again."""


class StreamPosition:
    """Where a stream broke off: what to send as `Last-Event-ID`, and when."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.retry = RETRY


class HttpTransport(Transport):
    """One URL, by the newer of the two HTTP transports."""

    http = True

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self.identity = endpoint.url
        self._older = HttpSseTransport(endpoint.again())
        self._endpoint = endpoint
        self._requests: dict[int, asyncio.Future[None]] = {}
        self._stream: asyncio.Future[None] | None = None
        self._stream_known = asyncio.Event()
        self._session_headers: Mapping[str, str] = {}

    @property
    def sign_ins(self) -> int:  # type: ignore[override]  # it is only read
        authorization = self._endpoint.authorization
        return 0 if authorization is None else authorization.sign_ins

    async def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._endpoint.open(inbox)

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        id = message.id
        if id is None:
            return self._endpoint.tasks.start(self._post_other(message))
        self._requests[id] = request = self._endpoint.tasks.start(self._post_request(message, id))
        request.add_done_callback(lambda _: self._requests.pop(id, None))
        return None

    def cancel(self, id: int, *, modern: bool) -> bool:
        """Close the stream of `id`. In the modern era that is the cancellation; before, it has no meaning."""
        request = self._requests.pop(id, None)
        if request is not None:
            request.cancel()
        return modern

    def older(self) -> Transport:
        return self._older

    async def close(self) -> None:
        for request in self._requests.values():
            request.cancel()
        if self._stream is not None:
            self._stream.cancel()
        self._endpoint.end_sign_in()
        await self._endpoint.tasks.wait(_LINGER)
        if self._endpoint.session is not None:
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(_LINGER), self._endpoint.exchange("DELETE", self._session_headers):
                    self._endpoint.session = None
        await self._endpoint.close()

    # ---------------------------------------------------------------- exchanges

    @contextlib.asynccontextmanager
    async def _post(self, message: Outgoing) -> AsyncIterator[httpx2.Response]:
        """Send a message. `initialize` begins a new session."""
        opening = message.method == "initialize"
        if opening:
            self._endpoint.session = None
        async with self._endpoint.exchange("POST", message.headers, message.data) as response:
            if opening:
                self._endpoint.session = response.headers.get(SESSION)
            yield response

    async def _post_other(self, message: Outgoing) -> None:
        """Send a notification, or an answer to the server: the answer is 202 without a body."""
        async with self._post(message):
            return

    async def _post_request(self, message: Outgoing, id: int) -> None:
        try:
            await self._follow(self._post(message), message.headers, id, resumable=not message.modern)
            self._inbox.fail(id, ConnectionClosed(f"{self._endpoint.url} ended the answer to {message.method} early"))
        except ClientError as error:
            self._inbox.fail(id, error)
        except Exception as error:  # after an unexpected error the caller must not wait for ever
            log.exception("POST %s failed", self._endpoint.url)
            self._inbox.fail(id, error)

    async def _follow(
        self,
        exchange: AbstractAsyncContextManager[httpx2.Response],
        headers: Mapping[str, str],
        id: int | None,
        *,
        resumable: bool,
    ) -> None:
        """Deliver what an exchange brings until `id` is answered. A stream that breaks off is continued by GET."""
        position = StreamPosition()
        failures = 0
        while True:
            try:
                async with exchange as response:
                    failures = 0
                    if id is None:
                        self._stream_known.set()
                    await self._deliver(response, position, id)
            except ConnectionClosed:
                failures += 1
                if failures == ATTEMPTS or not resumable or (id is not None and position.id is None):
                    raise
            if id is not None and (not resumable or position.id is None or not self._inbox.is_open(id)):
                return
            await asyncio.sleep(position.retry)
            resume = {} if position.id is None else {"Last-Event-ID": position.id}
            exchange = self._endpoint.stream({**headers, **resume})

    async def _deliver(self, response: httpx2.Response, position: StreamPosition, id: int | None) -> None:
        """Deliver the message of a body, or those of a stream, which must end soon after the answer to `id`."""
        if not is_stream(response):
            body = await body_of(response)
            self._inbox.receive(body)
            if id is not None and self._inbox.is_open(id):
                kind = content_type(response) or "no content"
                raise error_in(body) or InvalidReply(
                    f"POST {self._endpoint.url}: HTTP {response.status_code} with {kind}, and no answer to the request"
                )
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async for event in events(response):
                    position.id = event.id or position.id
                    if event.retry is not None:
                        position.retry = min(max(event.retry, 0), _LONGEST_RETRY) / 1000
                    if event.data and event.event == "message":
                        self._inbox.receive(event.data.encode())
                    if id is not None and limit.when() is None and not self._inbox.is_open(id):
                        limit.reschedule(asyncio.get_running_loop().time() + _LINGER)

    # ---------------------------------------------------------------- the GET stream

    def listen(self, headers: Mapping[str, str]) -> None:
        """Open the GET stream. Without a session the server has nothing to send on it."""
        self._session_headers = headers
        if self._stream is not None:
            self._stream.cancel()
        self._stream_known = asyncio.Event()
        if self._endpoint.session is None:
            self._stream_known.set()
        else:
            self._stream = self._endpoint.tasks.start(self._listen(headers, self._stream_known))

    async def _listen(self, headers: Mapping[str, str], known: asyncio.Event) -> None:
        try:
            await self._follow(self._endpoint.stream(headers), headers, None, resumable=True)
        except ConnectionClosed as error:
            self._inbox.notifications_ended(error)
        except ClientError as error:  # 405: the server has no such stream
            log.debug("no GET stream: %s", error)
        finally:
            known.set()

    async def listening(self) -> None:
        await self._stream_known.wait()
