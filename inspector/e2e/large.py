"""A server of somebody else, whose results are larger and deeper than a person can read: python large.py PORT."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def nested(levels: int) -> str:
    return '{"in":' * levels + '"the ground"' + "}" * levels


RESULTS = {  # of each tool: the text, and the structured content as JSON
    "nested": (nested(10_000), nested(900)),
    "abyss": ("deep", nested(10_000)),
    "keys": ("many", json.dumps({f"key {number}": number for number in range(5000)})),
    "text": ("All work and no play. " * 240_000, '{"size": 5280000}'),
    "numbers": ("many", json.dumps({"result": list(range(100_000))})),
}


def answer(method: str, name: str) -> str | None:
    if method == "initialize":
        info = {"name": "large", "version": "1"}
        return json.dumps({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    if method == "tools/list":
        tools = [{"name": tool, "inputSchema": {"type": "object"}} for tool in RESULTS]
        tools[0]["outputSchema"] = {"type": ["object", "string"], "properties": {"in": {"$ref": "#"}}}
        return json.dumps({"tools": tools})
    if method == "tools/call":
        text, structured = RESULTS[name]
        content = json.dumps([{"type": "text", "text": text}])
        return f'{{"content":{content},"structuredContent":{structured}}}'
    return None


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = answer(message["method"], message.get("params", {}).get("name", ""))
        rest = '"error":{"code":-32601,"message":"Method not found"}' if result is None else f'"result":{result}'
        data = f'{{"jsonrpc":"2.0","id":{json.dumps(message.get("id"))},{rest}}}'.encode()
        self.send_response(200 if "id" in message else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if "id" in message else 0))
        self.end_headers()
        if "id" in message:
            self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
    server.serve_forever()
