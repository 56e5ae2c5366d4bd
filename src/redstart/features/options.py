"""The options of tools, prompts, resources and files: each is spelled once, with the rule that its value must obey.

`Declared` is what tools, prompts and resources have in common: these options as attributes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypedDict

import msgspec

from redstart.features.rules import (
    FLAG,
    NAME,
    REQUIRED_TEXT,
    CountOption,
    FlagOption,
    Rule,
    ScopesOption,
    SecondsOption,
    TextOption,
    TextsOption,
    age,
    anything,
    at_least,
    did_you_mean,
    flag,
    function,
    instances,
    json_object,
    mapping,
    names,
    one_of,
    text,
    texts,
    valid_shape,
    wrong,
)
from redstart.wire import types as t

Visible: TypeAlias = Callable[[Any], bool]
"""Says who may see a thing: a function of the user, or of a SyncContext where its parameter is annotated so."""
Task: TypeAlias = Literal["forbidden", "optional", "required"]
Solutions: TypeAlias = Literal["first", "all"] | int
Proofs: TypeAlias = Literal["one", "zero_or_one", "one_or_more", "zero_or_more"]
Argument: TypeAlias = t.PromptArgument | tuple[object, ...]


class Parameter(msgspec.Struct, metaclass=t.Explained):
    """One argument of an explicit Tool.

    >>> Parameter("expression", "string", "Math expression to evaluate", required=True).required
    True
    """

    name: str
    type: object = "string"
    description: str = ""
    required: bool = False
    default: object = msgspec.UNSET

    def __post_init__(self) -> None:
        self.name = REQUIRED_TEXT.check("name of a Parameter", self.name)
        self.description = NAME.check("description of a Parameter", self.description)
        self.required = FLAG.check("required of a Parameter", self.required)


class Cache(msgspec.Struct, frozen=True, metaclass=t.Explained):
    """How long, and for whom, a modern client may keep a result.

    >>> Cache(ttl=60, scope="private").ttl
    60
    """

    ttl: float = 0
    scope: Literal["public", "private"] = "private"

    def __post_init__(self) -> None:
        Rule(age, 0).check("ttl of a Cache", self.ttl)
        Rule(one_of("public", "private"), "private").check("scope of a Cache", self.scope)


class OwnParameters(list[Parameter]):
    """Parameters that were read from the handler itself: it takes them by name, also where there is only one."""


ANNOTATIONS: Final = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

CAPABILITIES: Final = (
    *("elicitation", "elicitation.form", "elicitation.url", "sampling", "sampling.tools", "sampling.context"),
    *("roots", "tasks", "extensions", "experimental"),
)
"""What `ClientCapabilities.has` knows."""
OPEN_CAPABILITIES: Final = ("tasks.", "extensions.", "experimental.")
"""Prefixes under which a client may declare capabilities that are not known here."""


def needs(label: str, value: object) -> tuple[str, ...]:
    """Names of capabilities. With an unknown name every call would be refused, and the client would be blamed."""
    needed = names(label, value)
    for need in needed:
        if need not in CAPABILITIES and not need.startswith(OPEN_CAPABILITIES):
            words = f"{label}: {need!r} is not a capability of a client; these are: {', '.join(CAPABILITIES)}"
            raise TypeError(words + did_you_mean(need, CAPABILITIES))
    return needed


def icons(label: str, value: object) -> list[t.Icon]:
    def hint(one: object) -> str:
        return f'; write Icon("{one}")' if isinstance(one, str) else ""

    return [valid_shape(label, icon) for icon in instances(label, value, t.Icon, "Icon", hint)]


def tool_annotations(label: str, value: object) -> dict[str, object]:
    annotations = {name: one for name, one in json_object(label, value).items() if one is not None}
    for name in ANNOTATIONS:
        if name in annotations:
            (text if name == "title" else flag)(f"{label}: {name}", annotations[name])
    return annotations


def resource_annotations(label: str, value: object) -> t.Annotations:
    """Annotations from a mapping with the spec's names or ours."""
    if isinstance(value, t.Annotations):
        value = {name: one for name, one in msgspec.structs.asdict(value).items() if one not in (msgspec.UNSET, None)}
    named = {"lastModified" if name == "last_modified" else name: one for name, one in mapping(label, value).items()}
    known = ("audience", "priority", "lastModified")
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise TypeError(f'{label}: there is no "{name}"{hint}')
    priority = named.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        wrong(f"{label}: priority", "a number from 0 to 1", priority)
    try:
        return msgspec.convert(named, t.Annotations)
    except msgspec.ValidationError as error:
        raise TypeError(f"{label}: {error}") from None


def cache_rule(label: str, value: object) -> Cache:
    if not isinstance(value, Cache):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        wrong(label, "a Cache", value, f"; write Cache(ttl={value})" if number else "")
    return value


def parameters(label: str, value: object) -> list[Parameter]:
    listed = instances(label, value, Parameter, "Parameter")
    return value if isinstance(value, list) else listed  # it may be a subclass of list


def arguments(label: str, value: object) -> list[t.PromptArgument]:
    words = "PromptArgument or (name, description, required)"
    kinds = (str, str | None, bool)
    made = []
    for given in instances(label, value, (object,), words):
        argument = given
        if isinstance(given, tuple) and 0 < len(given) <= 3 and all(map(isinstance, given, kinds)):
            argument = t.PromptArgument(given[0], None, *given[1:])
        if not isinstance(argument, t.PromptArgument) or not argument.name:
            wrong(label, f"a list of {words}", given)
        valid_shape(label, argument)
        made.append(
            t.PromptArgument(argument.name, argument.title, argument.description or None, argument.required or False)
        )
    return made


def task(label: str, value: object) -> str:
    if isinstance(value, bool):
        return "optional" if value else "forbidden"
    choices = ("forbidden", "optional", "required")
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        wrong(label, f"one of {', '.join(choices)}, or True or False", value, hint)
    return value


def solutions(label: str, value: object) -> object:
    if value not in ("first", "all") and (type(value) is not int or value < 1):
        wrong(label, '"first", "all" or a number from 1', value)
    return value


# ---------------------------------------------------------------- the options

CacheOption: TypeAlias = Annotated[Cache | None, Rule(cache_rule)]
IconsOption: TypeAlias = Annotated[Sequence[t.Icon] | None, Rule(icons)]


class SharedOptions(TypedDict, total=False):
    """What tools, prompts and resources have in common."""

    description: TextOption
    """What it is for, as a model reads it; by default the docstring."""
    title: TextOption
    """A name for people."""
    icons: IconsOption
    """Pictures that clients may show."""
    meta: Annotated[Mapping[str, object] | None, Rule(json_object)]
    """Data of your own for clients, sent as `_meta`."""
    needs: Annotated[str | Sequence[str], Rule(needs, (), optional=True)]
    """What the client must be able to do, such as `"elicitation"`; others get an error before the handler runs."""
    executor: Annotated[Literal["inline", "thread", "process"] | None, Rule(one_of("inline", "thread", "process"))]
    """Where it runs: `"inline"` on the loop, in a `"thread"` (the default for `def`), or in a `"process"`."""
    timeout: SecondsOption
    """Seconds that the handler may take, without the time in which it waits for the user."""
    visible: Annotated[Visible | None, Rule(function)]
    """A function of the user that says who sees and may use it."""
    scopes: ScopesOption
    """The scopes that a token must have."""
    tags: TextsOption
    """Words by which `include_tags=` and `exclude_tags=` of the server choose what is served."""


class ToolOptions(SharedOptions, total=False):
    """What `Tool` and `@tool(...)` take."""

    parameters: Annotated[Sequence[Parameter] | None, Rule(parameters)]
    """The arguments, if they do not come from the signature."""
    input_schema: Annotated[Mapping[str, object] | None, Rule(mapping)]
    """The JSON Schema of the arguments, if it does not come from the signature."""
    output_schema: Annotated[Mapping[str, object] | None, Rule(mapping)]
    """The JSON Schema of structured results, if it does not come from the annotation."""
    return_type: Annotated[Any, Rule(anything, msgspec.UNSET, optional=False)]
    """The type of results, in place of the annotation."""
    annotations: Annotated[Mapping[str, object] | None, Rule(tool_annotations)]
    """Hints for clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, `title`."""
    task: Annotated[Task | bool, Rule(task, "forbidden")]
    """Whether calls may be tasks: `"forbidden"`, `"optional"` (or True) or `"required"`."""
    concurrency: CountOption
    """How many calls of this tool run at once."""
    max_result_bytes: CountOption
    """How large a result may be; a larger one is an error that says so."""
    outputs: Annotated[Sequence[str] | None, Rule(texts)]
    """The names of the values that a tuple, or the outputs of a mode, are given under."""
    solutions: Annotated[Solutions | None, Rule(solutions)]
    """For generators: `"first"`, `"all"` or a number; each yield is one solution."""
    single_use: FlagOption
    """Whether each state of a question may be used once only."""
    apply_defaults: FlagOption
    """Whether the defaults in a raw `input_schema` are filled in."""
    detach: Annotated[Literal["entry", "manual"], Rule(one_of("entry", "manual"), "entry")]
    """When a call becomes a task: at its `"entry"`, or where the handler calls `ctx.detach()` (`"manual"`)."""
    retries: Annotated[int | None, Rule(at_least(0))]
    """How often a task is begun anew after its worker was lost; by default the hints in `annotations` decide."""
    on_cancel: Annotated[Callable[[str], Any] | None, Rule(function)]
    """A function that is called with the task's token when a task that was handed over is cancelled."""


class PredicateOptions(ToolOptions, total=False):
    """What `@predicate(...)` takes."""

    name: Annotated[str, NAME]
    """The name of the tool; by default that of the function."""
    mode: TextOption
    """Its mode as Logtalk writes it, such as `fact(+integer, -integer)`."""
    proofs: Annotated[Proofs | None, Rule(one_of("one", "zero_or_one", "one_or_more", "zero_or_more"))]
    """How many solutions it has."""


class PromptOptions(SharedOptions, total=False):
    """What `Prompt` and `@prompt(...)` take."""

    arguments: Annotated[Sequence[Argument] | None, Rule(arguments)]
    """The arguments, if they do not come from the signature."""


class ResourceOptions(SharedOptions, total=False):
    """What `Resource` and `@resource(uri, ...)` take."""

    mime_type: TextOption
    """The type of the contents, such as `text/markdown`."""
    size: Annotated[int | None, Rule(at_least(0))]
    """How many bytes it has, for clients that show it."""
    annotations: Annotated[t.Annotations | Mapping[str, object] | None, Rule(resource_annotations)]
    """`audience`, `priority` and `lastModified`, for clients."""
    cache: CacheOption
    """How long clients may keep it."""
    unsafe: TextsOption
    """The variables of a template whose values are not paths, so that `..` and `/` are allowed in them."""


class FileOptions(ResourceOptions, total=False):
    """What `File` takes."""

    max_size: Annotated[int, Rule(at_least(0), 10 * 1024 * 1024)]
    """How many bytes are read at most; a larger file is an error."""


class DirectoryOptions(FileOptions, total=False):
    """What `Directory` takes."""

    hidden: FlagOption
    """Whether files whose names begin with a dot are served."""
    listing: FlagOption
    """Whether every file is in the list of resources, and not only the template."""


class Declared:
    """What a user declares: a Tool, a Prompt or a Resource. Its options are its attributes."""

    kind: ClassVar[str]
    handler: Callable[..., Any] | None

    def __init__(self, name: str, place: str, options: SharedOptions) -> None:
        self.name = name
        self.place = place
        """The file and line of its handler, for messages to people."""
        self.source: object = None
        """The provider that lists it."""
        self.description = options["description"]
        self.title = options["title"]
        self.icons = options["icons"]
        self.meta = options["meta"]
        self.needs: Sequence[str] = options["needs"]
        self.executor = options["executor"]
        self.timeout = options["timeout"]
        self.visible = options["visible"]
        self.scopes: tuple[str, ...] = options["scopes"]  # type: ignore[assignment]  # by its rule
        self.tags = frozenset(options["tags"])

    @property
    def key(self) -> str:
        """The name or URI that it is registered under."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"
