"""Forms: what may be asked in an elicitation, from Python types or a raw JSON Schema, and back again.

A form is a flat restriction of the types that arguments may have: text, numbers, booleans, dates, one choice, several
choices. Anything else is refused by name. Each field reads its answer by a node; then the type itself reads all of
them. Older revisions know fewer words: titles become `enumNames`, several choices become text with commas.
Spec: /specification/2026-07-28/client/elicitation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, ForwardRef, get_args, get_origin
from zlib import crc32

import msgspec
from msgspec import Raw

from redstart.asking.choices import Choice as Choice
from redstart.asking.choices import Choices as Choices
from redstart.asking.choices import Format as Format
from redstart.asking.choices import FormError, Option, options_from, options_of
from redstart.asking.fields import SCALARS, WORDS, FormField, make_field, raw_fields, refuse_secret, warn_of_secrets
from redstart.asking.questions import MESSAGE, Accepted, Answer, BadAnswer, Question, check_client, plain_text, refusal
from redstart.protocol.call import Call
from redstart.schema.cost import target
from redstart.schema.document import DECIMAL, Schema
from redstart.schema.errors import Problem, ShapeError, cut
from redstart.schema.nodes import RecordNode
from redstart.schema.scalars import Walk, text_of
from redstart.schema.types import UnsupportedType, compile_type
from redstart.wire.jsonrpc import encode

EXACT: Final = (str, int, bool)
"""The types whose values a field reads completely."""
ROOT_SENT: Final = ("$schema", "type", "properties", "required")
ANSWER: Final = "answer"
"""The name of the one field of a form for a bare `str`, `int`, choice …"""
SAID_CHARS: Final = 200
TYPING: Final = ("typing", "types", "typing_extensions")
"""The modules of annotations that are not classes."""
Build = Callable[[dict[str, Any]], object]


class Form:
    """A compiled form: its schema for each kind of dialect, and the way from content to a value."""

    __slots__ = ("_build", "_record", "_root", "_tails", "exact", "fields", "raw")

    def __init__(
        self,
        fields: list[FormField],
        build: Build,
        raw: Schema | None = None,
        *,
        root: str = "",
        exact: type | None = None,
    ) -> None:
        self.fields = fields
        self.raw = raw
        self._record = RecordNode("", None, dict, [field.slot for field in fields])
        self._build = build
        self._root = root  # the name of the one field of a bare type
        self.exact = exact
        """The type of an answer that needs no further reading, in a form with one field."""
        self._tails: dict[bool, tuple[bytes, int]] = {}

    def schema(self, titled: bool) -> Schema:
        """The `requestedSchema`; `titled` says whether the dialect knows titled and multiple choices."""
        properties = {field.name: field.wire if titled else field.older() for field in self.fields}
        required = [field.name for field in self.fields if field.slot.required]
        whole = self.raw or {"type": "object", "properties": {}, **({"required": required} if required else {})}
        return {key: properties if key == "properties" else whole[key] for key in ROOT_SENT if key in whole}

    def params(self, message: str, titled: bool) -> tuple[Raw, int]:
        """The params of an elicitation with this form, and a fingerprint of them."""
        made = self._tails.get(titled)
        if made is None:
            mode = b',"mode":"form"}' if titled else b"}"
            tail = b',"requestedSchema":%b%b' % (encode(self.schema(titled)), mode)
            made = self._tails[titled] = tail, crc32(tail)
        words = encode(message)
        return Raw(b'{"message":' + words + made[0]), crc32(words, made[1])

    def read(self, content: dict[str, Any]) -> Any:
        """The value for a client's content; ShapeError says what is wrong with it."""
        answer = content.get(ANSWER)
        if type(answer) is self.exact:
            return answer
        given = {}
        for field in self.fields:
            value = content.get(field.name)
            if value is not None and not (field.blank and value == ""):
                given[field.name] = value
        walk = Walk(True)
        answers: Any = self._record.fill(given, "", walk)
        if walk.count:
            raise walk.error("field")
        try:
            return self._build(answers)
        except ShapeError as error:
            problems = [_placed(problem, self._root) for problem in error.problems]
            raise ShapeError(problems, noun="field", more=error.more) from None
        except Exception as error:  # the checks of a user's class may raise anything
            problem = Problem("", f"is refused: {_reason(error)}")
            raise ShapeError([_placed(problem, self._root)], noun="field") from error


def _placed(problem: Problem, root: str) -> Problem:
    """The problem of a value as a problem of one field, or of the whole form."""
    words = cut(" ".join(problem.expected.split()), SAID_CHARS)
    if root or problem.path:
        return msgspec.structs.replace(problem, path=root + problem.path, expected=words)
    return Problem("", f"The form {words.removesuffix('.')}", kind="text")


def _reason(error: Exception) -> str:
    """The text of an error. A ValueError is written for people; other errors are named too."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # `__str__` may be the user's code
        return name
    return text if text and isinstance(error, ValueError) else f"{name}: {text}".removesuffix(": ")


def compile_form(schema: object) -> Form:
    """The form for a type, a list of choices or a raw JSON Schema.

    >>> compile_form(bool).schema(True)
    {'type': 'object', 'properties': {'answer': {'type': 'boolean'}}, 'required': ['answer']}
    """
    if isinstance(schema, Form):
        return schema
    if isinstance(schema, Mapping):
        try:
            encoded = msgspec.json.encode(schema, enc_hook=_as_dict)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise FormError(f"the schema of the form is not JSON: {error}") from error
        return _from_raw(encoded)
    if isinstance(schema, list | tuple | range):
        options, values = options_from(schema)
        field = make_field(ANSWER, _as_text({}, options, many=False), options, required=True)
        return Form([field], lambda content: values[content[ANSWER]])
    if isinstance(schema, str | bytes | ForwardRef):  # never evaluated: it may come from anywhere
        raise FormError(f"a form is a type, a list of choices or a JSON Schema, not the text {schema!r:.80}")
    if not _is_annotation(schema):
        words = f"this is an object of class {type(schema).__qualname__} where a class is needed"
        raise FormError(f"{words}: a form is a type, a list of choices or a JSON Schema")
    try:
        key = _FormKey(schema)
    except TypeError:  # unhashable, such as Annotated[int, {}]
        return _from_type(schema)
    return _from_key(key)


CONFIRM: Final = Form(
    [make_field(ANSWER, {"type": "boolean", "default": False}, required=True)], itemgetter(ANSWER), exact=bool
)
"""A yes or no. With the default a user can submit the form without touching its box."""


class FormQuestion(Question[Answer[Any]], kw_only=True):
    """A form for the user to fill in."""

    form: Form
    titled: bool

    kind = "elicit"
    method = "elicitation/create"
    need = "elicitation.form"

    def reworded(self, message: str) -> Raw:
        return self.form.params(message, self.titled)[0]

    def read(self, result: object) -> Answer[Any]:
        if not isinstance(result, dict) or result.get("action") != "accept":
            return refusal(result)
        content = result.get("content")
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise BadAnswer("The content of an answer is an object.", content=True)
        try:
            return Accepted(self.form.read(content))
        except ShapeError as error:
            raise BadAnswer(str(error), content=True) from None


def form_question(call: Call, message: str, schema: object, key: str | None = None) -> FormQuestion:
    """A question with a form to fill in."""
    if type(message) is not str:
        message = plain_text(message, MESSAGE)
    modes = call.capabilities.elicitation
    if type(modes) is not dict or type(modes.get("form") if modes else modes) is not dict:
        check_client(call, [FormQuestion.need], message)  # nearly every client declares {} or {"form": {}}
    titled = call.dialect.titled_choices
    kind: Any = type(schema)
    by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__  # a metaclass may say otherwise
    constant = isinstance(schema, type) and by_identity and len(message) <= SAID_CHARS  # the usual case
    form, params, digest = (_kept if constant else _elicitation)(message, schema, titled)
    return FormQuestion(message, key, params, digest, form=form, titled=titled)


def _elicitation(message: str, schema: object, titled: bool) -> tuple[Form, Raw, int]:
    """A form, and the params and the fingerprint of an elicitation with it."""
    form = compile_form(schema)
    return form, *form.params(message, titled)


_kept = lru_cache(256)(_elicitation)


# ---------------------------------------------------------------- the keys of the cache of forms


def _is_annotation(schema: object) -> bool:
    named = isinstance(schema, type) or type(schema).__module__ in TYPING
    return named or schema is None or get_origin(schema) is not None


class _FormKey:
    """The key of an annotation in the cache. `==` does not do: Literal["a", "b"] == Literal["b", "a"]."""

    __slots__ = ("_hash", "_parts", "annotation")

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation  # keeps its classes alive, so that their ids stay theirs
        self._parts = _parts(annotation)
        self._hash = hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FormKey) and bool(self._parts == other._parts)


def _parts(annotation: object) -> object:
    """The parts that make an annotation unique: classes by id, arguments in order, values with their types."""
    if isinstance(annotation, type):
        return id(annotation)
    if arguments := get_args(annotation):
        return _parts(get_origin(annotation)), *map(_parts, arguments)
    return type(annotation), annotation


# ---------------------------------------------------------------- from a raw schema


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"there is a {type(value).__name__} in it")


@lru_cache(256)
def _from_raw(encoded: bytes) -> Form:
    schema = msgspec.json.decode(encoded)
    fields = raw_fields(schema)
    warn_of_secrets(schema.get("title", "a form"), fields)
    return Form(fields, lambda content: content, schema)


# ---------------------------------------------------------------- from a type


def _from_type(annotation: object) -> Form:
    form = _compiled(annotation)
    warn_of_secrets(_name(annotation), form.fields)
    return form


@lru_cache(1024)
def _from_key(key: _FormKey) -> Form:
    return _from_type(key.annotation)


def _compiled(annotation: object) -> Form:
    try:
        compiled = compile_type(annotation, where="a form")
    except UnsupportedType as error:
        raise FormError(str(error)) from error
    document = compiled.schema(titled=True)
    convert = compiled.convert
    if "properties" not in document:
        if document.get("type") == "object":
            raise FormError(f"{_name(annotation)} has no named fields, so no form can be made of it")
        field = _field(ANSWER, document, document, required=True)
        if any(annotation is kind for kind in EXACT):
            return Form([field], itemgetter(ANSWER), exact=annotation)  # type: ignore[arg-type]
        return Form([field], lambda content: convert(content.get(ANSWER)), root=ANSWER)
    required = document.get("required", [])
    fields = [
        _field(name, inner, document, required=name in required) for name, inner in document["properties"].items()
    ]
    holes = [field.name for field in fields if field.nullable and field.name in required]
    return Form(fields, lambda content: convert({**dict.fromkeys(holes), **content}))


def _name(annotation: object) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def _field(name: str, schema: Schema, document: Schema, *, required: bool) -> FormField:
    """The field of a property in the schema of a type; the type itself checks its constraints."""
    flat, nullable = _flat(name, schema, document)
    required = required and not nullable
    kind = flat.get("type")
    many = kind == "array"
    listing = _flat(name, flat.get("items", {}), document)[0] if many else flat
    refuse_secret(name, listing)
    if "enum" in listing or "const" in listing or "oneOf" in listing or (many and "anyOf" in listing):
        options = [Option(text_of(value), title, value) for _, title, value in options_of(name, listing)]
        text = _as_text(flat, options, many=many)
        if flat.get("default") is not None:
            text["default"] = _default(name, options, flat["default"])
        return make_field(name, text, options, required=required, nullable=nullable)
    if many:
        raise FormError(f'the field "{name}" is an array; a form carries an array only of choices from a list')
    if kind not in SCALARS:
        words = "of no type" if kind is None else "an object" if kind == "object" else f"of type {kind}"
        raise FormError(f'the field "{name}" is {words}; a form carries text, numbers, booleans and choices')
    if flat.get("default", ...) is None:
        del flat["default"]
    return make_field(name, flat, required=required, nullable=nullable, checks=["format"])


def _as_text(schema: Schema, options: list[Option], *, many: bool) -> Schema:
    """The schema of a field with these choices, as text."""
    if any(option.title for option in options):
        entries = [{"const": option.wire, "title": option.title or option.wire} for option in options]
        listed: Schema = {"anyOf" if many else "oneOf": entries}
    else:
        listed = {**({"type": "string"} if many else {}), "enum": [option.wire for option in options]}
    kept = {key: schema[key] for key in (*WORDS, *(("minItems", "maxItems") if many else ())) if key in schema}
    return {"type": "array", **kept, "items": listed} if many else {"type": "string", **kept, **listed}


def _default(name: str, options: list[Option], default: object) -> object:
    """The default as it is sent."""
    if isinstance(default, list):
        return [_default(name, options, one) for one in default]
    if any(option.wire == text_of(default) for option in options):
        return text_of(default)
    raise FormError(f'the field "{name}" has the default {default!r:.80}, which is not one of its choices')


def _merged(name: str, schema: object, document: Schema) -> Schema:
    """The schema with what its `$ref` points to."""
    merged: Schema = dict(schema) if isinstance(schema, dict) else {}
    while "$ref" in merged:
        meant = target(document, merged.pop("$ref"))
        if meant is document or "properties" in meant:
            raise FormError(f'the field "{name}" is an object; a form is flat')
        merged = {**meant, **merged}
    return merged


def _flat(name: str, schema: object, document: Schema) -> tuple[Schema, bool]:
    """The schema of a field without references and without null, and whether it may be null."""
    flat = _merged(name, schema, document)
    if "anyOf" not in flat or "type" in flat:
        return flat, False
    branches = [branch for branch in flat["anyOf"] if branch.get("type") != "null"]
    nullable = len(branches) < len(flat["anyOf"])
    if [(branch.get("type"), branch.get("format")) for branch in branches] == [("number", None), ("string", DECIMAL)]:
        branches = branches[1:]  # pydantic's Decimal takes a number too, but a form needs one type
    if len(branches) == 1:
        outer = {key: value for key, value in flat.items() if key != "anyOf"}
        flat = {**_merged(name, branches[0], document), **outer}
    elif not all("const" in branch for branch in branches):
        raise FormError(f'the field "{name}" may be of several types; a form needs one')
    return flat, nullable
