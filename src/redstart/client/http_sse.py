"""The HTTP transport of 2024-11-05: one GET stream for all that the server says, a second URL for all that we say.

Tried only where a server knows nothing of Streamable HTTP.
Spec: /specification/2024-11-05/basic/transports#http-with-sse.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from redstart.client.endpoint import HttpEndpoint, content_type, network_errors, reason, refusal
from redstart.client.errors import ClientError, ConnectionClosed
from redstart.client.sse import EventParser
from redstart.client.transport import Inbox, Outgoing


class HttpSseTransport:
    """One stream and the endpoint it names."""

    http = True
    restartable = False

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._stream = HttpEndpoint(url, headers or {}, timeout)
        self._messages = HttpEndpoint(url, headers or {}, timeout)
        self._posts: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None

    async def open(self, inbox: Inbox) -> None:
        """Open the stream; the first event must name the other endpoint."""
        self._inbox = inbox
        self._stream.open()
        self._messages.open()
        named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read(named))
        async with asyncio.timeout(self._timeout):
            self._messages.url = self._stream.join(await named)

    async def ready(self) -> None:
        return

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        task = asyncio.get_running_loop().create_task(self._post(message))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        return None if message.id is not None else task

    def cancel(self, id: int, *, modern: bool) -> bool:
        return False

    def listen(self, headers: Mapping[str, str]) -> None:
        return

    async def listening(self) -> None:
        return

    def older(self) -> None:
        return None

    async def close(self) -> None:
        tasks = [*self._posts, *([self._reader] if self._reader else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._messages.close()
        await self._stream.close()

    async def _post(self, message: Outgoing) -> None:
        try:
            async with self._messages.exchange("POST", message.headers, message.data) as response:
                if response.status_code >= 300:
                    raise await refusal(response)
        except ClientError as error:
            if message.id is None:
                raise
            self._inbox.fail(message.id, error)

    async def _read(self, named: asyncio.Future[str]) -> None:
        try:
            async with self._stream.exchange("GET", {"Accept": "text/event-stream"}) as response:
                if response.status_code != 200 or content_type(response) != "text/event-stream":
                    raise await refusal(response)
                parser = EventParser()
                async for chunk in response.aiter_bytes():
                    for event in parser.feed(chunk):
                        if event.event == "endpoint" and not named.done():
                            named.set_result(event.data.decode("utf-8", "replace"))
                        elif event.event == "message" and event.data:
                            self._inbox.receive(event.data)
            raise ConnectionClosed(f"{self._stream.url} ended its stream")
        except ClientError as error:
            self._end(named, error)
        except network_errors() as error:
            self._end(named, ConnectionClosed(f"{self._stream.url} broke off: {reason(error)}"))

    def _end(self, named: asyncio.Future[str], error: ClientError) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            named.set_exception(error)
            return
        self._inbox.lost(error)
