"""Steps: side effects that happen once in a dialogue, however often its handler runs.

In the first round the results live in the dialogue, and then in its sealed state. A later round may reach the server
twice, so from then on a result is also written to the store, once only, before the handler gets it.
A step that has started runs to its end, whatever becomes of its call, so that its effect is complete.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from redstart.asking.state import Memory, StepResult
from redstart.features.errors import Unencodable, log
from redstart.features.results import to_json
from redstart.store.shared import SharedState, patiently
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, encode

STEP_GRACE: Final = 5.0
"""Seconds that steps have to come to their end when the server stops."""
TASK_STEPS: Final = 24 * 3600.0
"""Seconds that the store keeps the results of the steps of a task: longer than any task is worked on."""
CLEANUP: Final = 1.0
"""Seconds that cancelled steps have to clean up."""

inside: contextvars.ContextVar[str] = contextvars.ContextVar("redstart.step", default="")
"""The key of the step that runs here."""

_decode = msgspec.json.Decoder(StepResult).decode


class RunningSteps:
    """The steps of one server that run now, and the store that keeps their results."""

    def __init__(self, open_store: Callable[[], SharedState], keep_for: float) -> None:
        self._open_store = open_store
        self.keep_for = keep_for
        self.tasks: set[asyncio.Task[bytes]] = set()
        self._claims: dict[tuple[str, asyncio.AbstractEventLoop], tuple[str, asyncio.Future[None]]] = {}
        """From the name in the store to the key of the step, and a future that is done when the step has ended."""

    @property
    def store(self) -> SharedState:
        """Where results and used states are kept; opened when it is first needed."""
        return self._open_store()

    async def keep(self, name: str, value: bytes, *, once: bool, seconds: float = 0) -> bool:
        """Write to the store. With `once` an existing value is kept, and the result is False."""
        return await self.store.kv_set(name, value, max(self.keep_for, seconds), nx=once, durable=True)

    async def wait_for(self, name: str) -> None:
        """Wait while this step runs, for the same round sent twice or for an earlier try in the same run."""
        loop = asyncio.get_running_loop()
        while (claim := self._claims.get((name, loop))) is not None:
            await asyncio.wait([claim[1]])

    def claim(self, name: str, key: str) -> asyncio.Future[None]:
        """Reserve this step for the caller, until it is released."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        self._claims[name, loop] = key, ended
        return ended

    def release(self, name: str) -> None:
        """The step has ended, or did not begin."""
        claim = self._claims.pop((name, asyncio.get_running_loop()), None)
        if claim is not None and not claim[1].done():
            claim[1].set_result(None)

    async def finish(self) -> None:
        """The server stops: wait for a limited time for steps that have begun, so that their effects are complete."""
        if not self._claims:
            return
        await asyncio.wait([ended for _, ended in self._claims.values()], timeout=STEP_GRACE)
        for key, ended in self._claims.values():
            log.error("the server stops, and the step %r is not done", key)
            if not ended.done():
                ended.set_result(None)
        self._claims.clear()
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=CLEANUP)


class _Owner(Protocol):
    """The dialogue that steps belong to."""

    memory: Memory
    ended: bool

    @property
    def is_task(self) -> bool: ...

    def stored(self, *parts: str) -> str: ...

    def fail(self, code: int, text: str, advice: str = "") -> ProtocolError: ...


class Steps:
    """The steps of one dialogue."""

    __slots__ = ("_dialogue", "_memory", "_performing", "_running", "names")

    def __init__(self, dialogue: _Owner, running: RunningSteps) -> None:
        self._dialogue = dialogue
        self._memory = dialogue.memory
        self._running = running
        self.names: set[str] = set()
        """The keys that this run of the handler has used."""
        self._performing: dict[str, asyncio.Future[None]] = {}

    def _name(self, key: str) -> str:
        """The name under which the result of a step is kept in the store."""
        return self._dialogue.stored("step", self._memory.name(), key)

    # ------------------------------------------------------------ one step

    async def begin(self, key: str) -> bytes | None:
        """The recorded result of a step, or None: then the caller performs it, and calls `end`."""
        if key in self.names:
            raise ValueError(f"two steps of one call have the key {key!r}; each needs its own")
        self.names.add(key)
        memory, name = self._memory, self._name(key)
        try:
            await self._running.wait_for(name)
            if key not in memory.results:
                if self._dialogue.ended:  # a question has ended this run: a later run performs the step
                    raise asyncio.CancelledError
                self._performing[key] = self._running.claim(name, key)
                recorded = await self._recorded(name) if memory.rounds else None
                if recorded is not None:
                    self._accept(key, recorded)
                elif key in memory.performed:
                    raise self._lost(key)
                else:
                    return None
        except BaseException:
            self.names.discard(key)
            self._release(key)
            raise
        self._release(key)
        return bytes(memory.results[key].raw)

    async def end(self, key: str, raw: bytes | None) -> bytes:
        """Record the result of a step before it is used; None means that the step failed."""
        try:
            if raw is None:
                self.names.discard(key)  # it may be tried again
                return b""
            result = self._memory.results[key] = StepResult(Raw(raw), self._memory.read_answers())
            name = self._name(key)
            if self._memory.rounds and not await self._keep(name, encode(result)):
                recorded = await self._recorded(name)
                if recorded is not None:  # another process was faster
                    self._accept(key, recorded)
            return bytes(self._memory.results[key].raw)
        except BaseException:
            self.names.discard(key)
            raise
        finally:
            self._release(key)

    async def _keep(self, name: str, result: bytes) -> bool:
        """Write a result once. A task may go on in another process, much later, and waits for a store that is away."""
        if self._dialogue.is_task:
            return await patiently(self._running.keep, name, result, once=True, seconds=TASK_STEPS)
        return await self._running.keep(name, result, once=True)

    async def _recorded(self, name: str) -> bytes | None:
        read = self._running.store.kv_get
        return await (patiently(read, name) if self._dialogue.is_task else read(name))

    async def perform(self, key: str, work: Callable[[], Awaitable[object]]) -> bytes:
        """Do the work of a step and record what it returns."""
        task = _started(self._performed(key, work))
        if task.done():
            return task.result()
        tasks = self._running.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.names.discard(key)
            if not task.done():
                task.add_done_callback(_ended_late)
            raise

    async def _performed(self, key: str, work: Callable[[], Awaitable[object]]) -> bytes:
        inside.set(key)
        raw = None
        try:
            raw = result_of(key, await work())
        except (SystemExit, KeyboardInterrupt) as error:  # a task that raises one of these ends the loop
            raise RuntimeError(f"the step {key!r} raised {type(error).__name__}") from error
        finally:
            recorded = await self.end(key, raw)
        return recorded

    def _release(self, key: str) -> None:
        if self._performing.pop(key, None) is not None:
            self._running.release(self._name(key))

    # ------------------------------------------------------------ all of them

    async def settled(self) -> None:
        """Wait until every step that has begun has ended."""
        while self._performing:
            await asyncio.wait(self._performing.values())

    async def keep_all(self) -> None:
        """Write every result to the store, because a state that clients can read does not carry them."""
        for key, result in self._memory.results.items():
            await self._running.keep(self._name(key), encode(result), once=False)

    def _accept(self, key: str, recorded: bytes) -> None:
        """Use a result from the store, unless it was computed with other answers than the present ones."""
        result = _decode(recorded)
        for name, digest in result.answers.items():
            if self._memory.digest(name) != digest:
                text = f"The step {key!r} of this dialogue was performed with another answer to {name!r}. "
                raise self._dialogue.fail(INVALID_PARAMS, text + "To begin anew, leave out requestState.")
        self._memory.results[key] = result

    def _lost(self, key: str) -> ProtocolError:
        """The refusal of a step that is done, but whose result this process cannot find."""
        return self._dialogue.fail(
            INTERNAL_ERROR,
            f"The step {key!r} of this dialogue has been performed, and its result is lost: the server was restarted, "
            "or another process performed it. It is not performed again. To begin anew, leave out requestState.",
            'States that carry the results of steps need encryption: pip install "redstart[seal]"',
        )


def _started(work: Coroutine[Any, Any, bytes]) -> asyncio.Task[bytes]:
    """A task that has already started, from Python 3.12 on: most steps that do not wait are done at once."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.get_running_loop().create_task(work)


def result_of(key: str, value: object) -> bytes:
    """What a step returned, as it is recorded."""
    try:
        return to_json(value)
    except Unencodable as error:
        raise TypeError(f"the result of the step {key!r} cannot be recorded: {error}") from None


def _ended_late(task: asyncio.Task[bytes]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a step failed after its call had ended", exc_info=error)
