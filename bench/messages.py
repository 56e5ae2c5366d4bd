"""The bytes that the generator sends: openings and request templates of the two protocol eras.

`#########` in a template is where the generator writes the request's nine-digit id.
"""

import json
from dataclasses import dataclass
from typing import Any

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
ID = "#########"
ADDEND = 7
ECHO_TEXT = "x" * 1024

_CLIENT = {"name": "bench", "version": "1.0.0"}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}


@dataclass(frozen=True)
class Message:
    body: str
    headers: tuple[str, ...]
    wants_reply: bool = True


def _message(
    era: str, method: str, params: dict[str, Any], *, name: str = "", request_id: str | int | None = 1
) -> Message:
    envelope: dict[str, Any] = {"jsonrpc": "2.0"}
    if request_id is not None:
        envelope["id"] = request_id
    envelope["method"] = method
    headers = []
    if era == MODERN:
        params = {**params, "_meta": _META}
        headers = [f"MCP-Protocol-Version: {era}", f"Mcp-Method: {method}"]
        headers += [f"Mcp-Name: {name}"] if name else []
    elif method != "initialize":
        headers = [f"MCP-Protocol-Version: {era}"]
    if params:
        envelope["params"] = params
    body = json.dumps(envelope, separators=(",", ":")).replace(f'"{ID}"', ID)  # a number on the wire
    return Message(body, tuple(headers), wants_reply=request_id is not None)


def openings(era: str) -> list[Message]:
    """What a client says first; the answer to the first message ends the cold start."""
    if era == MODERN:
        return [_message(era, "server/discover", {})]
    hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": _CLIENT}
    return [
        _message(era, "initialize", hello),
        _message(era, "notifications/initialized", {}, request_id=None),
    ]


_ARGUMENTS = {
    "add": {"a": ID, "b": ADDEND},
    "add_sync": {"a": ID, "b": ADDEND},
    "echo": {"text": ECHO_TEXT},
}


def call(era: str, tool: str) -> Message:
    return _message(era, "tools/call", {"name": tool, "arguments": _ARGUMENTS[tool]}, name=tool, request_id=ID)


def list_tools(era: str) -> Message:
    return _message(era, "tools/list", {}, request_id=ID)


def check_sample(sample: str, operation: str, tools: int) -> None:
    """Parse one reply in full, because the generator only looks at its bytes. Raises ValueError."""
    reply = json.loads(sample)
    result = reply["result"]
    if reply.get("jsonrpc") != "2.0" or "error" in reply:
        raise ValueError(f"not a JSON-RPC result: {sample[:300]}")
    if operation == "list":
        names = {tool["name"] for tool in result["tools"]}
        typed = all(tool["inputSchema"]["type"] == "object" for tool in result["tools"])
        if len(names) != tools or not typed:
            raise ValueError(f"{len(names)} tools instead of {tools}: {sample[:300]}")
        return
    wanted = ECHO_TEXT if operation == "echo" else str(reply["id"] + ADDEND)
    content = result["content"][0]
    if content["type"] != "text" or content["text"] != wanted or result.get("isError"):
        raise ValueError(f"not {wanted[:20]}: {sample[:300]}")
