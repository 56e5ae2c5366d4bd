"""How much work an engine that tries every branch of a union has with a value.

pydantic, and jsonschema-rs when it explains, read a part of the value once for each way that leads to it. In a type
whose branches contain each other the ways double with each level, so a few hundred bytes can take hours. Counting
them here is linear in the value.  Must not know: those engines, Python types.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from redstart.schema.emit import LISTS, MAPS, SINGLES

HERE = ("anyOf", "oneOf", "allOf")  # lists of schemas for the value itself
HERE_TOO = ("not", "if", "then", "else")
SCALARS = ("null", "string", "integer", "number", "boolean")


def target(root: Any, ref: str) -> Any:
    """The schema that a local `$ref` points to; None where it points to nothing."""
    node = root
    for step in ref.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(step)] if isinstance(node, list) else node[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return node


def is_tangled(root: Any) -> bool:
    """Whether a schema contains itself and has places where more than one branch can take an array or an object."""
    done: set[int] = set()
    active: set[int] = set()
    loops = branches = False

    def visit(schema: Any) -> None:
        nonlocal loops, branches
        if not isinstance(schema, Mapping) or id(schema) in done:
            loops = loops or id(schema) in active
            return
        done.add(id(schema))
        active.add(id(schema))
        branches = branches or len(list(_here(root, schema, None))) > 1
        for inner in (*_here(root, schema, None), *_parts(schema)):
            visit(inner)
        active.discard(id(schema))

    visit(root)
    return loops and branches


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for word, content in schema.items():
        if word in HERE or word in HERE_TOO or word == "$defs":
            continue
        if word in MAPS:
            yield from content.values()
        elif word in LISTS or isinstance(content, list):
            yield from (inner for inner in content if isinstance(inner, Mapping))
        elif word in SINGLES:
            yield content


def _here(root: Any, schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
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


def _takes_parts(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") not in SCALARS and "const" not in schema


def _inside(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
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
    for index, inner in enumerate(value):
        if isinstance(inner, dict | list):
            yield from ((each, inner) for each in ([first[index]] if index < len(first) else others))


def quoted(value: Any) -> int:
    """The characters that an engine writes which quotes a value, and each value in it, when it explains."""
    total = 0
    queue = [(value, 1)]
    while queue:
        current, depth = queue.pop()
        total += depth * (len(current) if isinstance(current, str) else 8)
        if isinstance(current, dict):
            total += depth * sum(map(len, current))
            queue += ((inner, depth + 1) for inner in current.values())
        elif isinstance(current, list):
            queue += ((inner, depth + 1) for inner in current)
    return total


LACKED = 20_000  # pydantic needs half a kilobyte for each problem


def most_required(schema: Any) -> int:
    """The number of required properties in that part of a document which has most of them."""
    if isinstance(schema, list):
        return max(map(most_required, schema), default=0)
    if not isinstance(schema, Mapping):
        return 0
    own = schema.get("required")
    return max(len(own) if isinstance(own, list) else 0, *map(most_required, schema.values()), 0)


def lacks_too_much(root: Any, value: Any, required: int) -> bool:
    """Whether the objects in a value lack more required properties than an engine could name in bounded memory."""
    objects, queue = 0, [value]
    while queue:
        current = queue.pop()
        objects += isinstance(current, dict)
        inside = current.values() if isinstance(current, dict) else current
        queue += (inner for inner in inside if isinstance(inner, dict | list))
    return objects * required > LACKED and _lacking(root, root, value, {}) > LACKED


def _lacking(root: Any, schema: Any, value: Any, known: dict[tuple[int, int], int]) -> int:
    if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
        return 0
    pair = (id(schema), id(value))
    if pair not in known:
        known[pair] = 0
        ways = [_lacking(root, inner, value, known) for inner in _here(root, schema, value)]
        own = len({*schema.get("required", ())}.difference(value)) if isinstance(value, dict) else 0
        known[pair] = own + (sum(ways) if all(ways) else 0)  # one branch that takes it is enough
        for inner, part in _inside(schema, value):
            known[pair] += _lacking(root, inner, part, known)
            if known[pair] > LACKED:
                break
    return known[pair]


def affordable(root: Any, value: Any, *, room: int, share: int) -> bool:
    """Whether reading the value by way of every branch takes at most `room` steps more than `share` for each pair
    of a schema and a value in it."""
    known: dict[tuple[int, int], int] = {}

    def steps(schema: Any, value: Any) -> int:
        if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
            return 1
        pair = (id(schema), id(value))
        if pair not in known:
            known[pair] = 1
            around = sum(steps(inner, value) for inner in _here(root, schema, value))
            known[pair] = 1 + around + sum(steps(inner, part) for inner, part in _inside(schema, value))
        return known[pair]

    return steps(root, value) <= room + share * len(known)
