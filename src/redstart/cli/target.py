"""From what a person typed to a Server: a file, a folder, a module, an object in one of them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from redstart.features.errors import RegistrationError
from redstart.server.server import Server

R = TypeVar("R")

NAMES = ("server", "mcp", "app")
"""What people call the one Server of a module."""


class TargetError(Exception):
    """What was named cannot be served; the text says why, and what to do."""


def load(target: str) -> Server:
    """The Server that `file.py`, `file.py:name`, `package.module`, `package.module:name` or a folder means."""
    place, _, name = target.partition(":") if not _is_drive(target) else (target, "", "")
    folder = Path(place)
    if not name and folder.is_dir() and not (folder / "__init__.py").exists():
        return Server(folder.resolve().name, directory=folder.resolve())
    with Server.recorded() as meant:  # a `server.run()` at the end of the file is not for us
        module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    if name:
        return _as_server(_attribute(module, name), target)
    found = [getattr(module, n) for n in NAMES if isinstance(getattr(module, n, None), Server)]
    found = found or meant or [value for value in vars(module).values() if isinstance(value, Server)]
    return found[0] if found else _as_server(module, target)


def _as_server(thing: Any, target: str) -> Server:
    """Anything can be served, if there is anything in it."""
    if isinstance(thing, Server):
        return thing
    server = _run(lambda: Server.from_object(thing), target)
    if not any((server.tools, server.prompts, server.resources, server.templates)):
        raise TargetError(
            f"{target} has no Server, and no public function that can be served; write `server = Server(…)` in it, "
            f"or name an object: {target.partition(':')[0]}:name"
        )
    return server


def _is_drive(target: str) -> bool:
    return len(target) > 2 and target[1] == ":" and target[2] in "\\/"


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    _run(lambda: loader.exec_module(module), str(path))
    return module


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise TargetError(f"there is no module {name}; for a file, write its name with .py")
    return _run(lambda: importlib.import_module(name), name)


def _run(load: Callable[[], R], what: str) -> R:
    try:
        return load()
    except RegistrationError as error:  # it names its own place
        raise TargetError(f"{what} could not be loaded: {error}") from None
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
