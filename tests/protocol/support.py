"""What the protocol tests share: messages, headers, and a server whose coroutines are run by hand, without a loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from redstart import ProtocolError, Server
from redstart.protocol.call import Call, Cancel, Event, Refusal
from redstart.protocol.headers import Headers
from redstart.protocol.link import Link
from support import ENVELOPE, MODERN, message, opening


def make_server() -> Server:
    server = Server("test", version="1")

    @server.tool
    async def echo(text: str = "") -> str:
        return text

    return server


def request(id: Any, method: str, params: Any = None, **extra: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method, **extra}
    if params is not None:
        message["params"] = params
    return json.dumps(message, ensure_ascii=False).encode()


def modern(id: Any, method: str, params: dict[str, Any] | None = None, meta: Any = None) -> bytes:
    """A modern request; `meta` replaces the whole envelope."""
    return request(id, method, {**(params or {}), "_meta": ENVELOPE if meta is None else meta})


def notification(method: str, params: Any = None) -> bytes:
    return message(None, method, params)


def headers(method: str, name: str | None = None, version: str = MODERN, **others: str) -> dict[bytes, bytes]:
    """The `Mcp-*` headers of a modern request."""
    found = {b"mcp-protocol-version": version.encode(), b"mcp-method": method.encode()}
    if name is not None:
        found[b"mcp-name"] = name.encode()
    return found | {key.replace("_", "-").encode(): value.encode() for key, value in others.items()}


def by_hand(work: Coroutine[Any, Any, Any]) -> Any:
    """The value of a coroutine that never waits for anything. It runs in a context of its own, as a task would."""
    try:
        copy_context().run(work.send, None)
    except StopIteration as stop:
        return stop.value
    work.close()
    raise AssertionError("it waits for something, so it needs a loop")


def code_of(work: Callable[..., Any], *arguments: Any) -> int:
    """The code of the ProtocolError that a function raises; 0 where it raises none."""
    try:
        work(*arguments)
    except ProtocolError as error:
        return error.code
    return 0


class Wire:
    """One peer of a server: bytes in, what came out as Python values."""

    def __init__(self, revision: str | None = None, server: Server | None = None) -> None:
        self.server = server or make_server()
        self.link: Link = self.server.runtime.link()
        self.status = 200
        if revision is not None:
            self.opened = self.send(request("open", "initialize", opening(revision)))
            self.send(notification("notifications/initialized"))

    def receive(self, data: bytes, headers: Headers | None = None) -> list[Event]:
        return self.link.receive(data, headers)

    def send(self, data: bytes, headers: Headers | None = None) -> list[Any]:
        """Everything that goes out for one message, calls answered at once."""
        out: list[bytes | None] = []
        for event in self.receive(data, headers):
            if isinstance(event, Call):
                event.channel = None  # type: ignore[assignment]
                out.append(by_hand(self.server.runtime.answer(event)))
                self.status = event.status
            elif isinstance(event, Refusal):
                out.append(event.data)
                self.status = event.status
            elif isinstance(event, Cancel):
                out.append(event.data)
        return [json.loads(data) for data in out if data is not None]

    def one(self, data: bytes, headers: Headers | None = None) -> Any:
        (answer,) = self.send(data, headers)
        return answer

    def code(self, data: bytes, headers: Headers | None = None) -> int:
        """The error code of the one answer; 0 where it is a result."""
        answer = self.one(data, headers)
        code: int = answer["error"]["code"] if "error" in answer else 0
        return code

    def outcome(self, data: bytes, headers: Headers | None = None) -> tuple[int, int]:
        """Status and code."""
        code = self.code(data, headers)
        return self.status, code
