"""HTTP exchanges with one URL: the httpx2 client, redirects, network errors, and what a refusal says.

Imported only when a URL is given: httpx2 is an extra.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx2
import msgspec
from msgspec import UNSET

from redstart.client.background import BackgroundTasks
from redstart.client.challenge import Challenge, Sent, read_challenge
from redstart.client.errors import ClientError, ConnectionClosed, HttpError, InvalidReply, SessionExpired, request_error
from redstart.client.transport import Inbox
from redstart.protocol.framing import MAX_MESSAGE
from redstart.wire import jsonrpc

if TYPE_CHECKING:  # most URLs need no sign-in
    from redstart.client.oauth.authorization import Authorization

SESSION: Final = "Mcp-Session-Id"
EVENT_STREAM: Final = "text/event-stream"
_TRIES: Final = 6
"""How often a request is sent because of redirects and refusals."""
_HINTS: Final = {
    "All connection attempts failed": "is the server running, and are host and port right?",
    "Name or service not known": "no machine has this name",
    "nodename nor servname provided": "no machine has this name",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS there; try http:// instead of https://",
}
"""What to add to errors of the network, by a part of their text."""


class HttpEndpoint:
    """One URL, the headers that go with every request, the session if there is one, and the tasks that use them."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout: float | None, authorization: Authorization | None = None
    ) -> None:
        self.url = url
        self.authorization = authorization
        self._may_sign_in = authorization is not None
        self.session: str | None = None
        self.tasks = BackgroundTasks()
        self._headers = headers
        self.timeout = timeout

    def again(self) -> HttpEndpoint:
        """The same URL for another transport, which has not been opened."""
        return HttpEndpoint(self.url, self._headers, self.timeout, self.authorization)

    def open(self, inbox: Inbox) -> None:
        """Make the httpx2 client. Streams hold connections, so their number is not limited."""
        self._inbox = inbox
        try:
            host = httpx2.URL(self.url).host
        except httpx2.InvalidURL as error:
            raise ClientError(f"{self.url!r} is not a URL: {error}") from error
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(self.timeout, read=None, pool=None),  # the connection has its own for reading
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            verify=httpx2.create_ssl_context(),  # SSL_CERT_FILE counts for all addresses
            # A proxy that the environment names cannot reach the loopback address of this machine.
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        )

    def end_sign_in(self) -> None:
        """From now on a refusal is final: the connection is closing, so no sign-in begins."""
        self._may_sign_in = False

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
            for _ in range(_TRIES):
                allowed = Sent() if self.authorization is None else await self.authorization.sent(method, url)
                headers = {**sent, **allowed.headers}
                async with self._client.stream(method, url, headers=headers, content=content) as response:
                    target, challenge = same_origin_redirect(response), self._challenge(response, allowed)
                    if target is None and challenge is None:
                        if response.status_code >= 300:
                            raise await self._refusal(response)
                        yield response
                        return
                    nonce = response.headers.get("DPoP-Nonce")
                if self.authorization is not None and challenge is not None:
                    with self._inbox.waiting():
                        await self.authorization.renew(challenge, allowed, url, nonce)
                url = target or url
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ConnectionClosed(f"{method} {url} failed: {_why(error)}") from error
        raise HttpError(method, self.url, response.status_code, f"too many redirects or refusals: {_TRIES}")

    def _challenge(self, response: httpx2.Response, sent: Sent) -> Challenge | None:
        """What a refusal asks for, if another token could help."""
        if self.authorization is None or not self._may_sign_in:
            return None
        if response.status_code != 401:  # a 403 says what the token lacks, so it was accepted too
            self.authorization.accepted(sent)
        if response.status_code not in (401, 403):
            return None
        peer = response.extensions["network_stream"].get_extra_info("server_addr")
        asked = response.headers.get_list("WWW-Authenticate")
        challenge = read_challenge(response.status_code, asked, None if peer is None else str(peer[0]))
        return challenge if self.authorization.wants_another(challenge) else None

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """A stream of events by GET."""
        async with self.exchange("GET", {**headers, "Accept": EVENT_STREAM}) as response:
            if not is_stream(response):
                raise await self._refusal(response)
            yield response

    async def _refusal(self, response: httpx2.Response) -> ClientError:
        """The error for a refused request. If the body has a JSON-RPC error, that one, because it says most."""
        if response.status_code == 404 and self.session is not None:
            return SessionExpired(f"{self.url} does not know this session any more (HTTP 404)")
        body = await body_of(response)
        text = body.decode("utf-8", "replace")
        if response.status_code == 401 and self.authorization is None:
            text = f'{text[:90]} (give token=, or auth="oauth" to sign in)'
        if response.is_redirect:
            text = f"redirect to {response.headers.get('Location')}; use that URL"
        refused = HttpError(response.request.method, str(response.url), response.status_code, text)
        if (said := error_in(body)) is None:
            return refused
        said.__cause__ = refused  # its status, and for a person what to do
        return said

    def move(self, reference: str) -> None:
        """Use the URL that `reference` names from here; it must be on the same origin."""
        here = httpx2.URL(self.url)
        there = here.join(reference)
        if _origin(here) != _origin(there):
            raise ClientError(f"{self.url} sends its messages to another origin, {there}")
        self.url = str(there)


def _why(error: Exception) -> str:
    """Why there is no connection, with advice where the text of the library has none.

    >>> _why(OSError("[Errno -2] Name or service not known"))
    '[Errno -2] Name or service not known; no machine has this name'
    >>> _why(OSError("All connection attempts failed"))
    'All connection attempts failed; is the server running, and are host and port right?'
    """
    text = str(error) or type(error).__name__
    return text + next((f"; {hint}" for part, hint in _HINTS.items() if part in text), "")


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


def same_origin_redirect(response: httpx2.Response) -> str | None:
    """Where a 307 or 308 leads, if it stays on the server that the user named."""
    if response.status_code not in (307, 308) or response.next_request is None:
        return None
    here, there = response.request.url, response.next_request.url
    return str(there) if _origin(here) == _origin(there) else None
