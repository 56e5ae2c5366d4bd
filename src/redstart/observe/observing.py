"""Shows the beginning and the end of each call to those who measure: spans, and the figures of an admin port."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TypeAlias, TypeVar

from msgspec import UNSET

from redstart.features.errors import log
from redstart.observe.metrics import Outcome
from redstart.protocol.call import Call

R = TypeVar("R")
S = TypeVar("S")
Observer: TypeAlias = Callable[[Call], Callable[[Outcome], None]]
"""Sees the beginning of each call, and returns what sees its end."""
RunCall: TypeAlias = Callable[[Call], Coroutine[object, object, bytes | None]]


def observed(answer: RunCall, begin: Observer) -> RunCall:
    """`answer`, with each call shown to an observer."""

    async def observe(call: Call) -> bytes | None:
        outermost = call.outcome is None
        call.outcome = UNSET
        end = _quietly(begin, call)
        try:
            return await answer(call)
        except BaseException as error:  # it was cancelled
            call.outcome = error
            raise
        finally:
            if end is not None:
                _quietly(end, None if call.outcome is UNSET else call.outcome)
            if outermost:
                call.outcome = None  # something may keep the call in memory for long, but not its result

    return observe


def _quietly(see: Callable[[S], R], what: S) -> R | None:
    """Observing must not fail a call, but what the application has plugged into OpenTelemetry may raise anything."""
    try:
        return see(what)
    except Exception:
        log.exception("what observes calls has failed; the call goes on")
        return None
