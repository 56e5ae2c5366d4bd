"""`redstart new shop`: a folder with a server that runs, its tests, and what to do next.

A template is a folder in `templates/`: each file `x.tmpl` becomes `x`, with `{{name}}` and `{{module}}` filled in.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from redstart.cli.output import OK, CommandError, near, say

TEMPLATES: Final = {
    "script": "one file with its dependencies in it (PEP 723): uv run server.py",
    "package": "a package to publish: uvx NAME starts it, redstart run NAME finds it",
    "fastapi": "a FastAPI application with MCP at /mcp",
    "django": "a Django site with MCP at /mcp",
    "docker": "a script in an image that does not run as root",
    "notebook": "a Jupyter notebook",
}
HERE: Final = Path(__file__).parent / "templates"
RENAMED: Final = {"gitignore": ".gitignore", "dockerignore": ".dockerignore"}
"""Files whose names begin with a dot: as templates they would be hidden."""
NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the server and its folder, in small letters: hat-shop")
    parser.add_argument("-t", "--template", default="script", metavar="TEMPLATE", help="what to make (default script)")
    parser.add_argument("--into", metavar="FOLDER", help="make it there (default: a folder with the name)")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "templates:\n" + "\n".join(f"  {name:<10} {text}" for name, text in TEMPLATES.items())


def act(arguments: argparse.Namespace) -> int:
    name, template = arguments.name, arguments.template
    if template not in TEMPLATES:
        raise CommandError(f"there is no template {template}{near(template, TEMPLATES)}")
    _check(name)
    folder = Path(arguments.into or name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} exists already, and is not empty; name another folder with --into")
    try:
        for path, text in files(template, name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
            print(folder / path)
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from None
    first = FIRST.get(template, "redstart call server.py add a=40")
    say(f"{name} is made. README.md says what to do with it; begin with: cd {folder} && {first}")
    return OK


def _check(name: str) -> None:
    module = name.replace("-", "_")
    if not NAME.fullmatch(name) or len(name) > 64:
        proposed = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "hat-shop"
        raise CommandError(f"a name has small letters, digits and hyphens, and begins with a letter: {proposed}")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "redstart":
        raise CommandError(f"Python has a module {module} of its own, which would hide this one; take {name}-server")


def files(template: str, name: str) -> Iterator[tuple[Path, str]]:
    """The files of a template, filled in."""
    module = name.replace("-", "_")
    root = HERE / template
    for source in sorted(root.rglob("*.tmpl")):
        parts = [module if part == "__module__" else part for part in source.relative_to(root).parts]
        parts[-1] = parts[-1].removesuffix(".tmpl")
        parts[-1] = RENAMED.get(parts[-1], parts[-1])
        text = source.read_text("utf-8").replace("{{name}}", name).replace("{{module}}", module)
        yield Path(*parts), text


FIRST: Final = {
    "package": "redstart call add a=40",
    "fastapi": "pip install -r requirements.txt && pytest",
    "django": "pip install -r requirements.txt && pytest",
    "notebook": "pip install redstart jupyterlab pytest && jupyter lab server.ipynb",
}
"""Commands that show that it works, with what they need; for the other templates it is a call."""
