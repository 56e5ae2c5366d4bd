"""Runs calls: one task each, cancelled when the peer says so, and every exception turned into bytes in one place.

A Runtime owns what outlives a change of the server: the loop, the threads, the lifespan, the store. It holds a
Description of what the server offers, which each change replaces as a whole, and knows nothing else of it. A call
keeps the description that it began with.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from msgspec import UNSET, Struct

from redstart.execution.executor import Runner
from redstart.execution.limits import CallLimits
from redstart.features.errors import ErrorPolicy, SettingsError, ToolError, Unwind, log
from redstart.features.registry import Catalog
from redstart.features.subscriptions import Hub, Peer
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Answer, Call, Cancel, Channel, Event, Refusal
from redstart.protocol.dialect import Session
from redstart.protocol.link import Link, LinkTap
from redstart.protocol.modern import Modern
from redstart.server import DRAIN
from redstart.server.settings import ServerOptions
from redstart.wire.jsonrpc import INTERNAL_ERROR, URL_ELICITATION_REQUIRED, JsonObject, ProtocolError
from redstart.wire.meta import Implementation
from redstart.wire.types import Text, ToolResult

if TYPE_CHECKING:
    from redstart.access.authenticator import Authenticator
    from redstart.asking.dialogue import Asking
    from redstart.asking.seal import KeyRing
    from redstart.features.principal import User
    from redstart.features.prompts import CompiledPrompt
    from redstart.features.replica import Replica
    from redstart.features.resources import CompiledResource, Resources
    from redstart.observe.observing import Observer, RunCall
    from redstart.observe.telemetry import Telemetry
    from redstart.server.middleware import Handler
    from redstart.store.shared import SharedState
    from redstart.tasks.service import Tasks
    from redstart.tasks.worker import Worker

R = TypeVar("R")
L = TypeVar("L", bound=Link)
GRACE: Final = 1.0
"""Seconds that threads have to clean up when the runtime stops."""
_ANSWERED: Final = b"{}"
_EAGER = sys.version_info >= (3, 12)


class Description(Struct, frozen=True, eq=False):
    """What a server offers at one moment. It does not change: after a change `Dispatch` makes another one."""

    capabilities: dict[str, JsonObject]
    tools: Catalog[CompiledTool]
    prompts: Catalog[CompiledPrompt]
    resources: Catalog[CompiledResource]
    templates: Catalog[CompiledResource]
    methods: Mapping[str, Handler]
    """The handler of each method, with the middleware around it."""


class Hosted(Protocol):
    """What a transport serves: a Server."""

    @property
    def runtime(self) -> Runtime: ...


current_call: contextvars.ContextVar[Call] = contextvars.ContextVar("redstart.call")


class Runtime(Runner):
    """Runs the calls of one server, and owns its loop, threads, lifespan and store."""

    loading: ClassVar[list[SettingsError] | None] = None
    """In a child process that loads the file of its tool: the errors of servers in that file that tried to start."""
    owns_store: bool = True
    """Whether it closes the store that it has opened: a Host does that for its servers."""
    tap: Callable[[], LinkTap] | None = None
    """Makes what sees the messages of a link."""
    run_task: RunCall | None = None
    """Runs the calls of tasks, in place of `answer`."""
    on_log: Callable[[Call, str, object, str | None], None] | None = None
    """Sees what handlers log for clients, whether a client wants it or not."""

    def __init__(self, info: Implementation, options: ServerOptions) -> None:
        timeout, concurrency, queue = options["timeout"], options["max_concurrency"], options["max_queue"]
        limits = CallLimits(timeout, concurrency, queue, options["max_result_bytes"])
        super().__init__(limits, options["threads"], options["processes"])
        self.name = info.name
        self.info = info
        self.modern = Modern(info, options["max_depth"])
        self.options = options
        self.errors = ErrorPolicy(options["expose_errors"], options["debug"])
        self.given_keys: list[str | bytes] = list(options["keys"] or ())  # type: ignore[arg-type]  # by its rule
        self.current: Description | None = None
        """The description of the server; None after a change, until the next call."""
        self.describe: Callable[[], Description]
        """Makes the next description and puts it into `current`. `Dispatch` sets it."""
        self.hub = Hub(lambda: self.description.capabilities, lambda uri: self.resources.rule(uri))
        self.force_replay = False
        """Whether handshake calls are replayed too: after each answer the handler runs again from its first line."""
        self.lifespans: list[Callable[[], AbstractAsyncContextManager[object]]] = []
        """The context managers that are entered at the start. The value of the first one is `ctx.lifespan`."""
        self.lifespan_state: object = None
        self.routes: dict[str, Any] = {}
        """The application's own HTTP paths beside the MCP endpoint."""
        self.mcp_paths: set[str] = set()
        """The paths of the MCP endpoints, which cannot be routes."""
        self.failure: Exception | None = None
        """Why it did not start."""
        self.drain = DRAIN
        """Seconds that tasks which cannot be repeated have to finish when the runtime stops."""
        self.at_stop: list[Callable[[], None]] = []
        """Functions of the transports that are called when the runtime stops, before its lifespan ends."""
        self.unwinding: set[asyncio.Task[None]] = set()
        self.answer: RunCall = self._answer
        """Runs one call to its bytes."""
        self.telemetry: Telemetry | None = None
        if options["telemetry"]:
            from redstart.observe.telemetry import Telemetry

            self.telemetry = Telemetry(self.known_name, content=options["telemetry"] == "content")
            self.observe(self.telemetry.begin)
        self._stack: AsyncExitStack | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def description(self) -> Description:
        """What the server offers now."""
        return self.current or self.describe()

    @property
    def resources(self) -> Resources:
        """What can be read now."""
        from redstart.features.resources import Resources

        return Resources(self.description.resources, self.description.templates, self.errors)

    @cached_property
    def store(self) -> SharedState:
        """The state that processes share; opened when it is first needed."""
        from redstart.store.open import open_state

        return open_state(self.options["store"])

    def use_store(self, url: str) -> None:
        """Keep shared state there, whatever the server was made with. For use before the start."""
        self.options["store"] = url
        self.__dict__.pop("store", None)
        _ = self.store

    @cached_property
    def replica(self) -> Replica | None:
        """This process as one of several that share a store; None if nothing is shared."""
        if not self.shares:
            return None
        from redstart.features.replica import Replica

        return Replica(self.name, self.store, self.hub)

    @cached_property
    def authenticator(self) -> Authenticator | None:
        """Finds the user of a token; None without `auth=`, when every caller is let in."""
        auth = self.options["auth"]
        if auth is None:
            return None
        from redstart.access.authenticator import Authenticator

        return Authenticator(auth, self.errors, self)

    def local_user(self) -> User | None:
        """The user of the client on stdio."""
        auth, scopes = self.options["auth"], tuple(self.options["stdio_scopes"])
        if auth is None and not scopes:
            return None
        from redstart.access.authenticator import local_user

        return local_user(scopes, applied=auth is None)

    @cached_property
    def keys(self) -> KeyRing:
        """The keys that seal the state of a dialogue; loaded when they are first needed."""
        from redstart.asking.seal import KeyRing

        return KeyRing(self.given_keys)

    @cached_property
    def asking(self) -> Asking:
        """Runs the calls that ask; loaded by the first question, because most servers never ask."""
        from redstart.asking.dialogue import Asking

        timeout, single_use = self.options["ask_timeout"], self.options["single_use"]
        return Asking(self.name, self._find_tool, self.keys, lambda: self.store, timeout, single_use)

    @property
    def shares(self) -> bool:
        """Whether the store outlives this process."""
        if self.options["store"] is None:
            return False
        from redstart.store.open import is_shared

        return is_shared(self.store)

    @cached_property
    def tasks(self) -> Tasks:
        """Calls that outlive their connection; loaded with the first tool that may be one."""
        from redstart.tasks.service import Tasks

        limits, hub = self.options["tasks"], self.hub
        return Tasks(
            self.name, limits, lambda: self.store, self._find_tool, lambda: self.asking, hub, self._start_worker
        )

    def _start_worker(self) -> Worker | None:
        if not self.started:  # it stops: a task that is made now is left to others
            return None
        self.worker.start()
        return self.worker

    @cached_property
    def worker(self) -> Worker:
        """Runs the tasks in this process."""
        from redstart.tasks.worker import Worker

        answer = self.run_task or self.answer
        return Worker(self.tasks, self.modern, answer, self.cancel, lambda: self.description.tools.items)

    @property
    def tasks_running(self) -> int:
        """How many tasks this process works on."""
        return len(self.worker.legs) if "worker" in self.__dict__ else 0

    def _find_tool(self, name: str) -> CompiledTool | None:
        return (self.current or self.describe()).tools.items.get(name)

    def load_keys(self) -> None:
        """Read the configured keys, so that an error in them is raised at the start and not at the first question."""
        if self.given_keys or any(name.startswith("REDSTART_KEY") for name in os.environ):
            self.keys.load()

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Start once. If the lifespan fails, every caller gets the same error."""
        if self._stack is not None:
            return
        if self._starting is None:
            self._check_loaded()
            self.loop = self.hub.loop = asyncio.get_running_loop()
            self._starting = self.loop.create_task(self._start())
        await asyncio.shield(self._starting)

    def _check_loaded(self) -> None:
        """Refuse to start in a child process that still loads its file: each child would start another one."""
        if Runtime.loading is None:
            return
        refusal = SettingsError(
            'this file serves or calls its own tools when it is imported, but executor="process" has to import it',
            'put what starts the program under `if __name__ == "__main__":`',
        )
        Runtime.loading.append(refusal)
        raise refusal

    async def _start(self) -> None:
        try:
            self.load_keys()
            _ = self.replica
            async with AsyncExitStack() as stack:
                values = [await stack.enter_async_context(enter()) for enter in self.lifespans]
                self.lifespan_state = values[0] if values else None
                self._stack = stack.pop_all()
            if "tasks" in self.description.capabilities:
                self.worker.start()
        except Exception as error:
            self.failure = error
            raise

    @property
    def started(self) -> bool:
        return self._stack is not None

    async def stop(self) -> None:
        """End the lifespan and let the threads go."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        stack, self._stack, self._starting = self._stack, None, None
        while self.at_stop:
            self.at_stop.pop()()
        for task in list(self.unwinding):
            task.cancel()
        self.hub.close()
        await self.stop_tasks()
        if "asking" in self.__dict__:
            await self.asking.steps.finish()
        await self.pool.settle(GRACE)
        self.close()
        if self.__dict__.get("authenticator") is not None:  # stdio has none, and must not make one
            self.authenticator.close()  # type: ignore[union-attr]
        if stack is not None:
            await stack.aclose()
        await self.close_store()

    async def close_store(self) -> None:
        """Close a store that we opened, unless the server runs. Who needs it then, in any loop, opens it anew."""
        if self.owns_store and isinstance(self.options["store"], str) and self.shares and not self.started:
            await self.store.close()
            del self.store

    async def stop_tasks(self) -> None:
        """Run no more tasks: hand back what may be repeated, and wait for the rest."""
        if "worker" in self.__dict__:
            await self.worker.stop(self.drain if self.shares else 0)  # the tasks in memory end with this process

    # ------------------------------------------------------------ observing

    def observe(self, observer: Observer) -> None:
        """From now on show every call to `observer`."""
        from redstart.observe.observing import observed

        self.answer = observed(self.answer, observer)

    def known_name(self, call: Call) -> str | None:
        """The name of the tool or prompt that is called, if there is one of that name."""
        if call.method.name == "tools/call":
            return call.name if call.name in self.description.tools.items else None
        return call.name if call.method.name == "prompts/get" and call.name in self.description.prompts.items else None

    # ------------------------------------------------------------ calls

    def link(self, session: Session | None = None) -> Link:
        """A link for a new peer."""
        link = Link(self.modern, session, session is None)
        if self.tap is not None:
            link.tap = self.tap()
        return link

    def tapped(self, link: L) -> L:
        """Let the inspector see what goes through a link, if there is one."""
        if self.tap is not None:
            link.tap = self.tap()
        return link

    def feed(self, peer: Peer, data: bytes, user: object = None) -> None:
        """One message of a stream peer."""
        for event in peer.link.receive(data):
            self.take(event, peer.channel, user)

    def take(self, event: Event, channel: Channel, user: object = None) -> None:
        """Handle one event of a stream peer."""
        if isinstance(event, Call):
            event.channel = channel
            event.user = user
            coro = self._serve(event)
            if _EAGER:
                asyncio.Task(coro, loop=self.loop, eager_start=True)  # type: ignore[call-arg]
            else:
                event.run = self.loop.create_task(coro)  # type: ignore[union-attr]
        elif isinstance(event, Refusal):
            channel.send(event.data)
        elif isinstance(event, Cancel):
            self.cancel(event.call)
            if event.data is not None:
                channel.send(event.data)
        elif isinstance(event, Answer):
            event.pending.resolve(event.outcome)

    async def _serve(self, call: Call) -> None:
        if _EAGER:  # the task already runs before its constructor returns
            call.run = asyncio.current_task()
        try:
            data = await self.answer(call)
        except Unwind:  # the runtime stops and has ended the thread of the handler
            return
        if data is not None:
            call.channel.send(data)

    async def _answer(self, call: Call) -> bytes | None:
        """Run one call to its bytes. The only place where an exception becomes a JSON-RPC error."""
        call.runner = self
        current_call.set(call)
        try:
            try:
                params, handler = call.params, (self.current or self.describe()).methods[call.method.name]
                if call.batch is not None:
                    call.batch.check_room()
                if call.method.may_ask and (
                    params.request_state is not UNSET or params.input_responses is not UNSET or self.force_replay
                ):
                    result = await self.asking.run(call, handler, self.force_replay)
                else:
                    result = await handler(call)
                if call.dialogue is not None:
                    result = await self.asking.conclude(call, result)
            except (asyncio.CancelledError, Unwind, BaseExceptionGroup) as error:
                if call.dialogue is None and call.run is not None and call.run.cancelling():  # it never asked
                    raise
                result = await self.asking.end(call, error)
            except ProtocolError as error:
                if error.code != URL_ELICITATION_REQUIRED:
                    raise
                result = await self.asking.end(call, error)
            if call.outcome is UNSET:
                call.outcome = result
            return call.link.reply(call, result)
        except ProtocolError as error:
            call.outcome = error if call.outcome is UNSET else None
            call.status = 503 if error.retry_after else call.dialect.status(error.code)
            if error.scopes and call.batch is None:
                call.status, call.needed_scopes = 403, error.scopes
            return call.link.fail(call, error)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, Unwind):
            raise
        except BaseException as error:  # any class of exception: the client waits for an answer
            return self._failed(call, error)
        finally:
            call.run = call.dialogue = None  # both refer to the call: this avoids work for the garbage collector
            call.raw_params = _ANSWERED  # a timer or a thread of the handler may keep the call in memory for long
            call.params = None

    def _failed(self, call: Call, error: BaseException) -> bytes | None:
        """The answer to a call that failed outside of its handler."""
        words = isinstance(error, ToolError)  # raised by middleware, with a text for the model
        text = str(error) if words else self.errors.text(error, f"The request {call.method.name}")
        outcome: ToolResult | ProtocolError = ProtocolError(INTERNAL_ERROR, text)
        if call.method.name == "tools/call":
            if isinstance(error, ToolError):
                outcome = error.result()
            elif isinstance(error, UnicodeEncodeError):
                outcome = _unsendable(text)
        call.outcome = outcome if call.outcome is UNSET else None
        if isinstance(outcome, ProtocolError):
            return call.link.fail(call, outcome)
        return call.link.reply(call, outcome)

    def cancel(self, call: Call) -> None:
        """Stop the work of a call that is no longer open."""
        task = call.run
        if call.dialogue is not None:
            call.dialogue.close()
        if task is not None and not task.done():
            self.unwinding.add(task)
            task.add_done_callback(self._unwound)
            task.cancel()

    def _unwound(self, task: asyncio.Task[None]) -> None:
        self.unwinding.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a cancelled call failed while it unwound", exc_info=error)

    def drop(self, link: Link) -> None:
        """Cancel all calls of a peer that has gone."""
        if self.telemetry is not None:
            self.telemetry.end_session(link)
        for call in list(link.calls.values()):
            link.forget(call)
            self.cancel(call)


def _unsendable(text: str) -> ToolResult:
    reason = "Its result has half a character in it (a lone surrogate), which no message can carry."
    return ToolResult(content=[Text(f"{reason}\n{text}")], is_error=True)
