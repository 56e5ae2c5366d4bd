"""From what a person typed to a Server: a file, a folder, a module, an object in one of them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from redstart.cli.installation import IN_CODE
from redstart.features.errors import RegistrationError
from redstart.schema.callables import SignatureError
from redstart.schema.types import UnsupportedType
from redstart.server.server import Server

NOT_SHOWN = ("redstart/cli", "redstart/server", "redstart/transports", "importlib", "contextlib.py", "uvloop/")
"""Files whose lines in a traceback are of no interest to who wrote the server."""
R = TypeVar("R")

NAMES = ("server", "mcp", "app")
"""What people call the one Server of a module."""


class TargetError(Exception):
    """What was named cannot be served; the text says why, and what to do."""


class _Ended(TargetError):
    """The file ended the process while it was loaded."""


def find(target: str) -> None:
    """TargetError where there is no such file, folder or module; nothing of it is run, so it may yet lack a name."""
    place, name = _parts(target)
    if place.endswith(".py"):
        _check_file(Path(place))
    elif not _is_folder(place, name) and _spec(place.partition(".")[0]) is None:  # the spec of an inner one runs it
        raise _no_module(place)


def load(target: str) -> Server:
    """The Server that `file.py`, `file.py:name`, `package.module`, `package.module:name` or a folder means."""
    place, name = _parts(target)
    if _is_folder(place, name):
        folder = Path(place).resolve()
        return Server(folder.name, directory=folder)
    with Server.recorded() as meant:  # a `server.run()` at the end of the file is not for us
        try:
            module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
        except _Ended:
            if name or not meant:
                raise
            return meant[0]  # `sys.exit()` behind `server.run()`
    if name:
        return _as_server(_attribute(module, name), target)
    found = [getattr(module, n) for n in NAMES if isinstance(getattr(module, n, None), Server)]
    found = found or meant or [value for value in vars(module).values() if isinstance(value, Server)]
    return found[0] if found else _as_server(module, target)


def _as_server(thing: Any, target: str) -> Server:
    """Anything can be served, if there is anything in it."""
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


def _classes(thing: Any) -> Iterator[str]:
    """The public classes that a module defines."""
    for name, value in vars(thing).items() if isinstance(thing, ModuleType) else ():
        if inspect.isclass(value) and value.__module__ == thing.__name__ and not name.startswith("_"):
            yield name


def _parts(target: str) -> tuple[str, str]:
    """The place, and the name of an object in it."""
    place, _, name = target.partition(":") if not _is_drive(target) else (target, "", "")
    return place, name


def _is_folder(place: str, name: str) -> bool:
    """Whether a directory server is meant, and no package."""
    return not name and Path(place).is_dir() and not (Path(place) / "__init__.py").exists()


def _is_drive(target: str) -> bool:
    return len(target) > 2 and target[1] == ":" and target[2] in "\\/"


def _check_file(path: Path) -> None:
    if not path.is_file():
        near = _like(path.name, [file.name for file in path.parent.glob("*.py")])
        raise TargetError(f"there is no file {path.absolute()}{near}")


def _from_file(path: Path) -> ModuleType:
    _check_file(path)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    _run(lambda: loader.exec_module(module), str(path))
    return module


def _module_name(path: Path) -> str:
    """The name of the file, unless that is the name of a module that others need: a `calendar.py`, a `redstart.py`."""
    known = sys.modules.get(path.stem)
    taken = known is not None and getattr(known, "__file__", None) != str(path.resolve())
    return f"{path.stem}_" if taken or path.stem in sys.stdlib_module_names else path.stem


def _from_name(name: str) -> ModuleType:
    if _spec(name) is None:
        raise _no_module(name)
    return _run(lambda: importlib.import_module(name), name)


def _spec(name: str) -> ModuleSpec | None:
    sys.path.insert(0, "")
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _no_module(name: str) -> TargetError:
    return TargetError(f"there is no module {name}; for a file, write its name with .py")


def _run(load: Callable[[], R], what: str) -> R:
    try:
        return load()
    except (RegistrationError, SignatureError, UnsupportedType) as error:  # they name their own place
        raise TargetError(f"{what} could not be loaded: {error}") from None
    except SystemExit as error:
        raise _Ended(
            f"{what} ended itself while it was loaded, with sys.exit({error.code!r}){_where(error)}; what should not "
            'happen on import belongs below `if __name__ == "__main__":`'
        ) from None
    except Exception as error:
        raise TargetError(f"{what} could not be loaded{_where(error)}: {_shown(error)}\n{_advice(error)}") from None


def ready(target: str) -> Server | None:
    """What `target` names, with its keys read; None, and the reason on stderr, where it cannot be served."""
    from redstart.server.checked import SettingsError

    try:
        server = load(target)
        server.host.load_keys()
    except (TargetError, SettingsError) as error:
        sys.stderr.write(f"redstart: {error}\n")
        return None
    return server


def not_started(name: str, error: Exception) -> str:
    """Why a server did not come up: for a person, and without what is secret in the lines of code."""
    return f"{name} did not start{_where(error)}: {_shown(error)}"


def _shown(error: Exception) -> str:
    lines = traceback.format_exception(error)
    own = [line for line in lines if not any(part in line for part in NOT_SHOWN)]
    said = "".join(traceback.format_exception_only(error)).rstrip().rpartition("\n")[2]
    return re.sub(IN_CODE, lambda match: (match[1] or "") + "***", f"{said}\n{''.join(own).rstrip()}")


def _where(error: BaseException) -> str:
    """Where in the user's code it happened: the innermost line that is neither Python's nor ours.

    Nor that of a library, unless there is no other: what is served may be installed itself.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    frames = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _is_foreign(file: str) -> bool:
    """Whether a file is neither ours nor Python's own. (What pip installs may be in a folder of Python's.)"""
    ours, pythons = os.path.join(Path(__file__).parents[1], ""), os.path.join(Path(os.__file__).parent, "")
    return not file.startswith(("<", ours)) and (_is_installed(file) or not file.startswith(pythons))


def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _advice(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name} for {sys.executable}, or run redstart where it is installed."
    return "Mend that line and try again."


def _attribute(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            place = getattr(module, "__file__", None) or module.__name__
            near = _like(part, [key for key in dir(value) if not key.startswith("_")])
            raise TargetError(f"{place} has no {name}{near}") from None
    return value


def _like(name: str, names: list[str]) -> str:
    """What else could have been meant: the nearest, else the first few that there are."""
    found = difflib.get_close_matches(name, names, 1) or names[:5]
    return f"; there is {', '.join(found)}" if found else ""
