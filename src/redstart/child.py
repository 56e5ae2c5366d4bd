"""The other end of `executor="process"`: `python -m redstart.child module:qualname`, started by execution/processes.py.

Reads one JSON line per call on stdin, writes the outcome as one JSON line. fd 1 belongs to that alone: what the
function prints goes to stderr. When the parent goes away, this process and all that it started end at once.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec
from msgspec import UNSET

from redstart.execution.dependencies import Contexts, MakeContext, RequestContext, injected, make_plan, run_here
from redstart.execution.generators import at_once, collect
from redstart.execution.kinds import is_async, is_generator
from redstart.execution.processes import Answer, Children, Hello, Packed, Target, Thrown
from redstart.features.errors import SettingsError, ToolError
from redstart.features.results import free_result, speaks_blocks, to_json
from redstart.features.solutions import Collected
from redstart.schema.signature import compile_signature
from redstart.wire.jsonrpc import ProtocolError, decode

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Outlet:
    """The pipe to the parent."""

    def __init__(self) -> None:
        self._fd = os.dup(1)
        os.set_inheritable(self._fd, False)
        os.dup2(2, 1)

    def send(self, answer: Answer) -> None:
        data = memoryview(_encode(answer) + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]


def load(target: Target) -> Callable[..., Any]:
    """The function. A file that serves when it is imported is loaded here for its functions, not to serve."""
    from redstart.server.running import Running

    refused: list[SettingsError] = []
    Running._recording, Running._loading = [], refused
    try:
        return _find(target)
    except BaseException as error:
        if refused:
            raise ToolError(f"{target.file}: {refused[0]}") from error
        raise
    finally:
        Running._loading = None


def _find(target: Target) -> Callable[..., Any]:
    """The function, from its module or, where no name leads to that, from its file."""
    try:
        if target.module == "__redstart_main__":
            raise ModuleNotFoundError(name=target.module)
        found: Any = importlib.import_module(target.module)
    except ModuleNotFoundError as error:
        if target.file is None or error.name is None or not f"{target.module}.".startswith(f"{error.name}."):
            raise
        spec = importlib.util.spec_from_file_location(target.module, target.file)
        if spec is None or spec.loader is None:
            raise
        found = sys.modules[target.module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    for name in target.qualname.split("."):
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]


class ChildContext(RequestContext):
    """What a generator in a child can do besides yielding: tell the parent how far it is."""

    cancelled = False

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._outlet.send(Answer(progress=(progress, total, message)))

    def elicit(self, message: str, schema: object, key: str | None) -> object:
        raise TypeError('a tool in a process of its own cannot ask; use executor="thread"')


def _no_context(kind: type[RequestContext]) -> MakeContext:
    """Registration has refused a tool that takes a context."""
    raise TypeError("a tool in a process of its own cannot have a context")


class Runner:
    """Runs the function once per line."""

    def __init__(self, target: Target, outlet: Outlet) -> None:
        fn = load(target)
        signature = compile_signature(fn, injected=injected) if target.typed else None
        self._bind: Callable[[bytes], dict[str, Any]] = signature.bind if signature is not None else decode
        wanted = signature.injected if signature is not None else {}
        self._plan = make_plan(fn, wanted, Contexts(RequestContext, RequestContext, _no_context), in_thread=True)
        self._fn = fn
        self._cut = target.cut
        self._context = ChildContext(outlet)
        self._loop = asyncio.Runner()

    def answer(self, line: bytes) -> Answer:
        try:
            value = run_here(self._call, self._plan, {}, None, **self._bind(line))
            if isinstance(value, Collected):
                returned = UNSET if value.returned is None else pack(value.returned)
                return Answer(items=[pack(item) for item in value.items], packed=returned, truncated=value.truncated)
            return Answer(packed=pack(value))
        except ToolError as error:
            return Answer(packed=Packed(result=error.result()))
        except ProtocolError as error:
            return Answer(protocol=(error.code, error.message, None if error.data is UNSET else error.data))
        except (Exception, SystemExit) as error:
            return Answer(thrown=thrown(error))

    def _call(self, **arguments: Any) -> Any:
        value = self._fn(**arguments)
        if is_generator(self._fn):
            work = collect(value, self._cut, self._context)
            return self._loop.run(work) if is_async(self._fn) else at_once(work)
        return self._loop.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def pack(value: Any) -> Packed:
    """A value as data, or as the blocks that it is."""
    if speaks_blocks(value):
        return Packed(result=free_result(value))
    return Packed(value=msgspec.Raw(to_json(value)))


def thrown(error: BaseException) -> Thrown:
    try:
        text = str(error)
    except Exception:
        text = "(the exception has no text)"
    kind = type(error)
    return Thrown(kind.__module__, kind.__qualname__, text, "".join(traceback.format_exception(error)))


def _read(lines: SimpleQueue[bytes]) -> None:
    """In a thread of its own, so that the end of the parent is seen in the middle of a call too."""
    with os.fdopen(os.dup(0), "rb") as source:
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        lines.put(source.readline())
        for line in source:
            lines.put(line)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        with suppress(ProcessLookupError):
            os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


def main() -> None:
    Children.allowed = False
    outlet = Outlet()
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(lines,), name="redstart-parent", daemon=True).start()
    hello = msgspec.json.decode(lines.get(), type=Hello)
    sys.path[:] = hello.path
    try:
        runner = Runner(hello.target, outlet)
    except BaseException as error:
        outlet.send(Answer(thrown=thrown(error)))
        return
    outlet.send(Answer(ready=True))
    while True:
        outlet.send(runner.answer(lines.get()))


if __name__ == "__main__":
    main()
