"""A prompt of a directory server."""

from __future__ import annotations

from redstart import prompt


@prompt(title="Explain")
def explain(topic: str, audience: str = "a child") -> str:
    """Explains a topic to somebody."""
    return f"Explain {topic} to {audience}."
