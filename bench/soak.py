"""An hour of mixed load over HTTP: does memory stay flat, and is the server as fast at the end as a fresh one?

    python -m bench.soak                        # 60 minutes, about a third of a core; `make soak`
    python -m bench.soak --seconds 60           # `make soak SECONDS=60`, in CI

Clients of both eras (mixed.py) visit one server all the time. In the last sixth of the run a fresh server is started
and gets the same load, and a process of its own sends the same requests to both in turns: the machine disturbs both
alike, so the quotient of their 99th percentiles is the drift. The rules:

- no answer is wrong, and nothing but the errors that the load provokes is logged;
- a line through the memory of the server after the first quarter rises by at most GROWTH until the end;
- at the end it has as many file descriptors, threads and asyncio tasks as after the first quarter, within SLACK;
- p99 is within DRIFT of the fresh server's. A run of less than half an hour has too few samples: it shows the quotient.

Before the clock starts, the server has all of its threads, and remembers as many ended sessions as it ever will.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from pathlib import Path
from statistics import linear_regression
from tempfile import TemporaryFile
from typing import Any

from bench import build, machine
from bench.mixed import DEADLINE, QUICK, VISITS, Visitor

SERVER = Path(__file__).parent / "servers" / "soak_server.py"
RESULTS = Path(__file__).parent / "results"
GROWTH = 2.0  # MiB
SLACK = 10
DRIFT = 1.2
JUDGED = 1800  # seconds of a run from which on the drift is judged
PARTS = 6
ENDED = 10_500  # more ended sessions than a server remembers
USERS = 12
PACE = 0.05  # seconds between two things that a user does
STAY = 20  # things that a user does before another one comes
PROBES = 60  # per second
EXPECTED = re.compile(rb"\s|Traceback|LookupError: no such bird|.*(served at|The tool fail failed)")


class Server:
    """The server in a process of its own, its memory and its CPU."""

    def __init__(self) -> None:
        self.noise = TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen([sys.executable, str(SERVER), "0"], stderr=self.noise)
        self.port = 0

    def __enter__(self) -> Server:
        until = time.monotonic() + DEADLINE
        while (found := re.search(rb"served at http://127.0.0.1:(\d+)/", self.said())) is None:
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the server did not start: {self.said().decode()}")
            time.sleep(0.02)
        self.port = int(found[1])
        return self

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(DEADLINE)
        finally:
            self.process.kill()
            self.noise.close()

    def said(self) -> bytes:
        return os.pread(self.noise.fileno(), 1 << 26, 0)

    def mib(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu(self) -> float:
        """The seconds of CPU that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def held(self) -> dict[str, int]:
        async with Visitor(self.port, True, random.Random()) as visitor:
            result = await visitor.answer("tools/call", name="held", arguments={})
        found: dict[str, int] = result["structuredContent"]
        return found


class Load:
    """Users that visit a server until they are cancelled."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def user(self, port: int, number: int) -> None:
        chance = random.Random(number)
        for turn in count(number):
            doing = "a connection"
            try:
                async with asyncio.timeout(DEADLINE), Visitor(port, bool(turn % 2), chance) as visitor:
                    for _ in range(chance.randrange(1, STAY)):
                        visit = chance.choice(VISITS)
                        doing = f"{visit.__name__}, {'modern' if visitor.modern else 'handshake'}"
                        await visit(visitor)
                        self.done[doing] += 1
                        await asyncio.sleep(chance.uniform(0, 2 * PACE))
            except Exception as error:  # each is reported, and the load goes on
                self.wrong.append(f"{doing}: {type(error).__name__}: {error}")
                await asyncio.sleep(PACE)


# ---------------------------------------------------------------- the probe, a process of its own


async def probe(ports: list[int], seconds: float) -> None:
    """The seconds of each request of QUICK, sent to all servers in turns, and what was wrong; printed as JSON."""
    times: dict[int, list[float]] = {port: [] for port in ports}
    wrong = []
    until = time.monotonic() + seconds
    for turn in count():
        if time.monotonic() > until:
            break
        try:
            async with asyncio.timeout(DEADLINE):
                await probe_once(ports, bool(turn % 2), times)
        except Exception as error:  # each is reported, and the probe goes on
            wrong.append(f"probe: {type(error).__name__}: {error}")
    print(json.dumps({"times": list(times.values()), "wrong": wrong}))


async def probe_once(ports: list[int], modern: bool, times: dict[int, list[float]]) -> None:
    """One visitor of each server. Who is asked first changes with each request."""
    async with AsyncExitStack() as stack:
        visitors = [await stack.enter_async_context(Visitor(port, modern, random.Random())) for port in ports]
        for visit in QUICK * 10:
            visitors.reverse()
            for visitor in visitors:
                began = time.perf_counter()
                await visit(visitor)
                times[visitor.port].append(time.perf_counter() - began)
            await asyncio.sleep(1 / PROBES)


async def probed(servers: list[Server], seconds: float) -> dict[str, Any]:
    """What the probe found; it is another process, so that the load does not delay it."""
    ports = [str(server.port) for server in servers]
    command = [sys.executable, "-m", "bench.soak", "--probe", *ports, "--seconds", str(seconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit("the probe failed")
    found: dict[str, Any] = json.loads(out)
    return found


def quantile(times: list[float], part: float) -> float:
    """In milliseconds."""
    return sorted(times)[int(len(times) * part)] * 1000


# ---------------------------------------------------------------- a run


class Soak:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.load = Load()
        self.samples: list[tuple[float, float]] = []
        self.parts: list[dict[str, Any]] = []
        self.began = time.monotonic()

    async def sample(self, server: Server) -> None:
        """Memory, a few hundred times in a run."""
        while True:
            self.samples.append((round(time.monotonic() - self.began, 1), round(server.mib(), 2)))
            await asyncio.sleep(max(0.25, self.seconds / 360))

    async def run(self) -> dict[str, Any]:
        with ExitStack() as stack:
            server = stack.enter_context(Server())
            await self.burst(server)
            await self.fill(server)
            self.began = time.monotonic()
            background = [asyncio.create_task(self.load.user(server.port, number)) for number in range(USERS)]
            background.append(asyncio.create_task(self.sample(server)))
            part = self.seconds / PARTS
            await self.measure([server], part)
            await asyncio.sleep(self.began + self.seconds / 4 - time.monotonic())
            before = await server.held()
            for number in range(1, PARTS - 1):
                await self.measure([server], self.began + part * (number + 1) - time.monotonic())
            fresh = stack.enter_context(Server())
            background += [asyncio.create_task(self.load.user(fresh.port, number)) for number in range(USERS)]
            await self.burst(fresh)
            await asyncio.sleep(part / 10)  # until all of its code has run once
            await self.measure([server, fresh], self.began + self.seconds - time.monotonic())
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            return self.record(server, fresh, before, await self.calm(server, before))

    async def burst(self, server: Server) -> None:
        """Start all threads of the pool."""

        async def rests() -> None:
            async with Visitor(server.port, True, random.Random()) as visitor:
                await visitor.tool("rest_sync", seconds=0.5)

        await asyncio.gather(*(rests() for _ in range(80)))

    async def fill(self, server: Server) -> None:
        """End more sessions than a server remembers."""

        async def ends(times: int) -> None:
            for number in range(times):
                async with Visitor(server.port, False, random.Random(number)) as visitor:
                    visitor.ends = True

        await asyncio.gather(*(ends(ENDED // 20) for _ in range(20)))

    async def calm(self, server: Server, before: dict[str, int]) -> dict[str, int]:
        """What it holds when the load has gone, but not before calls that were cut off have ended."""
        until = time.monotonic() + DEADLINE
        while (after := await server.held())["tasks"] > before["tasks"] and time.monotonic() < until:
            await asyncio.sleep(0.5)
        return after

    async def measure(self, servers: list[Server], seconds: float) -> None:
        spent, began = [server.cpu() for server in servers], time.monotonic()
        probes = await probed(servers, seconds)
        times = probes["times"]
        self.load.wrong += probes["wrong"]
        took = time.monotonic() - began
        found = {
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "requests": [len(one) for one in times],
            "p50_ms": [round(quantile(one, 0.5), 3) for one in times],
            "p99_ms": [round(quantile(one, 0.99), 3) for one in times],
            "cpu": [round((server.cpu() - one) / took, 3) for server, one in zip(servers, spent, strict=True)],
            "mib": [round(server.mib(), 1) for server in servers],
        }
        self.parts.append(found)
        print(json.dumps(found), flush=True)

    def record(self, server: Server, fresh: Server, before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
        flat = [one for one in self.samples if one[0] >= self.seconds / 4]
        slope, _ = linear_regression(*zip(*flat, strict=True))
        lines = server.said().splitlines() + fresh.said().splitlines()
        own, other = self.parts[-1]["p99_ms"]
        return {
            "machine": machine.facts(),
            "seconds": self.seconds,
            "growth_mib": round(slope * (flat[-1][0] - flat[0][0]), 2),
            "p99_over_fresh": round(own / other, 3),
            "held_after_first_quarter": before,
            "held_at_the_end": after,
            "wrong": self.load.wrong[:20],
            "logged": [line.decode(errors="replace")[:200] for line in lines if line and not EXPECTED.match(line)][:20],
            "done": dict(sorted(self.load.done.items())),
            "parts": self.parts,
            "memory_mib": [mib for _, mib in self.samples[:: max(1, len(self.samples) // 120)]],
        }


def missed(record: dict[str, Any]) -> list[str]:
    """The rules that the run broke."""
    before, after = record["held_after_first_quarter"], record["held_at_the_end"]
    rules = {
        f"{len(record['wrong'])} wrong answers": bool(record["wrong"]),
        f"{len(record['logged'])} lines in the log": bool(record["logged"]),
        f"memory grew by {record['growth_mib']} MiB, and not by {GROWTH} at most": record["growth_mib"] > GROWTH,
        f"p99 is {record['p99_over_fresh']} × that of a fresh server, and not {DRIFT} at most": (
            record["seconds"] >= JUDGED and record["p99_over_fresh"] > DRIFT
        ),
    }
    for name in ("tasks", "fds", "threads"):
        rules[f"{name}: {before[name]} became {after[name]}"] = after[name] > before[name] + SLACK
    return [text for text, broken in rules.items() if broken]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--output", type=Path, help="where the record is written (default results/soak.json if judged)")
    parser.add_argument("--probe", type=int, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        asyncio.run(probe(arguments.probe, arguments.seconds))
        return 0
    record = asyncio.run(Soak(arguments.seconds).run())
    broken = missed(record)
    record["missed"] = broken
    text = json.dumps(record, indent=1)
    text = re.sub(r"\[\s+([\d., \s]+?)\s+\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
    folder = RESULTS if arguments.seconds >= JUDGED else build.GENERATOR.parent
    output = arguments.output or folder / "soak.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text + "\n")
    print(text if broken else json.dumps({name: record[name] for name in ("growth_mib", "p99_over_fresh")}))
    for line in broken:
        print(f"MISSED: {line}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
