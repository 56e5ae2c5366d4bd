"""A server of the handshake era, written by hand, that makes the mistake that it is told to make.

`python broken.py FAULT` speaks on stdio. Without a fault it makes none.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
REVISION = "2025-11-25"
TOOL: dict[str, Any] = {
    "name": "" if FAULT == "no name" else "spaced name" if FAULT == "bad name" else "add",
    "description": "Add.",
    "inputSchema": {"type": "array" if FAULT == "bad schema" else "object", "properties": {}, "required": []},
    "annotations": {"readOnlyHint": True},
}
if FAULT == "lost property":
    TOOL["inputSchema"]["required"] = ["a"]
if FAULT == "no structure":
    TOOL["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
if FAULT == "wrong structure":
    TOOL["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STRICT = {**TOOL, "name": "strict", "inputSchema": {"type": "object", "properties": {"a": {}}, "required": ["a"]}}
listed = 0


class Refused(Exception):
    pass


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    global listed
    if params.get("cursor") and FAULT != "any cursor":
        raise Refused(-32602)
    match method:
        case "initialize":
            info = {"name": "" if FAULT == "anonymous" else "broken", "version": "1"}
            version = params["protocolVersion"] if FAULT == "any version" else REVISION
            capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "logging": {}}
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "ping":
            return {"pong": True} if FAULT == "pong" else {}
        case "tools/list":
            listed += 1
            tools = [TOOL, STRICT] if FAULT != "unsteady" or listed % 2 else [STRICT, TOOL]
            return {"tools": [*tools, TOOL] if FAULT == "twice" else tools}
        case "tools/call":
            if params["name"] not in (TOOL["name"], "strict") and FAULT != "any tool":
                raise Refused(-32603 if FAULT == "wrong code" else -32602)
            if params["name"] == "strict" and FAULT != "careless":
                return {"content": [{"type": "text", "text": "a is missing"}], "isError": True}
            found: dict[str, Any] = {} if FAULT == "no content" else {"content": []}
            return {**found, "structuredContent": {"n": "x"}} if FAULT == "wrong structure" else found
        case "resources/list":
            return {"resources": [{"uri": "nowhere" if FAULT == "no uri" else "a://b", "name": "b"}]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read":
            if params["uri"] != "a://b" and FAULT != "any resource":
                raise Refused(-32002)
            both = {"blob": ""} if FAULT == "both" else {}
            return {"contents": [{"uri": params["uri"], "text": "b", **both}]}
        case "logging/setLevel":
            if params["level"] == "loud" and FAULT != "any level":
                raise Refused(-32602)
            return {}
    if FAULT == "any method":
        return {}
    raise Refused(-32000 if FAULT == "odd code" else -32601)


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if FAULT == "noise":
    print("hello from the server", flush=True)
while line := sys.stdin.readline():
    try:
        request = json.loads(line)
    except ValueError:
        if FAULT == "fragile":
            raise SystemExit(1) from None
        continue
    if not isinstance(request, dict):
        continue
    if "id" not in request:
        if FAULT == "talkative" and request["method"] != "notifications/initialized":
            say({"id": None, "result": {}})
        continue
    id = str(request["id"]) if FAULT == "text ids" else request["id"]
    try:
        say({"id": id, "result": answer(request["method"], request.get("params") or {})})
    except Refused as error:
        say({"id": id, "error": {"code": error.args[0], "message": "refused"}})
while FAULT == "endless":
    time.sleep(1)
