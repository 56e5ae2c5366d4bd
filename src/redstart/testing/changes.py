"""Which changes of what a server offers break its clients.

A client, or the model behind it, has learned the schemas of before. So arguments that were valid must stay valid, and
a result must still be what its schema promised. Both are one question about two schemas: is every value of the first
also one of the second? What cannot be compared counts as a break.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Offer: TypeAlias = dict[str, list[dict[str, Any]]]
"""The lists of a server by kind, with their entries as they go over the wire."""
Schema: TypeAlias = Mapping[str, Any]

LISTS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
"""The kinds of lists, and the field by which an entry is known."""
NAMES: Final = {"tools": "tool", "prompts": "prompt", "resources": "resource", "resourceTemplates": "template"}
DEEPEST: Final = 32

LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
EXACT: Final = ("pattern", "const", "multipleOf", "uniqueItems", "prefixItems", "not", "allOf", "format")
TEXTS: Final = ("description", "title", "mimeType", "icons", "annotations", "execution", "size")
"""What people and models read. A change of it breaks no program."""


class OfferChange(NamedTuple):
    """One change, in words.

    >>> str(OfferChange("tool add", "the argument b is required", True))
    'tool add: the argument b is required'
    """

    what: str
    text: str
    breaks: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[OfferChange]:
    """The changes between two offers; those that break clients first.

    >>> add = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> more = {**add, "inputSchema": {**add["inputSchema"], "required": ["a"]}}
    >>> [str(change) for change in compare({"tools": [add]}, {"tools": [more]})]
    ['tool add: the argument a is required']
    """
    changes = [change for kind in LISTS for change in _list_changes(kind, before.get(kind, []), now.get(kind, []))]
    return sorted(changes, key=lambda change: not change.breaks)


def _list_changes(kind: str, before: Sequence[Schema], now: Sequence[Schema]) -> Iterator[OfferChange]:
    old, new = ({entry[LISTS[kind]]: entry for entry in entries} for entries in (before, now))
    for key in [*old, *(key for key in new if key not in old)]:
        what = f"{NAMES[kind]} {key}"
        if key not in new:
            yield OfferChange(what, "is gone", True)
        elif key not in old:
            yield OfferChange(what, "is new", False)
        else:
            for text in TEXTS:
                if old[key].get(text) != new[key].get(text):
                    yield OfferChange(what, f"another {text}", False)
            for broken in _breaks(old[key], new[key]):
                yield OfferChange(what, broken, True)
            yield from (OfferChange(what, text, False) for text in _additions(old[key], new[key]))


def _breaks(old: Schema, new: Schema) -> Iterator[str]:
    if "inputSchema" in old:
        yield from _lost(Pair.of(old["inputSchema"], new.get("inputSchema", {}), _INPUT))
    if "outputSchema" in old and "outputSchema" not in new:
        yield "results have no schema any more"
    elif "outputSchema" in old:
        yield from _lost(Pair.of(new["outputSchema"], old["outputSchema"], _OUTPUT))
    arguments = {argument["name"]: argument for argument in new.get("arguments", [])}
    known = {argument["name"] for argument in old.get("arguments", [])}
    required = {argument["name"] for argument in old.get("arguments", []) if argument.get("required")}
    yield from (f"the argument {name} is gone" for name in known - arguments.keys())
    for name, argument in arguments.items():
        if argument.get("required") and name not in required:
            yield f"the argument {name} is required"


def _additions(old: Schema, new: Schema) -> Iterator[str]:
    for field, noun in (("inputSchema", "argument"), ("outputSchema", "field of results")):
        before, now = (schema.get(field, {}).get("properties", {}) for schema in (old, new))
        if field in old:
            yield from (f"a new {noun}: {name}" for name in now.keys() - before.keys())
            for name in now.keys() & before.keys():
                for key in ("description", "default"):
                    if before[name].get(key) != now[name].get(key):
                        yield f"another {key} of the {noun} {name}"
    if "outputSchema" in new and "outputSchema" not in old:
        yield "results have a schema now"


class Words(NamedTuple):
    """The sentences for arguments, and those for results."""

    noun: str
    missing: str
    unknown: str
    type: str
    value: str
    bound: str
    other: str


_INPUT: Final = Words(
    "the argument {}",
    "{} is required",
    "{} is gone",
    "{} may no longer be {}",
    "{} may no longer be {!r}",
    "{} has another {}",
    "{} has another {}, which cannot be compared",
)
_OUTPUT: Final = Words(
    "the field {} of results",
    "{} may be missing",
    "{} is gone",
    "{} may be {}",
    "{} may be {!r}",
    "{} has another {}",
    "{} has another {}, which cannot be compared",
)


class Pair(NamedTuple):
    """Two schemas: every value of `wide` should be one of `narrow`."""

    wide: Schema
    narrow: Schema
    words: Words
    path: str
    roots: tuple[Schema, Schema]
    """The whole schemas, which have the definitions."""
    found: dict[tuple[int, int], list[str]]
    """What is known of the pairs that were compared before; types may refer to themselves."""

    @classmethod
    def of(cls, wide: Schema, narrow: Schema, words: Words) -> Pair:
        return cls(wide, narrow, words, "", (wide, narrow), {})

    @property
    def noun(self) -> str:
        return self.words.noun.format(self.path) if self.path else "the whole"

    def inner(self, wide: object, narrow: object, name: str) -> Pair:
        path = f"{self.path}{'.' if self.path and name.isidentifier() else ''}{name}"
        wide, narrow = _resolved(wide, self.roots[0]), _resolved(narrow, self.roots[1])
        return self._replace(wide=wide, narrow=narrow, path=path)


def _resolved(schema: object, root: Schema) -> Schema:
    """A schema with its local reference followed; a boolean schema as an object."""
    for _ in range(DEEPEST):
        if not isinstance(schema, Mapping):
            return {} if schema is not False else {"not": {}}
        name = str(schema.get("$ref", ""))
        if not name.startswith("#/$defs/"):
            return schema
        schema = root.get("$defs", {}).get(name.removeprefix("#/$defs/"), {})
    return {}


def _lost(pair: Pair) -> list[str]:
    """Why a value of the wide schema may not be one of the narrow schema."""
    key = id(pair.wide), id(pair.narrow)
    if key not in pair.found:
        pair.found[key] = []  # a type that refers to itself: what differs is found where it stands
        pair.found[key] = [*_types(pair), *_values(pair), *_properties(pair), *_items(pair)]
    return pair.found[key]


def _items(pair: Pair) -> list[str]:
    if "items" not in pair.narrow or not _may_be(pair.wide, "array"):
        return []
    return _lost(pair.inner(pair.wide.get("items", {}), pair.narrow["items"], "[]"))


def _branches(schema: Schema) -> list[Schema] | None:
    found = schema.get("anyOf", schema.get("oneOf"))
    return list(found) if isinstance(found, list) else None


def _types_of(schema: Schema) -> set[str] | None:
    """The JSON types that a value may have; None if any."""
    given = schema.get("type")
    if given is None:
        return None
    types = {given} if isinstance(given, str) else set(given)
    return types | {"integer"} if "number" in types else types


def _may_be(schema: Schema, name: str) -> bool:
    types = _types_of(schema)
    return types is None or name in types


def _types(pair: Pair) -> Iterator[str]:
    wide, narrow = _branches(pair.wide), _branches(pair.narrow)
    if wide is not None or narrow is not None:
        kept = narrow if narrow is not None else [pair.narrow]
        for branch in wide if wide is not None else [pair.wide]:
            inner = [pair.inner(branch, other, "") for other in kept]
            if all(_lost(one) for one in inner):
                yield pair.words.type.format(pair.noun, _shown(inner[0].wide))
        return
    types, allowed = _types_of(pair.wide), _types_of(pair.narrow)
    if allowed is not None:
        for name in sorted((types or {"a value of any type"}) - allowed):
            yield pair.words.type.format(pair.noun, name)


def _shown(schema: Schema) -> str:
    return str(schema.get("title") or schema.get("type") or "of another form")


def _values(pair: Pair) -> Iterator[str]:
    wide, narrow, words = pair.wide, pair.narrow, pair.words
    if "enum" in narrow:
        if "enum" not in wide and "const" not in wide:
            yield words.bound.format(pair.noun, "set of values")
        for value in wide.get("enum", [wide["const"]] if "const" in wide else []):
            if value not in narrow["enum"]:
                yield words.value.format(pair.noun, value)
    for name, sign in [*((name, 1) for name in LOWER), *((name, -1) for name in UPPER)]:
        limit = narrow.get(name)
        if limit is not None and (name not in wide or sign * wide[name] < sign * limit):
            yield words.bound.format(pair.noun, name)
    for name in EXACT:
        if name in narrow and wide.get(name) != narrow[name]:
            yield words.other.format(pair.noun, name)


def _properties(pair: Pair) -> Iterator[str]:
    wide, narrow, words = pair.wide, pair.narrow, pair.words
    known, allowed = wide.get("properties", {}), narrow.get("properties", {})
    for name in narrow.get("required", []):
        if name not in wide.get("required", []):
            yield words.missing.format(pair.inner({}, {}, name).noun)
    for name, schema in known.items():
        inner = pair.inner(schema, allowed.get(name, {}), name)
        if name in allowed:
            yield from _lost(inner)
        elif words is _INPUT or narrow.get("additionalProperties") is False:
            yield words.unknown.format(inner.noun)
    if words is _OUTPUT:  # `wide` is what results are now
        gone = [name for name in allowed if name not in known and name not in narrow.get("required", [])]
        yield from (words.unknown.format(pair.inner({}, {}, name).noun) for name in gone)
