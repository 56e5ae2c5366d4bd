"""The other end of `executor="process"`: `python -m redstart.child module:qualname`, started by execution/processes.py.

Reads one JSON line per call on stdin, writes the outcome as one JSON line, and ends with its input. When the parent
was killed, `reaper.py` ends this process and all that it started at once, also in the middle of a call.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import operator
import os
import sys
import traceback
from collections.abc import Awaitable

import msgspec
from msgspec import UNSET

from redstart.execution.dependencies import RequestContext, injected, make_plan, run_here
from redstart.execution.generators import at_once, collect
from redstart.execution.processes import ChildMessage, Children, ChildSetup, Location, Packed, Thrown
from redstart.features.errors import SettingsError, ToolError, text_of
from redstart.features.output import Collected
from redstart.features.registry import Function
from redstart.features.results import free_result, has_blocks, to_json
from redstart.schema.callables import is_async, is_generator
from redstart.schema.signature import compile_signature
from redstart.wire.jsonrpc import ProtocolError, decode

_encode = msgspec.json.Encoder(decimal_format="number").encode


class ParentPipe:
    """The pipes to the parent. What the function reads from stdin is empty, what it prints goes to stderr."""

    def __init__(self) -> None:
        self.lines = os.fdopen(os.dup(0), "rb")
        self._out = os.fdopen(os.dup(1), "wb")
        with open(os.devnull, "rb") as empty:
            os.dup2(empty.fileno(), 0)
        os.dup2(2, 1)

    def send(self, message: ChildMessage) -> None:
        self._out.write(_encode(message) + b"\n")
        self._out.flush()


class ChildContext(RequestContext):
    """What a generator in a child can do besides yielding: tell the parent how far it is."""

    cancelled = False

    def __init__(self, parent: ParentPipe) -> None:
        self._parent = parent

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._parent.send(ChildMessage(progress=(progress, total, message)))

    def elicit(self, message: str, schema: object, key: str | None) -> object:
        raise TypeError('a tool in a process of its own cannot ask; use executor="thread"')


def _no_context(awaits: bool) -> type[RequestContext]:
    """Registration has refused a tool that takes a context."""
    raise TypeError("a tool in a process of its own cannot have a context")


def load(location: Location) -> Function:
    """The function. A file that serves when it is imported is loaded here for its functions, not to serve."""
    from redstart.server.runtime import Runtime
    from redstart.server.server import Server

    refused: list[SettingsError] = []
    Server._recording, Runtime.loading = [], refused
    try:
        return _find(location)
    except BaseException as error:
        if refused:
            raise ToolError(f"{location.file}: {refused[0]}") from error
        raise
    finally:
        Runtime.loading = None


def _find(location: Location) -> Function:
    """The function, from its module or, where no name leads to that, from its file."""
    name = location.module
    try:
        if name == "__redstart_main__":
            raise ModuleNotFoundError(name=name)
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if location.file is None or error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = importlib.util.spec_from_file_location(name, location.file)
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    fn: Function = operator.attrgetter(location.qualname)(module)
    return fn


class ChildRunner:
    """Runs the function once per line."""

    def __init__(self, location: Location, parent: ParentPipe) -> None:
        self._fn = load(location)
        # The server has accepted the signature already, strictly or not.
        signature = compile_signature(self._fn, injected=injected, lenient=True) if location.typed else None
        self._bind = decode if signature is None else signature.bind
        self._plan = make_plan(self._fn, signature.injected if signature else {}, _no_context, in_thread=True)
        self._cut = location.cut
        self._context = ChildContext(parent)
        self._loop = asyncio.Runner()

    def answer(self, line: bytes) -> ChildMessage:
        try:
            value = run_here(self._call, self._plan, {}, None, **self._bind(line))
            if isinstance(value, Collected):
                returned = UNSET if value.returned is None else pack(value.returned)
                return ChildMessage(
                    items=[pack(item) for item in value.items], packed=returned, truncated=value.truncated
                )
            return ChildMessage(packed=pack(value))
        except ToolError as error:
            return ChildMessage(packed=Packed(result=error.result()))
        except ProtocolError as error:
            return ChildMessage(protocol=(error.code, error.message, None if error.data is UNSET else error.data))
        except (Exception, SystemExit) as error:
            return ChildMessage(thrown=thrown(error))

    def _call(self, **arguments: object) -> object:
        value = self._fn(**arguments)
        if is_generator(self._fn):
            value = collect(value, self._cut, self._context)
            if not is_async(self._fn):
                return at_once(value)
        return self._loop.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def pack(value: object) -> Packed:
    """A value as data, or as the blocks that it is."""
    if has_blocks(value):
        return Packed(result=free_result(value))
    return Packed(value=msgspec.Raw(to_json(value)))


def thrown(error: BaseException) -> Thrown:
    kind = type(error)
    return Thrown(kind.__module__, kind.__qualname__, text_of(error), "".join(traceback.format_exception(error)))


def main() -> None:
    Children.allowed = False
    parent = ParentPipe()
    setup = msgspec.json.decode(parent.lines.readline(), type=ChildSetup)
    sys.path[:] = setup.path
    try:
        runner = ChildRunner(setup.location, parent)
    except BaseException as error:
        parent.send(ChildMessage(thrown=thrown(error)))
        return
    parent.send(ChildMessage())
    for line in parent.lines:
        parent.send(runner.answer(line))


if __name__ == "__main__":
    main()
