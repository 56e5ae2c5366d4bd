"""Processes for `executor="process"` tools: our own children, JSON lines over pipes, never fork, never pickle.

A child serves one function, one call at a time, is started when first needed and then kept. It leads a process
group of its own, so that it and whatever it started can be ended together. The other end is `redstart.child`.
The pipes are blocking and are read by threads of their own: unlike asyncio's subprocesses they work in the same way
on every loop, and can be closed after their loop is closed.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.execution.dependencies import MakeContext, Plan, RequestContext
from redstart.execution.limits import Gate, off_the_clock
from redstart.execution.threads import Pool
from redstart.features.errors import RegistrationError, ToolError, Unwind, place
from redstart.features.output import Collected, Cut
from redstart.features.registry import Arguments, Function, Invoke
from redstart.features.results import to_json
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import ToolResult

UNBOUNDED: Final = 1 << 30
PACKAGE: Final = Path(__file__).parent.parent
"""The folder of redstart itself."""
PATIENCE: Final = 1.0
"""Seconds that the end of this process may take longer because of the reaper, which needs a few milliseconds."""
Reported: TypeAlias = tuple[float, float | None, str | None]
"""Progress, total and message."""


class ChildDied(Exception):
    """The process of a tool ended in the middle of a call."""


class RemoteError(Exception):
    """An exception of a child whose class is not known here."""


class RemoteTraceback(Exception):
    """The traceback of an exception in a child, for the log."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Location(Struct, frozen=True):
    """Where a child finds its function, and what it must know about it."""

    module: str
    qualname: str
    file: str | None
    typed: bool
    cut: Cut | None = None


class Packed(Struct):
    """A value on its way out of a child: data, or a result in blocks."""

    value: Raw | UnsetType = UNSET
    result: ToolResult | UnsetType = UNSET

    def unpacked(self) -> object:
        return self.value if self.result is UNSET else self.result


class Thrown(Struct):
    """An exception on its way out of a child."""

    module: str
    name: str
    text: str
    traceback: str

    def exception(self) -> BaseException:
        """The exception with its own class where that is loaded here, so that `expose_errors=[...]` knows it."""
        module = vars(builtins) if self.module == "builtins" else vars(sys.modules.get(self.module) or object)
        kind = module.get(self.name)
        error: BaseException
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__init__ is Exception.__init__:
            error = kind(self.text)
        elif kind is ToolError:
            error = ToolError(self.text)
        else:
            error = type(self.name, (RemoteError,), {})(self.text)
        error.__cause__ = RemoteTraceback(self.traceback)
        return error


class ChildMessage(Struct):
    """One line from a child: progress, or (once) the outcome."""

    progress: Reported | UnsetType = UNSET
    packed: Packed | UnsetType = UNSET
    items: list[Packed] | UnsetType = UNSET
    truncated: bool = False
    thrown: Thrown | UnsetType = UNSET
    protocol: tuple[int, str, object] | UnsetType = UNSET

    def outcome(self, cut: Cut | None) -> object:
        """The value of the handler, or its exception."""
        if isinstance(self.thrown, Thrown):
            raise self.thrown.exception()
        if not isinstance(self.protocol, UnsetType):
            code, message, data = self.protocol
            raise ProtocolError(code, message, UNSET if data is None else data)
        value = self.packed.unpacked() if isinstance(self.packed, Packed) else None
        if isinstance(self.items, UnsetType):
            return value
        return Collected([item.unpacked() for item in self.items], value, cut, self.truncated)


class ChildSetup(Struct):
    """The first line to a child."""

    location: Location
    path: list[str]


_decode_message = msgspec.json.Decoder(ChildMessage).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


# ---------------------------------------------------------------- registration


def locate(fn: Function, *, typed: bool, cut: Cut | None) -> Location:
    """Where another process can import `fn` from; what it cannot is refused here, with file and line."""
    name = getattr(fn, "__qualname__", None)
    module = getattr(fn, "__module__", None)
    owner = getattr(fn, "__self__", None)
    bound = owner is not None and not inspect.isclass(owner) and not inspect.ismodule(owner)
    if name is None or module is None or "<" in name or bound:
        what = "a method of an object" if bound else "a lambda" if "<lambda>" in str(name) else "not at module level"
        raise RegistrationError(
            f"{place(fn)}: {name or fn!r} is {what}, so another process cannot import it; "
            'make it a function at module level, or use executor="thread"'
        )
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if module == "__main__":
        spec = getattr(loaded, "__spec__", None)
        if spec is not None:
            module = spec.name
        elif file is None:
            raise RegistrationError(f"{place(fn)}: {name} was typed in, so another process cannot import it")
        else:
            module = "__redstart_main__"
    return Location(module, name, str(Path(file).absolute()) if file else None, typed, cut)


def in_process(
    fn: Function, plan: Plan, location: Location, make_context: MakeContext, children_of: Callable[[Call], Children]
) -> Invoke:
    """Run `fn` in a child. A child has no client to talk to, and no loop that ours could share."""
    if plan.early or plan.takes_context:
        what = "an async dependency" if plan.early else "a context"
        raise RegistrationError(
            f'{place(fn)}: {fn.__name__} runs in a process of its own and cannot have {what}; use executor="thread", '
            "or yield Progress(...) to report how far it is"
        )

    async def invoke(call: Call, arguments: Arguments) -> object:
        children = children_of(call)
        line = to_json(arguments)
        with off_the_clock():
            child = await children.acquire(location)
        try:
            if not child.ready:
                with off_the_clock():
                    await children.threads.run(child.start, {})
            tell = partial(_tell, make_context(call))
            message: ChildMessage = await children.threads.run(child.exchange, {"line": line, "on_progress": tell})
        except asyncio.CancelledError:
            child.kill()
            children.threads.run(child.reap, {})  # `exchange` may not have begun, and then does not reap it
            raise
        finally:
            children.release(child)
        return message.outcome(location.cut)

    return invoke


def _tell(context: RequestContext, progress: Reported) -> None:
    """Wait until the client has taken it, so that a child cannot send more than is read."""
    with suppress(Unwind):  # the call has ended, and its child is ended next
        context.progress(*progress)


# ---------------------------------------------------------------- children


class Child:
    """One process. `start`, `exchange` and `reap` block, and are for a thread; `kill` is for any thread."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.ready = False
        self.dead = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it has its function."""
        root = str(PACKAGE.parent)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
        command = [sys.executable, "-m", "redstart.child", f"{self.location.module}:{self.location.qualname}"]
        with self._lock:
            if self.dead:
                raise ChildDied("ended before it was started")
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
            )
            _reaper.watch(self._process.pid)
        message = self.exchange(_encode(ChildSetup(self.location, sys.path)))
        if isinstance(message.thrown, Thrown):
            self.kill()
        message.outcome(None)
        self.ready = True

    def exchange(self, line: bytes, on_progress: Callable[[Reported], None] | None = None) -> ChildMessage:
        """Send one line, and read until the outcome."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # a process that has gone is reported below
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            while data := process.stdout.readline():
                message = _decode_message(data)
                if isinstance(message.progress, UnsetType):
                    return message
                if on_progress is not None:
                    on_progress(message.progress)
        raise ChildDied(f"the process of {self.location.qualname} ended in the middle of a call ({self.reap()})")

    def kill(self) -> None:
        """End the process and all that it started."""
        with self._lock:
            self.dead = True
            process = self._process
            if process is None or process.returncode is not None:
                return
            if sys.platform == "win32":
                process.kill()
                return
            # The leader is not reaped yet, so its number still names its group, even if it is a zombie.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def reap(self) -> str:
        """Kill the process, wait for its end and close its pipes. How it ended, in words."""
        self.kill()
        process = self._process
        if process is None:
            return "it was not started"
        if process.returncode is None:
            _reaper.forget(process.pid)  # before its number may name another process
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


class Reaper:
    """A process that outlives ours and then ends the children that are left, which may be too busy to notice."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def watch(self, pid: int) -> None:
        """End the process group of `pid` when this process has ended."""
        with self._lock:
            if sys.platform != "win32" and (self._process is None or self._process.poll() is not None):
                # Neither site packages nor the environment: it starts in a few milliseconds.
                command = [sys.executable, "-I", "-S", str(PACKAGE / "reaper.py")]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
                )
            self._tell(pid)

    def forget(self, pid: int) -> None:
        with self._lock:
            self._tell(-pid)

    def end(self) -> None:
        """At a normal end of this process: close the pipe and wait for the reaper, for a moment only."""
        process, self._process = self._process, None  # without the lock: who holds it may never return
        if process is None or process.stdin is None:
            return
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a fork of ours may hold the pipe open, and that one it outlives
            process.wait(PATIENCE)

    def _tell(self, number: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # the reaper itself was ended: the next child starts another
                self._process.stdin.write(b"%d\n" % number)
                self._process.stdin.flush()


_reaper = Reaper()
atexit.register(_reaper.end)


class Children:
    """The processes of one loop: at most `limit`, those of all tools together. For the thread of the loop."""

    allowed: ClassVar[bool] = True
    """Whether this process may have any: a child may not, or each could start the next one without end."""

    def __init__(self, limit: int | None = None) -> None:
        if not Children.allowed:
            raise ToolError('A tool in a process of its own cannot call one that has executor="process".')
        self.loop = asyncio.get_running_loop()
        self.gate = Gate("The process pool", limit or os.cpu_count() or 2, UNBOUNDED)
        self.threads = Pool(self.gate.limit)
        self.all: set[Child] = set()
        self._idle: list[Child] = []

    async def acquire(self, location: Location) -> Child:
        """A child for one call of the function there; wait for one if need be."""
        await self.gate.enter()
        for child in self._idle:
            if child.location == location:
                self._idle.remove(child)
                return child
        if self._idle and len(self.all) >= self.gate.limit:
            other = self._idle.pop(0)
            self.all.discard(other)
            other.reap()
        child = Child(location)
        self.all.add(child)
        return child

    def release(self, child: Child) -> None:
        """The call is over; a child that lives is kept for the next one."""
        if child.dead or not child.ready or child not in self.all:
            self.all.discard(child)
        else:
            self._idle.append(child)
        self.gate.leave()

    def close(self) -> None:
        """End all of them: idle ones here; busy ones are reaped by the threads that read them."""
        for child in self.all:
            child.kill()
        for child in self._idle:
            child.reap()
        self.all.clear()
        self._idle.clear()
        self.threads.close()
