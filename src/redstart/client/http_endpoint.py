"""HTTP exchanges with one URL: the httpx2 client, redirects, network errors, and what a refusal says.

Imported only when a URL is given: httpx2 is an extra.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import msgspec
from msgspec import UNSET

from redstart.client.background import BackgroundTasks
from redstart.client.errors import ClientError, ConnectionClosed, HttpError, InvalidReply, SessionExpired, request_error
from redstart.protocol.framing import MAX_MESSAGE
from redstart.wire import jsonrpc

SESSION: Final = "Mcp-Session-Id"
EVENT_STREAM: Final = "text/event-stream"
_REDIRECTS: Final = 3


class HttpEndpoint:
    """One URL, the headers that go with every request, the session if there is one, and the tasks that use them."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float | None) -> None:
        self.url = url
        self.session: str | None = None
        self.tasks = BackgroundTasks()
        self._headers = headers
        self._timeout = timeout

    def open(self) -> None:
        """Make the httpx2 client. Streams hold connections, so their number is not limited."""
        try:
            host = httpx2.URL(self.url).host
        except httpx2.InvalidURL as error:
            raise ClientError(f"{self.url!r} is not a URL: {error}") from error
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(self._timeout, read=None, pool=None),  # the connection has its own for reading
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            # A proxy that the environment names cannot reach the loopback address of this machine.
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def close(self) -> None:
        """End the tasks, and close every connection."""
        await self.tasks.cancel()
        if hasattr(self, "_client"):
            await self._client.aclose()

    @asynccontextmanager
    async def exchange(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """One exchange that succeeds. A network error, also in the block, becomes ConnectionClosed.

        A redirect is followed on the same origin only: the headers may hold a token.
        """
        sent = {"Accept": f"application/json, {EVENT_STREAM}", **headers}
        if content is not None:
            sent["Content-Type"] = "application/json"
        if self.session is not None:
            sent[SESSION] = self.session
        url = self.url
        try:
            for _ in range(_REDIRECTS):
                async with self._client.stream(method, url, headers=sent, content=content) as response:
                    target = _same_origin_redirect(response)
                    if target is None:
                        if response.status_code >= 300:
                            raise await self._refusal(response)
                        yield response
                        return
                    url = target
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ConnectionClosed(f"{method} {url} failed: {str(error) or type(error).__name__}") from error
        raise HttpError(method, self.url, response.status_code, "too many redirects")

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """A stream of events by GET."""
        async with self.exchange("GET", {**headers, "Accept": EVENT_STREAM}) as response:
            if not is_stream(response):
                raise await self._refusal(response)
            yield response

    async def _refusal(self, response: httpx2.Response) -> ClientError:
        """The error for a response that is not what was asked for; a JSON-RPC error in its body says the most."""
        if response.status_code == 404 and self.session is not None:
            return SessionExpired(f"{self.url} does not know this session any more (HTTP 404)")
        body = await body_of(response)
        text = body.decode("utf-8", "replace")
        if response.is_redirect:
            text = f"redirect to {response.headers.get('Location')}; use that URL"
        return error_in(body) or HttpError(response.request.method, str(response.url), response.status_code, text)

    def move(self, reference: str) -> None:
        """Use the URL that `reference` names from here; it must be on the same origin."""
        here = httpx2.URL(self.url)
        there = here.join(reference)
        if _origin(here) != _origin(there):
            raise ClientError(f"{self.url} sends its messages to another origin, {there}")
        self.url = str(there)


def content_type(response: httpx2.Response) -> str:
    """The media type of a response, without its parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def is_stream(response: httpx2.Response) -> bool:
    """Whether a response is a stream of events."""
    return response.status_code == 200 and content_type(response) == EVENT_STREAM


async def body_of(response: httpx2.Response) -> bytes:
    """The body of a response. One over the limit is refused before it is read to its end."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_MESSAGE:
            raise InvalidReply(f"{response.request.method} {response.url}: a body of more than {MAX_MESSAGE} bytes")
    return bytes(body)


def events(response: httpx2.Response) -> httpx2.EventSource:
    """The events of a stream. An event over the limit is a network error."""
    response.encoding = "utf-8-sig"  # always UTF-8, perhaps with a byte order mark
    return httpx2.EventSource(response, max_event_size=MAX_MESSAGE)


def error_in(body: bytes) -> ClientError | None:
    """The JSON-RPC error in a body. Its id may be null, if the server could not read ours."""
    try:
        envelope = jsonrpc.decode_envelope(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if envelope.error is UNSET else request_error(envelope.error)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _same_origin_redirect(response: httpx2.Response) -> str | None:
    """Where a 307 or 308 leads, if it stays on the server that the user named."""
    if response.status_code not in (307, 308) or response.next_request is None:
        return None
    here, there = response.request.url, response.next_request.url
    return str(there) if _origin(here) == _origin(there) else None
