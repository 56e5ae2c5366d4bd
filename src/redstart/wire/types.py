"""The shapes of MCP: content, list entries, results, parameters.

One Struct per shape for all revisions: a dialect leaves out what a revision does not know.
Spec: schema/2026-07-28/schema.ts, and the older ones for the fields that have gone.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from redstart.wire.limits import Cursor, Name, Token, Uri
from redstart.wire.meta import Implementation, RequestMeta

Meta = dict[str, Any] | Raw | UnsetType
Role = Literal["user", "assistant"]


class Shape(Struct, rename="camel"):
    """A wire shape: camelCase on the wire, snake_case in Python, `UNSET` where absent."""


# ---------------------------------------------------------------- content


class Annotations(Shape):
    """Hints about who content is for and how important it is."""

    audience: list[Role] | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class Icon(Shape):
    """A picture for a server, tool, prompt or resource: an https or data URI."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


class Content(Shape, tag_field="type"):
    """A block of content in a tool result or a prompt message."""


class Text(Content, tag="text"):
    """Text for the model or the user.

    >>> Text("Hello")
    Text(text='Hello', annotations=UNSET, meta=UNSET)
    """

    text: str
    annotations: Annotations | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class Image(Content, tag="image"):
    """An image: raw bytes, base64 on the wire.

    >>> Image(b"\\x89PNG", "image/png").mime_type
    'image/png'
    """

    data: bytes
    mime_type: str = "image/png"
    annotations: Annotations | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class Audio(Content, tag="audio"):
    """Sound: raw bytes, base64 on the wire.

    >>> Audio(b"RIFF", "audio/wav").mime_type
    'audio/wav'
    """

    data: bytes
    mime_type: str = "audio/wav"
    annotations: Annotations | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class ResourceContents(Shape):
    """What a resource holds: `text` or `blob` (raw bytes, base64 on the wire)."""

    uri: str
    mime_type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    blob: bytes | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class EmbeddedResource(Content, tag="resource"):
    """A resource's contents inside a result.

    >>> EmbeddedResource(ResourceContents("notes://a", text="hi")).resource.uri
    'notes://a'
    """

    resource: ResourceContents
    annotations: Annotations | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class ResourceLink(Content, tag="resource_link"):
    """A pointer to a resource that the client may read; nothing is embedded.

    >>> ResourceLink("file:///results/overlay.png", "overlay.png", mime_type="image/png").name
    'overlay.png'
    """

    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class Message(Shape):
    """One message of a prompt.

    >>> Message("user", Text("Review this.")).role
    'user'
    """

    role: Role
    content: Any


# ---------------------------------------------------------------- list entries


class ListedTool(Shape):
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    input_schema: Any = UNSET
    output_schema: Any = UNSET
    annotations: Any = UNSET
    icons: list[Icon] | UnsetType = UNSET
    execution: Any = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class PromptArgument(Shape):
    """One argument of a prompt, as a client sees it.

    >>> PromptArgument("language", description="of the code", required=True).name
    'language'
    """

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class ListedPrompt(Shape):
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    arguments: list[PromptArgument] | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class ListedResource(Shape):
    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    annotations: Any = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


class ListedTemplate(Shape):
    uri_template: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    annotations: Any = UNSET
    meta: Meta = field(name="_meta", default=UNSET)


# ---------------------------------------------------------------- results


class Result(Shape):
    """Any result. `result_type` is the modern dialect's to set."""

    result_type: str | UnsetType = field(default=UNSET, name="resultType")
    meta: Meta = field(name="_meta", default=UNSET)


class Cacheable(Result):
    """A result that a modern client may keep."""

    ttl_ms: int | UnsetType = UNSET
    cache_scope: Literal["public", "private"] | UnsetType = UNSET


class ToolResult(Result, kw_only=True):
    """A tool's result under full control.

    >>> ToolResult(content=[Text("File not found")], is_error=True).is_error
    True
    """

    content: list[Any] = []
    structured: Any = field(name="structuredContent", default=UNSET)
    is_error: bool | UnsetType = UNSET


class GetPromptResult(Result, kw_only=True):
    description: str | UnsetType = UNSET
    messages: list[Any]


class ReadResourceResult(Cacheable, kw_only=True):
    contents: list[Any]


class ListResult(Cacheable, kw_only=True):
    """One page of one of the four lists; exactly one of the lists is set."""

    tools: list[ListedTool] | UnsetType = UNSET
    prompts: list[ListedPrompt] | UnsetType = UNSET
    resources: list[ListedResource] | UnsetType = UNSET
    resource_templates: list[ListedTemplate] | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET


class Completion(Shape):
    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET


class CompleteResult(Result, kw_only=True):
    completion: Completion


class InitializeResult(Result, kw_only=True):
    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverResult(Cacheable, kw_only=True):
    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | UnsetType = UNSET


class InputRequired(Result, kw_only=True):
    """A modern result that asks: the client answers by sending the same request again."""

    input_requests: dict[str, Any] | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


# ---------------------------------------------------------------- parameters


class Params(Shape):
    """The parameters of a request that has none of its own."""

    meta: RequestMeta | UnsetType = field(name="_meta", default=UNSET)


class InitializeParams(Params, kw_only=True):
    protocol_version: str = ""
    capabilities: Any = UNSET
    client_info: Any = UNSET


class PageParams(Params, kw_only=True):
    cursor: Cursor | UnsetType | None = UNSET


class AskingParams(Params, kw_only=True):
    """A request that may be sent again with answers. Both fields are checked where they are used."""

    input_responses: Any = UNSET
    request_state: Any = UNSET


class CallToolParams(AskingParams, kw_only=True):
    name: Name
    arguments: Raw | UnsetType = UNSET
    task: Any = UNSET


class GetPromptParams(AskingParams, kw_only=True):
    name: Name
    arguments: dict[str, Any] | UnsetType | None = UNSET


class ReadResourceParams(AskingParams, kw_only=True):
    uri: Uri


class UriParams(Params, kw_only=True):
    uri: Uri


class SetLevelParams(Params, kw_only=True):
    level: str


class CompletionReference(Shape):
    type: str
    name: Name | UnsetType = UNSET
    uri: Uri | UnsetType = UNSET


class CompletionArgument(Shape):
    name: Name
    value: str


class CompletionContext(Shape):
    arguments: dict[str, str] | UnsetType = UNSET


class CompleteParams(Params, kw_only=True):
    ref: CompletionReference
    argument: CompletionArgument
    context: CompletionContext | UnsetType = UNSET


class ListenFilter(Shape):
    """Which changes a `subscriptions/listen` asks for, and (in the acknowledgement) gets."""

    tools_list_changed: bool | UnsetType = UNSET
    prompts_list_changed: bool | UnsetType = UNSET
    resources_list_changed: bool | UnsetType = UNSET
    resource_subscriptions: list[Uri] | UnsetType = UNSET
    task_ids: list[str] | UnsetType = UNSET


class ListenParams(Params, kw_only=True):
    notifications: ListenFilter


class CancelledParams(Params, kw_only=True):
    request_id: Token | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ProgressParams(Shape):
    progress_token: int | str
    progress: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


class LogParams(Shape):
    level: str
    data: Any
    logger: str | UnsetType = UNSET
