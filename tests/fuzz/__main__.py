"""`make fuzz`, or in tests/ `python -m fuzz --messages 1000000 --requests 1000000 --seed 1 --seconds 300 --only http`.

Messages go to the server in memory, to its ASGI application and to a pipe; requests are whole HTTP requests, to the
application and to a socket. A million of each takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from functools import partial

from .arguments import arguments
from .http import http_asgi, http_socket
from .mutate import Mutator
from .targets import Failure, in_memory, over_asgi, over_stdio

SHARES = {
    "messages": ((in_memory, 0.65), (over_asgi, 0.15), (over_stdio, 0.15), (arguments, 0.05)),
    "requests": ((http_asgi, 0.95), (http_socket, 0.05)),
}


def _before(until: float) -> bool:
    return time.monotonic() < until


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="only targets in whose name this stands: http, stdio, …")
    parser.add_argument("--seed", type=int, default=None, help="the same seed sends the same messages")
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    total = 0
    began = time.monotonic()
    plan = [(target, share, getattr(options, kind)) for kind, targets in SHARES.items() for target, share in targets]
    for target, share, count in plan:
        if options.only not in target.__name__:
            continue
        started = time.monotonic()
        until = started + options.seconds * share
        go_on = partial(_before, until)
        try:
            sent = asyncio.run(target(Mutator(seed), int(count * share), go_on))
        except Failure as failure:
            print(f"{target.__name__}: FAILED\n{failure}")
            return 1
        total += sent
        seconds = time.monotonic() - started
        print(f"{target.__name__}: {sent:,} in {seconds:.1f} s, {sent / seconds:,.0f}/s", flush=True)
    seconds = time.monotonic() - began
    print(f"{total:,} messages and requests in {seconds:.1f} s: no crash, no hang, every request answered once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
