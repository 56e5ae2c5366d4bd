"""The sentences that a model reads."""

from typing import Any

import pytest

from redstart.schema.errors import (
    Problem,
    ShapeError,
    join,
    missing,
    nearest,
    not_a_choice,
    one_of,
    show,
    spelled,
    twice,
    unknown,
    wrong_type,
    wrong_value,
)

SENTENCES: list[tuple[Problem, str]] = [
    (wrong_type("a", "an integer", "x"), 'Argument "a" must be an integer, got the string "x".'),
    (wrong_type("a", "an integer", [1, 2]), 'Argument "a" must be an integer, got the array [1, 2].'),
    (wrong_type("a", "an integer", None), 'Argument "a" must be an integer, got null.'),
    (wrong_type("a", "an integer", True), 'Argument "a" must be an integer, got true.'),
    (missing("b", "string"), 'Missing required argument "b" (string).'),
    (twice("a"), 'Argument "a" was given twice.'),
    (
        unknown("colour", "colour", ["color", "size"]),
        'Unknown argument "colour"; did you mean "color"? Known: color, size.',
    ),
    (unknown("zzz", "zzz", ["color", "size"]), 'Unknown argument "zzz". Known: color, size.'),
    (unknown("zzz", "zzz", []), 'Unknown argument "zzz". None is expected here.'),
    (wrong_value("options.limit", "at most 100", 500), 'Argument "options.limit" must be at most 100, got 500.'),
    (
        not_a_choice("order", one_of(["asc", "desc"]), "ascending", ["asc", "desc"]),
        'Argument "order" must be one of "asc", "desc", got "ascending"; did you mean "asc"?',
    ),
]


@pytest.mark.parametrize(("problem", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_sentence(problem: Problem, sentence: str) -> None:
    assert str(ShapeError([problem])) == sentence


def test_only_five_problems_are_listed() -> None:
    text = str(ShapeError([missing(name, "") for name in "abcdefg"]))
    assert text.count("Missing") == 5
    assert text.endswith("And 2 more.")


def test_the_noun_is_the_callers() -> None:
    assert str(ShapeError([missing("a", "")], noun="answer")) == 'Missing required answer "a".'


@pytest.mark.parametrize(
    "value", ["x" * 10_000, list(range(10_000)), {str(n): "y" * 999 for n in range(999)}, 10**4000]
)
def test_values_are_cut(value: Any) -> None:
    assert len(show(value)) <= 61


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("colour", ["size", "color"], "color"),
        ("COLOR", ["color"], "color"),
        ("ascending", ["asc", "desc"], "asc"),
        ("q", ["color"], None),
        ("", ["color"], None),
    ],
)
def test_nearest(name: str, known: list[str], near: str | None) -> None:
    assert nearest(name, known) == near


def test_paths() -> None:
    assert spelled(join(join(join("", "a"), 0), "b")) == "a[0].b"
