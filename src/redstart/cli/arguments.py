"""`a=1 b.c=x tags=red tags=blue rows:=[1,2] text=@file -`: words of the command line as the arguments of a tool.

`name=value` is read by the schema of the tool, `name:=JSON` is JSON whatever the schema says. A value `@file` is the
content of a file, `-` that of stdin. A word without a name is a JSON object: itself, `@file` or `-`.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redstart.cli.output import CommandError, meant, near, printable
from redstart.wire.jsonrpc import JsonMapping, JsonObject

if TYPE_CHECKING:
    from redstart.client import Client

Schema: TypeAlias = JsonMapping
Json: TypeAlias = Any
"""A JSON value: what it is, the schema says."""

_PAIR: Final = re.compile(r"([^=:{\[\"@\s][^=:\s]*)(:?=)(.*)", re.DOTALL)
WORDS: Final = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null"}
YES: Final = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
MAX_FILE: Final = 64 << 20
"""The most bytes of a file, or of stdin, for one argument."""


class ValueMismatch(ValueError):
    """A text that cannot be a value of the schema; the text of the error says what could be."""


def is_argument(word: str) -> bool:
    """Whether a word is an argument, and not the name of a server or a tool.

    >>> [is_argument(word) for word in ("a=1", "a:=1", "-", "@in.json", "{}", "add", "server.py")]
    [True, True, True, True, True, False, False]
    """
    return word == "-" or word.startswith(("@", "{")) or _PAIR.fullmatch(word) is not None


def arguments_of(words: Sequence[str], schema: Schema) -> JsonObject:
    """The arguments that the words mean; CommandError names the word that is wrong."""
    found: JsonObject = {}
    taken: set[str] = set()
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            _merge(found, _whole(word))
            continue
        name, mark, text = pair.groups()
        path, inner = located(name, schema)
        try:
            value = _json(text, f" (for a text write {name}=…)") if mark == ":=" else value_of(text, inner, schema)
        except ValueMismatch as error:
            raise CommandError(f"argument {name}: {error}") from None
        _put(found, path, value, inner, again=name in taken, name=name)
        taken.add(name)
    return found


def missing(found: JsonMapping, schema: Schema) -> list[str]:
    """The required arguments that were not given."""
    required = schema.get("required")
    return [name for name in required if name not in found] if isinstance(required, list) else []


async def tool_arguments(client: Client, name: str | None, words: Sequence[str]) -> tuple[str, JsonObject]:
    """The tool of a server and its arguments; CommandError if there is no such tool, or it needs others."""
    tool = meant("tool", name, {tool.name: tool for tool in await client.list_tools()})
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    given = arguments_of(words, schema)
    if lacking := missing(given, schema):
        usage = f"{tool.name} {signature(schema)}".rstrip()
        raise CommandError(printable(f"{tool.name} needs {', '.join(lacking)}\nusage: {usage}"))
    return tool.name, given


# ---------------------------------------------------------------- one word


def _whole(word: str) -> JsonObject:
    """A word without a name: a JSON object with several arguments."""
    text = content(word).decode("utf-8", "replace") if word == "-" or word.startswith("@") else word
    value = _json(text, where=f" in {word[1:]}" if word.startswith("@") else " on stdin" if word == "-" else "")
    if not isinstance(value, dict):
        raise CommandError(f"{word} holds {type_name(value)}; without a name it must be a JSON object")
    return value


def content(word: str) -> bytes:
    """What `@file` or `-` means."""
    try:
        if word == "-":
            data = sys.stdin.buffer.read(MAX_FILE + 1)
        else:
            with Path(word[1:]).expanduser().open("rb") as file:
                data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise CommandError(f"{word[1:] or word}: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise CommandError(f"{word}: more than {MAX_FILE >> 20} MiB for one argument")
    return data


def _json(text: str, where: str = "") -> Json:
    try:
        return json.loads(text)
    except ValueError as error:
        shown = text if len(text) <= 60 else text[:57] + "…"
        raise CommandError(f"this is not JSON{where}: {error}: {shown}") from None


def located(name: str, schema: Schema) -> tuple[list[str], Schema]:
    """The path to an argument, and its schema: `a.b` is b in a, unless there is an argument `a.b`."""
    path: list[str] = []
    here, rest = schema, name
    while True:
        properties = properties_of(here, schema)
        step = rest if rest in properties else rest.partition(".")[0]
        if step not in properties and properties and not _is_open(here):
            place = f" in {'.'.join(path)}" if path else ""
            raise CommandError(f"there is no argument {step}{place}{near(step, properties)}")
        path.append(step)
        here = resolved(properties.get(step, {}), schema)
        rest = rest[len(step) + 1 :]
        if not rest:
            return path, here


def _is_open(schema: Schema) -> bool:
    """Whether an object takes names that its schema does not list, and says so."""
    return bool(schema.get("additionalProperties")) or "patternProperties" in schema


def _put(found: JsonObject, path: list[str], value: Json, schema: Schema, *, again: bool, name: str) -> None:
    """Set a value; the second one for a list is added to the first."""
    for step in path[:-1]:
        found = found.setdefault(step, {})
        if not isinstance(found, dict):
            raise CommandError(f"argument {name}: {step} has a value already, which is not an object")
    old = found.get(path[-1])
    if again:
        if not isinstance(old, list) or not isinstance(value, list):
            raise CommandError(f"argument {name} is given twice")
        value = old + value
    found[path[-1]] = value


def _merge(found: JsonObject, more: JsonObject) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(found.get(name), dict):
            _merge(found[name], value)
        else:
            found[name] = value


# ---------------------------------------------------------------- values by schema


def resolved(schema: Json, root: Schema) -> Schema:
    """A schema without `$ref`: those within the document are followed, a few steps at most."""
    for _ in range(16):
        if not isinstance(schema, Mapping):
            return {}
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            return schema
        target: Json = root
        for part in ref[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            target = target.get(part) if isinstance(target, Mapping) else None
        schema = target
    return {}


def branches(schema: Schema, root: Schema) -> list[Schema]:
    """The alternatives of a schema, itself if it has none."""
    for word in ("anyOf", "oneOf"):
        if isinstance(listed := schema.get(word), list) and listed:
            return [inner for branch in listed for inner in branches(resolved(branch, root), root)]
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [{**schema, "type": kind} for kind in kinds]
    return [schema]


def properties_of(schema: Schema, root: Schema) -> JsonObject:
    """The properties of an object, also if it is one of several alternatives."""
    found: JsonObject = {}
    for branch in [schema, *branches(schema, root)]:
        inner = branch.get("properties")
        if isinstance(inner, Mapping):
            found.update(inner)
    return found


def value_of(text: str, schema: Schema, root: Schema) -> Json:
    """A text as a value of a schema; ValueMismatch says what the schema takes."""
    data = content(text) if text == "-" or (text.startswith("@") and len(text) > 1) else None
    options = branches(schema, root)
    if data is not None:
        if any(branch.get("contentEncoding") == "base64" for branch in options):
            return base64.b64encode(data).decode()
        text = data.decode("utf-8", "replace")
    failures: list[str] = []
    for branch in sorted(options, key=lambda branch: branch.get("type") == "string"):  # a text fits a string always
        try:
            return _by_kind(text, branch, root)
        except ValueMismatch as error:
            failures.append(str(error))
    raise ValueMismatch(" or ".join(dict.fromkeys(failures)))


def _by_kind(text: str, schema: Schema, root: Schema) -> Json:
    if "const" in schema:
        return _listed(text, [schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _listed(text, schema["enum"])
    kind = schema.get("type") or ("object" if "properties" in schema else "")
    return KINDS.get(str(kind), _anything)(text, schema, root)


def _listed(text: str, values: list[Json]) -> Json:
    by_text = {value if isinstance(value, str) else json.dumps(value): value for value in values}
    if text in by_text:
        return by_text[text]
    raise ValueMismatch(f"{text!r} is not one of {', '.join(by_text)}{_meant(text, by_text)}")


def _meant(text: str, names: JsonMapping) -> str:
    hint = near(text, names)
    return hint if "did you mean" in hint else ""


def _integer(text: str, schema: Schema, root: Schema) -> int:
    if re.fullmatch(r"[+-]?\d{1,400}", text.strip()):
        return int(text)
    raise ValueMismatch(f"a whole number, not {text!r}")


def _number(text: str, schema: Schema, root: Schema) -> float:
    if re.fullmatch(r"[+-]?(\d{1,400}\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text.strip()):
        number = float(text)
        return int(text) if text.strip().lstrip("+-").isdecimal() else number
    raise ValueMismatch(f"a number, not {text!r}")


def _boolean(text: str, schema: Schema, root: Schema) -> bool:
    if (value := YES.get(text.strip().lower())) is not None:
        return value
    raise ValueMismatch(f"true or false, not {text!r}")


def _null(text: str, schema: Schema, root: Schema) -> None:
    if text.strip() != "null":
        raise ValueMismatch(f"null, not {text!r}")


def _string(text: str, schema: Schema, root: Schema) -> str:
    return text


def _array(text: str, schema: Schema, root: Schema) -> list[Json]:
    if text.lstrip().startswith("["):
        value = _json(text)
        return value if isinstance(value, list) else [value]
    return [value_of(text, resolved(schema.get("items", {}), root), root)]  # one of several words


def _object(text: str, schema: Schema, root: Schema) -> JsonObject:
    if text.lstrip().startswith("{") and isinstance(value := _json(text), dict):
        return value
    raise ValueMismatch(f"a JSON object such as {{…}}, not {text!r}")


def _anything(text: str, schema: Schema, root: Schema) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


KINDS: Final[dict[str, Callable[[str, Schema, Schema], Json]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "string": _string,
    "array": _array,
    "object": _object,
}


# ---------------------------------------------------------------- words for people


def type_name(value: Json) -> str:
    """What a JSON value is called."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def kind_name(schema: Schema, root: Schema) -> str:
    """The type of an argument in a word or two.

    >>> kind_name({"type": "array", "items": {"type": "integer"}}, {}), kind_name({"enum": ["a", "b"]}, {})
    ('integer…', 'a|b')
    """
    names: list[str] = []
    for branch in branches(resolved(schema, root), root):
        if "const" in branch or isinstance(branch.get("enum"), list):
            values = branch.get("enum") or [branch.get("const")]
            names.append("|".join(value if isinstance(value, str) else json.dumps(value) for value in values[:6]))
        elif branch.get("type") == "array":
            names.append(kind_name(branch.get("items", {}), root) + "…")
        elif branch.get("type") != "null":
            names.append(str(branch.get("type", "JSON")))
    return "|".join(dict.fromkeys(names)) or "JSON"


def signature(schema: Json) -> str:
    """The arguments of a tool as they are typed: `a=INTEGER [b=INTEGER]`.

    >>> signature({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]})
    'a=integer [b=string]'
    """
    if not isinstance(schema, Mapping):
        return ""
    required = schema.get("required") or ()
    words = []
    for name, inner in properties_of(schema, schema).items():
        word = f"{name}={kind_name(inner, schema)}"
        words.append(word if name in required else f"[{word}]")
    return " ".join(words)
