"""An ordinary command line, written with Typer. It knows nothing of MCP."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="A list of things to do.")
FILE = Path(os.environ.get("TODO_FILE", "todo.json"))


def _items() -> list[str]:
    return json.loads(FILE.read_text()) if FILE.exists() else []


@app.command()
def add(text: str, first: Annotated[bool, typer.Option(help="Before all others.")] = False) -> None:
    """Add an item."""
    items = _items()
    items.insert(0 if first else len(items), text)
    FILE.write_text(json.dumps(items))
    typer.echo(f"{len(items)} items")


@app.command("list")
def list_items(limit: Annotated[int, typer.Option(help="How many at most.")] = 10) -> None:
    """Show the items."""
    for number, text in enumerate(_items()[:limit], 1):
        typer.echo(f"{number}. {text}")


@app.command()
def done(number: int) -> None:
    """Remove an item."""
    items = _items()
    if not 1 <= number <= len(items):
        typer.echo(f"there is no item {number}", err=True)
        raise typer.Exit(1)
    typer.echo(f"done: {items.pop(number - 1)}")
    FILE.write_text(json.dumps(items))


if __name__ == "__main__":
    app()
