"""`python -m tests.faults`, or `make faults`: what a well-behaved client notices while others misbehave.

A real server is attacked in six ways, one after the other. Its memory must stay under 300 MiB, and the 99th percentile
of a good client's calls within three times of what it is when nobody else is there: the median of some rounds each,
because a machine has other things to do. It takes about a minute and ends by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from statistics import median

from .attacks import ATTACKS, Client, modern_call
from .running import MAX_BYTES, attacked, peak, serving

FACTOR = 3.0
PACE = 0.005
CALM = "undisturbed"


def p99(port: int, until: float) -> float:
    """The 99th percentile of the times of calls, in seconds."""
    times = []
    request = modern_call("echo", text="x")
    with Client(port) as client:
        while time.monotonic() < until:
            began = time.perf_counter()
            status, _, _ = client.ask(request)
            times.append(time.perf_counter() - began)
            assert status == 200, status
            time.sleep(PACE)
    return sorted(times)[int(len(times) * 0.99)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.6, help="how long each attack goes on, in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in ATTACKS}
    peaks: dict[str, int] = {}
    struck: Counter[str] = Counter()
    with serving() as (process, port, _):
        p99(port, time.monotonic() + 1)  # warm
        for _ in range(options.rounds):
            for name, found in times.items():
                with attacked(name, port, options.seconds) as attacker:
                    found.append(p99(port, time.monotonic() + options.seconds))
                struck[name] += attacker.struck
                peaks[name] = peak(process)
    calm = median(times[CALM])
    bad = [name for name, found in times.items() if median(found) > FACTOR * calm or peaks[name] > MAX_BYTES]
    for name, found in times.items():
        rounds = ", ".join(f"{one * 1000:.1f}" for one in found)
        print(
            f"{name:>16}: p99 {median(found) * 1000:6.1f} ms ({rounds}), {median(found) / calm:4.1f} x, "
            f"peak {peaks[name] >> 20} MiB, {struck[name]} strikes{'  FAILED' if name in bad else ''}"
        )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
