"""From pieces of JSON Schema to one short document: `$defs` only for what is used twice, no titles of classes,
no lists of types.

Knows: JSON Schema 2020-12 as plain dicts.  Must not know: Python types.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
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
            unique = base = re.sub(r"\W+", "_", name).strip("_") or "Type"
            number = 2
            while unique in self.named:
                unique, number = f"{base}{number}", number + 1
            self._names[key] = unique
            self.named[unique] = {}
            self.named[unique] = body()
        return {"$ref": PREFIX + self._names[key]}

    def adopt(self, key: object, name: str, document: Schema) -> Schema:
        """A reference to a schema that another library wrote; its own `$defs` are taken over."""
        key = _hashable(key)

        def adopted(ref: str) -> str:
            old = ref.removeprefix(PREFIX)
            made = self.ref((key, old), old, lambda: tidied(_untitled(document["$defs"][old])))
            return str(made["$ref"])

        def tidied(schema: Schema) -> Schema:
            out = _mapped(schema, tidied)
            if "$ref" in out:
                out["$ref"] = adopted(out["$ref"])
            if "mapping" in out.get("discriminator", {}):
                mapping = {tag: adopted(ref) for tag, ref in out["discriminator"]["mapping"].items()}
                out["discriminator"] = {**out["discriminator"], "mapping": mapping}
            return without_null(out) if self.arguments and out.get("default", ...) is None else out

        root = {word: content for word, content in document.items() if word != "$defs"}
        return tidied(root) if root.keys() == {"$ref"} else self.ref(key, name, lambda: tidied(_untitled(root)))


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


def schemas_in(schema: Schema) -> Iterator[Schema]:
    """The schema, and all schemas in it."""
    yield schema
    for word, content in schema.items():
        inner = content if word in LISTS else content.values() if word in MAPS else [content] if word in SINGLES else ()
        for each in inner:
            if isinstance(each, dict):
                yield from schemas_in(each)


def _refs(schema: Schema) -> list[str]:
    """The names of the definitions that a schema refers to, each as often as it does."""
    names = []
    for inner in schemas_in(schema):
        refs = [inner.get("$ref"), *inner.get("discriminator", {}).get("mapping", {}).values()]
        names += [ref.removeprefix(PREFIX) for ref in refs if isinstance(ref, str) and ref.startswith(PREFIX)]
    return names


def is_recursive(document: Schema) -> bool:
    """Whether a definition of the document contains itself."""
    inside = {name: _refs(body) for name, body in document.get("$defs", {}).items()}
    return any(_reaches_itself(name, inside) for name in inside)


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
