"""The client: one object to reach any MCP server, of either era, by any transport.

Public face only: `connection.py` carries messages, `negotiate.py` opens it, `requests.py` gets from request to result.
`timeout=` is a parameter, and not the caller's `asyncio.timeout`, because a human's time does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, Unpack, overload

from redstart.client import results
from redstart.client.callbacks import OnProgress
from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError, NotSupported
from redstart.client.handlers import QuestionHandlers
from redstart.client.listen import Events, handshake_events, modern_events
from redstart.client.negotiate import Negotiator
from redstart.client.options import ClientOptions
from redstart.client.requests import Requests
from redstart.client.results import CallResult
from redstart.client.target import transport_for
from redstart.features.options import checked, showing
from redstart.wire import types as t
from redstart.wire.jsonrpc import encode
from redstart.wire.meta import Implementation

Reference: TypeAlias = str | Mapping[str, Any]
"""What to complete: a prompt's name, a resource template, or the spec's `{"type": "ref/prompt", …}`."""

T = TypeVar("T")


class Client:
    """A connection to one MCP server: a Server object, a URL, a command as a list, or a .py file.

    >>> async def main() -> None:
    ...     async with Client(["python", "server.py"]) as c:
    ...         print((await c.call_tool("add", {"a": 1, "b": 2})).data)

    `protocol` is "auto" or a revision. `on_elicit`, `on_sample` and `roots` answer what the server asks, and decide
    which capabilities are declared (`capabilities` adds to them). Callbacks may be async. `timeout` counts seconds for
    each request, without the time a human takes to answer; `None` is no limit. `stderr` is "inherit" or "capture".

    `token` is what `auth=` reads: the bearer token for a URL, and for a Server object too. `user` is who calls a Server
    object, without `auth=`; with neither a Server object is called as by its own process, and `ctx.user` is None.
    """

    @showing(ClientOptions)
    def __init__(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        given = checked(ClientOptions, "a Client", options, before="Client: ", also=())
        self._protocol = given["protocol"]
        self._on_progress = given["on_progress"]
        self._timeout = given["timeout"]
        self._max_rounds = given["max_rounds"]
        self._log_level = given["log_level"]
        self._client_info = given["client_info"]
        self._handlers = QuestionHandlers(given["on_elicit"], given["on_sample"], given["roots"], given["capabilities"])
        self._on_log = given["on_log"]
        self._on_notification = given["on_notification"]
        self._transport = partial(
            transport_for,
            target,
            user=given["user"],
            token=given["token"],
            headers=given["headers"],
            env=given["env"],
            cwd=given["cwd"],
            stderr=given["stderr"],
            timeout=given["timeout"],
        )
        self._transport()  # a wrong target fails here, not later
        self._open: Requests | None = None

    # ---------------------------------------------------------------- lifetime

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ClientError("this client is open already")
        connection = RpcConnection(
            self._transport(),
            self._handlers,
            timeout=self._timeout,
            on_log=self._on_log,
            on_notification=self._on_notification,
        )
        info = self._client_info or {"name": "redstart", "version": _version()}
        # Without a level a modern server sends no log at all; who gives a callback wants one.
        level = self._log_level or (None if self._on_log is None else "info")
        negotiator = Negotiator(connection, self._handlers, info, self._log_level, level)
        requests = Requests(connection, self._handlers, negotiator, self._max_rounds)
        try:
            await connection.open()
            await requests.open(self._protocol)
        except BaseException:
            await connection.close()
            raise
        self._open = requests
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        requests, self._open = self._open, None
        if requests is not None:
            await requests.connection.close()

    @property
    def _requests(self) -> Requests:
        if self._open is None:
            raise ClientError("this client is not open: use it as `async with Client(…) as c:`")
        return self._open

    @property
    def protocol_version(self) -> str:
        """The revision that both sides speak."""
        return self._requests.peer.version

    @property
    def server_info(self) -> Implementation:
        """The server's name and version."""
        return self._requests.peer.info

    @property
    def server_capabilities(self) -> dict[str, Any]:
        """What the server offers, as it came."""
        return self._requests.peer.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server wants a model to know."""
        return self._requests.peer.instructions

    # ---------------------------------------------------------------- tools

    async def list_tools(self) -> list[t.ListedTool]:
        """All tools, from all pages.

        >>> async def names(c: Client) -> list[str]:
        ...     return [tool.name for tool in await c.list_tools()]
        """
        return await self._requests.list_tools()

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult[T]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult[Any]: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult[Any]:
        """Call a tool. A tool that fails returns a result with `is_error`; a call that fails raises.

        >>> async def add(c: Client) -> int:
        ...     return (await c.call_tool("add", {"a": 1, "b": 2}, returns=int)).data

        `returns` is the type of `result.data`: a plain type, a dataclass, a model. Any other result is refused.
        """
        requests = self._requests
        params = _with_meta({"name": name, "arguments": arguments or {}}, meta)
        on_progress = on_progress or self._on_progress
        raw = await requests.result("tools/call", params, seconds=timeout, on_progress=on_progress)
        result = results.call_result(raw)
        if isinstance(result.structured, dict) and list(result.structured) == ["result"]:
            result.wrapped = (await requests.tools.get(name)).wrapped
        if returns is not None and not result.is_error:
            result.read(f"tools/call of {name}", returns)
        return result

    # ---------------------------------------------------------------- prompts, resources, completion

    async def list_prompts(self) -> list[t.ListedPrompt]:
        """All prompts, from all pages.

        >>> async def names(c: Client) -> list[str]:
        ...     return [prompt.name for prompt in await c.list_prompts()]
        """
        return await self._requests.pages("prompts/list", "prompts")

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> t.GetPromptResult:
        """A prompt's messages; an argument that is no string is sent as JSON.

        >>> async def review(c: Client) -> list[Any]:
        ...     return (await c.get_prompt("review", {"code": "x = 1"})).messages
        """
        strings = {k: v if isinstance(v, str) else encode(v).decode() for k, v in (arguments or {}).items()}
        params = _with_meta({"name": name, "arguments": strings}, meta)
        on_progress = on_progress or self._on_progress
        raw = await self._requests.result("prompts/get", params, seconds=timeout, on_progress=on_progress)
        return results.prompt_result(raw)

    async def list_resources(self) -> list[t.ListedResource]:
        """All resources, from all pages.

        >>> async def uris(c: Client) -> list[str]:
        ...     return [resource.uri for resource in await c.list_resources()]
        """
        return await self._requests.pages("resources/list", "resources")

    async def list_resource_templates(self) -> list[t.ListedTemplate]:
        """All resource templates, from all pages.

        >>> async def patterns(c: Client) -> list[str]:
        ...     return [template.uri_template for template in await c.list_resource_templates()]
        """
        return await self._requests.pages("resources/templates/list", "resource_templates")

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> t.ReadResourceResult:
        """A resource's contents.

        >>> async def note(c: Client) -> str:
        ...     return (await c.read_resource("notes://a")).contents[0].text
        """
        params = _with_meta({"uri": uri}, meta)
        on_progress = on_progress or self._on_progress
        raw = await self._requests.result("resources/read", params, seconds=timeout, on_progress=on_progress)
        return results.resource_result(raw)

    async def complete(
        self, ref: Reference, argument_name: str, value: str, context: Mapping[str, str] | None = None
    ) -> t.Completion:
        """Values for an argument that begins with `value`; `context` has the other arguments.

        >>> async def languages(c: Client) -> list[str]:
        ...     return (await c.complete("review", "language", "py")).values
        """
        if isinstance(ref, str):
            is_uri = "://" in ref or "{" in ref
            ref = {"type": "ref/resource", "uri": ref} if is_uri else {"type": "ref/prompt", "name": ref}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument_name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        return results.completion(await self._requests.result("completion/complete", params))

    # ---------------------------------------------------------------- changes

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Events]:
        """Hear of changes: of the three lists, and of the resources at `uris`.

        >>> async def watch(c: Client) -> None:
        ...     async with c.listen(tools=True, uris=["notes://a"]) as events:
        ...         async for event in events:
        ...             print(event.kind, event.uri)
        """
        if isinstance(uris, str):
            raise TypeError("uris is a list of URIs, not one string")
        requests = self._requests
        flags = {"tools": tools, "prompts": prompts, "resources": resources}
        kinds = {kind for kind, wanted in flags.items() if wanted}
        if requests.connection.dialect.modern:
            return modern_events(requests.connection, kinds, uris)
        return handshake_events(requests.connection, requests.subscriptions, kinds, uris)

    async def subscribe(self, uri: str) -> None:
        """Have the server report changes of a resource to `on_notification` (handshake era)."""
        self._handshake_only("resources/subscribe", "listen(uris=[…])")
        await self._requests.subscriptions.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        """The end of `subscribe` (handshake era)."""
        self._handshake_only("resources/unsubscribe", "listen(uris=[…])")
        await self._requests.subscriptions.unsubscribe(uri)

    # ---------------------------------------------------------------- the rest

    async def ping(self) -> None:
        """Ask whether the server is there (handshake era)."""
        self._handshake_only("ping", "any request")
        await self._requests.request("ping")

    async def set_log_level(self, level: str) -> None:
        """How much the server logs to `on_log` from now on (handshake era)."""
        self._handshake_only("logging/setLevel", "Client(…, log_level=…)")
        await self._requests.request("logging/setLevel", {"level": level})

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[str, Any]:
        """Any request, its result as it came: the way to what this class has no method for.

        >>> async def raw(c: Client) -> dict[str, Any]:
        ...     return await c.request("tools/list", {})
        """
        return results.as_dict(method, await self._requests.request(method, params, seconds=timeout))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Any notification.

        >>> async def changed(c: Client) -> None:
        ...     await c.notify("notifications/roots/list_changed")
        """
        await self._requests.connection.notify(method, params)

    def _handshake_only(self, method: str, instead: str) -> None:
        if self._requests.connection.dialect.modern:
            raise NotSupported(f"{method} does not exist in {self.protocol_version}; use {instead} instead")


def _with_meta(params: dict[str, Any], meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return params if meta is None else {**params, "_meta": dict(meta)}


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("redstart")
    except metadata.PackageNotFoundError:
        return "0"
