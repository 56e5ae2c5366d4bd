"""How a Server is run: on stdio, on a socket, in a loop of one's own, or as an ASGI application.

The transports are loaded when they are used, because no server needs all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Unpack, cast, overload

from redstart.features.errors import RegistrationError, SettingsError
from redstart.features.rules import caller

if TYPE_CHECKING:
    from redstart.server.server import Server
    from redstart.transports.http import Endpoint
    from redstart.transports.options import EndpointOptions, HttpOptions, StdioOptions

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def _in_words(server: Server) -> Iterator[None]:
    """What keeps a server from starting ends the program as `redstart run` does, not in a traceback of our code."""
    try:
        yield
    except Exception as error:
        # A thread that exits says nothing, so there it stays an exception.
        if threading.current_thread() is not threading.main_thread():
            raise
        if isinstance(error, SettingsError):
            raise SystemExit(f"redstart: {error}") from error
        if error is not server.runtime.failure:
            raise
        from redstart.server.startup_errors import not_started

        raise SystemExit(f"redstart: {not_started(server.name, error)}") from error


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "server.run() makes an event loop of its own, and one runs here already: write await server.run_async(…)"
    )


class Running:
    """The part of a Server that brings it to its clients."""

    _recording: ClassVar[list[Server] | None] = None
    _loading: ClassVar[list[SettingsError] | None] = None
    """In the child of a tool, while it loads the file of that tool: why servers in that file did not start."""

    def check_loaded(self) -> None:
        """Refuse to serve in a child that still loads its file: each child would start the next one, without end."""
        if Running._loading is None:
            return
        refusal = SettingsError(
            'this file serves or calls its own tools when it is imported, but executor="process" has to import it',
            'put what starts the program under `if __name__ == "__main__":`',
        )
        Running._loading.append(refusal)
        raise refusal

    @cached_property
    def routes(self) -> dict[str, Any]:
        """The application's own paths beside the MCP endpoint."""
        return {}

    @classmethod
    @contextmanager
    def recorded(cls) -> Iterator[list[Server]]:
        """While a file is loaded only to be served by somebody else, its own `run()` only says whom it meant."""
        found: list[Server] = []
        before, Running._recording = Running._recording, found
        try:
            yield found
        finally:
            Running._recording = before

    @cached_property
    def mcp_paths(self) -> set[str]:
        """The paths of the MCP endpoints of this server: none of them can be a route."""
        return set()

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
        server = cast("Server", self)
        if Running._recording is not None:
            Running._recording.append(server)
            return
        _refuse_running_loop()
        if http:
            from redstart.transports.serve import run_http

            with _in_words(server):
                run_http(server, given)
        else:
            from redstart.transports.stdio import run_stdio

            own = given["stdin"] is None and given["stdout"] is None
            with _in_words(server) if own else nullcontext():
                run_stdio(server, given)

    @overload
    async def run_async(self, transport: Literal["stdio"] = "stdio", **options: Unpack[StdioOptions]) -> None: ...
    @overload
    async def run_async(
        self, transport: Literal["http", "streamable-http"], **options: Unpack[HttpOptions]
    ) -> None: ...
    async def run_async(self, transport: str = "stdio", **options: Any) -> None:
        """As `run`, inside a loop that already runs; to cancel it is to stop serving.

        >>> import asyncio
        >>> from redstart import Server
        >>> asyncio.run(Server("quick").run_async("http"))  # doctest: +SKIP
        """
        from redstart.transports.options import transport_options

        http, given = transport_options("run_async", transport, options)
        server = cast("Server", self)
        if Running._recording is not None:
            Running._recording.append(server)
        elif http:
            from redstart.transports.serve import serve_http

            await serve_http(server, given)
        else:
            from redstart.transports.stdio import serve_stdio

            await serve_stdio(server, given)

    def asgi(self, **options: Unpack[EndpointOptions]) -> Endpoint:
        """This server as an ASGI application: serve it, or mount it in another one.

        >>> from redstart import Server
        >>> app = Server("mounted").asgi()
        """
        from redstart.features.rules import checked
        from redstart.transports.http import Endpoint
        from redstart.transports.options import EndpointOptions

        return Endpoint(cast("Server", self), checked(EndpointOptions, "server.asgi()", options, also=()))

    @asynccontextmanager
    async def lifespan_context(self, app: Any = None) -> AsyncIterator[None]:
        """The life of this server inside of another application's: started before it serves, stopped after.

        It can be given as it is: `FastAPI(lifespan=server.lifespan_context)`. In a lifespan of your own:

        >>> from redstart import Server
        >>> server = Server("mounted")
        >>> @asynccontextmanager
        ... async def lifespan(app: object) -> AsyncIterator[None]:
        ...     async with server.lifespan_context():
        ...         yield
        """
        runtime = cast("Server", self).runtime
        await runtime.start()
        try:
            yield
        finally:
            await runtime.stop()

    def route(self, path: str, methods: Iterable[str] = ("GET",)) -> Callable[[F], F]:
        """Answer an HTTP path of one's own beside the MCP endpoint; nothing of MCP is asked of its clients.

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

            add_route(cast("Server", self), path, methods, fn)
            return fn

        return decorate
