"""What a person may name, as far as it is known without loading it: files, modules, installed servers, the project's.

`[tool.redstart]` of pyproject.toml may hold `server = "package.module:object"`, or a file beside it. An installed
package declares its server as an entry point: `[project.entry-points."redstart.servers"]`, `name = "package:server"`.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final

from redstart.cli.output import CommandError, near

USUAL: Final = ("server.py", "app.py", "main.py")
GROUP: Final = "redstart.servers"
KEYS: Final = ("server",)
_BARE: Final = re.compile(r"[\w.-]+")


class TargetError(CommandError):
    """The target cannot be served; the text says why, and what to do."""


def default_target(folder: Path | None = None) -> str:
    """What is served if no TARGET is given; CommandError if there is nothing."""
    here = Path.cwd() if folder is None else folder
    declared = _declared(here)
    if declared is not None:
        return declared
    for name in USUAL:
        if (here / name).is_file():
            return name if folder is None else str(here / name)
    raise CommandError(
        f"no TARGET was given, and there is no {', '.join(USUAL[:-1])} or {USUAL[-1]} here; name one (redstart run "
        'file.py), or write server = "package.module" into [tool.redstart] of pyproject.toml'
    )


def _declared(here: Path) -> str | None:
    """The server that the nearest pyproject.toml names. A file is meant to be beside it."""
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return _read(file, here)
    return None


def _read(file: Path, here: Path) -> str | None:
    import tomllib

    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None
    tool = content.get("tool")
    table = tool.get("redstart") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise CommandError(f'{file}: [tool.redstart] must be a table; write server = "package.module" in it')
    for key in table:
        if key not in KEYS:
            raise CommandError(f"{file}: [tool.redstart] has no key {key}{near(key, KEYS)}")
    server = table.get("server")
    if server is None:
        return None
    if not isinstance(server, str) or not server.strip():
        raise CommandError(f"{file}: server in [tool.redstart] must be a text such as package.module:object")
    place, mark, name = server.partition(":")
    beside = file.parent / place
    if file.parent != here and beside.exists():  # the command was given in a folder of the project
        return f"{beside}{mark}{name}"
    return server


def installed_servers(target: str = "") -> dict[str, str]:
    """The installed servers by name. Empty at once if `target` cannot be such a name, because the search takes time."""
    if target and (not _BARE.fullmatch(target) or target.endswith(".py") or Path(target).exists()):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


# ---------------------------------------------------------------- what was typed


def target_argument(parser: argparse.ArgumentParser) -> None:
    """TARGET, for a command that loads a server; `chosen` says what is meant if it is left out."""
    text = "file.py, package.module or an installed server, also with :object; or a folder (default: the project's)"
    parser.add_argument("target", nargs="?", metavar="TARGET", help=text)


def chosen(target: str | None) -> str:
    """The target that was given, or that of the project."""
    return target if target is not None else default_target()


def find(target: str) -> None:
    """TargetError if there is no such file, folder or module. Nothing is run, so an object in it is not checked."""
    if target in installed_servers(target):
        return
    place, name = parts(target)
    if place.endswith(".py"):
        check_file(Path(place))
    # Only the outermost package is looked for: to find a module in it would run the package.
    elif not is_folder(place, name) and spec_of(place.partition(".")[0]) is None:
        raise no_module(place)


def parts(target: str) -> tuple[str, str]:
    """The place, and the name of an object in it. TargetError for a URL, which has no code to load."""
    if target.startswith(("http://", "https://")):
        raise TargetError(
            f"{target} is a URL, where a server runs already, and this command needs the code of one, such as "
            "server.py. A URL is for the commands that use a server: list, call, read, prompt, test, bench, inspect"
        )
    if "://" in target or re.match(r"[\w.-]+:\d", target):  # no object has a name that begins with a digit
        raise TargetError(
            f"{target} is not a file or a module. A URL begins with http:// or https://, and is for the commands "
            "that use a server: list, call, read, prompt, test, bench, inspect"
        )
    place, _, name = target.partition(":") if not _is_drive(target) else (target, "", "")
    return place, name


def is_folder(place: str, name: str) -> bool:
    """Whether a directory server is meant, and not a package."""
    return not name and Path(place).is_dir() and not (Path(place) / "__init__.py").exists()


def _is_drive(target: str) -> bool:
    return len(target) > 2 and target[1] == ":" and target[2] in "\\/"


def check_file(path: Path) -> None:
    if not path.is_file():
        near = like(path.name, [file.name for file in path.parent.glob("*.py")])
        raise TargetError(f"there is no file {path.absolute()}{near}")


def spec_of(name: str) -> ModuleSpec | None:
    sys.path.insert(0, "")
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def no_module(name: str) -> TargetError:
    if Path(f"{name}.py").is_file():
        return TargetError(f"there is no module {name}; did you mean the file {name}.py?")
    servers = installed_servers(name)
    known = near(name, servers).replace("there is:", "installed servers:")
    return TargetError(f"there is no module {name}; for a file, write its name with .py{known}")


def like(name: str, names: list[str]) -> str:
    """The nearest name, or the first few names if none is near."""
    from redstart.schema.errors import nearest

    meant = nearest(name, names)
    shown = [meant] if meant else names[:5]
    return f"; there is {', '.join(shown)}" if shown else ""
