"""Functions -> input schemas and keyword arguments."""

import copy
import dataclasses
import datetime as dt
import enum
import functools
import json
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pydantic
import pytest

from redstart.schema.errors import ShapeError
from redstart.schema.signature import EMPTY, Signature, SignatureError, compile_signature


@dataclasses.dataclass
class Options:
    limit: Annotated[int, msgspec.Meta(le=100)] = 10


class Header:
    def __init__(self, name: str) -> None:
        self.json_schema_extra = {"x-mcp-header": name}


class Marker:
    pass


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first number.

    Returns:
        The sum.
    """
    return a + b


def test_add_is_lean() -> None:
    sig = compile_signature(add)
    assert sig.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number."},
            "b": {"type": "integer", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert (sig.name, sig.description, sig.returns) == ("add", "Add two numbers.", int)
    assert [(field.name, field.required, field.default) for field in sig.fields] == [
        ("a", True, EMPTY),
        ("b", False, 2),
    ]


def ping() -> None: ...


def test_no_parameters() -> None:
    sig = compile_signature(ping)
    assert sig.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert (sig.description, sig.returns) == ("", None)
    assert compile_signature(lambda: 1).returns is EMPTY
    with pytest.raises(ShapeError, match='Unknown argument "x"'):
        sig.bind(b'{"x": 1}')


@pytest.mark.parametrize("raw", [None, b"", b"{}", b" {} ", b"null", msgspec.Raw(b"{}"), msgspec.Raw()])
def test_no_arguments(raw: Any) -> None:
    assert compile_signature(ping).bind(raw) == {}


BINDS: list[tuple[Any, bytes, Any]] = [
    (add, b'{"a": 1}', {"a": 1, "b": 2}),
    (add, b'{"b": 1, "a": 9007199254740993}', {"a": 2**53 + 1, "b": 1}),
    (add, b'{"a": "5", "b": 5.0}', {"a": 5, "b": 5}),
    (add, b'{"a": "5"}', {"a": 5, "b": 2}),
    (add, rb'{"\u0061": 1}', {"a": 1, "b": 2}),
    (add, b'"{\\"a\\": 1}"', {"a": 1, "b": 2}),
    (add, b"[1]", "The arguments must be an object, got the array [1]."),
    (add, b"{}", 'Missing required argument "a" (integer).'),
    (add, b'{"a": true}', 'Argument "a" must be an integer, got true.'),
    (
        add,
        b'{"a": "x", "b": null}',
        'Argument "a" must be an integer, got the string "x".',
    ),
    (add, b'{"a": 1, "c": 2}', 'Unknown argument "c". Known: a, b.'),
    (add, b'{"a": 1, "a": 1}', 'Argument "a" was given twice.'),
    (add, rb'{"a": 1, "\u0061": 2}', 'Argument "a" was given twice.'),
    (add, b'{"a": "x", "a": 1}', 'Argument "a" was given twice.'),
    (add, b'{"b": 1, "b": 2}', 'Argument "b" was given twice.'),
    (add, b'{"a": 1', "The arguments are not valid JSON"),
    (add, b'{"a": NaN}', "The arguments are not valid JSON"),
    (add, b'{"a": "\xff"}', "The arguments are not valid JSON"),
    (add, b'{"a":' + b"[" * 5000, "The arguments are n"),
]


@pytest.mark.parametrize(
    ("fn", "raw", "outcome"), BINDS, ids=[raw[:40].decode(errors="replace") for _, raw, _ in BINDS]
)
def test_bind(fn: Any, raw: bytes, outcome: Any) -> None:
    sig = compile_signature(fn)
    for form in (raw, msgspec.Raw(raw)):
        if isinstance(outcome, dict):
            assert sig.bind(form) == outcome
        else:
            with pytest.raises(ShapeError) as caught:
                sig.bind(form)
            assert str(caught.value).startswith(outcome)


def echo(text: str, data: dict[str, Any]) -> None: ...


def test_names_inside_values_are_no_duplicates() -> None:
    raw = b'{"text": "text", "data": {"text": 1, "data": {"data": 2}}}'
    assert compile_signature(echo).bind(raw) == json.loads(raw)


def test_a_json_string_for_an_object() -> None:
    raw = b'{"text": "{}", "data": "{\\"a\\": 1}"}'
    assert compile_signature(echo).bind(raw) == {"text": "{}", "data": {"a": 1}}


class Order(enum.Enum):
    ASC = "asc"
    DESC = "desc"


def search(
    query: str,
    when: str | dt.datetime = "now",
    order: Order = Order.ASC,
    options: Options = Options(5),  # noqa: B008
    tags: list[str] = [],  # noqa: B006
    note: str = None,  # type: ignore[assignment]  # noqa: RUF013
    *,
    region: Annotated[str, Header("Region"), "where"] = "eu",
) -> list["Options"]:
    """Search."""
    return []


def test_a_richer_schema() -> None:
    sig = compile_signature(search)
    limit = {"type": "integer", "maximum": 100, "default": 10}
    assert sig.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "when": {"anyOf": [{"type": "string"}, {"type": "string", "format": "date-time"}], "default": "now"},
            "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
            "options": {"type": "object", "properties": {"limit": limit}, "default": {"limit": 5}},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "note": {"type": "string"},
            "region": {"type": "string", "description": "where", "x-mcp-header": "Region", "default": "eu"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    jsonschema.Draft202012Validator.check_schema(sig.input_schema)
    assert sig.returns == list[Options]


def test_defaults_and_late_conversion() -> None:
    bind = compile_signature(search).bind
    out = bind(b'{"query": "q"}')
    assert out == {
        "query": "q",
        "when": "now",
        "order": Order.ASC,
        "options": Options(5),
        "tags": [],
        "note": None,
        "region": "eu",
    }
    when = bind(b'{"query": "q", "when": "2025-01-31T00:00:00"}')["when"]
    assert when == dt.datetime(2025, 1, 31)
    with pytest.raises(ShapeError, match=r'Argument "options.limit" must be at most 100, got 500\.'):
        bind(b'{"query": "q", "options": {"limit": 500}}')
    with pytest.raises(ShapeError, match='Argument "when" must be a string or a date-time'):
        bind(b'{"query": "q", "when": 5}')


@pytest.mark.parametrize("raw", [b'{"query": "q"}', b'{"query": "q", "order": "asc", "when": "x"}'])
def test_mutable_defaults_are_not_shared(raw: bytes) -> None:
    bind = compile_signature(search).bind
    first = bind(raw)
    before = copy.deepcopy(first)
    first["tags"].append("mine")
    first["options"].limit = 99
    assert bind(raw) == before


def test_a_sentinel_default_keeps_its_identity() -> None:
    missing = object()

    def fn(x: Any = missing) -> None: ...

    sig = compile_signature(fn)
    assert sig.bind(b"{}")["x"] is missing
    assert sig.input_schema["properties"]["x"] == {}


def test_pydantic_field_as_default() -> None:
    def fn(
        a: int = pydantic.Field(ge=1, description="text"),
        b: int = pydantic.Field(5, le=9),
        c: list[int] = pydantic.Field(default_factory=list),  # noqa: B008
        d: Annotated[int, pydantic.Field(lt=3)] = 2,
    ) -> None: ...

    sig = compile_signature(fn)
    assert sig.input_schema["properties"] == {
        "a": {"type": "integer", "minimum": 1, "description": "text"},
        "b": {"type": "integer", "maximum": 9, "default": 5},
        "c": {"type": "array", "items": {"type": "integer"}, "default": []},
        "d": {"type": "integer", "exclusiveMaximum": 3, "default": 2},
    }
    assert sig.bind(b'{"a": 1}') == {"a": 1, "b": 5, "c": [], "d": 2}
    assert sig.bind(b'{"a": 1}')["c"] is not sig.bind(b'{"a": 1}')["c"]
    with pytest.raises(ShapeError, match="at most 9"):
        sig.bind(b'{"a": 1, "b": 10}')
    aliased = pydantic.Field(alias="b")
    with pytest.raises(SignatureError, match="alias"):
        compile_signature(lambda a=aliased: None)


def test_the_title_of_an_argument_is_for_the_client() -> None:
    def order(
        a: Annotated[int, msgspec.Meta(title="How many")],
        b_c: int = pydantic.Field(2, title="At most"),
        d_e: int = 3,
    ) -> None: ...

    properties = compile_signature(order).input_schema["properties"]
    assert {name: inner.get("title") for name, inner in properties.items()} == {
        "a": "How many",
        "b_c": "At most",
        "d_e": None,
    }


def test_unannotated_parameters() -> None:
    def fn(a, b=5, c="x", d=None, e=[]):  # type: ignore[no-untyped-def]  # noqa: B006
        ...

    assert compile_signature(fn).input_schema["properties"] == {
        "a": {},
        "b": {"type": "integer", "default": 5},
        "c": {"type": "string", "default": "x"},
        "d": {},
        "e": {"type": "array", "default": []},
    }


def test_injected_parameters_are_no_arguments() -> None:
    def fn(a: int, ctx: Annotated[Marker, 1], *, db: complex = 1j) -> None: ...

    sig = compile_signature(fn, injected=lambda kind, default: kind is complex or "Marker" in str(kind))
    assert list(sig.input_schema["properties"]) == ["a"]
    assert sig.injected == {"ctx": Annotated[Marker, 1], "db": complex}
    assert sig.bind(b'{"a": 1}') == {"a": 1}


# Callables of all sorts ---------------------------------------------------------------------------------------


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


class Service:
    """A service."""

    class Inner(enum.Enum):
        A = "a"

    def method(self, a: int, b: "Inner" = Inner.A) -> int:
        """Do it."""
        return a

    @classmethod
    def make(cls, a: int) -> int:
        """Do it."""
        return a

    @staticmethod
    def static(a: int) -> int:
        """Do it."""
        return a

    def __call__(self, a: int) -> int:
        """Do it."""
        return a


def three(a: int, x: int, y: complex) -> int:
    """Do it."""
    return a


CALLABLES: list[tuple[Any, str]] = [
    (Service().method, "method"),
    (Service.make, "make"),
    (Service.static, "static"),
    (Service.__dict__["static"], "static"),
    (Service(), "Service"),
    (logged(Service.static), "static"),
    (logged(logged(Service().method)), "method"),
    (functools.partial(three, x=1, y=2), "three"),
    (functools.partial(functools.partial(three, y=2), x=1), "three"),
]


@pytest.mark.parametrize(("fn", "name"), CALLABLES, ids=range(len(CALLABLES)))
def test_callables(fn: Any, name: str) -> None:
    sig = compile_signature(fn)
    assert (sig.name, sig.description) == (name, "Do it.")
    assert fn(**sig.bind(b'{"a": 5}')) == 5
    assert sig.input_schema["properties"]["a"] == {"type": "integer"}


def module(text: str) -> Any:
    made = types.ModuleType("made")
    sys.modules["made"] = made  # dataclasses look for it there
    code = compile(textwrap.dedent(text), "made.py", "exec")
    exec(code, vars(made))
    return made


def test_future_annotations_and_closures() -> None:
    made = module(
        """
        from __future__ import annotations
        from dataclasses import dataclass

        def build():
            @dataclass
            class Local:
                x: int
            def fn(a: Local, b: list[Local] | None = None) -> Local:
                return Local(1)
            return fn, Local
        """
    )
    fn, local = made.build()
    assert compile_signature(fn).bind(b'{"a": {"x": 1}}') == {"a": local(1), "b": None}
    assert compile_signature(fn).returns is local


def test_names_of_the_registering_frame() -> None:
    made = module("def fn(a: 'Far'): ...")
    assert compile_signature(made.fn, names={"Far": int}).bind(b'{"a": 1}') == {"a": 1}


def test_a_type_checking_import_is_explained() -> None:
    made = module(
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from far import Away

        def fn(a: int, b: list[Away]): ...
        """
    )
    with pytest.raises(SignatureError) as caught:
        compile_signature(made.fn)
    text = str(caught.value)
    for word in ("made.py:7", "fn()", '"b"', "Away", "TYPE_CHECKING"):
        assert word in text


REFUSED = [
    ("def fn(*args: int): ...", ["args", "list["]),
    ("def fn(**kw: int): ...", ["kw", "dict[str, Any]"]),
    ("def fn(a: int, /): ...", ["a", "Remove the /"]),
    ("def fn(a: complex): ...", ["a", "complex"]),
    ("def fn(a: 'list['): ...", ["a", "list["]),
    ("import msgspec\ndef fn(a: int = msgspec.field(default=3)): ...", ["a", "field(...) belongs in a class"]),
    ("def fn(self, a: int): ...", ["self", "register instance.method"]),
    ("import typing\ndef fn(a: typing.Annotated[int, 5, typing.Callable]) -> 'Nope': ...", ["return", "Nope"]),
    ("class K:\n  @classmethod\n  def fn(cls): ...\nfn = K.__dict__['fn']", ["classmethod"]),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refused_signatures_say_where_and_what_to_write(text: str, words: list[str]) -> None:
    with pytest.raises(SignatureError) as caught:
        compile_signature(module(text).fn)
    for word in ["made.py:", "fn", *words]:
        assert word in str(caught.value)


def test_where_is_shown() -> None:
    with pytest.raises(SignatureError, match='tool add, parameter "a"'):
        compile_signature(module("def fn(a: complex): ...").fn, where="tool add")


AWKWARD = ["self", "_x", "__init__", "__slots__", "__dict__", "__post_init__", "__struct_fields__", "mro", "x1", "ä"]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names(name: str) -> None:
    made = module(f"def fn(first: int, {name}: int, last: int = 3): ...")
    out = compile_signature(made.fn).bind(json.dumps({"first": 1, name: 2}, ensure_ascii=False).encode())
    assert out == {"first": 1, name: 2, "last": 3}
    with pytest.raises(ShapeError, match="twice"):
        compile_signature(made.fn).bind(f'{{"first": 1, "{name}": 2, {json.dumps(name)}: 3}}'.encode())


def test_from_parameters() -> None:
    sig = Signature.from_parameters(
        "t",
        [
            ("class", "string", "a keyword", True, EMPTY),
            ("n", "integer", "", False, 5),
            ("two words", "array", "", False, EMPTY),
            ("o", "object", "", False, {"k": 1}),
            ("mode", Literal["a", "b"], "", False, "a"),
        ],
        description="A tool.",
    )
    assert sig.input_schema["properties"]["class"] == {"type": "string", "description": "a keyword"}
    assert sig.input_schema["required"] == ["class"]
    first = sig.bind(b'{"class": "x"}')
    assert first == {"class": "x", "n": 5, "o": {"k": 1}, "mode": "a"}
    first["o"]["k"] = 2
    assert sig.bind(b'{"class": "x", "two words": [1]}') == {
        "class": "x",
        "n": 5,
        "two words": [1],
        "o": {"k": 1},
        "mode": "a",
    }
    with pytest.raises(ShapeError, match='"mode" must be one of "a", "b", got "c"'):
        sig.bind(b'{"class": "x", "mode": "c"}')
    with pytest.raises(TypeError, match="'text' is not a JSON type"):
        Signature.from_parameters("t", [("a", "text", "", True, EMPTY)])


def test_shared_types_are_defined_once_for_all_arguments() -> None:
    def fn(a: Options, b: list[Options], c: Order) -> None: ...

    schema = compile_signature(fn).input_schema
    assert schema["$defs"].keys() == {"Options"}
    assert schema["properties"]["b"] == {"type": "array", "items": {"$ref": "#/$defs/Options"}}
    assert schema["properties"]["c"] == {"type": "string", "enum": ["asc", "desc"]}


@dataclasses.dataclass
class Filter:
    word: str
    limit: int = 10
    inner: "Filter | None" = None
    kind: Literal["a", "b", None] = None


class Notebook(pydantic.BaseModel):
    title: str
    pages: int = 1
    owner: str | None = None
    filter: Filter | None = None
    parts: list["Notebook"] = []


def find(
    filter: Filter,
    level: Literal["low", "high", None],
    count: int | None = None,
    size: int = 5,
    either: int | str | None = None,
    notebook: Notebook | None = None,
    usual: Filter = Filter("x"),  # noqa: B008
) -> Filter | None: ...


def test_null_is_published_only_where_it_says_something() -> None:
    schema = compile_signature(find).input_schema
    properties, defs = schema["properties"], schema["$defs"]
    assert properties["level"] == {"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}]}
    assert properties["count"] == {"type": "integer"}
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["notebook"] == {"$ref": "#/$defs/Notebook"}
    assert properties["usual"] == {"$ref": "#/$defs/Filter", "default": {"word": "x", "limit": 10}}
    assert defs["Filter"]["properties"]["inner"] == {"$ref": "#/$defs/Filter"}
    assert defs["Filter"]["properties"]["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert defs["Notebook"]["properties"]["owner"] == {"type": "string"}
    assert defs["Notebook"]["properties"]["filter"].keys() == {"$ref"}
    text = msgspec.json.encode(schema)
    assert text.count(b'"null"') == 1  # of the level, which has no default
    assert b"null" not in text.replace(b'"null"', b"")
    assert b'"type":[' not in text
    jsonschema.Draft202012Validator.check_schema(schema)


def test_null_is_accepted_where_it_is_not_published() -> None:
    bind = compile_signature(find).bind
    filter = b'"filter": {"word": "w", "inner": null, "kind": null}, "level": null'
    out = bind(b'{%b, "count": null, "either": null, "notebook": null}' % filter)
    assert (out["filter"], out["level"], out["count"], out["notebook"]) == (Filter("w"), None, None, None)
    raw = b'{%b, "notebook": {"title": "t", "owner": null, "filter": null}}' % filter
    assert bind(raw)["notebook"] == Notebook(title="t")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"size": None}, {"size": 5}),
        ({"filter": {"word": "w", "limit": None}}, {"filter": Filter("w")}),
        ({"filter": {"word": "w", "inner": {"word": "v", "limit": None}}}, {"filter": Filter("w", 10, Filter("v"))}),
        ({"usual": None, "size": "7"}, {"usual": Filter("x"), "size": 7}),
        ({"notebook": {"title": "t", "pages": None}}, {"notebook": Notebook(title="t")}),
        (
            {"notebook": {"title": "t", "parts": [{"title": "u", "pages": None, "parts": None}]}},
            {"notebook": Notebook(title="t", parts=[Notebook(title="u")])},
        ),
    ],
)
def test_null_for_an_optional_argument_means_absent(given: dict[str, Any], expected: dict[str, Any]) -> None:
    out = compile_signature(find).bind(msgspec.json.encode({"filter": {"word": "w"}, "level": "low", **given}))
    assert {name: out[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"filter": None}, 'Argument "filter" must be an object, got null.'),
        ({"filter": {"word": None, "limit": None}}, 'Argument "filter.word" must be a string, got null.'),
        (
            {"notebook": {"title": None, "pages": None}},
            'Argument "notebook.title" must be a valid string, got null.',
        ),
    ],
)
def test_null_for_a_required_argument_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError) as caught:
        compile_signature(find).bind(msgspec.json.encode({"filter": {"word": "w"}, "level": "low", **given}))
    assert str(caught.value) == words


def test_null_for_an_optional_parameter_without_a_default_means_absent() -> None:
    sig = Signature.from_parameters("t", [("a", "integer", "", False, EMPTY), ("b", "string", "", False, "x")])
    assert sig.bind(b'{"a": null, "b": null}') == {"b": "x"}
    nothing = Signature.from_parameters("t", [("a", "integer", "", False, None)])
    assert nothing.input_schema["properties"] == {"a": {"type": "integer"}}
    assert nothing.bind(b'{"a": null}') == {"a": None}
