"""The shapes of MCP: content, list entries, results, parameters.

One Struct per shape for all revisions: a dialect leaves out what a revision does not know.
Spec: schema/2026-07-28/schema.ts, and the older ones for the fields that have gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from redstart.wire.meta import Implementation, Token

Meta = dict[str, Any] | Raw | None
Role = Literal["user", "assistant"]

# What a peer names is repeated in messages, kept in sessions and looked up, so its length has a limit. Params that
# exceed it are refused when they are decoded (-32602).
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
"""The name of a tool, of a prompt, or of an argument."""
Uri: TypeAlias = Annotated[str, msgspec.Meta(max_length=8192)]
TaskId: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
Cursor: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]

if TYPE_CHECKING:  # type checkers know the fields already
    from msgspec import StructMeta

    Explained = StructMeta
else:

    class Explained(type(Struct)):
        """The metaclass of a Struct that people make by hand: its errors name the class and its fields."""

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                if type(error) is not TypeError:  # raised by a check of the class itself
                    raise
                unknown = [name for name in fields if name not in cls.__struct_fields__]
                what = f"it has no field {unknown[0]!r}" if unknown else str(error)
                raise TypeError(f"{cls.__name__}: {what}; its fields: {', '.join(cls.__struct_fields__)}") from None


class Shape(Struct, rename="camel", omit_defaults=True):
    """A wire shape: camelCase on the wire, snake_case in Python, None where absent.

    What is None is left out, so a default that must be sent comes from a factory. A Struct does not check the types of
    its fields: what an application has made goes through `redstart.wire.check.checked`.
    """


# ---------------------------------------------------------------- content


class Annotations(Shape, metaclass=Explained):
    """Hints about who content is for and how important it is."""

    audience: list[Role] | None = None
    priority: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    last_modified: str | None = None


class Icon(Shape, metaclass=Explained):
    """A picture for a server, tool, prompt or resource: an https or data URI."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Content(Shape, tag_field="type"):
    """A block of content in a tool result or a prompt message."""


class Text(Content, tag="text"):
    """Text for the model or the user.

    >>> Text("Hello")
    Text(text='Hello', annotations=None, meta=None)
    """

    text: str
    annotations: Annotations | None = None
    meta: Meta = field(name="_meta", default=None)


class Image(Content, tag="image", metaclass=Explained):
    """An image: raw bytes, base64 on the wire.

    >>> Image(b"\\x89PNG", "image/png").mime_type
    'image/png'
    """

    data: bytes
    mime_type: str = field(default_factory=lambda: "image/png")
    annotations: Annotations | None = None
    meta: Meta = field(name="_meta", default=None)


class Audio(Content, tag="audio", metaclass=Explained):
    """Sound: raw bytes, base64 on the wire.

    >>> Audio(b"RIFF", "audio/wav").mime_type
    'audio/wav'
    """

    data: bytes
    mime_type: str = field(default_factory=lambda: "audio/wav")
    annotations: Annotations | None = None
    meta: Meta = field(name="_meta", default=None)


class ResourceContents(Shape, metaclass=Explained):
    """What a resource holds: `text` or `blob` (raw bytes, base64 on the wire)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = None
    meta: Meta = field(name="_meta", default=None)


class EmbeddedResource(Content, tag="resource", metaclass=Explained):
    """A resource's contents inside a result.

    >>> EmbeddedResource(ResourceContents("notes://a", text="hi")).resource.uri
    'notes://a'
    """

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta = field(name="_meta", default=None)


class ResourceLink(Content, tag="resource_link", metaclass=Explained):
    """A pointer to a resource that the client may read; nothing is embedded.

    >>> ResourceLink("file:///results/overlay.png", "overlay.png", mime_type="image/png").name
    'overlay.png'
    """

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta = field(name="_meta", default=None)


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
    title: str | None = None
    description: str | None = None
    input_schema: Any = None
    output_schema: Any = None
    annotations: Any = None
    icons: list[Icon] | None = None
    execution: Any = None
    meta: Meta = field(name="_meta", default=None)


class PromptArgument(Shape, metaclass=Explained):
    """One argument of a prompt, as a client sees it.

    >>> PromptArgument("language", description="of the code", required=True).name
    'language'
    """

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class ListedPrompt(Shape):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta = field(name="_meta", default=None)


class ListedResource(Shape):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Any = None
    meta: Meta = field(name="_meta", default=None)


class ListedTemplate(Shape):
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    icons: list[Icon] | None = None
    annotations: Any = None
    meta: Meta = field(name="_meta", default=None)


# ---------------------------------------------------------------- results


class Result(Shape, kw_only=True):
    """Any result. The modern dialect sets `result_type`."""

    result_type: str | None = None
    meta: Meta = field(name="_meta", default=None)


class Cacheable(Result, kw_only=True):
    """A result that a modern client may keep."""

    ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] | None = None


def _no_content() -> list[Any]:
    return []  # not `list` itself: msgspec would leave out an empty list as the default


class ToolResult(Result, kw_only=True):
    """A tool's result under full control. A str as `content` is one text.

    >>> ToolResult(content=[Text("File not found")], is_error=True).is_error
    True
    """

    content: list[Any] = field(default_factory=_no_content)
    structured: Any = field(name="structuredContent", default=UNSET)
    is_error: bool | None = None


class GetPromptResult(Result, kw_only=True):
    description: str | None = None
    messages: list[Any]


class ReadResourceResult(Cacheable, kw_only=True):
    contents: list[Any]


class ListResult(Cacheable, kw_only=True):
    """One page of one of the four lists; exactly one of the lists is set."""

    tools: list[ListedTool] | None = None
    prompts: list[ListedPrompt] | None = None
    resources: list[ListedResource] | None = None
    resource_templates: list[ListedTemplate] | None = None
    next_cursor: str | None = None


class Completion(Shape):
    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, kw_only=True):
    completion: Completion


class InitializeResult(Result, kw_only=True):
    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(Cacheable, kw_only=True):
    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | None = None


class InputRequired(Result, kw_only=True):
    """A modern result that asks: the client answers by sending the same request again."""

    input_requests: dict[str, Any] | None = None
    request_state: str | None = None


class TaskState(Result, kw_only=True):
    """A task of the handshake era: the result of `tasks/get` and `tasks/cancel`, and an entry of `tasks/list`."""

    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl: int
    poll_interval: int


class CreateTaskResult(Result, kw_only=True):
    """The answer to a handshake request that has become a task."""

    task: TaskState


class ListTasksResult(Result, kw_only=True):
    tasks: list[TaskState]
    next_cursor: str | None = None


class DetailedTask(Result, kw_only=True):
    """A task of the modern era: the answer to `tasks/get`, and to the request that has become a task."""

    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int
    poll_interval_ms: int
    input_requests: dict[str, Any] | None = None
    result: Raw | None = None
    error: Raw | None = None


# ---------------------------------------------------------------- parameters


class Params(Shape):
    """The parameters of a request that has none of its own. `UNSET` is absent here: a peer's null is something else."""

    meta: Raw | UnsetType = field(name="_meta", default=UNSET)
    """A `RequestMeta`, not read yet: `strict.read_params` remembers what it has read."""


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


class TaskParams(Params, kw_only=True):
    task_id: TaskId


class UpdateTaskParams(TaskParams, kw_only=True):
    input_responses: Any = UNSET


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
    task_ids: list[TaskId] | UnsetType = UNSET


class ListenParams(Params, kw_only=True):
    notifications: ListenFilter


class CancelledParams(Params, kw_only=True):
    request_id: Token | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ProgressParams(Shape):
    progress_token: int | str
    progress: float
    total: float | None = None
    message: str | None = None
    meta: Meta = field(name="_meta", default=None)


class LogParams(Shape):
    level: str
    data: Any
    logger: str | None = None
