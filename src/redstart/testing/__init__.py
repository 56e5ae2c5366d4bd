"""What tests of a server need, beside `Client(server)`: scripted answers, a snapshot of what clients see, a recorded
session that is played again. The pytest plug-in is in `redstart.testing.plugin`, and is loaded by pytest itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redstart.testing.answers import Answers
    from redstart.testing.changes import OfferChange, compare
    from redstart.testing.session import Difference, replay
    from redstart.testing.snapshot import offered

__all__ = ["Answers", "Difference", "OfferChange", "compare", "offered", "replay"]

_HOMES = {
    "Answers": "answers",
    "OfferChange": "changes",
    "Difference": "session",
    "compare": "changes",
    "offered": "snapshot",
    "replay": "session",
}


def __getattr__(name: str) -> object:
    """Loads a name when it is used: pytest imports this package in every run."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"redstart.testing.{_HOMES[name]}"), name)
