"""The rules of `redstart check`. Each is a row: a code, what is wrong, and why.

The page docs/check.md is made from these rows by scripts/rules.py, which has an example of both; the tests run them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from redstart.cli.lint.blocking import blocking_calls
from redstart.cli.lint.facts import Finding, Offered, ServerFacts
from redstart.wire.jsonrpc import JsonObject

REVISIONS: Final = "RS001"
"""The code of what a client of some revision would have trouble with; found by trying a client of each revision."""


class LintRule(NamedTuple):
    """One rule."""

    code: str
    title: str
    why: str
    find: Callable[[str, ServerFacts], Iterator[Finding]]
    clients: tuple[str, ...] = ()
    """The clients that it is about; of all if empty."""
    default: bool = True
    fixable: bool = False


# ---------------------------------------------------------------- names and descriptions

VAGUE_NAMES: Final = {
    "run", "do", "execute", "exec", "process", "handle", "handler", "tool", "test", "main", "get", "set", "data",
    "func", "function", "call", "action", "perform", "work", "helper", "util", "utils", "foo", "bar", "tmp", "new",
    "my_tool",
}  # fmt: skip
VAGUE_PARAMETERS: Final = {
    "data", "value", "values", "input", "inputs", "arg", "args", "obj", "object", "item", "items", "payload", "options",
    "opts", "params", "param", "config", "settings", "info", "spec", "flag", "flags", "mode", "kind", "type", "body",
}  # fmt: skip
LONGEST_NAME, LONGEST_DESCRIPTION = 50, 1024


def _undescribed(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool", "prompt", "resource", "template"):
        if not thing.description.strip():
            yield thing.found(
                code, "it has no description; write a docstring that says what it does and when to use it"
            )


def _vague(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        words = re.findall(r"\w+", thing.description)
        same = "".join(words).lower() == re.sub(r"[^a-z0-9]", "", thing.name.lower())
        if words and (len(words) < 2 or same):
            yield thing.found(code, f"the description {thing.description!r} says no more than the name")


def _parameters(thing: Offered) -> Iterator[tuple[str, JsonObject]]:
    for name, schema in thing.properties.items():
        yield name, schema if isinstance(schema, dict) else {}


def _unclear_parameter(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name, schema in _parameters(thing):
            if (len(name) < 3 or name.lower() in VAGUE_PARAMETERS) and not schema.get("description"):
                yield thing.found(code, f"nothing says what {name} is; describe it under Args: in the docstring")


def _undescribed_parameter(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name, schema in _parameters(thing):
            if not schema.get("description"):
                yield thing.found(code, f"{name} has no description; describe it under Args: in the docstring")


def _unportable_name(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool", "prompt"):
        if not re.fullmatch(r"[A-Za-z0-9_-]+", thing.name):
            yield thing.found(code, "use letters, digits, '_' and '-' only")


def _long_name(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if len(thing.name) > LONGEST_NAME:
            yield thing.found(code, f"the name has {len(thing.name)} characters; take {LONGEST_NAME} at most")


def _vague_name(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if thing.name.lower() in VAGUE_NAMES or len(thing.name) < 2:
            yield thing.found(code, "the name does not say what it does; take a verb and a noun")


def _alike(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for kind in ("tool", "prompt"):
        same: dict[str, list[Offered]] = defaultdict(list)
        for thing in facts.of(kind):
            same[re.sub(r"[^a-z0-9]", "", thing.name.lower())].append(thing)
        for first, *others in same.values():
            for thing in others:
                yield thing.found(code, f"{first.name} differs from it only in case or punctuation")


def _long_description(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if len(thing.description) > LONGEST_DESCRIPTION:
            length = len(thing.description)
            yield thing.found(code, f"the description has {length} characters; after {LONGEST_DESCRIPTION} it is cut")


# ---------------------------------------------------------------- schemas

DROPPED: Final = (
    "oneOf", "allOf", "not", "if", "then", "else", "patternProperties", "propertyNames", "dependentSchemas",
    "dependentRequired", "contains", "prefixItems", "unevaluatedProperties",
)  # fmt: skip
FORMATS: Final = {"enum", "date-time", "int32", "int64", "float", "double"}


def _schemas(schema: object, path: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Every schema in a schema, and where it is."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _schemas(inner, path)
    if not isinstance(schema, dict):
        return
    yield path or "the arguments", schema
    for key, inner in schema.items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(inner, dict):
            for name, one in inner.items():
                yield from _schemas(one, f"{path}.{name}" if path else name)
        elif key not in ("default", "examples", "enum", "const"):
            yield from _schemas(inner, path)


def _references(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if "$defs" in thing.schema or any("$ref" in schema for _, schema in _schemas(thing.schema)):
            yield thing.found(code, "the schema has $ref, which these clients leave out; use the type only once")


def _recursive(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name, schema in (thing.schema.get("$defs") or {}).items():
            if any(inner.get("$ref") == f"#/$defs/{name}" for _, inner in _schemas(schema)):
                yield thing.found(code, f"the type {name} contains itself; take a list with parent ids instead")


def _union_at_the_top(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for word in ("anyOf", "oneOf", "allOf"):
            if word in thing.schema:
                yield thing.found(code, f"the schema of the arguments has {word} at its top, and is refused")


def _dropped_keywords(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for path, schema in _schemas(thing.schema):
            for word in DROPPED:
                if word in schema and not (path == "the arguments" and word in ("oneOf", "allOf")):
                    yield thing.found(code, f"{word} of {path} is dropped; say it in the description too")


def _formats(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for path, schema in _schemas(thing.schema):
            if (
                isinstance(schema.get("format"), str)
                and schema["format"] not in FORMATS
                and not schema.get("description")
            ):
                yield thing.found(code, f"the format {schema['format']} of {path} is dropped; describe it in words")


def _items(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for path, schema in _schemas(thing.schema):
            if schema.get("type") == "array" and schema.get("prefixItems") and not schema.get("items"):
                words = "has no items for these clients; write a dataclass, or list[…] with one type"
                yield thing.found(code, f"the tuple {path} {words}")
            elif schema.get("type") == "array" and not schema.get("items"):
                yield thing.found(code, f"the list {path} does not say what is in it; write list[str], not list")


def _property_names(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name in thing.properties:
            if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
                yield thing.found(code, f"the argument {name} must be letters, digits, '_', '.' and '-', 64 at most")


def _misfits(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name, error in thing.misfits.items():
            why = str(error).removeprefix("The value ").removeprefix("Value ").removesuffix(".")
            yield thing.found(code, f"the default of {name} does not fit, and is left out of the schema: {why}")


# ---------------------------------------------------------------- size

MOST_TOKENS, MOST_TOKENS_TOGETHER, MOST_TOOLS, MOST_VALUES = 1000, 20_000, 40, 100


def _tokens(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if thing.tokens > MOST_TOKENS:
            yield thing.found(code, f"it costs about {thing.tokens} tokens in every conversation")


def _tokens_together(code: str, facts: ServerFacts) -> Iterator[Finding]:
    total = sum(thing.tokens for thing in facts.of("tool"))
    if total > MOST_TOKENS_TOGETHER:
        yield Finding(code, f"server {facts.server}: its tools cost about {total} tokens in every conversation")


def _many_tools(code: str, facts: ServerFacts) -> Iterator[Finding]:
    count = len(list(facts.of("tool")))
    if count > MOST_TOOLS:
        yield Finding(code, f"server {facts.server}: it has {count} tools; some clients take {MOST_TOOLS} in all")


def _many_values(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for path, schema in _schemas(thing.schema):
            if len(schema.get("enum") or ()) > MOST_VALUES:
                yield thing.found(
                    code, f"{path} has {len(schema['enum'])} values; take a str, and refuse with the nearest"
                )


# ---------------------------------------------------------------- behaviour

_READS = re.compile(r"(get|list|read|search|find|show|count|describe|fetch|lookup|query)(_|$)")
_CHANGES = re.compile(r"(delete|remove|drop|erase|purge|send|overwrite|reset|cancel)(_|$)")


def _blocking(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool", "prompt", "resource", "template"):
        function = thing.function
        for call in blocking_calls(thing.file, function) if function else ():
            message = f"{call.name}() stops all other calls until it returns; write def, or await a thread"
            yield thing.found(code, message, call.line, call.change)


def _read_only(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if _READS.match(thing.name) and "readOnlyHint" not in thing.annotations:
            yield thing.found(code, 'say annotations={"readOnlyHint": True}, so that clients need not ask the user')


def _destructive(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if _CHANGES.match(thing.name) and not {"destructiveHint", "readOnlyHint"} & set(thing.annotations):
            yield thing.found(code, 'say annotations={"destructiveHint": True}, so that clients ask the user, or False')


def _contradiction(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        if thing.annotations.get("readOnlyHint") and thing.annotations.get("destructiveHint"):
            yield thing.found(code, "it cannot be both readOnlyHint and destructiveHint")


# ---------------------------------------------------------------- secrets

_SECRET_NAME = re.compile(r"(?i)(^|_)(password|passwd|secret|api_?key|access_?token|private_?key|credentials?)$")
_SECRET_VALUE = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{12,}|xox[abp]-[\w-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)


def _secret_default(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name, schema in _parameters(thing):
            value = schema.get("default")
            if isinstance(value, str) and value and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)):
                yield thing.found(code, f"the default of {name} is told to every client; read it from the environment")


def _secret_parameter(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool"):
        for name in thing.properties:
            if _SECRET_NAME.search(name):
                yield thing.found(code, f"{name} would be seen by the model and its logs; read it from the environment")


def _secret_text(code: str, facts: ServerFacts) -> Iterator[Finding]:
    for thing in facts.of("tool", "prompt", "resource", "template"):
        if _SECRET_VALUE.search(thing.description):
            yield thing.found(code, "the description holds what looks like a key, and is told to every client")


# ---------------------------------------------------------------- the table

RULES: Final = (
    LintRule(
        "RS101",
        "no description",
        "A model chooses a tool by its description. Without one it guesses from the name.",
        _undescribed,
    ),
    LintRule(
        "RS102",
        "vague description",
        "A description that repeats the name tells the model nothing.",
        _vague,
    ),
    LintRule(
        "RS103",
        "unclear parameter",
        "A short or general name needs a description, else the model fills it by chance.",
        _unclear_parameter,
    ),
    LintRule(
        "RS104",
        "parameter without a description",
        "For servers that want every parameter described. Off by default.",
        _undescribed_parameter,
        default=False,
    ),
    LintRule(
        "RS105",
        "name with other characters",
        "Model providers take letters, digits, '_' and '-' in the names of tools.",
        _unportable_name,
        clients=(
            "claude",
            "codex",
            "copilot",
            "vscode",
        ),
    ),
    LintRule(
        "RS106",
        "long name",
        "Clients put the name of the server before that of the tool, and cut both at 64 characters.",
        _long_name,
        clients=(
            "claude",
            "codex",
            "cursor",
            "gemini",
            "vscode",
        ),
    ),
    LintRule(
        "RS107",
        "vague name",
        "A model that sees the tools of many servers cannot tell what `run` or `get` is about.",
        _vague_name,
    ),
    LintRule(
        "RS108",
        "names that are alike",
        "Some clients ignore case and punctuation, and then call the wrong one.",
        _alike,
    ),
    LintRule(
        "RS109",
        "long description",
        "Model providers cut or refuse descriptions of more than 1,024 characters.",
        _long_description,
        clients=(
            "codex",
            "copilot",
            "vscode",
        ),
    ),
    LintRule(
        "RS201",
        "references in a schema",
        "These clients leave out `$defs`, so that the model sees an empty type.",
        _references,
        clients=("copilot",),
        default=False,
    ),
    LintRule(
        "RS202",
        "union of all arguments",
        "The schema of the arguments must be one object, without anyOf, oneOf or allOf.",
        _union_at_the_top,
        clients=(
            "claude",
            "codex",
            "gemini",
            "vscode",
        ),
    ),
    LintRule(
        "RS203",
        "keywords that are dropped",
        "Gemini takes a part of JSON Schema, and drops the other keywords.",
        _dropped_keywords,
        clients=("gemini",),
    ),
    LintRule(
        "RS204",
        "formats that are dropped",
        "A format that a client drops must be in the description too.",
        _formats,
        clients=("gemini",),
    ),
    LintRule(
        "RS205",
        "type that contains itself",
        "These clients write references out, and cannot end with such a type.",
        _recursive,
        clients=("copilot", "gemini"),
    ),
    LintRule(
        "RS206",
        "list of anything",
        "A list must say what is in it: model providers refuse an array without items.",
        _items,
        clients=(
            "codex",
            "copilot",
            "gemini",
            "vscode",
        ),
    ),
    LintRule(
        "RS207",
        "name of an argument",
        "Model providers take letters, digits, '_', '.' and '-' in the names of arguments.",
        _property_names,
        clients=("claude",),
    ),
    LintRule(
        "RS208",
        "default that does not fit",
        "A model is not told such a default, and the function gets a value that no client may send.",
        _misfits,
    ),
    LintRule(
        "RS301",
        "expensive tool",
        "The description and the schema are sent with every request of the conversation.",
        _tokens,
    ),
    LintRule(
        "RS302",
        "expensive server",
        "All tools together take room in the model's context from the first message on.",
        _tokens_together,
    ),
    LintRule(
        "RS303",
        "many tools",
        "Cursor takes 40 tools of all servers together; a model chooses worse among many.",
        _many_tools,
        clients=("cursor",),
    ),
    LintRule(
        "RS304",
        "many values",
        "A long list of values costs tokens, and some model providers refuse it.",
        _many_values,
    ),
    LintRule(
        "RS401",
        "blocking call",
        "An `async def` runs on the event loop. What blocks it stops every other call.",
        _blocking,
        fixable=True,
    ),
    LintRule(
        "RS402",
        "reading without a hint",
        "Clients ask before each call, unless a tool says that it only reads.",
        _read_only,
    ),
    LintRule(
        "RS403",
        "deleting without a hint",
        "Clients warn before a call that destroys something, if the tool says so.",
        _destructive,
    ),
    LintRule(
        "RS404",
        "hints that contradict",
        "A tool that only reads cannot destroy anything.",
        _contradiction,
    ),
    LintRule(
        "RS501",
        "secret as a default",
        "Defaults are part of the schema, which every client and every model can read.",
        _secret_default,
    ),
    LintRule(
        "RS502",
        "secret as an argument",
        "What a model passes is in its context, in its logs and with its provider.",
        _secret_parameter,
    ),
    LintRule(
        "RS503",
        "secret in a description",
        "Descriptions are read by every client and every model.",
        _secret_text,
    ),
)
