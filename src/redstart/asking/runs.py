"""How a call that asks is run: what becomes of a run that a question has ended, and how a retry begins.

What runs calls comes here where something unusual happened; a call that never asks does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from redstart.asking.dialogue import Dialogue, task_of
from redstart.asking.questions import BadAnswer, UrlElicitationRequired, value_of, visit_question
from redstart.asking.records import Answered, asked
from redstart.asking.state import input_required, recall, settled
from redstart.features.errors import ToolError, Unanswered, Unwind, log
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError
from redstart.wire.types import InputRequired, ToolResult

if TYPE_CHECKING:
    from redstart.asking.seal import KeyRing
    from redstart.features.tools import CompiledTool
    from redstart.store.shared import SharedState

Handler = Callable[[Call], Awaitable[Any]]
GRACE: Final = 1.0
"""Seconds that cancelled steps have to clean up."""
STEP_GRACE: Final = 5.0
"""Seconds that steps have to come to their end when the server stops."""
SWALLOWED: Final = (
    "The handler went on after a question that ends its run: somewhere it catches BaseException (or a bare `except:`) "
    "around ctx.elicit, ctx.ask, … Catch Exception instead, or re-raise."
)


class Asking:
    """What the dialogues of one server share: its keys, its store, its limits, and the steps that run now."""

    def __init__(
        self,
        server_name: str,
        tools: Mapping[str, CompiledTool],
        keys: KeyRing,
        open_store: Callable[[], SharedState],
        ask_timeout: float,
        single_use: bool,
    ) -> None:
        self.server_name = server_name
        self.keys = keys
        self.ask_timeout = ask_timeout
        self.behind_middleware = False
        """Whether middleware may change a call before its handler sees it."""
        self._tools = tools
        self._open_store = open_store
        self._single_use = single_use
        self.steps: dict[str, asyncio.Future[None]] = {}
        """Steps of dialogues that run now, by their names in the store."""
        self.performing: dict[asyncio.Future[None], str] = {}
        """The keys of all steps that run now. They go on to their end, whatever becomes of their calls."""
        self.tasks: set[asyncio.Task[bytes]] = set()
        """The tasks that perform them."""

    @cached_property
    def store(self) -> SharedState:
        """Where the results of steps and the used states are kept; opened when it is first needed."""
        return self._open_store()

    def handler_of(self, call: Call) -> str:
        """Which handler it is and where, for the log."""
        tool = self._tool(call)
        return call.method.name if tool is None else f"{tool.declared.place}: {tool.key}"

    def used_once(self, call: Call) -> bool:
        """Whether the states of this call are for one use: `Server(single_use=True)` or `@tool(single_use=True)`."""
        if self._single_use:
            return True
        tool = self._tool(call)
        return tool is not None and tool.declared.single_use

    def _tool(self, call: Call) -> CompiledTool | None:
        return self._tools.get(call.params.name) if call.method.name == "tools/call" else None

    async def finish_steps(self) -> None:
        """Wait, for a limited time, for steps that have begun, so that their effects are complete."""
        if not self.performing:
            return
        await asyncio.wait(self.performing, timeout=STEP_GRACE)
        for claim, key in self.performing.items():
            log.error("the server stops, and the step %r is not done", key)
            if not claim.done():
                claim.set_result(None)
        self.performing.clear()
        self.steps.clear()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=GRACE)

    # ------------------------------------------------------------ the runs of a call

    def dialogue(self, call: Call) -> Dialogue:
        """The dialogue of a call; its first question or step begins it."""
        dialogue = call.dialogue
        if dialogue is None:
            dialogue = Dialogue(call, self, call.dialect.asks)
            if call.open:
                call.dialogue = dialogue
            else:  # something that the call has left behind: nobody can answer it
                dialogue.suspended = not dialogue.live
        assert isinstance(dialogue, Dialogue)
        return dialogue

    def run(self, call: Call, handler: Handler, rehearse: bool) -> Awaitable[Any]:
        """Run a call that brings answers. `rehearse` runs those of the handshake era by replay too."""
        if call.dialect.modern:
            call.dialogue = recall(call, self)
            return handler(call)
        return self._rehearse(call, handler) if rehearse else handler(call)

    async def end(self, call: Call, error: BaseException) -> Any:
        """The result of a run that ended with `error` because of a question; any other error is raised again."""
        if isinstance(error, UrlElicitationRequired):
            result = await self._must_visit(call, error)
            return result if call.dialogue is None else await self.conclude(call, result)
        dialogue = paused(call, error)
        return await settled(dialogue) if dialogue.busy else input_required(dialogue)

    async def conclude(self, call: Call, result: Any) -> Any:
        """The result of a call that has a dialogue, as its handler returned it."""
        dialogue = self.dialogue(call)
        if dialogue.concluded or not dialogue.unsettled:
            return result
        return await concluded(dialogue, result)

    def inside_middleware(self, dispatch: Handler) -> Handler:
        """The handlers as middleware sees them: a question ends a call as a result, not as a cancellation."""
        self.behind_middleware = True

        async def answer(call: Call) -> Any:
            if call.dialogue is not None and self.dialogue(call).entered:
                self.dialogue(call).repeat()
            try:
                result = await dispatch(call)
            except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
                result = await settled(paused(call, error))
            except UrlElicitationRequired as error:
                result = await self._must_visit(call, error)
            finally:
                if call.dialogue is not None:
                    self.dialogue(call).entered = True
            if call.dialogue is None:
                return result
            dialogue = self.dialogue(call)
            if dialogue.concluded or not (dialogue.suspended or dialogue.broken):
                return result  # middleware itself may go on to ask
            return await concluded(dialogue, result)

        return answer

    async def _must_visit(self, call: Call, error: UrlElicitationRequired) -> Any:
        """A handler needs its user to go to a web page first: said in the way of the dialect."""
        if call.dialect.url_required and call.capabilities.has("elicitation.url"):
            raise error
        if not call.dialect.modern:
            return _in_words(call, f"{error.message} This client cannot open a web page for the user.")
        dialogue = self.dialogue(call)
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

    async def _rehearse(self, call: Call, handler: Handler) -> Any:
        """Run a handshake call as the modern era would: each answer runs the handler again from its first line.

        For tests: a handler that does not repeat itself is found on day one.
        """
        dialogue = call.dialogue = Dialogue(call, self, live=False)
        while True:
            try:
                result = await handler(call)
                asks = isinstance(result, InputRequired)  # by middleware's leave
                if not asks and (not dialogue.suspended or dialogue.thrown):
                    return result
                _take_back(dialogue)
            except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
                if not dialogue.suspended or not _was_ours(dialogue, error):
                    raise
            await dialogue.settle()
            results = await asyncio.gather(*(dialogue.fetch(question) for question in dialogue.open))
            for question, answer in zip(dialogue.open, results, strict=True):
                dialogue.answers[question.name] = Answered(asked(question), answer)
            dialogue.restart()


def paused(call: Call, error: BaseException) -> Dialogue:
    """The dialogue whose question has ended a run with `error`; any other error is raised again."""
    dialogue = call.dialogue
    if isinstance(dialogue, Dialogue):
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


def _take_back(dialogue: Dialogue) -> None:
    """The handler came to an end of its own: the cancellation that was under way is void."""
    task = asyncio.current_task()
    if task is not None and task is dialogue.call.run and dialogue.cancelled and task.cancelling():
        task.uncancel()


async def concluded(dialogue: Dialogue, result: Any) -> Any:
    """The result of a call that has asked something, looked at once more."""
    dialogue.concluded = True
    dialogue.close()
    if dialogue.broken is not None:
        raise dialogue.broken
    if dialogue.suspended:
        _take_back(dialogue)
        if dialogue.thrown and getattr(result, "is_error", False):
            return result  # it failed on its way out, and says how
        if dialogue.thrown:
            log.error("%s: %s", dialogue.shared.handler_of(dialogue.call), SWALLOWED)
            raise ProtocolError(INTERNAL_ERROR, SWALLOWED)
        # A branch of the handler failed in the very turn in which another one asked: the next run will tell.
        return await settled(dialogue)
    if dialogue.unread:
        names = ", ".join(sorted(dialogue.unread))
        where = dialogue.shared.handler_of(dialogue.call)
        log.warning("%s: the handler no longer asked what it had asked before: %s", where, names)
    return result


def _in_words(call: Call, text: str) -> ToolResult:
    """A failure as the model, or where there is none the client, may read it."""
    if call.method.name != "tools/call":
        raise ProtocolError(INTERNAL_ERROR, text)
    return ToolError(text).result()
