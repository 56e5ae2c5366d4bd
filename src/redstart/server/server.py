"""The Server: what an application registers, and the table from method to the function that answers it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from msgspec import UNSET

from redstart.features.errors import ErrorPolicy, RegistrationError, place
from redstart.features.registry import Cache, OnDuplicate, Registry, Visible
from redstart.features.tools import Tool
from redstart.protocol.modern import Modern
from redstart.server.checked import check_flag, checked_keys, seconds, whole
from redstart.server.gate import QUEUE, Gate
from redstart.server.host import Host
from redstart.server.inject import check_is_callable, injected
from redstart.server.invoke import Limits
from redstart.server.middleware import Handler, Middleware
from redstart.server.offer import Offer
from redstart.server.registering import equip_completer, register, remove
from redstart.server.running import Running
from redstart.wire.meta import Implementation

if TYPE_CHECKING:
    from redstart.features.explicit import Parameter
    from redstart.features.prompts import Argument, Prompt
    from redstart.features.resources import Resource
    from redstart.features.solutions import Solutions
    from redstart.features.tools import Task
    from redstart.server.directory import ServedDirectory
    from redstart.store.shared import SharedState
    from redstart.wire.types import Icon

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
Authenticate = Callable[[str], Any]


class Server(Running):
    """An MCP server: register plain functions, then `run()` it or mount `asgi()` anywhere.

    >>> server = Server("weather", version="1.0.0")
    >>> @server.tool
    ... def add(a: int, b: int = 2) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> [tool.name for tool in server.tools]
    ['add']
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "1.0.0",
        instructions: str | None = None,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        tools: Tool | Iterable[Tool | Callable[..., Any]] = (),
        prompts: Prompt | Iterable[Prompt | Callable[..., Any]] = (),
        resources: Resource | Iterable[Resource] = (),
        directory: str | os.PathLike[str] | None = None,
        capabilities: Iterable[str] = (),
        cache: Cache | None = None,
        include_tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] = (),
        lifespan: Lifespan | None = None,
        middleware: Sequence[Middleware] = (),
        auth: Authenticate | None = None,
        keys: Sequence[str | bytes | bytearray | memoryview] | None = (),
        store: str | SharedState | None = None,
        ask_timeout: float = 600,
        single_use: bool = False,
        on_duplicate: OnDuplicate = "warn",
        page_size: int | None = None,
        expose_errors: bool | Sequence[type[BaseException]] = False,
        debug: bool = False,
        threads: int = 40,
        processes: int | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = None,
        max_queue: int = QUEUE,
        max_result_bytes: int | None = None,
    ) -> None:
        ask_timeout = seconds("ask_timeout", ask_timeout)
        timeout = seconds("timeout", timeout, optional=True, endless=True)
        threads = whole("threads", threads)
        processes = whole("processes", processes, optional=True)
        max_concurrency = whole("max_concurrency", max_concurrency, optional=True)
        max_queue = whole("max_queue", max_queue, 0)
        max_result_bytes = whole("max_result_bytes", max_result_bytes, optional=True)
        page_size = whole("page_size", page_size, optional=True)
        check_flag("single_use", single_use)
        self.info = Implementation(
            name,
            version,
            title or None,
            description or None,
            website_url or None,
            list(icons) if icons else None,
        )
        self.modern = Modern(self.info)
        self.errors = ErrorPolicy(expose_errors, debug)
        self.lifespan = lifespan
        self.auth = auth
        self.keys = checked_keys(keys)
        self.store = store
        self.ask_timeout = ask_timeout
        self.single_use = single_use
        self.threads = threads
        self.host = Host(self)
        self.host.pool.processes = processes
        room = None if max_concurrency is None else Gate("The server", max_concurrency, max_queue)
        self.limits = Limits(timeout, max_result_bytes, max_queue, room)
        rules: dict[str, Any] = {"cache": cache, "include_tags": include_tags, "exclude_tags": exclude_tags}
        self.tools: Registry[Tool] = Registry("tool", on_duplicate, page_size, **rules)
        self.prompts: Registry[Prompt] = Registry("prompt", on_duplicate, page_size, **rules)
        self.resources: Registry[Resource] = Registry("resource", on_duplicate, page_size, **rules)
        self.templates: Registry[Resource] = Registry("resource template", on_duplicate, page_size, **rules)
        self.dispatch: Handler
        self.features = Offer(self, instructions, cache)
        self.features.wrap(middleware)
        self.features.declare(capabilities)
        for tool in _many(tools):
            self.register(tool)
        for prompt in _many(prompts):
            self.register(prompt) if getattr(prompt, "kind", "") == "prompt" else self.prompt(prompt)
        for resource in _many(resources):
            self.register(resource)
        self.directory: ServedDirectory | None = None
        if directory is not None:
            from redstart.server.directory import open_directory

            self.directory = open_directory(self, directory, sys._getframe(1).f_globals.get("__file__"))

    @classmethod
    def from_object(
        cls,
        thing: Any,
        name: str = "",
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        **options: Any,
    ) -> Server:
        """A server of what is there already: the functions of a module, the methods of an object or of a class.

        `include` and `exclude` are names, or patterns such as `get_*`; `options` are those of a Server. Something with
        `tools()`, `prompts()` or `resources()` is served as a provider.

        >>> import statistics
        >>> [tool.name for tool in Server.from_object(statistics, include=["mean", "median"]).tools]
        ['mean', 'median']
        """
        from redstart.server.objects import from_object

        return from_object(cls, thing, name, include=include, exclude=exclude, **options)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def version(self) -> str:
        return self.info.version

    def __repr__(self) -> str:
        return f"Server({self.name!r}, version={self.version!r})"

    # ------------------------------------------------------------ registering

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str = "",
        description: str | None = None,
        title: str | None = None,
        parameters: Sequence[Parameter] | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        return_type: Any = UNSET,
        annotations: Mapping[str, Any] | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        task: Task | bool = "forbidden",
        needs: Sequence[str] = (),
        executor: Literal["inline", "thread", "process"] | None = None,
        timeout: float | None = None,
        concurrency: int | None = None,
        max_result_bytes: int | None = None,
        outputs: Sequence[str] | None = None,
        solutions: Solutions | None = None,
        single_use: bool = False,
        visible: Visible | None = None,
        tags: Iterable[str] = (),
    ) -> Callable[[F], F]: ...
    def tool(self, fn: Any = None, **options: Any) -> Any:
        """Serve a function as a tool; the function itself is returned unchanged.

        >>> server = Server("shop")
        >>> @server.tool(title="Buy", annotations={"destructiveHint": True})
        ... async def buy(item: str) -> str:
        ...     return f"bought {item}"
        """

        def decorate(fn: F) -> F:
            check_is_callable(fn)
            self.register(Tool(handler=fn, **options))
            return fn

        return decorate if fn is None else decorate(fn)

    def predicate(self, **options: Any) -> Callable[[F], F]:
        """Serve a function as a predicate, with the options of `redstart.predicate` and those of a tool.

        >>> server = Server("logic")
        >>> @server.predicate(mode="half(+integer, -integer)", outputs=["H"])
        ... def half(n: int) -> int | None:
        ...     return n // 2 if n % 2 == 0 else None
        """

        def decorate(fn: F) -> F:
            from redstart.features.solutions import predicate

            check_is_callable(fn)
            self.register(predicate(**options)(fn))
            return fn

        return decorate

    @overload
    def prompt(self, fn: F, /) -> F: ...
    @overload
    def prompt(
        self,
        *,
        name: str = "",
        description: str | None = None,
        title: str | None = None,
        arguments: Sequence[Argument] | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        needs: Sequence[str] = (),
        executor: Literal["inline", "thread", "process"] | None = None,
        timeout: float | None = None,
        visible: Visible | None = None,
        tags: Iterable[str] = (),
    ) -> Callable[[F], F]: ...
    def prompt(self, fn: Any = None, **options: Any) -> Any:
        """Serve a function as a prompt: what it returns becomes messages.

        >>> server = Server("desk")
        >>> @server.prompt(title="Code review")
        ... def review(code: str, language: str = "python") -> str:
        ...     return f"Review this {language} code: {code}"
        """

        def decorate(fn: F) -> F:
            from redstart.features.prompts import Prompt

            check_is_callable(fn)
            self.register(Prompt(handler=fn, **options))
            return fn

        return decorate if fn is None else decorate(fn)

    def resource(self, uri: str, *, name: str = "", mime_type: str | None = None, **options: Any) -> Callable[[F], F]:
        """Serve a function as what is found at `uri`; with variables in it, at every URI of that form.

        >>> server = Server("desk")
        >>> @server.resource("notes://{name}", mime_type="text/markdown")
        ... def note(name: str) -> str:
        ...     return f"# {name}"
        """
        if not isinstance(uri, str):
            raise RegistrationError(f'{place(uri)}: write @server.resource("scheme://…"): a resource has a URI')

        def decorate(fn: F) -> F:
            from redstart.features.resources import Resource

            check_is_callable(fn)
            self.register(Resource(uri, name, handler=fn, mime_type=mime_type, **options))
            return fn

        return decorate

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Complete an argument of a prompt, or a variable of a template, by a function of what was typed.

        >>> server = Server("desk")
        >>> @server.completion("notes://{name}", "name")
        ... def names(prefix: str) -> list[str]:
        ...     return [name for name in ("todo", "done") if name.startswith(prefix)]
        """

        def decorate(fn: F) -> F:
            from redstart.features.completion import Completer

            check_is_callable(fn)
            completer = Completer(fn, argument, place(fn))
            completer.compile(injected)
            equip_completer(completer, self.host)
            self.features.completions.add(ref, completer)
            self.features.offer()
            return fn

        return decorate

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Serve `thing`, now or while the server runs: a Tool, Prompt or Resource, a function, a provider.

        A function is what a decorator has marked it as, else a tool. `replace=True` says that what has the same name
        is meant to give way.
        """
        register(self, thing, replace)

    def remove(self, thing: Any) -> None:
        """Serve `thing` no longer: the object, its function, its name or URI, or all of a provider."""
        remove(self, thing)

    def add_middleware(self, layer: Middleware) -> Middleware:
        """Wrap every request of every method in `async def layer(call, next)`; usable as a decorator.

        >>> from redstart import Call, Next, Result
        >>> server = Server("desk")
        >>> @server.add_middleware
        ... async def named(call: Call, next: Handler) -> Result:
        ...     print(call.method, call.name, call.arguments, call.user)
        ...     return await next(call)
        """
        self.features.wrap([layer])
        return layer

    def declare(self, capabilities: Iterable[str]) -> None:
        """Offer these capabilities even while nothing of them is registered."""
        self.features.declare(capabilities)

    def notify(self, uri: str) -> None:
        """Tell every client that wants to know that the resource at `uri` holds something else now."""
        self.host.hub.updated(uri)

    def notify_changed(self, kind: str) -> None:
        """Tell every client that wants to know that the list of `tools`, `prompts` or `resources` is another one."""
        self.host.hub.changed(kind)


def _many(given: Any) -> Iterable[Any]:
    return (given,) if hasattr(type(given), "kind") or callable(given) else given
