"""What happens when something is registered with a server, or removed from it, before it runs or while it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redstart.execution.dependencies import injected
from redstart.features.errors import RegistrationError
from redstart.features.rules import caller, did_you_mean
from redstart.features.tools import tool_of

if TYPE_CHECKING:
    from redstart.features.registry import Registry
    from redstart.server.server import Server


def register(server: Server, thing: Any, replace: bool = False) -> None:
    """Serve `thing`: a Tool, Prompt or Resource, a function, a provider."""
    if hasattr(type(thing), "kind"):
        _add(server, thing, replace)
    elif hasattr(thing, "__redstart_marks__"):
        from redstart.features.marks import components

        for component in components(thing, injected):
            _add(server, component, replace)
    elif callable(thing):
        _add(server, tool_of(thing, injected), replace)
    else:
        from redstart.adopt.providers import add_provider, is_provider

        if not is_provider(thing):
            raise RegistrationError(
                f"{caller()}: {thing!r:.200} is not a function, a Tool, a Prompt, a Resource or a provider"
            )
        add_provider(server, thing)


def _add(server: Server, declared: Any, replace: bool) -> None:
    compiled: Any = declared.compile(server.runtime.executor)
    if declared.visible is not None:
        from redstart.server.visible import seen_by

        compiled.sees = seen_by(declared.visible, server.runtime)
    if declared.kind == "tool":
        server.tools.add(compiled, replace=replace)
        return
    server.features.completions.check(compiled)
    if declared.kind == "prompt":
        server.prompts.add(compiled, replace=replace)
        return
    (server.resources if declared.template is None else server.templates).add(compiled, replace=replace)
    for companion in declared.companions():
        _add(server, companion, replace)


def remove(server: Server, thing: Any) -> None:
    """Serve `thing` no longer: the object, its function, its name or URI, or all of a provider."""
    found = 0
    registries: tuple[Registry[Any], ...] = (server.tools, server.prompts, server.resources, server.templates)
    for registry in registries:
        for key in registry.keys_of(thing):
            found += 1
            declared: Any = registry.remove(key).declared
            for companion in declared.companions() if declared.kind == "resource" else ():
                remove(server, companion)
    if not found:
        known = [key for registry in registries for key in registry.items]
        hint = did_you_mean(thing, known) if isinstance(thing, str) else ""
        raise KeyError(f"{caller()}: nothing that is registered is {thing!r:.200}{hint}")
