"""Processes for `executor="process"` tools: our own children, JSON lines over pipes, never fork, never pickle.

A child serves one function, one call at a time, is started when first needed and then kept. It leads a process
group of its own, so that it and whatever it started can be ended together. The other end is `redstart.child`.
"""

from __future__ import annotations

import asyncio
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
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.execution.dependencies import MakeContext, Plan, RequestContext
from redstart.execution.kinds import Arguments, Function, Invoke
from redstart.execution.limits import Gate, off_the_clock
from redstart.features.errors import RegistrationError, ToolError, Unwind, place
from redstart.features.results import to_json
from redstart.features.solutions import Collected, Cut
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import ToolResult

if TYPE_CHECKING:
    from redstart.execution.threads import Pool

UNBOUNDED: Final = 1 << 30
PACKAGE: Final = Path(__file__).parent.parent
"""The folder of redstart itself."""


class ChildDied(Exception):
    """The process of a tool ended in the middle of a call."""


class RemoteError(Exception):
    """An exception of a child whose class is not known here."""


class RemoteTraceback(Exception):
    """The traceback of an exception in a child, for the log."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Target(Struct, frozen=True):
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


class Thrown(Struct):
    """An exception on its way out of a child."""

    module: str
    name: str
    text: str
    traceback: str


class Answer(Struct):
    """One line from a child: progress, or (once) the outcome."""

    progress: tuple[float, float | None, str | None] | UnsetType = UNSET
    packed: Packed | UnsetType = UNSET
    items: list[Packed] | UnsetType = UNSET
    truncated: bool = False
    thrown: Thrown | UnsetType = UNSET
    protocol: tuple[int, str, Any] | UnsetType = UNSET
    ready: bool = False


class Hello(Struct):
    """The first line to a child."""

    target: Target
    path: list[str]


_decode_answer = msgspec.json.Decoder(Answer).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


# ---------------------------------------------------------------- registration


def find_target(fn: Callable[..., Any], *, typed: bool, cut: Cut | None) -> Target:
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
    return Target(module, name, str(Path(file).absolute()) if file else None, typed, cut)


def in_process(fn: Function, plan: Plan, pool: Pool, make_context: MakeContext, cut: Cut | None, typed: bool) -> Invoke:
    """Run `fn` in a child."""
    target = find_target(fn, typed=typed, cut=cut)
    _check_injected(fn, plan)

    async def invoke(call: Call, arguments: Arguments) -> object:
        children = pool.children
        line = to_json(arguments)
        with off_the_clock():
            child = await children.acquire(target)
        try:
            if not child.ready:
                with off_the_clock():
                    await pool.run(child.start, {})
            tell = partial(_tell, make_context(call))
            answer = await pool.run(child.exchange, {"line": line, "on_progress": tell})
        except asyncio.CancelledError:
            child.kill()
            pool.submit(child.end, {})  # the thread that would have read its end may never have come to it
            raise
        finally:
            children.release(child)
        return _outcome(answer, cut)

    return invoke


def _check_injected(fn: Function, plan: Plan) -> None:
    """A child has no client to talk to and no loop that ours could share."""
    if plan.early or plan.takes_context:
        what = "an async dependency" if plan.early else "a context"
        raise RegistrationError(
            f'{place(fn)}: {fn.__name__} runs in a process of its own and cannot have {what}; use executor="thread", '
            "or yield Progress(...) to report how far it is"
        )


def _tell(context: RequestContext, progress: tuple[float, float | None, str | None]) -> None:
    """Wait until the client has taken it, so that a child cannot say more than is read."""
    with suppress(Unwind):  # the call has ended: its child is about to
        context.progress(*progress)


# ---------------------------------------------------------------- outcomes


def _outcome(answer: Answer, cut: Cut | None) -> Any:
    if isinstance(answer.thrown, Thrown):
        raise _exception(answer.thrown)
    if not isinstance(answer.protocol, UnsetType):
        code, message, data = answer.protocol
        raise ProtocolError(code, message, UNSET if data is None else data)
    if not isinstance(answer.items, UnsetType):
        returned = _unpacked(answer.packed) if isinstance(answer.packed, Packed) else None
        return Collected([_unpacked(item) for item in answer.items], returned, cut, answer.truncated)
    return _unpacked(answer.packed)  # type: ignore[arg-type]


def _unpacked(packed: Packed) -> Any:
    return packed.value if packed.result is UNSET else packed.result


def _exception(thrown: Thrown) -> BaseException:
    """The exception with its own class where that is loaded here, so that `expose_errors=[...]` knows it."""
    module = vars(builtins) if thrown.module == "builtins" else vars(sys.modules.get(thrown.module) or object)
    kind = module.get(thrown.name)
    error: BaseException
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__init__ is Exception.__init__:
        error = kind(thrown.text)
    elif kind is ToolError:
        error = ToolError(thrown.text)
    else:
        error = type(thrown.name, (RemoteError,), {})(thrown.text)
    error.__cause__ = RemoteTraceback(thrown.traceback)
    return error


# ---------------------------------------------------------------- children


class Child:
    """One process. `start` and `exchange` block, and are for a thread; `kill` is for any thread."""

    def __init__(self, target: Target, pool: Pool) -> None:
        self.target = target
        self.ready = False
        self.dead = False
        self._pool = pool
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process and wait until it has its function."""
        root = str(PACKAGE.parent)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
        command = [sys.executable, "-m", "redstart.child", f"{self.target.module}:{self.target.qualname}"]
        with self._lock:
            if self.dead:
                raise ChildDied("ended before it was started")
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
            )
            _reaper.watch(self._process.pid)
        answer = self.exchange(_encode(Hello(self.target, sys.path)), None)
        if isinstance(answer.thrown, Thrown):
            self.kill()
            raise _exception(answer.thrown)
        self.ready = True

    def exchange(self, line: bytes, on_progress: Callable[[Any], None] | None) -> Answer:
        """Send one line, and read until the outcome."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with self._pool.lent():
                process.stdin.write(line + b"\n")
                process.stdin.flush()
                while data := process.stdout.readline():
                    answer = _decode_answer(data)
                    if answer.progress is UNSET:
                        return answer
                    if on_progress is not None:
                        on_progress(answer.progress)
        except OSError:
            pass  # it has gone: told below
        raise ChildDied(f"the process of {self.target.qualname} ended in the middle of a call ({self._bury()})")

    def kill(self) -> None:
        """End the process and all that it started."""
        with self._lock:
            self.dead = True
            if self._process is not None and self._process.returncode is None:
                _kill_group(self._process)

    def _bury(self) -> str:
        """Reap a process whose output has ended, and end what it left behind."""
        self.kill()
        process = self._process
        assert process is not None
        _reaper.forget(process.pid)  # before its number may name somebody else
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        """Kill an idle process and reap it."""
        if self._process is None:
            self.dead = True
        elif self._process.returncode is None:
            self._bury()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    # The leader is not reaped yet, so its number still names its group, even if it is a zombie.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Reaper:
    """A process that outlives ours and then ends the children that are left, which may be too busy to see it."""

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

    def _tell(self, number: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # somebody has ended it: the next child gets another
                self._process.stdin.write(b"%d\n" % number)
                self._process.stdin.flush()


_reaper = Reaper()


class Children:
    """At most `limit` processes, those of all tools together. For the loop's thread."""

    allowed: ClassVar[bool] = True
    """Whether this process may have any: a child may not, or one could start the next without end."""

    def __init__(self, pool: Pool, limit: int | None = None) -> None:
        if not Children.allowed:
            raise ToolError('A tool in a process of its own cannot call one that has executor="process".')
        self._pool = pool
        self.gate = Gate("The process pool", limit or os.cpu_count() or 2, UNBOUNDED)
        self.all: set[Child] = set()
        self._idle: list[Child] = []

    async def acquire(self, target: Target) -> Child:
        """A child for one call to `target`; wait for one if need be."""
        await self.gate.enter()
        for child in self._idle:
            if child.target == target:
                self._idle.remove(child)
                return child
        if self._idle and len(self.all) >= self.gate.limit:
            other = self._idle.pop(0)
            self.all.discard(other)
            other.end()
        child = Child(target, self._pool)
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
        """End all of them: idle ones here, busy ones are reaped by the thread that reads them."""
        for child in self.all:
            if child in self._idle:
                child.end()
            else:
                child.kill()
        self.all.clear()
        self._idle.clear()
