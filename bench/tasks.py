"""Tasks: the round trip of one that does nothing, per store, and how long `tasks/get` takes beside busy ones.

`python -m bench.tasks` runs all of it, `python -m bench.tasks sqlite redis` some stores. "store" is what the store
itself takes: insert, claim, write the result, read it, each side woken by the store. "server" is a call with
`tasks/result` in one process, "stdio" the same from another process. The Redis server writes every change to its disk
(`appendfsync always`), for pydocket too.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from bench import build

TESTS = build.HERE.parent / "tests"
SERVER = build.SERVERS / "task_server.py"
STORES = ("sqlite", "redis", "postgresql")
BUSY = 4
NOVEMBER = "2025-11-25"
Report = Callable[[str, str, float], None]


class WrongAnswer(Exception):
    """A task had another result than its number."""


class NoEngine(Exception):
    """The engine of a store is not on this machine."""


@contextmanager
def engine(name: str) -> Iterator[Callable[[], str]]:
    """A fresh store of this kind: gives URLs, each of an empty namespace."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            numbers = iter(range(1000))
            yield lambda: f"sqlite:///{folder}/{next(numbers)}.db"
        return
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    import pytest

    from store.engines import running  # the engines that the tests start

    try:
        with running(name) as server:
            yield lambda: server.url
    except pytest.skip.Exception as missing:
        raise NoEngine(str(missing)) from None


def p50(times: list[float]) -> float:
    return statistics.median(times)


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


# ---------------------------------------------------------------- the store itself


async def at_the_store(url: str, count: int) -> list[float]:
    """Milliseconds of each round trip: one side inserts and waits for the result, the other one claims and writes."""
    from redstart.store.open import open_store
    from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, topic_of

    client, worker = open_store(url), open_store(url)

    async def work() -> None:
        told = worker.subscribe(CHANGED)
        while True:
            claimed = await worker.task_claim(["queue"], 16, 30)
            for task in claimed:
                task.body += b" done"
                assert await worker.task_write(task, OVERDUE, 300)
            if not claimed:
                await anext(told)

    async def round_trip(number: int) -> None:
        id = f"task{number}"
        told = client.subscribe(topic_of(id))
        await client.task_insert(StoredTask(id, "owner", b"%d" % number), "queue", 10**6, 10**6)
        while True:
            task = await client.task_read(id, "owner")
            if task is not None and task.body.endswith(b"done"):
                break
            await anext(told)
        await told.aclose()
        if task.body != b"%d done" % number:
            raise WrongAnswer(task.body)

    working = asyncio.create_task(work())
    try:
        return await _timed(round_trip, count)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await client.close()
        await worker.close()


async def _timed(round_trip: Callable[[int], Any], count: int) -> list[float]:
    times = []
    for number in range(count + count // 5):
        begin = time.perf_counter()
        await round_trip(number)
        times.append((time.perf_counter() - begin) * 1000)
    return times[count // 5 :]  # the first ones warm up


# ---------------------------------------------------------------- a server in this process


async def in_a_server(url: str, count: int) -> list[float]:
    """A call and its `tasks/result`, with the worker in the same process and loop."""
    from redstart import Server, TaskLimits
    from redstart.transports.memory import MemoryPeer

    server = Server("tasks", store=url, tasks=TaskLimits(per_user=100_000))

    @server.tool(task="required")
    async def nothing(number: int) -> int:
        return number

    answers: dict[Any, asyncio.Future[Any]] = {}

    def arrived(data: bytes) -> None:
        answer = json.loads(data)
        if answer.get("id") in answers:
            answers.pop(answer["id"]).set_result(answer)

    peer = MemoryPeer(server, arrived)

    async def ask(id: Any, method: str, params: dict[str, Any]) -> Any:
        answers[id] = asyncio.get_running_loop().create_future()
        peer.send(_request(id, method, params))
        return (await answers.get(id, asyncio.get_running_loop().create_future()))["result"]

    async def round_trip(number: int) -> None:
        created = await ask(f"c{number}", "tools/call", _call("nothing", number=number))
        result = await ask(f"r{number}", "tasks/result", {"taskId": created["task"]["taskId"]})
        _check(result, number)

    try:
        await ask("open", "initialize", _OPENING)
        peer.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return await _timed(round_trip, count)
    finally:
        await peer.close()
        await server.runtime.stop()


_OPENING = {
    "protocolVersion": NOVEMBER,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def _request(id: Any, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments, "task": {}}


def _check(result: Any, number: int) -> None:
    if result.get("structuredContent") != {"result": number}:
        raise WrongAnswer(str(result)[:300])


# ---------------------------------------------------------------- stdio


class Pipe:
    """A server process on stdio, asked one request at a time."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "TASK_STORE": url}
        if build.SNAPSHOT.exists():
            environment["PYTHONPATH"] = str(build.SNAPSHOT)
        command = [sys.executable, str(SERVER)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._last = 0

    def __enter__(self) -> "Pipe":
        self.ask("initialize", _OPENING)
        self._write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def _write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdout
        self._last += 1
        self._write(_request(self._last, method, params))
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._last:  # else a notification
                return answer["result"]
        raise WrongAnswer("the server has ended")

    def start(self, tool: str, **arguments: Any) -> str:
        return str(self.ask("tools/call", _call(tool, **arguments))["task"]["taskId"])


def over_stdio(url: str, count: int) -> list[float]:
    times = []
    with Pipe(url) as pipe:
        for number in range(count + count // 5):
            begin = time.perf_counter()
            _check(pipe.ask("tasks/result", {"taskId": pipe.start("nothing", number=number)}), number)
            times.append((time.perf_counter() - begin) * 1000)
    return times[count // 5 :]


def beside_busy_tasks(url: str, tool: str, count: int) -> list[float]:
    """Milliseconds of each `tasks/get` while four tasks use the processors."""
    times = []
    with Pipe(url) as pipe:
        ids = [pipe.start(tool, seconds=600) for _ in range(BUSY)]
        time.sleep(2)  # until all of them run, processes too
        for number in range(count):
            begin = time.perf_counter()
            task = pipe.ask("tasks/get", {"taskId": ids[number % BUSY]})
            times.append((time.perf_counter() - begin) * 1000)
            if task["status"] != "working":
                raise WrongAnswer(str(task)[:300])
            time.sleep(0.01)
        for id in ids:
            pipe.ask("tasks/cancel", {"taskId": id})
    return times


# ---------------------------------------------------------------- pydocket


def with_docket(url: str, count: int) -> list[float]:
    plain = url.partition("?")[0]
    command = [str(build.docket_python()), str(build.SERVERS / "docket_round_trips.py"), plain, str(count + count // 5)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise WrongAnswer(done.stderr[-800:])
    times: list[float] = json.loads(done.stdout)
    return times[count // 5 :]


def measure(names: tuple[str, ...], count: int, rounds: int, report: Report) -> None:
    """All numbers, in milliseconds: what is compared follows each other directly."""
    for name in names:
        with engine(name) as url:
            for _ in range(rounds):
                report(f"tasks-{name}", "store", p50(uvloop.run(at_the_store(url(), count))))
                report(f"tasks-{name}", "stdio", p50(over_stdio(url(), count)))
                report(f"tasks-{name}", "server", p50(uvloop.run(in_a_server(url(), count))))
                if name == "redis":
                    report(f"tasks-{name}", "pydocket", p50(with_docket(url(), count)))
            if name != "postgresql":
                report(f"tasks-busy-{name}", "threads", p99(beside_busy_tasks(url(), "spin", 200)))
                report(f"tasks-busy-{name}", "processes", p99(beside_busy_tasks(url(), "spin_apart", 200)))


if __name__ == "__main__":

    def show(probe: str, target: str, value: float) -> None:
        print(f"{probe:22} {target:10} {value:8.2f} ms", flush=True)

    measure(tuple(sys.argv[1:]) or STORES, 300, 3, show)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
