"""Bounds the work of engines that try every branch of a union.

pydantic, and jsonschema-rs when it explains, read a part of the value once for each way that leads to it. In a type
whose branches contain each other the ways double with each level, so a few hundred bytes can take hours. Counting
them here is linear in the value.  Must not know: those engines, Python types.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

RawSchema = Mapping[str, Any]
HERE = ("anyOf", "oneOf", "allOf")  # lists of schemas for the value itself
HERE_TOO = ("not", "if", "then", "else")
SCALARS = ("null", "string", "integer", "number", "boolean")


def target(root: object, ref: str) -> Any:
    """The schema that a local `$ref` points to; None where it points to nothing."""
    node: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(step)] if isinstance(node, list) else node[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return node


def has_branches(root: object, schema: RawSchema) -> bool:
    """Whether more than one branch of a schema can take an array or an object."""
    return len(list(_here(root, schema, None))) > 1


def _here(root: object, schema: RawSchema, value: object) -> Iterator[object]:
    """The schemas that apply to the same value and can take an array or an object."""
    if isinstance(schema.get("$ref"), str):
        yield target(root, schema["$ref"])
    tagged = schema.get("discriminator")
    if isinstance(tagged, Mapping) and isinstance(value, dict):
        tag = value.get(tagged.get("propertyName"))
        ref = tagged.get("mapping", {}).get(tag) if isinstance(tag, str) else None
        yield target(root, ref) if ref else {}
        return
    for word in HERE:
        yield from (inner for inner in schema.get(word, ()) if _takes_parts(inner))
    yield from (schema[word] for word in HERE_TOO if word in schema)
    yield from schema.get("dependentSchemas", {}).values()


def _takes_parts(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") not in SCALARS and "const" not in schema


def _inside(schema: RawSchema, value: object) -> Iterator[tuple[object, object]]:
    """Each value in the value that is an array or object, with a schema that applies to it."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        others = [schema[word] for word in ("additionalProperties", "unevaluatedProperties") if word in schema]
        others += schema.get("patternProperties", {}).values()
        for name, inner in value.items():
            if isinstance(inner, dict | list):
                yield from ((each, inner) for each in ([known[name]] if name in known else others))
        return
    rows = schema.get("prefixItems", schema.get("items"))
    first = rows if isinstance(rows, list) else []
    others = [schema[word] for word in ("items", "additionalItems", "contains", "unevaluatedItems") if word in schema]
    for index, inner in enumerate(parts(value)):
        if isinstance(inner, dict | list):
            yield from ((each, inner) for each in ([first[index]] if index < len(first) else others))


def levels(value: object) -> int:
    """How deep the arrays and objects in a value are nested, with the value itself."""
    depth, layer = 0, [value]
    while layer:
        depth += 1
        layer = [inner for part in layer for inner in parts(part)]
    return depth


def parts(value: object) -> Iterable[object]:
    """The values in an array or object."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


ENTRIES = 250_000  # of objects that are not in arrays, in a value that pydantic reads


def entries(value: object) -> int:
    """The entries of the objects in a value, where an array has only those of its largest item."""
    inside = [entries(inner) for inner in parts(value) if isinstance(inner, dict | list)]
    return len(value) + sum(inside) if isinstance(value, dict) else max(inside, default=0)


def affordable(root: object, value: object, *, room: int, share: int) -> bool:
    """Whether reading the value through every branch takes at most `room` steps more than `share` for each pair
    of a schema and a value in it."""
    known: dict[tuple[int, int], int] = {}

    def steps(schema: object, value: object) -> int:
        if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
            return 1
        pair = (id(schema), id(value))
        if pair not in known:
            known[pair] = 1
            around = sum(steps(inner, value) for inner in _here(root, schema, value))
            known[pair] = 1 + around + sum(steps(inner, part) for inner, part in _inside(schema, value))
        return known[pair]

    return steps(root, value) <= room + share * len(known)
