"""What a hello server on stdio imports before it answers, and how much of its start that takes.

    python -m bench.startup             # the figures, of the least disturbed of 9 starts
    python -m bench.startup --list      # also our modules, and those of the standard library that we alone need

`-X importtime` writes a line for each import, the inner ones first, so that the lines tell who imported whom. What
`import asyncio, msgspec, uvloop` loads anyway is not counted as ours. Writing the lines takes time, so the times are
for comparing parts of one start; the leg `cold-start` measures a whole one.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bench import build
from bench.probes import ProbeFailed
from bench.targets import TARGETS

HELLO = """
from redstart.server.server import Server

server = Server("hello")


@server.tool
def hello(name: str) -> str:
    return f"Hello {name}"


server.run()
"""
"""Not `from redstart import Server`, which loads the same modules, but by `importlib`, so that there are no lines of
some of them."""
GIVEN = "import asyncio, msgspec, uvloop"
"""What every server needs, whatever we import."""
INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
CALL = {"method": "tools/call", "params": {"name": "hello", "arguments": {"name": "Ada"}}}
LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \|( +)(\S+)")
ROUNDS = 9


@dataclass
class Import:
    """One module: what its own code took, and who was the first to import it."""

    name: str
    own_us: int
    parents: list[str] = field(default_factory=list)
    """From the module that imports it outwards."""


@dataclass
class Startup:
    """What several starts of the hello server have in common; times are those of the least disturbed start."""

    imports: list[Import]
    """Until `initialize` is answered."""
    later: list[str]
    """Those that the first call needs."""
    given: set[str]
    ms: float
    """CPU from the spawn to the answer."""

    @property
    def ours(self) -> list[Import]:
        return [each for each in self.imports if is_ours(each.name)]

    @property
    def standard(self) -> list[Import]:
        """Modules of the standard library that are loaded because of our code alone."""
        return [each for each in self.imports if each.name not in self.given and because_of_us(each)]

    @property
    def share(self) -> float:
        """Our part of the start, in per cent: our own modules and what they alone import."""
        return 100 * (total_ms(self.ours) + total_ms(self.standard)) / self.ms


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "redstart"


def because_of_us(each: Import) -> bool:
    return each.name.partition(".")[0] in sys.stdlib_module_names and any(map(is_ours, each.parents))


def total_ms(imports: list[Import]) -> float:
    return sum(each.own_us for each in imports) / 1e3


def importer(each: Import) -> str:
    """The innermost module of ours that caused the import."""
    return next(filter(is_ours, each.parents))


def parsed(lines: str) -> list[Import]:
    """The imports of a process. The inner ones come first, indented by two more spaces."""
    imports: list[Import] = []
    open_at: dict[int, list[Import]] = {}
    for own, _, indent, name in LINE.findall(lines):
        level = len(indent) // 2
        each = Import(name, int(own))
        inner = [deeper for depth in [*open_at] if depth > level for deeper in open_at.pop(depth)]
        for one in inner:
            one.parents.append(name)
        open_at.setdefault(level, []).extend([each, *inner] if level else [each])
        imports.append(each)
    return imports


def _given() -> set[str]:
    """The modules that any program on these libraries has loaded."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", GIVEN], capture_output=True, text=True, timeout=60, check=True
    )
    return {each.name for each in parsed(done.stderr)}


def measure(rounds: int = ROUNDS) -> Startup:
    """Start the server several times; `build.snapshot()` comes before."""
    starts = [_start() for _ in range(rounds + 1)][1:]  # the first one writes bytecode
    imports, after = parsed(starts[0][0]), parsed(starts[0][1])
    least: dict[str, int] = {}
    for lines, _, _ in starts:
        for each in parsed(lines):
            least[each.name] = min(each.own_us, least.get(each.name, each.own_us))
    for each in imports:
        each.own_us = least[each.name]
    known = {each.name for each in imports}
    later = [each.name for each in after if each.name not in known]
    return Startup(imports, later, _given(), min(ms for _, _, ms in starts))


def _start() -> tuple[str, str, float]:
    """Start the server, initialize it, call its tool, and end it: the imports until each answer, and milliseconds."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/imports", "w+b") as lines:
        file = f"{folder}/hello.py"
        with open(file, "w") as script:
            script.write(HELLO)
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", file],
            env=TARGETS["redstart"].full_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=lines,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _ask(process.stdin, process.stdout, 1, INITIALIZE)
            ms = _cpu_ms(process.pid)
            until_answer = _written(lines)
            process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            _ask(process.stdin, process.stdout, 2, CALL)
            return until_answer, _written(lines), ms
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait(20)


def _ask(stdin: BinaryIO, stdout: BinaryIO, id: int, request: dict[str, object]) -> None:
    stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, **request}).encode() + b"\n")
    stdin.flush()
    answer = json.loads(stdout.readline() or b"{}")
    if answer.get("id") != id or "result" not in answer:
        raise ProbeFailed(f"{request['method']} was answered with {answer}")


def _cpu_ms(pid: int) -> float:
    """What the main thread of a process has used; a busy machine disturbs it less than the time on the clock."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def _written(lines: BinaryIO) -> str:
    lines.seek(0)
    return lines.read().decode()


def _print_modules(startup: Startup) -> None:
    print("\nour modules, by the time that their own code takes:")
    for each in sorted(startup.ours, key=lambda each: -each.own_us):
        print(f"  {each.own_us / 1e3:6.2f} ms  {each.name}")
    print("\nmodules of the standard library that only our code needs, and the module that imports them first:")
    for each in sorted(startup.standard, key=lambda each: -each.own_us):
        print(f"  {each.own_us / 1e3:6.2f} ms  {each.name:32} {importer(each)}")
    print(f"\nloaded by the first call: {', '.join(startup.later) or 'nothing'}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--list", action="store_true", help="name the modules")
    arguments = parser.parse_args()
    build.snapshot()
    startup = measure(arguments.rounds)
    for text, imports in (
        ("our modules", startup.ours),
        ("standard library, for us alone", startup.standard),
        ("all imports", startup.imports),
    ):
        print(f"{text:32} {len(imports):5} modules {total_ms(imports):8.1f} ms")
    print(f"{'CPU from spawn to answer':32} {startup.ms:22.1f} ms")
    print(f"{'our share of it':32} {startup.share:22.1f} %")
    if arguments.list:
        _print_modules(startup)


if __name__ == "__main__":
    main()
