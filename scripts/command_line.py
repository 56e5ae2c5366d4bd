"""The reference part of docs/command-line.md, made from the parsers: `python scripts/command_line.py` writes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from redstart.cli import COMMANDS, parsers

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
BEGIN = "<!-- made from the parsers by scripts/command_line.py -->\n"


def reference() -> str:
    """Every command with its options. Not as argparse prints them, which differs between versions of Python."""
    _, commands = parsers("*")
    parts = []
    for name, text in COMMANDS.items():
        rows = [row for action in commands[name]._actions if (row := _row(action))]
        parts.append(
            f"### redstart {name}\n\n{text[0].upper()}{text[1:]}.\n\n| | |\n|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _row(action: argparse.Action) -> str:
    if action.help == argparse.SUPPRESS or action.dest in ("help", "version"):
        return ""
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {_value(action)}"
        head = ", ".join(f"`{name}{value}`" for name in action.option_strings)
    else:
        head = f"`{_value(action)}`"
    text = (action.help or "").replace("|", "\\|").replace("%%", "%")
    return f"| {head} | {text} |"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "\\|".join(map(str, action.choices))
    return action.dest.upper().replace("_", "-")


def page() -> str:
    """The page as it should be."""
    before, mark, _ = PAGE.read_text("utf-8").partition(BEGIN)
    return before + (mark or BEGIN) + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stderr.write(f"{PAGE} is written\n")
