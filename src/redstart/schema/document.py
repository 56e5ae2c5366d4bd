"""From pieces of JSON Schema to one short document: `$defs` only for what is used twice, no titles of classes,
no lists of types.

Knows: JSON Schema 2020-12 as plain dicts.  Must not know: Python types.
"""

import re
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

Schema = dict[str, Any]
PREFIX = "#/$defs/"
DECIMAL = "decimal"  # the format of a Decimal, also where pydantic has no name for it

# The keywords whose values are schemas.
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
SINGLES = ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains")


class Defs:
    """The named schemas of one document, while it is being written.

    `arguments` says that it describes what a caller may send. There a field whose default is None is published
    without null, because many clients cannot read a nullable type; null is accepted all the same.
    `titled` says that it describes a form, in which the choices of an Enum have titles.
    """

    def __init__(self, *, arguments: bool = False, titled: bool = False) -> None:
        self.arguments = arguments
        self.titled = titled
        self.named: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def ref(self, key: object, name: str, body: Callable[[], Schema]) -> Schema:
        """A reference to `body()`, written once for each key. Inside of its own body a key refers to itself."""
        key = _hashable(key)
        if key not in self._names:
            self._names[key] = unique = self.free(name)
            self.named[unique] = {}
            self.named[unique] = body()
        return {"$ref": PREFIX + self._names[key]}

    def free(self, name: str) -> str:
        base = re.sub(r"\W+", "_", name).strip("_") or "Type"
        unused, number = base, 2
        while unused in self.named:
            unused, number = f"{base}{number}", number + 1
        return unused

    def adopt(self, key: object, name: str, document: Schema) -> Schema:
        """A reference to a schema that another library wrote; its own `$defs` are taken over."""
        key = _hashable(key)
        if key not in self._names:
            renames: dict[str, str] = {}
            inner = document.get("$defs", {})
            for old in inner:
                fresh = self.free(old)
                self.named[fresh] = {}
                renames[PREFIX + old] = PREFIX + fresh
            for old, body in inner.items():
                self.named[renames[PREFIX + old].removeprefix(PREFIX)] = self._tidied(_untitled(body), renames)
            root = {word: value for word, value in document.items() if word != "$defs"}
            root = self._tidied(_untitled(root), renames)
            if root.keys() == {"$ref"}:
                self._names[key] = root["$ref"].removeprefix(PREFIX)
            else:
                self._names[key] = self.free(name)
                self.named[self._names[key]] = root
        return {"$ref": PREFIX + self._names[key]}

    def _tidied(self, schema: Schema, renames: dict[str, str]) -> Schema:
        out = _mapped(schema, lambda inner: self._tidied(inner, renames))
        if "$ref" in out:
            out["$ref"] = renames.get(out["$ref"], out["$ref"])
        mapping = out.get("discriminator", {}).get("mapping")
        if mapping:
            renamed = {key: renames.get(value, value) for key, value in mapping.items()}
            out["discriminator"] = {**out["discriminator"], "mapping": renamed}
        return without_null(out) if self.arguments and out.get("default", ...) is None else out


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
    inside = {name: _refs(body) for name, body in defs.named.items()}
    uses = Counter(chain(_refs(root), *inside.values()))
    once = {name for name, count in uses.items() if count == 1 and not _reaches_itself(name, inside)}
    kept = {name: body for name, body in defs.named.items() if name not in once and name in uses}
    out = _inline(root, once, defs.named)
    if kept:
        if "$ref" in out:  # readers of a document want its type at the root
            body = defs.named[out["$ref"].removeprefix(PREFIX)]
            out = {**({"type": body["type"]} if "type" in body else {}), **out}
        out = {**out, "$defs": {name: _inline(body, once, defs.named) for name, body in kept.items()}}
    return out


NULL: Schema = {"type": "null"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}


def any_of(branches: list[Schema]) -> Schema:
    """One schema for several: `anyOf`, never a list of types, which many clients cannot read."""
    flat: list[Schema] = []
    for branch in branches:
        for inner in branch["anyOf"] if branch.keys() == {"anyOf"} else [branch]:
            if inner == {}:
                return {}
            if inner not in flat:
                flat.append(inner)
    if INTEGER in flat and NUMBER in flat:
        flat.remove(INTEGER)
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def noted(schema: Schema, notes: Schema) -> Schema:
    """The schema of a type with the notes of its annotation. Choices are for the branches beside null, which they
    would refuse."""
    if "oneOf" in notes and "anyOf" in schema:
        branches = [branch if branch == NULL else {**branch, "oneOf": notes["oneOf"]} for branch in schema["anyOf"]]
        schema = {**schema, "anyOf": branches}
        notes = {word: note for word, note in notes.items() if word != "oneOf"}
    return {**schema, **notes}


def without_null(schema: Schema) -> Schema:
    """The schema of a field whose default is None, without that default and without null."""
    out = {key: value for key, value in schema.items() if key != "default"}
    if "enum" in out:
        out["enum"] = [value for value in out["enum"] if value is not None] or out["enum"]
    branches = [branch for branch in out.get("anyOf", ()) if branch != NULL]
    return {**any_of(branches), **{key: out[key] for key in out if key != "anyOf"}} if branches else out


def _mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with another one in place of each schema in it."""

    def changed(inner: Any) -> Any:
        return change(inner) if isinstance(inner, dict) else inner

    out = dict(schema)
    for word, content in schema.items():
        if word in LISTS:
            out[word] = [changed(inner) for inner in content]
        elif word in MAPS:
            out[word] = {name: changed(inner) for name, inner in content.items()}
        elif word in SINGLES:
            out[word] = changed(content)
    return out


def _untitled(schema: Schema) -> Schema:
    """The schema without the name of a class as its title. The title of a field is kept, because an author wrote it."""
    return {word: value for word, value in schema.items() if word != "title"}


def _refs(schema: Schema) -> list[str]:
    """The names of the definitions that a schema refers to, each as often as it does."""
    refs = [schema.get("$ref"), *schema.get("discriminator", {}).get("mapping", {}).values()]
    names = [ref.removeprefix(PREFIX) for ref in refs if isinstance(ref, str) and ref.startswith(PREFIX)]

    def collect(inner: Schema) -> Schema:
        names.extend(_refs(inner))
        return inner

    _mapped(schema, collect)
    return names


def _reaches_itself(name: str, inside: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    queue = [name]
    while queue:
        fresh = set(inside.get(queue.pop(), ())) - seen
        seen |= fresh
        queue += fresh
    return name in seen


def _inline(schema: Schema, once: set[str], named: dict[str, Schema]) -> Schema:
    out = _mapped(schema, lambda inner: _inline(inner, once, named))
    name = out.get("$ref", "").removeprefix(PREFIX)
    if name in once:
        del out["$ref"]
        out = {**_inline(named[name], once, named), **out}
    return out
