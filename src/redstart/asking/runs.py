"""How a call that asks is run: what becomes of a run that a question has ended, and how a retry begins.

`Runtime.answer` comes here where something unusual happened; a call that never asks does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from msgspec import Raw

from redstart.asking.dialogue import Dialogue, Phase, ReplayedDialogue, Signal, ends_a_run
from redstart.asking.forms import CONFIRM
from redstart.asking.questions import (
    Accepted,
    Answer,
    BadAnswer,
    Question,
    UrlElicitationRequired,
    form_question,
    value_of,
    visit_question,
)
from redstart.asking.seal import KeyRing, StateTooLarge
from redstart.asking.state import Answered, Memory, asked, binding, open_state, seal_state
from redstart.asking.steps import RunningSteps
from redstart.features.errors import ToolError, Unanswered, Unwind, log
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Call
from redstart.store.shared import SharedState
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError
from redstart.wire.types import InputRequired, Result, ToolResult

A = TypeVar("A")
Outcome = Result | Raw
Handler = Callable[[Call], Awaitable[Outcome]]
SWALLOWED: Final = (
    "The handler went on after a question that ends its run: somewhere it catches BaseException (or a bare `except:`) "
    "around ctx.elicit, ctx.ask, … Catch Exception instead, or re-raise."
)
AFTERWARDS: Final = 60.0
"""Seconds that the store keeps a record longer than the state that it belongs to."""


class Asking:
    """What the dialogues of one server share, and the way from the end of a run to the result of its call."""

    def __init__(
        self,
        server: str,
        find_tool: Callable[[str], CompiledTool | None],
        keys: KeyRing,
        open_store: Callable[[], SharedState],
        timeout: float,
        single_use: bool,
    ) -> None:
        self.steps = RunningSteps(open_store, timeout + AFTERWARDS)
        self._server = server
        self._find_tool = find_tool
        self._keys = keys
        self._timeout = timeout
        self._single_use = single_use
        self._behind_middleware = False
        """Whether middleware may change a call before its handler sees it."""

    def _place(self, call: Call) -> str:
        """The handler and its file, for the log."""
        tool = self._find_tool(call.params.name) if call.method.name == "tools/call" else None
        return call.method.name if tool is None else f"{tool.declared.place}: {tool.key}"

    def _is_single_use(self, call: Call) -> bool:
        """Whether the states of this call are for one use: `Server(single_use=True)` or `@tool(single_use=True)`."""
        if self._single_use or call.method.name != "tools/call":
            return self._single_use
        tool = self._find_tool(call.params.name)
        return tool is not None and tool.declared.single_use

    # ------------------------------------------------------------ how a run begins

    def dialogue(self, call: Call) -> Dialogue:
        """The dialogue of a call; its first question or step begins it."""
        dialogue = call.dialogue
        if dialogue is None:
            kind = Dialogue if call.dialect.asks else ReplayedDialogue
            dialogue = kind(call, Memory(), self.steps, self._timeout, self._place)
            if call.open:
                call.dialogue = dialogue
            elif kind is ReplayedDialogue:  # a task that the call has left behind asks: nobody can answer
                dialogue.signal(Signal.ENDED)
        assert isinstance(dialogue, Dialogue)
        return dialogue

    def ask(self, call: Call, question: Question[A], threaded: bool) -> Awaitable[A]:
        """The answer to `question`; in the modern era waiting for it may end the run of the handler."""
        question.threaded = threaded
        dialogue = call.dialogue
        return (dialogue if isinstance(dialogue, Dialogue) else self.dialogue(call)).ask(question)

    def elicit(
        self, call: Call, message: str, schema: object, key: str | None, threaded: bool
    ) -> Awaitable[Answer[Any]]:
        """The user's answer to a form."""
        question = form_question(call, message, schema, key)
        question.threaded = threaded
        dialogue = call.dialogue
        return (dialogue if isinstance(dialogue, Dialogue) else self.dialogue(call)).ask(question)

    async def value(self, call: Call, message: str, schema: object, key: str | None, threaded: bool) -> Any:
        """The value that the user gives; if there is none, the call ends with a result that says so."""
        return value_of(await self.elicit(call, message, schema, key, threaded), message)

    async def confirmed(self, call: Call, message: str, key: str | None, threaded: bool) -> bool:
        """Whether the user says yes."""
        answer = await self.elicit(call, message, CONFIRM, key, threaded)
        return isinstance(answer, Accepted) and answer.data is True

    def run(self, call: Call, handler: Handler, rehearse: bool) -> Awaitable[Outcome]:
        """Run a call that brings answers. `rehearse` runs those of the handshake era by replay too."""
        if call.dialect.modern:
            memory, once = open_state(self._keys, self._server, call)
            if memory.unsealed and self._is_single_use(call):
                memory.unsealed = {}
            dialogue = ReplayedDialogue(call, memory, self.steps, self._timeout, self._place, once)
            call.dialogue = dialogue
            if once and not self._behind_middleware:  # middleware may still refuse the call
                return dialogue.spend_first(handler)
            return handler(call)
        return self._rehearse(call, handler) if rehearse else handler(call)

    async def _rehearse(self, call: Call, handler: Handler) -> Outcome:
        """Run a handshake call as the modern era would: each answer runs the handler again from its first line.

        For tests: a handler that does not repeat itself is found on the first day.
        """
        dialogue = call.dialogue = ReplayedDialogue(call, Memory(), self.steps, self._timeout, self._place)
        while True:
            try:
                result = await self.conclude(call, await handler(call))
            except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
                result = await self.end(call, error)
            if not isinstance(result, InputRequired):
                return result
            replies = await asyncio.gather(*map(dialogue.request, dialogue.open))
            for question, (reply, _) in zip(dialogue.open, replies, strict=True):
                dialogue.memory.answers[question.name] = Answered(asked(question), reply)
            dialogue.restart()

    def inside_middleware(self, dispatch: Handler) -> Handler:
        """The handlers as middleware sees them: a question ends a call as a result, not as a cancellation."""
        self._behind_middleware = True

        async def answer(call: Call) -> Outcome:
            if isinstance(call.dialogue, Dialogue) and call.dialogue.phase in (Phase.RETURNED, Phase.CONCLUDED):
                call.dialogue.repeat()
            try:
                if isinstance(call.dialogue, Dialogue) and call.dialogue.once:
                    result = await call.dialogue.spend_first(dispatch)
                else:
                    result = await dispatch(call)
                if call.dialogue is not None and call.dialogue.ended:
                    result = await self.conclude(call, result)
                return result  # otherwise middleware itself may go on to ask
            except (asyncio.CancelledError, Unwind, BaseExceptionGroup, UrlElicitationRequired) as error:
                return await self.end(call, error)
            finally:
                if isinstance(call.dialogue, Dialogue):
                    call.dialogue.signal(Signal.RETURNED)

        return answer

    # ------------------------------------------------------------ how a run ends

    async def conclude(self, call: Call, result: Outcome) -> Outcome:
        """The result of a call that has a dialogue, from what its handler returned."""
        dialogue = call.dialogue
        if not isinstance(dialogue, Dialogue) or dialogue.phase is Phase.CONCLUDED:
            return result
        if dialogue.waiting:
            dialogue.close()
        if dialogue.error is not None:
            raise dialogue.error
        if dialogue.ended:
            dialogue.take_back()
            if dialogue.phase is Phase.ENDING:  # a branch of the handler failed in the turn in which another one asked
                return await self._input_required(dialogue)
            if not getattr(result, "is_error", False):  # an error on the way out is a result
                log.error("%s: %s", self._place(call), SWALLOWED)
                raise ProtocolError(INTERNAL_ERROR, SWALLOWED)
            dialogue.signal(Signal.CONCLUDED)
        elif dialogue.memory.unread:
            names = ", ".join(sorted(dialogue.memory.unread))
            log.warning("%s: the handler no longer asked what it had asked before: %s", self._place(call), names)
            dialogue.memory.unread.clear()
        return result

    async def end(self, call: Call, error: BaseException) -> Outcome:
        """The result of a run that ended with `error` because of a question; any other error is raised again."""
        try:
            if isinstance(error, UrlElicitationRequired):
                return await self.conclude(call, await self._must_visit(call, error))
            dialogue, task = call.dialogue, call.run
            if isinstance(dialogue, Dialogue):
                if dialogue.waiting:
                    dialogue.close()
                if dialogue.error is not None:
                    raise dialogue.error
                if dialogue.cancelled is not None:
                    dialogue.take_back()
                stopped = task is not None and task.cancelling()  # by somebody else than a question
                ours = isinstance(error, asyncio.CancelledError) or ends_a_run(error)
                if dialogue.ended and ours and not stopped:
                    return await self._input_required(dialogue)
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling():
                # The client still waits.
                raise RuntimeError("something that the handler waited for was cancelled") from error
            raise error
        finally:
            del error  # its traceback knows this frame: a cycle would keep the whole call

    async def _must_visit(self, call: Call, error: UrlElicitationRequired) -> Outcome:
        """A handler needs its user to go to a web page first: said in the way of the dialect."""
        if call.dialect.url_required and call.capabilities.has("elicitation.url"):
            raise error
        if not call.dialect.modern:
            return _in_words(call, f"{error.message} This client cannot open a web page for the user.")
        dialogue = self.dialogue(call)
        question = visit_question(call, error.url, error.message)
        record, dialogue.memory.visit = dialogue.memory.visit, None
        try:
            if record is not None:
                value_of(question.read(record.result), error.message)
        except (Unanswered, BadAnswer) as refusal:
            return _in_words(call, str(refusal))
        dialogue.open = [question]
        return await self._input_required(dialogue)

    async def _input_required(self, dialogue: Dialogue) -> InputRequired:
        """The result that asks the open questions, and carries what is known so far."""
        call, memory = dialogue.call, dialogue.memory
        dialogue.signal(Signal.CONCLUDED)
        if dialogue.steps is not None:
            await dialogue.steps.settled()
            if not self._keys.secret:
                await dialogue.steps.keep_all()
        if dialogue.once:
            await dialogue.spend()
        if not memory.bound:  # to what the client sent; middleware may have changed it
            sent = call.method.decode(call.raw_params) if self._behind_middleware else call.params
            memory.bound = binding(self._server, call, sent)
        requests = {}
        for question in dialogue.open:
            params = question.worded() if question.problem else question.params
            requests[question.name] = {"method": question.method, "params": params}
        try:
            state = seal_state(self._keys, memory, dialogue.open, self._timeout, self._is_single_use(call))
        except StateTooLarge as error:
            log.error("%s: %s", self._place(call), error)
            raise ProtocolError(INTERNAL_ERROR, str(error)) from None
        return InputRequired(result_type="input_required", input_requests=requests, request_state=state)


def _in_words(call: Call, text: str) -> ToolResult:
    """A failure as the model may read it; where there is no model, an error for the client."""
    if call.method.name != "tools/call":
        raise ProtocolError(INTERNAL_ERROR, text)
    return ToolError(text).result()
