"""Streamable HTTP: one POST a message, its answer a JSON body or a stream of events; in the handshake era also
a session, a GET stream for what the server says unasked, and streams that go on after a break.

Must not know what the messages ask. httpx2 is imported when a URL is opened, never before.
Spec: /specification/2026-07-28/basic/transports/streamable-http, /specification/2025-11-25/basic/transports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from redstart.client.endpoint import SESSION, HttpEndpoint, as_error, content_type, network_errors, reason, refusal
from redstart.client.errors import ClientError, ConnectionClosed, InvalidReply, SessionExpired
from redstart.client.sse import EventParser
from redstart.client.transport import Inbox, Outgoing, Transport

log = logging.getLogger("redstart.client")

RETRY: Final = 1.0
"""Seconds before a broken stream is asked for again, where the server names no time."""
ATTEMPTS: Final = 5
"""How often in a row that may fail."""
_DRAIN: Final = 1.0
"""Seconds for the end of a stream that has brought its answer, so that its connection can be used again."""


class StreamPosition:
    """Where a stream broke off: what to send as `Last-Event-ID`, and when."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.retry = RETRY


class HttpTransport:
    """One endpoint. `headers` go with every request."""

    http = True
    restartable = False

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float | None = None) -> None:
        self.url = url
        self._reach: dict[str, Any] = {"headers": headers, "timeout": timeout}
        self._endpoint = HttpEndpoint(url, headers or {}, timeout)
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._stream: asyncio.Task[None] | None = None
        self._stream_known = asyncio.Event()
        self._session_headers: Mapping[str, str] = {}

    async def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._endpoint.open()

    async def ready(self) -> None:
        return

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        loop = asyncio.get_running_loop()
        if message.id is None:
            task = loop.create_task(self._post_other(message))
            self._others.add(task)
            task.add_done_callback(self._others.discard)
            return task
        id = message.id
        self._requests[id] = request = loop.create_task(self._post_request(message, id))
        request.add_done_callback(lambda _: self._requests.pop(id, None))
        return None

    def cancel(self, id: int, *, modern: bool) -> bool:
        """Close the stream of `id`: in the modern era that is the cancellation, before it says nothing."""
        task = self._requests.pop(id, None)
        if task is not None:
            self._others.add(task)  # it still has to close its response
            task.add_done_callback(self._others.discard)
            task.cancel()
        return modern

    def older(self) -> Transport:
        """The HTTP transport of the first revision."""
        from redstart.client.http_sse import HttpSseTransport

        return HttpSseTransport(self.url, **self._reach)

    async def close(self) -> None:
        stopped = [*self._requests.values(), *([self._stream] if self._stream else [])]
        for task in stopped:
            task.cancel()
        waiting = [*stopped, *self._others]
        if waiting:
            await asyncio.wait(waiting, timeout=_DRAIN)
        if self._endpoint.session is not None:
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(_DRAIN), self._endpoint.exchange("DELETE", self._session_headers):
                    self._endpoint.session = None
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        await self._endpoint.close()

    # ---------------------------------------------------------------- POST

    async def _post_other(self, message: Outgoing) -> None:
        """A notification, or an answer to the server: 202 and nothing more."""
        async with self._endpoint.exchange("POST", message.headers, message.data) as response:
            if response.status_code >= 300:
                raise await self._refusal(response, sessions=not message.modern)

    async def _post_request(self, message: Outgoing, id: int) -> None:
        try:
            if message.method == "initialize":
                self._endpoint.session = None
            position = StreamPosition()
            async with self._endpoint.exchange("POST", message.headers, message.data) as response:
                if message.method == "initialize":
                    self._endpoint.session = response.headers.get(SESSION)
                if content_type(response) == "text/event-stream" and response.status_code == 200:
                    await self._read(response, position, id, resumable=not message.modern)
                else:
                    await self._take_body(response, id, sessions=not message.modern)
            if self._inbox.is_open(id) and position.id is not None and not message.modern:
                await self._follow(position, message.headers, id)
            self._inbox.fail(id, ConnectionClosed(f"{self.url} ended the answer to {message.method} early"))
        except ClientError as error:
            self._inbox.fail(id, error)
        except Exception as error:  # a bug must not leave the caller waiting
            log.exception("POST %s failed", self.url)
            self._inbox.fail(id, error)

    async def _take_body(self, response: Any, id: int, *, sessions: bool) -> None:
        if response.status_code >= 300:
            raise await self._refusal(response, sessions=sessions)
        body = await response.aread()
        self._inbox.receive(body)
        if self._inbox.is_open(id):
            raise as_error(body) or InvalidReply(
                f"POST {self.url}: HTTP {response.status_code} with {content_type(response) or 'no content'},"
                " and no answer to the request"
            )

    async def _refusal(self, response: Any, *, sessions: bool) -> ClientError:
        """The error for a status of 300 and more; a JSON-RPC error in the body says most."""
        if response.status_code == 404 and sessions and self._endpoint.session is not None:
            return SessionExpired(f"{self.url} does not know this session any more (HTTP 404)")
        return await refusal(response)

    # ---------------------------------------------------------------- streams

    async def _read(self, response: Any, position: StreamPosition, id: int | None, *, resumable: bool) -> None:
        """Deliver a stream's messages until it ends or has answered `id`; a break where it can go on is an end too."""
        parser = EventParser()
        chunks = response.aiter_bytes()
        try:
            async for chunk in chunks:
                for event in parser.feed(chunk):
                    position.id = event.id or position.id
                    position.retry = position.retry if event.retry is None else event.retry / 1000
                    if event.data and event.event == "message":
                        self._inbox.receive(event.data)
                if id is not None and not self._inbox.is_open(id):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_DRAIN):
                            async for _ in chunks:
                                pass
                    return
        except network_errors() as error:
            if id is not None and not self._inbox.is_open(id):
                return
            if not resumable or position.id is None:
                raise ConnectionClosed(f"{self.url} broke off: {reason(error)}") from error

    async def _follow(self, position: StreamPosition, headers: Mapping[str, str], id: int | None) -> None:
        """Ask for a stream by GET, again and again from where it broke off, until `id` is answered."""
        failures = 0
        while id is None or self._inbox.is_open(id):
            if position.id is not None or failures:
                await asyncio.sleep(position.retry)
            resume = {} if position.id is None else {"Last-Event-ID": position.id}
            try:
                async with self._endpoint.exchange(
                    "GET", {**headers, **resume, "Accept": "text/event-stream"}
                ) as response:
                    if response.status_code != 200 or content_type(response) != "text/event-stream":
                        raise await self._refusal(response, sessions=True)
                    failures = 0
                    if id is None:
                        self._stream_known.set()
                    await self._read(response, position, id, resumable=True)
            except ConnectionClosed:
                failures += 1
                if failures == ATTEMPTS:
                    raise

    def listen(self, headers: Mapping[str, str]) -> None:
        """Open the GET stream; without a session there is nothing that could be said on it."""
        self._session_headers = headers
        if self._stream is not None:
            self._stream.cancel()
        self._stream_known = asyncio.Event()
        if self._endpoint.session is None:
            self._stream_known.set()
            return
        self._stream = asyncio.get_running_loop().create_task(self._listen(headers, self._stream_known))

    async def _listen(self, headers: Mapping[str, str], known: asyncio.Event) -> None:
        try:
            await self._follow(StreamPosition(), headers, None)
        except ConnectionClosed as error:
            self._inbox.deaf(error)
        except ClientError as error:  # 405 is a server without such a stream
            log.debug("no GET stream: %s", error)
        finally:
            known.set()

    async def listening(self) -> None:
        await self._stream_known.wait()
