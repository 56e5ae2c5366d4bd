"""Files for directory servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redstart import Client, Server

ADD = '''
from redstart import tool

@tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b
'''
REVIEW = """
from redstart import prompt

@prompt(title="Review")
def review(code: str) -> str:
    return f"Review {code}"
"""
NOTE = """
from redstart import resource

@resource("notes://today")
def today() -> str:
    return "Rain"

@resource("notes://{name}")
def note(name: str) -> str:
    return name
"""


def write(root: Path, **files: str) -> None:
    """Write files; `tools__add` is `tools/add.py`."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(server: Server) -> list[str]:
    return [one.name for one in server.tools]


async def text(c: Client, name: str, **arguments: Any) -> str:
    return (await c.call_tool(name, arguments)).text
