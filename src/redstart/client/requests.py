"""A request from the client's point of view: everything that may have to happen before it has its result.

Headers that repeat arguments, answers that the server wants first, a session that has to be opened again.
Spec: /specification/2026-07-28/basic/patterns/mrtr, /specification/2025-11-25/basic/transports#session-management.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from redstart.client import results
from redstart.client.callbacks import OnProgress
from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError, InvalidReply, RequestError, SessionExpired
from redstart.client.handlers import QuestionHandlers
from redstart.client.headers import param_headers
from redstart.client.listen import Subscriptions
from redstart.client.negotiate import Negotiated, Negotiator
from redstart.client.tool_cache import ToolCache
from redstart.protocol.methods import METHODS
from redstart.wire.jsonrpc import HEADER_MISMATCH
from redstart.wire.types import ListedTool

MAX_ROUNDS: Final = 16
"""How often a server may ask before its result."""

_PAUSE: Final = 0.05
"""Seconds before the first retry of a request that was put off without a question; doubled each time."""

_NOT_REPEATED: Final = ("tools/call",)
"""What may have effects, so that only the caller can say whether to do it again."""


class Requests:
    """Requests over one connection, once it is open."""

    def __init__(
        self, connection: RpcConnection, handlers: QuestionHandlers, negotiator: Negotiator, max_rounds: int
    ) -> None:
        self.connection = connection
        self.tools = ToolCache(self.list_tools, http=connection.transport.http)
        self.subscriptions = Subscriptions(self.request)
        self.peer: Negotiated
        self._handlers = handlers
        self._negotiator = negotiator
        self._max_rounds = max_rounds
        self._renewing = asyncio.Lock()

    async def open(self, protocol: str) -> None:
        """Find the era; everything else may follow."""
        self.peer = await self._negotiator.open(protocol)
        self.connection.listeners.add(self.tools)

    # ---------------------------------------------------------------- one request

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Raw:
        """Send a request; where the server has forgotten the session, open a new one and ask once more."""
        peer = self.peer
        try:
            return await self._send(method, params, seconds, on_progress)
        except SessionExpired as error:
            await self._renew(peer)
            if method in _NOT_REPEATED:
                raise SessionExpired(f"{error}; a new one is open now, but {method} was not repeated") from error
        return await self._send(method, params, seconds, on_progress)

    async def _send(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        seconds: float | None,
        on_progress: OnProgress | None,
    ) -> Raw:
        options: dict[str, Any] = {"seconds": seconds, "on_progress": on_progress}
        if method != "tools/call" or not (self.connection.transport.http and self.connection.dialect.modern):
            return await self.connection.request(method, params, **options)
        try:
            headers = await self._param_headers(params or {})
            return await self.connection.request(method, params, headers=headers, **options)
        except RequestError as error:
            if error.code != HEADER_MISMATCH:
                raise
        self.tools.forget()  # its schema may have changed since we read it
        headers = await self._param_headers(params or {})
        return await self.connection.request(method, params, headers=headers, **options)

    async def _param_headers(self, params: Mapping[str, Any]) -> dict[str, str]:
        known = await self.tools.get(str(params.get("name")))
        return param_headers(known.rules, params.get("arguments")) if known.rules else {}

    async def _renew(self, stale: Negotiated) -> None:
        """Open a new session unless another task has done so meanwhile."""
        async with self._renewing:
            if self.peer is stale:
                self.peer = await self._negotiator.initialize(stale.version, exact=True)
                await self.subscriptions.renew()

    # ---------------------------------------------------------------- questions before the result

    async def result(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Raw:
        """The complete result, after as many rounds of questions as it takes."""
        row = METHODS.get(method)
        asked = params
        rounds = 0
        while True:
            raw = await self.request(method, asked, seconds=seconds, on_progress=on_progress)
            if not self.connection.dialect.modern:
                return raw
            outcome = results.outcome(method, raw)
            if outcome.result_type in (None, "complete"):
                return raw
            if outcome.result_type != "input_required" or row is None or not row.may_ask:
                raise InvalidReply(f"{method}: the server answered with resultType {outcome.result_type!r}")
            if rounds == self._max_rounds:
                said = "; ".join(_messages(outcome.input_requests or {}))
                raise ClientError(f"{method}: the server still asks after {rounds} rounds{said and ': ' + said}")
            if not outcome.input_requests:
                await asyncio.sleep(min(_PAUSE * 2**rounds, 2))
            asked = {**params, "inputResponses": await self._answers(method, outcome.input_requests or {})}
            if outcome.request_state is not None:
                asked["requestState"] = outcome.request_state
            rounds += 1

    async def _answers(self, method: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """All answers of a round, thought of at the same time."""
        tasks = [asyncio.ensure_future(self._answer(method, key, asked)) for key, asked in requests.items()]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return dict(zip(requests, answers, strict=True))

    async def _answer(self, method: str, key: str, asked: Any) -> dict[str, Any]:
        question = asked.get("method") if isinstance(asked, dict) else None
        if not isinstance(question, str):
            raise InvalidReply(f"{method}: the server's question {key!r} has no method")
        try:
            return await self._handlers.answer(question, asked.get("params"), key)
        except RequestError as error:
            raise ClientError(f"{method}: no answer to the server's question {key!r}: {error.message}") from error

    # ---------------------------------------------------------------- lists

    async def pages(self, method: str, field: str) -> list[Any]:
        """All entries of a list, page by page."""
        entries: list[Any] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        while True:
            page = results.page(method, await self.result(method, params))
            found = getattr(page, field)
            if found is None:
                raise InvalidReply(f"{method}: the result has no {field}")
            entries += found
            cursor = page.next_cursor
            if cursor is None:
                return entries
            if cursor in seen:
                raise InvalidReply(f"{method}: the server gave the cursor {cursor!r} twice")
            seen.add(cursor)
            params = {"cursor": cursor}

    async def list_tools(self) -> list[ListedTool]:
        """All tools; whatever is to be known for later calls is remembered."""
        return self.tools.learn(await self.pages("tools/list", "tools"), modern=self.connection.dialect.modern)


def _messages(requests: Mapping[str, Any]) -> list[str]:
    """The words of a round's questions, as far as they have any."""
    params = [asked.get("params") for asked in requests.values() if isinstance(asked, dict)]
    return [str(given["message"]) for given in params if isinstance(given, dict) and "message" in given]
