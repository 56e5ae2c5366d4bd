"""The dialogue of one call: the questions that its handler asks the client, and the answers.

Handshake era: a question is a request of its own, and the handler waits. Modern era: a question without an answer ends
the run of the handler, and the call, as `input_required`. The client sends the call again with the answers, the handler
runs again from its first line, and each question that was answered returns at once. Questions asked in one turn of the
loop make one round. A round is delivered as a whole, so that a replay asks in the order of the first run.
Spec: /specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import current_task
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

from msgspec import DecodeError, Raw, Struct

from redstart.asking.forms import CONFIRM, form_question
from redstart.asking.questions import (
    CANCEL,
    Accepted,
    Answer,
    BadAnswer,
    Question,
    UrlElicitationRequired,
    no_stream,
    value_of,
    visit_question,
)
from redstart.asking.scope import scoped
from redstart.asking.seal import USED, KeyRing, StateTooLarge, refused
from redstart.asking.state import Answered, Asked, Memory, asked, binding, largest_part, open_state, packed, task_memory
from redstart.asking.steps import RunningSteps, Steps, inside
from redstart.execution.limits import off_the_clock, stepped_out
from redstart.features.errors import ToolError, Unanswered, Unwind, log
from redstart.features.principal import principal_key
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Call, Pending
from redstart.store.shared import SharedState
from redstart.store.shared import scoped as owned
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, decode
from redstart.wire.types import InputRequired, Result, ToolResult

A = TypeVar("A")
Outcome = Result | Raw
Handler = Callable[[Call], Awaitable[Outcome]]
Turn = list[tuple[Question[object], asyncio.Future[Any]]]

TRIES: Final = 2
"""How often a handshake client is asked one question; if the last answer is not valid, there is no answer."""

SWALLOWED: Final = (
    "The handler went on after a question that ends its run: somewhere it catches BaseException (or a bare `except:`) "
    "around ctx.elicit, ctx.ask, … Catch Exception instead, or re-raise."
)
AFTERWARDS: Final = 60.0
"""Seconds that the store keeps a record after the state that it belongs to has expired."""


class Phase(StrEnum):
    """Where a dialogue is in the run of its handler."""

    RUNNING = "the handler runs"
    RETURNED = "the handler has returned to middleware, which may ask itself, or run the handler again"
    ENDING = "a question has no answer: the tasks and threads of the handler are told to end"
    LEAVING = "the end of the run was raised in the handler's own code, so it must come out of it"
    CONCLUDED = "the call has its result"
    BROKEN = "the dialogue cannot go on, whatever its handler does"


class Signal(StrEnum):
    """What can happen to a dialogue."""

    ENDED = "a question has no answer"
    RAISED = "the end of the run is raised in the handler's own code"
    RETURNED = "the handler has returned to middleware"
    REPEATED = "middleware runs the handler once more"
    TIMED_OUT = "the handler has no time left: its question is not asked"
    CONCLUDED = "the result of the call is made"
    FAILED = "an error ends the call, even if the handler catches it"
    RESTARTED = "the answers are there, and the handler runs from its first line"


NEXT: Final[dict[tuple[Phase, Signal], Phase]] = {
    (Phase.RUNNING, Signal.ENDED): Phase.ENDING,
    (Phase.RUNNING, Signal.RAISED): Phase.LEAVING,
    (Phase.RUNNING, Signal.RETURNED): Phase.RETURNED,
    (Phase.RETURNED, Signal.ENDED): Phase.ENDING,
    (Phase.RETURNED, Signal.RAISED): Phase.LEAVING,
    (Phase.RETURNED, Signal.REPEATED): Phase.RUNNING,
    (Phase.ENDING, Signal.RAISED): Phase.LEAVING,
    (Phase.ENDING, Signal.TIMED_OUT): Phase.RUNNING,
    (Phase.LEAVING, Signal.TIMED_OUT): Phase.RUNNING,
    (Phase.CONCLUDED, Signal.RESTARTED): Phase.RUNNING,
    **{(phase, Signal.CONCLUDED): Phase.CONCLUDED for phase in Phase if phase is not Phase.BROKEN},
    **{(phase, Signal.FAILED): Phase.BROKEN for phase in Phase},
}
"""The phase after a signal. A signal that is not listed for a phase changes nothing."""
GOING_ON: Final = (Phase.RUNNING, Phase.RETURNED)


class Dialogue(Struct, eq=False):
    """The questions and answers of one call. Used on the thread of the loop only."""

    call: Call
    memory: Memory
    shared: Asking
    once: str = ""
    """The name of the state that came with this round, if the state is for one use and has not been used yet."""
    phase: Phase = Phase.RUNNING
    ended: bool = False
    """Whether the handler must not ask any more in this phase."""
    error: ProtocolError | None = None
    """Why the dialogue is broken."""
    steps: Steps | None = None
    open: Sequence[Question[object]] = ()
    """The questions that have ended the run."""
    cancelled: asyncio.Task[object] | None = None
    """The task that was cancelled to end the run."""
    waiting: dict[asyncio.Future[Any], Pending | None] = {}
    """The answers that are awaited; in the handshake era with the request that was sent for it."""
    names: set[str] = set()
    """The names of the questions of this run."""
    count: int = 0
    """The number of the last question of this run without a key."""
    turn: Turn | None = None
    """The questions of this turn of the loop."""

    def signal(self, signal: Signal) -> None:
        self.phase = NEXT.get((self.phase, signal), self.phase)
        self.ended = self.phase not in GOING_ON

    # ------------------------------------------------------------ runs

    def repeat(self) -> None:
        """The handler runs once more in the same round: its keys stand for the same questions and steps."""
        self.signal(Signal.REPEATED)
        self.names, self.call.uses = set(), None
        if self.steps is not None:
            self.steps.names = set()

    def restart(self) -> None:
        """The handler runs from its first line, with the answers of this round."""
        self.repeat()
        self.signal(Signal.RESTARTED)
        self.count = 0
        self.memory.unread = set(self.memory.answers)

    def fail(self, code: int, text: str, advice: str = "") -> ProtocolError:
        """The error that ends the call, even if the handler catches it. `advice` is added in the log."""
        if code == INTERNAL_ERROR:
            log.error("%s: %s", self.shared.place(self.call), f"{text} {advice}".rstrip())
        self.signal(Signal.FAILED)
        self.error = ProtocolError(code, text)
        return self.error

    def uncancel_run(self) -> None:
        """The run has ended, so the cancellation that ended it no longer counts."""
        task, self.cancelled = self.cancelled, None
        if task is not None:
            task.uncancel()

    # ------------------------------------------------------------ what other packages use (`CallDialogue`)

    @property
    def replaying(self) -> bool:
        return bool(self.memory.unread)

    @property
    def asking(self) -> bool:
        return any(pending is not None and not future.done() for future, pending in self.waiting.items())

    async def spend_first(self, handler: Callable[[Call], Awaitable[A]]) -> A:
        await self.spend()
        return await handler(self.call)

    async def spend(self) -> None:
        """Use up the state that this round came with."""
        name, self.once = self.once, ""
        if not await self.shared.steps.keep(self.stored("used", name), b"1", once=True):
            raise refused(USED)

    @property
    def is_task(self) -> bool:
        """Whether the call runs, or may go on, as a task."""
        return self.call.task is not None

    def stored(self, *parts: str) -> str:
        """A name in the store that belongs to the user of this call."""
        return owned(principal_key(self.call.user), *parts)

    async def settle(self) -> None:
        if self.steps is not None:
            await self.steps.settled()

    def time_out(self) -> None:
        self.signal(Signal.TIMED_OUT)
        self.uncancel_run()

    def close(self) -> None:
        """Withdraw the questions that the client has not answered, while the stream is still open."""
        waiting, self.waiting = self.waiting, {}
        for future, pending in waiting.items():
            if pending is not None and not future.done():
                self._withdraw(pending)
            future.cancel()

    # ------------------------------------------------------------ names

    async def begin_step(self, key: str) -> tuple[Steps, str, bytes | None]:
        """The steps of this dialogue, the full key, and the recorded result if there is one."""
        if self.steps is None:
            self.steps = Steps(self, self.shared.steps)
        key = _checked_key(key)
        return self.steps, key, await self.steps.begin(key)

    def _identify(self, question: Question[object]) -> None:
        """Give a question its name on the wire; refuse a question that cannot be asked here."""
        if not self.call.method.may_ask:
            raise RuntimeError(f"{self.call.method.name} cannot ask: only tools, prompts and resources can")
        if step := inside.get():
            raise RuntimeError(
                f"the step {step!r} asks {question.message!r}: a step is done once and then only remembered. "
                "Ask before the step, and let it use the answer."
            )
        if question.key is None:
            self.count += 1
            while f"q{self.count}" in self.names:
                self.count += 1
            question.name = f"q{self.count}"
        else:
            question.name = _checked_key(question.key)
            if question.name in self.names:
                raise ValueError(f"two questions of one call have the key {question.name!r}; each needs its own")
        self.names.add(question.name)

    # ------------------------------------------------------------ questions as requests

    async def ask(self, question: Question[A]) -> A:
        """Send `question` as a request to the client, and return its answer."""
        self._identify(question)
        with off_the_clock():
            async with stepped_out():
                record = self.memory.answers.get(question.name)
                if record is not None and record.asked.digest == question.digest:
                    return question.read(record.result)  # it was asked before: middleware runs the handler once more
                result, answer = await self.request(question)
                if isinstance(answer, Unanswered):
                    raise answer
                if question.key is not None:
                    self.memory.answers[question.name] = Answered(asked(question), result)
                return answer

    async def ask_all(self, questions: Mapping[str, Question[Answer[A]]]) -> dict[str, A]:
        """The values that the user gives. The questions are asked in turn: most clients show one form at a time."""
        return {name: value_of(await self.ask(question), question.message) for name, question in questions.items()}

    async def request(self, question: Question[A]) -> tuple[object, A | Unanswered]:
        """The client's result and its meaning, or the values for a question without an answer."""
        if not getattr(self.call.channel, "can_ask", True):
            raise no_stream(question)
        if self.call.session is not None and not self.call.session.initialized and not await self._initialized():
            return _no_answer(question, None)
        for _ in range(TRIES):
            outcome = await self.send(question.method, question.worded())
            if outcome is None or isinstance(outcome, ProtocolError):
                return _no_answer(question, outcome)
            try:
                result = decode(outcome)
                return result, question.read(result)
            except BadAnswer as bad:
                if not bad.content:
                    break
                question.problem = str(bad)
            except DecodeError as error:  # such as a number that is too large
                question.problem = f"This could not be read: {error}."
        return _no_answer(question, None)

    async def _initialized(self) -> bool:
        """Wait until the client is initialized; False after a time-out. The spec allows no question before that."""
        initialized = asyncio.Event()
        listeners = self.call.link.on_initialized
        listeners.append(initialized.set)
        try:
            async with asyncio.timeout(self.shared.timeout):
                return await initialized.wait()
        except TimeoutError:
            return False
        finally:
            listeners.remove(initialized.set)

    async def send(self, method: str, params: object) -> Raw | ProtocolError | None:
        """One request to the client: its raw result, its error, or None if it does not answer in time."""
        call = self.call
        sent = call.link.ask(call, method, params)
        if sent is None:
            return None
        pending, data = sent
        future: asyncio.Future[Raw | ProtocolError] = asyncio.get_running_loop().create_future()
        pending.resolve = lambda outcome: None if future.done() else future.set_result(outcome)
        self.waiting[future] = pending
        try:
            call.channel.send(data)
            async with asyncio.timeout(self.shared.timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            call.link.pending.pop(pending.id, None)
            waited = self.waiting.pop(future, None) is not None
            if waited and (not future.done() or future.cancelled()):
                self._withdraw(pending)

    def _withdraw(self, pending: Pending) -> None:
        """Withdraw a question, so that the client can close its form, even if the client has cancelled the call."""
        data = self.call.link.withdraw(pending)
        if self.call.session is self.call.link.session:  # a new session of the same client does not know the question
            self.call.channel.send(data)


class ReplayedDialogue(Dialogue):
    """A dialogue whose answers come with the next request: a question without an answer ends the run."""

    async def ask(self, question: Question[A]) -> A:
        """The recorded answer to `question`. A question without an answer ends the run."""
        self._identify(question)
        if self.ended:
            await asyncio.sleep(0)  # a handler that catches the end of its run must not block the loop
            raise Unwind if question.threaded else asyncio.CancelledError
        if self.turn is None:
            record = self.memory.answers.get(question.name)
            if self._in_own_task() if record is None else record.asked.alone:  # no other question can join this one
                answer = None if record is None and question.key is None else self._recall(question, record)
                if answer is not None:
                    self.memory.unread.discard(question.name)
                    return answer
                if record is None or self._in_own_task():
                    question.alone = True
                    self.open = [question]
                    self.signal(Signal.RAISED)
                    raise asyncio.CancelledError
        return await self._ask_in_this_turn(question)

    async def ask_all(self, questions: Mapping[str, Question[Answer[A]]]) -> dict[str, A]:
        """The values that the user gives, in one round."""
        answers = await asyncio.gather(*map(self.ask, questions.values()))
        return {
            name: value_of(answer, question.message)
            for (name, question), answer in zip(questions.items(), answers, strict=True)
        }

    def _in_own_task(self) -> bool:
        """Whether the code that runs now is in the task of the call, and not in a task that the handler started.

        `current_task` without an argument looks for the loop, which on Python 3.11 is a system call.
        """
        run = self.call.run
        return run is not None and current_task(run.get_loop()) is run

    async def _ask_in_this_turn(self, question: Question[A]) -> A:
        """The answer to a question that makes one round with the other questions of this turn of the loop."""
        loop = asyncio.get_running_loop()
        if self.turn is None:
            self.turn = []
            loop.call_soon(self._end_turn)
        future: asyncio.Future[A] = loop.create_future()
        self.waiting[future] = None
        self.turn.append((question, future))
        try:
            return await future
        except (asyncio.CancelledError, Unwind) as end:
            if self.ended and (isinstance(end, Unwind) or self._in_own_task()):
                self.signal(Signal.RAISED)
            raise

    def _end_turn(self) -> None:
        """One turn of the loop after the first question of a round: deliver the round, or end the run."""
        turn = [(question, future) for question, future in self.turn or () if not future.done()]
        self.turn = None
        outcomes: list[object] = []
        for question, _ in turn:
            try:
                outcomes.append(self._recall(question, self.memory.answers.get(question.name)))
            except Unanswered as unanswered:  # it concerns this question only
                outcomes.append(unanswered)
            except Exception as error:  # it concerns the whole round
                for _, future in turn:
                    future.set_exception(error)
                return
        self.open = [question for question, _ in turn if question.name not in self.memory.answers]
        if self.open:
            for question in self.open:
                question.alone = len(turn) == 1
            self._end_run(turn)
            return
        for (question, future), outcome in zip(turn, outcomes, strict=True):
            self.memory.unread.discard(question.name)
            if isinstance(outcome, Unanswered):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _recall(self, question: Question[A], record: Answered | None) -> A | None:
        """The recorded answer. A bad one is removed, so that the question is asked again."""
        memory, name = self.memory, question.name
        if record is None:
            if question.key is None or name not in memory.unsealed:
                return None
            record = memory.answers[name] = Answered(asked(question), memory.unsealed[name])
        elif record.asked.digest != question.digest:
            raise self.fail(INTERNAL_ERROR, _divergence(record.asked, question))
        if isinstance(record.result, Unanswered):
            memory.unread.discard(name)
            raise record.result
        try:
            return question.read(record.result)
        except BadAnswer as bad:
            if not bad.content:  # the form of the answer is wrong, so the mistake is the client's and not the user's
                raise self.fail(INVALID_PARAMS, f"inputResponses[{name!r}]: {bad}") from None
            question.problem = str(bad)
            del memory.answers[name]
            memory.unread.discard(name)
            return None

    def _end_run(self, turn: Turn) -> None:
        """End the run: `async def` handlers are cancelled, threads get an exception.

        The answers that are awaited are cancelled too: a handler may lose the cancellation of its task (as in the
        `wait_for` of Python 3.11), and then goes on to wait for its answer.
        """
        self.signal(Signal.ENDED)
        task = self.call.run
        if task is not None and not all(question.threaded for question, _ in turn):
            task.cancel()
            self.cancelled = task
        for question, future in turn:
            if question.threaded or task is None:
                future.set_exception(Unwind())
            else:
                future.cancel()


class Asking:
    """What the dialogues of one server share, and how a call that asks is run.

    `Runtime.answer` uses it only for calls that ask or bring answers.
    """

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
        self.timeout = timeout
        """Seconds that a client has for an answer."""
        self._single_use = single_use
        self._behind_middleware = False
        """Whether middleware may change a call before its handler sees it."""

    def place(self, call: Call) -> str:
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
            dialogue = kind(call, Memory(), self)
            if call.open:
                call.dialogue = dialogue
            elif kind is ReplayedDialogue:  # the call has ended, and a task that it started asks: there is no answer
                dialogue.signal(Signal.ENDED)
        assert isinstance(dialogue, Dialogue)
        return dialogue

    def ask(self, call: Call, question: Question[A], threaded: bool) -> Awaitable[A]:
        """The answer to `question`; in the modern era waiting for it may end the run of the handler."""
        question.threaded = threaded
        return self.dialogue(call).ask(question)

    def elicit(
        self, call: Call, message: str, schema: object, key: str | None, threaded: bool
    ) -> Awaitable[Answer[Any]]:
        """The user's answer to a form."""
        question = form_question(call, message, schema, key)
        question.threaded = threaded
        return self.dialogue(call).ask(question)

    async def value(self, call: Call, message: str, schema: object, key: str | None, threaded: bool) -> Any:
        """The value that the user gives; if there is none, the call ends with a result that says so."""
        return value_of(await self.elicit(call, message, schema, key, threaded), message)

    async def confirmed(self, call: Call, message: str, key: str | None, threaded: bool) -> bool:
        """Whether the user says yes."""
        answer = await self.elicit(call, message, CONFIRM, key, threaded)
        return isinstance(answer, Accepted) and answer.data is True

    def run(self, call: Call, handler: Handler, rehearse: bool) -> Awaitable[Outcome]:
        """Run a call that brings answers. With `rehearse`, calls of the handshake era are replayed too."""
        if call.task is not None and call.task.running:
            call.dialogue = ReplayedDialogue(call, task_memory(call.task), self)
            return handler(call)
        if call.dialect.modern:
            memory, once = open_state(self._keys, self._server, call)
            if memory.unsealed and self._is_single_use(call):
                memory.unsealed = {}
            dialogue = ReplayedDialogue(call, memory, self, once)
            call.dialogue = dialogue
            if once and not self._behind_middleware:  # middleware may still refuse the call
                return dialogue.spend_first(handler)
            return handler(call)
        return self._rehearse(call, handler) if rehearse else handler(call)

    async def _rehearse(self, call: Call, handler: Handler) -> Outcome:
        """Run a handshake call as the modern era would: each answer runs the handler again from its first line.

        For tests: it finds handlers that do not ask the same questions when they run again.
        """
        dialogue = call.dialogue = ReplayedDialogue(call, Memory(), self)
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

    async def request_raw(self, call: Call, method: str, params: object) -> object | None:
        """The client's result of one request on behalf of `call`; None if it does not answer."""
        if not getattr(call.channel, "can_ask", True):
            return None
        dialogue = call.dialogue = Dialogue(call, Memory(), self)  # so a server that stops sees that the call asks
        outcome = await dialogue.send(method, params)
        return None if outcome is None or isinstance(outcome, ProtocolError) else decode(outcome)

    def inside_middleware(self, dispatch: Handler) -> Handler:
        """`dispatch` for use inside of middleware: a question ends it with a result, not with a cancellation."""
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
                return result  # not concluded: middleware may still ask
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
            dialogue.uncancel_run()
            if dialogue.phase is Phase.ENDING:  # one task of the handler failed when another one asked
                return await self._input_required(dialogue)
            if not getattr(result, "is_error", False):  # a handler may fail while its run ends
                log.error("%s: %s", self.place(call), SWALLOWED)
                raise ProtocolError(INTERNAL_ERROR, SWALLOWED)
            dialogue.signal(Signal.CONCLUDED)
        elif dialogue.memory.unread:
            names = ", ".join(sorted(dialogue.memory.unread))
            log.warning("%s: the handler no longer asked what it had asked before: %s", self.place(call), names)
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
                    dialogue.uncancel_run()
                stopped = task is not None and task.cancelling()  # not by a question
                ours = isinstance(error, asyncio.CancelledError) or _ends_a_run(error)
                if dialogue.ended and ours and not stopped:
                    return await self._input_required(dialogue)
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling():
                # The client still waits.
                raise RuntimeError("something that the handler waited for was cancelled") from error
            raise error
        finally:
            del error  # its traceback refers to this frame: a reference cycle would keep the whole call in memory

    async def _must_visit(self, call: Call, error: UrlElicitationRequired) -> Outcome:
        """The result of a handler that needs its user to visit a web page first, in the form of the dialect."""
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

    async def _input_required(self, dialogue: Dialogue) -> Result:
        """The result that asks the open questions, and carries what is known so far."""
        call, memory = dialogue.call, dialogue.memory
        dialogue.signal(Signal.CONCLUDED)
        if dialogue.steps is not None:
            await dialogue.steps.settled()
        requests = {}
        for question in dialogue.open:
            params = question.worded() if question.problem else question.params
            requests[question.name] = {"method": question.method, "params": params}
        result = InputRequired(result_type="input_required", input_requests=requests)
        if call.task is not None:
            instead = await call.task.park(requests, packed(memory, dialogue.open, 0, True))
            if instead is not None:
                return instead
        if not call.dialect.modern:  # a rehearsal asks the client and goes on without a state
            return result
        if dialogue.steps is not None and not self._keys.secret:
            await dialogue.steps.keep_all()
        if dialogue.once:
            await dialogue.spend()
        if not memory.bound:  # to what the client sent; middleware may have changed it
            sent = call.method.decode(call.raw_params) if self._behind_middleware else call.params
            memory.bound = binding(self._server, call, sent)
        once = self._is_single_use(call)
        secret = bool(memory.results) and self._keys.secret
        payload = packed(memory, dialogue.open, time.time() + self.timeout, secret, once)
        try:
            result.request_state = self._keys.seal(payload, memory.bound)
        except StateTooLarge as error:
            text = f"{error}. {largest_part(memory, dialogue.open, secret)}"
            log.error("%s: %s", self.place(call), text)
            raise ProtocolError(INTERNAL_ERROR, text) from None
        return result


def _checked_key(key: object) -> str:
    """The full key of a question or step: with the scope of its handler."""
    if not key or not isinstance(key, str):
        raise ValueError(f"the key of a question or step is a name, not {key!r}")
    return scoped(str.__str__(key))  # a plain str, because it may be a member of a StrEnum


def _ends_a_run(error: BaseException) -> bool:
    """Whether a question may have ended a run with this exception; a task group puts it into a group."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_ends_a_run, error.exceptions))
    return isinstance(error, asyncio.CancelledError | Unwind)


def _no_answer(question: Question[A], error: ProtocolError | None) -> tuple[object, A | Unanswered]:
    """The result and the answer that are used when the client gives none, as if the user had cancelled."""
    if question.method == "elicitation/create":
        return CANCEL, question.read(CANCEL)
    reason = f": {error.message}" if error is not None else ""
    unanswered = Unanswered(f"The client did not answer {question.method}{reason}")
    return unanswered, unanswered


def _divergence(before: Asked, now: Question[object]) -> str:
    """The error text for a handler that asks something else when it runs again."""
    return (
        f"The handler did not ask the same question when it ran again: as {now.name!r} it first asked "
        f"{before.kind} {before.message!r}, and now {now.kind} {now.message!r}. Between two rounds a handler must "
        "repeat itself: put what may change into ctx.step(...), and give questions that come in any order a key=."
    )


def _in_words(call: Call, text: str) -> ToolResult:
    """A failure as a tool result for the model; for prompts and resources, a protocol error."""
    if call.method.name != "tools/call":
        raise ProtocolError(INTERNAL_ERROR, text)
    return ToolError(text).result()
