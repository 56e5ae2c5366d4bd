"""Objects of libraries that the user has loaded: data frames become tables, figures become pictures.

None of these libraries is ever imported here: an object's own class says where it comes from.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, Final

from redstart.wire.types import Image, Text

ROWS: Final = 50
"""Rows of a table that the model sees."""
CELL: Final = 200
"""Characters of a cell that the model sees."""


def origin(kind: type) -> tuple[str, str]:
    """The library and the name of the class that `kind` is, or is made from."""
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if (library, base.__name__) in CONVERSIONS:
            return library, base.__name__
    return "", ""


def is_loaded_type(kind: Any) -> bool:
    """Whether `kind` is a class of one of these libraries, which has a picture or table for a schema."""
    return isinstance(kind, type) and bool(origin(kind)[0])


def convert(value: Any) -> Text | Image | None:
    """The block that `value` becomes, or None if it is not of these libraries."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return None
    made = CONVERSIONS.get(origin(kind))
    return made(value) if made is not None else None


def table(names: Iterable[Any], rows: Iterable[Iterable[Any]], height: int, unit: str = "rows") -> Text:
    """A Markdown table, with a line that says how many rows were left out."""
    columns = [_cell(name) for name in names]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    if height > ROWS:
        lines.append(f"\n(the first {ROWS} of {height} {unit}; ask for a narrower selection to see others)")
    return Text("\n".join(lines))


def _cell(value: Any) -> str:
    text = str(value).replace("|", "\\|").replace("\r", "").replace("\n", " ")
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def _pandas_frame(frame: Any) -> Text:
    shown = frame.head(ROWS)
    plain = type(frame.index).__name__ == "RangeIndex" and frame.index.name is None  # it only numbers the rows
    names = list(frame.columns) if plain else [frame.index.name or "", *frame.columns]
    return table(names, shown.itertuples(index=not plain, name=None), len(frame))


def _pandas_series(series: Any) -> Text:
    return _pandas_frame(series.to_frame(series.name if series.name is not None else "value"))


def _polars_frame(frame: Any) -> Text:
    return table(frame.columns, frame.head(ROWS).iter_rows(), frame.height)


def _polars_series(series: Any) -> Text:
    return _polars_frame(series.to_frame())


def _figure(figure: Any) -> Image:
    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return Image(target.getvalue(), "image/png")


CONVERSIONS: Final[dict[tuple[str, str], Callable[[Any], Text | Image]]] = {
    ("pandas", "DataFrame"): _pandas_frame,
    ("pandas", "Series"): _pandas_series,
    ("polars", "DataFrame"): _polars_frame,
    ("polars", "Series"): _polars_series,
    ("matplotlib", "Figure"): _figure,
}
