"""Calls that stop the event loop, in handlers that run on it, and their safe replacement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from redstart.cli.lint.facts import FunctionNode, SourceChange, parsed, source

_VERBS: Final = ("get", "post", "put", "patch", "delete", "head", "options", "request")
BLOCKING: Final = {
    "time.sleep",
    "urllib.request.urlopen",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "os.system",
    "sqlite3.connect",
    "socket.create_connection",
    "psycopg.connect",
    "input",
    *(f"{library}.{verb}" for library in ("requests", "httpx", "httpx2") for verb in _VERBS),
}


class BlockingCall(NamedTuple):
    """A call that waits without letting others run."""

    name: str
    line: int
    change: SourceChange | None


def blocking_calls(file: str, function: FunctionNode) -> Iterator[BlockingCall]:
    """The blocking calls of an `async def`: not those in functions inside of it, which may run elsewhere."""
    if isinstance(function, ast.AsyncFunctionDef):
        names = _imported(parsed(file))
        for node, awaitable in _inside(function):
            if isinstance(node, ast.Call) and (name := _name(node.func, names)) in BLOCKING:
                yield BlockingCall(name, node.lineno, _change(file, node, name) if awaitable else None)


def _imported(module: ast.Module) -> dict[str, str]:
    """The names of a module that mean something imported, and what they mean."""
    names = {"input": "input"}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _name(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of what is called, or an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join((names[node.id], *reversed(parts)))


def _inside(function: FunctionNode) -> Iterator[tuple[ast.AST, bool]]:
    """What is in the body itself, and whether `await` may be written there."""
    queue: list[tuple[ast.AST, bool]] = [(node, True) for node in function.body]
    while queue:
        node, awaitable = queue.pop(0)
        yield node, awaitable
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            plain = awaitable and not isinstance(node, ast.GeneratorExp)
            queue += [(child, plain) for child in ast.iter_child_nodes(node)]


def _change(file: str, call: ast.Call, name: str) -> SourceChange | None:
    """The same call in a thread; of `time.sleep`, the one that asyncio has."""
    text = source(file)
    called = ast.get_source_segment(text, call.func)
    if called is None or call.end_lineno is None or call.end_col_offset is None:
        return None
    given = [ast.get_source_segment(text, part) or "" for part in call.args]
    given += [f"{word.arg}={ast.get_source_segment(text, word.value)}" for word in call.keywords if word.arg]
    if "\n" in "".join(given) or any(word.arg is None for word in call.keywords) or "" in given:
        return None
    if name == "time.sleep":
        new = f"await asyncio.sleep({', '.join(given)})"
    else:
        new = f"await asyncio.to_thread({', '.join((called, *given))})"
    return SourceChange((call.lineno, call.col_offset), (call.end_lineno, call.end_col_offset), new)


def with_changes(text: str, changes: list[SourceChange]) -> str:
    """The source with the changes, the last one first, and with the import that they need."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # ast counts bytes
    for change in sorted(changes, reverse=True):
        (first, start), (last, end) = change.start, change.end
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        stands_alone = not head.strip() or head.rstrip().endswith(b"=")
        bare = stands_alone and tail.lstrip()[:1] in (b"", b"#")
        new = change.text if bare else f"({change.text})"
        lines[first - 1 : last] = [head + new.encode() + tail]
    changed = b"".join(lines).decode()
    module = ast.parse(changed)
    return changed if _imported(module).get("asyncio") == "asyncio" else _with_import(changed, module)


def _with_import(text: str, module: ast.Module) -> str:
    """`import asyncio` before the first import, or behind the docstring."""
    lines = text.splitlines(keepends=True)
    for node in module.body:
        documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not documentation and not future:
            lines.insert(node.lineno - 1, "import asyncio\n")
            break
    return "".join(lines)
