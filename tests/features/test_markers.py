"""Markers in the annotations of fields: published and enforced in every kind of model, in all directions."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import jsonschema
import msgspec
import pydantic
import pytest

from redstart import Client, Complete, RegistrationError, Server
from redstart.asking.forms import Choices, Format, compile_form
from redstart.schema.errors import ShapeError
from redstart.schema.types import compile_type

Room = Annotated[str, Choices(("s", "Single"), ("d", "Double"))]
Mail = Annotated[str, Format("email")]
Extras = list[Annotated[str, Choices("sea", "quiet")]]
Note = Annotated[str, "what else we should know"]
Floor = Annotated[int, Choices((1, "Ground"), 2)] | None
View = Annotated[str | None, Choices("lake", "hill")]


@dataclass
class PlainBooking:
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


class TypedBooking(TypedDict):
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


class TupleBooking(NamedTuple):
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


class StructBooking(msgspec.Struct):
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


@attrs.define
class AttrsBooking:
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


class ModelBooking(pydantic.BaseModel):
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


@pydantic.dataclasses.dataclass
class CheckedBooking:
    room: Room
    mail: Mail
    extras: Extras
    note: Note
    floor: Floor
    view: View


BOOKINGS = [PlainBooking, TypedBooking, TupleBooking, StructBooking, AttrsBooking, ModelBooking, CheckedBooking]
RIGHT: dict[str, Any] = {"room": "s", "mail": "a@b", "extras": ["sea"], "note": "", "floor": None, "view": None}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"room": "x"}, "room"),
    ({"extras": ["sea", "loud"]}, "extras[1]"),
    ({"floor": 3}, "floor"),
    ({"view": "x"}, "view"),
]
every_booking = pytest.mark.parametrize("booking", BOOKINGS)


@every_booking
def test_markers_are_in_the_form_of_every_kind_of_model(booking: Any) -> None:
    properties = compile_form(booking).schema(True)["properties"]
    assert properties["room"] == {
        "type": "string",
        "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}],
    }
    assert properties["mail"]["format"] == "email"
    assert properties["note"]["description"] == "what else we should know"
    assert [one["const"] for one in properties["extras"]["items"]["anyOf"]] == ["sea", "quiet"]
    assert [one["title"] for one in properties["floor"]["oneOf"]] == ["Ground", "2"]
    assert [one["const"] for one in properties["view"]["oneOf"]] == ["lake", "hill"]


@every_booking
def test_markers_hold_for_the_answers_to_a_form(booking: Any) -> None:
    form = compile_form(booking)
    assert form.read(RIGHT) == booking(**RIGHT)
    for wrong in ({"room": "x"}, {"mail": "nobody"}, {"extras": ["loud"]}, {"floor": 3}, {"view": "x"}):
        with pytest.raises(ShapeError, match=f'^Field "{next(iter(wrong))}" must be '):
            form.read({**RIGHT, **wrong})


@every_booking
def test_markers_hold_for_the_arguments_and_the_results_of_a_tool(booking: Any) -> None:
    server = Server("s")

    @server.tool
    def book(it: booking) -> str:
        return "fine"

    @server.tool
    def stored(it: dict[str, Any]) -> booking:
        return it

    async def check() -> None:
        async with Client(server) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            published = [tools["book"].input_schema["properties"]["it"], tools["stored"].output_schema]
            for schema in published:
                assert schema["properties"]["note"]["description"] == "what else we should know"
                assert schema["properties"]["mail"]["format"] == "email"
                jsonschema.validate(RIGHT, schema)
                jsonschema.validate({**RIGHT, "floor": 1, "view": "hill"}, schema)
                for wrong, _ in WRONG:
                    with pytest.raises(jsonschema.ValidationError):
                        jsonschema.validate({**RIGHT, **wrong}, schema)
            assert (await client.call_tool("book", {"it": RIGHT})).text == "fine"
            assert (await client.call_tool("stored", {"it": RIGHT})).data == RIGHT
            for wrong, place in WRONG:
                text = (await client.call_tool("book", {"it": {**RIGHT, **wrong}})).text
                assert text.startswith(f'Argument "it.{place}" must be one of '), text
                assert (await client.call_tool("stored", {"it": {**RIGHT, **wrong}})).is_error

    asyncio.run(check())


def test_a_tool_that_promises_text_and_returns_none_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    def forgets() -> str:
        return None  # type: ignore[return-value]

    async def call() -> bool | None:
        async with Client(server) as client:
            return (await client.call_tool("forgets", {})).is_error

    assert asyncio.run(call())
    assert 'must be a string, because the tool declares "-> str", got None' in caplog.text


@dataclass
class PlainRoom:
    kind: Annotated[str, Choices(("s", "Single"), ("d", "Double"))] = "s"


class Suite(pydantic.BaseModel):
    kind: Annotated[str, Choices(("s", "Single"), ("d", "Double"))] = "s"
    floors: list[Annotated[int, Choices(1, 2)]] = []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"room": {"kind": "x"}}, 'Argument "room.kind" must be one of "s", "d", got "x".'),
        ({"suite": {"kind": "x"}}, 'Argument "suite.kind" must be one of "s", "d", got "x".'),
        ({"suite": {"floors": [3]}}, 'Argument "suite.floors[0]" must be one of 1, 2, got 3.'),
        ({"view": "x"}, 'Argument "view" must be one of "sea", "quiet", got "x".'),
        ({"stars": 4}, 'Argument "stars" must be one of 1, 2.5, got 4.'),
        ({"maybe": "x"}, 'Argument "maybe" must be'),
        ({"size": "x"}, 'Argument "size" must be "l", got "x".'),
        ({}, "fine"),
        ({"room": {"kind": "d"}, "suite": {"floors": [1, 2]}, "view": "sea", "stars": 2.5, "maybe": "a"}, "fine"),
    ],
)
def test_choices_hold_for_arguments_of_tools(arguments: dict[str, object], said: str) -> None:
    server = Server("s")

    @server.tool
    def book(
        room: PlainRoom | None = None,
        suite: Suite | None = None,
        view: Annotated[str, Choices("sea", "quiet")] = "sea",
        stars: Annotated[float, Choices((1, "One"), (2.5, "Good"))] = 1.0,
        maybe: Annotated[str | None, Choices("a", "b")] = None,
        size: Annotated[Literal["l"], Choices(("l", "Large"))] = "l",
    ) -> str:
        return "fine"

    async def call() -> str:
        async with Client(server) as client:
            return (await client.call_tool("book", arguments)).text

    assert asyncio.run(call()).startswith(said)


class Tour(pydantic.BaseModel):
    tags: list[Annotated[str, "a tag"]] = []
    counts: dict[str, Annotated[int, "how many"]] = {}
    pair: tuple[Annotated[int, "first"], Annotated[str, "second"]] = (1, "")
    maybe: Annotated[str, "perhaps"] | None = None
    listed: Annotated[list[Annotated[str, "one of them"]], "all of them"] | None = None
    nested: list[list[Annotated[int, "deep"]]] = []


@dataclass
class PlainTour:
    tags: list[Annotated[str, "a tag"]] = field(default_factory=list)
    counts: dict[str, Annotated[int, "how many"]] = field(default_factory=dict)
    pair: tuple[Annotated[int, "first"], Annotated[str, "second"]] = (1, "")
    maybe: Annotated[str, "perhaps"] | None = None
    listed: Annotated[list[Annotated[str, "one of them"]], "all of them"] | None = None
    nested: list[list[Annotated[int, "deep"]]] = field(default_factory=list)


def described(schema: object) -> object:
    """Only the descriptions of a schema, where they are."""
    if isinstance(schema, list):
        return [described(inner) for inner in schema]
    if not isinstance(schema, dict):
        return None
    words = ("properties", "items", "additionalProperties", "prefixItems", "anyOf")
    parts = {key: described(inner) for key, inner in schema.items() if key in words or key in Tour.model_fields}
    return {**parts, **{key: schema[key] for key in ("description",) if key in schema}}


def test_the_words_of_inner_annotations_of_a_pydantic_model_are_kept() -> None:
    assert described(compile_type(Tour).schema()) == described(compile_type(PlainTour).schema())


@dataclass
class Language:
    name: Annotated[str, Complete(["python", "prolog"])] = "python"


class LanguageModel(pydantic.BaseModel):
    name: Annotated[str, Complete(["python", "prolog"])] = "python"


class Outer(pydantic.BaseModel):
    languages: list[LanguageModel | None] = []


@pytest.mark.parametrize("kind", [Language, LanguageModel, LanguageModel | None, Outer])
def test_complete_in_a_field_of_a_model_is_refused(kind: Any) -> None:
    """The protocol completes arguments, so nothing would ever ask for the values of a field."""

    def review(language: kind) -> str:
        return ""

    with pytest.raises(RegistrationError, match=r"Complete.*\"name\" of Language(Model)?.*put it on the argument"):
        Server("s").prompt(review)


def test_complete_beside_a_model_completes_the_argument() -> None:
    server = Server("s")

    @server.prompt
    def review(language: Annotated[Tour | None, Complete(["{}"])] = None) -> str:
        return ""

    async def values() -> list[str]:
        async with Client(server) as client:
            return list((await client.complete("review", "language", "")).values)

    assert asyncio.run(values()) == ["{}"]
