"""Unions that a field tells apart: what is said about a wrong tag."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from redstart.schema.errors import ShapeError
from redstart.schema.signature import EMPTY, Signature


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: int = 0


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: int


@dataclass
class Square:
    kind: Literal["square"]
    side: int
    turned: bool = False


class Mail(pydantic.BaseModel):
    via: Literal["mail"]
    address: str


class Call(pydantic.BaseModel):
    via: Literal["call"]
    number: str


Contact = Annotated[Mail | Call, pydantic.Field(discriminator="via")]
CASES: list[tuple[Any, dict[str, Any], str]] = [
    (Cat | Dog, {"type": "dgo"}, 'Argument "x.type" must be one of "cat", "dog", got "dgo"; did you mean "dog"?'),
    (Cat | Dog, {"type": "cat", "lives": "n"}, 'Argument "x.lives" must be an integer, got the string "n".'),
    (
        Circle | Square,
        {"kind": "sqare", "side": 1},
        'Argument "x.kind" must be one of "circle", "square", got "sqare"; did you mean "square"?',
    ),
    (Circle | Square, {"kind": "circle"}, 'Missing required argument "x.radius" (integer).'),
    (
        Contact,
        {"via": "mial"},
        'Argument "x.via" must be one of "mail", "call", got "mial"; did you mean "mail"?',
    ),
]


@pytest.mark.parametrize(("annotation", "value", "text"), CASES, ids=[text for *_, text in CASES])
def test_a_wrong_tag_is_answered_with_the_tags_there_are(annotation: Any, value: Any, text: str) -> None:
    signature = Signature.from_parameters("t", [("x", annotation, "", True, EMPTY)])
    with pytest.raises(ShapeError) as caught:
        signature.bind(msgspec.json.encode({"x": value}))
    assert str(caught.value) == text
