# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart", "duckdb>=1.1", "matplotlib>=3.9"]
# ///
"""Ask questions of a folder of CSV files in SQL, and get tables and plots.

DuckDB runs the queries. The files are read once, at the start; after that DuckDB may not open files or the network, so
a query can only see these tables. Rows that do not fit into an answer are a resource that the client can read.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import duckdb
from matplotlib.figure import Figure

from redstart import Message, ResourceLink, Server, SyncContext, Text, ToolError

FOLDER = Path(os.environ.get("ANALYST_DATA", Path(__file__).parent / "data"))
SHOWN = 20
"""How many rows an answer shows."""
MOST = 10_000
"""How many rows of one result are kept."""
KEPT = 20
"""How many results are kept."""


@dataclass
class Data:
    """The tables, and the large results of the last queries."""

    database: duckdb.DuckDBPyConnection
    results: dict[str, str] = field(default_factory=dict)

    def run(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns and rows of a query; a mistake in it is told to the model."""
        cursor = self.database.cursor()  # each call has its own: tools run in threads
        try:
            found = cursor.execute(sql)
            return [column[0] for column in found.description or []], found.fetchmany(MOST)
        except duckdb.Error as error:
            raise ToolError(str(error)) from None
        finally:
            cursor.close()

    def keep(self, columns: list[str], rows: list[tuple[Any, ...]]) -> str:
        """Keep a result as CSV; the URI under which it can be read."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerows([columns, *rows])
        name = f"r{len(self.results) + 1}"
        while len(self.results) >= KEPT:
            self.results.pop(next(iter(self.results)))
        self.results[name] = text.getvalue()
        return f"results://{name}"


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Data]:
    database = duckdb.connect(config={"threads": 2, "memory_limit": "512MB"})
    for file in sorted(FOLDER.glob("*.csv")):  # noqa: ASYNC240  # before anybody is served
        name = file.stem.replace('"', "")
        database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_csv(?)', [str(file)])
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    try:
        yield Data(database)
    finally:
        database.close()


server = Server("analyst", version="1.0.0", lifespan=opened, instructions="Look at `tables` before you write SQL.")
Sql = Annotated[str, "A query in DuckDB's SQL"]


@server.tool(annotations={"readOnlyHint": True})
def tables(ctx: SyncContext[Data]) -> dict[str, dict[str, str]]:
    """The tables, with the type of each column."""
    rows = ctx.lifespan.run("SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL")[1]
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


@server.tool(timeout=30)
def query(sql: Sql, ctx: SyncContext[Data]) -> list[Text | ResourceLink]:
    """Run a query. The first rows are a table; if there are more, the whole result is a resource."""
    columns, rows = ctx.lifespan.run(sql)
    if not columns:
        return [Text("done")]
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines = head + [f"| {' | '.join(str(value) for value in row)} |" for row in rows[:SHOWN]]
    answer: list[Text | ResourceLink] = [Text("\n".join(lines))]
    if len(rows) > SHOWN:
        uri = ctx.lifespan.keep(columns, rows)
        count = f"{'the first ' if len(rows) == MOST else ''}{len(rows)} rows"
        answer.append(ResourceLink(uri, name=uri, description=f"All of it: {count}", mime_type="text/csv"))
    return answer


@server.tool(timeout=30)
def plot(
    sql: Annotated[str, "A query with two columns: what stands on the x axis, and a number"],
    ctx: SyncContext[Data],
    kind: Literal["line", "bar", "scatter"] = "bar",
    title: str = "",
) -> Figure:
    """Draw the result of a query."""
    columns, rows = ctx.lifespan.run(sql)
    if len(columns) != 2 or not rows:
        raise ToolError(f"a plot needs two columns and at least one row; this has {len(columns)} and {len(rows)}")
    if not all(isinstance(row[1], int | float) for row in rows):
        raise ToolError(f"the second column, {columns[1]}, must be a number: use CAST or leave out NULL")
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=columns[0], ylabel=columns[1])
    x, y = [row[0] if isinstance(row[0], int | float) else str(row[0]) for row in rows], [row[1] for row in rows]
    draw: Any = getattr(axes, "plot" if kind == "line" else kind)
    draw(x, y)
    axes.tick_params(axis="x", rotation=30)
    return figure


@server.resource("results://{name}", mime_type="text/csv")
def result(name: str, ctx: SyncContext[Data]) -> str | None:
    """A whole result that was too long for an answer."""
    return ctx.lifespan.results.get(name)


@server.prompt(title="Explore the data")
def explore(question: str) -> list[Message]:
    """Answer a question from the tables."""
    order = "Look at the tables first, then query, then plot."
    return [Message("user", f"Answer from the tables of this server: {question}\n{order}")]


if __name__ == "__main__":
    server.run()
