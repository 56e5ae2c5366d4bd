"""Google, NumPy and Sphinx docstrings, and odd ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart.schema.docstring import parse_docstring

GOOGLE = """Add two numbers.

    More text
    in two lines.

    Args:
        a: The first
            number.
        b (int, optional): The second: number.
        *rest: More.

    Returns:
        int: The sum.

    Raises:
        ValueError: Never.

    Example:
        add(1)
    """

NUMPY = """Add two numbers.

    More text
    in two lines.

    Parameters
    ----------
    a : int
        The first
        number.
    b, c : int, optional
        The second: number.

    Returns
    -------
    int
        The sum.

    Raises
    ------
    ValueError
        Never.
    """

SPHINX = """Add two numbers.

    More text
    in two lines.

    :param a: The first
        number.
    :param int b: The second: number.
    :type b: int
    :returns: The sum.
    :rtype: int
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(text: str) -> None:
    doc = parse_docstring(text)
    assert doc.description.startswith("Add two numbers.\n\nMore text\nin two lines.")
    assert (doc.params["a"], doc.params["b"]) == ("The first number.", "The second: number.")
    assert "The sum" not in doc.description
    assert "Never" not in doc.description


def test_unknown_sections_stay_in_the_description() -> None:
    assert parse_docstring(GOOGLE).description.endswith("Example:\n    add(1)")


def test_numpy_names_with_a_comma_share_their_text() -> None:
    assert parse_docstring(NUMPY).params["c"] == "The second: number."


ODD = [
    (None, "", {}),
    ("", "", {}),
    ("  \n ", "", {}),
    ("One line.", "One line.", {}),
    ("\n    Leading newline.\n    ", "Leading newline.", {}),
    ("Go.\n\nArgs:\na: at the level of its title\n\nMore.", "Go.\n\nMore.", {"a": "at the level of its title"}),
    ("Go.\n    Args:\n      a: deep", "Go.", {"a": "deep"}),
    ("Go.\n\nArgs:", "Go.", {}),
    ("Go.\n\nArgs:\n    a: one\n\n    b: two", "Go.", {"a": "one", "b": "two"}),
    ("Go.\n\nNote: args: none here.", "Go.\n\nNote: args: none here.", {}),
    ("Use a ratio\n1: 2 here.", "Use a ratio\n1: 2 here.", {}),
    ("Go.\n\nArgs:\n\ta: tabbed", "Go.", {"a": "tabbed"}),
]


@pytest.mark.parametrize(("text", "description", "params"), ODD, ids=range(len(ODD)))
def test_odd_docstrings(text: str | None, description: str, params: dict[str, str]) -> None:
    doc = parse_docstring(text)
    assert (doc.description, doc.params) == (description, params)


@given(st.text(alphabet=" \n:-abArgsReturns()*.,", max_size=200))
def test_nothing_breaks_it(text: str) -> None:
    parse_docstring(text)
