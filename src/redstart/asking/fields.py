"""One field of a form: a node that reads the answer, and its schema on the wire, old and new.

A form written by hand, as a JSON Schema, is read here too. What clients cannot show is refused with the name of its
field and keyword.  Must not know: Python types, dialects, messages.
Spec: /specification/2026-07-28/schema, PrimitiveSchemaDefinition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from redstart.asking.choices import LISTINGS, Option, options_of, refuse_alike, split
from redstart.asking.choices import FormError as FormError
from redstart.features.errors import log
from redstart.schema.constraints import FAMILIES, FORMATS, Constraints
from redstart.schema.document import Schema
from redstart.schema.errors import ValuePath, show, wrong_type
from redstart.schema.json_schema import FAMILY_OF, NEEDS, Needs, is_name_list, is_text
from redstart.schema.nodes import Slot, read_strictly
from redstart.schema.scalars import (
    INVALID,
    JSON_KINDS,
    KINDS,
    ChoiceNode,
    Kind,
    Node,
    ScalarNode,
    Walk,
    is_whole,
    numeral,
    text_of,
)

WORDS: Final[tuple[str, ...]] = ("title", "description")
SCALARS: Final = ("string", "integer", "number", "boolean")
BOUNDS: Final = ("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")
CHOICES: Final = ("enum", "enumNames", "oneOf", "const")
SENT: Final = ("type", *WORDS, *BOUNDS, *CHOICES, "items", "default")
"""The keywords that the spec has for a form. Other keywords are checked here, but not sent to the client."""
SECRETS: Final = frozenset(
    {"password", "passwd", "passphrase", "secret", "token", "apikey", "accesstoken", "privatekey"}
)
"""The names of secrets, in lower case and without separators: api_key, apiKey and API-Key are the same."""


def _number(value: object) -> int | float:
    number = numeral(value)
    if not math.isfinite(float(number)):
        raise ValueError
    return number


KIND_OF: Final[dict[str, Kind]] = {
    **JSON_KINDS,
    "integer": KINDS[int],
    "number": msgspec.structs.replace(KINDS[float], strict=_number),
}
"""How an answer is read: an integer becomes one, a number stays as it was written."""


class SeveralNode(Node):
    """Several choices: an array, or from an older client a text with commas."""

    words = "a list of choices"

    def __init__(self, choice: ChoiceNode, constraints: Constraints | None) -> None:
        super().__init__(constraints=constraints)
        self._choice = choice

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        if isinstance(value, str) and walk.lax:
            value = split(value, self._choice.texts)
        if not isinstance(value, list):
            return walk.refuse(wrong_type, path, self.words, value)
        chosen = []
        for one in value:
            chosen.append(self._choice.read(one, path, walk))
            if chosen[-1] is INVALID:
                return INVALID
        return self.within(chosen, chosen, path, walk)


class FormField(msgspec.Struct, frozen=True):
    """One field. `wire` is its schema in the newer dialects."""

    slot: Slot
    wire: Schema
    options: Sequence[Option]
    nullable: bool
    blank: bool
    """Whether an empty text means that there is no answer: a text box has no other way to leave a field out."""

    @property
    def name(self) -> str:
        return self.slot.wire

    def older(self) -> Schema:
        """The field for a revision without titled choices, without several of them, and with few defaults."""
        words = {key: self.wire[key] for key in WORDS if key in self.wire}
        if self.wire["type"] == "array":
            names = [f"{text_of(o.wire)} ({o.title})" if o.title else text_of(o.wire) for o in self.options]
            listed = ("; " if any("," in name for name in names) else ", ").join(names)
            text = f"One or more of the following, separated by commas: {listed}"
            described = f"{words['description']} {text}" if "description" in words else text
            return {"type": "string", **words, "description": described}
        if self.options:
            titles = [o.title or text_of(o.wire) for o in self.options]
            named = {"enumNames": titles} if any(o.title for o in self.options) else {}
            return {"type": "string", **words, "enum": [text_of(o.wire) for o in self.options], **named}
        if "default" in self.wire and self.wire["type"] != "boolean":
            return {key: value for key, value in self.wire.items() if key != "default"}
        return self.wire


def make_field(
    name: str,
    schema: Mapping[str, Any],
    options: Sequence[Option] = (),
    *,
    required: bool,
    nullable: bool = False,
    checks: Iterable[str] | None = None,
) -> FormField:
    """The field of a flat schema; `checks` are the keywords that answers are checked by, None for all of them."""
    kind = schema["type"]
    many = kind == "array"
    refuse_alike(name, options)
    constraints = _constraints(name, schema, "choices" if many else FAMILY_OF.get(kind, ""), checks)
    node: Node
    if options:
        pairs = [(option.wire, option.value) for option in options]
        node = choice = ChoiceNode(pairs, titles=[option.title for option in options])
        node = SeveralNode(choice, constraints) if many else choice
    else:
        node = ScalarNode(KIND_OF[kind], constraints)
    plain = kind == "string" and "format" not in schema and "contentEncoding" not in schema and not options
    # An empty text for a list that is required means that nothing was chosen.
    blank = not (required if many else plain or any(option.wire == "" for option in options))
    return FormField(Slot(name, name, node, required), _sent(kind, schema), options, nullable, blank)


def _constraints(name: str, schema: Mapping[str, Any], family: str, checks: Iterable[str] | None) -> Constraints | None:
    words = {word: limit for limit, word in FAMILIES[family].items() if word in schema}
    bounds = {limit: schema[word] for word, limit in words.items() if word and (checks is None or word in checks)}
    if bounds.get("format") not in FORMATS:
        bounds.pop("format", None)
    try:
        return Constraints(family, bounds).over(None) if bounds else None
    except ValueError as error:
        raise FormError(f'the field "{name}" has pattern: {show(schema["pattern"])}, which {error}') from None


def _sent(kind: str, schema: Mapping[str, Any]) -> Schema:
    """The schema of a field as the client gets it: with the keywords that the spec has for this type."""
    wire = {key: schema[key] for key in SENT if key in schema}
    if schema.get("format") in FORMATS:
        wire["format"] = schema["format"]
    if kind == "integer":
        for key, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if key in schema:
                wire.setdefault(ours, int(schema[key]) + step)
    return wire


# ---------------------------------------------------------------- secrets


def refuse_secret(name: str, schema: Mapping[str, Any]) -> None:
    """Refuse a password or the like, such as pydantic's SecretStr.

    Spec: servers MUST NOT ask for sensitive information in a form.
    """
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        raise FormError(f'the field "{name}" is a secret, and no form may ask for one: use ctx.elicit_url')


def warn_of_secrets(form: str, fields: Iterable[FormField]) -> None:
    """Log a warning for fields that look like secrets. They are not refused, because the name alone proves nothing."""
    for field in fields:
        name = field.name.casefold().replace("_", "").replace("-", "")
        if name in SECRETS and field.wire["type"] == "string" and not field.options and "format" not in field.wire:
            log.warning(
                '%s: the field "%s" asks for a secret in a form, where the client and its model may see it: '
                "use ctx.elicit_url",
                form,
                field.name,
            )


# ---------------------------------------------------------------- forms written by hand


ROOT: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "$schema", "$id", "$comment", *WORDS}
)
ANNOTATIONS: Final = frozenset({*WORDS, "default", "examples", "deprecated", "$comment", "type"})
FITTING: Final[dict[str, frozenset[str | None]]] = {
    **{kind: frozenset({*FAMILIES[FAMILY_OF[kind]].values(), *CHOICES} - {"multipleOf"}) for kind in SCALARS[:3]},
    "boolean": frozenset(),
    "array": frozenset({*FAMILIES["choices"].values(), "items"}),
}
EXACT: Final = 2**53
"""Up to this number each integer has a float of its own."""
VALUED: Final = ("default", "const", "enum", "oneOf", "items")
FLAGGED: Final = (lambda value: isinstance(value, bool), "true or false")
FORM_NEEDS: Final[Needs] = {
    **{word: NEEDS[word] for word in (*BOUNDS, "exclusiveMinimum", "exclusiveMaximum")},
    **dict.fromkeys(WORDS, (is_text, "a text")),
    **dict.fromkeys(("uniqueItems", "additionalProperties"), FLAGGED),
    "pattern": (is_text, "a regular expression"),
    "format": (lambda value: is_text(value) and value in FORMATS, f"one of {', '.join(FORMATS)}"),
    "items": (lambda value: isinstance(value, dict), "an object that lists the choices"),
}


def raw_fields(schema: Schema) -> list[FormField]:
    """The fields of a whole schema, or a FormError."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise FormError('the schema of a form is {"type": "object", "properties": {…}}')
    _check_keywords("the schema of the form", schema, ROOT)
    required = schema.get("required", [])
    if not is_name_list(required):
        raise FormError(f"the schema of the form has required: {show(required)}; it needs a list of names")
    if unknown := [show(name) for name in required if name not in properties]:
        raise FormError(f"the schema of the form has {', '.join(unknown)} in required, but no such field")
    return [_raw_field(name, inner, required=name in required) for name, inner in properties.items()]


def _raw_field(name: str, schema: object, *, required: bool) -> FormField:
    where = f'the field "{name}"'
    if not isinstance(schema, dict):
        raise FormError(f'{where} is {show(schema)}; a field is an object such as {{"type": "string"}}')
    refuse_secret(name, schema)
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in FITTING:
        raise _unfit(where, schema)
    schema = _whole(schema)
    _check_keywords(where, schema, ANNOTATIONS | FITTING[kind])
    listing = schema.get("items", {}) if kind == "array" else schema
    options = _raw_options(name, where, listing, many=kind == "array")
    field = make_field(name, schema, options, required=required)
    if "default" in schema:
        node = field.slot.node if options else ScalarNode(JSON_KINDS[kind])
        if read_strictly(node, schema["default"]) is INVALID:
            raise FormError(f"{where} has default: {show(schema['default'])}; it needs {node.words}")
    return field


def _raw_options(name: str, where: str, listing: Schema, *, many: bool) -> list[Option]:
    kind = listing.get("type", "string")
    if not isinstance(kind, str):
        raise FormError(f"{where} in its items has type: {show(kind)}; a form needs one type")
    ways = [word for word in LISTINGS if word in listing] if kind in SCALARS[:3] else []
    if many and not ways:
        raise FormError(f"{where} is an array; a form carries an array only of choices from a list")
    if "enumNames" in listing and "enum" not in listing:
        raise FormError(f"{where} has enumNames without an enum")
    if not ways:
        return []
    if len(ways) > 1:
        raise FormError(f"{where} lists its choices in {' and in '.join(ways)}; one of them is enough")
    options = options_of(name, listing)
    node = ScalarNode(JSON_KINDS[kind])
    for option in options:
        if read_strictly(node, option.value) is INVALID:
            raise FormError(f"{where} has the choice {show(option.value)} in {ways[0]}; its type needs {node.words}")
    if ways[0] in ("oneOf", "anyOf") and not all("title" in one for one in listing[ways[0]]):
        raise FormError(f'{where} has choices in {ways[0]} without a "title"')
    if many:
        _check_keywords(f"{where} in its items", listing, ANNOTATIONS.union(CHOICES, ["anyOf"]))
    return options


def _whole(schema: Schema) -> Schema:
    """The schema with 1 for 1.0 where an integer is meant: some clients do not treat them as the same."""
    items = schema.get("items")
    listing = items if isinstance(items, dict) else schema
    counts = [word for word in BOUNDS if word not in ("minimum", "maximum")]
    keys = (*counts, *VALUED) if listing.get("type") == "integer" else counts
    return {key: _as_integer(value) if key in keys else value for key, value in schema.items()}


def _as_integer(value: object) -> object:
    if isinstance(value, list):
        return [_as_integer(one) for one in value]
    if isinstance(value, dict):
        return {key: _as_integer(one) for key, one in value.items()}
    return int(value) if isinstance(value, float) and is_whole(value) and abs(value) < EXACT else value


def _unfit(where: str, schema: Schema) -> FormError:
    kind = schema.get("type")
    if kind == "object":
        return FormError(f"{where} is an object; a form is flat")
    if isinstance(kind, list):
        hint = 'what may be empty is left out of "required"'
        return FormError(f"{where} has type: {show(kind)}; a form needs one type, and {hint}")
    words = f"has type: {show(kind)}" if "type" in schema else "is of no type"
    others = [key for key in schema if key not in ANNOTATIONS.union(*FITTING.values())]
    if others:
        words += f" and has {', '.join(others)}"
    return FormError(f"{where} {words}; a form carries text, numbers, booleans and choices")


def _check_keywords(where: str, schema: Schema, known: Iterable[str | None]) -> None:
    others = [key for key in schema if key not in known and not key.startswith("x-")]
    if others:
        raise FormError(f"{where} has {', '.join(others)}, which no form can carry there")
    for key, value in schema.items():
        if key in FORM_NEEDS and not FORM_NEEDS[key][0](value):
            raise FormError(f"{where} has {key}: {show(value)}; it needs {FORM_NEEDS[key][1]}")
