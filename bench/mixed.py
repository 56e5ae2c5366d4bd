"""A visitor of the soak: what clients of both eras do over HTTP, one function each, on raw sockets.

Each checks what it gets, and raises WrongAnswer. VISITS is the mixture; QUICK are those whose time is measured.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from bench.messages import HANDSHAKE, MODERN

DEADLINE = 60.0
CLIENT = {"name": "soak", "version": "1.0.0"}
CAPABILITIES = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
Json = dict[str, Any]


class WrongAnswer(Exception):
    """The server said something else than it should."""


def check(fine: bool, found: object) -> None:
    if not fine:
        raise WrongAnswer(repr(found)[:400])


class Connection:
    """One connection: requests in HTTP/1.1, and the messages of their responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[bytes, bytes] = {}

    @classmethod
    async def open(cls, port: int, address: str) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))

    def send(self, body: bytes, headers: list[str], verb: str = "POST") -> None:
        lines = [f"{verb} /mcp HTTP/1.1", "Host: localhost", "Accept: application/json, text/event-stream", *headers]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if verb == "POST" else []
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def read_head(self) -> None:
        """Read the head of the next response: a stream is open from then on."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:-2])
        }

    async def messages(self, *, head: bool = True) -> AsyncIterator[Json]:
        """The messages of the next response, each as it comes. A body that is empty has none."""
        if head:
            await self.read_head()
        if b"chunked" not in self.headers.get(b"transfer-encoding", b""):
            body = await self.reader.readexactly(int(self.headers.get(b"content-length", 0)))
            if body:
                yield json.loads(body)
            return
        text = b""
        while size := int(await self.reader.readline(), 16):
            text += (await self.reader.readexactly(size + 2))[:-2]
            *events, text = text.split(b"\n\n")
            for event in events:
                data = b"".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
                if data.strip():
                    yield json.loads(data)
        await self.reader.readline()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Visitor:
    """A client of one server, with a connection, and with a session if it is of the handshake era."""

    def __init__(self, port: int, modern: bool, chance: random.Random) -> None:
        self.port = port
        self.modern = modern
        self.chance = chance
        self.address = f"127.0.0.{chance.randrange(2, 60)}"  # a caller is an address
        self.session: list[str] = []
        self.number = 0
        self.connections: list[Connection] = []
        self.ends = chance.random() < 0.5
        """Whether it ends its session; the others abandon theirs."""

    async def __aenter__(self) -> Visitor:
        self.main = await self.connect()
        if not self.modern:
            hello = {"protocolVersion": HANDSHAKE, "capabilities": {"elicitation": {}}, "clientInfo": CLIENT}
            await self.answer("initialize", **hello)
            key = self.main.headers[b"mcp-session-id"].decode()
            self.session = [f"Mcp-Session-Id: {key}", f"MCP-Protocol-Version: {HANDSHAKE}"]
            await self.tell("notifications/initialized")
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.session and self.ends:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                self.main.send(b"", self.session, "DELETE")
                await self.drop(self.main)
        for connection in self.connections:
            await connection.close()

    async def connect(self) -> Connection:
        self.connections.append(await Connection.open(self.port, self.address))
        return self.connections[-1]

    async def hang_up(self, connection: Connection) -> None:
        self.connections.remove(connection)
        await connection.close()

    def dressed(self, method: str, params: Json, id: int | None) -> tuple[bytes, list[str]]:
        headers = self.session
        if self.modern:
            params = {**params, "_meta": {**META, **params.get("_meta", {})}}
            headers = [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}"]
            name = params.get("name", params.get("uri", params.get("taskId")))
            headers += [f"Mcp-Name: {name}"] if name is not None else []
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        if id is None:
            del message["id"]
        return json.dumps(message).encode(), headers

    async def exchange(self, method: str, on: Connection | None = None, /, **params: Any) -> AsyncIterator[Json]:
        """All messages of the response to a request."""
        self.number += 1
        connection = on or self.main
        connection.send(*self.dressed(method, params, self.number))
        async with aclosing(connection.messages()) as messages:
            async for message in messages:
                yield message

    async def answer(self, method: str, on: Connection | None = None, /, **params: Any) -> Json:
        """The result of a request, after whatever comes before it."""
        messages = [message async for message in self.exchange(method, on, **params)]
        check(bool(messages) and "result" in messages[-1], messages)
        found: Json = messages[-1]["result"]
        return found

    async def tool(self, name: str, on: Connection | None = None, /, **arguments: Any) -> str:
        result = await self.answer("tools/call", on, name=name, arguments=arguments)
        found: str = result["content"][0]["text"] if result["content"] else ""
        return found

    async def tell(self, method: str, **params: Any) -> None:
        self.main.send(*self.dressed(method, params, None))
        await self.drop(self.main)
        check(self.main.status == 202, self.main.status)

    @staticmethod
    async def drop(connection: Connection) -> list[Json]:
        async with aclosing(connection.messages()) as messages:
            return [message async for message in messages]


# ---------------------------------------------------------------- what a visitor does


async def add(visitor: Visitor) -> None:
    check(await visitor.tool("add", a=visitor.number, b=7) == str(visitor.number + 6), "add")


async def add_sync(visitor: Visitor) -> None:
    check(await visitor.tool("add_sync", a=visitor.number, b=7) == str(visitor.number + 6), "add_sync")


async def rest(visitor: Visitor) -> None:
    check(await visitor.tool("rest", seconds=0.2) == "rested", "rest")


async def rest_sync(visitor: Visitor) -> None:
    check(await visitor.tool("rest_sync", seconds=0.1) == "rested", "rest_sync")


async def lists(visitor: Visitor) -> None:
    check(len((await visitor.answer("tools/list"))["tools"]) > 8, "tools/list")


async def read(visitor: Visitor) -> None:
    result = await visitor.answer("resources/read", uri="notes://wren")
    check(result["contents"][0]["text"] == "the note wren", result)


async def prompt(visitor: Visitor) -> None:
    result = await visitor.answer("prompts/get", name="review", arguments={"code": "x = 1"})
    check("x = 1" in result["messages"][0]["content"]["text"], result)


async def fails(visitor: Visitor) -> None:
    check((await visitor.answer("tools/call", name="fail", arguments={}))["isError"], "fail")


async def counts(visitor: Visitor) -> None:
    params = {"name": "count", "arguments": {"to": 5}, "_meta": {"progressToken": "p"}}
    found = [message async for message in visitor.exchange("tools/call", **params)]
    check(len(found) == 6 and "result" in found[-1], found)


async def asks(visitor: Visitor) -> None:
    """A question and its answer: a second request in the modern era, a request of the server in the other."""
    given = {"action": "accept", "content": {"answer": 7}}
    if visitor.modern:
        asked = await visitor.answer("tools/call", name="ask", arguments={})
        answers = dict.fromkeys(asked["inputRequests"], given)
        again = {"inputResponses": answers, "requestState": asked["requestState"]}
        result = await visitor.answer("tools/call", name="ask", arguments={}, **again)
    else:
        result = {}
        async for message in visitor.exchange("tools/call", name="ask", arguments={}):
            if message.get("method") == "elicitation/create":
                other = await visitor.connect()
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": given}
                other.send(json.dumps(reply).encode(), visitor.session)
                await visitor.drop(other)
                await visitor.hang_up(other)
            result = message.get("result", result)
    check(result["content"][0]["text"] == "the number 7", result)


async def leaves_a_question(visitor: Visitor) -> None:
    """A question that nobody answers."""
    async with aclosing(visitor.exchange("tools/call", name="ask", arguments={})) as messages:
        async for message in messages:
            check("result" in message or message["method"] == "elicitation/create", message)
            break
    if not visitor.modern:
        await replace_connection(visitor)


async def replace_connection(visitor: Visitor) -> None:
    await visitor.hang_up(visitor.main)
    visitor.main = await visitor.connect()


async def listens(visitor: Visitor) -> None:
    """A subscription, a change, and the end of the subscription."""
    name = f"n{visitor.chance.randrange(1000)}"
    other = await visitor.connect()
    if visitor.modern:
        wanted = {"resourceSubscriptions": [f"notes://{name}"]}
        messages = visitor.exchange("subscriptions/listen", other, notifications=wanted)
        check("acknowledged" in (await anext(messages))["method"], "acknowledged")
    else:
        await visitor.answer("resources/subscribe", uri=f"notes://{name}")
        other.send(b"", visitor.session, "GET")
        await other.read_head()  # what happens before the stream is open may be lost
        messages = other.messages(head=False)
    async with aclosing(messages):
        await visitor.tool("touch", name=name)
        check("updated" in (await anext(messages))["method"], "updated")
    await visitor.hang_up(other)


async def cancels(visitor: Visitor) -> None:
    """A call that is cancelled: by hanging up, or by a notification."""
    other = await visitor.connect()
    params = {"name": "hold", "arguments": {}, "_meta": {"progressToken": "p"}}
    async with aclosing(visitor.exchange("tools/call", other, **params)) as messages:
        check((await anext(messages))["method"] == "notifications/progress", "progress")
        if not visitor.modern:
            await visitor.tell("notifications/cancelled", requestId=visitor.number)
            async for message in messages:
                check("result" not in message, message)
    await visitor.hang_up(other)


async def goes_away(visitor: Visitor) -> None:
    """Hangs up while a call runs, which a handshake client may do and come back."""
    other = await visitor.connect()
    params = {"name": "count", "arguments": {"to": 50}, "_meta": {"progressToken": "p"}}
    async with aclosing(visitor.exchange("tools/call", other, **params)) as messages:
        await anext(messages)
    await visitor.hang_up(other)


async def works(visitor: Visitor) -> None:
    """A task, from its beginning to its result."""
    if visitor.modern:
        task = (await visitor.answer("tools/call", name="work", arguments={}))["taskId"]
        while (state := await visitor.answer("tasks/get", taskId=task))["status"] == "working":
            await asyncio.sleep(0.02)
        result = state["result"]
    else:
        made = await visitor.answer("tools/call", name="work", arguments={}, task={"ttl": 5000})
        result = await visitor.answer("tasks/result", taskId=made["task"]["taskId"])
    check(result["content"][0]["text"] == "worked", result)


async def is_wrong(visitor: Visitor) -> None:
    """Requests that are refused, each with a status and a reason."""
    bad_call, headers = visitor.dressed("tools/call", {"name": "add", "arguments": {"a": "x"}}, 1)
    unknown, unknown_headers = visitor.dressed("tools/colour", {}, 1)
    refused = (
        (b"{", headers, 400),
        (b"[" * 200, headers, 400),
        (bad_call, [*headers, "Origin: https://evil.example"], 403),
        (bad_call, headers, 200),  # for the model to read
        (unknown, unknown_headers, 404 if visitor.modern else 200),
        (bad_call, ["MCP-Protocol-Version: 1999-01-01", *visitor.session[:1]], 400),
        (b'"' + b"x" * 100_000 + b'"', headers, 400),
    )
    for body, given, status in refused:
        other = await visitor.connect()
        other.send(body, given)
        found = await visitor.drop(other)
        check(other.status == status, (status, other.status, found))
        await visitor.hang_up(other)


async def half_sends(visitor: Visitor) -> None:
    """A request whose end never comes."""
    other = await visitor.connect()
    other.writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    await asyncio.sleep(0.1)
    await visitor.hang_up(other)


Visit = Callable[[Visitor], Awaitable[None]]
QUICK: tuple[Visit, ...] = (add, add_sync, lists, read, prompt, counts, asks)
VISITS: tuple[Visit, ...] = (
    *(add, add_sync, lists, read, prompt, counts, asks) * 4,
    *(add, add_sync) * 10,
    *(rest, rest_sync, fails, listens, cancels, goes_away, works, leaves_a_question, is_wrong, half_sends),
)
