# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart"]
# ///
"""Browse and query a database: a file of SQLite, or PostgreSQL by its URL.

Queries can only read. A change is shown to the user first, and happens if the user agrees.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Annotated, Any, Protocol

from redstart import Complete, Server, SyncContext, ToolError

ROWS = 200
"""How many rows an answer has at most."""
STEPS = 20_000_000
"""How many steps of SQLite's machine one query may take; some seconds."""


class Database(Protocol):
    """What the tools need to know of a database."""

    def tables(self) -> list[str]: ...
    def describe(self, table: str) -> list[str]: ...
    def read(self, sql: str) -> tuple[list[str], list[Sequence[Any]]]: ...
    def write(self, sql: str) -> int: ...


class Sqlite:
    """A file of SQLite. Each call opens it, because tools run in threads."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise SystemExit(f"there is no database {self.path}")

    def _open(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self.path.as_uri()}?mode={mode}", uri=True)
        steps = iter(range(STEPS // 1000))
        connection.set_progress_handler(lambda: next(steps, None) is None, 1000)  # it ends what takes too long
        connection.set_authorizer(  # another file would be another database than the one that was shared
            lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
        )
        return connection

    def tables(self) -> list[str]:
        sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY 1"
        return [row[0] for row in self.read(sql)[1]]

    def describe(self, table: str) -> list[str]:
        with closing(self._open("ro")) as connection:
            rows = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", [table]).fetchall()
        return [f"{name} {kind}{' PRIMARY KEY' if key else ''}" for name, kind, key in rows]

    def read(self, sql: str) -> tuple[list[str], list[Sequence[Any]]]:
        try:
            with closing(self._open("ro")) as connection:
                found = connection.execute(sql)
                return [column[0] for column in found.description or ()], found.fetchmany(ROWS)
        except sqlite3.Error as error:
            raise ToolError(f"SQLite says: {error}") from None

    def write(self, sql: str) -> int:
        try:
            with closing(self._open("rw")) as connection, connection:
                return connection.execute(sql).rowcount
        except sqlite3.Error as error:
            raise ToolError(f"SQLite says: {error}; nothing was changed") from None


class Postgresql:
    """A database of PostgreSQL; needs psycopg."""

    def __init__(self, url: str) -> None:
        self.url = url

    def _run(self, sql: str, values: Sequence[Any] = (), *, write: bool = False) -> tuple[list[str], list[Any], int]:
        import psycopg

        try:
            with psycopg.connect(self.url, options="-c statement_timeout=10000") as connection:
                connection.read_only = not write
                found = connection.execute(sql, values or None)
                columns = [column.name for column in found.description or ()]
                return columns, found.fetchmany(ROWS) if columns else [], found.rowcount
        except psycopg.Error as error:
            raise ToolError(f"PostgreSQL says: {error}") from None

    def tables(self) -> list[str]:
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1"
        return [row[0] for row in self._run(sql)[1]]

    def describe(self, table: str) -> list[str]:
        sql = (
            "SELECT column_name || ' ' || data_type FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position"
        )
        return [row[0] for row in self._run(sql, [table])[1]]

    def read(self, sql: str) -> tuple[list[str], list[Sequence[Any]]]:
        columns, rows, _ = self._run(sql)
        return columns, rows

    def write(self, sql: str) -> int:
        return self._run(sql, write=True)[2]


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Database]:
    target = os.environ.get("DATABASE") or (sys.argv[1] if len(sys.argv) > 1 else "")
    if not target:
        raise SystemExit("which database? Set DATABASE, or write it after --: redstart run server.py -- shop.db")
    yield Postgresql(target) if re.match(r"postgres(ql)?://", target) else Sqlite(target)


server = Server("sqlite-explorer", version="1.0.0", lifespan=opened)


def table_names(prefix: str, ctx: SyncContext[Database]) -> list[str]:
    return [name for name in ctx.lifespan.tables() if name.startswith(prefix)]


@server.resource("schema://tables", mime_type="application/json")
def tables(ctx: SyncContext[Database]) -> list[str]:
    """The names of all tables and views."""
    return ctx.lifespan.tables()


@server.resource("schema://table/{name}", mime_type="text/plain")
def table(name: Annotated[str, Complete(table_names)], ctx: SyncContext[Database]) -> str | None:
    """The columns of a table."""
    return "\n".join(ctx.lifespan.describe(name)) or None


@server.tool(annotations={"readOnlyHint": True})
def schema(ctx: SyncContext[Database]) -> dict[str, list[str]]:
    """All tables with their columns. Look here before you write SQL."""
    return {name: ctx.lifespan.describe(name) for name in ctx.lifespan.tables()}


@server.tool(annotations={"readOnlyHint": True}, timeout=20)
def query(sql: Annotated[str, "A query that only reads"], ctx: SyncContext[Database]) -> dict[str, Any]:
    """Run a query. At most 200 rows come back."""
    columns, rows = ctx.lifespan.read(sql)
    plain = [[value.hex() if isinstance(value, bytes) else value for value in row] for row in rows]
    return {"columns": columns, "rows": plain}


@server.tool(annotations={"destructiveHint": True}, timeout=20)
def change(sql: Annotated[str, "One INSERT, UPDATE, DELETE or CREATE"], ctx: SyncContext[Database]) -> str:
    """Change the data, if the user agrees."""
    if not ctx.confirm(f"Run this on the database?\n\n{sql}"):
        raise ToolError("the user did not agree; nothing was changed")
    # The handler runs again after the answer in the stateless revision; a step runs once.
    count = ctx.step("write", lambda: ctx.lifespan.write(sql))
    return f"{count} rows changed" if count >= 0 else "done"


if __name__ == "__main__":
    server.run()
