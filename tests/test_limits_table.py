"""The table of limits in the docs is the one that the code makes, and has every option that is a limit."""

from __future__ import annotations

import re
import runpy

from redstart.transports.http_options import HttpOptions
from support import ROOT

limits = runpy.run_path(str(ROOT / "scripts" / "limits.py"))
LIMIT = re.compile(r"max_|.*_deadline$|.*_idle$|.*rate_limits?$|drain$")


def test_the_page_has_the_table_of_now() -> None:
    assert limits["PAGE"].read_text() == limits["page"](), "run: python scripts/limits.py"


def test_every_option_that_is_a_limit_is_in_it() -> None:
    named = {option for _, _, option in limits["ROWS"] if option}
    assert named == {name for name in HttpOptions.__annotations__ if LIMIT.match(name)} | {"max_depth"}


def test_what_stands_in_it_is_the_value_of_the_code() -> None:
    rows = limits["table"]()
    assert "| the body of a request | 4 MiB, else 413 | `max_body_bytes` |" in rows
    assert "`body_deadline`, `run` only |" in rows
    assert "{" not in rows
