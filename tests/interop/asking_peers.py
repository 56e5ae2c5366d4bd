"""Real clients that answer by a script: ours and the one of the `mcp` package, behind one face.

They live on a loop of their own thread, one connection for each way to connect, for all tests of a module.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from redstart.client import Client, ElicitRequest, RequestError, SampleRequest
from support import ROOT

SERVER = str(ROOT / "tests" / "interop" / "asking_server.py")
SECONDS = 20
MODERN = "2026-07-28"

Reply = Callable[[str, dict[str, Any]], Any]
"""From a question's method and params to its result."""


class Way(NamedTuple):
    """How a client reaches the server."""

    client: str
    transport: str
    revision: str
    able: bool = True
    """Whether it can be asked anything."""


@dataclass
class Outcome:
    """What a call gave."""

    text: str = ""
    is_error: bool = False
    code: int | None = None
    data: Any = None


class Peer:
    """One open client."""

    def __init__(self, peers: Peers, way: Way) -> None:
        self.way = way
        self.modern = way.revision == MODERN
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._peers = peers
        self._reply: Reply = script()
        self._client: Any = None
        self._over = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ calls, from the test's thread

    def tool(self, name: str, *replies: Any, **arguments: Any) -> Outcome:
        """The end of a call; each question gets the next of `replies`, or what the one callable says."""
        return self._do("tool", name, arguments, replies=replies)

    def prompt(self, name: str, *replies: Any) -> Outcome:
        return self._do("prompt", name, replies=replies)

    def resource(self, uri: str, *replies: Any) -> Outcome:
        return self._do("resource", uri, replies=replies)

    def _do(self, what: str, *args: Any, replies: tuple[Any, ...]) -> Outcome:
        self.asked.clear()
        self._reply = replies[0] if replies and callable(replies[0]) else script(*replies)
        outcome: Outcome = self._peers.run(getattr(self, f"_{what}")(*args))
        return outcome

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append((method, params))
        return self._reply(method, params)

    # ------------------------------------------------------------ one task opens and closes

    async def open(self) -> None:
        ready = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        await asyncio.wait([ready, self._owner], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await self._owner

    async def _own(self, ready: asyncio.Future[None]) -> None:
        async with self._make() as self._client:
            assert self._client.protocol_version == self.way.revision
            ready.set_result(None)
            await self._over.wait()

    async def close(self) -> None:
        self._over.set()
        if self._owner is not None:
            await self._owner

    def _make(self) -> Any:
        raise NotImplementedError


class Ours(Peer):
    """The client of redstart."""

    def _make(self) -> Any:
        target: Any = self._peers.url if self.way.transport == "http" else [sys.executable, SERVER]
        callbacks: dict[str, Any] = {}
        if self.way.able:
            callbacks = {"on_elicit": self._elicit, "on_sample": self._sample, "roots": self._roots}
        return Client(target, protocol=self.way.revision, timeout=SECONDS, **callbacks)

    def _elicit(self, request: ElicitRequest) -> Any:
        params = {"mode": request.mode, "message": request.message, "requestedSchema": request.schema}
        return self.answer("elicitation/create", {**params, "url": request.url})

    def _sample(self, request: SampleRequest) -> Any:
        params = {"systemPrompt": request.system_prompt, "maxTokens": request.max_tokens, "messages": request.messages}
        return self.answer("sampling/createMessage", params)

    def _roots(self) -> Any:
        return self.answer("roots/list", {})["roots"]

    async def _tool(self, name: str, arguments: dict[str, Any]) -> Outcome:
        try:
            result = await self._client.call_tool(name, arguments)
        except RequestError as error:
            return Outcome(error.message, code=error.code, data=error.data)
        return Outcome(result.text, bool(result.is_error))

    async def _prompt(self, name: str) -> Outcome:
        return Outcome((await self._client.get_prompt(name)).messages[0].content.text)

    async def _resource(self, uri: str) -> Outcome:
        return Outcome((await self._client.read_resource(uri)).contents[0].text)


class Theirs(Peer):
    """The client of the `mcp` package."""

    def _make(self) -> Any:
        from mcp.client.client import Client as McpClient
        from mcp.client.stdio import StdioServerParameters, stdio_client

        target: Any = self._peers.url
        if self.way.transport == "stdio":
            target = stdio_client(StdioServerParameters(command=sys.executable, args=[SERVER]))
        callbacks: dict[str, Any] = {}
        if self.way.able:
            callbacks["elicitation_callback"] = self._elicit
            callbacks["sampling_callback"] = self._sample
            callbacks["list_roots_callback"] = self._roots
        mode = MODERN if self.modern else "legacy"
        return McpClient(target, mode=mode, read_timeout_seconds=SECONDS, **callbacks)

    async def _elicit(self, context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        sent = params.model_dump(by_alias=True, mode="json")
        return ElicitResult.model_validate(self.answer("elicitation/create", sent))

    async def _sample(self, context: Any, params: Any) -> Any:
        from mcp_types import CreateMessageResult

        sent = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        return CreateMessageResult.model_validate(self.answer("sampling/createMessage", sent))

    async def _roots(self, context: Any) -> Any:
        from mcp_types import ListRootsResult

        return ListRootsResult.model_validate(self.answer("roots/list", {}))

    async def _tool(self, name: str, arguments: dict[str, Any]) -> Outcome:
        from mcp.shared.exceptions import MCPError

        try:
            result = await self._client.call_tool(name, arguments)
        except MCPError as error:
            return Outcome(error.message, code=error.code, data=error.data)
        return Outcome(result.content[0].text, bool(result.is_error))

    async def _prompt(self, name: str) -> Outcome:
        return Outcome((await self._client.get_prompt(name)).messages[0].content.text)

    async def _resource(self, uri: str) -> Outcome:
        return Outcome((await self._client.read_resource(uri)).contents[0].text)


class Peers:
    """The clients of one module, opened when they are first wanted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: dict[Way, Peer] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients")
        self._thread.start()

    def get(self, way: Way) -> Peer:
        if way not in self._open:
            peer = (Ours if way.client == "redstart" else Theirs)(self, way)
            self.run(peer.open())
            self._open[way] = peer
        return self._open[way]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do `work` on the loop of the clients; a bounded wait."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, SECONDS), self._loop).result(2 * SECONDS)

    def close(self) -> None:
        try:
            for peer in self._open.values():
                self.run(peer.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SECONDS)
            self._loop.close()


# ---------------------------------------------------------------- answers


def script(*answers: Any) -> Reply:
    """Answers in order; one question more fails the test."""
    left = list(answers)
    return lambda method, params: left.pop(0)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


DECLINE = {"action": "decline"}
CANCEL = {"action": "cancel"}
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m", "stopReason": "endTurn"}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
