"""The evaluator of the gallery's calculator: arithmetic, and nothing else."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import ROOT

sys.path.insert(0, str(ROOT / "examples" / "gallery"))

from arithmetic import MAX_BITS, BadExpression, evaluate


@pytest.mark.requirement("146")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 ** 3)", -8),
        ("7 // 2 + 7 % 4", 6),
        ("1 / 4", 0.25),
        (" 2.5e3 ", 2500.0),
        ("2 ** -1", 0.5),
    ],
)
def test_arithmetic(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.requirement("146")
@pytest.mark.parametrize(
    "expression",
    [
        "", "x", "f(1)", "(1).real", "'a' * 9", "True", "1 if 1 else 2", "[1]", "1 < 2", "lambda: 1", "1; 2", "1j",
        "__import__('os')", "9 ** 9 ** 9", "2 ** 5000", "1e308 * 10", "(-8) ** 0.5", "0 ** -1", "1 % 0", "1 << 9999",
        "(" * 400 + "1" + ")" * 400, "9" * 501, "10.0 ** 400", "\0",
    ],
)  # fmt: skip
def test_what_is_no_arithmetic(expression: str) -> None:
    with pytest.raises(BadExpression):
        evaluate(expression)


@pytest.mark.requirement("146")
@given(st.text(alphabet="0123456789.+-*/%() eE_xj", max_size=60))
def test_any_text_is_a_small_number_or_refused(expression: str) -> None:
    try:
        value = evaluate(expression)
    except BadExpression:
        return
    assert isinstance(value, int | float)
    assert not isinstance(value, int) or value.bit_length() <= MAX_BITS
