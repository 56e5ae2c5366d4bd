"""Steps: side effects that happen once in a dialogue, however often its handler runs.

In the first round the results live in the dialogue, and then in its sealed state. A later round may reach us twice, so
from then on a result is also written, once only, to the store under (dialogue, key) before anybody sees it.
A step that has begun goes on to its end, whatever becomes of its call: half an effect cannot be recorded.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import sys
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from redstart.features.errors import log
from redstart.features.principal import principal_key
from redstart.features.results import Unencodable, to_json
from redstart.store.shared import scoped
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, encode

if TYPE_CHECKING:
    from redstart.asking.dialogue import Dialogue

inside: contextvars.ContextVar[str] = contextvars.ContextVar("redstart.step", default="")
"""The key of the step that runs here."""

_sorted = msgspec.json.Encoder(order="sorted").encode


class Kept(Struct, array_like=True):
    """A result, and the answers that were known when its step was performed."""

    raw: Raw
    answers: dict[str, str]


_decode = msgspec.json.Decoder(Kept).decode


class Steps:
    """The steps of one dialogue."""

    __slots__ = ("_dialogue", "_performing", "done", "names", "performed")

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self.done: dict[str, Kept] = {}
        self.names: set[str] = set()
        """The keys that this run of the handler has used."""
        self.performed: set[str] = set()
        """The keys of steps that are done and whose results only a store knows."""
        self._performing: dict[str, asyncio.Future[None]] = {}

    # ------------------------------------------------------------ one step

    async def begin(self, key: str) -> bytes | None:
        """The recorded result of a step, or None: then the caller performs it, and calls `end`."""
        if key in self.names:
            raise ValueError(f"two steps of one call have the key {key!r}; each needs its own")
        self.names.add(key)
        try:
            while (mine := self._performing.get(key)) is not None:  # the handler had given it up, and it goes on
                await asyncio.wait([mine])
            if key not in self.done:
                if self._dialogue.suspended:  # a question has ended this run: the rest of it belongs to a later one
                    raise asyncio.CancelledError
                await self._claim(key)
        except BaseException:
            self.names.discard(key)
            raise
        found = self.done.get(key)
        return None if found is None else bytes(found.raw)

    async def _claim(self, key: str) -> None:
        """Make this step ours to perform, unless the store knows its result."""
        shared, fresh = self._dialogue.shared, self._dialogue.fresh
        name, loop = self.name(key), asyncio.get_running_loop()
        while not fresh and (other := shared.steps.get(name)) is not None and other.get_loop() is loop:
            await asyncio.wait([other])  # the same round, sent twice
        claim = self._performing[key] = loop.create_future()
        shared.performing[claim] = key
        if fresh:
            return
        shared.steps[name] = claim
        try:
            kept = await shared.store.kv_get(name)
            if kept is not None:
                self._take(key, kept)
            elif key in self.performed:
                raise self._lost(key)
        except BaseException:
            self._release(key)
            raise
        if kept is not None:
            self._release(key)

    async def end(self, key: str, raw: bytes | None) -> bytes:
        """Record the result of a step before anybody sees it; None says that it failed."""
        try:
            if raw is None:
                self.names.discard(key)  # it may be tried again
                return b""
            kept = self.done[key] = Kept(Raw(raw), self._answers())
            if not self._dialogue.fresh and not await self._keep(key, kept, once=True):
                found = await self._dialogue.shared.store.kv_get(self.name(key))
                if found is not None:  # another process was faster
                    self._take(key, found)
            return bytes(self.done[key].raw)
        except BaseException:
            self.names.discard(key)
            raise
        finally:
            self._release(key)

    async def perform(self, key: str, work: Callable[[], Awaitable[Any]]) -> bytes:
        """Do the work of a step and record what it returns."""
        tasks = self._dialogue.shared.tasks
        task = _begun(self._performed(key, work))
        if task.done():
            return task.result()
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.names.discard(key)
            if not task.done():
                task.add_done_callback(_ended_late)
            raise

    async def _performed(self, key: str, work: Callable[[], Awaitable[Any]]) -> bytes:
        inside.set(key)
        raw = None
        try:
            raw = result_of(key, await work())
        except (SystemExit, KeyboardInterrupt) as error:  # a task that raises one of these ends the loop
            raise RuntimeError(f"the step {key!r} raised {type(error).__name__}") from error
        finally:
            found = await self.end(key, raw)
        return found

    def _release(self, key: str) -> None:
        shared, name = self._dialogue.shared, self.name(key)
        future = self._performing.pop(key, None)
        if future is not None:
            if shared.steps.get(name) is future:
                del shared.steps[name]
            shared.performing.pop(future, None)
            if not future.done():
                future.set_result(None)

    async def settled(self) -> None:
        """Wait until nothing is half done."""
        while self._performing:
            await asyncio.wait(self._performing.values())

    def _lost(self, key: str) -> ProtocolError:
        """The refusal of a step that is done, and of whose result this process knows nothing."""
        dialogue = self._dialogue
        text = (
            f"The step {key!r} of this dialogue has been performed, and its result is lost: the server was restarted, "
            "or another process performed it. It is not performed again. To begin anew, leave out requestState."
        )
        advice = 'States that carry the results of steps need encryption: pip install "redstart[seal]"'
        log.error("%s: %s %s", dialogue.shared.handler_of(dialogue.call), text, advice)
        return dialogue.fail(ProtocolError(INTERNAL_ERROR, text))

    # ------------------------------------------------------------ the store

    def name(self, key: str) -> str:
        """Where the result of a step is kept in the store."""
        dialogue = self._dialogue
        return scoped(principal_key(dialogue.call.principal), "step", dialogue.named(), key)

    async def _keep(self, key: str, kept: Kept, *, once: bool) -> bool:
        shared = self._dialogue.shared
        ttl = shared.ask_timeout + 60
        return await shared.store.kv_set(self.name(key), encode(kept), ttl, nx=once, durable=True)

    async def keep_all(self) -> None:
        """Write every result to the store: for states that clients can read, and that do not carry them."""
        for key, kept in self.done.items():
            await self._keep(key, kept, once=False)

    def _answers(self) -> dict[str, str]:
        """The answers that the handler has met, by their digests."""
        dialogue = self._dialogue
        return {name: _digest(dialogue, name) for name in dialogue.answers if name not in dialogue.unread}

    def _take(self, key: str, found: bytes) -> None:
        """A result from the store; one that came of other answers is none of this round."""
        kept = _decode(found)
        for name, digest in kept.answers.items():
            if _digest(self._dialogue, name) != digest:
                text = f"The step {key!r} of this dialogue was performed with another answer to {name!r}. "
                raise self._dialogue.fail(
                    ProtocolError(INVALID_PARAMS, text + "To begin anew, leave out requestState.")
                )
        self.done[key] = kept


def _digest(dialogue: Dialogue, name: str) -> str:
    answer = dialogue.answers.get(name)
    if answer is None:
        return ""
    said = answer.result
    if isinstance(said, dict):  # what a client notes beside an answer is none of it
        said = {key: value for key, value in said.items() if key != "_meta"}
    return sha256(_sorted(said)).hexdigest()[:32]


def _begun(work: Coroutine[Any, Any, bytes]) -> asyncio.Task[bytes]:
    """A task that has begun, where Python can: most steps that do not wait are done at once."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.get_running_loop().create_task(work)


def new_name(state: Any) -> str:
    """A name for a dialogue. All that bring the same state are in the same one."""
    return secrets.token_urlsafe(16) if state is None else sha256(state.encode()).hexdigest()[:32]


def result_of(key: str, value: Any) -> bytes:
    """What a step returned, as it is recorded."""
    try:
        return to_json(value)
    except Unencodable as error:
        raise TypeError(f"the result of the step {key!r} cannot be recorded: {error}") from None


def _ended_late(task: asyncio.Task[bytes]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a step failed after its call had ended", exc_info=error)
