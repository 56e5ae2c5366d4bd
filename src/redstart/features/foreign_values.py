"""Objects of libraries that the user has loaded: data frames become tables, figures become pictures.

None of these libraries is imported here: `results.LOADED_TYPES` names the classes, and the function for each.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

from redstart.wire.types import Image, Text

ROWS: Final = 50
"""Rows of a table that the model sees."""
CELL: Final = 200
"""Characters of a cell that the model sees."""


def table(names: Iterable[object], rows: Iterable[Iterable[object]], height: int, unit: str = "rows") -> Text:
    """A Markdown table, with a line that says how many rows were left out."""
    columns = [_cell(name) for name in names]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    if height > ROWS:
        lines.append(f"\n(the first {ROWS} of {height} {unit}; ask for a narrower selection to see others)")
    return Text("\n".join(lines))


def _cell(value: object) -> str:
    text = str(value).replace("|", "\\|").replace("\r", "").replace("\n", " ")
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def pandas_frame(frame: Any) -> Text:
    shown = frame.head(ROWS)
    plain = type(frame.index).__name__ == "RangeIndex" and frame.index.name is None  # it only numbers the rows
    names = list(frame.columns) if plain else [frame.index.name or "", *frame.columns]
    return table(names, shown.itertuples(index=not plain, name=None), len(frame))


def pandas_series(series: Any) -> Text:
    return pandas_frame(series.to_frame(series.name if series.name is not None else "value"))


def polars_frame(frame: Any) -> Text:
    return table(frame.columns, frame.head(ROWS).iter_rows(), frame.height)


def polars_series(series: Any) -> Text:
    return polars_frame(series.to_frame())


def figure(figure: Any) -> Image:
    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return Image(target.getvalue(), "image/png")
