"""Serves one server after another to the same clients, and shows their calls to the page of the inspector.

`redstart dev` swaps in the server of a changed file. A Host is the Runtime that transports see. It owns what outlives a
server: the links, the sessions, the subscribers, the store and the keys. Each server keeps a Runtime of its own, with
its threads, its limits and its lifespan, and runs the calls that began while it was served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from redstart.features.errors import SettingsError, log
from redstart.features.subscriptions import Hub
from redstart.inspector.differences import LISTS, Diff, compare
from redstart.inspector.events import Ring
from redstart.inspector.tap import STATUSES, LinkEnd, SeenHub, Tap
from redstart.observe.observing import Observer, RunCall
from redstart.protocol.call import Call
from redstart.server.runtime import Description, Hosted, Runtime
from redstart.transports.http import Pages

if TYPE_CHECKING:
    from redstart.tasks.worker import Worker

SHARED: Final = ("store", "keys", "replica")
"""What all servers have in common. Each is a cached property of a Runtime."""
WITH_SHARED: Final = ("tasks", "asking", "worker")
"""Cached properties that are made of what is shared, or of the hub."""


class Host(Runtime):
    """What runs the calls of all clients, by whichever server is served now.

    `strict`: the page shows no contents of messages. `replays`: handshake calls are replayed after each answer, too.
    `prefix` begins the ids of calls and clients, where several processes have one page.
    """

    def __init__(self, server: Hosted, *, strict: bool = False, replays: bool = False, prefix: str = "") -> None:
        first = server.runtime
        super().__init__(first.info, {**first.options, "telemetry": False})
        self.served = first
        self.describe = lambda: self.served.description
        self.lifespans.append(self._serving)
        self.answer = self._forward
        self.on_failure: Callable[[Exception], Runtime] | None = None
        """Says what to serve if the first server does not start. Without it the host does not start either."""
        self._stays: dict[Runtime, _Stay] = {}
        """The servers that serve now or still have calls."""
        self._retiring: set[asyncio.Task[None]] = set()
        self._replays = replays
        self.ring = Ring()
        self.seen = Tap(self.ring, lambda: self.description, strict=strict, prefix=prefix)
        self.tap = partial(LinkEnd, self.seen)
        self.pages: Pages | None = None
        self.hub = hub = SeenHub(lambda: self.description.capabilities, lambda uri: self.served.resources.rule(uri))
        hub.on_close = self.ring.close
        self._apply(first)

    @property
    def runtime(self) -> Runtime:
        """A Host is what transports serve."""
        return self

    @property
    def description(self) -> Description:
        return self.served.description

    # ------------------------------------------------------------ life

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        try:
            try:
                await self._begin(self.served)
            except Exception as error:
                if self.on_failure is None:
                    raise
                self.served = self.on_failure(error)
                await self._begin(self.served)
            self._apply(self.served)
            yield
        finally:
            for task in self._retiring:
                task.cancel()
            await asyncio.gather(*self._retiring, return_exceptions=True)
            for runtime in list(self._stays):
                await self._end(runtime)

    async def swap(self, server: Hosted) -> dict[str, Diff]:
        """From now on serve `server`; the differences of each list. If it does not start, its error is raised, and
        everything is as it was."""
        old, new = self.served, server.runtime
        if (old.options["auth"] is None) != (new.options["auth"] is None):
            raise SettingsError("auth= was added or taken away, which needs a new start", "stop the server, start it")
        await self._begin(new)
        diffs = compare(old.description, new.description, self.modern)
        self.served = new
        self._apply(new)
        for kind in {LISTS[name] for name in LISTS if diffs[name]}:
            self.hub.changed(kind)
        retiring = asyncio.create_task(self._retire(old))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        return diffs

    def _apply(self, served: Runtime) -> None:
        """Answer by the rules of the server that is served now."""
        self.modern.rename(served.info)
        self.errors, self.routes, self.telemetry = served.errors, served.routes, served.telemetry
        served.mcp_paths = self.mcp_paths
        if self.authenticator is not None and served.options["auth"] is not None:
            self.authenticator.use(served.options["auth"])

    async def _begin(self, runtime: Runtime) -> None:
        """Give a server what is shared, and start it."""
        runtime.force_replay = self._replays
        runtime.on_log = self.seen.logged
        runtime.run_task = partial(self._run_task, runtime.answer)
        stay = self._stays[runtime] = _Stay(runtime.hub)
        stay.hub.relay = self._relay  # what the registries of the server report goes to the subscribers
        runtime.hub, runtime.modern = self.hub, self.modern
        runtime.owns_store, runtime.options["store"] = False, self.options["store"]
        for name in (*SHARED, *WITH_SHARED):
            runtime.__dict__.pop(name, None)
        for name in SHARED:
            runtime.__dict__[name] = getattr(self, name)
        runtime.current = None
        try:
            await runtime.start()
        except BaseException:
            await self._end(runtime)
            raise
        stay.hub.loop = asyncio.get_running_loop()

    def _relay(self, kind: str, what: str) -> None:
        if kind == "updated":
            self.hub.updated(what)
        else:
            self.hub.changed(what)

    async def _retire(self, runtime: Runtime) -> None:
        """End a server that is not served any more, after its last call and its last task."""
        if "worker" in runtime.__dict__:
            await runtime.worker.stop(runtime.tasks.limits.max_run)
        await self._stays[runtime].ended()
        await self._end(runtime)

    async def _end(self, runtime: Runtime) -> None:
        runtime.hub = self._stays.pop(runtime).hub  # the subscribers stay with us
        runtime.hub.loop = runtime.hub.relay = None
        try:
            await runtime.stop()
        except Exception:
            log.exception("the lifespan of a server that was replaced has failed while it ended")

    # ------------------------------------------------------------ calls

    async def _forward(self, call: Call) -> bytes | None:
        served = self.served
        if call.method.name == "subscriptions/listen":  # it needs nothing of the server, and may last for ever
            return await served.answer(call)
        stay = self._stays[served]
        stay.calls += 1
        try:
            return await served.answer(call)
        finally:
            stay.calls -= 1
            if stay.idle is not None and not stay.calls:
                stay.idle.set()

    def observe(self, observer: Observer) -> None:
        """Show the calls of the server that is served now, and the runs of its tasks, to `observer`."""
        self.served.observe(observer)

    # ------------------------------------------------------------ tasks

    async def _run_task(self, answer: RunCall, call: Call) -> bytes | None:
        """Run the call of a task, and show that: it comes from no client."""
        self.seen.task_run(call, "working")
        outcome = "cancelled"
        try:
            data = await answer(call)
            failed = data is not None and (b'"isError":true' in data or b'"error":' in data[:40])
            outcome = "input_required" if data is None else STATUSES["error" if failed else "ok"]
        finally:
            self.seen.task_run(call, outcome)
        return data

    @property
    def worker(self) -> Worker:
        return self.served.worker

    @property
    def tasks_running(self) -> int:
        return self.served.tasks_running

    async def stop_tasks(self) -> None:
        await self.served.stop_tasks()


class _Stay:
    """A server from its start to its end: the hub that it was made with, and how many of its calls run."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.calls = 0
        self.idle: asyncio.Event | None = None

    async def ended(self) -> None:
        """Wait for the last call. No other one begins."""
        self.idle = asyncio.Event()
        if self.calls:
            await self.idle.wait()
