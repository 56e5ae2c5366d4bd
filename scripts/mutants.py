"""Change the code in small ways, one at a time, and see whether a test notices: `make mutants`.

    python scripts/mutants.py --module transports/guard.py --limit 40

Each change is made in a copy of the tree; this one is never touched. What no test notices is printed at the end, and
is a gap in the tests or a change that means nothing. It takes minutes for each file, so it is no part of CI.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src/redstart")
COPIED = ("src", "tests", "examples", "docs", "bench", "scripts", "pyproject.toml", "README.md", "CHANGELOG.md")

TESTS: dict[str, tuple[str, ...]] = {
    "protocol": ("tests/protocol", "tests/wire", "tests/server/test_conversation.py"),
    "transports/stdio.py": ("tests/transports/test_stdio.py", "tests/transports/test_garbage.py"),
    "transports/guard.py": ("tests/transports/test_guard.py", "tests/transports/test_http.py"),
    "transports/sessions.py": (
        "tests/transports/test_session_owner.py",
        "tests/transports/test_lifecycle.py",
        "tests/transports/test_http.py",
    ),
    "transports": ("tests/transports/test_http.py", "tests/transports/test_lifecycle.py", "tests/transports"),
    "features/subscriptions.py": ("tests/features/test_subscriptions.py", "tests/client/test_listen.py"),
    "features/principal.py": (
        "tests/features/test_principal.py",
        "tests/transports/test_auth.py",
        "tests/server/test_state.py",
    ),
    "features/resources.py": ("tests/features/test_resources.py", "tests/features/test_subscriptions.py"),
    "features/files.py": ("tests/features/test_files.py",),
    "features/registry.py": ("tests/features/test_lists.py", "tests/features/test_completion.py"),
    "schema/uritemplate.py": ("tests/schema/test_uritemplate.py", "tests/features/test_resources.py"),
    "server/visible.py": (
        "tests/server/test_visible.py",
        "tests/server/test_context.py",
        "tests/features/test_subscriptions.py",
        "tests/features/test_prompts.py",
        "tests/features/test_resources.py",
    ),
    "server/seal.py": (
        "tests/server/test_seal.py",
        "tests/server/test_request_state.py",
        "tests/server/test_wrong_key.py",
    ),
    "server/request_state.py": ("tests/server/test_request_state.py", "tests/server/test_steps.py"),
    "server/steps.py": ("tests/server/test_steps.py", "tests/server/test_step_edges.py"),
    "store": ("tests/store", "tests/server/test_state.py"),
}
"""Which tests must notice a change in a file, or in a folder: the longest name that fits counts."""
GUARDS = (
    "transports/guard.py",
    "transports/sessions.py",
    "transports/caller.py",
    "features/principal.py",
    "features/subscriptions.py",
    "server/visible.py",
    "schema/uritemplate.py",
)
"""What decides who may do what: looked at where no module is named."""


class Mutant(NamedTuple):
    """One small change."""

    line: int
    what: str
    tree: ast.Module


# ---------------------------------------------------------------- changes

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """What can be changed in a node: in words, and a function from a copy of it to what takes its place."""
    match node:
        case ast.Compare(ops=[op]):
            yield f"{type(op).__name__} becomes {_OPPOSITE[type(op)].__name__}", _opposite
        case ast.BoolOp(op=op, values=values):
            other = "or" if isinstance(op, ast.And) else "and"
            yield f"becomes {other}", _swapped
            for index, value in enumerate(values):
                yield f"without {ast.unparse(value)[:60]}", _without(index)
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", lambda made: made.operand  # type: ignore[attr-defined]
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition is the opposite", _negated
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "True", "False"):
            yield "returns None", lambda made: ast.Return(ast.Constant(None))
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield "is left out", lambda made: ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()) if not ast.unparse(node).startswith("log."):
            yield "is left out", lambda made: ast.Pass()
        case ast.Constant(value=bool() as flag):
            yield f"{flag} becomes {not flag}", lambda made: ast.Constant(not flag)
        case ast.Constant(value=int() as number):
            yield f"{number} becomes {number + 1}", lambda made: ast.Constant(number + 1)


def _opposite(made: ast.AST) -> ast.AST:
    assert isinstance(made, ast.Compare)
    made.ops = [_OPPOSITE[type(made.ops[0])]()]
    return made


def _swapped(made: ast.AST) -> ast.AST:
    assert isinstance(made, ast.BoolOp)
    made.op = ast.Or() if isinstance(made.op, ast.And) else ast.And()
    return made


def _without(index: int) -> Callable[[ast.AST], ast.AST]:
    def change(made: ast.AST) -> ast.AST:
        assert isinstance(made, ast.BoolOp)
        del made.values[index]
        return made.values[0] if len(made.values) == 1 else made

    return change


def _negated(made: ast.AST) -> ast.AST:
    assert isinstance(made, ast.If | ast.While | ast.IfExp)
    made.test = ast.UnaryOp(ast.Not(), made.test)
    return made


def mutants(text: str) -> Iterator[Mutant]:
    """Every changed version of a module."""
    tree = ast.parse(text)
    for number, node in enumerate(places(tree)):
        for what, change in changes(node):
            made = copy.deepcopy(tree)
            target = list(places(made))[number]
            _Replace(target, change(target)).visit(made)
            line = getattr(node, "lineno", 0)
            yield Mutant(line, f"{ast.unparse(node).splitlines()[0][:90]}: {what}", ast.fix_missing_locations(made))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, by: ast.AST) -> None:
        self._target = target
        self._by = by

    def visit(self, node: ast.AST) -> ast.AST:
        return self._by if node is self._target else self.generic_visit(node)


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose change could change what the program does: no annotations, no docstrings, no `__repr__`."""
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef) and tree.name == "__repr__":
        return
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from places(child)


# ---------------------------------------------------------------- running


def tests_of(module: str) -> tuple[str, ...]:
    """The tests for a module; the longest name in the table that fits it counts."""
    fits = [name for name in TESTS if module == name or module.startswith(f"{name}/")]
    if not fits:
        raise SystemExit(f"no tests are known for {module}; add a row to TESTS. Known: {', '.join(TESTS)}")
    return TESTS[max(fits, key=len)]


def passes(tree: Path, tests: tuple[str, ...], timeout: float) -> bool | None:
    """Whether the tests pass in `tree`; None where they took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return run.wait(timeout) == 0
    except subprocess.TimeoutExpired:
        return None
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def survivors(tree: Path, module: str, limit: int, seed: int) -> list[str]:
    """The changes of one module that no test notices."""
    path = tree / SOURCE / module
    original, tests = path.read_text(), tests_of(module)
    began = time.monotonic()
    if not passes(tree, tests, 600):
        raise SystemExit(f"{module}: its tests fail without any change: {' '.join(tests)}")
    timeout = 30 + 4 * (time.monotonic() - began)
    found = list(mutants(original))
    chosen = sorted(random.Random(seed).sample(range(len(found)), min(limit, len(found))))
    print(f"{module}: {len(chosen)} of {len(found)} changes, {' '.join(tests)}", flush=True)
    alive = []
    try:
        for number in chosen:
            mutant = found[number]
            path.write_text(ast.unparse(mutant.tree))
            if passes(tree, tests, timeout):
                alive.append(f"{SOURCE / module}:{mutant.line}: {mutant.what}")
                print(f"  alive  {alive[-1]}", flush=True)
    finally:
        path.write_text(original)
    return alive


def files(names: list[str]) -> list[str]:
    """The modules that are meant: files, and those of folders."""
    found = []
    for name in names:
        path = ROOT / SOURCE / name
        if not path.exists():
            raise SystemExit(f"{path} does not exist; give a path below {SOURCE}")
        inside = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [str(each.relative_to(ROOT / SOURCE)) for each in inside if each.stat().st_size]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help="a file or folder below src/redstart; may be repeated")
    parser.add_argument("--limit", type=int, default=1000, help="changes of each module, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the tests that run, and the copy, go too
    alive: list[str] = []
    with tempfile.TemporaryDirectory(prefix="redstart-mutants-") as folder:
        tree = Path(folder)
        for name in COPIED:
            source, target = ROOT / name, tree / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            elif source.exists():
                shutil.copy2(source, target)
        for module in files(given.module or list(GUARDS)):
            alive += survivors(tree, module, given.limit, given.seed)
    print(f"\n{len(alive)} changes that no test notices", *alive, sep="\n  ")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
