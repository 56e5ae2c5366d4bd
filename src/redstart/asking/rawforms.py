"""Forms written by hand, as a JSON Schema: what no client could show is refused at once, by field and keyword.

Knows: which keywords a form may have, and of which values.  Must not know: Python types, dialects, answers.
Spec: /specification/2026-07-28/schema, PrimitiveSchemaDefinition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from redstart.asking.choices import LISTINGS, FormError, Option, options_of
from redstart.asking.fields import FORMATS, LIMITS, WORDS, Field, is_secret, secret, sent
from redstart.schema.errors import show
from redstart.schema.patterns import longest

ROOT: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "$schema", "$id", "$comment", *WORDS}
)
ANNOTATIONS: Final = frozenset({*WORDS, "default", "examples", "deprecated", "$comment", "type"})
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
CHOICES: Final = ("enum", "enumNames", "oneOf", "const")
FITTING: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format", *CHOICES),
    "integer": (*BOUNDS, *CHOICES),
    "number": (*BOUNDS, *CHOICES),
    "boolean": (),
    "array": ("minItems", "maxItems", "uniqueItems", "items"),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())  # 1.0 is an integer in JSON Schema


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and bool(value >= 0)


EXACT: Final = 2**53
"""Below this a float stands for one integer only."""
VALUED: Final = ("default", "const", "enum", "oneOf", "items")
COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems")
# keyword: (whether its value is one, what it needs)
NEEDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(WORDS, (_is_text, "a text")),
    **dict.fromkeys(COUNTS, (_is_count, "a whole number, 0 or more")),
    **dict.fromkeys(BOUNDS, (_is_number, "a number")),
    "pattern": (_is_text, "a regular expression"),
    "format": (lambda value: _is_text(value) and value in FORMATS, f"one of {', '.join(FORMATS)}"),
    "uniqueItems": (_is_flag, "true or false"),
    "additionalProperties": (_is_flag, "true or false"),
    "items": (lambda value: isinstance(value, dict), "an object that lists the choices"),
}
# The type of a field: (whether a value is of it, what it is called)
VALUES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "string": (_is_text, "a text"),
    "integer": (_is_whole, "an integer"),
    "number": (_is_number, "a number"),
    "boolean": (_is_flag, "true or false"),
}


def raw_fields(schema: dict[str, Any]) -> list[Field]:
    """The fields of a whole schema, or a FormError."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise FormError('the schema of a form is {"type": "object", "properties": {…}}')
    _check_keywords("the schema of the form", schema, ROOT)
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(map(_is_text, required)):
        raise FormError(f"the schema of the form has required: {show(required)}; it needs a list of names")
    if unknown := [show(name) for name in required if name not in properties]:
        raise FormError(f"the schema of the form has {', '.join(unknown)} in required, but no such field")
    return [_field(name, inner, required=name in required) for name, inner in properties.items()]


def _field(name: str, schema: Any, *, required: bool) -> Field:
    where = f'the field "{name}"'
    if not isinstance(schema, dict):
        raise FormError(f'{where} is {show(schema)}; a field is an object such as {{"type": "string"}}')
    kind = schema.get("type")
    if is_secret(schema):
        raise secret(name)
    if not isinstance(kind, str) or kind not in FITTING:
        raise _unfit(where, schema)
    schema = _whole(schema)
    _check_keywords(where, schema, ANNOTATIONS.union(FITTING[kind]))
    if kind == "array":
        options = _items(name, where, schema.get("items", {}))
    else:
        options = _options(name, where, schema, kind)
    limits = _limits(where, schema)
    text = kind == "string" and "format" not in schema and not options
    field = Field(name, kind, sent(kind, schema), required=required, options=options, limits=limits, text=text)
    if "default" in schema:
        _check_default(where, field, schema["default"])
    return field


def _limits(where: str, schema: dict[str, Any]) -> dict[str, Any]:
    try:
        most = longest(schema["pattern"]) if "pattern" in schema else None
    except ValueError as error:
        raise FormError(f"{where} has pattern: {show(schema['pattern'])}, which {error}") from None
    if most is not None:
        schema = {**schema, "maxLength": min(most, schema.get("maxLength", most))}
    return {key: schema[key] for key in (*LIMITS, "format") if key in schema}


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with 1 for 1.0 wherever an integer is meant: not every client knows that they are the same."""
    items = schema.get("items")
    listing = items if isinstance(items, dict) else schema
    keys = (*COUNTS, *VALUED) if listing.get("type") == "integer" else COUNTS
    return {key: _as_integer(value) if key in keys else value for key, value in schema.items()}


def _as_integer(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_integer(one) for one in value]
    if isinstance(value, dict):
        return {key: _as_integer(one) for key, one in value.items()}
    return int(value) if _is_whole(value) and abs(value) < EXACT else value


def _unfit(where: str, schema: dict[str, Any]) -> FormError:
    kind = schema.get("type")
    if kind == "object":
        return FormError(f"{where} is an object; a form is flat")
    if isinstance(kind, list):
        hint = 'what may be empty is left out of "required"'
        return FormError(f"{where} has type: {show(kind)}; a form needs one type, and {hint}")
    said = f"has type: {show(kind)}" if "type" in schema else "is of no type"
    foreign = [key for key in schema if key not in ANNOTATIONS and not any(key in words for words in FITTING.values())]
    if foreign:
        said += f" and has {', '.join(foreign)}"
    return FormError(f"{where} {said}; a form carries text, numbers, booleans and choices")


def _check_keywords(where: str, schema: dict[str, Any], known: Iterable[str]) -> None:
    foreign = [key for key in schema if key not in known and not key.startswith("x-")]
    if foreign:
        raise FormError(f"{where} has {', '.join(foreign)}, which no form can carry there")
    for key, value in schema.items():
        if key in NEEDS and not NEEDS[key][0](value):
            raise FormError(f"{where} has {key}: {show(value)}; it needs {NEEDS[key][1]}")


# ---------------------------------------------------------------- choices


def _items(name: str, where: str, items: dict[str, Any]) -> tuple[Option, ...]:
    within = f"{where} in its items"
    kind = items.get("type", "string")
    if not isinstance(kind, str):
        raise FormError(f"{within} has type: {show(kind)}; a form needs one type")
    options = _options(name, where, items, kind) if kind in ("string", "integer", "number") else ()
    if not options:
        raise FormError(f"{where} is an array; a form carries an array only of choices from a list")
    _check_keywords(within, items, ANNOTATIONS.union(CHOICES, ["anyOf"]))
    return options


def _options(name: str, where: str, schema: dict[str, Any], kind: str) -> tuple[Option, ...]:
    ways = [word for word in LISTINGS if word in schema]
    if "enumNames" in schema and "enum" not in schema:
        raise FormError(f"{where} has enumNames without an enum")
    if not ways:
        return ()
    if len(ways) > 1:
        raise FormError(f"{where} lists its choices in {' and in '.join(ways)}; one of them is enough")
    options = options_of(name, schema, as_text=False)
    fits, words = VALUES[kind]
    for option in options:
        if not fits(option.value):
            raise FormError(f"{where} has the choice {show(option.value)} in {ways[0]}; its type needs {words}")
    if ways[0] in ("oneOf", "anyOf") and not all("title" in one for one in schema[ways[0]]):
        raise FormError(f'{where} has choices in {ways[0]} without a "title"')
    return options


def _check_default(where: str, field: Field, default: Any) -> None:
    values = default if field.many else [default]
    if field.options:
        choices = [_told_apart(option.value) for option in field.options]
        fine = isinstance(values, list) and all(_told_apart(value) in choices for value in values)
        words = "a list of its choices" if field.many else "one of its choices"
    else:
        fits, words = VALUES[field.kind]
        fine = fits(default)
    if not fine:
        raise FormError(f"{where} has default: {show(default)}; it needs {words}")


def _told_apart(value: Any) -> tuple[type, Any]:
    """What is the same choice is equal: 1 is 1.0, but not true."""
    return (float if type(value) is int else type(value)), value
