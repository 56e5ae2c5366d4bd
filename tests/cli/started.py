"""`python -m redstart` after the imports of its commands: see `warm.redstart`."""

from __future__ import annotations

import os
import runpy
import sys

from redstart import Client, Server
from redstart.cli import parsers

__all__ = ["Client", "Server"]

if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    runpy.run_module("redstart", run_name="__main__", alter_sys=True)
else:
    parsers("*")
