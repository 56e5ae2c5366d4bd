"""The client: one object to reach any MCP server, of either era, by any transport.

Only the public methods: `connection.py` carries messages, `negotiate.py` finds the era, `requests.py` gets from a
request to its result. `timeout=` is a parameter, and not the caller's `asyncio.timeout`, because the time that a human
takes to answer does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar, Unpack, overload

from msgspec import UNSET, Raw

from redstart.client import listen, results, skills, tasks
from redstart.client.callbacks import OnProgress
from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError, NotSupported, RequestError
from redstart.client.handlers import QuestionHandlers
from redstart.client.listen import Events
from redstart.client.options import ClientOptions
from redstart.client.requests import RequestOptions, Requests
from redstart.client.results import CallResult, decoded
from redstart.client.skills import Skill, SkillList
from redstart.client.target import transport_for
from redstart.client.tasks import RemoteTask, TaskInfo
from redstart.client.transport import Transport
from redstart.features.rules import checked, showing
from redstart.wire import types as t
from redstart.wire.jsonrpc import MISSING_CLIENT_CAPABILITY, JsonMapping, JsonObject, encode
from redstart.wire.meta import TASKS_EXTENSION, Implementation

Reference: TypeAlias = str | JsonMapping
"""What to complete: a prompt's name, a resource template, or the spec's `{"type": "ref/prompt", …}`."""

T = TypeVar("T")


class CallOptions(RequestOptions, total=False):
    """What a caller may say of one call."""

    meta: Mapping[str, object] | None


class Client:
    """A connection to one MCP server: a Server object, a URL, a command as a list, a .py file, or a configuration.

    >>> async def main() -> None:
    ...     async with Client(["python", "server.py"]) as c:
    ...         print((await c.call_tool("add", {"a": 1, "b": 2})).data)

    A configuration is `{"mcpServers": {…}}`, a dict or a .json file; `server` names its entry if it has several.
    `protocol` is "auto" or a revision. `on_elicit`, `on_sample` and `roots` answer what the server asks, and decide
    which capabilities are declared (`capabilities` adds to them). Callbacks may be async. `timeout` counts seconds for
    each request, without the time a human takes to answer; `None` means no limit. `stderr` is "inherit" or "capture".

    `token` is what `auth=` reads: the bearer token for a URL, and for a Server object too. `user` is who calls a Server
    object, without `auth=`; with neither a Server object is called as by its own process, and `ctx.user` is None.

    `record` is a file that gets every message, a line of JSON each; `redstart.testing.replay` plays it again.
    """

    @showing(ClientOptions)
    def __init__(self, target: object, **options: Unpack[ClientOptions]) -> None:
        self._options = given = checked(ClientOptions, "a Client", options, before="Client: ", also=())
        self._handlers = QuestionHandlers(given["on_elicit"], given["on_sample"], given["roots"], given["capabilities"])
        self._new_transport = partial(transport_for, target, given)
        self._new_transport()  # a wrong target fails here, not later
        self._open: Requests | None = None

    # ---------------------------------------------------------------- lifetime

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ClientError("this client is open already")
        connection = RpcConnection(self._transport(), self._handlers, self._options)
        requests = Requests(connection, self._options)
        try:
            await connection.open()
            await requests.open(self._options["protocol"])
        except BaseException:
            await connection.close()
            raise
        self._open = requests
        return self

    def _transport(self) -> Transport:
        transport, path = self._new_transport(), self._options["record"]
        if path is None:
            return transport
        from redstart.client.recording import RecordedTransport

        return RecordedTransport(transport, path)

    async def __aexit__(self, *exception: object) -> None:
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
        return self._requests.server.version

    @property
    def server_info(self) -> Implementation:
        """The server's name and version."""
        return self._requests.server.info

    @property
    def server_capabilities(self) -> JsonObject:
        """The capabilities of the server, as they came."""
        return self._requests.server.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about itself."""
        return self._requests.server.instructions

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
        arguments: Mapping[str, object] | None = None,
        *,
        returns: type[T],
        **options: Unpack[CallOptions],
    ) -> CallResult[T]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: object = None,
        **options: Unpack[CallOptions],
    ) -> CallResult[Any]: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: object = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CallResult[Any]:
        """Call a tool. A tool that fails returns a result with `is_error`; a call that fails raises.

        >>> async def add(c: Client) -> int:
        ...     return (await c.call_tool("add", {"a": 1, "b": 2}, returns=int)).data

        `returns` is the type of `result.data`: a plain type, a dataclass, a model. Any other result is refused.
        """
        params: JsonObject = {"name": name, "arguments": arguments or {}}
        read = partial(self._call_result, name, returns)
        task = None
        if await self._must_be_task(name):
            task = await self.start_task(name, arguments, returns=returns, on_progress=on_progress, meta=meta)
        else:
            try:
                raw = await self._result("tools/call", params, meta, timeout, on_progress)
            except RequestError as error:
                if not _asks_for_task(error):
                    raise
                task = await self.start_task(name, arguments, returns=returns, meta=meta)
        if task is None:
            info = tasks.created(raw, modern=True) if self._requests.connection.dialect.modern else None
            if info is None:
                return await read(raw)
            task = RemoteTask(self._requests, info, read)
        async with task:
            return await task.result(self._options["timeout"] if timeout is None else timeout)

    async def _call_result(self, name: str, returns: object, raw: Raw) -> CallResult[Any]:
        result = results.call_result(raw)
        if self._options["validate"] and not result.is_error:
            await self._requests.tools.check(name, result.structured if result.has_structured else UNSET)
        if isinstance(result.structured, dict) and list(result.structured) == ["result"]:
            result.wrapped = (await self._requests.tools.get(name)).wrapped
        if returns is not None and not result.is_error:
            result.read(f"tools/call of {name}", returns)
        return result

    # ---------------------------------------------------------------- tasks

    async def start_task(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        ttl: float | None = None,
        returns: object = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> RemoteTask[Any]:
        """Call a tool as a task: returns when the server has begun it. `ttl` is how many seconds it should be kept.

        >>> async def crunch(c: Client) -> object:
        ...     task = await c.start_task("crunch", {"path": "data.csv"})
        ...     return (await task).data

        A server that answers at once, because the work is short or because it makes no tasks, gives a task that has
        ended. In 2026-07-28 the server decides how long a task is kept, and does not tell its progress.
        """
        requests = self._requests
        modern = requests.connection.dialect.modern
        params: JsonObject = {"name": name, "arguments": arguments or {}}
        extra: JsonObject = requests.tasks_meta() if modern else {}
        if not modern:
            self._check_tasks()
            params["task"] = {} if ttl is None else {"ttl": int(ttl * 1000)}
            if (callback := on_progress or self._options["on_progress"]) is not None:
                extra["progressToken"] = requests.connection.keep_progress(callback)
        params["_meta"] = {**(meta or {}), **extra}
        raw = await requests.result("tools/call", params)
        info = tasks.created(raw, modern=modern)
        read = partial(self._call_result, name, returns)
        if info is not None:
            return RemoteTask(requests, info, read)
        return RemoteTask(requests, TaskInfo(task_id="", status="completed"), read, raw)

    async def get_task(self, id: str, *, tool: str = "", returns: object = None) -> RemoteTask[Any]:
        """A task that was started before, perhaps over another connection.

        >>> async def later(c: Client, id: str) -> object:
        ...     return (await (await c.get_task(id))).data

        `tool` is the name of its tool, which is needed to read a result that the server has wrapped.
        """
        task: RemoteTask[Any] = RemoteTask(
            self._requests, TaskInfo(task_id=id, status="working"), partial(self._call_result, tool, returns)
        )
        await task.refresh()
        return task

    async def list_tasks(self) -> list[TaskInfo]:
        """All tasks that the server shows to this client (2025-11-25 only).

        >>> async def running(c: Client) -> list[str]:
        ...     return [task.task_id for task in await c.list_tasks() if task.status == "working"]
        """
        return await tasks.listed(self._in_handshake("tasks/list", "get_task(id)"))

    def _check_tasks(self) -> None:
        if "tasks" not in self.server_capabilities:
            raise NotSupported(f"this server has no tasks in {self.protocol_version}; use call_tool")

    async def _must_be_task(self, name: str) -> bool:
        """Whether a handshake server refuses to call a tool that is not a task."""
        if self._requests.connection.dialect.modern or "tasks" not in self.server_capabilities:
            return False
        return (await self._requests.tools.get(name)).task_required

    # ---------------------------------------------------------------- skills

    async def list_skills(self) -> list[Skill]:
        """The skills of a server that has the extension `io.modelcontextprotocol/skills`; no file is read.

        >>> async def names(c: Client) -> list[str]:
        ...     return [skill.name for skill in await c.list_skills()]
        """
        return await self._requests.pages("skills/list", "skills", SkillList)

    async def read_skill(self, skill: Skill, uri: str | None = None) -> bytes:
        """The SKILL.md of a skill, or another of its files. What is not what `list_skills` said is an InvalidReply.

        >>> async def load(c: Client) -> str:
        ...     skill = (await c.list_skills())[0]
        ...     return (await c.read_skill(skill)).decode()
        """
        return await skills.read_file(self._requests, skill, uri or skill.uri)

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
        arguments: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> t.GetPromptResult:
        """A prompt's messages. An argument that is not a string is sent as JSON.

        >>> async def review(c: Client) -> list[Any]:
        ...     return (await c.get_prompt("review", {"code": "x = 1"})).messages
        """
        strings = {k: v if isinstance(v, str) else encode(v).decode() for k, v in (arguments or {}).items()}
        params = {"name": name, "arguments": strings}
        return results.prompt_result(await self._result("prompts/get", params, meta, timeout, on_progress))

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
        meta: Mapping[str, object] | None = None,
    ) -> t.ReadResourceResult:
        """A resource's contents.

        >>> async def note(c: Client) -> str:
        ...     return (await c.read_resource("notes://a")).contents[0].text
        """
        return results.resource_result(await self._result("resources/read", {"uri": uri}, meta, timeout, on_progress))

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
        params: JsonObject = {"ref": ref, "argument": {"name": argument_name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        raw = await self._requests.result("completion/complete", params)
        return decoded("completion/complete", t.CompleteResult, raw).completion

    # ---------------------------------------------------------------- changes

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Events]:
        """Listen for changes of the three lists, and of the resources at `uris`.

        >>> async def watch(c: Client) -> None:
        ...     async with c.listen(tools=True, uris=["notes://a"]) as events:
        ...         async for event in events:
        ...             print(event.kind, event.uri)
        """
        if isinstance(uris, str):
            raise TypeError("uris is a list of URIs, not one string")
        flags = {"tools": tools, "prompts": prompts, "resources": resources}
        kinds = {kind for kind, wanted in flags.items() if wanted}
        if self._requests.connection.dialect.modern:
            return listen.modern_events(self._requests.connection, kinds, uris)
        return listen.handshake_events(self._requests, kinds, uris)

    async def subscribe(self, uri: str) -> None:
        """Have the server report changes of a resource to `on_notification` (handshake era)."""
        await listen.watch(self._in_handshake("resources/subscribe", "listen(uris=[…])"), uri, self)

    async def unsubscribe(self, uri: str) -> None:
        """The end of `subscribe` (handshake era)."""
        await listen.unwatch(self._in_handshake("resources/unsubscribe", "listen(uris=[…])"), uri, self)

    # ---------------------------------------------------------------- the rest

    def clear_cache(self) -> None:
        """Forget the results that the server allowed to keep, and what is known of its tools."""
        self._requests.tools.forget()
        if self._requests.cache is not None:
            self._requests.cache.drop()

    async def ping(self) -> None:
        """Ask whether the server is there (handshake era)."""
        await self._in_handshake("ping", "any request").request("ping")

    async def set_log_level(self, level: str) -> None:
        """How much the server logs to `on_log` from now on (handshake era)."""
        requests = self._in_handshake("logging/setLevel", "Client(…, log_level=…)")
        await requests.request("logging/setLevel", {"level": level})

    async def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[str, Any]:
        """Any request, its result as it came: for what this class has no method for.

        >>> async def raw(c: Client) -> dict[str, Any]:
        ...     return await c.request("tools/list", {})
        """
        return decoded(method, dict[str, Any], await self._requests.request(method, params, timeout=timeout))

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Any notification.

        >>> async def changed(c: Client) -> None:
        ...     await c.notify("notifications/roots/list_changed")
        """
        await self._requests.connection.notify(method, params)

    async def _result(
        self,
        method: str,
        params: JsonObject,
        meta: Mapping[str, object] | None,
        timeout: float | None,  # noqa: ASYNC109
        on_progress: OnProgress | None,
    ) -> Raw:
        if meta is not None:
            params["_meta"] = dict(meta)
        on_progress = on_progress or self._options["on_progress"]
        return await self._requests.result(method, params, timeout=timeout, on_progress=on_progress)

    def _in_handshake(self, method: str, instead: str) -> Requests:
        """The requests of a handshake server; a modern one does not have `method`."""
        if self._requests.connection.dialect.modern:
            raise NotSupported(f"{method} does not exist in {self.protocol_version}; use {instead} instead")
        return self._requests


def _asks_for_task(error: RequestError) -> bool:
    """Whether a modern server has refused a call because it must be a task."""
    required = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return error.code == MISSING_CLIENT_CAPABILITY and isinstance(extensions, dict) and TASKS_EXTENSION in extensions
