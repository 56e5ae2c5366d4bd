"""The context of a `def` handler: as Context, without `await`. Its thread waits while the loop works.

A thread that waits gives its place in the pool to another one, because the work on the loop may need a thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from redstart.execution.threads import on_loop
from redstart.execution.waiting import wait, wait_nested
from redstart.protocol.call import Call
from redstart.server.context import App, Context, Facts, Work
from redstart.server.runtime import current_call
from redstart.wire.jsonrpc import decode

if TYPE_CHECKING:
    from redstart.asking.choices import Choice
    from redstart.asking.questions import Answer
    from redstart.features.user_state import SyncState

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Threaded(Context[App]):
    """The Context behind a SyncContext: its questions come from a thread."""

    __slots__ = ()
    _threaded = True


def blocking(
    method: Callable[Concatenate[Context[Any], P], Work[R]], *, nested: bool = False
) -> Callable[Concatenate[SyncContext[Any], P], R]:
    """A method of SyncContext that waits for a method of Context; `nested` if that runs another handler."""

    @wraps(method)
    def waiting(ctx: SyncContext[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return (wait_nested if nested else wait)(ctx._call, method(ctx._async, *args, **kwargs))

    return waiting


class SyncContext(Facts[App]):
    """The request that a `def` handler serves: as Context, without `await`.

    >>> def crunch(path: str, ctx: SyncContext) -> str:
    ...     ctx.progress(1, total=3, message="reading")
    ...     return f"{ctx.ask('Your name?', str)} reads {path}"
    """

    __slots__ = ("_async",)

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._async: Context[App] = _Threaded(call)

    def _wait(self, work: Work[R]) -> R:
        """Run `work` on the loop while this thread waits."""
        return wait(self._call, work)

    # ------------------------------------------------------------ messages

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Tell the client how far the work is. If it did not ask for progress, nothing is sent, and this is False."""
        return self._wait(self._async.progress(progress, total, message))

    log = blocking(Context.log)
    debug = blocking(Context.debug)
    info = blocking(Context.info)
    warning = blocking(Context.warning)
    error = blocking(Context.error)
    close_stream = blocking(Context.close_stream)

    # ------------------------------------------------------------ questions

    elicit_url = blocking(Context.elicit_url)
    confirm = blocking(Context.confirm)
    ask_all = blocking(Context.ask_all)
    sample = blocking(Context.sample)
    roots = blocking(Context.roots)
    checkpoint = blocking(Context.checkpoint)
    detach = blocking(Context.detach)
    hand_over = blocking(Context.hand_over)

    @overload
    def elicit(self, message: str, *, key: str | None = None) -> Answer[str]: ...
    @overload
    def elicit(self, message: str, schema: type[T], key: str | None = None) -> Answer[T]: ...
    @overload
    def elicit(self, message: str, schema: object, key: str | None = None) -> Answer[Any]: ...
    def elicit(self, message: str, schema: object = str, key: str | None = None) -> Answer[Any]:
        """Ask the user: `Accepted(data)`, `Declined()` or `Cancelled()`. See `Context.elicit`."""
        return self._wait(self._async.elicit(message, schema, key))

    @overload
    def ask(self, message: str, *, key: str | None = None) -> str: ...
    @overload
    def ask(self, message: str, schema: type[T], key: str | None = None) -> T: ...
    @overload
    def ask(self, message: str, schema: object, key: str | None = None) -> Any: ...
    def ask(self, message: str, schema: object = str, key: str | None = None) -> Any:
        """The user's answer itself. Without an answer the call ends with a result that says so; it is not an error."""
        return self._wait(self._async.ask(message, schema, key))

    @overload
    def choose(self, message: str, choices: type[T], key: str | None = None) -> T: ...
    @overload
    def choose(self, message: str, choices: Sequence[Choice[T]], key: str | None = None) -> T: ...
    @overload
    def choose(self, message: str, choices: Sequence[tuple[T, str]], key: str | None = None) -> T: ...
    @overload
    def choose(self, message: str, choices: Sequence[T], key: str | None = None) -> T: ...
    @overload
    def choose(self, message: str, choices: object, key: str | None = None) -> Any: ...
    def choose(self, message: str, choices: object, key: str | None = None) -> Any:
        """One of `choices`: values, `(value, title)` pairs, an Enum or a Literal. No answer ends the call."""
        return self._wait(self._async.choose(message, choices, key))

    # ------------------------------------------------------------ side effects

    def step(self, key: str, fn: Callable[[], T]) -> T:
        """Do `fn()` once, however often the handler runs, and return its result as JSON. See `Context.step`."""
        from redstart.asking.steps import inside, result_of

        steps, key, recorded = self._wait(self._async._begin_step(key))
        if recorded is None:
            raw = None
            token = inside.set(key)
            with self._runtime.pool.unbroken():
                try:
                    value: object = fn()
                    raw = result_of(key, self._wait(_awaited(value)) if inspect.isawaitable(value) else value)
                finally:
                    inside.reset(token)
                    recorded = self._wait(steps.end(key, raw))
        return decode(recorded)  # type: ignore[no-any-return]

    # ------------------------------------------------------------ the server's own things

    @property
    def state(self) -> SyncState:
        """What the server remembers of this user between calls: `ctx.state.get("seen", 0)`, `set`, `delete`."""
        from redstart.features.user_state import SyncState

        return SyncState(self._async.state, self._wait)

    call_tool = blocking(Context.call_tool, nested=True)
    read_resource = blocking(Context.read_resource, nested=True)
    get_prompt = blocking(Context.get_prompt, nested=True)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def current_context() -> Any:
    """The context of the request that is being served here: `Context` on the loop, `SyncContext` in a thread.

    >>> current_context()
    Traceback (most recent call last):
    ...
    RuntimeError: no request is being served here
    """
    call = current_call.get(None)
    if call is None:
        raise RuntimeError("no request is being served here")
    return Context(call) if on_loop() else SyncContext(call)
