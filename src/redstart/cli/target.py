"""From what a person typed to a Server: a file, a folder, a module, an object in one of them, an installed server.

`cli/project.py` finds the target if none was typed.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeGuard, TypeVar

from redstart.cli.output import CommandError
from redstart.cli.project import (
    TargetError,
    check_file,
    chosen,
    find,
    installed_servers,
    is_folder,
    like,
    no_module,
    parts,
    spec_of,
    target_argument,
)
from redstart.features.errors import RegistrationError, SettingsError
from redstart.features.marks import is_component, is_marked
from redstart.features.startup_errors import shown, where
from redstart.schema.callables import SignatureError
from redstart.schema.errors import nearest
from redstart.schema.types import UnsupportedType
from redstart.server.server import Server

__all__ = ["TargetError", "chosen", "find", "load", "ready", "target_argument"]

R = TypeVar("R")

NAMES = ("server", "mcp", "app")
"""The usual names of the one Server of a module."""
FACTORY = re.compile(r"(create|make|build|get|new)_?(\w+_)?(server|mcp|app)")
"""The usual names of a function that makes it."""


class _EndedItself(TargetError):
    """The file called `sys.exit()` while it was loaded."""


def load(target: str) -> Server:
    """The Server that `file.py`, `file.py:name`, `package.module`, `package.module:name` or a folder means."""
    target = installed_servers(target).get(target, target)
    place, name = parts(target)
    if is_folder(place, name):
        folder = Path(place).resolve()
        return Server(folder.name, directory=folder)
    with Server.recorded() as meant:  # a `server.run()` at the end of the file is recorded, and does not run
        try:
            module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
        except _EndedItself:
            if name or not meant:
                raise
            return meant[0]  # the file has `sys.exit()` after `server.run()`
    if name:
        thing = _attribute(module, name)
        return _made(thing, target) if _is_factory(thing) else _as_server(thing, target)
    servers = _servers(module)
    usual = [name for name in NAMES if name in servers]
    chosen = servers[usual[0]] if usual else next(iter((*meant, *servers.values())), None)
    if chosen is None:
        for name, value in vars(module).items():
            if _is_factory(value, named=False) and value.__module__ == module.__name__:
                raise TargetError(f"{target} has no Server, but {name}() makes one: write {target}:{name}")
        return _as_server(module, target)
    _note_unserved(target, module, servers)
    if usual or not meant:  # otherwise the file itself says which one it means
        _note_others(target, chosen, servers)
    return chosen


def _servers(module: ModuleType) -> dict[str, Server]:
    """The servers of a module by name, the usual names first."""
    # Not isinstance, which asks the object for its class: the settings of Django would be loaded by that.
    names = [name for name in (*NAMES, *vars(module)) if issubclass(type(getattr(module, name, None)), Server)]
    return {name: getattr(module, name) for name in names}


def _note_others(target: str, chosen: Server, servers: dict[str, Server]) -> None:
    """Say which of several servers is served, and how to name another one."""
    first = {id(server): name for name, server in reversed(servers.items())}  # two names of one server count once
    others = [name for number, name in first.items() if number != id(chosen)][::-1]
    if others:
        listed = " or ".join(f"`{name}`" for name in others)
        sys.stderr.write(
            f"redstart: {target} has {len(first)} servers, and `{first[id(chosen)]}` is served; "
            f"for {listed} write {target}:{others[0]}\n"
        )


def _note_unserved(target: str, module: ModuleType, servers: dict[str, Server]) -> None:
    """Say which functions a decorator has marked, but no server of the module has."""
    registries = [r for s in servers.values() for r in (s.tools, s.prompts, s.resources, s.templates)]
    marked = [(name, value) for name, value in vars(module).items() if is_marked(value) or is_component(value)]
    lost = [name for name, value in marked if not any(registry.keys_of(value) for registry in registries)]
    if lost:
        words = "is marked, but no server has it" if len(lost) == 1 else "are marked, but no server has them"
        first = f"{next(iter(servers), 'server')}.register({lost[0]})"
        sys.stderr.write(f"redstart: {target}: {', '.join(lost)} {words}; write {first}\n")


def _is_factory(thing: object, *, named: bool = True) -> TypeGuard[FunctionType]:
    """Whether a function makes the server: its annotation says so or, if it has none, its name."""
    if not inspect.isfunction(thing) or is_marked(thing):
        return False
    returns = thing.__annotations__.get("return")
    if returns is None:
        return named and FACTORY.fullmatch(thing.__name__) is not None
    return str(getattr(returns, "__name__", returns)).strip("'\"").rpartition(".")[2] == "Server"


def _made(factory: FunctionType, target: str) -> Server:
    """The server that a factory makes."""
    call = f"{target}: {factory.__name__}()"
    if inspect.iscoroutinefunction(factory):
        raise TargetError(f"{call} is async: write a plain def, and what must be awaited into lifespan=")
    needed = [p.name for p in inspect.signature(factory).parameters.values() if p.default is p.empty]
    if needed:
        raise TargetError(f"{call} needs {', '.join(needed)}: what makes a server takes no arguments; give defaults")
    with Server.recorded():
        server = _run(factory, target)
    if not isinstance(server, Server):
        raise TargetError(f"{call} returned {server!r:.100}, and not a Server")
    return server


def _as_server(thing: object, target: str) -> Server:
    """The Server for any object that has something to serve."""
    if isinstance(thing, Server):
        return thing
    is_file = isinstance(thing, ModuleType) and target.endswith(".py")
    server = _run(lambda: Server.from_object(thing, Path(target).stem if is_file else ""), target)
    if not any((server.tools, server.prompts, server.resources, server.templates)):
        example = f"{target.partition(':')[0]}:{next(_classes(thing), 'name')}"
        raise TargetError(
            f"{target} has no Server, and no public function that can be served; write `server = Server(…)` in it, "
            f"or name an object: {example}"
        )
    return server


def _classes(thing: object) -> Iterator[str]:
    """The public classes that a module defines."""
    if isinstance(thing, ModuleType):
        for name, value in vars(thing).items():
            if inspect.isclass(value) and value.__module__ == thing.__name__ and not name.startswith("_"):
                yield name


def _from_file(path: Path) -> ModuleType:
    check_file(path)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec._initializing = True  # type: ignore[attr-defined]  # Python then says so of a circular import
    _run(lambda: loader.exec_module(module), str(path))
    spec._initializing = False  # type: ignore[attr-defined]
    return module


def _module_name(path: Path) -> str:
    """The name of the file, unless other code needs a module of that name: `calendar.py`, `redstart.py`."""
    known = sys.modules.get(path.stem)
    taken = known is not None and getattr(known, "__file__", None) != str(path.resolve())
    return f"{path.stem}_" if taken or path.stem in sys.stdlib_module_names else path.stem


def _from_name(name: str) -> ModuleType:
    if spec_of(name) is None:
        raise no_module(name)
    return _run(lambda: importlib.import_module(name), name)


def _run(load: Callable[[], R], what: str) -> R:
    try:
        return load()
    except (RegistrationError, SignatureError, UnsupportedType) as error:  # they name their own place
        raise TargetError(f"{what} could not be loaded: {error}") from None
    except SettingsError as error:
        raise TargetError(f"{what} could not be loaded{where(error)}: {error}") from None
    except SystemExit as error:
        raise _EndedItself(
            f"{what} ended itself while it was loaded, with sys.exit({error.code!r}){where(error)}; what should not "
            'happen on import belongs below `if __name__ == "__main__":`'
        ) from None
    except Exception as error:
        raise TargetError(f"{what} could not be loaded{where(error)}: {shown(error)}\n{_advice(error)}") from None


def ready(target: str | None, store: str | None = None) -> Server:
    """The server of `target`, with its keys read; CommandError if it cannot be served.

    A given `store` replaces the one that the server was made with.
    """
    server = load(chosen(target))
    try:
        server.runtime.load_keys()
        if store:
            _use_store(server, store)
    except SettingsError as error:
        raise CommandError(str(error)) from None
    return server


def _use_store(server: Server, url: str) -> None:
    try:
        server.runtime.use_store(url)
    except (ValueError, ImportError) as error:
        raise TargetError(f"--store: {error}") from None


def _advice(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name} for {sys.executable}, or run redstart where it is installed."
    if isinstance(error, EOFError) and str(error) == "EOF when reading a line":  # of input()
        return "Nobody can type here: take it from a variable of the environment, or from an argument behind `--`."
    return f"{_meant(error)}Fix that line and try again."


def _meant(error: Exception) -> str:
    """The name of ours that was probably meant by `from redstart… import name`."""
    wrong = re.match(r"cannot import name '(\w+)' from '(redstart[\w.]*)'", str(error))
    if wrong is None or not isinstance(error, ImportError):
        return ""
    near = (
        "Server"
        if wrong[1] in ("FastMCP", "MCPServer")
        else nearest(wrong[1], getattr(sys.modules.get(wrong[2]), "__all__", ()))
    )
    return f"Did you mean {near}? " if near else ""


def _attribute(module: ModuleType, name: str) -> object:
    value: object = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            place = getattr(module, "__file__", None) or module.__name__
            near = like(part, [key for key in dir(value) if not key.startswith("_")])
            raise TargetError(f"{place} has no {name}{near}") from None
    return value
