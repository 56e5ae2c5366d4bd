"""A client of the jobs server, with nothing but the standard library: start, show, answer and cancel tasks.

python try.py start make_album photos=10
python try.py show ID          python try.py answer ID "Summer"          python try.py cancel ID
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from typing import Any

URL = os.environ.get("JOBS_URL", "http://127.0.0.1:8000/mcp")
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


def request(method: str, subject: str, /, **params: Any) -> dict[str, Any]:
    """One request; its result."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        "Mcp-Name": subject,
    }
    with urllib.request.urlopen(urllib.request.Request(URL, json.dumps(body).encode(), headers)) as response:
        answer = json.load(response)
    if "error" in answer:
        raise SystemExit(answer["error"]["message"])
    result: dict[str, Any] = answer["result"]
    return result


def show(task: dict[str, Any]) -> None:
    """What there is to say of a task, in a line or two."""
    lines = [f"{task['taskId']} is {task['status']}: {task.get('statusMessage', '')}"]
    lines += [question["params"]["message"] for question in task.get("inputRequests", {}).values()]
    lines += [block["text"] for block in task.get("result", {}).get("content", [])]
    lines += [task["error"]["message"]] if "error" in task else []
    sys.stdout.write("\n".join(lines) + "\n")


def main(command: str, name: str, *words: str) -> None:
    if command == "start":
        arguments = {key: json.loads(value) for key, _, value in (word.partition("=") for word in words)}
        show(request("tools/call", name, name=name, arguments=arguments))
        return
    task = request("tasks/get", name, taskId=name)
    if command == "answer":
        reply = {"action": "accept", "content": {"answer": words[0]}}
        request("tasks/update", name, taskId=name, inputResponses=dict.fromkeys(task["inputRequests"], reply))
    elif command == "cancel":
        request("tasks/cancel", name, taskId=name)
    show(request("tasks/get", name, taskId=name))


if __name__ == "__main__":
    main(*sys.argv[1:])
