"""Field gating against the facts of the spec: what a revision does not know is never sent to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from redstart.protocol.handshake import CAPABILITY_SINCE, CONTENT_SINCE, DIALECTS, SINCE, negotiate
from redstart.protocol.methods import HANDSHAKE as HANDSHAKE_ERA
from redstart.protocol.methods import METHODS
from redstart.protocol.methods import MODERN as MODERN_ERA
from redstart.protocol.modern import Modern
from redstart.wire import types as t
from redstart.wire.jsonrpc import decode
from redstart.wire.meta import Implementation
from spec_facts import facts, problems
from support import HANDSHAKES, MODERN, REVISIONS

# What a shape of ours is called in the schemas; where a revision has no such shape, it is not there.
NAMES: dict[type, str] = {
    t.ListedTool: "Tool",
    t.ListedPrompt: "Prompt",
    t.PromptArgument: "PromptArgument",
    t.ListedResource: "Resource",
    t.ListedTemplate: "ResourceTemplate",
    t.Annotations: "Annotations",
    t.Text: "TextContent",
    t.Image: "ImageContent",
    t.Audio: "AudioContent",
    t.EmbeddedResource: "EmbeddedResource",
    t.ResourceLink: "ResourceLink",
    t.ResourceContents: "TextResourceContents",
    Implementation: "Implementation",
    t.Icon: "Icon",
}


def fields(shape: type) -> dict[str, str]:
    """Python name -> wire name."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(shape)}


@pytest.mark.requirement("3")
@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("shape", NAMES, ids=lambda shape: shape.__name__)
def test_since_agrees_with_the_schema(shape: type, revision: str) -> None:
    age = HANDSHAKES.index(revision)
    shapes = facts(revision).shapes
    if NAMES[shape] not in shapes:
        assert shape is t.Icon or age < CONTENT_SINCE[shape]
        return
    known = {"type", *shapes[NAMES[shape]].kinds}
    if shape is t.ResourceContents:
        known |= set(shapes["BlobResourceContents"].kinds)
    since = SINCE.get(shape, {})
    for name, wire in fields(shape).items():
        assert (wire in known) is (since.get(name, 0) <= age), f"{shape.__name__}.{name} at {revision}"


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_content_since_agrees_with_the_schema(revision: str) -> None:
    age = HANDSHAKES.index(revision)
    for shape in (t.Text, t.Image, t.Audio, t.EmbeddedResource, t.ResourceLink):
        assert (NAMES[shape] in facts(revision).shapes) is (CONTENT_SINCE.get(shape, 0) <= age)


@pytest.mark.parametrize("revision", REVISIONS)
def test_capabilities_agree_with_the_schema(revision: str) -> None:
    known = set(facts(revision).shapes["ServerCapabilities"].kinds)
    offered: dict[str, Any] = {
        name: {} for name in ("tools", "prompts", "resources", "logging", "completions", "tasks", "extensions")
    }
    dialect = Modern(Implementation("s", "1")) if revision == MODERN else DIALECTS[revision]
    assert set(dialect.capabilities(offered)) <= known
    assert set(offered) & known - set(dialect.capabilities(offered)) <= {"extensions"}
    assert set(CAPABILITY_SINCE) == {"completions", "tasks"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_methods_agree_with_the_schema(revision: str) -> None:
    era = MODERN_ERA if revision == MODERN else HANDSHAKE_ERA
    ours = {row.name for row in METHODS.values() if row.eras & era and not row.notification}
    if revision in HANDSHAKES[:-1]:  # their dialect refuses tasks
        ours = {name for name in ours if not name.startswith("tasks/")}
    assert ours == set(facts(revision).results)


# structured, batches, progress_messages, null_ids; then what the latest of the handshakes has, and the modern era
DIALECT_FACTS: dict[str, tuple[Any, ...]] = {
    "2024-11-05": ("none", False, False, True, False, False),
    "2025-03-26": ("none", True, True, True, False, False),
    "2025-06-18": ("objects", False, True, True, False, False),
    "2025-11-25": ("objects", False, True, False, True, True),
}


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_what_a_revision_can_do(revision: str) -> None:
    one = DIALECTS[revision]
    latest = (one.primes, one.url_required, one.titled_choices, one.sampling_parts)
    assert len(set(latest)) == 1
    found = (one.structured, one.batches, one.progress_messages, one.null_ids, one.primes, one.sampling_parts)
    assert found == DIALECT_FACTS[revision]
    assert (one.asks, one.modern, one.status(-32601)) == (True, False, 200)


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_what_a_client_declares_counts_where_its_revision_has_it(revision: str) -> None:
    declared: dict[str, Any] = {"elicitation": {"url": {}, "form": {}}, "sampling": {"tools": {}}, "roots": {}}
    found = negotiate(t.InitializeParams(protocol_version=revision, capabilities=declared)).client_capabilities
    age = HANDSHAKES.index(revision)
    paths = ("elicitation", "elicitation.url", "sampling", "sampling.tools", "roots")
    assert [found.has(path) for path in paths] == [age >= 2, age >= 2, True, age >= 3, True]
    nothing = negotiate(
        t.InitializeParams(protocol_version=revision, capabilities={"sampling": "yes"})
    ).client_capabilities
    assert not any(nothing.has(path) for path in paths)


# ---------------------------------------------------------------- dressed results

ICONS = [t.Icon("https://x/i.png", "image/png", ["48x48"], "dark")]
NOTES = t.Annotations(["user"], 0.5, "2026-01-01T00:00:00Z")
META = {"example.com/k": {"a": None}}
LINK = t.ResourceLink("file:///a", "a", "A", "d", "text/plain", 3, ICONS, NOTES, META)
CONTENT = [
    t.Text("hi", NOTES, META),
    t.Image(b"\x89PNG", "image/png", NOTES, META),
    t.Audio(b"RIFF", "audio/wav", NOTES, META),
    t.EmbeddedResource(t.ResourceContents("a:b", "text/plain", text="x", meta=META), NOTES, META),
    t.EmbeddedResource(t.ResourceContents("a:b", "text/plain", blob=b"x", meta=META), NOTES, META),
    LINK,
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def result(kind: str, dialect: Any) -> Any:
    entry = dialect.entry
    cached: dict[str, Any] = {"ttl_ms": 0, "cache_scope": "private"} if dialect.modern else {}
    match kind:
        case "CallToolResult":
            structured = msgspec.UNSET if dialect.structured == "none" else {"a": 1}
            return t.ToolResult(content=list(CONTENT), structured=structured, is_error=False, meta=dict(META))
        case "GetPromptResult":
            return t.GetPromptResult(description="d", messages=[t.Message("user", block) for block in CONTENT])
        case "ReadResourceResult":
            texts = [t.ResourceContents("a:b", "text/plain", text="x", meta=META)]
            return t.ReadResourceResult(contents=[*texts, t.ResourceContents("a:b", blob=b"x")], **cached)
        case "ListToolsResult":
            tool = t.ListedTool(
                "a",
                "A",
                "d",
                SCHEMA,
                SCHEMA,
                {"title": "A", "readOnlyHint": True},
                ICONS,
                {"taskSupport": "optional"},
                META,
            )
            return t.ListResult(tools=[entry(tool)], next_cursor="x", **cached)
        case "ListPromptsResult":
            prompt = t.ListedPrompt("a", "A", "d", [t.PromptArgument("x", "X", "d", True)], ICONS, META)
            return t.ListResult(prompts=[entry(prompt)], **cached)
        case "ListResourcesResult":
            resource = t.ListedResource("a:b", "a", "A", "d", "text/plain", 3, ICONS, NOTES, META)
            return t.ListResult(resources=[entry(resource)], **cached)
        case "ListResourceTemplatesResult":
            template = t.ListedTemplate("a:{b}", "a", "A", "d", "text/plain", ICONS, NOTES, META)
            return t.ListResult(resource_templates=[entry(template)], **cached)
        case "CompleteResult":
            return t.CompleteResult(completion=t.Completion(["a"], 1, False))
        case "InitializeResult":
            info = Implementation("s", "1", "S", "d", "https://x", ICONS)
            offers = dialect.capabilities({"tools": {"listChanged": True}, "completions": {}, "logging": {}})
            return t.InitializeResult(
                protocol_version=dialect.version, capabilities=offers, server_info=info, instructions="i"
            )
        case "DiscoverResult":
            return t.DiscoverResult(supported_versions=[MODERN], capabilities={"tools": {}}, instructions="i", **cached)
        case "InputRequiredResult":
            ask = {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": "?", "requestedSchema": SCHEMA},
            }
            return t.InputRequired(result_type="input_required", input_requests={"who": ask}, request_state="s")
        case "EmptyResult":
            return t.Result()
    raise AssertionError(kind)


BOTH = [
    "CallToolResult",
    "GetPromptResult",
    "ReadResourceResult",
    "ListToolsResult",
    "ListPromptsResult",
    "ListResourcesResult",
    "ListResourceTemplatesResult",
    "CompleteResult",
    "EmptyResult",
]
CASES = [
    *[(kind, revision) for kind in [*BOTH, "InitializeResult"] for revision in HANDSHAKES],
    *[(kind, MODERN) for kind in [*BOTH, "DiscoverResult", "InputRequiredResult"]],
]


@pytest.mark.requirement("3")
@pytest.mark.parametrize(("kind", "revision"), CASES)
def test_a_dressed_result_is_valid_and_has_nothing_unknown(kind: str, revision: str) -> None:
    dialect = Modern(Implementation("s", "1")) if revision == MODERN else DIALECTS[revision]
    value = decode(dialect.dress(result(kind, dialect)))
    assert problems(value, "Result" if kind == "EmptyResult" else kind, revision) == []
    assert ("resultType" in value) is (revision == MODERN)


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_what_a_revision_knows_is_sent(revision: str) -> None:
    dialect, age = DIALECTS[revision], HANDSHAKES.index(revision)
    listed = [
        result(kind, dialect)
        for kind in ("ListToolsResult", "ListPromptsResult", "ListResourcesResult", "ListResourceTemplatesResult")
    ]
    entries = [entry for one in listed for entry in msgspec.structs.astuple(one) if isinstance(entry, list)]
    shapes = [*(entry for (entry,) in entries), *(dialect.block(block) for block in CONTENT), dialect.block(NOTES)]
    assert len(shapes) == 11
    for shape in shapes:
        since = SINCE.get(type(shape), {})
        for field in msgspec.structs.fields(shape):
            if since.get(field.name, 0) <= age and field.name not in ("text", "blob") and type(shape) is not t.Text:
                assert getattr(shape, field.name) not in (None, msgspec.UNSET), (shape, field.name)


@pytest.mark.parametrize("revision", REVISIONS)
def test_properties_that_are_true_or_false_are_objects_before_the_modern_era(revision: str) -> None:
    dialect = Modern(Implementation("s", "1")) if revision == MODERN else DIALECTS[revision]
    given = {"type": "object", "properties": {"any": True, "none": False, "a": {"type": "integer"}}}
    plain = {"type": "object", "properties": {"any": {}, "none": {"not": {}}, "a": {"type": "integer"}}}
    for schema in (SCHEMA, {"type": "object"}, given):
        entry = dialect.entry(t.ListedTool("a", input_schema=schema))
        assert entry.input_schema == (plain if schema is given and revision != MODERN else schema)


@pytest.mark.requirement("3")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_block_that_a_revision_does_not_know_is_named_in_a_text(revision: str) -> None:
    age = HANDSHAKES.index(revision)
    blocks = [t.Audio(b"RIFF", "audio/wav"), LINK]
    found = decode(DIALECTS[revision].dress(t.ToolResult(content=blocks)))["content"]
    kinds = ["audio" if age >= 1 else "text", "resource_link" if age >= 2 else "text"]
    assert [block["type"] for block in found] == kinds
    if age < 1:
        assert "audio/wav" in found[0]["text"]
    if age < 2:
        assert "file:///a" in found[1]["text"]


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_what_is_dressed_is_left_as_it_was(revision: str) -> None:
    made = result("CallToolResult", DIALECTS[revision])
    before = repr(made)
    DIALECTS[revision].dress(made)
    assert repr(made) == before
