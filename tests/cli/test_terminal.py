"""The command line in a real pseudo-terminal: forms, progress, pictures, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals")

SHOP = str(Path(__file__).with_name("shop.py"))
SECONDS = 30.0
COLOURS = re.compile(r"\x1b\[\d*m")


def typed(words: Sequence[str], keys: Sequence[tuple[str, str]], **env: str) -> tuple[str, int]:
    """Run a command in a terminal. Each time the first text appears, the keys beside it are pressed."""
    child, terminal = pty.fork()
    if child == 0:
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("REDSTART_", "KITTY", "TERM"))
        }
        clean.pop("NO_COLOR", None)
        os.execve(sys.executable, [sys.executable, "-m", "redstart", *words], {**clean, "TERM": "xterm", **env})
    shown, position, script, end = b"", 0, list(keys), time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            while script and (at := shown.find(script[0][0].encode(), position)) >= 0:
                position = at + len(script[0][0].encode())
                os.write(terminal, script.pop(0)[1].encode())
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    more = os.read(terminal, 1 << 16)
                except OSError:  # Linux says so when the other side is closed
                    break
                if not more:
                    break
                shown += more
        else:
            os.kill(child, signal.SIGKILL)
            pytest.fail(f"it did not end: {shown.decode()}")
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    assert not script, f"never asked for {script}: {shown.decode()}"
    return shown.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_a_form_is_filled_in(era: str) -> None:
    keys = [
        ("Which hat?", ""),
        ("> ", "\n"),  # a name is needed
        ("an answer is needed", ""),
        ("> ", "A\n"),
        ("at least 2 characters, not 1", ""),
        ("> ", "Ada\n"),
        ("1  beret", ""),
        ("> ", "fedora\n"),
        ("'fedora' is not one of them", ""),
        ("> ", "2\n"),
        ("a whole number from 1 to 9", ""),
        ("[1] > ", "x\n"),
        ("a whole number, not 'x'", ""),
        ("[1] > ", "12\n"),
        ("a whole number from 1 to 9, not 12", ""),
        ("[1] > ", "3\n"),
        ("[n] > ", "maybe\n"),
        ("true or false, not 'maybe'", ""),
        ("[n] > ", "y\n"),
        ("> ", "9.5\n"),
    ]
    shown, status = typed(["call", SHOP, "order", "--protocol", era], keys)
    assert status == 0
    assert shown.endswith("Ada: 3 bowler gift=True price=9.5\n")
    assert "Who it is for" in shown


def test_what_is_left_out() -> None:
    shown, status = typed(
        ["call", SHOP, "order", "--answer", "name=Ada"],
        [("1  beret", ""), *[("> ", "\n" if n else "beret\n") for n in range(4)]],
    )
    assert status == 0
    assert shown.endswith("Ada: 1 beret gift=False price=None\n")
    assert "Who it is for" not in shown  # it was answered before


def test_choices_and_a_confirmation() -> None:
    shown, status = typed(
        ["call", SHOP, "colours"], [("2  Green", ""), ("> ", "Green\n"), ("Really?", ""), ("> ", "y\n")]
    )
    assert status == 0
    assert shown.endswith("Accepted(data='g') True\n")


def test_ctrl_d_declines() -> None:
    shown, status = typed(["call", SHOP, "order"], [("> ", "\x04")])
    assert (status, shown.endswith("Declined\n")) == (0, True)


def test_ctrl_c_ends_it() -> None:
    shown, status = typed(["call", SHOP, "order"], [("> ", "\x03")])
    assert status == 130
    assert "Traceback" not in shown
    shown, status = typed(["call", SHOP, "forever"], [("waiting", "\x03")])
    assert status == 130
    assert "Traceback" not in shown


def test_progress_is_one_line_that_goes() -> None:
    shown, status = typed(["call", SHOP, "slow", "n=4"], [])
    assert status == 0
    assert re.search(r"██████░{18}   25%  step 1  \d+:\d\d", shown)
    assert "100%  step 4" in shown
    assert shown.endswith("\r\x1b[Kdone\n")  # the line is gone before the result comes
    assert "\r\x1b[Kwritten to stderr\n" in shown  # above the line, not behind it


def test_colours_and_none() -> None:
    shown, _ = typed(["list", SHOP], [])
    assert "\x1b[1mTools\x1b[0m" in shown
    plain, _ = typed(["list", SHOP], [], NO_COLOR="1")
    assert "\x1b" not in plain
    assert COLOURS.sub("", shown) == plain


ODD = """
from typing import Literal
from redstart import Server
server = Server("odd")
@server.tool
def choose(choice: Literal["red\\x1b[31m", "b"]) -> str:
    return choice
@server.resource("odd://picture", mime_type="image/odd\\x1b[31m")
def picture() -> bytes:
    return b"odd"
"""


def test_a_server_cannot_control_the_terminal(tmp_path: Path) -> None:
    (odd := tmp_path / "odd.py").write_text(ODD)
    shown, _ = typed(["call", SHOP, "escape"], [])
    assert shown == "red\\x1b[31m\\u202e\n"
    for words in (["call", str(odd), "choose", "choice=x"], ["read", str(odd), "odd://picture"]):  # in an error
        shown, status = typed(words, [], NO_COLOR="1")
        assert status == 2
        assert "\\x1b[31m" in shown
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("env", "start"),
    [
        ({"KITTY_WINDOW_ID": "1"}, "\x1b_Ga=T,f=100,m=0;iVBORw0KGgo"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]1337;File=inline=1;size=264:iVBORw0KGgo"),
    ],
)
def test_pictures_where_the_terminal_can(env: dict[str, str], start: str) -> None:
    shown, _ = typed(["call", SHOP, "picture"], [], **env)
    assert shown.startswith("here\n" + start)
    shown, _ = typed(["call", SHOP, "picture"], [])
    assert shown == "here\n[image: image/png, 264 bytes; --save FILE keeps it]\n"


def test_bytes_are_not_for_a_terminal() -> None:
    shown, status = typed(["read", SHOP, "shop://logo"], [])
    assert (status, shown) == (
        2,
        "redstart: image/png, 264 bytes: not for a terminal; write --output FILE, or send it into a pipe\n",
    )


def test_a_server_that_waits_for_a_client_says_so() -> None:
    shown, status = typed(["run", SHOP], [("waiting for an MCP client on stdin", "\x04")])
    assert status == 0
    assert "redstart call" in shown
