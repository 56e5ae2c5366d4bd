"""The table from method to the function that answers it, and the capabilities: both follow from what is registered.

Prompts, resources and completion are loaded when the first of them is registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redstart.features.errors import ErrorPolicy
from redstart.features.lifecycle import Lifecycle
from redstart.features.options import Cache
from redstart.features.registry import Registry
from redstart.features.tools import Tools
from redstart.protocol.call import Call
from redstart.protocol.methods import METHODS
from redstart.protocol.modern import Modern
from redstart.server.runtime import Description, Registries, Runtime
from redstart.wire.jsonrpc import METHOD_NOT_FOUND, ProtocolError
from redstart.wire.meta import Implementation

if TYPE_CHECKING:
    from redstart.features.completion import Completions
    from redstart.features.resources import Resources
    from redstart.server.middleware import Handler, Middleware


class Dispatch:
    """Gives the runtime of a server its Description, and a new one at each change of what the server offers."""

    def __init__(
        self,
        runtime: Runtime,
        registries: Registries,
        info: Implementation,
        errors: ErrorPolicy,
        instructions: str | None,
        cache: Cache,
    ) -> None:
        self._runtime = runtime
        self._registries = registries
        self._info = info
        self._modern = Modern(info)
        self._errors = errors
        self._instructions = instructions
        self._cache = cache
        self._middleware: list[Middleware] = []
        self._declared: set[str] = set()
        self.logs = True
        """Whether `logging` is offered without being declared."""
        registries.tools.changed.append(lambda: runtime.hub.changed("tools"))
        registries.prompts.changed += [self.describe, lambda: runtime.hub.changed("prompts")]
        for registry in (registries.resources, registries.templates):
            registry.changed += [self.describe, lambda: runtime.hub.changed("resources")]

    @cached_property
    def _resources(self) -> Resources:
        from redstart.features.resources import Resources

        return Resources(self._registries.resources, self._registries.templates, self._errors)

    @cached_property
    def completions(self) -> Completions:
        """The completion of arguments of prompts and templates."""
        from redstart.features.completion import Completions

        registries = self._registries
        return Completions(registries.prompts, registries.templates, self._resources.matching, self._errors)

    def wrap(self, layers: Iterable[Middleware]) -> None:
        """Put further middleware around every request, innermost last."""
        self._middleware += layers
        self.describe()

    def declare(self, names: Iterable[str]) -> None:
        """Offer these capabilities even if nothing is registered for them."""
        self._declared |= set(names)
        self.describe()

    def describe(self) -> None:
        """Give the runtime a description of the server as it is now."""
        runtime, capabilities = self._runtime, self._capabilities()
        runtime.hub.offers = set(capabilities)
        if "resources" in capabilities:
            runtime.hub.rule = self._resources.rule
        offered = self._offered(capabilities)
        runtime.description = Description(
            info=self._info,
            modern=self._modern,
            errors=self._errors,
            registries=self._registries,
            capabilities=capabilities,
            methods={name: self._wrapped(offered.get(name, self._refuse)) for name in METHODS},
        )

    def _capabilities(self) -> dict[str, dict[str, bool]]:
        registries, declared = self._registries, self._declared
        offered: dict[str, dict[str, bool]] = {"tools": {"listChanged": True}}
        if self.logs or "logging" in declared:
            offered["logging"] = {}
        if registries.prompts or "prompts" in declared:
            offered["prompts"] = {"listChanged": True}
        if registries.resources or registries.templates or "resources" in declared:
            offered["resources"] = {"subscribe": True, "listChanged": True}
        if "completions" in declared or ("completions" in self.__dict__ and self.completions):
            offered["completions"] = {}
        return offered

    def _offered(self, capabilities: dict[str, dict[str, bool]]) -> dict[str, Handler]:
        """The handlers of the methods that belong to these capabilities."""
        registries, hub = self._registries, self._runtime.hub
        life = Lifecycle(self._info, self._instructions, self._modern, capabilities, self._cache)
        table: dict[str, Handler] = {
            "initialize": life.initialize,
            "ping": life.ping,
            "server/discover": life.discover,
            "logging/setLevel": life.set_level,
            "tools/call": Tools(registries.tools, self._errors).call,
            "resources/subscribe": hub.subscribe,
            "resources/unsubscribe": hub.unsubscribe,
            "subscriptions/listen": hub.listen,
        }
        if "prompts" in capabilities:
            from redstart.features.prompts import Prompts

            table["prompts/get"] = Prompts(registries.prompts, self._errors).get
        if "resources" in capabilities:
            table["resources/read"] = self._resources.read
        if "completions" in capabilities:
            table["completion/complete"] = self.completions.complete
        table = {name: table[name] for name in table if METHODS[name].capability in (None, *capabilities)}
        lists: dict[str, Registry[Any]] = {
            "tools/list": registries.tools,
            "prompts/list": registries.prompts,
            "resources/list": registries.resources,
            "resources/templates/list": registries.templates,
        }
        pages = {
            name: self._pages(registry, METHODS[name].capability in capabilities) for name, registry in lists.items()
        }
        return {**table, **pages}

    def _pages(self, registry: Registry[Any], offered: bool) -> Handler:
        # Middleware gets a result that it can read and change. Without middleware the encoded page is sent as it is.
        find = registry.result if self._middleware else registry.page

        async def page(call: Call) -> Any:
            # For a list that is not offered, handshake clients get an empty list, and modern clients an error.
            return find(call) if offered or not call.dialect.modern else await self._refuse(call)

        return page

    async def _refuse(self, call: Call) -> Any:
        raise ProtocolError(METHOD_NOT_FOUND, f"This server does not offer {call.method.name}")

    def _wrapped(self, handler: Handler) -> Handler:
        if not self._middleware:  # `Runtime.answer` then turns a question into a result
            return handler
        from redstart.server.middleware import compose

        return compose(self._middleware, self._runtime.asking.inside_middleware(handler))
