"""The Server: what an application registers, and the table from method to the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast, overload

from redstart.execution.kinds import check_is_callable
from redstart.execution.limits import CallLimits
from redstart.features.errors import ErrorPolicy, RegistrationError, place
from redstart.features.options import PredicateOptions, PromptOptions, ResourceOptions, ToolOptions
from redstart.features.registry import Registry
from redstart.features.rules import REQUIRED_TEXT, OptionError, caller, calling_frame, checked, decorating, showing
from redstart.features.tools import CompiledTool, Tool
from redstart.protocol.modern import Modern
from redstart.schema.callables import SignatureError
from redstart.schema.types import UnsupportedType
from redstart.server.dispatch import Dispatch
from redstart.server.middleware import Handler, Middleware
from redstart.server.registering import register, remove
from redstart.server.running import Running
from redstart.server.runtime import Runtime
from redstart.server.settings import CAPABILITIES, LIST, MIDDLEWARE, SERVER_NAME, ServerOptions
from redstart.server.startup_errors import end_in_full, end_in_words
from redstart.wire.meta import Implementation

if TYPE_CHECKING:
    from redstart.adopt.directory import ServedDirectory
    from redstart.features.prompts import CompiledPrompt
    from redstart.features.resources import CompiledResource

F = TypeVar("F", bound=Callable[..., Any])
WORDS_OF_OTHERS: Final = {
    "add_tool": "server.register(function)",
    "add_resource": "server.register(resource)",
    "add_prompt": "server.register(prompt)",
    "remove_tool": "server.remove(name)",
    "custom_route": '@server.route("/path")',
    "http_app": "server.asgi()",
    "streamable_http_app": "server.asgi()",
    "sse_app": "server.asgi(legacy_sse=True)",
    "run_http_async": 'await server.run_async("http")',
    "run_stdio_async": "await server.run_async()",
    "run_streamable_http_async": 'await server.run_async("http")',
    "settings": 'options of Server(…) and server.run("http", port=…)',
}
"""What other frameworks call it, and we do."""

end_in_words(RegistrationError, SignatureError, UnsupportedType)


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

    @showing(ServerOptions)
    def __init__(self, name: str, **options: Unpack[ServerOptions]) -> None:
        if options.get("debug"):
            end_in_full()
        given = checked(ServerOptions, "a Server", options, before="Server: ")
        if not SERVER_NAME.check("Server: name", name):
            raise OptionError(f'{caller()}: Server: name must not be empty; write Server("weather")')
        self.info = Implementation(
            name,
            given["version"],
            given["title"] or None,
            given["description"] or None,
            given["website_url"] or None,
            list(given["icons"]) if given["icons"] else None,
        )
        self.modern = Modern(self.info)
        self.errors = ErrorPolicy(given["expose_errors"], given["debug"])
        self.lifespan = given["lifespan"]
        self.auth = given["auth"]
        self.keys: list[str | bytes] = list(given["keys"])  # type: ignore[arg-type]
        self.store = given["store"]
        self.ask_timeout = given["ask_timeout"]
        self.single_use = given["single_use"]
        self.threads = given["threads"]
        self.processes = given["processes"]
        self.limits = CallLimits(
            given["timeout"], given["max_concurrency"], given["max_queue"], given["max_result_bytes"]
        )
        self.runtime = Runtime(self)
        names = ("on_duplicate", "page_size", "cache", "include_tags", "exclude_tags")
        rules: dict[str, Any] = {key: value for key, value in given.items() if key in names}
        self.tools: Registry[CompiledTool] = Registry("tool", **rules)
        self.prompts: Registry[CompiledPrompt] = Registry("prompt", **rules)
        self.resources: Registry[CompiledResource] = Registry("resource", **rules)
        self.templates: Registry[CompiledResource] = Registry("resource template", **rules)
        self.dispatch: Handler
        self.directory: ServedDirectory | None = None
        self._offer(given)

    if not TYPE_CHECKING:  # a type checker knows the names, and must not be told that there may be others

        def __getattr__(self, name: str) -> Any:
            """Name ours, where other frameworks have another word."""
            ours = WORDS_OF_OTHERS.get(name)
            hint = f": write {ours}" if ours else ""
            raise AttributeError(f"a Server has no attribute {name!r}{hint}", name=name, obj=self)

    def _offer(self, given: ServerOptions) -> None:
        """Serve what the options name."""
        self.features = Dispatch(self, given["instructions"], given["cache"])
        self.features.wrap(given["middleware"])
        self.features.declare(given["capabilities"])
        for prompt in cast("Iterable[Any]", given["prompts"]):
            self.register(prompt) if getattr(prompt, "kind", "") == "prompt" else self.prompt(prompt)
        for thing in (*cast("Iterable[Any]", given["tools"]), *cast("Iterable[Any]", given["resources"])):
            self.register(thing)
        if given["directory"] is not None:
            from redstart.adopt.directory import open_directory

            self.directory = open_directory(self, given["directory"], calling_frame().f_globals.get("__file__"))

    @classmethod
    @showing(ServerOptions)
    def from_object(
        cls,
        thing: Any,
        name: str = "",
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        **options: Unpack[ServerOptions],
    ) -> Server:
        """A server of what is there already: the functions of a module, the methods of an object or of a class.

        `include` and `exclude` are names, or patterns such as `get_*`; `options` are those of a Server. Something with
        `tools()`, `prompts()` or `resources()` is served as a provider.

        >>> import statistics
        >>> [tool.name for tool in Server.from_object(statistics, include=["mean", "median"]).tools]
        ['mean', 'median']
        """
        from redstart.adopt.objects import adopt, description_of, instance_of, name_of

        served = instance_of(thing)
        options.setdefault("instructions", description_of(served))
        server = cls(name or name_of(served), **options)
        if adopt(server, served, include, exclude) is not None:  # a provider says itself what it offers
            server.features.logs = False
            server.features.offer()
        return server

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
    def tool(self, fn: F, /, name: str = "", **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, name: str, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    @overload
    def tool(self, /, *, name: str = "", **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    @showing(ToolOptions)
    def tool(self, fn: Any = None, /, name: str = "", **options: Any) -> Any:
        """Serve a function as a tool; the function itself is returned unchanged.

        >>> server = Server("shop")
        >>> @server.tool(title="Buy", annotations={"destructiveHint": True})
        ... async def buy(item: str) -> str:
        ...     return f"bought {item}"
        """

        def serve(fn: F, name: str) -> F:
            check_is_callable(fn)
            self.register(Tool(name, handler=fn, **options))
            return fn

        return decorating(fn, name, serve)

    @showing(PredicateOptions)
    def predicate(self, **options: Unpack[PredicateOptions]) -> Callable[[F], F]:
        """Serve a function as a predicate, with the options of `redstart.predicate` and those of a tool.

        >>> server = Server("logic")
        >>> @server.predicate(mode="half(+integer, -integer)", outputs=["H"])
        ... def half(n: int) -> int | None:
        ...     return n // 2 if n % 2 == 0 else None
        """

        from redstart.features.solutions import predicate

        mark = predicate(**options)

        def decorate(fn: F) -> F:
            check_is_callable(fn)
            self.register(mark(fn))
            return fn

        return decorate

    @overload
    def prompt(self, fn: F, /, name: str = "", **options: Unpack[PromptOptions]) -> F: ...
    @overload
    def prompt(self, name: str, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @overload
    def prompt(self, /, *, name: str = "", **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @showing(PromptOptions)
    def prompt(self, fn: Any = None, /, name: str = "", **options: Any) -> Any:
        """Serve a function as a prompt: what it returns becomes messages.

        >>> server = Server("desk")
        >>> @server.prompt(title="Code review")
        ... def review(code: str, language: str = "python") -> str:
        ...     return f"Review this {language} code: {code}"
        """

        def serve(fn: F, name: str) -> F:
            from redstart.features.prompts import Prompt

            check_is_callable(fn)
            self.register(Prompt(name, handler=fn, **options))
            return fn

        return decorating(fn, name, serve)

    @showing(ResourceOptions)
    def resource(self, uri: str, name: str = "", **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Serve a function as what is found at `uri`; with variables in it, at every URI of that form.

        >>> server = Server("desk")
        >>> @server.resource("notes://{name}", mime_type="text/markdown")
        ... def note(name: str) -> str:
        ...     return f"# {name}"
        """
        if not isinstance(uri, str):
            raise RegistrationError(f'{caller()}: write @server.resource("scheme://…"): a resource has a URI')

        def decorate(fn: F) -> F:
            from redstart.features.resources import Resource

            check_is_callable(fn)
            self.register(Resource(uri, name, handler=fn, **options))
            return fn

        return decorate

    def completion(self, ref: str, argument: str = "") -> Callable[[F], F]:
        """Complete an argument of a prompt, or a variable of a template, by a function of what was typed.

        >>> server = Server("desk")
        >>> @server.completion("notes://{name}", "name")
        ... def names(prefix: str) -> list[str]:
        ...     return [name for name in ("todo", "done") if name.startswith(prefix)]
        """
        REQUIRED_TEXT.check("ref", ref)
        if not REQUIRED_TEXT.check("argument", argument):
            words = f'write @server.completion("{ref}", "argument"): the argument that it completes is missing'
            raise OptionError(f"{caller()}: {words}")

        def decorate(fn: F) -> F:
            from redstart.features.completion import Completer

            check_is_callable(fn)
            completer = Completer(fn, argument, place(fn))
            completer.compile(self.runtime.executor)
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
        ... async def named(call: Call, next: Next) -> Result:
        ...     print(call.method, call.name, call.arguments, call.user)
        ...     return await next(call)
        """
        self.features.wrap(MIDDLEWARE.check("middleware", [layer]))
        return layer

    def declare(self, capabilities: Iterable[str]) -> None:
        """Dispatch these capabilities even while nothing of them is registered."""
        self.features.declare(CAPABILITIES.check("capabilities", capabilities))

    def notify(self, uri: str) -> None:
        """Tell every client that wants to know that the resource at `uri` holds something else now."""
        self.runtime.hub.updated(REQUIRED_TEXT.check("uri", uri))

    def notify_changed(self, kind: str) -> None:
        """Tell every client that wants to know that the list of `tools`, `prompts` or `resources` is another one."""
        self.runtime.hub.changed(LIST.check("kind", kind))


_RUN_OPTIONS: Final = frozenset({"transport", "host", "port", "path", "framing", "stdin", "stdout"})


def serve(name: str, *things: Any, **options: Any) -> None:
    """Serve one or more objects until the client goes away: `Server.from_object(...).run()`.

    >>> class Maths:
    ...     def double(self, n: int) -> int:
    ...         return 2 * n
    >>> serve("maths", Maths(), version="2.0.0")  # doctest: +SKIP
    """
    from redstart.adopt.objects import adopt, instance_of

    if not things:
        raise TypeError(f"serve({name!r}, …) needs an object to serve")
    running = {key: options.pop(key) for key in _RUN_OPTIONS & options.keys()}
    server = Server.from_object(things[0], name, **options)
    for thing in things[1:]:
        adopt(server, instance_of(thing))
    server.run(**running)
