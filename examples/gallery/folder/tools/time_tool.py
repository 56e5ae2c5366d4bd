"""Another file, with another tool."""

from __future__ import annotations

from datetime import UTC, datetime

from redstart import tool


@tool
def utc_time() -> str:
    """The time now, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
