"""What a dialogue remembers of its questions: enough to tell in a later round whether a handler repeats itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct

from redstart.features.errors import log
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

if TYPE_CHECKING:
    from redstart.asking.questions import Question

SAID: Final = 80
"""Characters of a message that are remembered, for the error that names it."""


class Asked(Struct, array_like=True):
    """A question that went out."""

    name: str
    kind: str
    message: str
    digest: int
    alone: bool
    """Whether no other question was asked in the same turn, so that a replay need not wait for any."""


class Answered(Struct, array_like=True):
    """A question with the client's answer, as it came."""

    asked: Asked
    result: Any


class Memory(Struct, array_like=True):
    """The contents of a sealed state; that of a first round has only what comes first."""

    expires: float
    rounds: int
    open: list[Asked]
    answers: list[Answered] = []
    steps: dict[str, Raw] = {}
    id: str = ""
    once: str = ""
    """A name for this state, if it is for one use."""
    performed: list[str] = []
    """The keys of steps that are done and whose results are in a store, not here."""


def asked(question: Question) -> Asked:
    """A question as it is remembered."""
    return Asked(question.name, question.kind, question.message[:SAID], question.digest, question.alone)


def diverged(handler: str, before: Asked, now: Question) -> ProtocolError:
    """The error for a handler that asks something else when it runs again."""
    text = (
        f"The handler did not ask the same question when it ran again: as {now.name!r} it first asked "
        f"{before.kind} {before.message!r}, and now {now.kind} {now.message!r}. Between two rounds a handler must "
        "repeat itself: put what may change into ctx.step(...), and give questions that come in any order a key=."
    )
    log.error("%s: %s", handler, text)
    return ProtocolError(INTERNAL_ERROR, text)
