"""A client of any revision whose user answers questions: messages in, messages out, no sleeps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from redstart import Accepted, Cancelled, Context, Declined, Server, SyncContext, Tool
from support import JUNE, MODERN, NOVEMBER, Peer, run

REVISIONS = (JUNE, NOVEMBER, MODERN)
KEYS = ["a key that two servers share, long enough"]

every = pytest.mark.parametrize("revision", REVISIONS)
handshakes = pytest.mark.parametrize("revision", [JUNE, NOVEMBER])

ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}

Reply = Callable[[str, dict[str, Any]], Any]
"""From a question's method and params to its result; None gives no answer, an Exception an error reply."""


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


DECLINE = {"action": "decline"}
CANCEL = {"action": "cancel"}


def script(*answers: Any) -> Reply:
    """Answers in order; one question more fails the test."""
    left = list(answers)
    return lambda method, params: left.pop(0)


class Player(Peer):
    """A client with a user. `asked` are the questions it saw, `rounds` the results that asked, `sent` all messages."""

    def __init__(
        self,
        server: Server,
        revision: str = MODERN,
        reply: Reply | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
        principal: Any = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        offered = ALL if capabilities is None else capabilities
        super().__init__(server, revision, capabilities=offered, principal=principal, meta=meta)
        self.server = server
        self.reply = reply or script()
        self.asked: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        message = await super().receive()
        self.sent.append(message)
        return message

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request, and its answer; the server's own requests on the way are answered."""
        id = self.start(method, params)
        while True:
            message = await self.receive()
            if "method" not in message:
                assert message["id"] == id, message
                return message
            if "id" not in message:
                continue
            assert not self.modern, "the modern era has no requests to clients"
            self.asked.append({"key": message["id"], **message})
            self.answer(message)

    def answer(self, question: dict[str, Any]) -> None:
        result = self.reply(question["method"], question["params"])
        if isinstance(result, Exception):
            self.send({"id": question["id"], "error": {"code": -1, "message": str(result)}})
        elif result is not None:
            self.send({"id": question["id"], "result": result})

    async def call(self, method: str, *, limit: int = 100, **params: Any) -> dict[str, Any]:
        """A request to its end, through all rounds."""
        more: dict[str, Any] = {}
        for _ in range(limit):
            answer = await self.request(method, {**params, **more})
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                return answer
            more = self.next_round(result)
        raise AssertionError(f"still asking after {limit} rounds")

    def next_round(self, result: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the retry."""
        self.rounds.append(result)
        responses = {}
        for key, question in result["inputRequests"].items():
            self.asked.append({"key": key, **question})
            reply = self.reply(question["method"], question["params"])
            if reply is not None:
                responses[key] = reply
        return {"inputResponses": responses, "requestState": result["requestState"]}


def play_tool(server: Server, revision: str, reply: Reply | None, name: str = "t", **options: Any) -> Any:
    """The text of a tool, and the client that got it."""

    async def play() -> Any:
        player = await Player(server, revision, reply, **options).open()
        text = await player.text(name)
        await player.close()
        return text, player

    return run(play(), server)


# ---------------------------------------------------------------- one request at a time


def first_round(server: Server, name: str = "t", **options: Any) -> dict[str, Any]:
    """The first answer to a tool call."""

    async def play() -> dict[str, Any]:
        return await Player(server, **options).request("tools/call", {"name": name, "arguments": {}})

    return run(play(), server)


def again(server: Server, result: dict[str, Any], responses: Any, **changes: Any) -> dict[str, Any]:
    """The answer to the retry; a parameter that is `...` is left out."""
    params = {"name": "t", "arguments": {}, "requestState": result["requestState"], "inputResponses": responses}
    options = changes.pop("options", {})
    params |= changes

    async def play() -> dict[str, Any]:
        wanted = {key: value for key, value in params.items() if value is not ...}
        return await Player(server, **options).request("tools/call", wanted)

    return run(play(), server)


def text(answer: dict[str, Any]) -> str:
    """The text of a tool's answer."""
    return answer["result"]["content"][0]["text"]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- side effects


class Effect:
    """A side effect that takes its time: it ends when the test says so."""

    def __init__(self, *, ends: bool = False) -> None:
        self.log: list[str] = []
        self.begun = threading.Event()
        self.may_end = threading.Event()
        if ends:
            self.may_end.set()

    def blocking(self) -> int:
        self.log.append("begin")
        self.begun.set()
        assert self.may_end.wait(10)
        self.log.append("end")
        return len(self.log)

    async def awaiting(self) -> int:
        self.log.append("begin")
        self.begun.set()
        while not self.may_end.is_set():
            await asyncio.sleep(0)
        self.log.append("end")
        return len(self.log)


async def begun(effect: Effect) -> None:
    while not effect.begun.is_set():
        await asyncio.sleep(0)


# ---------------------------------------------------------------- servers that ask


def serve(*tools: Any, **options: Any) -> Server:
    return Server("asking", tools=tools, **options)


async def ask_name(ctx: Context) -> str:
    """The acceptance test of the specifying documents."""
    match await ctx.elicit("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}}):
        case Accepted({"name": name}):
            return f"Hello, {name}!"
        case Accepted() | Declined() | Cancelled():
            return "No name provided."


def ask_name_blocking(ctx: SyncContext) -> str:
    match ctx.elicit("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}}):
        case Accepted({"name": name}):
            return f"Hello, {name}!"
    return "No name provided."


async def ask_name_by_key(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", str, key="user_name")
    return f"Hello, {answer.data}!" if isinstance(answer, Accepted) else "No name provided."


ASK_NAME = Tool("t", handler=ask_name_by_key)
