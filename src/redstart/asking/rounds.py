"""The rounds of a call: how a run that was ended by a question becomes a result, and how a retry begins.

`Host.answer` calls these where something unusual happened; a call that never asks does not come here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from redstart.asking.dialogue import Dialogue, dialogue_of, task_of
from redstart.asking.forms import CONFIRM as CONFIRM
from redstart.asking.questions import BadAnswer, UrlElicitationRequired, visit_question
from redstart.asking.questions import form_question as form_question
from redstart.asking.questions import value_of as value_of
from redstart.asking.records import Answered, asked, handler_of
from redstart.asking.state import input_required as input_required
from redstart.asking.state import recall, settled, spend
from redstart.features.errors import ToolError, Unanswered, Unwind, log
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError
from redstart.wire.types import InputRequired, ToolResult

if TYPE_CHECKING:
    from redstart.server.runtime import Host

Handler = Callable[[Call], Awaitable[Any]]
SWALLOWED = (
    "The handler went on after a question that ends its run: somewhere it catches BaseException (or a bare `except:`) "
    "around ctx.elicit, ctx.ask, … Catch Exception instead, or re-raise."
)


def run_again(call: Call, host: Host, handler: Handler) -> Awaitable[Any]:
    """A call that does not simply run: a retry, a rehearsal, or a handshake call with stray parameters."""
    if call.dialect.modern:
        call.state = recall(call, host)
        return handler(call)
    return rehearse(call, host, handler) if host.force_replay else handler(call)


async def spend_first(call: Call, handler: Handler) -> Any:
    """Use up a state that is for one use, now that nothing but the handler is left to refuse the call."""
    await spend(call.state)
    return await handler(call)


def paused(call: Call, error: BaseException) -> Dialogue:
    """The dialogue whose question has ended a run with `error`; any other error is raised again."""
    dialogue: Dialogue | None = call.state
    if dialogue is not None:
        if dialogue.waiting:
            dialogue.close()
        if dialogue.broken is not None:
            raise dialogue.broken
        if dialogue.suspended and _was_ours(dialogue, error):
            dialogue.concluded = True
            return dialogue
    task = task_of(call)
    try:
        if isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling():
            raise RuntimeError("something that the handler waited for was cancelled") from error  # the client waits
        raise error
    finally:
        del error  # its traceback knows this frame: a cycle would keep the whole call


def _ends_a_run(error: BaseException) -> bool:
    """Whether an exception is how a question ends a run; a task group wraps it up."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_ends_a_run, error.exceptions))
    return isinstance(error, asyncio.CancelledError | Unwind)


def _was_ours(dialogue: Dialogue, error: BaseException) -> bool:
    """Whether a question, and nobody else, ended this run; takes its cancellation back."""
    if not isinstance(error, asyncio.CancelledError):
        return _ends_a_run(error)
    if not dialogue.cancelled:  # it was raised in the call's own task, and nowhere else
        return dialogue.call.run.cancelling() == 0  # type: ignore[no-any-return]
    task = task_of(dialogue.call)
    return task is not None and task.uncancel() == 0


def _take_back(call: Call) -> None:
    """The handler came to an end of its own: the cancellation that was under way is void."""
    task = asyncio.current_task()
    if task is not None and task is call.run and call.state.cancelled and task.cancelling():
        task.uncancel()


async def concluded(call: Call, result: Any) -> Any:
    """The result of a call that has asked something, looked at once more."""
    dialogue: Dialogue = call.state
    dialogue.concluded = True
    dialogue.close()
    if dialogue.broken is not None:
        raise dialogue.broken
    if dialogue.suspended:
        _take_back(call)
        if dialogue.thrown and getattr(result, "is_error", False):
            return result  # it failed on its way out, and says how
        if dialogue.thrown:
            log.error("%s: %s", handler_of(call, dialogue.host), SWALLOWED)
            raise ProtocolError(INTERNAL_ERROR, SWALLOWED)
        # A branch of the handler failed in the very turn in which another one asked: the next run will tell.
        return await settled(dialogue)
    if dialogue.unread:
        names = ", ".join(sorted(dialogue.unread))
        where = handler_of(call, dialogue.host)
        log.warning("%s: the handler no longer asked what it had asked before: %s", where, names)
    return result


def answering(dispatch: Handler, host: Host) -> Handler:
    """The handlers as middleware sees them: a question ends a call as a result, not as a cancellation."""

    async def answer(call: Call) -> Any:
        if call.state is not None and call.state.entered:
            call.state.repeat()
        try:
            result = await dispatch(call)
        except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
            result = await settled(paused(call, error))
        except UrlElicitationRequired as error:
            result = await must_visit(call, host, error)
        finally:
            if call.state is not None:
                call.state.entered = True
        dialogue: Dialogue | None = call.state
        if dialogue is None or dialogue.concluded or not (dialogue.suspended or dialogue.broken):
            return result  # middleware itself may go on to ask
        return await concluded(call, result)

    return answer


async def must_visit(call: Call, host: Host, error: ProtocolError) -> Any:
    """A handler needs its user to go to a web page first: said in the way of the dialect."""
    if not isinstance(error, UrlElicitationRequired):
        raise error
    if call.dialect.url_required and call.capabilities.has("elicitation.url"):
        raise error
    if not call.dialect.modern:
        return _in_words(call, f"{error.message} This client cannot open a web page for the user.")
    dialogue = dialogue_of(call, host)
    question = visit_question(call, error.url, error.message)
    question.check(call)
    record, dialogue.visit = dialogue.visit, None
    try:
        if record is not None:
            value_of(question.read(record.result), error.message)
    except (Unanswered, BadAnswer) as refusal:
        return _in_words(call, str(refusal))
    dialogue.open = [question]
    dialogue.concluded = True
    return await settled(dialogue)


def _in_words(call: Call, text: str) -> ToolResult:
    """A failure as the model, or where there is none the client, may read it."""
    if call.method.name != "tools/call":
        raise ProtocolError(INTERNAL_ERROR, text)
    return ToolError(text).result()


# ---------------------------------------------------------------- replay in the handshake era


async def rehearse(call: Call, host: Host, handler: Handler) -> Any:
    """Run a handshake call as the modern era would: each answer runs the handler again from its first line.

    For tests: a handler that does not repeat itself is found on day one.
    """
    dialogue = call.state = Dialogue(call, host, live=False)
    while True:
        try:
            result = await handler(call)
            asks = isinstance(result, InputRequired)  # by middleware's leave
            if not asks and (not dialogue.suspended or dialogue.thrown):
                return result
            _take_back(call)
        except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
            if not dialogue.suspended or not _was_ours(dialogue, error):
                raise
        if dialogue.steps is not None:
            await dialogue.steps.settled()
        await _ask_open(dialogue)
        dialogue.restart()


async def _ask_open(dialogue: Dialogue) -> None:
    """Ask what the run has left open, and remember the answers."""
    results = await asyncio.gather(*(dialogue.fetch(question) for question in dialogue.open))
    for question, result in zip(dialogue.open, results, strict=True):
        dialogue.answers[question.name] = Answered(asked(question), result)
