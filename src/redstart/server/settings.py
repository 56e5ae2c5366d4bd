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
    Wrong,
    at_least,
    did_you_mean,
    one_of,
    path,
    text,
    texts,
    wrong,
)
from redstart.features.rules import seconds as seconds
from redstart.features.rules import whole as whole

if TYPE_CHECKING:
    from redstart.features.prompts import Prompt
    from redstart.features.resources import Resource
    from redstart.features.tools import Tool
    from redstart.server.middleware import Middleware
    from redstart.store.shared import SharedState
    from redstart.tasks.record import TaskLimits

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
Authenticate = Callable[..., Any]
Function = Callable[..., Any]

MAX_PORT: Final = 65535


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
    if not callable(value):  # the value may be a secret, so only its type is shown
        raise Wrong(label, "a function of the token that returns the user", f"a {type(value).__name__}")
    by_token, by_request = auth_parameters(value)
    try:
        inspect.signature(value).bind(*("token",) * by_token, **dict.fromkeys(("request",) * by_request))
    except ValueError:
        pass  # a builtin without a signature
    except TypeError:
        raise Wrong(label, "a function of the token that returns the user", "one of other parameters") from None
    return value


def auth_parameters(fn: Callable[..., object]) -> tuple[bool, bool]:
    """Whether `auth=` takes the token, and whether it takes the request, as a parameter of this name."""
    try:
        parameters = inspect.signature(fn).parameters
    except ValueError:
        return True, False
    others = [one for name, one in parameters.items() if name != "request" and one.default is one.empty]
    return "request" not in parameters or bool(others), "request" in parameters


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
    instructions: TextOption
    title: TextOption
    description: TextOption
    website_url: TextOption
    icons: IconsOption
    tools: Annotated["Tool | Iterable[Tool | Function]", Rule(many, (), optional=True)]
    prompts: Annotated["Prompt | Iterable[Prompt | Function]", Rule(many, (), optional=True)]
    resources: Annotated["Resource | Iterable[Resource]", Rule(many, (), optional=True)]
    directory: Annotated[str | os.PathLike[str] | None, Rule(path)]
    capabilities: Annotated[Iterable[str], CAPABILITIES]
    cache: CacheOption
    include_tags: Annotated[Iterable[str] | None, Rule(texts)]
    exclude_tags: TextsOption
    lifespan: Annotated[Lifespan | None, Rule(lifespan)]
    middleware: Annotated["Sequence[Middleware]", MIDDLEWARE]
    auth: Annotated[Authenticate | None, Rule(auth)]
    stdio_scopes: ScopesOption
    keys: Annotated[Sequence[str | bytes | bytearray | memoryview] | None, Rule(checked_keys, (), optional=True)]
    store: Annotated["str | SharedState | None", Rule(store)]
    tasks: Annotated["TaskLimits | None", Rule(task_limits)]
    ask_timeout: Annotated[float, Rule(seconds, 600)]
    single_use: FlagOption
    on_duplicate: Annotated[OnDuplicate, Rule(one_of("warn", "error", "replace"), "warn")]
    page_size: CountOption
    expose_errors: Annotated[bool | Sequence[type[BaseException]], Rule(exposed, False)]
    debug: FlagOption
    telemetry: Annotated[bool | Literal["content"], Rule(telemetry, False)]
    threads: Annotated[int, Rule(at_least(1), 40)]
    processes: CountOption
    timeout: SecondsOption
    max_concurrency: CountOption
    max_queue: Annotated[int, Rule(at_least(0), QUEUE)]
    max_result_bytes: CountOption
