"""Does the generator catch wrong answers? A table of lies, each of which must end its leg with these words."""

import sys

from bench import build
from bench.drive import RunFailed, Timing, drive
from bench.legs import Leg, Setup
from bench.messages import HANDSHAKE, MODERN
from bench.targets import Target

LIES = (  # mode of servers/liar.py, transport, what the generator must say; "" where the reply is fine
    ("honest", "stdio", ""),
    ("result-first", "stdio", ""),
    ("chatty", "stdio", ""),
    ("wrong-sum", "stdio", "the result is not"),
    ("wrong-id", "stdio", "is not in flight"),
    ("null-id", "stdio", "without an id"),
    ("twice", "stdio", "is not in flight"),
    ("error", "stdio", "the result is not"),
    ("tool-error", "stdio", "an error"),
    ("gone", "stdio", "closed its output"),
    ("honest", "http", ""),
    ("sse", "http", ""),
    ("wrong-sum", "http", "the result is not"),
    ("status", "http", "HTTP 500"),
    ("gone", "http", "closed a connection"),
)


def _said(mode: str, transport: str) -> str:
    """The first line of the generator's complaint."""
    target = Target(mode, "", lambda: [sys.executable, str(build.SERVERS / "liar.py"), mode])
    window = 1 if transport == "http" else 8
    era = MODERN if transport == "http" else HANDSHAKE
    setup = Setup(mode, transport, era, (Leg(mode, mode, "add", window, requests=400),))
    try:
        run = drive(setup, target, Timing())
    except RunFailed as failure:
        return str(failure).splitlines()[0]
    done = run.legs[mode]["requests"]
    return "" if done == 400 else f"{done} requests instead of 400"


def self_test() -> int:
    """Print one line per lie; 0 if all were seen through."""
    wrong = 0
    for mode, transport, wanted in LIES:
        said = _said(mode, transport)
        good = wanted in said if wanted else not said
        wrong += not good
        print(f"{'ok' if good else 'WRONG':6} {transport:6} {mode:13} {said or 'accepted'}")
    return 1 if wrong else 0
