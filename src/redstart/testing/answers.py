"""Scripted answers for the questions of a server: what a test gives as `on_elicit`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from redstart.asking.questions import Cancelled, Declined
from redstart.client.handlers import ElicitRequest

Scripted: TypeAlias = object
"""A dict with the values of a form, the value of its only field, `Declined()`, `Cancelled()`, or a function of the
question. As `("text", answer)` it is for a question whose message has the text in it."""


class Answers:
    """Answers in the order in which a server asks; `check()` fails if there were too few or too many.

    >>> from redstart.client.handlers import ElicitRequest
    >>> answers = Answers("Ada", {"really": True}, ("Overwrite", Declined()))
    >>> form = {"type": "object", "properties": {"answer": {"type": "string"}}}
    >>> answers(ElicitRequest(message="Your name?", schema=form))
    {'answer': 'Ada'}
    >>> answers.asked[0].message
    'Your name?'
    """

    def __init__(self, *script: Scripted) -> None:
        self.asked: list[ElicitRequest] = []
        """The questions, in their order."""
        self._script = deque(script)
        self._problems: list[str] = []

    def add(self, *script: Scripted) -> None:
        """Append answers to the script."""
        self._script.extend(script)

    def __call__(self, request: ElicitRequest) -> object:
        self.asked.append(request)
        if not self._script:
            self._fail(f"the server asks {request.message!r}, and the script has no more answers")
        answer = self._script.popleft()
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str):
            text, answer = answer
            if text not in request.message:
                self._fail(f"the server asks {request.message!r}, where the script expects a question with {text!r}")
        return self._sendable(answer, request)

    def _sendable(self, answer: object, request: ElicitRequest) -> object:
        """The answer in the form of `on_elicit`."""
        if isinstance(answer, Declined | Cancelled):
            return "decline" if isinstance(answer, Declined) else "cancel"
        if callable(answer):
            return self._sendable(answer(request), request)
        if isinstance(answer, Mapping) or request.mode != "form":
            return answer
        fields = list(request.schema.get("properties", {}))
        if len(fields) != 1:
            self._fail(f"{request.message!r} has the fields {', '.join(fields)}: write a dict, not {answer!r}")
        return {fields[0]: answer}

    def _fail(self, problem: str) -> NoReturn:
        self._problems.append(problem)  # in the handshake era a client only logs what a callback raises
        raise AssertionError(problem)

    def check(self) -> None:
        """AssertionError if a question had no answer, or if an answer was not asked for."""
        if self._problems:
            raise AssertionError("; ".join(self._problems))
        if self._script:
            left = ", ".join(repr(answer) for answer in self._script)
            raise AssertionError(f"the server did not ask for these answers: {left}")
