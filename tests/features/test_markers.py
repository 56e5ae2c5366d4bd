"""Markers in the annotations of pydantic models: published and enforced as those of other classes."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest

from redstart import Client, Complete, RegistrationError, Server
from redstart.asking.forms import Choices, Format, compile_form
from redstart.schema.errors import ShapeError
from redstart.schema.types import compile_type


class Booking(pydantic.BaseModel):
    room: Annotated[str, Choices(("s", "Single"), ("d", "Double"))]
    mail: Annotated[str, Format("email")]
    extras: list[Annotated[str, Choices("sea", "quiet")]] = []
    note: Annotated[str, "what else we should know"] = ""


def test_markers_of_a_pydantic_model_are_in_the_form() -> None:
    properties = compile_form(Booking).schema(True)["properties"]
    assert [one["const"] for one in properties["room"]["oneOf"]] == ["s", "d"]
    assert properties["mail"]["format"] == "email"
    assert properties["note"]["description"] == "what else we should know"
    assert [one["const"] for one in properties["extras"]["items"]["anyOf"]] == ["sea", "quiet"]


@pytest.mark.parametrize("wrong", [{"room": "x"}, {"mail": "nobody"}, {"extras": ["loud"]}])
def test_an_answer_outside_of_them_is_refused(wrong: dict[str, object]) -> None:
    form = compile_form(Booking)
    right = {"room": "s", "mail": "a@b", "extras": ["sea"]}
    assert form.read(right) == Booking(room="s", mail="a@b", extras=["sea"])
    with pytest.raises(ShapeError, match=next(iter(wrong))):
        form.read({**right, **wrong})


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
class Room:
    kind: Annotated[str, Choices(("s", "Single"), ("d", "Double"))] = "s"


class Suite(pydantic.BaseModel):
    kind: Annotated[str, Choices(("s", "Single"), ("d", "Double"))] = "s"
    floors: list[Annotated[int, Choices(1, 2)]] = []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"room": {"kind": "x"}}, 'Argument "room.kind" must be one of "s", "d", got "x".'),
        ({"suite": {"kind": "x"}}, 'Argument "suite.kind" is refused: must be one of "s", "d", got "x".'),
        ({"suite": {"floors": [3]}}, 'Argument "suite.floors[0]" is refused: must be one of 1, 2, got 3.'),
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
        room: Room | None = None,
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
