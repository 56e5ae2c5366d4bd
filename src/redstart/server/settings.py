"""The options of a Server, each with its rule, and the errors of settings that keep a server from starting."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

from redstart.execution.limits import QUEUE
from redstart.features.options import CacheOption, IconsOption
from redstart.features.registry import OnDuplicate
from redstart.features.rules import (
    CountOption,
    FlagOption,
    Rule,
    ScopesOption,
    SecondsOption,
    TextOption,
    TextsOption,
    at_least,
    between,
    did_you_mean,
    one_of,
    path,
    text,
    texts,
    wrong,
)
from redstart.features.rules import seconds as seconds
from redstart.features.rules import whole as whole
from redstart.protocol.strict import MAX_DEPTH

if TYPE_CHECKING:
    from redstart.access.verifier import Authenticate
    from redstart.features.prompts import Prompt
    from redstart.features.resources import Resource
    from redstart.features.tools import Tool
    from redstart.server.middleware import Middleware
    from redstart.store.shared import SharedState
    from redstart.tasks.record import TaskLimits

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
Function = Callable[..., Any]


# ---------------------------------------------------------------- the rules of a Server's options


def checked_keys(label: str, keys: object) -> list[str | bytes]:
    """The keys as a list; an error never shows a key."""
    if isinstance(keys, str | bytes | bytearray | memoryview) or not hasattr(keys, "__iter__"):
        # As an iterable, a text would be many keys of one character each.
        raise TypeError(f"keys= is a list of keys, newest first, not one {type(keys).__name__}: write keys=[…]")
    found = [bytes(key) if isinstance(key, bytearray | memoryview) else key for key in keys]
    for key in found:
        if not isinstance(key, str | bytes):
            raise TypeError(f"a key of keys= is a str or bytes, not {type(key).__name__}")
        if not key.strip():
            raise ValueError("a key of keys= is empty; make one with: openssl rand -hex 32")
        if isinstance(key, str) and key != key.encode(errors="replace").decode():
            raise ValueError("a key of keys= is not a text: it has half a character in it (a lone surrogate)")
    return found


def store(label: str, value: "str | SharedState") -> "str | SharedState":
    from redstart.store.open import open_state

    open_state(value)  # an error in it is raised now
    return value


def task_limits(label: str, value: object) -> "TaskLimits":
    from redstart.tasks.record import TaskLimits

    if not isinstance(value, TaskLimits):
        wrong(label, "a TaskLimits", value)
    return value


def auth(label: str, value: object) -> Callable[..., object]:
    from redstart.access.authenticator import checked_auth

    return checked_auth(label, value)


def telemetry(label: str, value: object) -> bool | Literal["content"]:
    if value is not True and value is not False and value != "content":
        wrong(label, 'True, False or "content"', value)
    if value:
        try:
            import redstart.observe.telemetry  # noqa: F401
        except ModuleNotFoundError as error:
            raise ValueError(f'{label} needs the package {error.name}: pip install "redstart[otel]"') from None
    return "content" if value == "content" else bool(value)


def many(label: str, value: object) -> list[object]:
    """The things to register, as a list: the option may be one thing."""
    if hasattr(type(value), "kind") or callable(value):
        return [value]
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        wrong(label, "a list", value)
    return list(value)


def listed(things: Any) -> list[Any]:
    """An option that `many` has checked, as a list for type checkers."""
    return list(things)


def middleware(label: str, value: object) -> "list[Middleware]":
    if not isinstance(value, Iterable) or isinstance(value, str):
        wrong(label, "a list of functions", value)
    from redstart.server.middleware import checked

    return [checked(layer) for layer in value]


def capabilities(label: str, value: object) -> tuple[str, ...]:
    found = texts(label, value)
    for name in found:
        if name not in DECLARABLE:
            known = ", ".join(DECLARABLE)
            raise ValueError(f"{label}: {name!r} is not a capability; known: {known}{did_you_mean(name, DECLARABLE)}")
    return found


def exposed(label: str, value: object) -> bool | tuple[type[BaseException], ...]:
    if isinstance(value, bool):
        return value
    several = isinstance(value, Iterable) and not isinstance(value, str | type)
    found = tuple(listed(value)) if several else ()
    if not several or not all(isinstance(one, type) and issubclass(one, BaseException) for one in found):
        wrong(label, "True, False or a list of exception classes", value)
    return found


def lifespan(label: str, value: Any) -> Lifespan:
    """A function that takes the server and gives an async context manager; an async generator function is made one."""
    if hasattr(type(value), "__aenter__") or inspect.isasyncgen(value):
        name = getattr(getattr(value, "func", value), "__name__", "name")
        raise TypeError(f"{label} has been called already; write lifespan={name}, without ()")
    if not callable(value):
        wrong(label, "a function with @asynccontextmanager", value)
    name, inner = getattr(value, "__name__", "lifespan"), inspect.unwrap(value)
    if inspect.isgeneratorfunction(inner):
        raise TypeError(f"{label} must be async; write @asynccontextmanager and async def {name}(server)")
    if inspect.iscoroutinefunction(inner):
        raise TypeError(
            f"{label} must yield once; write @asynccontextmanager above async def {name}(server), and a yield in it"
        )
    try:
        inspect.signature(value).bind(None)
    except TypeError:
        raise TypeError(f"{label} must take one argument, the server; write async def {name}(server)") from None
    except ValueError:  # a builtin without a signature
        pass
    return asynccontextmanager(value) if inspect.isasyncgenfunction(value) else value


DECLARABLE: Final = ("tools", "prompts", "resources", "completions", "logging", "elicitation")
"""What `Server(capabilities=…)` may name. Elicitation is the client's: naming it promises nothing to clients."""
SERVER_NAME: Final = Rule(text, optional=False)
CAPABILITIES: Final = Rule(capabilities, (), optional=True)
MIDDLEWARE: Final = Rule(middleware, (), optional=True)
LIST: Final = Rule(one_of("tools", "prompts", "resources"), optional=False)


class ServerOptions(TypedDict, total=False):
    """What `Server(name, ...)` takes."""

    version: Annotated[str, Rule(text, "1.0.0")]
    """The version of your application."""
    instructions: TextOption
    """What a model should know of the whole server."""
    title: TextOption
    """A name for people."""
    description: TextOption
    """What the server is, for people."""
    website_url: TextOption
    """Its page."""
    icons: IconsOption
    """Pictures that clients may show."""
    tools: Annotated["Tool | Iterable[Tool | Function]", Rule(many, (), optional=True)]
    """Tools and functions to serve from the beginning."""
    prompts: Annotated["Prompt | Iterable[Prompt | Function]", Rule(many, (), optional=True)]
    """Prompts and functions to serve from the beginning."""
    resources: Annotated["Resource | Iterable[Resource]", Rule(many, (), optional=True)]
    """Resources to serve from the beginning."""
    directory: Annotated[str | os.PathLike[str] | None, Rule(path)]
    """A folder with `tools/`, `prompts/` and `resources/`, which is served and watched."""
    capabilities: Annotated[Iterable[str], CAPABILITIES]
    """Capabilities to offer even if nothing is registered for them."""
    cache: CacheOption
    """How long clients may keep lists and what is read."""
    include_tags: Annotated[Iterable[str] | None, Rule(texts)]
    """Serve only what has one of these tags."""
    exclude_tags: TextsOption
    """Do not serve what has one of these tags."""
    lifespan: Annotated[Lifespan | None, Rule(lifespan)]
    """An async context manager around the life of the server; what it yields is `ctx.lifespan`."""
    middleware: Annotated["Sequence[Middleware]", MIDDLEWARE]
    """Functions `async def (call, next)` around every request."""
    auth: Annotated["Authenticate | None", Rule(auth)]
    """Finds the user of a token: see [authorization](../authorization.md)."""
    stdio_scopes: ScopesOption
    """The scopes of the local user on stdio, where `auth=` is not applied."""
    keys: Annotated[Sequence[str | bytes | bytearray | memoryview] | None, Rule(checked_keys, (), optional=True)]
    """Secrets that seal the state of questions, newest first; the same in all processes."""
    store: Annotated["str | SharedState | None", Rule(store)]
    """Where tasks and shared state are kept: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`."""
    tasks: Annotated["TaskLimits | None", Rule(task_limits)]
    """The limits of tasks."""
    ask_timeout: Annotated[float, Rule(seconds, 600)]
    """Seconds that a user has for an answer."""
    single_use: FlagOption
    """Whether each state of a question may be used once only."""
    on_duplicate: Annotated[OnDuplicate, Rule(one_of("warn", "error", "replace"), "warn")]
    """What happens if a name is registered twice."""
    page_size: CountOption
    """How many entries a page of a list has; without it a list is one page."""
    expose_errors: Annotated[bool | Sequence[type[BaseException]], Rule(exposed, False)]
    """Whether clients see the text of exceptions: True, or a list of their classes."""
    debug: FlagOption
    """Send tracebacks to clients, and print whole ones at the start. For development only."""
    telemetry: Annotated[bool | Literal["content"], Rule(telemetry, False)]
    """Make OpenTelemetry spans and metrics; `"content"` records arguments and results too."""
    threads: Annotated[int, Rule(at_least(1), 40)]
    """How many `def` handlers run at once."""
    processes: CountOption
    """How many processes `executor="process"` uses; by default one for each core."""
    timeout: SecondsOption
    """Seconds that a handler may take, unless its own `timeout=` says otherwise."""
    max_concurrency: CountOption
    """How many calls run at once, in all."""
    max_queue: Annotated[int, Rule(at_least(0), QUEUE)]
    """How many calls may wait for their turn; more are refused."""
    max_result_bytes: CountOption
    """How large a result may be."""
    max_depth: Annotated[int, Rule(between(16, 256), MAX_DEPTH)]
    """How deeply a message may be nested."""
