"""The HTTP transport of 2024-11-05: one GET stream for all messages of the server, a second URL for all of ours.

Used only with a server that does not know Streamable HTTP.
Spec: /specification/2024-11-05/basic/transports#http-with-sse.
"""

from __future__ import annotations

import asyncio

from redstart.client.errors import ClientError, ConnectionClosed
from redstart.client.http_endpoint import HttpEndpoint, events
from redstart.client.transport import Inbox, Outgoing, Transport


class HttpSseTransport(Transport):
    """One stream, and the URL that it names."""

    http = True

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint

    async def open(self, inbox: Inbox) -> None:
        """Open the stream. Its first event must name the URL for our messages."""
        self._inbox = inbox
        self._endpoint.open(inbox)
        named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._endpoint.tasks.start(self._read(named))
        async with asyncio.timeout(self._endpoint.timeout):
            self._endpoint.move(await named)

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        accepted = self._endpoint.tasks.start(self._post(message))
        return accepted if message.id is None else None

    async def close(self) -> None:
        await self._endpoint.close()

    async def _post(self, message: Outgoing) -> None:
        try:
            async with self._endpoint.exchange("POST", message.headers, message.data):
                return
        except ClientError as error:
            if message.id is None:
                raise
            self._inbox.fail(message.id, error)

    async def _read(self, named: asyncio.Future[str]) -> None:
        url = self._endpoint.url
        try:
            async with self._endpoint.stream({}) as response:
                async for event in events(response):
                    if event.event == "endpoint" and not named.done():
                        named.set_result(event.data)
                    elif event.event == "message" and event.data:
                        self._inbox.receive(event.data.encode())
            raise ConnectionClosed(f"{url} ended its stream")
        except ClientError as error:
            if named.done():
                self._inbox.lost(error)
            else:
                named.set_exception(error)
