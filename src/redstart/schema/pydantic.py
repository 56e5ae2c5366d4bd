"""Types that pydantic reads: models, constrained types, validators. Loaded only if the user's code imported pydantic.

Knows: pydantic's TypeAdapter.  Must not know: anything else of this package but the contract of a node.
"""

import re
import sys
import types
import typing
from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import Any

import msgspec

from redstart.schema import errors
from redstart.schema.cost import ENTRIES, affordable, entries, has_branches
from redstart.schema.document import DECIMAL, NULL, Defs, Schema, is_recursive, schemas_in
from redstart.schema.errors import SHOWN_PROBLEMS, Problem, ValuePath, cut, join, show, show_typed, spelled
from redstart.schema.guards import engine
from redstart.schema.nodes import ArrayNode, RecordNode, parsed_string, remembered
from redstart.schema.scalars import INVALID, KINDS, Node, Walk

TOO_DEEP_FOR_BRANCHES = "it has more levels than a value of this type may have"
TOO_MANY = f"it has more than {ENTRIES:,} entries in objects that are not in arrays"
LARGE = 16_384  # bytes; pydantic needs half a kilobyte for each problem, and there may be many in every two bytes
NULLS = 8  # times that a value is read again without the nulls that were refused
WORDS = {"object": RecordNode.words, "array": ArrayNode.words, "string": KINDS[str].words}


@cache
def _generator() -> Any:
    """pydantic's writer of schemas, without the titles that it makes from names."""
    base: Any = sys.modules["pydantic.json_schema"].GenerateJsonSchema

    class Generator(base):  # type: ignore[misc]
        def field_title_should_be_set(self, schema: Schema) -> bool:
            return False

        def model_schema(self, schema: Schema) -> Schema:
            return _described(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: Schema) -> Schema:
            return _described(super().dataclass_schema(schema), schema["cls"])

        def decimal_schema(self, schema: Schema) -> Schema:
            out: Schema = super().decimal_schema(schema)
            for branch in out.get("anyOf", [out]):
                if branch.get("type") == "string":
                    branch["format"] = DECIMAL
            return out

    return Generator


def _described(schema: Schema, cls: Any) -> Schema:
    """The schema with the descriptions in the annotations of fields: `Annotated[str, "where to go"]`."""
    properties = schema.get("properties", {})
    for name, field in getattr(cls, "__pydantic_fields__", {}).items():
        inner = properties.get(field.validation_alias or name, properties.get(name))
        _describe(inner, typing.Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation)
    return schema


def _describe(schema: object, annotation: object) -> None:
    """Add the descriptions in annotations to a schema and to the schemas in it."""
    if not isinstance(schema, dict):
        return
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        _describe(schema, args[0])
        words = [item for item in args[1:] if isinstance(item, str)]
        if words:
            schema.setdefault("description", words[-1])
        return
    real = [arg for arg in args if arg is not type(None)]
    if origin in (typing.Union, types.UnionType) and len(real) == 1:
        _describe(schema, real[0])  # of the only branch of an Optional, as everywhere
        return
    schema = next((branch for branch in schema.get("anyOf", ()) if branch != NULL), schema)
    for inner, arg in zip(schema.get("prefixItems", ()), args, strict=False):
        _describe(inner, arg)
    if args and "prefixItems" not in schema:
        _describe(schema.get("items"), args[0])
        _describe(schema.get("additionalProperties"), args[-1])


class PydanticNode(Node):
    """A value that pydantic reads by its own rules: first strictly, then in its lax mode."""

    __slots__ = ("cls", "costly", "document", "engines", "words")
    rank = 29

    def __init__(self, annotation: object, fail: Callable[[object, str], Exception]) -> None:
        super().__init__()
        pydantic = sys.modules["pydantic"]
        self.cls = annotation
        try:
            adapter = pydantic.TypeAdapter(annotation)
            self.document: Schema = adapter.json_schema(schema_generator=_generator())
            tangled = is_recursive(self.document)
            costly = tangled and any(has_branches(self.document, inner) for inner in schemas_in(self.document))
            by_name = adapter.json_schema(schema_generator=_generator(), by_alias=False) if costly else None
            adapter.rebuild()  # a model may be built on first use (`defer_build`)
            self.engines = [engine(adapter.core_schema, fail_fast=fail_fast) for fail_fast in (False, True)]
        except Exception as error:
            raise fail(annotation, f"is refused by pydantic: {error}") from error
        self.words = WORDS.get(str(self.document.get("type")), "a valid value")
        self.costly: Schema | None = _both(self.document, by_name) if costly else None

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        if type(value) not in (list, dict):
            return self._read(value, path, walk)
        if self.costly is not None and not affordable(self.costly, value, room=6_000, share=8):
            return walk.refuse(errors.refused, path, TOO_DEEP_FOR_BRANCHES)
        return remembered(self, self._read, value, path, walk)

    def _read(self, value: object, path: ValuePath, walk: Walk) -> object:
        raw = msgspec.json.encode(value)
        large = len(raw) > LARGE
        if large and entries(value) > ENTRIES:
            return walk.refuse(errors.refused, path, TOO_MANY)
        engine = self.engines[large]
        error_type = sys.modules["pydantic"].ValidationError
        try:
            return engine.validate_json(raw, strict=True)
        except error_type as error:
            if walk.enough == 1:  # a lax reading follows, and says what is wrong
                return walk.refuse(errors.refused, path, error.title)
            if not walk.lax:
                return self._refuse(error, path, walk)
        try:
            return engine.validate_python(value)
        except error_type as error:
            inner = parsed_string(value, dict, walk)
            inner = parsed_string(value, list, walk) if inner is value else inner
            if inner is not value:
                return self.read(inner, path, walk)
            if b"null" in raw:
                return self._without_nulls(engine, value, error, path, walk)
            return self._refuse(error, path, walk)

    def _without_nulls(self, engine: Any, value: object, error: Any, path: ValuePath, walk: Walk) -> object:
        """Once more without the nulls that were refused: for an optional field null means absent.

        An engine that fails fast names one null in an array, so the same field of its other items is read so too.
        """
        rest, left = None, error
        for _ in range(NULLS):
            nulls = [item["loc"] for item in left.errors() if item["input"] is None]
            if not nulls:
                break
            rest = msgspec.json.decode(msgspec.json.encode(value)) if rest is None else rest
            for null in nulls:
                _remove(rest, null, everywhere=engine is self.engines[True])
            try:
                return engine.validate_python(rest)
            except sys.modules["pydantic"].ValidationError as again:
                left = again
        return self._refuse(error, path, walk, None if left is error else {item["loc"] for item in left.errors()})

    def _refuse(self, error: Any, path: ValuePath, walk: Walk, only: Container[object] | None = None) -> object:
        items = error.errors(include_url=False)
        for item in items if only is None else [item for item in items if item["loc"] in only]:
            inner = path
            for step in item["loc"] if walk.count < SHOWN_PROBLEMS else ():  # the others are only counted
                inner = join(inner, step)
            walk.refuse(_problem, inner, item)
        return INVALID

    def emit(self, defs: Defs) -> Schema:
        name = getattr(self.cls, "__name__", "Model")
        return defs.adopt(self.cls, name, self.document)


def _remove(value: object, path: Sequence[Any], *, everywhere: bool) -> None:
    """Remove the null at `path`, which also names the branches of unions on the way; `everywhere`: in all items."""
    for index, step in enumerate(path[:-1]):
        if isinstance(value, list) and isinstance(step, int):
            for inner in value if everywhere else [value[step]]:
                _remove(inner, path[index + 1 :], everywhere=everywhere)
            return
        if isinstance(value, dict) and step in value:
            value = value[step]
    if path and isinstance(value, dict) and value.get(path[-1], ...) is None:
        del value[path[-1]]


def _both(aliased: Any, named: object) -> Any:
    """One document for the names that a model accepts for its fields."""
    if isinstance(aliased, dict) and isinstance(named, dict):
        return {key: _both(aliased.get(key, named.get(key)), named.get(key)) for key in {**aliased, **named}}
    if isinstance(aliased, list) and isinstance(named, list) and len(aliased) == len(named):
        return [_both(*pair) for pair in zip(aliased, named, strict=True)]
    return aliased


def _problem(path: ValuePath, item: Any) -> Problem:
    text = item["msg"]
    if item["type"] == "missing":
        return errors.missing(path, "")
    if item["type"] == "union_tag_invalid":
        tags = re.findall("'([^']*)'", item["ctx"]["expected_tags"])
        name = item["ctx"]["discriminator"].strip("'")
        return errors.not_a_choice(join(path, name), errors.one_of(tags), item["ctx"]["tag"], tags)
    where = spelled(path)
    if text.startswith("Input should be "):
        typed = item["type"].endswith(("_type", "_parsing"))
        return Problem(
            where, "must be " + text.removeprefix("Input should be "), (show_typed if typed else show)(item["input"])
        )
    reason = cut(text.removeprefix("Value error, "))
    return Problem(where, reason if reason.startswith("must be ") else f"is refused: {reason}", show(item["input"]))
