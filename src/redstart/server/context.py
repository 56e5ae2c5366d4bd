"""The contexts of handlers: the request, the messages that are sent before the result, and the questions.

`async def` handlers take `Context`, `def` handlers `SyncContext`: the same names, blocking.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar, Unpack, overload

from msgspec import UNSET, Raw

from redstart.execution.dependencies import RequestContext
from redstart.features.errors import Unwind
from redstart.features.messages import is_replaying, send_log, send_progress
from redstart.features.results import to_json
from redstart.features.tools import Tools
from redstart.protocol.call import Call
from redstart.schema.callables import is_async
from redstart.schema.errors import nearest
from redstart.server.runtime import Runtime
from redstart.wire.jsonrpc import Id, decode
from redstart.wire.meta import Implementation
from redstart.wire.types import Message, ResourceContents, ToolResult

if TYPE_CHECKING:
    import typing_extensions

    from redstart.asking.choices import Choice
    from redstart.asking.questions import Answer, Question
    from redstart.asking.sampling import Root, Sampled, SampleOptions
    from redstart.asking.steps import Steps
    from redstart.features.user_state import State

    App = typing_extensions.TypeVar("App", default=Any)
else:  # a default is known to type checkers, and to Python only since 3.13
    App = TypeVar("App")

T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
"""An awaitable of a T."""

_OURS = {
    "request_context": "lifespan",
    "lifespan_context": "lifespan",
    "report_progress": "progress",
    "get_state": "state.get",
    "set_state": "state.set",
    "delete_state": "state.delete",
}
"""From a name in other frameworks to our name."""


class Facts(RequestContext, Generic[App]):
    """What both kinds of context know of the request, without waiting."""

    __slots__ = ("_call", "_runtime")

    def __init__(self, call: Call) -> None:
        runtime = call.runner
        assert isinstance(runtime, Runtime)
        self._call = call
        self._runtime = runtime

    if not TYPE_CHECKING:  # a type checker knows the names, and must not be told that there may be others

        def __getattr__(self, name: str) -> NoReturn:
            """An error that names our attribute for a name of another framework, such as `report_progress`."""
            ours = _OURS.get(name)
            known = [known for known in dir(type(self)) if not known.startswith("_")]
            near = ours or (None if name.startswith("_") else nearest(name, known))
            hint = f"; write ctx.{near}" if near else ""
            raise AttributeError(f"ctx.{name}: a {type(self).__name__} does not have this name{hint}")

    @property
    def request_id(self) -> Id:
        """The id that the client gave this request."""
        return self._call.id

    @property
    def cancelled(self) -> bool:
        """Whether the client no longer waits for this request. A long loop should look from time to time."""
        return not self._call.open

    @property
    def user(self) -> Any:
        """The user who makes the request: what `auth=` returned, or None."""
        return self._call.user

    @property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers of the request, in lower case; empty on stdio.

        With `auth=` they are without `authorization`: a token is for this server, and must not be passed on to others.
        """
        headers = self._call.headers or {}
        found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
        if self._call.user is not None:
            found.pop("authorization", None)
        return found

    @property
    def protocol_version(self) -> str:
        """The protocol revision of this request."""
        return self._call.dialect.version

    @property
    def client(self) -> Implementation | None:
        """The name and version that the client gives for itself. It may be false: do not decide access by it."""
        info = self._call.client_info
        return None if info is UNSET else info

    @property
    def meta(self) -> dict[str, Any]:
        """The whole `_meta` of the request."""
        return decode(self._call.raw_params).get("_meta") or {}

    @property
    def lifespan(self) -> App:
        """What the server's `lifespan=` yielded."""
        return self._runtime.lifespan_state  # type: ignore[return-value]

    @property
    def can_elicit(self) -> bool:
        """Whether this client can be asked a question in a form."""
        return self._can_ask and self._call.capabilities.has("elicitation.form")

    @property
    def can_elicit_url(self) -> bool:
        """Whether this client can send its user to a web page."""
        dialect = self._call.dialect
        knows = dialect.modern or dialect.url_required
        return knows and self._can_ask and self._call.capabilities.has("elicitation.url")

    @property
    def can_sample(self) -> bool:
        """Whether this client offers its model to the server (sampling)."""
        return self._can_ask and self._call.capabilities.has("sampling")

    @property
    def _can_ask(self) -> bool:
        """Whether a question can reach the client: in the handshake era it is sent before the result."""
        return not self._call.dialect.asks or getattr(self._call.channel, "can_ask", True)

    @property
    def task_id(self) -> str | None:
        """The id of the task that this runs as; None in an ordinary call."""
        task = self._call.task
        return task.id if task is not None and task.running else None

    @property
    def attempt(self) -> int:
        """1 the first time, and one more each time that the worker of this task was lost."""
        return 1 if self._call.task is None else self._call.task.attempt

    def _log(self, level: str, data: object, logger: str | None) -> bool:
        call, runtime = self._call, self._runtime
        if runtime.on_log is not None and not is_replaying(call):
            runtime.on_log(call, level, data, logger)
        return send_log(call, level, data, logger, offered="logging" in runtime.description.capabilities)


class Context(Facts[App]):
    """The request that an `async def` handler serves.

    >>> async def crunch(path: str, ctx: Context) -> str:
    ...     await ctx.progress(1, total=3, message="reading")
    ...     name = await ctx.ask("Your name?", str)
    ...     return f"{name} reads {path}"
    """

    __slots__ = ()
    _threaded: ClassVar[bool] = False

    # ------------------------------------------------------------ messages

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Tell the client how far the work is. If it did not ask for progress, nothing is sent, and this is False."""
        return await self._let_loop_turn(send_progress(self._call, progress, total, message))

    async def log(self, level: str, data: object, *, logger: str | None = None) -> bool:
        """Send a log message to the client, if it wants that level."""
        return await self._let_loop_turn(self._log(level, data, logger))

    async def _let_loop_turn(self, sent: bool) -> bool:
        """Let the loop turn once: the message is sent now, and a ping or a cancellation of the client is read.

        The loop turns even if nothing was sent, so that a replay asks its questions in the same turns.
        """
        if not self._threaded:
            await asyncio.sleep(0)
        if sent:
            await self._call.channel.ready()
        return sent

    async def debug(self, data: object, *, logger: str | None = None) -> bool:
        """Log at level debug."""
        return await self.log("debug", data, logger=logger)

    async def info(self, data: object, *, logger: str | None = None) -> bool:
        """Log at level info."""
        return await self.log("info", data, logger=logger)

    async def warning(self, data: object, *, logger: str | None = None) -> bool:
        """Log at level warning."""
        return await self.log("warning", data, logger=logger)

    async def error(self, data: object, *, logger: str | None = None) -> bool:
        """Log at level error."""
        return await self.log("error", data, logger=logger)

    async def close_stream(self) -> bool:
        """End the HTTP response before the result, which the client fetches later. False if that is not possible."""
        close = getattr(self._call.channel, "close_stream", None)
        return bool(close()) if close is not None else False

    # ------------------------------------------------------------ questions

    # `redstart.asking` is loaded by the first question, because most servers never ask one.

    def _put(self, question: Question[T]) -> Awaitable[T]:
        """The answer to `question`; in the modern era waiting for it may end the run of the handler."""
        return self._runtime.asking.ask(self._call, question, self._threaded)

    @overload
    async def elicit(self, message: str, *, key: str | None = None) -> Answer[str]: ...
    @overload
    async def elicit(self, message: str, schema: type[T], key: str | None = None) -> Answer[T]: ...
    @overload
    async def elicit(self, message: str, schema: object, key: str | None = None) -> Answer[Any]: ...
    async def elicit(self, message: str, schema: object = str, key: str | None = None) -> Answer[Any]:
        """Ask the user: `Accepted(data)`, `Declined()` or `Cancelled()`.

        `schema` is a flat dataclass, TypedDict or model, a plain type, an Enum or Literal, a list of choices, or a
        JSON Schema. In the modern era the handler runs again for each answer, so side effects before a question
        belong into `ctx.step`. `key` names the question on the wire and makes it independent of its order.

        >>> async def greet(ctx: Context) -> str:
        ...     match await ctx.elicit("What is your name?", str):
        ...         case Accepted(name):
        ...             return f"Hello, {name}!"
        ...     return "No name provided."
        """
        return await self._runtime.asking.elicit(self._call, message, schema, key, self._threaded)

    async def elicit_url(self, url: str, message: str, key: str | None = None) -> Answer[None]:
        """Send the user to a web page, for secrets and sign-in. `Accepted` means consent, not that it was done."""
        from redstart.asking.questions import url_question

        return await self._put(url_question(self._call, url, message, key))

    @overload
    async def ask(self, message: str, *, key: str | None = None) -> str: ...
    @overload
    async def ask(self, message: str, schema: type[T], key: str | None = None) -> T: ...
    @overload
    async def ask(self, message: str, schema: object, key: str | None = None) -> Any: ...
    async def ask(self, message: str, schema: object = str, key: str | None = None) -> Any:
        """The user's answer itself. Without an answer the call ends with a result that says so; it is not an error."""
        return await self._runtime.asking.value(self._call, message, schema, key, self._threaded)

    def confirm(self, message: str, key: str | None = None) -> Work[bool]:
        """Whether the user says yes. Every other reaction counts as no."""
        from redstart.asking.questions import Confirmation

        return Confirmation(self._confirmed(message, key))

    async def _confirmed(self, message: str, key: str | None) -> bool:
        return await self._runtime.asking.confirmed(self._call, message, key, self._threaded)

    @overload
    async def choose(self, message: str, choices: type[T], key: str | None = None) -> T: ...
    @overload
    async def choose(self, message: str, choices: Sequence[Choice[T]], key: str | None = None) -> T: ...
    @overload
    async def choose(self, message: str, choices: Sequence[tuple[T, str]], key: str | None = None) -> T: ...
    @overload
    async def choose(self, message: str, choices: Sequence[T], key: str | None = None) -> T: ...
    @overload
    async def choose(self, message: str, choices: object, key: str | None = None) -> Any: ...
    async def choose(self, message: str, choices: object, key: str | None = None) -> Any:
        """One of `choices`: values, `(value, title)` pairs, an Enum or a Literal. No answer ends the call."""
        return await self.ask(message, choices, key)

    async def ask_all(self, /, **questions: str | tuple[str, object]) -> dict[str, Any]:
        """Several answers by name, in one round where the protocol can.

        >>> async def meet(ctx: Context) -> str:
        ...     told = await ctx.ask_all(name="Your name?", age=("Your age?", int))
        ...     return f"{told['name']}, {told['age']}"
        """
        from redstart.asking.forms import form_question

        asked = {name: form_question(self._call, *_pair(name, question), name) for name, question in questions.items()}
        for question in asked.values():
            question.threaded = self._threaded
        return await self._runtime.asking.dialogue(self._call).ask_all(asked)

    async def sample(self, /, messages: object, max_tokens: int = 1024, **options: Unpack[SampleOptions]) -> Sampled:
        """Let the client's model answer. (The spec has deprecated sampling.)

        `messages` is a text, a Message, a `(role, text)` pair, or a list of them. The options are `system`,
        `temperature`, `stop_sequences`, `model_preferences`, `include_context`, `metadata`, `tools`, `tool_choice`
        and `key`.
        """
        from redstart.asking.sampling import sampling_question

        return await self._put(sampling_question(self._call, messages, max_tokens, **options))

    async def roots(self, key: str | None = None) -> list[Root]:
        """The folders that the client shares. (The spec has deprecated roots.)"""
        from redstart.asking.sampling import roots_question

        return await self._put(roots_question(self._call, key))

    # ------------------------------------------------------------ side effects

    @overload
    async def step(self, key: str, fn: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, key: str, fn: Callable[[], T]) -> T: ...
    async def step(self, key: str, fn: Callable[[], object]) -> object:
        """Do `fn()` once, however often the handler runs, and return its result as JSON.

        With `memory://` once means once in this process. A plain function runs in a thread.

        >>> async def order(item: str, ctx: Context) -> str:
        ...     number = await ctx.step("reserve", lambda: 42)
        ...     return f"No. {number}" if await ctx.confirm(f"Buy {item}?") else "cancelled"
        """
        steps, key, recorded = await self._begin_step(key)
        if recorded is None:
            recorded = await steps.perform(key, lambda: self._performed(fn))
        return decode(recorded)

    async def _begin_step(self, key: str) -> tuple[Steps, str, bytes | None]:
        """The steps of this dialogue, the full key, and the recorded result if there is one."""
        return await self._runtime.asking.dialogue(self._call).begin_step(key)

    async def _performed(self, fn: Callable[[], object]) -> object:
        value = fn() if is_async(fn) else await self._runtime.pool.run(fn, {})
        return await value if inspect.isawaitable(value) else value

    # ------------------------------------------------------------ tasks

    async def checkpoint(self, *value: object) -> Any:
        """With a value: keep it, so that the task can go on from here after its worker was lost. Without: the last one.

        >>> async def crunch(count: int, ctx: Context) -> int:
        ...     for number in range(await ctx.checkpoint() or 0, count):
        ...         await ctx.checkpoint(number)
        ...     return count
        """
        task = self._call.task
        if not value:
            return None if task is None or task.checkpoint is UNSET else decode(task.checkpoint)
        if task is not None:
            await task.save(to_json(value[0]))
        return value[0]

    async def hand_over(self) -> str:
        """Leave the rest of a task to another engine, which gets this token and calls `server.task(token).finish(…)`.

        What the handler returns afterwards is ignored.
        """
        if self._call.task is None:
            raise RuntimeError('ctx.hand_over() is for a task, and this is an ordinary call; write task="required"')
        return await self._call.task.hand_over()

    async def detach(self) -> None:
        """From here on the call is a task, if its client knows tasks: for tools with `task=` and `detach="manual"`.

        The handler runs again from its first line in a worker; its questions have their answers then.
        """
        if self._call.task is not None and not self._call.task.running:
            from redstart.asking.questions import detach_question

            await self._put(detach_question())

    # ------------------------------------------------------------ the server itself

    @property
    def state(self) -> State:
        """What the server remembers of this user between calls: `await ctx.state.get("seen", 0)`, `set`, `delete`."""
        from redstart.features.user_state import State

        return State(self._call, self._runtime.store, self._runtime.name)

    @contextmanager
    def _inner(self, name: str) -> Iterator[None]:
        """Run another handler inside. If its thread is ended by `Unwind`, this handler ends by a CancelledError."""
        from redstart.asking.scope import inside

        with inside(self._call, name):
            try:
                yield
            except Unwind:
                raise asyncio.CancelledError from None

    async def call_tool(self, name: str, arguments: Mapping[str, object] | None = None) -> ToolResult:
        """The result of another tool of this server, for the same client; its failure is a result too."""
        with self._inner(name):
            tools = Tools(self._runtime.description.tools, self._runtime.errors)
            result = await tools.run(self._call, name, to_json(dict(arguments or {})))
        if isinstance(result.structured, Raw):
            result.structured = decode(result.structured)
        return result

    async def read_resource(self, uri: str) -> list[ResourceContents]:
        """What a resource of this server holds."""
        with self._inner(uri):
            result: Any = await self._runtime.resources.read_uri(self._call, uri)
        return result.contents  # type: ignore[no-any-return]

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """The messages of a prompt of this server."""
        from redstart.features.prompts import Prompts

        prompts = Prompts(self._runtime.description.prompts, self._runtime.errors)
        with self._inner(name):
            result: Any = await prompts.render(self._call, name, arguments or {})
        return result.messages  # type: ignore[no-any-return]


def _pair(name: str, question: object) -> tuple[str, object]:
    if isinstance(question, str):
        return question, str
    if isinstance(question, tuple) and len(question) == 2:
        return question
    raise TypeError(f"ask_all: {name}= is a message, or a message and a schema, not {question!r}")
