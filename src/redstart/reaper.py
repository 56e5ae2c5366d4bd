"""Ends the children of a server that was killed: `python reaper.py`, started by execution/processes.py.

Reads numbers on stdin: `7` is a process group to end, `-7` one that has ended. The end of the input is the end of the
server. It imports nothing of redstart, so that it starts quickly.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
