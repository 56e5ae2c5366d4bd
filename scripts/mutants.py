"""Change the code in small ways, one at a time, and see whether a test notices: `make mutants`.

    python scripts/mutants.py --module transports/guard.py --limit 40

Each change is made in a copy of the tree; this one is never touched. For each change only the tests run that came by
its line when nothing was changed, the quickest first. They run in a fork of a process that has loaded and collected
them, where the changed code takes the place of the old one; a change that happens when the module is loaded has a
process of its own. What no test notices is printed at the end, and is a gap in the tests or a change that means
nothing. What a server does that a test starts as a process is not seen, so such tests run only where no other one comes
by, and with `--servers 30`, for so many seconds, where the others notice nothing. It takes minutes for each file, so it
is not part of CI.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import inspect
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src/redstart")
COPIED = ("src", "tests", "examples", "docs", "bench", "scripts", "pyproject.toml", "README.md", "CHANGELOG.md")

TESTS: dict[str, tuple[str, ...]] = {
    "protocol": (
        "tests/protocol/test_gating.py",
        "tests/protocol/test_handshake.py",
        "tests/protocol/test_limits.py",
        "tests/protocol/test_modern.py",
        "tests/protocol/test_strict.py",
        "tests/wire",
        "tests/transports/test_http.py",
        "tests/server/test_conversation.py",
        "tests/server/test_context.py",
        "tests/features/test_results.py",
        "tests/features/test_tools.py",
        "tests/asking/test_sampling.py",
    ),
    "protocol/headers.py": (
        "tests/protocol/test_headers.py",
        "tests/client/test_headers.py",
        "tests/protocol/test_modern.py",
        "tests/transports/test_http.py",
    ),
    "protocol/framing.py": ("tests/protocol/test_framing.py", "tests/transports/test_stdio.py"),
    "transports/connection.py": ("tests/transports/test_socket_requests.py", "tests/transports/test_connection.py"),
    "transports/request.py": (
        "tests/transports/test_access_log.py",
        "tests/transports/test_audit.py",
        "tests/transports/test_cors.py",
        "tests/transports/test_garbage.py",
        "tests/transports/test_http.py",
        "tests/transports/test_socket_requests.py",
    ),
    "transports/response.py": (
        "tests/transports/test_auth.py",
        "tests/transports/test_garbage.py",
        "tests/transports/test_http.py",
        "tests/transports/test_sessions.py",
        "tests/transports/test_shares.py",
        "tests/transports/test_socket_requests.py",
        "tests/transports/test_stop_while_asking.py",
        "tests/transports/test_stream.py",
    ),
    "transports/shares.py": ("tests/transports/test_shares.py", "tests/transports/test_http.py"),
    "transports/stdio.py": (
        "tests/transports/test_stdio_peer.py",
        "tests/server/test_running.py",
        "tests/transports/test_stdio.py",
        "tests/transports/test_garbage.py",
        "tests/cli/test_run.py",
    ),
    "transports/pipe.py": ("tests/transports/test_pipe.py", "tests/server/test_running.py"),
    "transports/loop.py": ("tests/transports/test_loop.py", "tests/server/test_running.py"),
    "transports/serve.py": (
        "tests/transports/test_run_http.py",
        "tests/transports/test_serve.py",
        "tests/transports/test_stop_while_asking.py",
        "tests/transports/test_socket_requests.py",
        "tests/transports/test_health.py",
        "tests/server/test_running.py",
    ),
    "transports/shared.py": ("tests/transports/test_shared.py",),
    "transports/protected.py": (
        "tests/transports/test_protected.py",
        "tests/transports/test_auth.py",
        "tests/auth/test_issuing.py",
        "tests/auth/test_proxy.py",
    ),
    "auth/jwt.py": (
        "tests/auth/test_jwt.py",
        "--deselect=tests/auth/test_jwt.py::test_a_token_that_was_checked_costs_little",  # what is traced is slow
        "tests/auth/test_providers.py",
    ),
    "auth/tokens.py": ("tests/auth/test_tokens.py",),
    "auth/introspection.py": ("tests/auth/test_introspection.py", "tests/auth/test_providers.py"),
    "auth/fetch.py": ("tests/auth/test_fetch.py",),
    "auth/issuing.py": ("tests/auth/test_issuing.py", "tests/auth/test_proxy.py"),
    "auth/clients.py": ("tests/auth/test_clients.py", "tests/auth/test_issuing.py", "tests/auth/test_proxy.py"),
    "auth/proxy.py": ("tests/auth/test_issuing.py", "tests/auth/test_proxy.py", "tests/auth/test_proxy_processes.py"),
    "auth/records.py": ("tests/auth/test_issuing.py", "tests/auth/test_proxy.py"),
    "features/scopes.py": ("tests/features/test_scopes.py",),
    "transports/signals.py": ("tests/transports/test_signals.py", "tests/transports/test_hosted.py"),
    "transports/memory.py": (
        "tests/transports/test_memory.py",
        "tests/server/test_settings.py",
        "tests/client/test_memory.py",
        "tests/features/test_subscriptions.py",
    ),
    "transports/guard.py": (
        "tests/transports/test_guard.py",
        "tests/transports/test_http.py",
        "tests/transports/test_cors.py",
    ),
    "transports/address.py": (
        "tests/transports/test_address.py",
        "tests/transports/test_sessions.py",
        "tests/transports/test_options.py",
    ),
    "transports/cors.py": ("tests/transports/test_cors.py",),
    "transports/sessions.py": (
        "tests/transports/test_session_owner.py",
        "tests/transports/test_sessions.py",
        "tests/transports/test_http.py",
    ),
    "transports/stream.py": (
        "tests/transports/test_stream.py",
        "tests/transports/test_sessions.py",
        "tests/transports/test_http.py",
    ),
    "transports": (
        "tests/transports/test_http.py",
        "tests/transports/test_auth.py",
        "tests/transports/test_connection.py",
        "tests/transports/test_cors.py",
        "tests/transports/test_garbage.py",
        "tests/transports/test_legacy_sse.py",
        "tests/transports/test_options.py",
        "tests/transports/test_routes.py",
        "tests/transports/test_sessions.py",
        "tests/transports/test_session_owner.py",
        "tests/transports/test_stop_while_asking.py",
        "tests/transports/test_stream.py",
    ),
    "features/subscriptions.py": ("tests/features/test_subscriptions.py", "tests/client/test_listen.py"),
    "features/principal.py": (
        "tests/features/test_principal.py",
        "tests/transports/test_auth.py",
        "tests/features/test_user_state.py",
    ),
    "access": ("tests/transports/test_auth.py", "tests/client/test_memory.py"),
    "features/replica.py": ("tests/transports/test_shared.py", "tests/features/test_subscriptions.py"),
    "features/resources.py": ("tests/features/test_resources.py", "tests/features/test_subscriptions.py"),
    "features/files.py": ("tests/features/test_files.py",),
    "features/registry.py": ("tests/features/test_lists.py", "tests/features/test_completion.py"),
    "schema/uritemplate.py": ("tests/schema/test_uritemplate.py", "tests/features/test_resources.py"),
    "execution/visibility.py": (
        "tests/execution/test_visible.py",
        "tests/server/test_context.py",
        "tests/features/test_subscriptions.py",
        "tests/features/test_prompts.py",
        "tests/features/test_resources.py",
    ),
    "asking/seal.py": (
        "tests/asking/test_seal.py",
        "tests/asking/test_state.py",
        "tests/asking/test_wrong_key.py",
        "tests/server/test_settings.py",
    ),
    "asking/state.py": ("tests/asking/test_state.py", "tests/asking/test_steps.py"),
    "asking/steps.py": ("tests/asking/test_steps.py", "tests/asking/test_step_edges.py"),
    "store": ("tests/store", "tests/features/test_user_state.py"),
}
"""Which tests must notice a change in a file, or in a folder: the longest name that fits counts."""
GUARDS = (
    "transports/guard.py",
    "transports/sessions.py",
    "transports/cors.py",
    "features/principal.py",
    "access/authenticator.py",
    "access/verifier.py",
    "features/subscriptions.py",
    "execution/visibility.py",
    "schema/uritemplate.py",
)
"""What decides who may do what: looked at where no module is named."""


class Mutant(NamedTuple):
    """One small change."""

    line: int
    lines: frozenset[int]
    """Those of the statement: a test that runs the change comes by one of them."""
    what: str
    tree: ast.Module


class Change(NamedTuple):
    """A change, and how it is tried."""

    mutant: Mutant
    tests: list[str]
    timeout: float
    servers: list[str]
    """The tests that start a process, for a change that the others do not notice."""
    reloads: bool
    """Whether no test comes by: it happens when the module is loaded, so the tests must load it changed."""


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
        case ast.BoolOp(values=values):  # and for or, or the other way round, is noticed where one of these is
            for index, value in enumerate(values):
                yield f"without {ast.unparse(value)[:60]}", _without(index)
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", lambda made: made.operand  # type: ignore[attr-defined]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not _has_opposite(test):
            yield "condition is the opposite", _negated
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "True", "False"):
            yield "returns None", lambda made: ast.Return(ast.Constant(None))
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield "is left out", lambda made: ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()) if not ast.unparse(node).startswith("log."):
            yield "is left out", lambda made: ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "is left out", lambda made: ast.Pass()
        case ast.Constant(value=bool() as flag):
            yield f"{flag} becomes {not flag}", lambda made: ast.Constant(not flag)
        case ast.Constant(value=int() as number):
            yield f"{number} becomes {number + 1}", lambda made: ast.Constant(number + 1)


def _has_opposite(test: ast.expr) -> bool:
    """Whether the change of the condition itself is already its opposite."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _opposite(made: ast.AST) -> ast.AST:
    assert isinstance(made, ast.Compare)
    made.ops = [_OPPOSITE[type(made.ops[0])]()]
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
            first = node.test if isinstance(node, ast.If | ast.While) else node
            lines = frozenset(range(first.lineno, (first.end_lineno or first.lineno) + 1))  # type: ignore[attr-defined]
            words = f"{ast.unparse(node).splitlines()[0][:90]}: {what}"
            yield Mutant(min(lines), lines, words, ast.fix_missing_locations(made))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, by: ast.AST) -> None:
        self._target = target
        self._by = by

    def visit(self, node: ast.AST) -> ast.AST:
        return self._by if node is self._target else self.generic_visit(node)


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose change could change what the program does: no annotations, no docstrings, no `__repr__`, no
    assertions, and no numbers that are a limit of the module's or the length of a text."""
    match tree:
        case ast.FunctionDef(name="__repr__") | ast.Assert():
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.AnnAssign(annotation=ast.Name(id="Final"), value=ast.Constant() | ast.BinOp()):
            return
        case ast.Slice(upper=ast.Constant(value=int() as cut)) if cut > 8:
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


class Traced(NamedTuple):
    """What one test does where nothing is changed."""

    lines: list[int]
    seconds: float
    starts: bool
    """Whether it starts a process, which may run any line."""


class Tracer:
    """A plugin for pytest: what each test does in a module."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._seen: set[int] = set()
        self._starts = False
        self.found: dict[str, Traced] = {}
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: Any) -> None:
        if event == "subprocess.Popen":
            self._starts = True

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        # Only functions: where the first test that needs a module loads it, every test depends on what is loaded.
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        return self._line if is_function and frame.f_code.co_filename == self._path else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._seen.add(frame.f_lineno)
        return self._line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        began, self._seen, self._starts = time.monotonic(), set(), False
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.found[item.nodeid] = Traced(sorted(self._seen), time.monotonic() - began, self._starts)


class Chosen:
    """A plugin for pytest: runs these tests only, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {name: number for number, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


class Changed:
    """A plugin for pytest: once the tests are collected, runs some of them in a fork for each of these changes."""

    def __init__(self, path: Path, module: str, changes: list[Change]) -> None:
        self._path = path
        self._module = module
        self._changes = changes
        self._out = os.dup(1)  # of the driver: later, it is that of the tests
        self.alive: list[tuple[int, bool]] = []
        """Those that were not noticed, and whether they were tried: what happens at import was not."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        items = {item.nodeid: item for item in session.items}
        path = str(self._path)
        importlib.import_module(self._module)  # some are imported only when they are needed
        functions = [
            one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__code__.co_filename == path
        ]
        for number, change in enumerate(self._changes):
            changed = changed_code(change.mutant.tree, path, functions)
            if change.reloads or not changed:
                self.alive.append((number, False))
                continue
            self._path.write_text(ast.unparse(change.mutant.tree))  # for servers that a test starts
            child = os.fork()
            if not child:
                os.setsid()
                for function, code in changed:
                    function.__code__ = code
                session.items[:] = [items[name] for name in change.tests]
                try:
                    yield
                    os._exit(1 if session.testsfailed else 0)
                finally:
                    os._exit(1)
            if ended(child, change.timeout) == 0:
                self.alive.append((number, True))
                os.write(self._out, f"  alive  line {change.mutant.line}: {change.mutant.what}\n".encode())
        session.items.clear()
        return (yield)


def changed_code(tree: ast.Module, path: str, functions: list[FunctionType]) -> list[tuple[FunctionType, CodeType]]:
    """The functions whose code is another one in this tree, with that code."""
    codes: dict[tuple[str, int], CodeType] = {}
    rest = [compile(tree, path, "exec", dont_inherit=True)]
    while rest:
        code = rest.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        rest += [one for one in code.co_consts if isinstance(one, CodeType)]
    found = []
    for function in functions:
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno), old)
        if new != old and new.co_freevars == old.co_freevars:
            found.append((function, new))
    return found


_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of plugins that this process has loaded


def forked(tree: Path, tests: list[str], plugin: Any, timeout: float, after: Callable[[], None]) -> int | None:
    """What pytest returns for these tests, in a process of its own; None where it took too long."""
    child = os.fork()
    if not child:
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a test finds it elsewhere
            os.chdir(tree)
            said = os.open(tree / "said.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for number in range(3):
                os.dup2(said, number)
            os.environ["PYTHONPATH"] = str(tree / "src")
            sys.path.insert(0, str(tree / "src"))
            limit = f"timeout={min(timeout, 60):.0f}"
            code = int(
                pytest.main(
                    ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-o", limit, *_QUIET, *tests], [plugin]
                )
            )
            after()
        finally:
            os._exit(code)
    return ended(child, timeout)


def ended(child: int, timeout: float) -> int | None:
    """The exit code of a child; None where it took too long. What it has started ends with it."""
    deadline = time.monotonic() + timeout
    try:
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def trace(tree: Path, module: str) -> dict[str, Traced]:
    """Run the tests of a module as it is; load what they loaded, for the forks."""
    tracer, report = Tracer(tree / SOURCE / module), tree / "trace.json"

    def save() -> None:
        libraries = [
            name for name, one in sys.modules.items() if "site-packages" in (getattr(one, "__file__", "") or "")
        ]
        report.write_text(json.dumps([tracer.found, libraries]))

    sys.dont_write_bytecode = False
    if forked(tree, list(tests_of(module)), tracer, 900, save) != 0:
        raise SystemExit(f"{module}: its tests fail without any change:\n{(tree / 'said.txt').read_text()[-2000:]}")
    found, libraries = json.loads(report.read_text())
    for name in libraries:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return {name: Traced(*one) for name, one in found.items()}


def quick(tests: list[str], traced: dict[str, Traced], seconds: float) -> list[str]:
    """As many of the tests, the quickest first, as take so long: what hundreds of tests come by, a few of them show."""
    found = []
    for name in sorted(tests, key=lambda name: traced[name].seconds):
        if seconds <= 0:
            break
        seconds -= traced[name].seconds
        found.append(name)
    return found


def survivors(tree: Path, module: str, given: argparse.Namespace) -> list[str]:
    """The changes of one module that no test notices."""
    path = tree / SOURCE / module
    original, traced = path.read_text(), trace(tree, module)
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
    found = [one for one in mutants(original) if any(one.line in lines for lines in given.lines)]
    chosen = sorted(random.Random(given.seed).sample(range(len(found)), min(given.limit, len(found))))
    print(f"{module}: {len(chosen)} of {len(found)} changes, {' '.join(tests_of(module))}", flush=True)
    began = time.monotonic()
    changes = []
    for number in chosen:
        near = [name for name, one in traced.items() if not found[number].lines.isdisjoint(one.lines)]
        tests = quick(near or list(traced), traced, given.seconds)
        servers = quick([name for name, one in traced.items() if one.starts], traced, given.servers)
        timeout = 8 + 4 * sum(traced[name].seconds for name in {*tests, *servers})
        changes.append(Change(found[number], tests, timeout, servers, not near))
    try:
        alive = [f"{SOURCE / module}:{mutant.line}: {mutant.what}" for mutant in _alive(tree, module, changes)]
    finally:
        path.write_text(original)
    print(f"  {len(chosen) - len(alive)} noticed, {len(alive)} not, {time.monotonic() - began:.0f} s", flush=True)
    return alive


def _alive(tree: Path, module: str, changes: list[Change]) -> Iterator[Mutant]:
    """The changes that no test notices."""
    path, report = tree / SOURCE / module, tree / "alive.json"
    used = list(dict.fromkeys(name for change in changes for name in change.tests))
    if forked(tree, list(tests_of(module)), Chosen(used), 900, lambda: None) != 0:
        raise SystemExit(f"{module}: its tests fail in another order:\n{(tree / 'said.txt').read_text()[-2000:]}")
    loaded = Changed(path, "redstart." + module.removesuffix(".py").replace("/", "."), changes)
    time_for_all = 60 + sum(change.timeout for change in changes)
    if forked(tree, list(tests_of(module)), loaded, time_for_all, lambda: _save(report, loaded.alive)) != 0:
        raise SystemExit(f"{module}: the forks did not work:\n{(tree / 'said.txt').read_text()[-2000:]}")
    for number, tried in json.loads(report.read_text()):
        mutant, tests, timeout, servers, _ = changes[number]
        path.write_text(ast.unparse(mutant.tree))
        rest = [*([] if tried else tests), *servers]
        files = sorted({name.partition("::")[0] for name in rest})
        if not rest or forked(tree, files, Chosen(rest), timeout, lambda: None) == 0:
            yield mutant


def _save(report: Path, alive: list[tuple[int, bool]]) -> None:
    report.write_text(json.dumps(alive))


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


def numbers(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help="a file or folder below src/redstart; may be repeated")
    parser.add_argument("--limit", type=int, default=1000, help="changes of each module, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", nargs="+", type=numbers, default=[range(sys.maxsize)], help="such as 12 or 30-45")
    parser.add_argument("--tests", nargs="+", help="these tests in place of those of the table")
    parser.add_argument("--seconds", type=float, default=10, help="of tests for one change, the quickest first")
    parser.add_argument("--servers", type=float, default=0, help="seconds of tests that start a process, after these")
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
            if given.tests:
                TESTS[module] = tuple(given.tests)
            alive += survivors(tree, module, given)
    print(f"\n{len(alive)} changes that no test notices", *alive, sep="\n  ")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
