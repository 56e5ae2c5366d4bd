"""Resources of a directory server."""

from __future__ import annotations

from redstart import resource


@resource("notes://{name}", mime_type="text/markdown")
def note(name: str) -> str:
    """A note."""
    return f"# {name}"
