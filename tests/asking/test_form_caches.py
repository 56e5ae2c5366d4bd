"""What a compiled form is remembered by: two schemas that Python takes for equal are two forms."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pytest

from asking.player import REVISIONS, accept, every, play_tool, script, serve
from redstart import Choices, Context
from redstart.asking.fields import FormError
from redstart.asking.forms import FormQuestion, compile_form, form_question
from redstart.wire.meta import ClientCapabilities

T = TypeVar("T")
CALL: Any = SimpleNamespace(
    capabilities=ClientCapabilities(elicitation={}), dialect=SimpleNamespace(titled_choices=True)
)


def question(message: str, schema: Any) -> FormQuestion:
    return form_question(CALL, message, schema)


def asked(schema: Any) -> Any:
    """The one field of the form."""
    return compile_form(schema).schema(True)["properties"]["answer"]


# ---------------------------------------------------------------- annotations that are equal


FRUIT = Literal["apple", "pear"]
TIURF = Literal["pear", "apple"]
PAIRS = [
    (FRUIT, TIURF),
    (list[FRUIT], list[TIURF]),
    (set[FRUIT], set[TIURF]),
    (FRUIT | None, None | TIURF),  # the other way round, or Python itself would give the first one again
    (Literal["a", 1], Literal["a", True]),
    (Annotated[str, Choices("apple", "pear")], Annotated[str, Choices("pear", "apple")]),
    (Annotated[int, msgspec.Meta(ge=1)], Annotated[int, msgspec.Meta(ge=2)]),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=map(str, range(len(PAIRS))))
def test_annotations_that_look_different_are_different_forms(one: Any, other: Any) -> None:
    assert asked(one) != asked(other)
    assert question("?", one).digest != question("?", other).digest
    assert asked(one) == asked(one)


def test_choices_come_in_the_order_in_which_they_were_written() -> None:
    assert asked(FRUIT)["enum"] == ["apple", "pear"]
    assert asked(TIURF)["enum"] == ["pear", "apple"]
    assert asked(list[TIURF])["items"]["enum"] == ["pear", "apple"]
    assert asked(Literal[1, 0])["enum"] == ["1", "0"]
    assert asked(Literal[True, False])["enum"] == ["true", "false"]


@every
def test_what_was_asked_before_does_not_change_a_question(revision: str) -> None:
    """Each process has its own history, and all must ask the same."""

    async def pick(ctx: Context) -> str:
        first = await ctx.choose("Which?", Literal["y", "x"])
        return str(first + await ctx.choose("Which?", Literal["x", "y"]))

    text, player = play_tool(serve(pick), revision, script(accept(answer="y"), accept(answer="x")), "pick")
    assert text == "yx"
    enums = [question["params"]["requestedSchema"]["properties"]["answer"]["enum"] for question in player.asked]
    assert enums == [["y", "x"], ["x", "y"]]


@pytest.mark.parametrize("schema", [int, FRUIT, list[FRUIT], int | None, Annotated[int, msgspec.Meta(ge=3)]])
def test_a_form_is_compiled_once(schema: Any) -> None:
    assert compile_form(schema) is compile_form(schema)


def test_an_annotation_that_is_made_anew_is_not_compiled_anew() -> None:
    forms = [compile_form(list[Literal["a", "b"]]) for _ in range(2)]
    assert forms[0] is forms[1]


def test_what_no_cache_can_keep_is_compiled_each_time() -> None:
    schema = Annotated[int, {}]
    assert asked(schema) == {"type": "integer"}
    assert compile_form(schema) is not compile_form(schema)


# ---------------------------------------------------------------- classes that are equal


class Alike(type):
    """The metaclass of classes that are all the same to Python."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return 1


@dataclass
class Street(metaclass=Alike):
    street: str


@dataclass
class City(metaclass=Alike):
    city: str


@dataclass
class Box(Generic[T]):
    thing: T


class Small(str, metaclass=Alike):
    pass


def test_classes_that_are_equal_keep_their_own_forms() -> None:
    for _ in range(2):
        for schema, name in ((Street, "street"), (City, "city")):
            form = question("Where?", schema).form
            assert list(form.schema(True)["properties"]) == [name]
            value = form.read({name: "Bern"})
            assert type(value) is schema
            assert compile_form(schema) is form


def test_a_class_that_equals_a_builtin_is_not_one() -> None:
    answer = compile_form(Small).read({"answer": "x"})
    assert type(answer) is Small


def test_a_generic_of_classes_that_are_equal() -> None:
    texts, numbers = compile_form(Box[str]), compile_form(Box[int])
    assert texts.read({"thing": "1"}) == Box("1")
    assert numbers.read({"thing": "1"}) == Box(1)


class Unhashable(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other


@dataclass
class Loose(metaclass=Unhashable):
    name: str


def test_a_class_that_cannot_be_hashed_is_refused_by_name() -> None:
    for _ in range(2):
        with pytest.raises(FormError, match="a form: Loose cannot be used"):
            question("Who?", Loose)


def test_classes_made_on_the_way_are_not_kept_for_ever() -> None:
    def make(base: type) -> Any:
        return dataclass(base("Made", (), {"__annotations__": {"x": int}}))

    for base in (type, Alike):
        first = weakref.ref(made := make(base))
        question("?", made)
        del made
        for _ in range(1100):
            question("?", make(base))
        gc.collect()
        assert first() is None


# ---------------------------------------------------------------- an object in place of a class


@dataclass
class Address:
    street: str


class Frozen(msgspec.Struct, frozen=True):
    street: str


@pytest.mark.parametrize(
    ("schema", "name"),
    [(Address("x"), "Address"), (Frozen("x"), "Frozen"), (5, "int"), ({1, 2}, "set")],
    ids=["dataclass", "struct", "number", "set"],
)
def test_an_object_in_place_of_a_class(schema: Any, name: str) -> None:
    with pytest.raises(FormError, match=f"^this is an object of class {name} where a class is needed: a form is") as it:
        compile_form(schema)
    assert it.value.__context__ is None


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_handler_that_gives_an_object_is_told_so(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.ask("Where?", Address("x")))

    assert "FormError" in play_tool(serve(t), revision, None)[0]
    assert "an object of class Address where a class is needed" in caplog.text
    assert "unhashable" not in caplog.text
