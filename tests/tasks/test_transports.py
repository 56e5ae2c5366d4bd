"""Tasks over real HTTP, with and without users, and over a real pipe."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from queue import Queue
from typing import Any

import pytest

from support import DEADLINE, MODERN, NOVEMBER, ROOT, free_port, initialize, launch, message, modern
from tasks.clients import EXTENSION, RELATED, TERMINAL
from transports.support import Child

CAPABILITIES = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, **EXTENSION}}
ERAS = [NOVEMBER, MODERN]


class Web:
    """A client of one era over HTTP. Each request has a connection of its own, so that one can wait."""

    def __init__(self, port: int, era: str, token: str | None = None) -> None:
        self.port = port
        self.modern = era == MODERN
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": era,
        }
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
        self.opened: dict[str, Any] = {}
        self._ids = count(1)
        if not self.modern:
            headers, answers = self._send("POST", initialize(elicitation={}))
            self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
            self.opened = answers[-1]["result"]
            self._send("POST", message(None, "notifications/initialized"))

    def _send(self, method: str, body: bytes = b"", **headers: str) -> tuple[http.client.HTTPMessage, list[Any]]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)) as connection:
            connection.request(method, "/mcp", body, {**self.headers, **headers})
            response = connection.getresponse()
            data = response.read()
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            return response.headers, [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {")]
        return response.headers, [json.loads(data)] if data else []

    def request(self, method: str, /, progress: str | None = None, **params: Any) -> dict[str, Any]:
        id, meta = next(self._ids), {} if progress is None else {"progressToken": progress}
        if self.modern:
            names = {"Mcp-Method": method, "Mcp-Name": params.get("name") or params.get("taskId") or ""}
            return self._send("POST", modern(id, method, params, **CAPABILITIES, **meta), **names)[1][-1]  # type: ignore[no-any-return]
        return self._send("POST", message(id, method, {**params, "_meta": meta}))[1][-1]  # type: ignore[no-any-return]

    def start(self, tool: str, progress: str | None = None, **arguments: Any) -> str:
        params: dict[str, Any] = {"name": tool, "arguments": arguments} | ({} if self.modern else {"task": {}})
        result = self.request("tools/call", progress, **params)["result"]
        return str(result["taskId"] if self.modern else result["task"]["taskId"])

    def until(self, id: str, *states: str) -> dict[str, Any]:
        while (task := self.request("tasks/get", taskId=id)["result"])["status"] not in (states or TERMINAL):
            pass
        return task  # type: ignore[no-any-return]

    def open_gate(self, gate: str) -> None:
        assert self.request("tools/call", name="opens", arguments={"gate": gate})["result"]["content"]

    @contextmanager
    def listening(self) -> Iterator[Queue[dict[str, Any]]]:
        """The stream of a session, which a thread reads."""
        queue: Queue[dict[str, Any]] = Queue()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.request("GET", "/mcp", headers={**self.headers, "Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.status == 200

        def read() -> None:
            for line in response:
                if line.startswith(b"data: {"):
                    queue.put(json.loads(line[6:]))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield queue
        finally:
            self.leave()  # which ends the stream
            reader.join(DEADLINE)
            connection.close()

    def leave(self) -> None:
        self._send("DELETE")


@contextmanager
def server(known: str) -> Iterator[int]:
    port = free_port()
    process = launch([sys.executable, "-m", "tasks.jobs_server", str(port), known], port, cwd=ROOT / "tests")
    try:
        yield port
    finally:
        process.terminate()
        process.wait(DEADLINE)


@pytest.fixture(scope="module")
def public() -> Iterator[int]:
    """A server that knows no users."""
    with server("public") as port:
        yield port


@pytest.fixture(scope="module")
def known() -> Iterator[int]:
    """A server with users."""
    with server("known") as port:
        yield port


# ---------------------------------------------------------------- HTTP


@pytest.mark.requirement("130", "132")
@pytest.mark.parametrize("era", ERAS)
def test_a_task_over_http(public: int, era: str) -> None:
    client = Web(public, era)
    id = client.start("waits", gate=era)
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[dict[str, Any]] | None = None
        if era == NOVEMBER:  # its answer comes when the task has ended, and holds up nothing
            waiting = pool.submit(client.request, "tasks/result", taskId=id)
        for _ in range(3):
            assert client.request("tasks/get", taskId=id)["result"]["status"] == "working"
        assert waiting is None or not waiting.done()
        client.open_gate(era)
        if waiting is not None:
            result = waiting.result(DEADLINE)["result"]
            assert result["_meta"][RELATED] == {"taskId": id}
        else:
            result = client.until(id)["result"]
        assert result["content"][0]["text"] == f"{era} is open"


@pytest.mark.requirement("132", "133", "144")
@pytest.mark.parametrize("era", ERAS)
def test_a_busy_task_is_cancelled_over_http(public: int, era: str) -> None:
    client = Web(public, era)
    id = client.start("spins")
    assert client.until(id, "working")["status"] == "working"
    assert "result" in client.request("tasks/cancel", taskId=id)
    assert client.until(id)["status"] == "cancelled"


@pytest.mark.requirement("137", "T76")
def test_tasks_of_callers_that_nobody_knows_are_not_listed(public: int) -> None:
    client = Web(public, NOVEMBER)
    assert client.opened["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    client.start("asks")
    assert client.request("tasks/list")["error"]["code"] == -32601


@pytest.mark.requirement("136", "138", "T73", "T77")
def test_tasks_belong_to_a_user(known: int) -> None:
    ada, bob = Web(known, NOVEMBER, "a"), Web(known, NOVEMBER, "b")
    assert ada.opened["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    id = ada.start("asks")
    listed = ada.request("tasks/list")["result"]["tasks"]
    assert id in [task["taskId"] for task in listed]
    assert id not in [task["taskId"] for task in bob.request("tasks/list")["result"]["tasks"]]
    assert id in [task["taskId"] for task in Web(known, NOVEMBER, "a").request("tasks/list")["result"]["tasks"]]


@pytest.mark.requirement("138", "T77", "T86")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"])
def test_the_task_of_another_user_is_unknown(known: int, era: str, method: str) -> None:
    ada, bob = Web(known, era, "a"), Web(known, era, "b")
    id = ada.start("asks")
    other = bob.request(method, taskId=id, inputResponses={"name": {"action": "accept"}})["error"]
    absent = bob.request(method, taskId="x" * len(id), inputResponses={})["error"]
    assert other == {**absent, "message": absent["message"].replace("x" * len(id), id)}
    assert ada.until(id, "working", "input_required")["taskId"] == id


@pytest.mark.requirement("139", "141", "T69")
def test_a_session_is_told_of_its_tasks_on_its_stream(known: int) -> None:
    client = Web(known, NOVEMBER, "a")
    with client.listening() as stream:
        id = client.start("waits", progress="p", gate="told")
        first = stream.get(timeout=DEADLINE)
        assert (first["method"], first["params"]["progress"]) == ("notifications/progress", 1)
        assert first["params"]["progressToken"] == "p"
        client.open_gate("told")
        notices: list[dict[str, Any]] = []
        while not notices or notices[-1]["method"] != "notifications/tasks/status":
            notices.append(stream.get(timeout=DEADLINE))
        assert [notice["params"]["progress"] for notice in notices[:-1]] == [2]
        assert notices[-1]["params"]["taskId"] == id
        assert notices[-1]["params"]["status"] == "completed"


@pytest.mark.parametrize("known_as", [None, "a"])
def test_a_task_outlives_its_session(public: int, known: int, known_as: str | None) -> None:
    port = public if known_as is None else known
    first = Web(port, NOVEMBER, known_as)
    id = first.start("waits", gate="outlived")
    first.leave()
    second = Web(port, NOVEMBER, known_as)
    assert second.until(id, "working")["status"] == "working"
    second.open_gate("outlived")
    assert second.request("tasks/result", taskId=id)["result"]["content"][0]["text"] == "outlived is open"


@pytest.mark.requirement("138")
def test_eras_of_one_user_keep_apart_over_http(known: int) -> None:
    old, new = Web(known, NOVEMBER, "a"), Web(known, MODERN, "a")
    for one, other in ((old, new), (new, old)):
        assert other.request("tasks/get", taskId=one.start("asks"))["error"]["code"] == -32602


# ---------------------------------------------------------------- a pipe


@contextmanager
def pipe() -> Iterator[Child]:
    with Child(command=[sys.executable, "-m", "tasks.jobs_server", "stdio"], cwd=ROOT / "tests") as child:
        yield child


def answer_to(child: Child, id: Any, others: list[Any]) -> dict[str, Any]:
    """The answer to one request; messages that come before it are kept in `others`."""
    while (answer := child.answer()).get("id") != id:
        others.append(answer)
    return answer  # type: ignore[no-any-return]


@pytest.mark.requirement("130", "139", "141", "T69")
def test_the_result_of_a_task_comes_later_and_out_of_order_on_a_pipe() -> None:
    others: list[Any] = []
    with pipe() as child:
        opened = child.ask(initialize())
        assert opened["result"]["capabilities"]["tasks"]["list"] == {}
        child.write(message(None, "notifications/initialized"))
        params = {"name": "waits", "arguments": {"gate": "g"}, "task": {}, "_meta": {"progressToken": 7}}
        child.write(message(1, "tools/call", params))
        id = answer_to(child, 1, others)["result"]["task"]["taskId"]
        child.write(message(2, "tasks/result", {"taskId": id}))
        for number in range(3, 9):
            child.write(message(number, "tasks/get", {"taskId": id}))
            assert answer_to(child, number, others)["result"]["status"] == "working"
        assert [task["taskId"] for task in child_list(child, others)] == [id]
        child.write(message(10, "tools/call", {"name": "opens", "arguments": {"gate": "g"}}))
        answer_to(child, 10, others)
        result = next((other for other in others if other.get("id") == 2), None) or answer_to(child, 2, others)
        assert result["result"]["_meta"][RELATED] == {"taskId": id}
        assert result["result"]["content"][0]["text"] == "g is open"
        while not [other for other in others if other.get("method") == "notifications/tasks/status"]:
            others.append(child.answer())
        progress = [other["params"] for other in others if other.get("method") == "notifications/progress"]
        assert [(each["progressToken"], each["progress"]) for each in progress] == [(7, 1), (7, 2)]
        assert child.end()[0] == 0


def child_list(child: Child, others: list[Any]) -> list[dict[str, Any]]:
    child.write(message(9, "tasks/list", {}))
    return answer_to(child, 9, others)["result"]["tasks"]  # type: ignore[no-any-return]


@pytest.mark.requirement("132", "144")
def test_a_busy_task_on_a_pipe_leaves_room_for_other_requests() -> None:
    with pipe() as child:
        created = child.ask(modern(1, "tools/call", {"name": "spins", "arguments": {}}, **CAPABILITIES))
        id = created["result"]["taskId"]
        for number in range(2, 12):
            task = child.ask(modern(number, "tasks/get", {"taskId": id}, **CAPABILITIES))
            assert task["result"]["status"] == "working"
        assert child.ask(modern(20, "tasks/cancel", {"taskId": id}, **CAPABILITIES))["result"]["resultType"]
        task = child.ask(modern(21, "tasks/get", {"taskId": id}, **CAPABILITIES))
        assert task["result"]["status"] == "cancelled"
        assert child.end()[0] == 0
