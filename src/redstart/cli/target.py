"""From what a person typed to a Server: a file, a module, an object in either."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from redstart.server.server import Server

NAMES = ("server", "mcp", "app")
"""What people call the one Server of a module."""


class TargetError(Exception):
    """What was named cannot be served; the text says why, and what to do."""


def load(target: str) -> Server:
    """The Server that `file.py`, `file.py:name`, `package.module` or `package.module:name` means."""
    place, _, name = target.partition(":") if not _is_drive(target) else (target, "", "")
    with Server.recorded():  # a `server.run()` at the end of the file is not for us
        module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    if name:
        return _as_server(_attribute(module, name), target)
    found = [getattr(module, n) for n in NAMES if isinstance(getattr(module, n, None), Server)]
    found = found or [value for value in vars(module).values() if isinstance(value, Server)]
    if not found:
        return _as_server(module, target)
    return found[0]


def _as_server(thing: Any, target: str) -> Server:
    if isinstance(thing, Server):
        return thing
    from_object = getattr(Server, "from_object", None)
    if from_object is None:
        raise TargetError(f"{target} has no Server; write `server = Server(…)` in it")
    server: Server = from_object(thing)
    return server


def _is_drive(target: str) -> bool:
    return len(target) > 2 and target[1] == ":" and target[2] in "\\/"


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    _run(lambda: spec.loader.exec_module(module), str(path))  # type: ignore[union-attr]
    return module


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise TargetError(f"there is no module {name}; for a file, write its name with .py")
    module: ModuleType = _run(lambda: importlib.import_module(name), name)
    return module


def _run(load: Any, what: str) -> Any:
    try:
        return load()
    except Exception as error:
        lines = traceback.format_exception(error)
        own = [line for line in lines if "redstart/cli" not in line and "importlib" not in line]
        raise TargetError(f"{what} could not be loaded:\n{''.join(own).rstrip()}") from None


def _attribute(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise TargetError(f"{module.__name__} has no {name}") from None
    return value
