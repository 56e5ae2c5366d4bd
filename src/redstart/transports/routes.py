"""`@server.route`: paths of the application's own beside the MCP endpoint, for health checks, callbacks, metrics.

The endpoint's rules for Host, Origin and size hold for them too. `auth=` does not: what must be public can be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl

from msgspec import Struct

from redstart.features.errors import RegistrationError, place
from redstart.features.results import to_json
from redstart.features.rules import Rule, names, one_of
from redstart.schema.callables import is_async
from redstart.transports.request import JSON, HeaderList, HttpRequest, Rejection
from redstart.wire.jsonrpc import decode

if TYPE_CHECKING:
    from redstart.server.runtime import Hosted, Runtime

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
Route = Callable[..., Any]
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_BYTES: Final = (b"content-type", b"application/octet-stream")
_FRAMING: Final = (b"content-length", b"transfer-encoding")
"""What says where a body ends. A handler may pass on the headers of another response, which say it for another body."""


class Request(Struct, frozen=True):
    """What a route's handler gets: a whole request.

    >>> Request("POST", "/hook", body=b'{"n": 1}').json()
    {'n': 1}
    """

    method: str
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes = b""

    def json(self) -> Any:
        """The body as JSON."""
        return decode(self.body)


def _methods(label: str, value: object) -> list[str]:
    return [one_of(*METHODS)(label, name.upper()) for name in names(label, value)]


def add_route(server: Hosted, path: str, methods: Iterable[str], handler: Route) -> None:
    """Serve `handler` at `path`; what cannot work is said now."""
    verbs = Rule(_methods, optional=False).check("methods", methods)
    if not path.startswith("/") or not verbs:
        raise RegistrationError(f'{place(handler)}: write @server.route("/path", methods=["GET"])')
    required = [p for p in inspect.signature(handler).parameters.values() if p.default is p.empty]
    if len(required) > 1:
        raise RegistrationError(f"{place(handler)}: a route takes the request, or nothing")
    if path in server.runtime.mcp_paths:
        _refuse(path, handler)
    taken: dict[str, Route] = server.runtime.routes.setdefault(path, {})
    for name in verbs:
        if name in taken:
            raise RegistrationError(f"{place(handler)}: {name} {path} is already served by {place(taken[name])}")
        taken[name] = handler


def claim_paths(server: Hosted, paths: frozenset[str]) -> None:
    """These paths are the MCP endpoint's: a route of the application at one of them would never be asked."""
    for path in sorted(paths & server.runtime.routes.keys()):
        _refuse(path, next(iter(server.runtime.routes[path].values())))
    server.runtime.mcp_paths.update(paths)


def _refuse(path: str, handler: Route) -> NoReturn:
    raise RegistrationError(
        f"{place(handler)}: {path} is the path of the MCP endpoint; give the route another path, "
        'or the endpoint: server.asgi(path="/…") or server.run("http", path="/…")'
    )


async def answer_route(runtime: Runtime, request: HttpRequest, endpoint: str) -> None:
    """The answer of the route at this path. `endpoint` is the path of the MCP endpoint."""
    scope = request.scope
    method, path = scope["method"], request.path
    served = runtime.routes.get(path)
    if served is None:
        raise Rejection(404, f"Nothing is served at this path; the MCP endpoint is {endpoint}")
    handler = served.get(method) or (served.get("GET") if method == "HEAD" else None)
    if handler is None:
        raise Rejection(405, f"{method} is not supported here", (b"allow", ", ".join(served).encode()))
    given = read_request(request, await request.body())
    try:
        value = await _call(runtime, handler, given)
        status, kinds, data = _response(value)
    except Exception as error:
        text = runtime.errors.text(error, f"The route {path}")
        status, kinds, data = 500, [_TEXT], text.encode()
    headers = [pair for pair in kinds if pair[0] not in _FRAMING]
    # A body after a 204 or a 304 would be read as the beginning of the next response.
    await request.reply(status, b"" if status in (204, 304) else data, headers)


def read_request(request: HttpRequest, body: bytes = b"") -> Request:
    """A request as the application gets it."""
    scope = request.scope
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()}
    return Request(scope["method"], request.path, query, headers, body)


async def _call(runtime: Runtime, handler: Route, request: Request) -> object:
    given = (request,) if inspect.signature(handler).parameters else ()
    if is_async(handler):
        return await handler(*given)
    return await runtime.pool.run(lambda: handler(*given), {})


def _response(value: object) -> tuple[int, HeaderList, bytes]:
    """What a handler returned, as a status, headers and bytes."""
    if isinstance(value, tuple):
        status, named, value = value
        _, kind, data = _response(value)
        pairs = [(str(name).lower().encode("latin-1"), str(text).encode("latin-1")) for name, text in named.items()]
        own = {name for name, _ in pairs}
        return int(status), [*(pair for pair in kind if pair[0] not in own), *pairs], data
    if value is None:
        return 204, [], b""
    if isinstance(value, str):
        return 200, [_TEXT], value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return 200, [_BYTES], bytes(value)
    if hasattr(value, "raw_headers"):
        return _foreign_response(value)
    return 200, [JSON], to_json(value)


def _foreign_response(value: Any) -> tuple[int, HeaderList, bytes]:
    """A response of Starlette or FastAPI that has its whole body; one that is made while it is sent is refused."""
    if not isinstance(getattr(value, "body", None), bytes | memoryview):
        kind = type(value).__name__
        raise TypeError(f"a route cannot return a {kind}, which has no body yet; return the body as bytes or text")
    pairs = [(bytes(name), bytes(text)) for name, text in value.raw_headers]
    return int(value.status_code), pairs, bytes(value.body)
