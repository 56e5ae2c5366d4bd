"""Existing code as a server, without changes to it: a module, an object, a class, a function.

What is public and defined there is served. What cannot be served is skipped, with the reason in the log. No code of the
object runs for this: no property, no computed attribute. If something is marked (`@tool`, a `Tool`, a provider), only
what is marked is served.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from redstart.adopt.providers import add_provider, is_provider
from redstart.adopt.registrar import Registrar
from redstart.features.errors import RegistrationError, log
from redstart.features.marks import is_component, is_marked
from redstart.features.rules import Rule, names
from redstart.features.tools import Tool

_METHODS: Final = (
    FunctionType,
    staticmethod,
    classmethod,
    functools.partialmethod,
    type(functools.lru_cache(int)),
)
"""Attributes of a class that become methods when they are looked up. Other descriptors may run code."""


def adopt(
    server: Registrar, thing: object, include: Iterable[str] | None = None, exclude: Iterable[str] = ()
) -> frozenset[str] | None:
    """Register what `thing` lists, or what is found in it.

    Returns what the `capabilities()` of a provider name; None for anything else.
    """
    selection = Selection(include, exclude)
    declared = None
    if is_provider(thing):
        declared = add_provider(server, thing, selection.includes)
    else:
        count = sum(_register(server, part) for part in _parts(thing, selection))
        if not count:
            log.warning("%s has nothing that can be served: no public function that it defines itself", name_of(thing))
    selection.check(thing)
    return declared


def name_of(thing: object) -> str:
    """What a server of `thing` is called: the name of the module, of the class, of the function."""
    if isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        return Path(file).stem if thing.__name__ == "__main__" and file else thing.__name__
    name: str = thing.__name__ if isinstance(thing, type) or inspect.isroutine(thing) else type(thing).__name__
    return name


def description_of(thing: object) -> str | None:
    """The docstring, unless `@dataclass` has generated it."""
    doc = inspect.getdoc(thing)
    kind = type(thing)
    return None if doc is None or inspect.isroutine(thing) or doc.startswith(f"{kind.__name__}(") else doc


def instance_of(thing: object) -> object:
    """An instance of `thing`, if that is a class; else `thing` itself."""
    if not isinstance(thing, type):
        return thing
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if needed or inspect.isabstract(thing):
        why = f"needs {', '.join(needed)}" if needed else "is abstract"
        raise RegistrationError(f"{_line_of(thing)}the class {thing.__name__} {why}: make an instance, and serve that")
    return thing()


def _line_of(kind: type) -> str:
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}: "
    except (OSError, TypeError):
        return ""


def _register(server: Registrar, thing: object) -> bool:
    """Serve one thing, or log why it cannot be served, and go on with the others."""
    try:
        server.register(thing)
    except (TypeError, ValueError) as error:  # RegistrationError, SignatureError and UnsupportedType among them
        name = getattr(thing, "name", None) or getattr(thing, "__qualname__", repr(thing))
        log.warning("%s is not served: %s", name, error)
        return False
    return True


# ---------------------------------------------------------------- what is there


class Selection:
    """`include=` and `exclude=`: names, or patterns as in `get_*`."""

    def __init__(self, include: Iterable[str] | None, exclude: Iterable[str]) -> None:
        self.include = Rule(names).check("include", include)
        self.exclude = Rule(names, (), optional=True).check("exclude", exclude)
        self._met: set[str] = set()

    @property
    def named(self) -> list[str]:
        """The names in `include=` that are not patterns; they are served wherever they are defined."""
        return [name for name in self.include or () if not set("*?[") & set(name)]

    def includes(self, name: str) -> bool:
        wanted = self.include is None or self._matches(name, self.include)
        return wanted and not self._matches(name, self.exclude)

    def _matches(self, name: str, patterns: Sequence[str]) -> bool:
        met = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
        self._met.update(met)
        return bool(met)

    def check(self, thing: object) -> None:
        """Refuse names that do not exist, because they are probably misspelled."""
        lost = [name for name in [*(self.include or ()), *self.exclude] if name not in self._met]
        if lost:
            raise RegistrationError(f"include= and exclude=: {name_of(thing)} has no public {', '.join(lost)}")


def _parts(thing: object, selection: Selection) -> Iterator[object]:
    """The parts of `thing` that are to be registered."""
    if inspect.isroutine(thing) or isinstance(thing, functools.partial) or is_component(thing):
        yield thing
        return
    if isinstance(thing, ModuleType):
        members, explicit = list(_of_module(thing)), list(_explicit(thing))
    else:
        members, explicit = list(_of_instance(thing)), []
    members += [(name, getattr(thing, name)) for name in selection.named if hasattr(thing, name)]
    members = list(dict(members).items())
    marked = [(name, fn) for name, fn in members if is_marked(fn)]
    if marked or explicit:
        members = [*marked, *((name, fn) for name, fn in members if name in selection.named and not is_marked(fn))]
    for name, part in [*explicit, *members]:
        if selection.includes(name):
            # A plain function gets the name of the attribute, not its `__name__`.
            plain = inspect.isroutine(part) and not is_marked(part)
            yield Tool(name, handler=part) if plain else part


def _of_module(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """The functions that `__all__` names; without it, the public ones that are defined there."""
    exported = getattr(module, "__all__", None)
    for name in vars(module) if exported is None else exported:
        value = getattr(module, name, None)
        if not inspect.isroutine(value):
            continue
        defined = getattr(value, "__module__", None) == module.__name__
        if exported is not None or (defined and not name.startswith("_")):
            yield name, value


def _explicit(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Module-level Tool, Prompt and Resource objects, and providers, under the names of their variables."""
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, type | ModuleType):
            continue
        if is_component(value) or is_provider(value):
            yield name, value


def _of_instance(thing: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """The public methods of its class, and of the classes of the same project that it inherits from."""
    kind = type(thing)
    for owner in kind.__mro__:
        if owner is not kind and _foreign(owner, kind):
            continue
        for name, value in vars(owner).items():
            plain = isinstance(value, _METHODS) and isinstance(inspect.getattr_static(kind, name), _METHODS)
            if plain and not name.startswith("_"):
                yield name, getattr(thing, name)


def _foreign(owner: type, kind: type) -> bool:
    """Whether a base class belongs to Python itself, or to an installed library that is not the class's own."""
    if owner.__module__.partition(".")[0] == kind.__module__.partition(".")[0]:
        return False
    file = getattr(sys.modules.get(owner.__module__), "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    installed = {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(file).resolve().is_relative_to(path) for path in installed)
