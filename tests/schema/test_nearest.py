"""The nearest of many names: found among those that begin or end alike, with a bounded number of comparisons."""

import difflib
import sys
from types import FrameType
from typing import Any

import pytest

from redstart.schema.errors import nearest

VERBS = ("add", "drop", "find", "list", "move", "open", "read", "save", "send", "show")
TOOLS = [f"{verb}_{number:04}_{'ab'[number % 2]}" for number in range(2000) for verb in VERBS]


def counted(name: str, known: list[str]) -> tuple[str | None, int]:
    """The nearest name, and how many lines of difflib that took."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += frame.f_code.co_filename == difflib.__file__
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return nearest(name, known), lines
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sennd_1234_a", "send_1234_a"),
        ("xsend_1234_a", "send_1234_a"),
        ("send_1234a", "send_1234_a"),
        ("Send_1234_A", "send_1234_a"),
        ("send_1234_a_now", "send_1234_a"),
        ("z" * 100_000, None),
        ("send_" * 100_000, None),
    ],
)
def test_the_nearest_of_many_names_takes_few_comparisons(name: str, near: str | None) -> None:
    found, lines = counted(name, TOOLS)
    assert found == near
    assert lines < 100_000


def test_of_names_that_differ_in_case_the_one_written_alike_is_meant() -> None:
    assert nearest("tilt", ["Till", "till", "TILL"]) == "till"
    assert nearest("Tilt", ["till", "Till", "TILL"]) == "Till"


@pytest.mark.parametrize("length", [100, 100_000])
def test_a_long_name_costs_no_more_than_a_short_one(length: int) -> None:
    assert counted("ab" * length, ["ba" * length, "b" * length])[1] < 100_000
