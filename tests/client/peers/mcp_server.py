"""The official SDK's server, for the client's tests: `mcp_server.py stdio` or `mcp_server.py http [json] [resume]`.

Decorators are called as functions, because an untyped decorator would untype what it decorates.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel, Field

server = MCPServer("peer", version="2.3", instructions="Be kind.", log_level="WARNING")
cancelled: dict[str, anyio.Event] = {}


class Name(BaseModel):
    name: str
    polite: bool = True


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def point(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


def fail(text: str) -> str:
    raise ValueError(text)


def echo(text: str) -> str:
    return text


def region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], n: int = 1) -> str:
    return region * n


async def count(to: int, ctx: Context) -> int:
    for i in range(to):
        await ctx.report_progress(i + 1, to, f"step {i + 1}")
    return to


async def talk(ctx: Context) -> str:
    await ctx.info("to the log")
    return "done"


async def wait(tag: str, ctx: Context) -> str:
    """Never ends; what ends it is told to whoever calls `was_cancelled`."""
    event = cancelled.setdefault(tag, anyio.Event())
    try:
        await ctx.report_progress(1, 2, "waiting")
        await anyio.sleep_forever()
    finally:
        event.set()
    return "never"


async def was_cancelled(tag: str) -> bool:
    await cancelled.setdefault(tag, anyio.Event()).wait()
    return True


def die() -> str:
    sys.stderr.write("these are my last words\n")
    sys.stderr.flush()
    os._exit(3)


def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def ask_model() -> Any:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say hi"))], max_tokens=10)


def ask_roots() -> Any:
    return ListRoots()


def greet(who: Annotated[Name, Resolve(ask_name)]) -> str:
    return f"Hello {who.name}, {who.polite}"


def think(said: Annotated[Any, Resolve(ask_model)]) -> str:
    return str(said.content.text)


def ground(roots: Annotated[Any, Resolve(ask_roots)]) -> str:
    return ",".join(str(root.uri) for root in roots.roots)


def both(who: Annotated[Name, Resolve(ask_name)], said: Annotated[Any, Resolve(ask_model)]) -> str:
    return f"{who.name}: {said.content.text}"


async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    await ctx.notify_resource_updated("notes://a")
    await ctx.session.send_tool_list_changed()
    return "changed"


async def drop(ctx: Context) -> str:
    """Break the stream of this very call; the answer is to be had by resuming."""
    await ctx.close_sse_stream()
    return "survived"


def note() -> str:
    return "a note"


def named_note(name: str) -> str:
    return f"note {name}"


def review(code: str, language: str = "python") -> str:
    return f"Review this {language}: {code}"


async def complete(ref: Any, argument: Any, context: Any) -> Any:
    found = [word for word in ("python", "perl", "prolog") if word.startswith(argument.value)]
    return Completion(values=found, total=len(found), has_more=False)


TOOLS = (
    add,
    point,
    fail,
    echo,
    region,
    count,
    talk,
    wait,
    was_cancelled,
    die,
    greet,
    think,
    ground,
    both,
    change,
    drop,
)
for tool in TOOLS:
    server.add_tool(tool)
server.resource("notes://a", mime_type="text/plain")(note)
server.resource("notes://named/{name}")(named_note)
server.prompt()(review)
server.completion()(complete)


class Memory(EventStore):  # type: ignore[misc]
    """Events by number; enough for one test to break a stream and go on."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        stream = self.events[int(last_event_id) - 1][0]
        for number, (owner, message) in enumerate(self.events[int(last_event_id) :], int(last_event_id) + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def serve_http(options: list[str]) -> None:
    """Serve on a free port, which is the first line of output. The socket listens before anything else starts."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    store = Memory() if "resume" in options else None
    app = server.streamable_http_app(json_response="json" in options, event_store=store, retry_interval=10)
    if "sse" in options:
        app = server.sse_app()
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    if sys.argv[1] == "stdio":
        server.run()
    else:
        serve_http(sys.argv[2:])
