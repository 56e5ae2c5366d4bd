"""The behavioural suite: what the spec asks of every server, tried on any server.

Each check is a function with a row in CHECKS: what must hold, where the spec says so, for which servers. It returns if
all is well, and raises `Violation` (the spec says MUST), `Weakness` (SHOULD, or what clients stumble over) or
`NotTried`. No tool is called that could have an effect: only those that declare `readOnlyHint`, and names that do not
exist. Spec: modelcontextprotocol.io/specification, by revision.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from redstart.client.client import Client
from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from redstart.client.errors import ClientError, ConnectionClosed, HttpError, NotSupported, RequestError
from redstart.server.server import Server
from redstart.testing.probes import HttpProbe, PipeProbe
from redstart.wire import jsonrpc, meta
from redstart.wire.jsonrpc import JsonObject

REVISIONS: Final = (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)
NOWHERE: Final = "redstart-test-no-such-thing"
MOST: Final = 20
"""How many tools or resources are tried, of a server that has more."""
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Violation(Exception):
    """The server does what the spec forbids, or does not do what it demands."""


class Weakness(Exception):
    """The server does what the spec advises against, or what some clients stumble over."""


class NotTried(Exception):
    """The check does not fit this server; the text says why."""


class Observation(NamedTuple):
    """The outcome of one check in one revision: ok, warn, fail or skip."""

    revision: str
    check: str
    state: str
    found: str = ""
    spec: str = ""


MakeProbe: TypeAlias = Callable[[], PipeProbe | HttpProbe]


class Subject:
    """A server under test, with a client that speaks one revision."""

    def __init__(self, client: Client, revision: str, make_probe: MakeProbe, over: str) -> None:
        self.client = client
        self.revision = revision
        self.make_probe = make_probe
        self.over = over
        self._pipe: PipeProbe | None = None

    async def pipe(self) -> PipeProbe:
        """A pipe that several checks use, one after the other: to start a server takes time."""
        if self._pipe is None or self._pipe.gone:
            await self.close()
            probe = self.make_probe()
            assert isinstance(probe, PipeProbe)
            self._pipe = await probe.__aenter__()
            await self.open(probe)
        return self._pipe

    async def close(self) -> None:
        if self._pipe is not None:
            await self._pipe.__aexit__()
            self._pipe = None

    @property
    def modern(self) -> bool:
        return self.revision in MODERN_VERSIONS

    @property
    def offers(self) -> JsonObject:
        return self.client.server_capabilities

    def message(self, id: object, method: str, params: JsonObject | None = None) -> JsonObject:
        """A request as this revision has it, with any id; None for a notification."""
        given: JsonObject = dict(params or {})
        if self.modern:
            own = {meta.PROTOCOL_VERSION: self.revision, meta.CLIENT_CAPABILITIES: {}}
            given["_meta"] = {
                **own,
                meta.CLIENT_INFO: {"name": "redstart test", "version": "1"},
                **given.get("_meta", {}),
            }
        return {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "method": method, "params": given}

    def headers(self, method: str) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": self.revision}
        return {**headers, "Mcp-Method": method} if self.modern else headers

    async def open(self, probe: PipeProbe | HttpProbe) -> dict[str, str]:
        """The handshake, where the revision has one. The result are headers for what follows."""
        if self.modern:
            return {}
        params = {
            "protocolVersion": self.revision,
            "capabilities": {},
            "clientInfo": {"name": "redstart test", "version": "1"},
        }
        heard = await probe.ask(self.message("open", "initialize", params))
        if "result" not in heard.first:
            raise Violation(f"initialize was answered with {heard.first or heard.status}")
        session = next((v for k, v in heard.headers.items() if k.lower() == "mcp-session-id"), None)
        headers = {"Mcp-Session-Id": session} if session else {}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        if isinstance(probe, HttpProbe):
            await probe.ask(note, {**self.headers(""), **headers})
        else:
            await probe.write(note)
        return headers


Attempt: TypeAlias = Callable[[Subject], Awaitable[None]]


class Check(NamedTuple):
    """One row: what must hold, the page of the spec, and the servers that it is for."""

    text: str
    spec: str
    attempt: Attempt
    needs: str = ""
    """The capability that a server must declare."""
    era: str = ""
    """"modern" or "handshake", if it is for one of them."""
    over: str = ""
    """"pipe" or "http", if it is for one of them."""


# ---------------------------------------------------------------- the runner


async def findings(
    connect: Callable[[str], Client],
    make_probe: MakeProbe,
    revisions: Iterable[str] = REVISIONS,
) -> AsyncIterator[Observation]:
    """Try every check in every revision that the server speaks. `connect` makes a client of a revision."""
    for revision in revisions:
        client = connect(revision)
        try:
            await client.__aenter__()
        except (NotSupported, RequestError, HttpError) as error:
            yield Observation(revision, "the revision is spoken", "skip", str(error), "basic/versioning")
            continue
        subject = Subject(client, revision, make_probe, "http" if isinstance(make_probe(), HttpProbe) else "pipe")
        try:
            for check in CHECKS:
                if (finding := await _tried(check, subject)) is not None:
                    yield finding
        finally:
            await subject.close()
            await client.__aexit__(None, None, None)


def _no_probe() -> PipeProbe:
    raise NotTried("the server is in this process: there is no pipe and no URL")


async def problems(server: Server) -> list[str]:
    """What clients of each revision would find wrong in the lists of `server`. Nothing that it offers is called."""
    found: list[str] = []
    for revision in REVISIONS:
        try:
            async with Client(server, protocol=revision) as client:
                subject = Subject(client, revision, _no_probe, "memory")
                tried = [await _tried(check, subject) for check in OFFERED]
                found += [f"{revision}: {one.found}" for one in tried if one is not None and one.state == "fail"]
        except ClientError as error:
            found.append(f"{revision}: {error}")
    return list(dict.fromkeys(found))


async def _tried(check: Check, subject: Subject) -> Observation | None:
    """The outcome of a check; None if it is not for such a server."""
    if check.over not in ("", subject.over) or check.era not in ("", "modern" if subject.modern else "handshake"):
        return None
    if check.needs and check.needs not in subject.offers:
        return None
    state, found = "ok", ""
    try:
        await check.attempt(subject)
    except Violation as error:
        state, found = "fail", str(error)
    except Weakness as error:
        state, found = "warn", str(error)
    except NotTried as error:
        state, found = "skip", str(error)
    except ConnectionClosed as error:
        state, found = "fail", f"the server ended: {error}"
    except (ClientError, TimeoutError, EOFError, OSError) as error:
        state, found = "fail", str(error) or f"no answer ({type(error).__name__})"
    return Observation(subject.revision, check.text, state, found, check.spec)


# ---------------------------------------------------------------- the beginning


async def _introduces_itself(subject: Subject) -> None:
    info = subject.client.server_info
    if not info.name:
        raise Weakness("the server does not say its name")
    if not info.version:
        raise Weakness("the server does not say its version")


async def _discovers(subject: Subject) -> None:
    result = await subject.client.request("server/discover", {})
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or subject.revision not in versions:
        raise Violation(f"supportedVersions is {versions!r}, without {subject.revision}")


async def _unknown_version(subject: Subject) -> None:
    async with subject.make_probe() as probe:
        if subject.modern:
            request = subject.message(1, "server/discover", {"_meta": {meta.PROTOCOL_VERSION: "1900-01-01"}})
            headers = {"MCP-Protocol-Version": "1900-01-01", "Mcp-Method": "server/discover"}
            heard = await probe.ask(request, headers)
            if heard.code != jsonrpc.UNSUPPORTED_PROTOCOL_VERSION:
                raise Violation(f"expected the error {jsonrpc.UNSUPPORTED_PROTOCOL_VERSION}, got {_shown(heard)}")
            return
        params = {"protocolVersion": "1900-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        heard = await probe.ask(subject.message(1, "initialize", params))
    result = heard.first.get("result")
    if not isinstance(result, dict) or result.get("protocolVersion") not in REVISIONS:
        raise Violation(f"a server answers with a revision that it speaks, and not with {_shown(heard)}")


async def _without_a_claim(subject: Subject) -> None:
    async with subject.make_probe() as probe:
        request = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
        heard = await probe.ask(request, subject.headers("server/discover"))
    if heard.code is None:
        raise Violation(f"a request without the version in _meta must be refused, not answered with {_shown(heard)}")


async def _pings(subject: Subject) -> None:
    result = await subject.client.request("ping")
    if result.keys() - {"_meta"}:
        raise Violation(f"ping is answered with {result!r:.200}, and not with an empty object")


# ---------------------------------------------------------------- messages


async def _unknown_method(subject: Subject) -> None:
    await _refused(subject, "redstart/no-such-method", {}, jsonrpc.METHOD_NOT_FOUND)


async def _undeclared(subject: Subject) -> None:
    """A list that is not declared must be refused; in the handshake era, whose clients ask anyway, it may be empty."""
    for kind in ("tools", "prompts", "resources"):
        if kind not in subject.offers:
            empty = "" if subject.modern else kind
            await _refused(subject, f"{kind}/list", {}, jsonrpc.METHOD_NOT_FOUND, weak=True, empty=empty)
            return
    raise NotTried("the server declares tools, prompts and resources")


async def _ids(subject: Subject) -> None:
    method = "server/discover" if subject.modern else "ping"
    if subject.over == "pipe":
        await _same_ids(subject, await subject.pipe(), method, {})
        return
    async with subject.make_probe() as probe:
        await _same_ids(subject, probe, method, {**await subject.open(probe), **subject.headers(method)})


async def _same_ids(subject: Subject, probe: PipeProbe | HttpProbe, method: str, headers: Mapping[str, str]) -> None:
    for id in ("text-é", 0, -7, 2**40):
        heard = await probe.ask(subject.message(id, method), headers)
        if heard.first.get("id") != id or type(heard.first.get("id")) is not type(id):
            raise Violation(f"the request with the id {id!r} is answered with {heard.first.get('id')!r}")


async def _notification(subject: Subject) -> None:
    probe = await subject.pipe()
    for method, params in (("notifications/redstart-test", {}), ("notifications/cancelled", {"requestId": 4711})):
        await probe.write(subject.message(None, method, params))
    await probe.write(subject.message(9, "server/discover" if subject.modern else "ping"))
    while (found := await probe.receive()).get("id") != 9:
        if "method" not in found:
            raise Violation(f"a notification was answered: {found!r:.200}")


async def _at_once(subject: Subject) -> None:
    method = "server/discover" if subject.modern else "ping"
    answers = await asyncio.gather(*(subject.client.request(method, {}) for _ in range(20)))
    if len(answers) != 20:
        raise Violation("20 requests at once did not have 20 answers")


async def _garbage(subject: Subject) -> None:
    probe = await subject.pipe()
    try:
        for line in (b"this is not JSON", b'{"jsonrpc": "2.0", "id": 1', b"[]", b'"text"'):
            await probe.send(line)
        await probe.ask(subject.message(10, "server/discover" if subject.modern else "ping"))
    except (EOFError, OSError):
        raise Violation("the server ended after a line that is not JSON") from None
    except TimeoutError:
        raise Violation("the server does not answer any more after a line that is not JSON") from None


async def _only_messages(subject: Subject) -> None:
    probe = await subject.pipe()
    await probe.ask(subject.message(11, "server/discover" if subject.modern else "ping"))
    if probe.noise:
        raise Violation(f"stdout holds what is not a message: {probe.noise[0]!r:.200}")


async def _ends(subject: Subject) -> None:
    probe = await subject.pipe()
    if not await probe.ended():
        raise Weakness("the server goes on for more than five seconds after its input has ended")


# ---------------------------------------------------------------- HTTP


async def _not_json(subject: Subject) -> None:
    heard = await _http(subject, b"this is not JSON")
    if not 400 <= heard[0] < 500:
        raise Violation(f"a body that is not JSON must be a 400, not {heard[0]}")
    if heard[1] not in (jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST, None):
        raise Weakness(f"a body that is not JSON should be the error {jsonrpc.PARSE_ERROR}, not {heard[1]}")


async def _http(subject: Subject, body: bytes, **headers: str) -> tuple[int, int | None]:
    probe = subject.make_probe()
    assert isinstance(probe, HttpProbe)
    async with probe:
        heard = await probe.post(body, {**subject.headers("server/discover"), **headers})
    return heard.status, heard.code


async def _origin(subject: Subject) -> None:
    import json

    method = "server/discover" if subject.modern else "initialize"
    params: JsonObject = {} if subject.modern else {
        "protocolVersion": subject.revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    body = json.dumps(subject.message(1, method, params)).encode()
    status, _ = await _http(subject, body, Origin="https://evil.example")
    if status != 403:
        raise Violation(f"a request from a page of https://evil.example must be a 403, not {status}: DNS rebinding")


async def _get(subject: Subject) -> None:
    probe = subject.make_probe()
    assert isinstance(probe, HttpProbe)
    async with probe:
        session = await subject.open(probe)
        heard = await probe.exchange("GET", None, {**subject.headers(""), **session, "Accept": "text/event-stream"})
    kind = heard.headers.get("content-type", "")
    if heard.status == 200 and kind.startswith("text/event-stream") and not subject.modern:
        return
    if heard.status != 405:
        allowed = "a 405" if subject.modern else "a stream, or a 405"
        raise Violation(f"GET must be {allowed}, not {heard.status} with {kind or 'nothing'}")


async def _accepted(subject: Subject) -> None:
    probe = subject.make_probe()
    assert isinstance(probe, HttpProbe)
    async with probe:
        session = await subject.open(probe)
        note = subject.message(None, "notifications/cancelled", {"requestId": 4711})
        heard = await probe.ask(note, {**subject.headers("notifications/cancelled"), **session})
    if heard.status != 202:
        raise Violation(f"a notification must be a 202, not {heard.status}")


async def _bad_header(subject: Subject) -> None:
    probe = subject.make_probe()
    assert isinstance(probe, HttpProbe)
    async with probe:
        session = await subject.open(probe)
        heard = await probe.ask(subject.message(1, "ping"), {**session, "MCP-Protocol-Version": "1900-01-01"})
    if heard.status != 400:
        raise Violation(f"a version that the server does not speak must be a 400, not {heard.status}")


async def _no_session(subject: Subject) -> None:
    probe = subject.make_probe()
    assert isinstance(probe, HttpProbe)
    async with probe:
        if not await subject.open(probe):
            raise NotTried("the server has no sessions")
        heard = await probe.ask(subject.message(1, "ping"), {**subject.headers(""), "Mcp-Session-Id": NOWHERE})
    if heard.status != 404:
        raise Violation(f"a session that does not exist must be a 404, not {heard.status}")


# ---------------------------------------------------------------- lists


LISTS: Final = {
    "tools": ("tools/list", "tools", "name"),
    "prompts": ("prompts/list", "prompts", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
}


async def _entries(subject: Subject, kind: str) -> list[JsonObject]:
    """All entries of a list as they came."""
    method, field, key = LISTS[kind]
    found: list[JsonObject] = []
    params: JsonObject = {}
    for _ in range(1000):
        page = await subject.client.request(method, params)
        listed = page.get(field)
        if not isinstance(listed, list):
            raise Violation(f"the result of {method} has no list {field}")
        for entry in listed:
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str) or not entry[key]:
                raise Violation(f"an entry of {method} has no {key}: {entry!r:.200}")
        found += listed
        if page.get("nextCursor") is None:
            return found
        params = {"cursor": page["nextCursor"]}
    raise Violation(f"{method} has no end: 1000 pages")


def _list_check(kind: str) -> Attempt:
    async def attempt(subject: Subject) -> None:
        key = LISTS[kind][2]
        first, again = await _entries(subject, kind), await _entries(subject, kind)
        names = [entry[key] for entry in first]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise Violation(f"{twice[0]!r:.100} is listed more than once")
        if names != [entry[key] for entry in again]:
            raise Weakness("the order is another one each time")

    return attempt


def _cursor_check(kind: str) -> Attempt:
    async def attempt(subject: Subject) -> None:
        await _refused(subject, LISTS[kind][0], {"cursor": NOWHERE}, jsonrpc.INVALID_PARAMS, weak=True)

    return attempt


def _hints_check(kind: str) -> Attempt:
    async def attempt(subject: Subject) -> None:
        result = await subject.client.request(LISTS[kind][0], {})
        if result.get("resultType") != "complete":
            raise Violation(f"resultType is {result.get('resultType')!r}, and not 'complete'")
        ttl = result.get("ttlMs")
        if not isinstance(ttl, int) or ttl < 0 or result.get("cacheScope") not in ("public", "private"):
            raise Violation(f"ttlMs is {ttl!r} and cacheScope is {result.get('cacheScope')!r}")

    return attempt


async def _tool_shapes(subject: Subject) -> None:
    for tool in await _entries(subject, "tools"):
        schema, output = tool.get("inputSchema"), tool.get("outputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Violation(f"the inputSchema of {tool['name']} is not of type object")
        properties = schema.get("properties", {})
        if not isinstance(properties, dict) or not all(isinstance(one, dict | bool) for one in properties.values()):
            raise Violation(f"the properties of {tool['name']} are not schemas")
        if lost := [name for name in schema.get("required") or () if name not in properties]:
            raise Violation(f"{tool['name']} requires {lost[0]!r}, which is not among its properties")
        if output is not None and (
            not isinstance(output, dict) or (output.get("type") != "object" and not subject.modern)
        ):
            raise Violation(f"the outputSchema of {tool['name']} is not of type object")


async def _tool_names(subject: Subject) -> None:
    for tool in await _entries(subject, "tools"):
        if not NAME.fullmatch(tool["name"]):
            raise Weakness(f"{tool['name']!r:.150} has other characters than letters, digits, '_', '-' and '.'")
        if not str(tool.get("description") or "").strip():
            raise Weakness(f"{tool['name']} has no description, so that a model must guess what it does")


async def _addresses(subject: Subject) -> None:
    for resource in await _entries(subject, "resources"):
        if not SCHEME.match(resource["uri"]):
            raise Violation(f"{resource['uri']!r:.150} is not a URI")
        if not resource.get("name"):
            raise Violation(f"{resource['uri']} has no name")


# ---------------------------------------------------------------- use


async def _unknown_tool(subject: Subject) -> None:
    try:
        result = await subject.client.request("tools/call", {"name": NOWHERE, "arguments": {}})
    except RequestError as error:
        if error.code not in (jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND):
            raise Weakness(f"expected the error {jsonrpc.INVALID_PARAMS}, got {error.code}") from None
        return
    if not result.get("isError"):
        raise Violation("a call of a tool that does not exist succeeds")
    raise Weakness(f"a tool that does not exist should be the error {jsonrpc.INVALID_PARAMS}, and not a result")


async def _harmless(subject: Subject) -> list[JsonObject]:
    """The tools that say that they change nothing."""
    tools = await _entries(subject, "tools")
    found = [tool for tool in tools if (tool.get("annotations") or {}).get("readOnlyHint") is True]
    if not found:
        raise NotTried("no tool declares readOnlyHint, so none is called")
    return found[:MOST]


async def _bad_arguments(subject: Subject) -> None:
    tools = [tool for tool in await _harmless(subject) if tool["inputSchema"].get("required")]
    if not tools:
        raise NotTried("no tool that declares readOnlyHint requires an argument")
    for tool in tools:
        try:
            result = await subject.client.request("tools/call", {"name": tool["name"], "arguments": {}})
        except RequestError as error:
            if error.code != jsonrpc.INVALID_PARAMS:
                raise Weakness(f"{tool['name']} without its arguments: error {error.code}") from None
            continue
        if not result.get("isError") and result.get("resultType") != "input_required":
            raise Violation(f"{tool['name']} succeeds without the arguments that it requires")


async def _results(subject: Subject) -> None:
    tools = [tool for tool in await _harmless(subject) if not tool["inputSchema"].get("required")]
    if not tools:
        raise NotTried("every tool that declares readOnlyHint requires arguments")
    for tool in tools:
        result = await subject.client.request("tools/call", {"name": tool["name"], "arguments": {}})
        if result.get("resultType") == "input_required" or result.get("isError"):
            continue
        if not isinstance(result.get("content"), list):
            raise Violation(f"the result of {tool['name']} has no content")
        if isinstance(tool.get("outputSchema"), dict):
            if "structuredContent" not in result:
                raise Violation(f"{tool['name']} has an outputSchema, but its result has no structuredContent")
            _conforms(tool, result["structuredContent"])


def _conforms(tool: JsonObject, value: object) -> None:
    from redstart.schema.errors import ShapeError
    from redstart.schema.json_schema import SchemaError, compile_schema

    try:
        validator = compile_schema(tool["outputSchema"], where=str(tool["name"]))
    except (SchemaError, ImportError, TypeError, ValueError):
        return  # it has keywords that our validator does not know
    try:
        validator.check(value)
    except ShapeError as error:
        raise Violation(f"the structuredContent of {tool['name']} does not fit its outputSchema: {error}") from None


async def _unknown_prompt(subject: Subject) -> None:
    await _refused(subject, "prompts/get", {"name": NOWHERE}, jsonrpc.INVALID_PARAMS, weak=True)


async def _unknown_resource(subject: Subject) -> None:
    code = jsonrpc.INVALID_PARAMS if subject.modern else jsonrpc.RESOURCE_NOT_FOUND
    await _refused(subject, "resources/read", {"uri": f"{NOWHERE}:x"}, code, jsonrpc.INVALID_PARAMS, weak=True)


async def _readable(subject: Subject) -> None:
    resources = await _entries(subject, "resources")
    if not resources:
        raise NotTried("the server lists no resources")
    for resource in resources[:MOST]:
        result = await subject.client.request("resources/read", {"uri": resource["uri"]})
        contents = result.get("contents")
        if not isinstance(contents, list) or (not contents and subject.modern):
            raise Violation(f"{resource['uri']} has no contents")
        for one in contents:
            if not isinstance(one, dict) or not isinstance(one.get("uri"), str):
                raise Violation(f"the contents of {resource['uri']} have no uri")
            if isinstance(one.get("text"), str) == isinstance(one.get("blob"), str):
                raise Violation(f"the contents of {resource['uri']} must have either text or blob")


async def _completes(subject: Subject) -> None:
    prompts = await _entries(subject, "prompts") if "prompts" in subject.offers else []
    for prompt in prompts:
        for argument in prompt.get("arguments") or ():
            ref = {"type": "ref/prompt", "name": prompt["name"]}
            params = {"ref": ref, "argument": {"name": argument["name"], "value": ""}}
            result = await subject.client.request("completion/complete", params)
            values = (result.get("completion") or {}).get("values")
            if not isinstance(values, list) or len(values) > 100:
                raise Violation(f"completion.values is {values!r:.100}, and not a list of at most 100")
            return
    raise NotTried("no prompt has an argument")


async def _log_level(subject: Subject) -> None:
    await subject.client.request("logging/setLevel", {"level": "warning"})
    await _refused(subject, "logging/setLevel", {"level": "loud"}, jsonrpc.INVALID_PARAMS, weak=True)


async def _refused(
    subject: Subject, method: str, params: Mapping[str, Any], *codes: int, weak: bool = False, empty: str = ""
) -> None:
    """A request that must be an error, unless its list `empty` is empty. With `weak`, its code may be another one."""
    try:
        result = await subject.client.request(method, params)
    except RequestError as error:
        if error.code not in codes:
            wrong = f"expected the error {' or '.join(map(str, codes))}, got {error.code}: {error.message:.150}"
            raise (Weakness if weak else Violation)(wrong) from None
        return
    if result.get(empty) == []:
        return
    raise (Weakness if weak and "cursor" in params else Violation)(f"{method} succeeds: {result!r:.150}")


def _shown(heard: object) -> str:
    first = getattr(heard, "first", None)
    return f"{first!r:.200}" if first else f"HTTP {getattr(heard, 'status', 0)}"


TRANSPORTS: Final = "basic/transports"
PAGES: Final = "server/utilities/pagination"
CACHING: Final = "server/utilities/caching"
OFFERED: Final = (
    *(
        row
        for kind in LISTS
        for needs in ("resources" if kind == "templates" else kind,)
        for row in (
            Check(f"{kind} are listed once each, in a steady order", PAGES, _list_check(kind), needs),
            Check(f"the list of {kind} says how long it may be kept", CACHING, _hints_check(kind), needs, era="modern"),
            Check(f"a cursor of {kind} that does not exist is refused", PAGES, _cursor_check(kind), needs),
        )
    ),
    Check("the schemas of tools are objects", "server/tools", _tool_shapes, "tools"),
    Check("a tool that does not exist is refused", "server/tools", _unknown_tool, "tools"),
    Check("a prompt that does not exist is refused", "server/prompts", _unknown_prompt, "prompts"),
    Check("resources have addresses and names", "server/resources", _addresses, "resources"),
    Check("a resource that does not exist is refused", "server/resources", _unknown_resource, "resources"),
)  # fmt: skip
"""The lists, and that other names are refused. These checks call no function of the application."""
CHECKS: Final = (
    Check("the server says its name and version", "basic/lifecycle", _introduces_itself),
    Check("server/discover lists the revision", "server/discover", _discovers, era="modern"),
    Check("a revision that does not exist is refused, and another one offered", "basic/versioning", _unknown_version),
    Check("a request that does not name its revision is refused", "basic/versioning", _without_a_claim, era="modern"),
    Check("ping is answered with an empty object", "basic/utilities/ping", _pings, era="handshake"),
    Check("a method that does not exist is -32601", "basic", _unknown_method),
    Check("what is not declared is not there", "basic/lifecycle", _undeclared),
    Check("ids come back as they were: texts, zero, large numbers", "basic", _ids),
    Check("twenty requests at once have twenty answers", "basic", _at_once),
    Check("notifications are not answered", "basic", _notification, over="pipe"),
    Check("lines that are not JSON do not end the server", TRANSPORTS, _garbage, over="pipe"),
    Check("stdout holds nothing but messages", TRANSPORTS, _only_messages, over="pipe"),
    Check("the server ends when its input ends", "basic/lifecycle", _ends, over="pipe"),
    Check("a body that is not JSON is refused", TRANSPORTS, _not_json, over="http"),
    Check("requests from pages of other sites are refused", TRANSPORTS, _origin, over="http"),
    Check("GET is a stream, or not allowed", TRANSPORTS, _get, over="http"),
    Check("notifications are accepted with 202", TRANSPORTS, _accepted, era="handshake", over="http"),
    Check("a header with an unknown revision is a 400", TRANSPORTS, _bad_header, era="handshake", over="http"),
    Check("a session that does not exist is a 404", TRANSPORTS, _no_session, era="handshake", over="http"),
    *OFFERED,
    Check("tools have names and descriptions that clients can use", "server/tools", _tool_names, "tools"),
    Check("read-only tools refuse missing arguments", "server/tools", _bad_arguments, "tools"),
    Check("results of read-only tools fit their schemas", "server/tools", _results, "tools"),
    Check("listed resources can be read", "server/resources", _readable, "resources"),
    Check("completion offers at most 100 values", "server/utilities/completion", _completes, "completions"),
    Check("log levels are checked", "server/utilities/logging", _log_level, "logging", era="handshake"),
)  # fmt: skip
