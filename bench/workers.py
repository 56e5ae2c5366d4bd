"""`python -m bench.workers redis://…`: what a second process brings, for a tool that costs 300 µs of CPU.

The runs with one and with two processes alternate. Modern era, HTTP, 16 requests in flight on as many connections. On a
machine that does other work, the processes wait for a core: the ratio "without waits" leaves this time out.
"""

import os
import statistics
import sys
from pathlib import Path

from bench.drive import Timing, drive
from bench.legs import Leg, Setup
from bench.messages import MODERN
from bench.targets import Target

SERVER = Path(__file__).parent / "servers" / "busy_server.py"
PAIRS = 5


class Workers(Target):
    """Our own command line, with so many processes."""

    def command(self, *, port: int = 0, tools: int = 1) -> list[str]:
        return [*self.start(), *self.arguments, "--port", str(port)]


def measure(store: str, count: int) -> tuple[float, float, float]:
    """With so many processes: requests a second, the same without the time that they wait for a core, CPU in µs."""
    options = ("--http", "--store", store, "--workers", str(count))
    command = [sys.executable, "-m", "redstart", "run", str(SERVER)]
    target = Workers("redstart", "", lambda: command, options, {"PYTHONPATH": ""})
    setup = Setup("workers", "http", MODERN, (Leg("add", "a tool of 300 µs", "add", 16),), tools=1)
    leg = drive(setup, target, Timing(measure=2)).legs["add"]
    return leg["rate"], leg["rate"] / (1 - leg["waited"] / count), leg["server_cpu_us"]


def main() -> None:
    [store] = sys.argv[1:]
    ratios, without_waits = [], []
    for _ in range(PAIRS):
        one, two = measure(store, 1), measure(store, 2)
        ratios.append(two[0] / one[0])
        without_waits.append(two[1] / one[1])
        both = (
            f"{one[0]:.0f}/s and {one[2]:.0f} µs of CPU with one process, {two[0]:.0f}/s and {two[2]:.0f} µs with two"
        )
        sys.stdout.write(f"{both}: {ratios[-1]:.2f} times, {without_waits[-1]:.2f} without waits\n")
    median = f"{statistics.median(ratios):.2f} times, {statistics.median(without_waits):.2f} without waits"
    sys.stdout.write(f"median {median}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
