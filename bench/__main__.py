"""Run the benchmarks: every target interleaved in one go, then a table, a chart and the verdicts.

Within a round the targets of a setup follow each other directly, so a ratio compares neighbours in time;
across rounds the order turns, so nobody always runs first.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from bench import asking, build, inspecting, machine, probes, startup, tasks
from bench.bars import judge
from bench.chart import svg
from bench.drive import Run, RunFailed, Timing, drive
from bench.legs import ALL, MEMORY, SCALE, SOAK, SPEED, Setup
from bench.messages import HANDSHAKE
from bench.report import markdown
from bench.results import Results
from bench.selftest import self_test
from bench.targets import TARGETS

COLD_START = Setup("cold-start", "stdio", HANDSHAKE, (), ALL)
RESULTS = Path(__file__).parent / "results"
NAMES = [setup.name for setup in (*SPEED, *SCALE, *MEMORY, COLD_START)]
NAMES += ["import", "startup", "registration", "jwt", "asking", "inspector", "tasks", "soak"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of every leg (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short round, in under three minutes")
    parser.add_argument("--soak", action="store_true", help="also 1,000,000 calls on stdio")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"only these: {', '.join(NAMES)}")
    parser.add_argument(
        "--without", action="append", default=[], choices=TARGETS, help="leave out a target and its variants"
    )
    parser.add_argument("--self-test", action="store_true", help="show that the generator catches wrong answers")
    parser.add_argument("--pin", default="", metavar="0,1", help="pin the server and the generator to a core each")
    parser.add_argument(
        "--output", type=Path, help="where the results go (default bench/results; bench/build if --quick or --only)"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.only or ()) - set(NAMES) - {leg.name for setup in SPEED for leg in setup.legs}
    if unknown:
        parser.error(f"no such leg: {', '.join(sorted(unknown))}")
    if not arguments.output:  # what is committed is always a whole run
        arguments.output = build.GENERATOR.parent if arguments.quick or arguments.only else RESULTS
    return arguments


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.quick: bool = arguments.quick
        self.rounds = 1 if self.quick else arguments.rounds
        self.timing = Timing(0.3, 0.3, 0.9) if self.quick else Timing()
        self.timing.pin = arguments.pin
        self.results = Results(facts=machine.facts())

    def selected(self, setup: Setup) -> Setup | None:
        """The setup with the legs that were asked for, None if there are none."""
        only = self.arguments.only
        if not only or setup.name in only:
            return setup
        legs = tuple(leg for leg in setup.legs if leg.name in only)
        return replace(setup, legs=legs) if legs else None

    def targets(self, names: Iterable[str]) -> list[str]:
        """Those that were not left out; the variants of a target (mcp-sse) go with it."""
        without = self.arguments.without
        return [name for name in names if name not in without and name.split("-")[0] not in without]

    def run(self) -> None:
        begin = time.monotonic()
        for number in range(self.rounds):
            for setup in (*SPEED, *SCALE):
                self.measure(setup, number)
        for setup in MEMORY:
            self.measure(setup, 0)
        if self.arguments.soak or "soak" in (self.arguments.only or ()):
            self.measure(SOAK, 0)
        for number in range(3 if self.quick else 11):
            self.measure(COLD_START, number)
        self.probe("import", probes.IMPORTS, probes.import_cpu_ms, 3 if self.quick else 7)
        self.probe("registration", probes.REGISTRATION_TARGETS, probes.registration_cpu_ms, 1 if self.quick else 3)
        self.probe("jwt", ("redstart",), probes.jwt_cpu_us, 1 if self.quick else 3, "µs")
        if "redstart" not in self.arguments.without and "startup" in (self.arguments.only or ("startup",)):
            self.count_imports(3 if self.quick else startup.ROUNDS)
        if "redstart" not in self.arguments.without and "asking" in (self.arguments.only or ("asking",)):
            self.ask(1 if self.quick else 5)
        if "redstart" not in self.arguments.without and "inspector" in (self.arguments.only or ("inspector",)):
            self.inspect(3 if self.quick else 12)
        if "redstart" not in self.arguments.without and "tasks" in (self.arguments.only or ("tasks",)):
            self.run_tasks(1 if self.quick else 5)
        self.results.facts |= {
            "load_after": machine.load_average(),
            "rounds": self.rounds,
            "quick": self.quick,
            "pin": self.timing.pin,
            "seconds": time.monotonic() - begin,
        }

    def measure(self, whole: Setup, number: int) -> None:
        """One round of a setup: each target in a fresh process."""
        setup = self.selected(whole)
        if not setup:
            return
        names = self.targets(setup.targets)
        turn = number % len(names) if names else 0
        for name in names[turn:] + names[:turn]:
            try:
                run = drive(setup, TARGETS[name], self.timing)
            except RunFailed as error:
                self.failed(setup.name, name, error)
                continue
            self.keep(setup, name, number, run)

    def keep(self, setup: Setup, name: str, number: int, run: Run) -> None:
        if setup is COLD_START:
            self.results.add_number("cold-start", name, run.start["start_ms"])
            print(f"round {number + 1:2} cold start {name:17} {run.start['start_ms']:9.1f} ms", flush=True)
        if setup in MEMORY:
            self.results.add_number(f"rss-{setup.transport}", name, run.start["rss_mib"])
        for leg, record in run.legs.items():
            self.results.add_leg(leg, name, {"round": number, **record})
            pace = "void" if record["void"] else f"{record['rate']:10,.0f}/s {record['server_cpu_us']:9.1f} µs CPU"
            print(f"round {number + 1:2} {leg:18} {name:17} {pace}  {record['rss_mib']:6.1f} MiB", flush=True)

    def probe(
        self, what: str, names: Iterable[str], measure: Callable[[str], float], repetitions: int, unit: str = "ms"
    ) -> None:
        if self.arguments.only and what not in self.arguments.only:
            return
        names = self.targets(names)
        for number in range(repetitions):
            for name in names:
                try:
                    value = measure(name)
                except probes.ProbeFailed as error:
                    self.failed(what, name, error)
                    continue
                self.results.add_number(what, name, value)
                print(f"round {number + 1:2} {what:18} {name:17} {value:9.1f} {unit} CPU", flush=True)

    def count_imports(self, rounds: int) -> None:
        """What a hello server imports, and our share of its start."""
        try:
            found = startup.measure(rounds)
        except (probes.ProbeFailed, OSError, ValueError, subprocess.SubprocessError) as error:
            self.failed("startup", "redstart", error)
            return
        for name, imports in (("redstart", found.ours), ("standard library, for us alone", found.standard)):
            self.results.add_number("startup", name, len(imports))
            print(f"startup {name:34} {len(imports):4} modules {startup.total_ms(imports):8.1f} ms", flush=True)
        self.results.add_number("startup-share", "redstart", found.share)
        print(f"startup {'our share of it':34} {found.share:21.1f} %", flush=True)

    def ask(self, repetitions: int) -> None:
        """What one round of a question costs, beside a plain call in the same process."""
        for number in range(repetitions):
            for transport in ("stdio", "http"):
                try:
                    found = asking.asking_cpu_us(transport)
                except (asking.WrongAnswer, OSError, ValueError, KeyError) as error:
                    self.failed("asking", "redstart", error)
                    continue
                for name, value in zip(("plain call", "round"), found, strict=True):
                    self.results.add_number(f"asking-{transport}", name, value)
                    print(f"round {number + 1:2} asking-{transport:11} {name:17} {value:9.1f} µs CPU", flush=True)

    def inspect(self, slices: int) -> None:
        """What a call costs with the inspector, beside the same without it."""
        try:
            pairs = inspecting.counted(inspecting.measure(slices))
        except (inspecting.WrongAnswer, OSError) as error:
            self.failed("inspector", "redstart", error)
            return
        for pair in pairs:
            for name, one in pair.items():
                self.results.add_number("inspector", name, one.cpu_us)
                print(f"inspector {name:17} {one.rate:10,.0f}/s {one.cpu_us:9.1f} µs CPU", flush=True)

    def run_tasks(self, rounds: int) -> None:
        """Round trips of tasks on each store, and `tasks/get` beside busy ones."""

        def report(probe: str, target: str, value: float) -> None:
            self.results.add_number(probe, target, value)
            print(f"{probe:26} {target:17} {value:9.2f} ms", flush=True)

        for store in tasks.STORES:
            try:
                tasks.measure((store,), 100 if self.quick else 300, rounds, report)
            except (tasks.WrongAnswer, tasks.NoEngine, build.Missing, OSError, ValueError, KeyError) as error:
                self.failed("tasks", store, error)

    def failed(self, where: str, name: str, error: Exception) -> None:
        self.results.add_failure(where, name, error)
        print(f"FAILED {where} {name}: {error}", flush=True)


def _write(results: Results, folder: Path) -> bool:
    """Write the three files and print the bars; True if nothing failed. A quick run judges nobody."""
    verdicts = judge(results)
    text = markdown(results, verdicts)
    folder.mkdir(parents=True, exist_ok=True)
    record = {**results.as_json(), "bars": [[v.bar.text, v.bar.wanted, v.measured, v.word] for v in verdicts]}
    (folder / "latest.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / "latest.md").write_text(text)
    (folder / "latest.svg").write_text(svg(results))
    print()
    for verdict in verdicts:
        print(f"{verdict.word:8} {verdict.measured:>21}  (wanted {verdict.bar.wanted})  {verdict.bar.text}")
    missed = any(verdict.word == "FAIL" for verdict in verdicts)
    return not results.failures and (results.facts["quick"] or not missed)


def main() -> int:
    arguments = _arguments()
    try:
        build.generator()
        if arguments.self_test:
            return self_test()
        if "redstart" not in arguments.without:
            build.snapshot()
        if "typescript" not in arguments.without:
            build.node(), build.typescript_server()
    except build.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    bench = Bench(arguments)
    bench.run()
    return 0 if _write(bench.results, arguments.output) else 1


if __name__ == "__main__":
    sys.exit(main())
