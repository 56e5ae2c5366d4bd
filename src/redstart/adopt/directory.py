"""A directory as a server: what is in `tools/`, `prompts/` and `resources/` is served, also what changes later.

Each file is a module under a name of its own, so that no two can disturb each other or an installed one. What should
be served follows from the files that loaded; a difference to what is served now is registered or removed.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from redstart.adopt.watching import watching
from redstart.execution.dependencies import injected
from redstart.features.errors import log
from redstart.features.marks import components, is_component, is_marked

if TYPE_CHECKING:
    from redstart.adopt.registrar import Registrar
    from redstart.execution.threads import Pool
    from redstart.features.marks import Component

KINDS: Final = ("tools", "prompts", "resources")
PREFIX: Final = "redstart_directory_"
Stamp = tuple[int, int, int]
Key = tuple[str, str]

_numbers = itertools.count(1)


class _Loaded(Struct):
    """One file: when it was read, and what it holds."""

    stamp: Stamp
    things: list[Component]


class ServedDirectory:
    """The files of one directory server."""

    def __init__(self, server: Registrar, root: Path) -> None:
        self.root = root
        self._server = server
        self._package = f"{PREFIX}{next(_numbers)}"
        self._folders = [root / kind for kind in KINDS]
        self._files: dict[Path, _Loaded] = {}
        self._helpers: dict[Path, Stamp] = {}
        self._served: dict[Key, Component] = {}
        self._install()
        if not any(folder.is_dir() for folder in self._folders):
            log.warning("%s has no folder tools, prompts or resources yet: nothing is served from there", root)
        self._serve(self._read())

    # ------------------------------------------------------------ life

    @asynccontextmanager
    async def watched(self, pool: Pool) -> AsyncIterator[None]:
        """Inside of this block, changes of the files change what is served. Files are read in a thread."""
        async with watching(self._folders) as changed:
            task = asyncio.get_running_loop().create_task(self._follow(changed, pool))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _follow(self, changed: asyncio.Event, pool: Pool) -> None:
        while True:
            await changed.wait()
            changed.clear()
            try:
                # Files are read in a thread, because a module may be slow to load; what is served changes on the loop.
                self._serve(await pool.run(self._read, {}))
            except Exception:
                log.exception("%s could not be read again; what was served before is still served", self.root)

    # ------------------------------------------------------------ reading

    def _read(self) -> dict[Path, _Loaded]:
        """All files as they should be served now: those that did not change as they are, the others read again."""
        files, helpers = self._look()
        known = self._files
        if helpers != self._helpers:  # any file may use the helper that changed
            self._helpers, known = helpers, {}
        if files.keys() == known.keys() and all(known[path].stamp == stamp for path, stamp in files.items()):
            return known
        if known is not self._files or not known:
            self._forget()
        importlib.invalidate_caches()
        loaded = {}
        for path, stamp in files.items():
            old = known.get(path)
            loaded[path] = old if old is not None and old.stamp == stamp else self._load(path, stamp)
        for path in self._files.keys() - files.keys():
            sys.modules.pop(self._name(path), None)
        return loaded

    def _look(self) -> tuple[dict[Path, Stamp], dict[Path, Stamp]]:
        """The files that are to be served, in order, and those that only help them."""
        files: dict[Path, Stamp] = {}
        helpers: dict[Path, Stamp] = {}
        for folder in self._folders:
            for path in _sources(folder):
                try:
                    status = path.stat()
                except OSError:  # gone since it was listed
                    continue
                private = any(part.startswith("_") for part in path.relative_to(folder).parts)
                (helpers if private else files)[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return files, helpers

    def _load(self, path: Path, stamp: Stamp) -> _Loaded:
        """Read one file. If that fails, its last good version is kept."""
        kept = self._files.get(path)
        if kept is not None and stamp[1] == 0:  # most editors empty a file before they write it
            return _Loaded(stamp, kept.things)
        try:
            module = self._execute(path)
            things = list(self._components(module))
        except (Exception, SystemExit) as error:
            what = "its last good version is still served" if kept is not None and kept.things else "it is skipped"
            log.error("%s: %s; %s", _where(path, error), _words(error), what)
            log.debug("the whole error of %s", path, exc_info=error)
            return _Loaded(stamp, kept.things if kept is not None else [])
        if not things:
            log.warning(
                "%s has nothing to serve: mark a function with @tool, @prompt or @resource, or make a Tool, Prompt or "
                "Resource; a file that only helps others has a name that begins with _",
                path,
            )
        return _Loaded(stamp, things)

    def _components(self, module: ModuleType) -> Iterator[Component]:
        """What is defined in this file."""
        seen: set[int] = set()
        for value in list(vars(module).values()):
            explicit = is_component(value)
            if id(value) in seen or not (explicit or is_marked(value)):
                continue
            home = str(getattr(value.handler if explicit else value, "__module__", None))
            if home != module.__name__ and (home.startswith(self._package) or not explicit):
                continue
            seen.add(id(value))
            yield from (value,) if explicit else components(value, injected)

    # ------------------------------------------------------------ modules

    def _install(self) -> None:
        """A package that stands for the directory, so that `from ._helper import x` works in its files."""
        if not any(isinstance(finder, type) and issubclass(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder)
        package = ModuleType(self._package)
        package.__path__ = [str(self.root)]
        sys.modules[self._package] = package

    def _forget(self) -> None:
        """Forget the modules, so that they are imported again."""
        for name in [name for name in sys.modules if name.startswith(f"{self._package}.")]:
            del sys.modules[name]

    def _name(self, path: Path) -> str:
        parts = [*path.relative_to(self.root).parts[:-1], path.stem]
        return ".".join([self._package, *(part.replace(".", "_") for part in parts)])

    def _execute(self, path: Path) -> ModuleType:
        name = self._name(path)
        importlib.import_module(name.rpartition(".")[0])
        spec = importlib.util.spec_from_loader(name, _Fresh(name, str(path)))
        assert spec is not None
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        before = sys.modules.get(name)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr] # it is the one above
        except BaseException:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
            raise
        return module

    # ------------------------------------------------------------ serving

    def _serve(self, files: dict[Path, _Loaded]) -> None:
        """Make what is served agree with `files`."""
        if files is self._files:
            return
        self._files = files
        wanted: dict[Key, Component] = {}
        for loaded in files.values():
            for thing in loaded.things:
                other = wanted.get(_key(thing))
                if other is not None:
                    text = "%r is defined twice, at %s and at %s; the second one is served"
                    log.warning(text, thing, other.place, thing.place)
                wanted[_key(thing)] = thing
        for key in self._served.keys() - wanted.keys():
            with suppress(KeyError):  # the application may have removed it itself
                self._server.remove(self._served.pop(key))
        for key, thing in wanted.items():
            if self._served.get(key) is not thing:
                self._register(key, thing)

    def _register(self, key: Key, thing: Component) -> None:
        try:
            self._server.register(thing, replace=key in self._served)
        except (TypeError, ValueError) as error:
            kept = "; what it was before is still served" if key in self._served else ""
            log.error("%r at %s is not served: %s%s", key[1], thing.place, error, kept)
            before = [self._served[key]] if key in self._served else []
            for loaded in self._files.values():
                at = next((i for i, other in enumerate(loaded.things) if other is thing), None)
                if at is not None:
                    loaded.things[at : at + 1] = before
        else:
            self._served[key] = thing


def open_directory(server: Registrar, directory: str | os.PathLike[str], caller: str | None) -> ServedDirectory:
    """Serve what is in `directory`; `caller` is the file that asks for it."""
    server.declare(("prompts", "resources"))  # a file may add the first entry of a list at any time
    return ServedDirectory(server, find(directory, caller))


def find(directory: str | os.PathLike[str], caller: str | None) -> Path:
    """The directory, relative to the file that makes the server, else to the current directory."""
    path = Path(directory)
    if caller is not None and not path.is_absolute():
        beside = Path(caller).resolve().parent / path
        if beside.is_dir():
            return beside
    return path.resolve()


def _sources(folder: Path) -> Iterator[Path]:
    """The Python files below `folder`, in a fixed order."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("."):
                yield Path(parent, name)


def _key(thing: Component) -> Key:
    return thing.kind, thing.key


def _where(path: Path, error: BaseException) -> str:
    """`file.py:12`: the line of that file where it happened."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"


# ---------------------------------------------------------------- importing


class _Fresh(SourceFileLoader):
    """Reads the source each time, because time stamps of cached bytecode have a resolution of one second."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(PathFinder):
    """Finds the helpers of directory servers, and loads them as the files themselves."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Fresh(fullname, spec.loader.path)
        return spec
