"""Markers in the annotations of pydantic models: published and enforced as those of other classes."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

import pydantic
import pytest

from redstart import Client, Server
from redstart.asking.forms import Choices, Format, compile_form
from redstart.schema.errors import ShapeError


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
