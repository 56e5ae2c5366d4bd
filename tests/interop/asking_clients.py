"""The two clients that answer questions in these tests, ours and that of `mcp`, behind one face.

A connection stays open for many tests, in one task of its own (anyio wants it opened and closed in the same one).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

from support import JUNE, MODERN, NOVEMBER, ROOT

T = TypeVar("T")
SERVER = str(ROOT / "tests" / "interop" / "asking_server.py")
REVISIONS = (JUNE, NOVEMBER, MODERN)
ROOTS = ["file:///home/ada"]


@dataclass
class Question:
    """What the client's user sees."""

    kind: str  # form, url, sample
    message: str
    schema: dict[str, Any] = field(default_factory=dict)
    url: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        return self.schema.get("properties", {})  # type: ignore[no-any-return]


class Refused(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, data: Any) -> None:
        super().__init__(f"{code} {data}")
        self.code = code
        self.data = data


class Driver:
    """What a test does with a client. Tools end as (text of all blocks, isError); a `kind` of exception refuses."""

    def __init__(self, client: Any, kind: type[Exception], reason: Callable[[Any], Any]) -> None:
        self.client = client
        self._kind = kind
        self._reason = reason

    async def _tried(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except self._kind as error:
            reason = self._reason(error)
            raise Refused(reason.code, reason.data) from error

    async def tool(self, name: str, **arguments: Any) -> tuple[str, bool]:
        result = await self._tried(self.client.call_tool(name, arguments))
        return "\n".join(block.text for block in result.content), bool(result.is_error)

    async def prompt(self, name: str) -> str:
        return (await self._tried(self.client.get_prompt(name, {}))).messages[0].content.text  # type: ignore[no-any-return]

    async def read(self, uri: str) -> str:
        return (await self._tried(self.client.read_resource(uri))).contents[0].text  # type: ignore[no-any-return]


User = Callable[[Question], Any]
"""From a question to its answer: the content of a form, "decline", "cancel", True (a page was opened), or a text."""


class Table:
    """Where the user sits: who answers now, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.user: User = lambda question: "cancel"

    def script(self, *answers: Any) -> None:
        """Answers in order; one question more fails."""
        left = list(answers)
        self.asked.clear()
        self.user = lambda question: left.pop(0)

    async def ask(self, question: Question) -> Any:
        self.asked.append(question)
        answer = self.user(question)
        return await answer if asyncio.iscoroutine(answer) else answer


# ---------------------------------------------------------------- ours


@asynccontextmanager
async def ours(url: str | None, revision: str, table: Table | None) -> AsyncIterator[Driver]:
    """Our client; without a table it declares nothing."""
    from redstart.client import Client, RequestError

    async def on_elicit(asked: Any) -> Any:
        return await table.ask(Question(asked.mode, asked.message, asked.schema, asked.url or ""))  # type: ignore[union-attr]

    async def on_sample(asked: Any) -> Any:
        return await table.ask(Question("sample", asked.messages[0]["content"]["text"]))  # type: ignore[union-attr]

    answers: dict[str, Any] = {"on_elicit": on_elicit, "on_sample": on_sample, "roots": ROOTS} if table else {}
    async with Client(url or [sys.executable, SERVER], protocol=revision, **answers) as client:
        assert client.protocol_version == revision
        yield Driver(client, RequestError, lambda error: error)


# ---------------------------------------------------------------- theirs


def _callbacks(table: Table) -> dict[str, Any]:
    import mcp_types as t

    async def elicit(context: Any, params: Any) -> Any:
        url = getattr(params, "url", "")
        schema = getattr(params, "requested_schema", {})
        answer = await table.ask(Question("url" if url else "form", params.message, schema, url))
        if isinstance(answer, dict):
            return t.ElicitResult(action="accept", content=answer)
        return t.ElicitResult(action="accept" if answer is True else answer)

    async def sample(context: Any, params: Any) -> Any:
        text = await table.ask(Question("sample", params.messages[0].content.text))
        return t.CreateMessageResult(role="assistant", content=t.TextContent(type="text", text=text), model="unknown")

    async def roots(context: Any) -> Any:
        return t.ListRootsResult(roots=[t.Root(uri=root) for root in ROOTS])  # type: ignore[arg-type]

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


@asynccontextmanager
async def theirs(url: str | None, revision: str, table: Table | None) -> AsyncIterator[Driver]:
    """The client of `mcp` 2.3. It offers its newest handshake revision; the test makes it believe in an older one."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.shared.exceptions import MCPError

    target: Any = url or stdio_client(StdioServerParameters(command=sys.executable, args=[SERVER]))
    callbacks = _callbacks(table) if table else {}
    mode = "legacy" if revision != MODERN else MODERN
    newest = revision if mode == "legacy" else NOVEMBER
    with mock.patch("mcp.client.session.LATEST_HANDSHAKE_VERSION", newest):
        async with Client(target, mode=mode, cache=None, **callbacks) as client:
            assert client.protocol_version == revision
            yield Driver(client, MCPError, lambda error: error.error)


CLIENTS = {"ours": ours, "mcp": theirs}


# ---------------------------------------------------------------- open for many tests


class Line:
    """One open connection with its loop, its user's table, and a bound on every wait."""

    def __init__(self, client: str, url: str | None, revision: str, *, can_answer: bool = True) -> None:
        self.revision = revision
        self.modern = revision == MODERN
        self.client = client
        self.table = Table()
        self._runner = asyncio.Runner()
        self._open = CLIENTS[client](url, revision, self.table if can_answer else None)
        self._runner.run(self._start())

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Driver] = loop.create_future()
        self._over = asyncio.Event()
        self._task = loop.create_task(self._hold(ready))
        either: list[asyncio.Future[Any]] = [self._task, ready]
        await asyncio.wait(either, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()
        self.driver = ready.result()

    async def _hold(self, ready: asyncio.Future[Driver]) -> None:
        async with self._open as driver:
            ready.set_result(driver)
            await self._over.wait()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 20) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(seconds):
                return await work

        return self._runner.run(bounded())

    def tool(self, name: str, **arguments: Any) -> tuple[str, bool]:
        return self.run(self.driver.tool(name, **arguments))

    def close(self) -> None:
        async def end() -> None:
            self._over.set()
            async with asyncio.timeout(20):
                await self._task

        self._runner.run(end())
        self._runner.close()
