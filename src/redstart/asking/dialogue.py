"""Asking, written once: the dialogue of one call with its peer, whatever the era.

Handshake era: a question is a request of its own and the handler waits. Modern era: an unanswered question ends the
call as `input_required`; the client sends the call again with the answers, the handler runs again from its first
line, and each question that was answered returns at once. Questions asked in one turn of the loop make one round;
a round is delivered as a whole, so that a replay meets its questions in the order of the first run.
Spec: /specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from msgspec import DecodeError, Struct

from redstart.asking.questions import BadAnswer, Question, no_stream
from redstart.asking.records import Answered, asked, diverged
from redstart.asking.scope import scoped
from redstart.asking.seal import USED, refused
from redstart.asking.steps import Steps, inside, new_name
from redstart.execution.limits import off_the_clock, stepped_out
from redstart.features.errors import Unanswered, Unwind
from redstart.features.principal import principal_key
from redstart.protocol.call import Call, Pending
from redstart.store.shared import scoped as owned
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError, decode

if TYPE_CHECKING:
    from redstart.asking.runs import Asking

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
TRIES: Final = 2
"""How often a handshake client is asked one question before a bad answer counts as none."""


def task_of(call: Call) -> asyncio.Task[Any] | None:
    """The task that runs now. Asked without a loop, Python 3.11 makes a system call to find it."""
    return current_task(None if call.run is None else call.run.get_loop())


def in_own_task(call: Call) -> bool:
    """Whether what runs now is the task of the call itself, and none beside it."""
    run = call.run
    return run is not None and current_task(run.get_loop()) is run


class Dialogue(Struct, eq=False):
    """What one call has asked and got. Lives on the loop's thread."""

    call: Call
    shared: Asking
    live: bool
    """Whether questions go out as requests, now."""
    id: str = ""
    bound: bytes = b""
    """What its states are good for, once that is known."""
    rounds: int = 0
    fresh: bool = True
    """Whether no earlier round is known, so nobody else can be in this dialogue."""
    answers: dict[str, Answered] = {}
    unread: set[str] = set()
    """Recorded answers that the handler has not met yet; until it has, it is repeating itself."""
    once: str = ""
    """The name of the state that this round has brought, if that is for one use and not used yet."""
    visit: Answered | None = None
    """The answer to a URL elicitation error: what the user did about a page. `ctx.elicit` never returns it."""
    loose: Mapping[str, Any] = NOTHING
    """Answers that came without a state: they count for questions with a `key=` only."""
    steps: Steps | None = None
    concluded: bool = False
    entered: bool = False
    """Whether middleware has let the handler run before."""
    broken: ProtocolError | None = None
    """Why this dialogue cannot go on, whatever its handler makes of it."""
    waiting: dict[asyncio.Future[Any], Pending | None] | None = None
    """What somebody waits for, or has waited for, and the question at the client that it is the answer to."""

    # One run of the handler:
    keys: Set[str] = frozenset()
    """The names of the questions that have a key."""
    open: Sequence[Question] = ()
    suspended: bool = False
    cancelled: bool = False
    """Whether the handler's task was cancelled to end the run."""
    thrown: bool = False
    """Whether the end of the run went through the handler's own frames, so that it must come out of them."""
    ordinal: int = 0
    batch: list[tuple[Question, asyncio.Future[Any]]] | None = None
    """The questions of this turn of the loop."""

    def repeat(self) -> None:
        """Middleware lets the handler run once more, in the same round: its keys stand for the same questions."""
        self.keys, self.call.uses = frozenset(), None
        if self.steps is not None:
            self.steps.names = set()

    def restart(self) -> None:
        """The handler runs from its first line."""
        self.repeat()
        self.open, self.batch = (), None
        self.suspended = self.cancelled = self.thrown = self.concluded = False
        self.ordinal = 0
        self.unread = set(self.answers)

    # ------------------------------------------------------------ asking

    async def ask(self, question: Question) -> Any:
        """The answer to `question`; in the modern era waiting for it may end the run of the handler."""
        answer = self.meet(question)
        return await self.wait(question) if answer is None else answer

    async def begin_step(self, key: Any) -> tuple[Steps, str, bytes | None]:
        """The steps of this dialogue, the key as it knows it, and the recorded result if there is one."""
        if self.steps is None:
            self.steps = Steps(self)
        key = self.key(key)
        return self.steps, key, await self.steps.begin(key)

    def meet(self, question: Question) -> Any:
        """The answer to `question` where it is known at once, else None: then somebody has to `wait` for it."""
        question.check(self.call)
        self._identify(question)
        return None if self.live or self.suspended or self.batch else self._answer_alone(question)

    def wait(self, question: Question) -> Awaitable[Any]:
        """The answer to a question that was just met; in the modern era this may end the run of the handler instead."""
        if self.open and self.open[0] is question:
            raise asyncio.CancelledError
        return self._wait(question)

    async def _wait(self, question: Question) -> Any:
        if self.live:
            self._refuse_where_none_can(question)
            with off_the_clock():
                async with stepped_out():
                    return await self._ask_now(question)
        if self.suspended:
            await asyncio.sleep(0)  # a handler that swallows its end must not hold up the loop too
            raise Unwind if question.threaded else asyncio.CancelledError
        try:
            return await self._in_this_turn(question)
        except (asyncio.CancelledError, Unwind) as error:
            if self.suspended and (isinstance(error, Unwind) or in_own_task(self.call)):
                self.thrown = True
            raise

    def _answer_alone(self, question: Question) -> Any:
        """The recorded answer to a question that no other one can join; where there is none the run is at its end.

        The handler's own task waits for this one. (A task beside it, as `gather` makes, may have company: then None.)
        """
        record = self.answers.get(question.name)
        if record is None:
            if not in_own_task(self.call):
                return None
        elif not record.asked.alone:
            return None
        question.alone = True
        answer = None if record is None and not self.loose else self._recall(question, record)
        if answer is not None:
            self.unread.discard(question.name)
        elif record is None or in_own_task(self.call):
            self._refuse_where_none_can(question)
            self.open = [question]
            self.suspended = self.thrown = True
        return answer

    def _in_this_turn(self, question: Question) -> asyncio.Future[Any]:
        """The answer to a question that others may join, in this turn of the loop."""
        self._refuse_where_none_can(question)
        loop = asyncio.get_running_loop()
        if self.batch is None:
            self.batch = []
            loop.call_soon(self._turn)
        future: asyncio.Future[Any] = loop.create_future()
        self._wait_for(future, None)
        self.batch.append((question, future))
        return future

    def _wait_for(self, future: asyncio.Future[Any], pending: Pending | None) -> None:
        if self.waiting is None:
            self.waiting = {}
        self.waiting[future] = pending

    def _identify(self, question: Question) -> None:
        """Give a question its name on the wire."""
        if question.key is None:
            self.ordinal += 1
            name = f"q{self.ordinal}"
            while name in self.keys:
                self.ordinal += 1
                name = f"q{self.ordinal}"
        else:
            name = self.key(question.key)
            if name in self.keys or name in [f"q{number + 1}" for number in range(self.ordinal)]:
                raise ValueError(f"two questions of one call have the key {name!r}; each needs its own")
            self.keys |= {name}
        question.name = name

    def key(self, key: Any) -> str:
        """The key of a question or step as this call knows it."""
        if not key or not isinstance(key, str):
            raise ValueError(f"the key of a question or step is a name, not {key!r}")
        return scoped(str.__str__(key))  # also of an Enum whose members are text

    def named(self) -> str:
        """The name under which the store knows this dialogue."""
        if not self.id:
            self.id = new_name(None if self.fresh else self.call.params.request_state)
        return self.id

    def fail(self, error: ProtocolError) -> ProtocolError:
        """End the call with `error`, though the handler may catch it."""
        self.broken = error
        return error

    @property
    def replaying(self) -> bool:
        """Whether the handler is still repeating what it did in an earlier round."""
        return bool(self.unread)

    @property
    def ended(self) -> bool:
        """Whether a question without an answer has ended this run of the handler."""
        return self.suspended

    @property
    def asking(self) -> bool:
        """Whether a question is at the client, which has not answered yet."""
        waiting = self.waiting or {}
        return any(pending is not None and not future.done() for future, pending in waiting.items())

    @property
    def unspent(self) -> bool:
        """Whether the call came with a state that is for one use and not used up yet."""
        return bool(self.once)

    async def spend_first(self, handler: Callable[[Call], Awaitable[Any]]) -> Any:
        """Use up a state that is for one use, now that nothing but the handler is left to refuse the call."""
        await self.spend()
        return await handler(self.call)

    async def spend(self) -> None:
        """Use up the state of this round."""
        name, self.once = self.once, ""
        ttl = self.shared.ask_timeout + 60
        key = owned(principal_key(self.call.principal), "used", name)
        if not await self.shared.store.kv_set(key, b"1", ttl, nx=True, durable=True):
            raise refused(USED)

    async def settle(self) -> None:
        """Wait for the steps that have begun."""
        if self.steps is not None:
            await self.steps.settled()

    @property
    def unsettled(self) -> bool:
        """Whether something is left to say or to stop when the handler has ended."""
        return bool(self.suspended or self.unread or self.waiting or self.broken)

    @property
    def busy(self) -> bool:
        """Whether something has to be waited for before a round can end."""
        return self.steps is not None or bool(self.once)

    # ------------------------------------------------------------ handshake era

    async def _ask_now(self, question: Question) -> Any:
        record = self.answers.get(question.name) if self.entered else None
        if record is not None and record.asked.digest == question.digest:
            return question.read(record.result)
        result = await self.fetch(question)
        if isinstance(result, Unanswered):
            raise result
        if question.key is not None:  # a handler that middleware lets run once more may ask it again
            self.answers[question.name] = Answered(asked(question), result)
        return question.read(result)

    async def fetch(self, question: Question) -> Any:
        """The client's result, in a form that can be read, or what stands for none."""
        if not getattr(self.call.channel, "can_ask", True):
            raise no_stream(question)
        if self.call.session is not None and not self.call.session.initialized and not await self._initialized():
            return _no_answer(question, None)
        for _ in range(TRIES):
            outcome = await self.send(question)
            if outcome is None or isinstance(outcome, ProtocolError):
                return _no_answer(question, outcome)
            try:
                result = decode(outcome)
                question.read(result)
                return result
            except BadAnswer as bad:
                if not bad.content:
                    break
                question.problem = str(bad)
            except DecodeError as error:  # such as a number that no machine can hold
                question.problem = f"This could not be read: {error}."
        return _no_answer(question, None)

    async def _initialized(self) -> bool:
        """Whether the client says in time that it is initialized. The spec: before that it is asked nothing."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tellers = self.call.link.on_initialized

        def tell() -> None:
            if not future.done():
                future.set_result(None)

        tellers.append(tell)
        try:
            async with asyncio.timeout(self.shared.ask_timeout):
                await future
        except TimeoutError:
            return False
        finally:
            tellers.remove(tell)
        return True

    async def send(self, question: Question) -> Any:
        """One request to the peer: its raw result, its error, or None if it does not answer in time."""
        call = self.call
        asked = call.link.ask(call, question.method, question.worded())
        if asked is None:
            return None
        pending, data = asked
        future = asyncio.get_running_loop().create_future()
        pending.resolve = lambda outcome: None if future.done() else future.set_result(outcome)
        self._wait_for(future, pending)
        try:
            call.channel.send(data)
            async with asyncio.timeout(self.shared.ask_timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            call.link.pending.pop(pending.id, None)
            waited = self.waiting is not None and self.waiting.pop(future, None) is not None
            if waited and (not future.done() or future.cancelled()):
                self._withdraw(pending)

    def _withdraw(self, pending: Pending) -> None:
        """The form on the user's screen may close, also where the client has given up the whole call."""
        data = self.call.link.withdraw(pending)
        if self.call.session is self.call.link.session:  # a new session of the same client does not know the question
            self.call.channel.send(data)

    # ------------------------------------------------------------ modern era

    def _turn(self) -> None:
        """One turn of the loop after the first question of a round: deliver the round, or end the run."""
        batch = [(question, future) for question, future in self.batch or () if not future.done()]
        self.batch = None
        outcomes: list[Any] = []
        for question, _ in batch:
            try:
                outcomes.append(self._recall(question, self.answers.get(question.name)))
            except Unanswered as nothing:  # to this question
                outcomes.append(nothing)
            except Exception as error:  # the whole round is at fault
                for _, future in batch:
                    future.set_exception(error)
                return
        self.open = [question for question, _ in batch if question.name not in self.answers]
        if self.open:
            for question in self.open:
                question.alone = len(batch) == 1
            self._suspend(batch)
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self.unread.difference_update(question.name for question, _ in batch)

    def _recall(self, question: Question, record: Answered | None) -> Any:
        """The recorded answer; a bad one is struck out, so that the question is asked again."""
        if record is None:
            if question.key is None or question.name not in self.loose:
                return None
            record = self.answers[question.name] = Answered(asked(question), self.loose[question.name])
        elif record.asked.digest != question.digest:
            raise self.fail(diverged(self.shared.handler_of(self.call), record.asked, question))
        if isinstance(record.result, Unanswered):
            self.unread.discard(question.name)
            raise record.result
        try:
            return question.read(record.result)
        except BadAnswer as bad:
            if not bad.content:  # no user has said this: the client is to blame
                raise self.fail(ProtocolError(INVALID_PARAMS, f"inputResponses[{question.name!r}]: {bad}")) from None
            question.problem = str(bad)
            del self.answers[question.name]
            self.unread.discard(question.name)
            return None

    def _suspend(self, batch: list[tuple[Question, asyncio.Future[Any]]]) -> None:
        """End the run: `async def` handlers are cancelled, threads get an exception.

        So is what waits for the answers: a cancellation may be lost on its way through the handler (as in the
        `wait_for` of Python 3.11), and then this is what the handler waits for next.
        """
        self.suspended = True
        task = self.call.run
        if task is not None and not all(question.threaded for question, _ in batch):
            task.cancel()
            self.cancelled = True
        for question, future in batch:
            if question.threaded or task is None:
                future.set_exception(Unwind())
            else:
                future.cancel()

    def overrule(self) -> None:
        """The handler has no time left: its question is not asked, and does not end the run."""
        if self.suspended and self.cancelled:
            self.call.run.uncancel()
        self.suspended = self.cancelled = self.thrown = False

    def close(self) -> None:
        """Nobody waits for answers any more. What was asked is taken back now: a stream may be about to end."""
        waiting, self.waiting = self.waiting or {}, None
        for future, pending in waiting.items():
            if pending is not None and not future.done():
                self._withdraw(pending)
            future.cancel()

    def _refuse_where_none_can(self, question: Question) -> None:
        if not self.call.method.may_ask:
            raise RuntimeError(f"{self.call.method.name} cannot ask: only tools, prompts and resources can")
        if step := inside.get():
            raise RuntimeError(
                f"the step {step!r} asks {question.message!r}: a step is done once and then only remembered. "
                "Ask before the step, and let it use the answer."
            )


def _no_answer(question: Question, error: ProtocolError | None) -> Any:
    """What stands for no answer: for the user's questions that is an answer too."""
    if question.method == "elicitation/create":
        return {"action": "cancel"}
    said = f": {error.message}" if error is not None else ""
    return Unanswered(f"The client did not answer {question.method}{said}")
