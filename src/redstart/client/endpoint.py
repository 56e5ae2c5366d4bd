"""HTTP exchanges with one endpoint: the httpx2 client, redirects, and what network trouble becomes.

The only module that knows httpx2, which it imports when a URL is opened, never before.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from redstart.client.connection import request_error
from redstart.client.errors import ClientError, ConnectionClosed, HttpError
from redstart.wire import jsonrpc

SESSION: Final = "Mcp-Session-Id"
_REDIRECTS: Final = 3


class HttpEndpoint:
    """One URL, the headers that go with every request, and the session once there is one."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float | None) -> None:
        self.url = url
        self.session: str | None = None
        self._headers = dict(headers)
        self._timeout = timeout
        self._client: Any = None

    def open(self) -> None:
        """Make the client: no limit of connections (streams hold theirs), no read timeout (ours rule)."""
        try:
            import httpx2
        except ImportError as error:
            raise ClientError('a URL needs httpx2: pip install "redstart[client]"') from error
        try:
            host = httpx2.URL(self.url).host
        except httpx2.InvalidURL as error:
            raise ClientError(f"{self.url!r} is not a URL: {error}") from error
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(self._timeout, read=None, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            # A proxy of the environment cannot reach this machine's loopback.
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @contextlib.asynccontextmanager
    async def exchange(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncIterator[Any]:
        """One exchange; network trouble becomes ConnectionClosed. A redirect is followed on the same origin only."""
        sent = {"Accept": "application/json, text/event-stream", **headers}
        if content is not None:
            sent["Content-Type"] = "application/json"
        if self.session is not None:
            sent[SESSION] = self.session
        url, status = self.url, 0
        try:
            for _ in range(_REDIRECTS):
                async with self._client.stream(method, url, headers=sent, content=content) as response:
                    target = _same_origin_redirect(response)
                    if target is None:
                        yield response
                        return
                    url, status = target, response.status_code
        except network_errors() as error:
            raise ConnectionClosed(f"{method} {url} failed: {reason(error)}") from error
        raise HttpError(method, self.url, status, "too many redirects")

    def join(self, reference: str) -> str:
        """The URL that `reference` names from here; it must stay on this origin."""
        import httpx2

        here = httpx2.URL(self.url)
        there = here.join(reference)
        if _origin(here) != _origin(there):
            raise ClientError(f"{self.url} sends its messages to another origin, {there}")
        return str(there)


def network_errors() -> tuple[type[Exception], ...]:
    """What httpx2 raises when a connection fails."""
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError)


def reason(error: Exception) -> str:
    """Some errors of the network have no text."""
    return str(error) or type(error).__name__


def content_type(response: Any) -> str:
    """The media type of a response, without its parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


async def refusal(response: Any) -> ClientError:
    """The error for a status that is no success; a JSON-RPC error in the body says most."""
    body = await response.aread()
    text = body.decode("utf-8", "replace")
    if response.is_redirect:
        text = f"redirect to {response.headers.get('Location')}; use that URL"
    return as_error(body) or HttpError(response.request.method, str(response.url), response.status_code, text)


def as_error(body: bytes) -> ClientError | None:
    """A JSON-RPC error, whatever id it names: a server that could not read ours says null."""
    try:
        envelope = jsonrpc.decode_envelope(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if envelope.error is UNSET else request_error(envelope.error)


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _same_origin_redirect(response: Any) -> str | None:
    """Where a 307 or 308 leads, if not away from the server that the user named."""
    if response.status_code not in (307, 308) or response.next_request is None:
        return None
    here, there = response.request.url, response.next_request.url
    return str(there) if _origin(here) == _origin(there) else None
