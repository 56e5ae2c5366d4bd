"""The Server: what an application registers, and the ways to run it.

The transports are loaded when they are used, because no server needs all of them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, TypeVar, Unpack, overload

from redstart.execution.dependencies import RequestContext, injected
from redstart.execution.executor import Executor
from redstart.features.errors import RegistrationError, end_in_words, log, place
from redstart.features.options import PredicateOptions, PromptOptions, ResourceOptions, ToolOptions
from redstart.features.registry import Registry
from redstart.features.rules import (
    REQUIRED_TEXT,
    OptionError,
    caller,
    calling_frame,
    check_is_callable,
    checked,
    decorating,
    did_you_mean,
    showing,
)
from redstart.features.tools import Tool, tool_of
from redstart.server.dispatch import Dispatch
from redstart.server.runtime import Runtime
from redstart.server.settings import CAPABILITIES, LIST, MIDDLEWARE, SERVER_NAME, ServerOptions, listed
from redstart.wire.meta import Implementation

if TYPE_CHECKING:
    from redstart.server.middleware import Middleware
    from redstart.tasks.handle import TaskHandle
    from redstart.transports.background import BackgroundServer
    from redstart.transports.http import Endpoint
    from redstart.transports.http_options import EndpointOptions, HttpOptions
    from redstart.transports.options import StdioOptions

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
    "get_tools": "server.tools",
    "session_manager": "lifespan=server.lifespan_context",
    "settings": 'options of Server(…) and server.run("http", port=…)',
}
"""From a name in other frameworks to our name."""
DECORATORS: Final = ("tool", "prompt", "resource", "completion", "predicate", "route")
"""What is meant by `@server.tols`: these come before the lists, `server.tools`."""
OPTIONS_OF_OTHERS: Final = {
    **dict.fromkeys(("host", "port", "path"), '; write it where it is served: server.run("http", port=…)'),
    **dict.fromkeys(
        ("stateless_http", "json_response"), "; leave it out: each client is answered as its revision wants"
    ),
    "mask_error_details": "; leave it out: the texts of exceptions stay in the log, unless expose_errors= names them",
    "log_level": "; set it with redstart run --log-level, or with the module logging",
    "dependencies": "; leave it out, and install them where the server runs",
}


if sys.excepthook is sys.__excepthook__ and not sys.flags.dev_mode:  # not set by other code, and not `python -X dev`
    sys.excepthook = end_in_words


class Server:
    """An MCP server: register plain functions, then `run()` it or mount `asgi()` anywhere.

    >>> server = Server("weather", version="1.0.0")
    >>> @server.tool
    ... def add(a: int, b: int = 2) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> [tool.name for tool in server.tools]
    ['add']
    """

    _recording: ClassVar[list[Server] | None] = None

    @showing(ServerOptions)
    def __init__(self, name: str, **options: Unpack[ServerOptions]) -> None:
        if options.get("debug") and sys.excepthook is end_in_words:
            sys.excepthook = sys.__excepthook__
        given = checked(ServerOptions, "a Server", options, before="Server: ", others=OPTIONS_OF_OTHERS)
        if not SERVER_NAME.check("Server: name", name):
            raise OptionError(f'{caller()}: Server: name must not be empty; write Server("weather")')
        self.options = given
        self.info = Implementation(
            name,
            given["version"],
            given["title"] or None,
            given["description"] or None,
            given["website_url"] or None,
            list(given["icons"]) if given["icons"] else None,
        )
        self.runtime = Runtime(self.info, given)
        self.limits = self.runtime.limits
        self._executor = Executor(self.limits, _context_for)
        self._dispatch = Dispatch(self.runtime, self.info, given)
        self.tools = self._dispatch.tools
        self.prompts = self._dispatch.prompts
        self.resources = self._dispatch.resources
        self.templates = self._dispatch.templates
        self._dispatch.wrap(given["middleware"])
        self._dispatch.declare(given["capabilities"])
        self._serve_options()

    def _serve_options(self) -> None:
        """Serve what the options name."""
        given, lifespans = self.options, self.runtime.lifespans
        if given["lifespan"] is not None:
            lifespans.append(partial(given["lifespan"], self))
        for prompt in listed(given["prompts"]):
            self.register(prompt) if hasattr(type(prompt), "kind") else self.prompt(prompt)
        for thing in (*listed(given["tools"]), *listed(given["resources"])):
            self.register(thing)
        if given["directory"] is not None:
            from redstart.adopt.directory import open_directory

            directory = open_directory(self, given["directory"], calling_frame().f_globals.get("__file__"))
            lifespans.append(partial(directory.watched, self.runtime.pool))

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names

        def __getattr__(self, name: str) -> NoReturn:
            """An error that names our attribute for a name of another framework, or the one that was meant."""
            hint = f": write {WORDS_OF_OTHERS[name]}" if name in WORDS_OF_OTHERS else ""
            if not hint and not name.startswith("_"):  # code that looks for such names should not wait
                hint = did_you_mean(name, DECORATORS) or did_you_mean(name, (one for one in dir(self) if one[0] != "_"))
            raise AttributeError(f"a Server has no attribute {name!r}{hint}", obj=self)  # with name=, Python guesses

    @classmethod
    @showing(ServerOptions)
    def from_object(
        cls,
        thing: object,
        name: str = "",
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        **options: Unpack[ServerOptions],
    ) -> Server:
        """A server for existing code: the functions of a module, the methods of an object or of a class.

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
            server._dispatch.offer_no_logs()
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
    def tool(self, fn: object = None, /, name: str = "", **options: Any) -> Any:
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

        from redstart.features.predicates import predicate

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
    def prompt(self, fn: object = None, /, name: str = "", **options: Any) -> Any:
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
        """Serve a function as the resource at `uri`; with variables in it, as a template for every URI of that form.

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
        """Suggest values for an argument of a prompt or a variable of a template, by a function of the typed text.

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
            completer.compile(self._executor)
            self._dispatch.complete(ref, completer)
            return fn

        return decorate

    def register(self, thing: object, *, replace: bool = False) -> None:
        """Serve `thing`, now or while the server runs: a Tool, Prompt or Resource, a function, a provider.

        A function is what a decorator has marked it as, else a tool. `replace=True` says that what has the same name
        is meant to give way.
        """
        if hasattr(type(thing), "kind"):
            self._add(thing, replace)
        elif hasattr(thing, "__redstart_marks__"):
            from redstart.features.marks import components

            for component in components(thing, injected):
                self._add(component, replace)
        elif callable(thing):
            self._add(tool_of(thing, injected), replace)
        else:
            from redstart.adopt.providers import add_provider, is_provider

            if not is_provider(thing):
                raise RegistrationError(
                    f"{caller()}: {thing!r:.200} is not a function, a Tool, a Prompt, a Resource or a provider"
                )
            add_provider(self, thing)

    def _add(self, declared: Any, replace: bool) -> None:
        compiled = declared.compile(self._executor)
        if declared.visible is not None:
            compiled.sees = compiled.admits = self._executor.seen_by(declared.visible)
        if declared.scopes:
            from redstart.features.scopes import guard

            guard(compiled)
            if self.options["auth"] is None and not self.options["stdio_scopes"]:
                words = (
                    "%s: %s needs the scopes %s, and nobody has them: give the Server auth=, or stdio_scopes= for stdio"
                )
                log.warning(words, declared.place, compiled.key, " ".join(declared.scopes))
        registry: Registry[Any] = self.tools
        if declared.kind != "tool":
            self._dispatch.check_completers(compiled)
            registry = self.prompts
        if declared.kind == "resource":
            registry = self.resources if compiled.template is None else self.templates
        registry.add(compiled, replace=replace)
        for companion in declared.companions() if declared.kind == "resource" else ():
            self._add(companion, replace)

    def remove(self, thing: object) -> None:
        """Stop serving `thing`: an object, its function, its name or URI, or all that a provider has."""
        registries = self.tools, self.prompts, self.resources, self.templates
        keys = [(registry, key) for registry in registries for key in registry.keys_of(thing)]
        if not keys:
            known = [key for registry in registries for key in registry.items]
            hint = did_you_mean(thing, known) if isinstance(thing, str) else ""
            raise KeyError(f"{caller()}: nothing that is registered is {thing!r:.200}{hint}")
        for registry, key in keys:
            declared: Any = registry.remove(key).declared
            for companion in declared.companions() if declared.kind == "resource" else ():
                self.remove(companion)

    def add_middleware(self, layer: Middleware) -> Middleware:
        """Wrap every request of every method in `async def layer(call, next)`; usable as a decorator.

        >>> from redstart import Call, Next, Result
        >>> server = Server("desk")
        >>> @server.add_middleware
        ... async def named(call: Call, next: Next) -> Result:
        ...     print(call.method, call.name, call.arguments, call.user)
        ...     return await next(call)
        """
        self._dispatch.wrap(MIDDLEWARE.check("middleware", [layer]))
        return layer

    def declare(self, capabilities: Iterable[str]) -> None:
        """Offer these capabilities even if nothing is registered for them."""
        self._dispatch.declare(CAPABILITIES.check("capabilities", capabilities))

    def task(self, token: str) -> TaskHandle:
        """The task that `ctx.hand_over()` has left to another engine, to finish it from there."""
        from redstart.tasks.handle import TaskHandle

        return TaskHandle(self.runtime.tasks, self.runtime.modern, token, self.runtime.close_store)

    def notify(self, uri: str) -> None:
        """Tell every client that has subscribed to it that the resource at `uri` has changed."""
        self.runtime.hub.updated(REQUIRED_TEXT.check("uri", uri))

    def notify_changed(self, kind: str) -> None:
        """Tell every subscribed client that the list of `tools`, `prompts` or `resources` has changed."""
        self.runtime.hub.changed(LIST.check("kind", kind))

    # ------------------------------------------------------------ running

    @classmethod
    @contextmanager
    def recorded(cls) -> Iterator[list[Server]]:
        """While `redstart run` loads a file, `run()` in that file only records its server."""
        servers: list[Server] = []
        before, Server._recording = Server._recording, servers
        try:
            yield servers
        finally:
            Server._recording = before

    @overload
    def run(self, transport: Literal["stdio"] = "stdio", **options: Unpack[StdioOptions]) -> None: ...
    @overload
    def run(self, transport: Literal["http", "streamable-http"], **options: Unpack[HttpOptions]) -> None: ...
    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client goes away (stdio) or the process is told to stop.

        `stdin` and `stdout` are binary files to serve on instead of the process's own. What keeps the server of a
        process from starting ends that: SystemExit with the reason in words, and the error itself as its `__cause__`.

        >>> from redstart import Server
        >>> server = Server("quick")
        >>> server.run("http", port=8000)  # doctest: +SKIP
        """
        from redstart.transports.options import transport_options

        http, given = transport_options("run", transport, options)
        if Server._recording is not None:
            Server._recording.append(self)
            return
        if http:
            from redstart.transports.serve import run_http

            run_http(self, given)
        else:
            from redstart.transports.stdio import run_stdio

            run_stdio(self, given)

    @overload
    async def run_async(self, transport: Literal["stdio"] = "stdio", **options: Unpack[StdioOptions]) -> None: ...
    @overload
    async def run_async(
        self, transport: Literal["http", "streamable-http"], **options: Unpack[HttpOptions]
    ) -> None: ...
    async def run_async(self, transport: str = "stdio", **options: Any) -> None:
        """As `run`, inside a loop that already runs. Cancel it to stop serving.

        >>> import asyncio
        >>> from redstart import Server
        >>> asyncio.run(Server("quick").run_async("http"))  # doctest: +SKIP
        """
        from redstart.transports.options import transport_options

        http, given = transport_options("run_async", transport, options)
        if Server._recording is not None:
            Server._recording.append(self)
        elif http:
            from redstart.transports.serve import serve_http

            await serve_http(self, given)
        else:
            from redstart.transports.stdio import serve_stdio

            await serve_stdio(self, given)

    def serve_background(self, **options: Unpack[HttpOptions]) -> BackgroundServer:
        """Serve over HTTP from a thread and return at once, for notebooks and tests; the options are those of HTTP.

        Running a cell again replaces what it registers, and clients are told. A second server of the same name takes
        the place and the port of the first one.

        >>> from redstart import Client, Server
        >>> served = Server("notebook").serve_background(port=0)
        >>> served.stop()
        """
        from redstart.transports.background import BackgroundServer
        from redstart.transports.http_options import HttpOptions

        return BackgroundServer(self, checked(HttpOptions, "server.serve_background()", options, also=())).start()

    def asgi(self, **options: Unpack[EndpointOptions]) -> Endpoint:
        """This server as an ASGI application: serve it, or mount it in another one.

        >>> from redstart import Server
        >>> app = Server("mounted").asgi()
        """
        from redstart.transports.http import Endpoint
        from redstart.transports.http_options import EndpointOptions

        return Endpoint(self, checked(EndpointOptions, "server.asgi()", options, also=()))

    @asynccontextmanager
    async def lifespan_context(self, app: object = None) -> AsyncIterator[None]:
        """The life of this server inside of another application's: started before it serves, stopped after.

        It can be given as it is: `FastAPI(lifespan=server.lifespan_context)`. In a lifespan of your own:

        >>> from redstart import Server
        >>> server = Server("mounted")
        >>> @asynccontextmanager
        ... async def lifespan(app: object) -> AsyncIterator[None]:
        ...     async with server.lifespan_context():
        ...         yield
        """
        await self.runtime.start()
        try:
            yield
        finally:
            await self.runtime.stop()

    def route(self, path: str, methods: Iterable[str] = ("GET",)) -> Callable[[F], F]:
        """Answer another HTTP path beside the MCP endpoint. Its clients need not speak MCP.

        The handler takes the request, or nothing, and returns text, bytes, JSON data or `(status, headers, body)`.

        >>> from redstart import Server
        >>> server = Server("weather")
        >>> @server.route("/health")
        ... def health() -> dict[str, bool]:
        ...     return {"ok": True}
        """

        if not isinstance(path, str):
            raise RegistrationError(f'{caller()}: write @server.route("/path", methods=["GET"])')

        def decorate(fn: F) -> F:
            from redstart.transports.routes import add_route

            add_route(self, path, methods, fn)
            return fn

        return decorate


def _context_for(awaits: bool) -> type[RequestContext]:
    """The class of contexts of `async def` or of `def` handlers; loaded for the first handler that has one."""
    if awaits:
        from redstart.server.context import Context

        return Context
    from redstart.server.sync_context import SyncContext

    return SyncContext


_RUN_OPTIONS: Final = frozenset({"transport", "host", "port", "path", "framing", "stdin", "stdout"})


def serve(name: str, *things: object, **options: Any) -> None:
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
