"""From pieces of JSON Schema to one lean document: `$defs` only where they pay, no titles of classes, no anyOf noise.

Knows: JSON Schema 2020-12 as plain dicts.  Must not know: Python types.
"""

import re
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
PREFIX = "#/$defs/"

# Keywords that speak about values of one type only, so that branches of different types can share one schema.
OWNED = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
    "object": {
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
    },
    "boolean": set[str](),
    "null": set[str](),
}
OWNED["integer"] = OWNED["number"]

# Where schemas hide inside a schema.
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
SINGLES = ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains")


class Defs:
    """The named schemas of one document, while it is being written."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def ref(self, key: object, name: str, body: Callable[[], Schema]) -> Schema:
        """A reference to `body()`, written once per key; a key met inside its own body refers to itself."""
        key = _hashable(key)
        if key not in self._names:
            self._names[key] = unique = self.free(name)
            self.named[unique] = {}
            self.named[unique] = body()
        return {"$ref": PREFIX + self._names[key]}

    def free(self, name: str) -> str:
        base = re.sub(r"\W+", "_", name).strip("_") or "Type"
        taken, number = base, 2
        while taken in self.named:
            taken, number = f"{base}{number}", number + 1
        return taken

    def adopt(self, key: object, name: str, foreign: Schema) -> Schema:
        """A reference to a schema that another library wrote; its own `$defs` are taken over."""
        key = _hashable(key)
        if key not in self._names:
            renames: dict[str, str] = {}
            inner = foreign.get("$defs", {})
            for old in inner:
                fresh = self.free(old)
                self.named[fresh] = {}
                renames[PREFIX + old] = PREFIX + fresh
            for old, body in inner.items():
                self.named[renames[PREFIX + old].removeprefix(PREFIX)] = _tidied(_untitled(body), renames)
            root = _tidied(_untitled({word: value for word, value in foreign.items() if word != "$defs"}), renames)
            if root.keys() == {"$ref"}:
                self._names[key] = root["$ref"].removeprefix(PREFIX)
            else:
                self._names[key] = self.free(name)
                self.named[self._names[key]] = root
        return {"$ref": PREFIX + self._names[key]}


def _hashable(key: object) -> object:
    try:
        hash(key)
    except TypeError:
        return id(key)
    return key


def finish(root: Schema, defs: Defs) -> Schema:
    """The document: definitions used once are written in place, the others follow under `$defs`."""
    if not defs.named:
        return root
    uses: dict[str, int] = {}
    for schema in (root, *defs.named.values()):
        _count(schema, uses)
    looped = {name for name in defs.named if _reaches(name, name, defs.named)}
    once = {name for name, count in uses.items() if count == 1 and name not in looped}
    kept = {name: body for name, body in defs.named.items() if name not in once and name in uses}
    out = _inline(root, once, defs.named)
    if kept:
        if "$ref" in out:  # readers of a document want its type at the root
            body = defs.named[out["$ref"].removeprefix(PREFIX)]
            out = {**({"type": body["type"]} if "type" in body else {}), **out}
        out = {**out, "$defs": {name: _inline(body, once, defs.named) for name, body in kept.items()}}
    return out


def any_of(branches: list[Schema]) -> Schema:
    """One schema for several: a list of types where that says the same, else `anyOf`."""
    flat: list[Schema] = []
    for branch in branches:
        for inner in branch["anyOf"] if branch.keys() == {"anyOf"} else [branch]:
            if inner == {}:
                return {}
            if inner not in flat:
                flat.append(inner)
    if len(flat) == 1:
        return flat[0]
    return _merged(flat) or {"anyOf": flat}


def _merged(branches: list[Schema]) -> Schema | None:
    types: list[str] = []
    rest: Schema = {}
    listed = [branch for branch in branches if "enum" in branch]
    if listed:
        return _merged_enum(branches, listed)
    for branch in branches:
        kinds = branch.get("type")
        if kinds is None:
            return None
        kinds = [kinds] if isinstance(kinds, str) else kinds
        allowed = set().union(*(OWNED[kind] for kind in kinds))
        own = branch.keys() - {"type"}
        if not own <= allowed or own & rest.keys() or set(kinds) & set(types):
            return None
        if own & OWNED["number"] and {"integer", "number"} & set(types):
            return None
        if {"integer", "number"} & set(kinds) and rest.keys() & OWNED["number"]:
            return None
        types += kinds
        rest.update({key: value for key, value in branch.items() if key != "type"})
    if "number" in types and "integer" in types:
        types.remove("integer")
    return {"type": types[0] if len(types) == 1 else types, **rest}


def _merged_enum(branches: list[Schema], listed: list[Schema]) -> Schema | None:
    # Only "these values or null" can be said as one enum.
    others = [branch for branch in branches if branch not in listed]
    if len(listed) != 1 or others != [{"type": "null"}] or not listed[0].keys() <= {"type", "enum"}:
        return None
    values = listed[0]["enum"]
    kind = listed[0].get("type")
    merged: Schema = {"enum": values if None in values else [*values, None]}
    return {"type": [kind, "null"], **merged} if isinstance(kind, str) else merged


def _children(schema: Schema) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in schema.items() if key in LISTS or key in MAPS or key in SINGLES]


def _subschemas(schema: Schema) -> list[Schema]:
    out: list[Any] = []
    for key, value in _children(schema):
        out += value if key in LISTS else value.values() if key in MAPS else [value]
    return [inner for inner in out if isinstance(inner, dict)]


def _each(value: Any, change: Callable[[Schema], Schema], key: str) -> Any:
    if key in LISTS:
        return [change(item) if isinstance(item, dict) else item for item in value]
    if key in MAPS:
        return {name: change(item) if isinstance(item, dict) else item for name, item in value.items()}
    return change(value) if isinstance(value, dict) else value


def _mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    out = dict(schema)
    for key, value in _children(schema):
        out[key] = _each(value, change, key)
    return out


def _untitled(schema: Schema) -> Schema:
    """Without the name of a class, which says nothing to a reader; a field's title was written for one."""
    return {word: value for word, value in schema.items() if word != "title"}


def _tidied(schema: Schema, renames: dict[str, str]) -> Schema:
    out = _mapped(schema, lambda inner: _tidied(inner, renames))
    if "$ref" in out:
        out["$ref"] = renames.get(out["$ref"], out["$ref"])
    mapping = out.get("discriminator", {}).get("mapping")
    if mapping:
        renamed = {key: renames.get(value, value) for key, value in mapping.items()}
        out["discriminator"] = {**out["discriminator"], "mapping": renamed}
    return _joined(out)


def _joined(schema: Schema) -> Schema:
    """The schema with its `anyOf` said as a list of types, where that says the same."""
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    joined = _merged(schema["anyOf"])
    return schema if joined is None or joined.keys() & rest.keys() else {**joined, **rest}


def _count(schema: Schema, uses: dict[str, int]) -> None:
    for inner in _subschemas(schema):
        _count(inner, uses)
    targets = [schema.get("$ref"), *schema.get("discriminator", {}).get("mapping", {}).values()]
    for target in targets:
        if isinstance(target, str) and target.startswith(PREFIX):
            name = target.removeprefix(PREFIX)
            uses[name] = uses.get(name, 0) + 1


def _reaches(start: str, goal: str, named: dict[str, Schema]) -> bool:
    seen: set[str] = set()
    queue = [start]
    while queue:
        uses: dict[str, int] = {}
        _count(named.get(queue.pop(), {}), uses)
        if goal in uses:
            return True
        queue += uses.keys() - seen
        seen |= uses.keys()
    return False


def _inline(schema: Schema, once: set[str], named: dict[str, Schema]) -> Schema:
    out = _mapped(schema, lambda inner: _inline(inner, once, named))
    name = out.get("$ref", "").removeprefix(PREFIX)
    if name in once:
        del out["$ref"]
        out = {**_inline(named[name], once, named), **out}
    return _joined(out)
