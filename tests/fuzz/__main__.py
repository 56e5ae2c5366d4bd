"""`python -m tests.fuzz --messages 1000000 --seed 1 --seconds 300`, or `make fuzz`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from functools import partial

from .arguments import arguments
from .mutate import Mutator
from .targets import Failure, in_memory, over_asgi, over_stdio

SHARES = ((in_memory, 0.65), (over_asgi, 0.15), (over_stdio, 0.15), (arguments, 0.05))


def _before(until: float) -> bool:
    return time.monotonic() < until


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="the same seed sends the same messages")
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    total = 0
    began = time.monotonic()
    for target, share in SHARES:
        started = time.monotonic()
        until = started + options.seconds * share
        go_on = partial(_before, until)
        try:
            sent = asyncio.run(target(Mutator(seed), int(options.messages * share), go_on))
        except Failure as failure:
            print(f"{target.__name__}: FAILED\n{failure}")
            return 1
        total += sent
        seconds = time.monotonic() - started
        print(f"{target.__name__}: {sent:,} messages in {seconds:.1f} s, {sent / seconds:,.0f}/s", flush=True)
    print(f"{total:,} messages in {time.monotonic() - began:.1f} s: no crash, no hang, every request answered once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
