"""Forms: what may be asked in an elicitation, from Python types or a raw JSON Schema, and back again.

A form is flat: text, numbers, booleans, dates, one choice, several choices. Anything else is refused by name.
Older revisions know fewer words: titles become `enumNames`, several choices become text with commas.
Spec: /specification/2026-07-28/client/elicitation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, ForwardRef, NamedTuple, get_args, get_origin
from zlib import crc32

import msgspec
from msgspec import Raw

from redstart.asking.choices import Choice as Choice
from redstart.asking.choices import Choices as Choices
from redstart.asking.choices import FormError, Option, SchemaMarker, options_from, options_of, title_of
from redstart.asking.fields import FORMATS, SENT, WORDS, Field, is_secret, read_fields, secret, warn_of_secrets
from redstart.asking.rawforms import raw_fields
from redstart.schema.containers import ArrayNode
from redstart.schema.errors import Problem, ShapeError
from redstart.schema.nodes import RecordNode, RefNode, UnionNode
from redstart.schema.pydantic import DECIMAL
from redstart.schema.scalars import ChoiceNode
from redstart.schema.types import UnsupportedType, compile_type
from redstart.wire.jsonrpc import encode

SCALARS: Final = (str, int, bool)
ROOT_SENT: Final = ("$schema", "type", "properties", "required")
ANSWER: Final = "answer"
"""The name of the one field of a form for a bare `str`, `int`, choice …"""
SAID_CHARS: Final = 200
TYPING: Final = ("typing", "types", "typing_extensions")
"""Where annotations come from that are no classes."""


class Format(SchemaMarker):
    """The format of a text field: `Annotated[str, Format("email")]`; also "uri", "date" and "date-time".

    >>> Format("email").json_schema_extra
    {'format': 'email'}
    """

    def __init__(self, name: str) -> None:
        if name not in FORMATS:
            raise FormError(f"{name!r} is not a format of a form; these are: {', '.join(FORMATS)}")
        self.json_schema_extra = {"format": name}


class Form:
    """A compiled form: its schema for each kind of dialect, and the way from content to a value."""

    __slots__ = ("_build", "_root", "_schemas", "_tails", "exact", "fields", "raw")

    def __init__(
        self,
        fields: list[Field],
        build: Callable[[dict[str, Any]], Any],
        raw: Mapping[str, Any] | None = None,
        *,
        root: str = "",
        exact: type | None = None,
    ) -> None:
        self.fields = fields
        self.raw = raw
        self._build = build
        self._root = root  # the field that all of the value is in, if it is one
        self.exact = exact
        """The type of values that need no reading: the one field is the answer."""
        self._schemas: dict[bool, dict[str, Any]] = {}
        self._tails: dict[bool, tuple[bytes, int]] = {}

    def schema(self, titled: bool) -> dict[str, Any]:
        """The `requestedSchema`; `titled` says whether the dialect knows titled and multiple choices."""
        made = self._schemas.get(titled)
        if made is None:
            made = self._schemas[titled] = self._render(titled)
        return made

    def params(self, message: str, titled: bool) -> tuple[Raw, int]:
        """The params of an elicitation with this form, and a fingerprint of them."""
        made = self._tails.get(titled)
        if made is None:
            mode = b',"mode":"form"}' if titled else b"}"
            tail = b',"requestedSchema":%b%b' % (encode(self.schema(titled)), mode)
            made = self._tails[titled] = tail, crc32(tail)
        words = encode(message)
        return Raw(b'{"message":' + words + made[0]), crc32(words, made[1])

    def _render(self, titled: bool) -> dict[str, Any]:
        properties = {field.name: field.wire if titled else field.older() for field in self.fields}
        if self.raw is not None:
            return {key: properties if key == "properties" else self.raw[key] for key in ROOT_SENT if key in self.raw}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        required = [field.name for field in self.fields if field.required]
        if required:
            schema["required"] = required
        return schema

    def read(self, content: dict[str, Any]) -> Any:
        """The value that a client's content stands for, or a ShapeError that names what is wrong with it."""
        answer = content.get(ANSWER)
        if type(answer) is self.exact:
            return answer
        fields = read_fields(self.fields, content)
        try:
            return self._build(fields)
        except ShapeError as error:
            raise ShapeError(
                [_placed(problem, self._root) for problem in error.problems], noun="field", more=error.more
            ) from None
        except Exception as error:  # the checks of a user's class may raise anything
            problem = Problem("", f"is refused: {_said(error)}")
            raise ShapeError([_placed(problem, self._root)], noun="field") from error


def _placed(problem: Problem, root: str) -> Problem:
    """The problem of a value, in the words of a form: of one field, or of all of them together."""
    words = " ".join(problem.expected.split())
    words = words if len(words) <= SAID_CHARS else words[: SAID_CHARS - 1] + "…"
    if root or problem.path:
        return msgspec.structs.replace(problem, path=root + problem.path, expected=words)
    return Problem("", f"The form {words.removesuffix('.')}", kind="text")


def _said(error: Exception) -> str:
    """What an error says, for people: a ValueError is written for them, any other needs its name."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # even that is the user's code
        return name
    return text if text and isinstance(error, ValueError) else f"{name}: {text}".removesuffix(": ")


def compile_form(schema: Any) -> Form:
    """The form for a type, a list of choices or a raw JSON Schema.

    >>> compile_form(bool).schema(True)
    {'type': 'object', 'properties': {'answer': {'type': 'boolean'}}, 'required': ['answer']}
    """
    if type(schema) is type or _is_itself(schema):
        return _from_class(schema)
    if isinstance(schema, Form):
        return schema
    if isinstance(schema, Mapping):
        try:
            encoded = msgspec.json.encode(schema, enc_hook=_as_dict)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise FormError(f"the schema of the form is no JSON: {error}") from error
        return _from_raw(encoded)
    if isinstance(schema, list | tuple | range):
        options, values = options_from(schema)
        field = Field.choosing(ANSWER, {}, options, required=True)
        return Form([field], lambda content: values[content[ANSWER]])
    if isinstance(schema, str | bytes | ForwardRef):  # never evaluated: it may come from anywhere
        raise FormError(f"a form is a type, a list of choices or a JSON Schema, not the text {schema!r:.80}")
    if not _is_annotation(schema):
        said = f"this is an object of class {type(schema).__qualname__} where a class is needed"
        raise FormError(f"{said}: a form is a type, a list of choices or a JSON Schema")
    try:
        key = _FormKey(schema)
    except TypeError:  # unhashable, such as Annotated[int, {}]
        return _from_type(schema)
    return _from_key(key)


CONFIRM: Final = Form(
    [Field.plain(ANSWER, {"type": "boolean"}, {}, False, required=True, nullable=False)], itemgetter(ANSWER), exact=bool
)
"""A yes or no. The default lets a user submit the form without touching its box."""


def elicitation(message: str, schema: Any, titled: bool) -> tuple[Form, Raw, int]:
    """A form, and the params and the fingerprint of an elicitation with it."""
    constant = (type(schema) is type or _is_itself(schema)) and len(message) <= SAID_CHARS  # as nearly always
    return (_kept if constant else _elicitation)(message, schema, titled)


def _elicitation(message: str, schema: Any, titled: bool) -> tuple[Form, Raw, int]:
    form = compile_form(schema)
    return form, *form.params(message, titled)


_kept = lru_cache(256)(_elicitation)


# ---------------------------------------------------------------- what a form is remembered by


def _is_itself(schema: Any) -> bool:
    """Whether it is a class that equals no other: a metaclass may see that differently."""
    kind: Any = type(schema)
    return isinstance(schema, type) and kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__


def _is_annotation(schema: Any) -> bool:
    named = isinstance(schema, type) or type(schema).__module__ in TYPING
    return named or schema is None or get_origin(schema) is not None


class _FormKey:
    """An annotation, told from all others: to Python Literal["a", "b"] equals Literal["b", "a"], to a reader not."""

    __slots__ = ("_hash", "_parts", "annotation")

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation  # while it is here, no other class gets the id of one of its classes
        self._parts = _parts(annotation)
        self._hash = hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FormKey) and bool(self._parts == other._parts)


def _parts(annotation: Any) -> Any:
    """A class is only itself, arguments have an order, and 1 is not True."""
    if isinstance(annotation, type):
        return id(annotation)
    if arguments := get_args(annotation):
        return _parts(get_origin(annotation)), *map(_parts, arguments)
    return type(annotation), annotation


# ---------------------------------------------------------------- from a raw schema


def _as_dict(value: Any) -> dict[Any, Any]:
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


def _from_type(annotation: Any) -> Form:
    form = _compiled(annotation)
    warn_of_secrets(_name(annotation), form.fields)
    return form


_from_class = lru_cache(1024)(_from_type)


@lru_cache(1024)
def _from_key(key: _FormKey) -> Form:
    return _from_type(key.annotation)


def _compiled(annotation: Any) -> Form:
    try:
        shape = compile_type(annotation, where="a form")
    except UnsupportedType as error:
        raise FormError(str(error)) from error
    document = shape.schema()
    target = _resolved(shape.node)
    if "properties" not in document:
        if document.get("type") == "object":
            raise FormError(f"{_name(annotation)} has no named fields, so no form can be made of it")
        field = _field(ANSWER, document, document, _enum_of(target), required=True)
        if any(annotation is kind for kind in SCALARS):  # what the field has read is the answer
            return Form([field], itemgetter(ANSWER), exact=annotation)
        if field.nullable:
            return Form([field], lambda content: shape.convert(content.get(ANSWER)), root=ANSWER)
        return Form([field], lambda content: shape.convert(content[ANSWER]), root=ANSWER)
    enums = (
        {slot.wire: _enum_of(_resolved(slot.node)) for slot in target.slots} if isinstance(target, RecordNode) else {}
    )
    required = document.get("required", [])
    fields = [
        _field(name, inner, document, enums.get(name), required=name in required)
        for name, inner in document["properties"].items()
    ]
    holes = [field.name for field in fields if field.nullable and field.name in required]
    return Form(fields, lambda content: shape.convert({**dict.fromkeys(holes), **content}))


def _name(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def _field(
    name: str, schema: dict[str, Any], document: dict[str, Any], members: type[enum.Enum] | None, *, required: bool
) -> Field:
    found = _without_null(_merged(name, schema, document), name, document)
    schema = found.schema
    words = {key: schema[key] for key in WORDS if key in schema}
    default = schema.get("default")
    required = required and not found.nullable
    many = schema.get("type") == "array"
    inner = _without_null(_merged(name, schema.get("items", {}), document), name, document).schema if many else schema
    if is_secret(inner):
        raise secret(name)
    if "enum" in inner or "const" in inner or "oneOf" in inner or (many and "anyOf" in inner):
        options = _titled(options_of(name, inner, as_text=True), members)
        limits: dict[str, Any] = {key: schema[key] for key in SENT["array"] if many and key in schema}
        return Field.choosing(
            name, {**words, **limits}, options, required=required, many=many, default=default, nullable=found.nullable
        )
    if many:
        raise FormError(f'the field "{name}" is an array; a form carries an array only of choices from a list')
    return Field.plain(name, schema, words, default, required=required, nullable=found.nullable)


class _Found(NamedTuple):
    schema: dict[str, Any]
    nullable: bool


def _merged(name: str, schema: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The schema with what its `$ref` points to."""
    merged = dict(schema) if isinstance(schema, dict) else {}
    while "$ref" in merged:
        target = document
        for step in merged.pop("$ref").removeprefix("#").split("/")[1:]:
            target = target[step]
        if target is document or "properties" in target:
            raise FormError(f'the field "{name}" is an object; a form is flat')
        merged = {**target, **merged}
    return merged


def _without_null(schema: dict[str, Any], name: str, document: dict[str, Any]) -> _Found:
    if "anyOf" not in schema or "type" in schema:
        return _Found(schema, nullable=False)
    branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
    nullable = len(branches) < len(schema["anyOf"])
    if [(branch.get("type"), branch.get("format")) for branch in branches] == [("number", None), ("string", DECIMAL)]:
        branches = branches[1:]  # pydantic's Decimal takes a number too, but a form needs one type
    if len(branches) == 1:
        outer = {key: value for key, value in schema.items() if key != "anyOf"}
        schema = {**_merged(name, branches[0], document), **outer}
    elif not all("const" in branch for branch in branches):
        raise FormError(f'the field "{name}" may be of several types; a form needs one')
    return _Found(schema, nullable)


# ---------------------------------------------------------------- titles of Enum members


def _resolved(node: Any) -> Any:
    while isinstance(node, RefNode):
        node = node.target
    return node


def _enum_of(node: Any) -> type[enum.Enum] | None:
    """The Enum class that a field's choices come from, looked for under Optional, list and set."""
    node = _resolved(node)
    if isinstance(node, UnionNode):
        found = [members for members in map(_enum_of, node.children) if members is not None]
        return found[0] if len(found) == 1 else None
    if isinstance(node, ArrayNode):
        return _enum_of(node.children[0])
    if isinstance(node, ChoiceNode) and isinstance(node.cls, type) and issubclass(node.cls, enum.Enum):
        return node.cls
    return None


def _titled(options: tuple[Option, ...], members: type[enum.Enum] | None) -> tuple[Option, ...]:
    if members is None or any(option.title for option in options):
        return options
    titles = {member.value: title_of(member) for member in members if isinstance(member.value, str | int)}
    if not any(titles.get(option.value) for option in options):
        return options
    return tuple(Option(o.wire, titles.get(o.value) or o.wire, o.value) for o in options)
