"""Pull the plug, many times: `python -m tasks.torture --store sqlite` (in tests/, see `make torture`).

Tasks are accepted by this process and run by three workers, one of which is killed every 0.7 s; the engine itself is
killed once. Then: no task is lost, the ones that are safe to repeat are completed, no leg of another one runs twice,
and what a dead worker held is failed or begun anew in time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from store.engines import Engine, running
from support import MODERN, Peer

HERE = Path(__file__).parent
WORKERS = 3
EVERY = 0.7
KILLS = 3
"""How many workers are killed at least."""
GRACE = 5.0
TOOLS = ("safe", "unsafe", "asks")
TERMINAL = ("completed", "failed", "cancelled")
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


class Torture:
    """One run against one store."""

    def __init__(self, store: str, engine: Engine | None, tasks: int, lease: float, seed: int) -> None:
        self.store = store
        self.engine = engine
        self.count = tasks
        self.lease = lease
        self.random = random.Random(seed)
        self.effects = Path(tempfile.mkdtemp()) / "effects"
        self.effects.touch()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.killed: dict[int, float] = {}
        """When a worker was killed, by its process id."""
        self.away: list[tuple[float, float]] = []
        """When the engine was away."""

    def start_worker(self) -> None:
        command = [sys.executable, str(HERE / "torture_server.py"), self.store, str(self.effects), str(self.lease)]
        self.workers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def kill_worker(self) -> None:
        worker = self.random.choice(self.workers)
        self.workers.remove(worker)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        self.killed[worker.pid] = time.time()
        self.start_worker()

    async def run(self) -> dict[str, Any]:
        for _ in range(WORKERS):
            self.start_worker()
        try:
            return await self._run()
        finally:
            for worker in self.workers:
                worker.kill()
                worker.wait()

    async def _run(self) -> dict[str, Any]:
        sys.argv[1:4] = [self.store, str(self.effects), str(self.lease)]
        from tasks import torture_server

        torture_server.STORE, torture_server.EFFECTS = self.store, str(self.effects)
        torture_server.LEASE = str(self.lease)
        server = torture_server.make_server(concurrent=0)
        await server.runtime.start()
        peer = await Peer(server, MODERN, capabilities=CAPABILITIES).open()
        ids: dict[str, str] = {}
        plug = asyncio.create_task(self._pull_the_plug())
        began = time.monotonic()
        for number in itertools.count():
            if number >= self.count and self._has_been_hurt():
                break
            tool = TOOLS[number % len(TOOLS)]
            task = await self._insist(peer, "tools/call", name=tool, arguments={"seconds": self.random.uniform(0, 0.1)})
            ids[task["taskId"]] = tool
        ended: dict[str, dict[str, Any]] = {}
        while len(ended) < len(ids):
            for id in ids.keys() - ended.keys():
                task = await self._insist(peer, "tasks/get", taskId=id)
                if task["status"] in TERMINAL:
                    ended[id] = task
                elif task["status"] == "input_required":
                    answers = {key: {"action": "accept", "content": {"answer": True}} for key in task["inputRequests"]}
                    await self._insist(peer, "tasks/update", taskId=id, inputResponses=answers)
            assert time.monotonic() - began < 200, f"{len(ids) - len(ended)} tasks do not end"
        plug.cancel()
        seconds = time.monotonic() - began
        await peer.close()
        await server.runtime.stop()
        return {**self._judge(ids, ended), "seconds": round(seconds, 1)}

    def _has_been_hurt(self) -> bool:
        """Whether enough was killed: a fast machine is done with a few tasks before that."""
        return len(self.killed) >= KILLS and (self.engine is None or bool(self.away))

    async def _insist(self, peer: Peer, method: str, **params: Any) -> dict[str, Any]:
        """Ask until the store is there."""
        while True:
            answer = await peer.call(method, **params)
            if "result" in answer:
                result: dict[str, Any] = answer["result"]
                return result
            assert "is away" in answer["error"]["message"], answer
            await asyncio.sleep(0.1)

    async def _pull_the_plug(self) -> None:
        for turn in range(10_000):
            await asyncio.sleep(EVERY)
            self.kill_worker()
            if self.engine is not None and not self.away and turn >= self.count // 250:
                gone = time.time()
                self.engine.kill()
                await asyncio.sleep(0.5)
                await asyncio.to_thread(self.engine.start)
                self.away.append((gone, time.time()))

    # ------------------------------------------------------------ judging

    def _judge(self, ids: dict[str, str], ended: dict[str, dict[str, Any]]) -> dict[str, Any]:
        legs: dict[tuple[str, str], list[tuple[str, int, float]]] = defaultdict(list)
        for line in self.effects.read_text().splitlines():
            word, id, leg, pid, at = line.split()
            legs[id, leg].append((word, int(pid), float(at)))
        outcomes = Counter((tool, ended[id]["status"]) for id, tool in ids.items())
        assert outcomes["safe", "completed"] == sum(tool == "safe" for tool in ids.values()), outcomes
        late = []
        for (id, leg), lines in legs.items():
            begun = [line for line in lines if line[0] == "began"]
            if leg != "safe":
                assert len(begun) == 1, f"a leg ran twice: {ids[id]} {leg} {lines}"
        for id, task in ended.items():
            if task["status"] == "completed":
                continue
            assert task["status"] == "failed"
            assert task["error"].get("data") == {"reason": "worker lost"}, task
            lines = [line for leg in ("unsafe", "step", "answered") for line in legs.get((id, leg), ())]
            # A leg whose worker died before the first line of the handler is not known here.
            workers = {pid for word, pid, _ in lines[-1:] if word == "began"}
            assert workers <= self.killed.keys(), f"a task failed whose worker lives: {task}"
            late += [self._delay(self.killed[pid], _seconds(task["lastUpdatedAt"])) for pid in workers]
        assert not late or max(late) <= self.lease + GRACE, f"{max(late):.1f} s after the death of its worker"
        shown = {f"{tool} {status}": count for (tool, status), count in sorted(outcomes.items())}
        return {
            **shown,
            "kills": len(self.killed),
            "engine kills": len(self.away),
            "latest": round(max(late, default=0), 1),
        }

    def _delay(self, since: float, until: float) -> float:
        """The seconds between two times, without those in which the engine was away."""
        gone = sum(max(0.0, min(until, end) - max(since, begin)) for begin, end in self.away)
        return until - since - gone


def _seconds(stamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp()


def torture(name: str, tasks: int, lease: float, seed: int, engine_dies: bool = True) -> dict[str, Any]:
    """Run it against a fresh store of this engine."""
    with ExitStack() as stack:
        if name == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            return asyncio.run(Torture(f"sqlite:///{folder}/tasks.db", None, tasks, lease, seed).run())
        engine = stack.enter_context(running(name))
        return asyncio.run(Torture(engine.url, engine if engine_dies else None, tasks, lease, seed).run())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "redis", "postgresql"], action="append")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    sys.argv[1:] = []
    for name in options.store or ["sqlite", "redis", "postgresql"]:
        print(name, "seed", options.seed, torture(name, options.tasks, options.lease, options.seed), flush=True)
