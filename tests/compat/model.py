"""A model on loopback that calls one tool and then says what came back, in the four protocols of model providers.

It is as good as a model for one purpose: a command-line client lists our tools, offers them, runs the call that it is
asked for, and sends the result. No model is needed, and nothing leaves the machine.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = {"a": 1200, "b": 34}
SUM = "1234"
Event = tuple[str, dict[str, Any]]


class Scripted:
    """What the model has seen: the tools that it was offered, and the results that it got."""

    def __init__(self) -> None:
        self.offered: set[str] = set()
        self.results: list[str] = []

    def turn(self, tools: list[str], results: list[str]) -> str:
        """The name of the tool to call, or nothing: then the turn ends in a text."""
        self.offered.update(tools)
        self.results += results
        wanted = [name for name in tools if re.search(r"(^|[^a-z])add$", name)]
        return "" if results or not wanted else wanted[0]

    @property
    def called(self) -> bool:
        return any(SUM in result for result in self.results)


def _anthropic(script: Scripted, body: dict[str, Any]) -> list[Event]:
    contents = [part for message in body.get("messages", []) for part in _parts(message.get("content"))]
    results = [json.dumps(part) for part in contents if part.get("type") == "tool_result"]
    name = script.turn([tool.get("name", "") for tool in body.get("tools") or []], results)
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": f"The sum is {SUM}." if results else "Sum"}
    if name:
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
    }
    events: list[Event] = [
        ("message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "tool_use" if name else "end_turn"}, "usage": usage}),
        ("message_stop", {}),
    ]
    return [(kind, {"type": kind, **data}) for kind, data in events]


def _responses(script: Scripted, body: dict[str, Any]) -> list[Event]:
    items = body.get("input", [])
    results = [json.dumps(item) for item in items if str(item.get("type", "")).endswith("call_output")]
    tools, spaces = [], {}
    for tool in body.get("tools") or []:
        for inner in tool.get("tools") or [tool]:  # the tools of one server may stand in a namespace
            tools.append(inner.get("name", ""))
            spaces[inner.get("name", "")] = tool.get("name") if tool.get("tools") else None
    name = script.turn(tools, results)
    item: dict[str, Any] = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": f"The sum is {SUM}." if results else "Sum", "annotations": []}]
    if name:
        item = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": name, "status": "completed"}
        item["arguments"] = json.dumps(ARGUMENTS)
        item |= {"namespace": spaces[name]} if spaces[name] else {}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}  # type: ignore[dict-item]
    events: list[Event] = [
        ("response.created", {"response": {"id": "r1"}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {"id": "r1", "status": "completed", "output": [item], "usage": usage}}),
    ]
    return [(kind, {"type": kind, **data}) for kind, data in events]


def _chat(script: Scripted, body: dict[str, Any]) -> list[Event]:
    results = [json.dumps(message) for message in body.get("messages", []) if message.get("role") == "tool"]
    tools = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or []]
    name = script.turn(tools, results)
    delta: dict[str, Any] = {"role": "assistant", "content": f"The sum is {SUM}." if results else "Sum"}
    if name:
        function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
        }
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
    end = "tool_calls" if name else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [
        ("", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage}),
    ]


def _gemini(script: Scripted, body: dict[str, Any]) -> list[Event]:
    parts = [part for content in body.get("contents", []) for part in _parts(content.get("parts"))]
    results = [json.dumps(part) for part in parts if "functionResponse" in part]
    declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    name = script.turn([one.get("name", "") for one in declared], results)
    part: dict[str, Any] = {"text": f"The sum is {SUM}." if results else "Sum"}
    if name:
        part = {"functionCall": {"name": name, "args": ARGUMENTS}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [("", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"})]


def _parts(content: Any) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


PROTOCOLS: dict[str, Callable[[Scripted, dict[str, Any]], list[Event]]] = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    "enerateContent": _gemini,
}


@contextmanager
def scripted_model() -> Iterator[tuple[str, Scripted]]:
    """The URL of a model, and what it sees."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"object": "list", "data": [{"id": "scripted"}]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            path = self.path.partition("?")[0]
            answer = next((answer for end, answer in PROTOCOLS.items() if path.endswith(end)), None)
            if answer is None:
                self._send("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
                return
            events = answer(script, body)
            if path.endswith(":generateContent"):
                self._send("application/json", json.dumps(events[-1][1]).encode())
                return
            text = "".join(
                (f"event: {kind}\n" if kind else "") + f"data: {json.dumps(data)}\n\n" for kind, data in events
            )
            self._send("text/event-stream", (text + ("data: [DONE]\n\n" if answer is _chat else "")).encode())

        def _send(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
