"""The handshake dialects: four revisions that open with `initialize` and keep a session.

Knows: version negotiation, which revision knows which field. Must not know: transports, tools, time.
Spec: /specification/2025-11-25/basic/lifecycle, and the schema of each revision for the SINCE table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from redstart.protocol.dialect import NO_CAPABILITIES, Session, Structured, Tasks
from redstart.protocol.methods import Method
from redstart.wire import types as t
from redstart.wire.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, ProtocolError, encode
from redstart.wire.meta import ClientCapabilities, Implementation

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST: Final = REVISIONS[-1]
HEADER_VALUES: Final = frozenset(version.encode() for version in REVISIONS)

# The revision (by its place in REVISIONS) that first knew a field; fields that are not here were always known.
SINCE: Final[dict[type, dict[str, int]]] = {
    t.ListedTool: {"annotations": 1, "title": 2, "output_schema": 2, "meta": 2, "icons": 3, "execution": 3},
    t.ListedPrompt: {"title": 2, "meta": 2, "icons": 3},
    t.PromptArgument: {"title": 2},
    t.ListedResource: {"title": 2, "meta": 2, "icons": 3},
    t.ListedTemplate: {"title": 2, "meta": 2, "icons": 3},
    t.Annotations: {"last_modified": 2},
    t.Text: {"meta": 2},
    t.Image: {"meta": 2},
    t.Audio: {"meta": 2},
    t.EmbeddedResource: {"meta": 2},
    t.ResourceContents: {"meta": 2},
    t.ResourceLink: {"icons": 3},
    Implementation: {"title": 2, "description": 3, "website_url": 3, "icons": 3},
}
# The revision that first knew a kind of content; before it, a text block names what was left out.
CONTENT_SINCE: Final[dict[type, int]] = {t.Audio: 1, t.ResourceLink: 2}
CAPABILITY_SINCE: Final = {"completions": 1, "tasks": 3}
ELICITATION_SINCE: Final = 2
MODERN_CAPABILITIES: Final = frozenset({"extensions"})


class Handshake:
    """One handshake revision."""

    modern = False
    asks = True

    def __init__(self, version: str) -> None:
        self.version = version
        self.age = REVISIONS.index(version)
        self.structured: Structured = "objects" if self.age >= 2 else "none"
        self.batches = self.age == 1
        self.progress_messages = self.age >= 1
        self.primes = self.url_required = self.titled_choices = self.sampling_parts = self.age >= 3
        self.null_ids = self.age < 3
        """Whether an error without a readable id has `"id": null`, as JSON-RPC says; later it has no id."""
        self.tasks: Tasks = "requested" if self.age >= 3 else "none"
        self._gates_content = self.age < 3

    def dress(self, result: Any) -> bytes:
        if type(result) is Raw:
            return bytes(result)
        if self._gates_content:
            result = self._gated(result)
        return encode(result)

    def entry(self, listed: Any) -> Any:
        entry = self._without_unknown(listed)
        if type(entry) is not t.ListedTool:
            return entry
        schemas = {name: _object_properties(getattr(entry, name)) for name in ("input_schema", "output_schema")}
        return msgspec.structs.replace(entry, **schemas)

    def fault(self, error: ProtocolError) -> ProtocolError:
        return error

    def status(self, code: int) -> int:
        return 200

    def capabilities(self, offered: dict[str, Any]) -> dict[str, Any]:
        """The server's capabilities that this revision has a word for."""
        return {
            name: value
            for name, value in offered.items()
            if self.age >= CAPABILITY_SINCE.get(name, 0) and name not in MODERN_CAPABILITIES
        }

    def _gated(self, result: Any) -> Any:
        match result:
            case t.ToolResult():
                return msgspec.structs.replace(result, content=[self.block(c) for c in result.content])
            case t.GetPromptResult():
                messages = [t.Message(m.role, self.block(m.content)) for m in result.messages]
                return msgspec.structs.replace(result, messages=messages)
            case t.ReadResourceResult():
                return msgspec.structs.replace(result, contents=[self.entry(c) for c in result.contents])
            case t.InitializeResult():
                return msgspec.structs.replace(result, server_info=self.entry(result.server_info))
        return result

    def block(self, block: Any) -> Any:
        if self.age < CONTENT_SINCE.get(type(block), 0):
            return t.Text(_in_words(block))
        return self._without_unknown(block)

    def _without_unknown(self, shape: Any) -> Any:
        """The shape, and the shapes in it, without the fields that came later."""
        since = SINCE.get(type(shape))
        if since is None:
            return shape
        changes = {name: None for name, age in since.items() if age > self.age and getattr(shape, name) is not None}
        for name in _NESTED.get(type(shape), ()):
            value = getattr(shape, name)
            if isinstance(value, list):
                changes[name] = [self._without_unknown(v) for v in value]  # type: ignore[assignment]
            elif value is not None:
                changes[name] = self._without_unknown(value)
        return msgspec.structs.replace(shape, **changes) if changes else shape


_NESTED: Final[dict[type, tuple[str, ...]]] = {
    t.ListedPrompt: ("arguments",),
    t.Text: ("annotations",),
    t.Image: ("annotations",),
    t.Audio: ("annotations",),
    t.EmbeddedResource: ("annotations", "resource"),
    t.ResourceLink: ("annotations",),
    t.ListedResource: ("annotations",),
    t.ListedTemplate: ("annotations",),
}


def _object_properties(schema: Any) -> Any:
    """A schema whose properties are objects: these revisions do not have `true` and `false` there."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not any(isinstance(sub, bool) for sub in properties.values()):
        return schema
    plain = {name: ({} if sub else {"not": {}}) if isinstance(sub, bool) else sub for name, sub in properties.items()}
    return {**schema, "properties": plain}


def _in_words(block: Any) -> str:
    if isinstance(block, t.Audio):
        return f"[audio, {block.mime_type}, {len(block.data)} bytes: this client's protocol revision has no audio]"
    return f"[resource link] {block.name}: {block.uri}"


DIALECTS: Final = {version: Handshake(version) for version in REVISIONS}

ANONYMOUS: Final = Session(revision=LATEST, client_capabilities=NO_CAPABILITIES)
"""The client of a `ping` before `initialize`."""


def negotiate(params: t.InitializeParams) -> Session:
    """The session that `initialize` opens: the revision asked for, or the latest that has a handshake."""
    asked = params.protocol_version
    revision = asked if asked in DIALECTS else LATEST
    capabilities = _converted(params.capabilities, ClientCapabilities, NO_CAPABILITIES)
    dialect = DIALECTS[revision]
    if capabilities.elicitation is not UNSET and dialect.age < ELICITATION_SINCE:
        capabilities = msgspec.structs.replace(capabilities, elicitation=UNSET)
    if isinstance(capabilities.sampling, dict) and not dialect.sampling_parts:
        capabilities = msgspec.structs.replace(capabilities, sampling={})
    return Session(
        revision=revision,
        client_capabilities=capabilities,
        client_info=_converted(params.client_info, Implementation, UNSET),
        subscriptions=set(),
    )


def _converted(value: Any, to: type, otherwise: Any) -> Any:
    """The client's name and version; a client whose clientInfo is not valid is still served."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return otherwise


def check(row: Method | None, name: str, session: Session | None) -> None:
    """Refuse a request that a handshake peer may not send now."""
    if row is None:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {name}")
    if session is None and name != "ping":
        raise ProtocolError(
            INVALID_REQUEST,
            f'{name} came before a handshake. Either send "initialize" first, or send every request '
            "with its protocol version and client capabilities in params._meta.",
        )
