"""A validator for JSON Schemas that the user wrote by hand.

The common keywords are built in, as one table. A schema with any other keyword is given whole to jsonschema-rs
(the extra `validate`); no keyword goes unvalidated, and no `$ref` leaves the document.
Must not know: Python types, functions.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from redstart.schema.cost import affordable, is_tangled, quoted, target
from redstart.schema.errors import (
    ENOUGH,
    SHOWN_PROBLEMS,
    Findings,
    Place,
    Problem,
    ShapeError,
    join,
    missing,
    not_a_choice,
    not_allowed,
    one_of,
    refused,
    show,
    unknown,
    wrong_type,
    wrong_value,
)

ANNOTATIONS = {
    *("title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly", "format"),
    *("$schema", "$comment", "$id", "$defs", "definitions", "contentEncoding", "contentMediaType"),
}


class SchemaError(ValueError):
    """A schema that cannot be used; the message says where it is and why."""


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value) and value.is_integer())


TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", _is_integer),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}

Check = Callable[[Any, Any, Place, "Run", Mapping[str, Any]], None]


class Walker:
    """One schema document: its root, for `$ref`."""

    def __init__(self, root: Any, where: str, *, draft7: bool = False) -> None:
        self.root = root
        self.where = where
        self.draft7 = draft7
        self._texts: dict[int, frozenset[str]] = {}

    def texts(self, choices: Any) -> frozenset[str]:
        """The texts in an `enum` of this document: one that is right is found at once in a long list."""
        known = self._texts.get(id(choices))
        if known is None:
            known = self._texts[id(choices)] = frozenset(choice for choice in choices if isinstance(choice, str))
        return known

    def target(self, ref: str) -> Any:
        found = target(self.root, ref)
        if found is None:
            raise SchemaError(f"{self.where}: $ref {ref!r} points to nothing in this schema")
        return found

    def referred(self, schema: Any) -> Any:
        """The schema that a `$ref` stands for."""
        while isinstance(schema, Mapping) and str(schema.get("$ref", "")).startswith("#/"):
            schema = self.target(schema["$ref"])
        return schema

    def without_nulls(self, schema: Any, value: Any) -> Any:
        schema = self.referred(schema)
        if not isinstance(schema, Mapping):
            return value
        if isinstance(value, list):
            return [self.without_nulls(schema.get("items"), item) for item in value]
        if not isinstance(value, dict):
            return value
        inner, required = schema.get("properties", {}), schema.get("required", ())
        return {
            name: self.without_nulls(inner.get(name), item)
            for name, item in value.items()
            if item is not None or name in required or not self._refuses_null(inner.get(name, True))
        }

    def with_defaults(self, schema: Any, value: Any) -> Any:
        schema = self.referred(schema)
        if not isinstance(schema, Mapping):
            return value
        if isinstance(value, list):
            return [self.with_defaults(schema.get("items"), item) for item in value]
        if not isinstance(value, dict):
            return value
        inner = schema.get("properties", {})
        absent = {
            name: copy.deepcopy(one["default"])  # as it is written: a schema that contains itself would have no end
            for name, one in inner.items()
            if name not in value and isinstance(one, Mapping) and "default" in one
        }
        return {**absent, **{name: self.with_defaults(inner.get(name), item) for name, item in value.items()}}

    def _refuses_null(self, schema: Any) -> bool:
        run = Run(self)
        run.check(schema, None, "")
        return run.count > 0


class Run(Findings):
    """One check of one value."""

    __slots__ = ("_seen", "walker")

    def __init__(self, walker: Walker) -> None:
        super().__init__()
        self.walker = walker
        self._seen: set[tuple[int, int]] = set()

    def check(self, schema: Any, value: Any, path: Place) -> None:
        if schema is True or schema == {} or self.count >= ENOUGH:
            return
        if schema is False:
            self.add(not_allowed, path, value)
            return
        if isinstance(value, dict | list | tuple):
            pair = (id(schema), id(value))
            if pair in self._seen:  # by way of another $ref: its problems are written down
                return
            self._seen.add(pair)
        for keyword, content in schema.items():
            check = CHECKS.get(keyword)
            if check is not None:
                check(content, value, path, self, schema)


def same(left: Any, right: Any) -> bool:
    """Equality as JSON has it: 1 is 1.0, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _type(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    names = [content] if isinstance(content, str) else content
    if not any(TYPES[name][1](value) for name in names):
        run.add(wrong_type, path, " or ".join(TYPES[name][0] for name in names), value)


def _enum(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    found = value in run.walker.texts(content) if isinstance(value, str) else any(same(each, value) for each in content)
    if not found:
        run.add(not_a_choice, path, one_of(content), value, content)


def _const(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    if not same(content, value):
        run.add(wrong_value, path, show(content), value)


def _properties(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    if isinstance(value, dict):
        for name, inner in content.items():
            if name in value:
                run.check(inner, value[name], join(path, name))


def _required(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    if isinstance(value, dict):
        for name in content:
            if name not in value:
                inner = schema.get("properties", {}).get(name)
                kind = inner.get("type", "") if isinstance(inner, dict) else ""
                run.add(missing, join(path, name), kind if isinstance(kind, str) else " or ".join(kind))


def _additional(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    if not isinstance(value, dict):
        return
    known = schema.get("properties", {})
    names = list(known)
    for name in value:
        if name in known:
            continue
        if content is False:
            run.add(unknown, join(path, name), name, names)
        else:
            run.check(content, value[name], join(path, name))


def _items(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            run.check(content, item, join(path, index))


def _ref(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
    run.check(run.walker.target(content), value, path)


def _bound(kinds: Any, measure: Callable[[Any], Any], fits: Callable[[Any, Any], bool], words: str) -> Check:
    def check(content: Any, value: Any, path: Place, run: "Run", schema: Any) -> None:
        if isinstance(value, kinds) and not isinstance(value, bool) and not fits(measure(value), content):
            run.add(wrong_value, path, words.format(content), value)

    return check


def _itself(value: Any) -> Any:
    return value


def _at_least(size: Any, bound: Any) -> bool:
    return bool(size >= bound)


def _at_most(size: Any, bound: Any) -> bool:
    return bool(size <= bound)


CHECKS: dict[str, Check] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "$ref": _ref,
    "minimum": _bound(int | float, _itself, _at_least, "at least {}"),
    "maximum": _bound(int | float, _itself, _at_most, "at most {}"),
    "exclusiveMinimum": _bound(int | float, _itself, lambda size, bound: bool(size > bound), "more than {}"),
    "exclusiveMaximum": _bound(int | float, _itself, lambda size, bound: bool(size < bound), "less than {}"),
    "minLength": _bound(str, len, _at_least, "at least {} characters long"),
    "maxLength": _bound(str, len, _at_most, "at most {} characters long"),
    "minItems": _bound(list | tuple, len, _at_least, "at least {} items long"),
    "maxItems": _bound(list | tuple, len, _at_most, "at most {} items long"),
    "minProperties": _bound(dict, len, _at_least, "at least {} entries long"),
    "maxProperties": _bound(dict, len, _at_most, "at most {} entries long"),
}


def _is_name_list(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(name, str) for name in content)


def _is_type(content: Any) -> bool:
    names = [content] if isinstance(content, str) else content
    return _is_name_list(names) and bool(names) and all(name in TYPES for name in names)


def _is_number(content: Any) -> bool:
    return type(content) in (int, float)


def _is_count(content: Any) -> bool:
    return _is_integer(content) and content >= 0


def _is_map(content: Any) -> bool:
    return isinstance(content, Mapping)


def _is_schema(content: Any) -> bool:
    return isinstance(content, Mapping | bool)


# What the content of a keyword must look like; checked when the schema is compiled.
WELL_FORMED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, "a JSON type name or a list of them"),
    "enum": (lambda content: isinstance(content, list), "a list"),
    "required": (_is_name_list, "a list of names"),
    "properties": (_is_map, "an object"),
    "$defs": (_is_map, "an object"),
    "definitions": (_is_map, "an object"),
    "additionalProperties": (_is_schema, "a schema"),
    "items": (_is_schema, "a schema (a list of schemas is prefixItems, or draft-07 by its $schema)"),
    "$ref": (lambda content: isinstance(content, str), "a string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_is_count, "a whole number, 0 or more")),
    **dict.fromkeys(("minProperties", "maxProperties"), (_is_count, "a whole number, 0 or more")),
}


class Validator:
    """A compiled schema: `validator.check(value)` refuses what does not fit, in the words of `problems.py`."""

    def __init__(self, schema: Any, where: str, engine: Any = None) -> None:
        self.schema = schema
        self._walker = Walker(schema, where)
        self._engine = engine
        self._tangled = engine is not None and is_tangled(schema)

    def check(self, value: Any, noun: str = "argument") -> None:
        """ShapeError names the first few things that are wrong."""
        if self._engine is None:
            run = Run(self._walker)
            run.check(self.schema, value, "")
            if run.count:
                raise run.error(noun)
        elif not self._fits(value, noun):
            raise self._explained(value, noun)

    def _fits(self, value: Any, noun: str) -> bool:
        try:
            return bool(self._engine.is_valid(value))
        except ValueError as error:  # more levels than the engine can read
            raise ShapeError([refused("", f"it is nested too deeply ({error})")], noun=noun) from None

    def _explained(self, value: Any, noun: str) -> ShapeError:
        # Where branches contain each other, the engine lists the errors of every way through them.
        if self._tangled and not affordable(self.schema, value, room=2_000, share=1):
            words = "it does not fit the schema, and has too many levels to say where"
            return ShapeError([refused("", words)], noun=noun)
        if quoted(value) > QUOTED:
            return ShapeError([refused("", "it does not fit the schema, and is too large to say where")], noun=noun)
        told: dict[Problem, None] = {}
        more = 0
        errors = self._engine.iter_errors(value)
        while len(told) < SHOWN_PROBLEMS and (error := next(errors, None)) is not None:
            found = _told(error, self._walker).error()
            told.update(dict.fromkeys(found.problems))
            more += found.more
        return ShapeError(list(told), noun=noun, more=more + sum(1 for _ in islice(errors, ENOUGH)))

    def without_nulls(self, value: Any) -> Any:
        """A copy of the value without the properties that are null, optional and not nullable: null means absent."""
        return self._walker.without_nulls(self.schema, value)

    def with_defaults(self, value: Any) -> Any:
        """A copy of the value in which absent properties, at every level, have the schema's defaults."""
        return self._walker.with_defaults(self.schema, value)


# Keywords that look at nothing but their own value: for these the engine's errors can be said in our words.
SAID_ALIKE = CHECKS.keys() - {"properties", "additionalProperties", "items", "$ref"}


def _told(error: Any, walker: Walker) -> Findings:
    path: Place = ""
    for step in error.instance_path:
        path = join(path, step)
    keyword = error.schema_path[-1] if error.schema_path else ""
    run = Run(walker)
    try:
        parent = walker.root
        for step in error.schema_path[:-1]:
            parent = walker.target(parent["$ref"]) if step == "$ref" else parent[step]
        if keyword == "additionalProperties":
            known = list(parent.get("properties", {}))
            for name in error.kind.unexpected:
                run.add(unknown, join(path, name), name, known)
        if keyword in SAID_ALIKE:
            CHECKS[str(keyword)](parent[keyword], error.instance, path, run, parent)
    except (KeyError, IndexError, TypeError, AttributeError, SchemaError):
        pass  # a place that only the engine can find; its own words will do
    if not run.count:
        run.add(refused, path, error.message)
    return run


def compile_schema(schema: Mapping[str, Any], *, where: str) -> Validator:
    """Check the schema itself and compile it, or raise SchemaError naming `where`.

    >>> compile_schema({"type": "integer"}, where="tool t").check("x")
    Traceback (most recent call last):
    redstart.schema.errors.ShapeError: The argument must be an integer, got the string "x".
    """
    walker = Walker(schema, where, draft7=_is_draft7(schema, where))
    foreign = sorted(set(_foreign_words(schema, walker, "#")))
    _refuse_remote(schema, where)
    return Validator(schema, where, _engine(walker, foreign) if foreign else None)


def _foreign_words(schema: Any, walker: Walker, at: str) -> Iterator[str]:
    """The keywords that are not built in; raises for those that are malformed."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise SchemaError(f"{walker.where}: {at} must be a schema, not {show(schema)}")
    if walker.draft7 and "$ref" in schema and len(schema) > 1:
        yield "$ref"  # draft-07 ignores what stands beside it
    for keyword, content in schema.items():
        if walker.draft7 and keyword == "items" and isinstance(content, list):
            yield keyword  # one schema for each place
            continue
        fits, words = WELL_FORMED.get(keyword, (None, ""))
        if fits is not None and not fits(content):
            raise SchemaError(f"{walker.where}: {at}/{keyword} must be {words}, not {show(content)}")
        if keyword == "$ref":
            _refuse_ref(content, walker)
        elif keyword in ("properties", "$defs", "definitions"):
            for name, inner in content.items():
                yield from _foreign_words(inner, walker, f"{at}/{keyword}/{name}")
        elif keyword in ("items", "additionalProperties"):
            yield from _foreign_words(content, walker, f"{at}/{keyword}")
        elif keyword not in CHECKS and keyword not in ANNOTATIONS and not keyword.startswith("x-"):
            yield keyword


def _refuse_ref(ref: str, walker: Walker) -> None:
    seen = []
    while True:
        if ref in seen:
            raise SchemaError(f"{walker.where}: $ref {ref!r} refers to itself")
        seen.append(ref)
        if not ref.startswith("#"):
            raise SchemaError(f"{walker.where}: $ref {ref!r} leaves the document; only local references are followed")
        if ref != "#" and not ref.startswith("#/"):
            return  # an anchor: its $anchor keyword sends the schema to jsonschema-rs
        target = walker.target(ref)
        if not isinstance(target, Mapping | bool):
            raise SchemaError(f"{walker.where}: $ref {ref!r} does not point to a schema")
        if not isinstance(target, Mapping) or not isinstance(target.get("$ref"), str):
            return
        ref = target["$ref"]


QUOTED = 4_000_000  # characters; the engine needs up to ten times as much memory
BACKTRACKED = 10_000  # steps for one text
VALUES = ("const", "enum", "default", "examples")


def _refuse_remote(node: Any, where: str) -> None:
    """No `$ref` may leave the document, in keywords that are not built in either."""
    if isinstance(node, Mapping):
        for keyword, content in node.items():
            if keyword in ("$ref", "$dynamicRef") and isinstance(content, str) and not content.startswith("#"):
                raise SchemaError(f"{where}: $ref {content!r} leaves the document; only local references are followed")
            if keyword not in VALUES:
                _refuse_remote(content, where)
    elif isinstance(node, list):
        for item in node:
            _refuse_remote(item, where)


DIALECTS = {"https://json-schema.org/draft/2020-12/schema": False, "http://json-schema.org/draft-07/schema": True}


def _is_draft7(schema: Mapping[str, Any], where: str) -> bool:
    """Whether `$schema` says draft-07; without it a schema is of 2020-12, as MCP has it."""
    named: Any = schema.get("$schema", next(iter(DIALECTS)))
    known = DIALECTS.get(named.removesuffix("#")) if isinstance(named, str) else None
    if known is None:
        raise SchemaError(f"{where}: $schema {show(named)} is not supported; these are: {', '.join(DIALECTS)}")
    return known


def _engine(walker: Walker, foreign: list[str]) -> Any:
    schema, where = walker.root, walker.where
    try:
        import jsonschema_rs
    except ImportError:
        raise SchemaError(
            f'{where}: the keyword {", ".join(foreign)} needs the extra validator: pip install "redstart[validate]"'
        ) from None
    try:
        made: Any = jsonschema_rs.Draft7Validator if walker.draft7 else jsonschema_rs.Draft202012Validator
        return made(schema, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError:
        pass  # a pattern that looks around or back, perhaps: those are tried, for a limited number of steps
    try:
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKED)
        return made(schema, pattern_options=patterns)
    except ValueError as error:
        raise SchemaError(f"{where}: {error}") from error
