"""What a question costs: the server's CPU for one round of an `ask` beside a plain call, both of 2026-07-28.

A dialogue with one question is two requests, so a round is half of a dialogue. Many are in
flight, as in the other legs.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.messages import MODERN
from bench.targets import TARGETS

WINDOW = 32
SERVER = Path(__file__).parent / "servers" / "asking_server.py"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
_ANSWER = {"q1": {"action": "accept", "content": {"answer": 7}}}
Exchange = Callable[[Sequence[bytes]], list[bytes]]


class WrongAnswer(Exception):
    """The server said something else than the sum."""


def _request(number: int, tool: str, **more: Any) -> bytes:
    params = {"name": tool, "arguments": {"a": number, "b": 7}, **more, "_meta": _META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def _plain(exchange: Exchange, first: int) -> None:
    for reply in exchange([_request(number, "add") for number in range(first, first + WINDOW)]):
        _check(json.loads(reply))


def _dialogues(exchange: Exchange, first: int) -> None:
    questions = exchange([_request(number, "ask") for number in range(first, first + WINDOW)])
    retries = []
    for question in questions:
        reply = json.loads(question)
        state = reply["result"]["requestState"]
        retries.append(_request(reply["id"], "ask", requestState=state, inputResponses=_ANSWER))
    for reply in exchange(retries):
        _check(json.loads(reply))


def _check(reply: dict[str, Any]) -> None:
    if reply["result"].get("structuredContent") != {"result": reply["id"] + 7}:
        raise WrongAnswer(str(reply)[:300])


def _cpu_us(pid: int) -> float:
    """The CPU of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def _measured(pid: int, exchange: Exchange, windows: int, repetitions: int) -> tuple[float, float]:
    """The least µs of a plain call and of a round, the two interleaved."""
    best = {_plain: float("inf"), _dialogues: float("inf")}
    number = 1
    for repetition in range(repetitions + 1):  # the first one warms up
        for work in best:
            begin = _cpu_us(pid)
            for _ in range(windows):
                work(exchange, number)
                number += WINDOW
            spent = (_cpu_us(pid) - begin) / (windows * WINDOW)
            if repetition:
                best[work] = min(best[work], spent)
    return best[_plain], best[_dialogues] / 2


def _over_stdio(process: subprocess.Popen[bytes]) -> Exchange:
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def exchange(requests: Sequence[bytes]) -> list[bytes]:
        stdin.write(b"\n".join(requests) + b"\n")
        stdin.flush()
        return [stdout.readline() for _ in requests]

    return exchange


def _over_http(port: int) -> Exchange:
    connections = [_connected(port) for _ in range(WINDOW)]
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
    }

    def exchange(requests: Sequence[bytes]) -> list[bytes]:
        for connection, body in zip(connections, requests, strict=True):
            name = "ask" if b'"name": "ask"' in body else "add"
            connection.request("POST", "/mcp", body, {**headers, "Mcp-Name": name})
        return [connection.getresponse().read() for connection in connections]

    return exchange


def _connected(port: int) -> http.client.HTTPConnection:
    deadline = time.monotonic() + 20
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def asking_cpu_us(transport: str, *, windows: int = 60, repetitions: int = 7) -> tuple[float, float]:
    """CPU µs of (a plain call, a round of an ask) over "stdio" or "http", in a fresh server."""
    port = _free_port() if transport == "http" else 0
    command = [sys.executable, str(SERVER), *([str(port)] if port else [])]
    environment = {**TARGETS["redstart"].full_environment(), "REDSTART_KEYS": "0123456789abcdef0123456789abcdef"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            exchange = _over_http(port) if port else _over_stdio(process)
            return _measured(process.pid, exchange, windows, repetitions)
        finally:
            process.kill()


if __name__ == "__main__":
    if os.environ.get("SOURCE"):  # the working copy, and not the snapshot that the bench has made
        TARGETS["redstart"].environment["PYTHONPATH"] = os.environ["SOURCE"]
    for name in sys.argv[1:] or ("stdio", "http"):
        plain, one_round = asking_cpu_us(name)
        print(f"{name}: plain {plain:.1f} µs, round {one_round:.1f} µs, {one_round / plain:.2f} ×")
