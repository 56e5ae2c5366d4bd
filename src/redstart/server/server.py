"""The Server: what an application registers, and the table from method to the function that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from msgspec import UNSET

from redstart.features.errors import ErrorPolicy
from redstart.features.lifecycle import Lifecycle
from redstart.features.registry import OnDuplicate, Registry
from redstart.features.tools import Parameter, Task, Tool, Tools
from redstart.protocol.call import Call
from redstart.protocol.modern import Modern
from redstart.server.host import Host, Middleware, Next, compose
from redstart.server.inject import check_is_callable, injected
from redstart.server.invoke import compose_invoke
from redstart.wire.jsonrpc import METHOD_NOT_FOUND, ProtocolError
from redstart.wire.meta import Implementation
from redstart.wire.types import Icon

if TYPE_CHECKING:
    from redstart.protocol.framing import Framing

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
Authenticate = Callable[[str], Any]


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
        lifespan: Lifespan | None = None,
        middleware: Sequence[Middleware] = (),
        auth: Authenticate | None = None,
        keys: Sequence[str | bytes] = (),
        on_duplicate: OnDuplicate = "warn",
        page_size: int | None = None,
        expose_errors: bool | Sequence[type[BaseException]] = False,
        debug: bool = False,
        threads: int = 40,
    ) -> None:
        self.info = Implementation(
            name,
            version,
            title or UNSET,
            description or UNSET,
            website_url or UNSET,
            list(icons) if icons else UNSET,
        )
        self.modern = Modern(self.info)
        self.errors = ErrorPolicy(expose_errors, debug)
        self.lifespan = lifespan
        self.auth = auth
        self.keys = list(keys)
        self.threads = threads
        self.host = Host(self)
        self.tools: Registry[Tool] = Registry("tool", on_duplicate, page_size)
        self._lifecycle = Lifecycle(self.info, instructions, self.modern)
        self._middleware = list(middleware)
        self._handlers: dict[str, Next] = {}
        self.dispatch: Next = self._dispatch
        self._offer()
        for tool in [tools] if isinstance(tools, Tool) else tools:
            self.register(tool)

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
    ) -> Callable[[F], F]: ...
    def tool(self, fn: Any = None, /, **options: Any) -> Any:
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

    def register(self, thing: Tool | Callable[..., Any]) -> None:
        """Serve `thing`, now or while the server runs."""
        tool = thing if isinstance(thing, Tool) else Tool(handler=thing)
        tool.compile(injected)
        tool.invoke = compose_invoke(
            tool.handler, tool.injected, self.host, executor=tool.executor, timeout=tool.timeout
        )
        self.tools.add(tool)

    def remove(self, thing: Tool | Callable[..., Any] | str) -> None:
        """Serve `thing` no longer."""
        name = thing if isinstance(thing, str) else getattr(thing, "name", None) or thing.__name__
        self.tools.remove(name)

    def add_middleware(self, layer: Middleware) -> Middleware:
        """Wrap every request of every method in `async def layer(call, next)`; usable as a decorator."""
        self._middleware.append(layer)
        self._recompose()
        return layer

    # ------------------------------------------------------------ answering

    def _offer(self) -> None:
        """The capabilities, and the table from method to handler, that follow from what is registered."""
        tools = Tools(self.tools, self.errors)
        self._lifecycle.capabilities = {"tools": {"listChanged": True}, "logging": {}}
        self._handlers = {
            "initialize": self._lifecycle.initialize,
            "ping": self._lifecycle.ping,
            "server/discover": self._lifecycle.discover,
            "logging/setLevel": self._lifecycle.set_level,
            "tools/list": tools.list,
            "tools/call": tools.call,
            "resources/subscribe": self.host.hub.subscribe,
            "resources/unsubscribe": self.host.hub.unsubscribe,
            "subscriptions/listen": self.host.hub.listen,
        }
        self._recompose()

    def _recompose(self) -> None:
        self.dispatch = compose(self._middleware, self._dispatch)

    def _dispatch(self, call: Call) -> Awaitable[Any]:
        handler = self._handlers.get(call.method.name)
        if handler is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"This server does not offer {call.method.name}")
        return handler(call)

    # ------------------------------------------------------------ running

    def run(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str = "/mcp",
        framing: Framing = "auto",
        stdin: Any = None,
        stdout: Any = None,
        **options: Any,
    ) -> None:
        """Serve until the client goes away (stdio) or the process is told to stop.

        >>> server = Server("quick")
        >>> server.run("http", port=8000)  # doctest: +SKIP
        """
        # The import is here because a server does not need both transports.
        if transport == "http":
            from redstart.transports.serve import run_http

            run_http(self, host=host, port=port, path=path, **options)
        elif transport == "stdio":
            from redstart.transports.stdio import run_stdio

            run_stdio(self, framing=framing, stdin=stdin, stdout=stdout, **options)
        else:
            raise ValueError(f'transport must be "stdio" or "http", not {transport!r}')

    def asgi(self, *, path: str = "/mcp", **options: Any) -> Any:
        """This server as an ASGI application: serve it, or mount it in another one.

        >>> app = Server("mounted").asgi()
        """
        from redstart.transports.http import Endpoint

        return Endpoint(self, path=path, **options)
