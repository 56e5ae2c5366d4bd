"""The modules of a project: which of them must be loaded again after a change, and how.

A module that imports a changed one has to be loaded again too, and so has every module that holds the server: a server
that stayed would keep the old tools.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Final

from redstart.features.startup_errors import is_own

Stamp = tuple[int, int, int]
"""When a file was written, its size and its inode."""
MAX_FOLDER: Final = 2000
"""Files of one folder that are looked at."""


class Project:
    """The modules below some folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._roots = tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)

    def modules(self) -> dict[str, str]:
        """The modules of the project that are loaded, with their files."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and name != "__main__" and file.endswith(".py"):
                real = _real(file)
                if real.startswith(self._roots) and is_own(real):
                    found[name] = real
        return found

    def stamps(self, files: Iterable[str]) -> dict[str, Stamp]:
        """The Python files beside these, and themselves, as they are now."""
        found = {}
        for folder in {os.path.dirname(file) for file in files}:
            with suppress(OSError), os.scandir(folder) as entries:
                for _, entry in zip(range(MAX_FOLDER), entries, strict=False):
                    if entry.name.endswith(".py"):
                        state = entry.stat()
                        found[entry.path] = state.st_mtime_ns, state.st_size, state.st_ino
        return found

    def concerned(self, changed: Collection[str], holds: Callable[[ModuleType], bool]) -> set[str]:
        """The modules that must be loaded again after these files have changed: they, what holds the server, and all
        that import one of them."""
        modules = self.modules()
        gone = {name for name, file in modules.items() if file in changed or holds(sys.modules[name])}
        imported = {name: _imports(name, file, _stamp(file)) for name, file in modules.items()}
        while more := {name for name in modules if name not in gone and not imported[name].isdisjoint(gone)}:
            gone |= more
        return gone

    @contextmanager
    def reloading(self, names: Collection[str], changed: Collection[str]) -> Iterator[None]:
        """Take modules out of `sys.modules`, so that they are imported anew. After an error they are put back."""
        modules, path = dict(sys.modules), list(sys.path)
        for file in {*changed, *(file for name, file in self.modules().items() if name in names)}:
            _drop_bytecode(file)
        for name in names:
            _detach(name, sys.modules.pop(name))
        importlib.invalidate_caches()
        linecache.checkcache()
        try:
            yield
        except BaseException:
            for name in self.modules():
                if sys.modules[name] is not modules.get(name):
                    del sys.modules[name]
            for name in names:
                sys.modules[name] = modules[name]
                _attach(name, modules[name])
            sys.path[:] = path
            raise
        finally:
            sys.path[:] = dict.fromkeys(sys.path)


@lru_cache(8192)
def _real(file: str) -> str:
    """Where a file really is. Asking for all modules, several times in a reload, took most of its time."""
    return os.path.realpath(file)


def _detach(name: str, module: ModuleType) -> None:
    """Take a module out of its package: `from package import module` would find the old one there."""
    package, _, last = name.rpartition(".")
    if package in sys.modules and vars(sys.modules[package]).get(last) is module:
        delattr(sys.modules[package], last)


def _attach(name: str, module: ModuleType) -> None:
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], last, module)


def _drop_bytecode(file: str) -> None:
    """Delete the bytecode: Python would use it if the file has the same size and was changed in the same second."""
    with suppress(OSError, ValueError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(file))


def _stamp(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


@lru_cache(4096)
def _imports(name: str, file: str, stamp: int) -> frozenset[str]:
    """The modules that a module imports by name, also inside of functions; nothing if its file cannot be read."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    package = name if os.path.basename(file) == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(part for alias in node.names for part in _with_parents(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            found.update(_with_parents(base))
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def differences(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> set[str]:
    """The files that were added, removed or written."""
    return {file for file in {*before, *after} if before.get(file) != after.get(file)}
