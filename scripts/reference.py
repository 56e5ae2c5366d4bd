"""The reference pages in docs/reference, made from the code: `make reference` writes them, and a test compares.

The texts are the docstrings. Those of options stand below the options, in the class that defines them.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import redstart
import redstart.auth
import redstart.testing
from redstart.client.options import ClientOptions
from redstart.features.options import (
    DirectoryOptions,
    FileOptions,
    PredicateOptions,
    PromptOptions,
    ResourceOptions,
    SharedOptions,
    ToolOptions,
)
from redstart.features.rules import rules_of
from redstart.server.settings import ServerOptions
from redstart.transports.http_options import EndpointOptions, HttpOptions
from redstart.transports.options import StdioOptions

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- made by scripts/reference.py: change the docstrings, then run `make reference` -->\n"

PAGES: dict[str, tuple[str, str, list[str]]] = {
    "server": (
        "Server",
        "",
        ["Server", "serve", "tool", "prompt", "resource", "predicate", "TaskLimits", "TaskHandle"],
    ),
    "context": ("Contexts", "What a handler gets.", ["Context", "SyncContext", "current_context", "Depends", "User"]),
    "declaring": (
        "Declaring things",
        "Objects and markers for tools, prompts and resources.",
        [
            *(
                "Tool",
                "Parameter",
                "Prompt",
                "PromptArgument",
                "PromptResult",
                "Resource",
                "File",
                "Directory",
                "Cache",
            ),
            *("Cache", "Complete", "Choice", "Choices", "Format", "Header", "NotAPath"),
            *("ToolProvider", "PromptProvider", "ResourceProvider"),
        ],
    ),
    "content": (
        "Content and results",
        "What handlers return, and what clients get.",
        [
            *("Text", "Image", "Audio", "EmbeddedResource", "ResourceContents", "ResourceLink", "ToolResult"),
            *("Message", "Annotations", "Icon", "Progress", "Ask", "Result", "ListResult"),
        ],
    ),
    "asking": (
        "Questions",
        "What a question returns.",
        ["Accepted", "Declined", "Cancelled", "Unanswered", "UrlElicitationRequired", "Sampled", "Root"],
    ),
    "errors": (
        "Exceptions and middleware",
        "What may be raised, and what middleware sees.",
        ["ToolError", "ProtocolError", "RegistrationError", "Call", "Next"],
    ),
    "client": ("Client", "", ["Client"]),
    "auth": ("Authorization", "`redstart.auth`: ways to find the user of a token.", list(redstart.auth.__all__)),
    "testing": ("Testing", "`redstart.testing`.", list(redstart.testing.__all__)),
}
OPTIONS: dict[str, list[tuple[str, type]]] = {
    "server": [
        ("Options of `Server(name, …)`", ServerOptions),
        ("Options of `run()`, on stdio", StdioOptions),
        ("Options of `asgi(…)`", EndpointOptions),
        ('Further options of `run("http", …)` and `serve_background(…)`', HttpOptions),
    ],
    "declaring": [
        ("Options of tools, prompts and resources", SharedOptions),
        ("Further options of tools", ToolOptions),
        ("Further options of `predicate`", PredicateOptions),
        ("Further options of prompts", PromptOptions),
        ("Further options of resources", ResourceOptions),
        ("Further options of `File`", FileOptions),
        ("Further options of `Directory`", DirectoryOptions),
    ],
    "client": [("Options of `Client(target, …)`", ClientOptions)],
}


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    return {f"{name}.md": _page(name, *parts) for name, parts in PAGES.items()}


def _page(name: str, title: str, intro: str, names: list[str]) -> str:
    home = {"auth": redstart.auth, "testing": redstart.testing}.get(name, redstart)
    parts = [f"# {title}\n", NOTE, *([f"{intro}\n"] if intro else [])]
    for public in names:
        parts += _entry(public, getattr(home, public), 2)
    for heading, options in OPTIONS.get(name, []):
        parts += [f"## {heading}\n", _table(options)]
    return "\n".join(parts).rstrip() + "\n"


def _entry(name: str, thing: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    if callable(thing) and (signature := _signature(thing, name)):
        yield f"```text\n{signature}\n```\n"
    yield from _text(inspect.getdoc(thing) if _has_own_doc(thing) else None)
    if inspect.isclass(thing):
        for member, value in _members(thing):
            if isinstance(value, property):
                yield f"**`.{member}`** {' '.join(_text(value.fget.__doc__ if value.fget else None)).strip()}\n"
            else:
                yield from _entry(f"{name}.{member}", value, level + 1)


def _has_own_doc(thing: Any) -> bool:
    return not inspect.isclass(thing) or "__doc__" in vars(thing)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of ours defines, those of its bases too."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("redstart") or base.__name__ == "Struct":
            continue
        for name, value in vars(base).items():
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if name.startswith("_") or name in seen or not (inspect.isfunction(value) or isinstance(value, property)):
                continue
            seen.add(name)
            if value.fget.__doc__ if isinstance(value, property) and value.fget else value.__doc__:
                yield name, value


def _signature(thing: Callable[..., object], name: str) -> str:
    if hasattr(thing, "__struct_fields__"):
        return f"{name}({', '.join(_struct_fields(thing))})"
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return ""
    parameters = [
        parameter.replace(annotation=parameter.empty) if _is_long(parameter.annotation) else parameter
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    if len(parameters) > 12:  # the options have a table of their own
        parameters = [parameter for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        shown = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
        shown = f"{shown[:-1]}{', ' if parameters else ''}**options)"
    else:
        shown = str(signature.replace(parameters=parameters))
    shown = re.sub(r"<(?:class '|function |object object)?([\w.]+)[^>]*>", r"\1", shown)
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    return "\n".join(textwrap.wrap(f"{name}{shown}", 100, subsequent_indent="    ", break_long_words=False))


def _struct_fields(cls: Any) -> Iterator[str]:
    for field in msgspec.structs.fields(cls) if cls is not redstart.Call else ():
        if field.required:
            yield field.name
        elif field.default is not msgspec.NODEFAULT and str(field.default) != "UNSET":
            yield f"{field.name}={field.default!r}"
        else:
            yield f"{field.name}=…"


def _is_long(annotation: object) -> bool:
    return len(str(annotation)) > 60


def _text(doc: str | None) -> Iterator[str]:
    """A docstring as Markdown: examples become blocks."""
    if not doc:
        return
    text = re.sub(r"```\n\n```pycon\n", "", "\n".join(_parts(inspect.cleandoc(doc))))
    yield text


def _parts(doc: str) -> Iterator[str]:
    for part in doctest.DocTestParser().parse(doc):
        if isinstance(part, doctest.Example):
            lines = part.source.splitlines()
            source = "".join(
                f"{'...' if number else '>>>'} {line}".rstrip() + "\n" for number, line in enumerate(lines)
            )
            yield f"```pycon\n{source}{part.want}```\n"
        elif part.strip():
            yield f"{part.strip()}\n"


# ---------------------------------------------------------------- options

ALIASES = {
    "TextOption": "str",
    "TextsOption": "list of str",
    "FlagOption": "bool",
    "CountOption": "int",
    "SecondsOption": "seconds",
    "ScopesOption": "str or list of str",
    "IconsOption": "list of Icon",
    "CacheOption": "Cache",
}


def _table(options: type) -> str:
    rules = rules_of(options)
    rows = ["| Option | Type | Default | |", "| --- | --- | --- | --- |"]
    for name, kind, text in _fields(options):
        default = rules[name].default
        shown = "" if default is None or default in ((), {}) or str(default) == "UNSET" else f"`{_default(default)}`"
        rows.append(f"| `{name}` | {kind} | {shown} | {text} |")
    return "\n".join(rows) + "\n"


def _default(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000:
        return f"{value:_}"
    return repr(value).replace("'", '"')


def _fields(options: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a TypedDict that have a docstring: name, type, text."""
    body = ast.parse(textwrap.dedent(inspect.getsource(options))).body[0].body  # type: ignore[attr-defined]
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield field.target.id, _type(field.annotation), str(text.value.value)  # type: ignore[union-attr]


def _type(annotation: ast.expr) -> str:
    """The type of an option in words that fit into a table."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        annotation = annotation.slice.elts[0]  # of Annotated
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    text = ALIASES.get(str(text), str(text)).replace(" | None", "")
    text = re.sub(r"Literal\[(.*?)\]", lambda match: match[1].replace(", ", " | "), text)
    text = "function" if "Callable" in text or text in ("Lifespan", "Authenticate", "Visible") else text
    return "`" + text.replace("t.", "").replace("'", '"').replace("|", "\\|") + "`"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(PAGES)} pages\n")
