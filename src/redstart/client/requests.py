"""Requests as the client's methods make them: everything that may have to happen before there is a result.

Headers that repeat arguments, answers that the server needs first, a session that has to be opened again.
Spec: /specification/2026-07-28/basic/patterns/mrtr, /specification/2025-11-25/basic/transports#session-management.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack

from msgspec import Raw

from redstart.client.callbacks import OnProgress
from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError, InvalidReply, RequestError, SessionExpired
from redstart.client.headers import param_headers
from redstart.client.negotiate import Negotiated, Negotiator
from redstart.client.options import ClientOptions
from redstart.client.response_cache import ResponseCache
from redstart.client.results import decoded
from redstart.client.tool_cache import ToolCache
from redstart.protocol.methods import METHODS
from redstart.wire.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, JsonMapping, JsonObject
from redstart.wire.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION
from redstart.wire.types import InputRequired, ListedTool, ListResult

MAX_PAGES: Final = 10_000
"""How many pages a list may have."""
_PAUSE: Final = 0.05
"""Seconds before the first retry of a request that the server put off without a question; doubled each time."""

_NOT_REPEATED: Final = ("tools/call",)
"""Requests that may have effects, so that only the caller can decide to repeat them."""


class RequestOptions(TypedDict, total=False):
    """What a caller may say of one request."""

    timeout: float | None
    on_progress: OnProgress | None


class Requests:
    """Requests over one open connection, and what is remembered between them."""

    def __init__(self, connection: RpcConnection, options: ClientOptions) -> None:
        self.connection = connection
        self.server: Negotiated
        self.tools = ToolCache(self.list_tools)
        self.cache = ResponseCache() if options["cache"] else None
        self.watched: dict[str, set[object]] = {}
        """The resources that a handshake server watches for us, and how many listeners want each of them."""
        self._negotiator = Negotiator(connection, options)
        self._max_rounds = options["max_rounds"]
        self._renewing = asyncio.Lock()
        self._signed_in = 0

    async def open(self, protocol: str) -> None:
        """Find the era. Requests may follow."""
        self.server = await self._negotiator.open(protocol)
        self.connection.listeners.add(self.tools)
        if self.cache is not None:
            self.connection.listeners.add(self.cache)

    # ---------------------------------------------------------------- one request

    async def request(self, method: str, params: JsonMapping | None = None, **options: Unpack[RequestOptions]) -> Raw:
        """Send a request. If the server has forgotten the session, open a new one and send it once more."""
        server = self.server
        try:
            return await self._send(method, params, **options)
        except SessionExpired as error:
            await self._renew(server)
            if method in _NOT_REPEATED:
                raise SessionExpired(f"{error}; a new one is open now, but {method} was not repeated") from error
        return await self._send(method, params, **options)

    async def _send(self, method: str, params: JsonMapping | None, **options: Unpack[RequestOptions]) -> Raw:
        connection = self.connection
        if method != "tools/call" or not (connection.transport.http and connection.dialect.modern):
            return await connection.request(method, params, **options)
        try:
            return await connection.request(method, params, headers=await self._param_headers(params), **options)
        except RequestError as error:
            if error.code != HEADER_MISMATCH:
                raise
        self.forget_tools()  # the schema of the tool may have changed
        return await connection.request(method, params, headers=await self._param_headers(params), **options)

    def forget_tools(self) -> None:
        """Ask the server again when a tool is next needed."""
        self.tools.forget()
        if self.cache is not None:
            self.cache.drop("tools/list")

    async def _param_headers(self, params: JsonMapping | None) -> dict[str, str]:
        params = params or {}
        tool = await self.tools.get(str(params.get("name")))
        return param_headers(tool.rules, params.get("arguments"))

    async def _renew(self, stale: Negotiated) -> None:
        """Open a new session, unless another task has done so."""
        async with self._renewing:
            if self.server is stale:
                self.server = await self._negotiator.initialize(stale.version, exact=True)
                for uri in list(self.watched):
                    await self._send("resources/subscribe", {"uri": uri})

    # ---------------------------------------------------------------- questions before the result

    async def result(self, method: str, params: JsonMapping, **options: Unpack[RequestOptions]) -> Raw:
        """The complete result, from the cache or after as many rounds of questions as the server needs."""
        cache = self.cache if self.connection.dialect.modern and "_meta" not in params else None
        signed_in = self.connection.transport.sign_ins
        if cache is not None and signed_in != self._signed_in:  # by somebody else, perhaps
            self._signed_in = signed_in
            cache.drop()
        kept = None if cache is None else cache.get(method, params)
        if kept is not None:
            return kept
        raw, rounds = await self._asked(method, params, **options)
        # An answer may be in the result of a later round, and who is signed in now may not be who has asked.
        if cache is not None and rounds == 0 and signed_in == self.connection.transport.sign_ins:
            cache.put(method, params, raw)
        return raw

    async def _asked(self, method: str, params: JsonMapping, **options: Unpack[RequestOptions]) -> tuple[Raw, int]:
        """The result, and how many rounds of questions came before it."""
        row = METHODS.get(method)
        answers: JsonObject = {}
        rounds = 0
        while True:
            raw = await self.request(method, {**params, **answers}, **options)
            if not self.connection.dialect.modern:
                return raw, rounds
            outcome = decoded(method, InputRequired, raw)
            if outcome.result_type in (None, "complete") or (outcome.result_type, method) == ("task", "tools/call"):
                return raw, rounds
            if outcome.result_type != "input_required" or row is None or not row.may_ask:
                raise InvalidReply(f"{method}: the server answered with resultType {outcome.result_type!r}")
            questions = outcome.input_requests or {}
            if rounds == self._max_rounds:
                texts = "; ".join(_messages(questions))
                raise ClientError(f"{method}: the server still asks after {rounds} rounds" + (texts and f": {texts}"))
            if not questions:
                await asyncio.sleep(min(_PAUSE * 2**rounds, 2))
            answers = {"inputResponses": await self.answers(method, questions)}
            if outcome.request_state is not None:
                answers["requestState"] = outcome.request_state
            rounds += 1

    async def answers(self, method: str, questions: Mapping[str, object]) -> JsonObject:
        """All answers of a round. The questions are handled at the same time."""
        tasks = [asyncio.ensure_future(self._answer(method, key, asked)) for key, asked in questions.items()]
        try:
            return dict(zip(questions, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()

    async def _answer(self, method: str, key: str, asked: object) -> JsonObject:
        question = asked.get("method") if isinstance(asked, dict) else None
        if not isinstance(asked, dict) or not isinstance(question, str):
            raise InvalidReply(f"{method}: the server's question {key!r} has no method")
        try:
            return await self.connection.handlers.answer(question, asked.get("params"), key)
        except RequestError as error:
            raise ClientError(f"{method}: no answer to the server's question {key!r}: {error.message}") from error

    # ---------------------------------------------------------------- tasks

    def tasks_meta(self) -> JsonObject:
        """What a modern request about tasks declares beside the client's own capabilities."""
        declared = self.connection.handlers.capabilities(self.server.version)
        extensions = {**declared.get("extensions", {}), TASKS_EXTENSION: {}}
        return {CLIENT_CAPABILITIES: {**declared, "extensions": extensions}}

    async def task_request(
        self, method: str, id: str, params: JsonMapping | None = None, **options: Unpack[RequestOptions]
    ) -> Raw:
        """A request about one task."""
        about: JsonObject = {"taskId": id, **(params or {})}
        if self.connection.dialect.modern:
            about["_meta"] = self.tasks_meta()
        return await self.request(method, about, **options)

    # ---------------------------------------------------------------- lists

    async def pages(self, method: str, field: str, kind: type[Any] = ListResult) -> list[Any]:
        """All entries of a list, page by page."""
        entries: list[Any] = []
        cursors: set[str] = set()
        params: JsonObject = {}
        for _ in range(MAX_PAGES):
            try:
                raw = await self.result(method, params)
            except RequestError as error:
                if error.code == INVALID_PARAMS and self.cache is not None:  # a cursor of a page that was kept
                    self.cache.drop(method)
                raise
            page = decoded(method, kind, raw)
            listed = getattr(page, field)
            if listed is None:
                raise InvalidReply(f"{method}: the result has no {field}")
            entries += listed
            cursor = page.next_cursor
            if cursor is None:
                return entries
            if cursor in cursors:
                raise InvalidReply(f"{method}: the server gave the cursor {cursor!r} twice")
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise InvalidReply(f"{method}: the list has more than {MAX_PAGES} pages")

    async def list_tools(self) -> list[ListedTool]:
        """All tools. What later calls need to know of them is remembered."""
        connection = self.connection
        tools = await self.pages("tools/list", "tools")
        return self.tools.learn(tools, http=connection.transport.http, modern=connection.dialect.modern)


def _messages(questions: Mapping[str, object]) -> list[str]:
    """The texts of a round's questions."""
    params = [asked.get("params") for asked in questions.values() if isinstance(asked, dict)]
    return [str(given["message"]) for given in params if isinstance(given, dict) and "message" in given]
