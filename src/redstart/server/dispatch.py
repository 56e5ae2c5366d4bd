"""What a server offers: its registries, and the description that its calls get.

Prompts, resources and completion are loaded when the first of them is registered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from redstart.features.lifecycle import Lifecycle
from redstart.features.options import Cache
from redstart.features.registry import Catalog, Compiled, Registry
from redstart.features.tools import CompiledTool, Tools
from redstart.protocol.call import Call
from redstart.protocol.methods import METHODS
from redstart.server.runtime import Description, Runtime
from redstart.server.settings import ServerOptions
from redstart.wire.jsonrpc import METHOD_NOT_FOUND, JsonObject, ProtocolError
from redstart.wire.meta import Implementation

if TYPE_CHECKING:
    from redstart.features.completion import Completable, Completer
    from redstart.features.prompts import CompiledPrompt
    from redstart.features.resources import CompiledResource
    from redstart.server.middleware import Handler, Middleware

T = TypeVar("T", bound=Compiled[Any])


class Dispatch:
    """Keeps what is registered with a server, and makes the Description of it that the runtime asks for.

    A change only drops the description: the next call makes another one, so that many changes in a row cost one.
    """

    def __init__(self, runtime: Runtime, info: Implementation, options: ServerOptions) -> None:
        self._runtime = runtime
        self._info = info
        self._options = options
        self._middleware: list[Middleware] = []
        self._declared: set[str] = set()
        self._completers: dict[tuple[str, str], Completer] = {}
        self._logs = True
        names = ("on_duplicate", "page_size", "cache", "include_tags", "exclude_tags")
        rules: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        self.tools: Registry[CompiledTool] = Registry("tool", **rules)
        self.prompts: Registry[CompiledPrompt] = Registry("prompt", **rules)
        self.resources: Registry[CompiledResource] = Registry("resource", **rules)
        self.templates: Registry[CompiledResource] = Registry("resource template", **rules)
        self._catalogs: dict[Registry[Any], Catalog[Any]] = {}
        """Of the registries that have not changed since."""
        self._lock = threading.Lock()
        """Things may be registered in any thread: none may drop a description while it is being made."""
        kinds: dict[Registry[Any], str] = {self.tools: "tools", self.prompts: "prompts", self.resources: "resources"}
        for registry, kind in (*kinds.items(), (self.templates, "resources")):
            registry.changed += [partial(self._drop, registry), partial(runtime.hub.changed, kind)]
        runtime.describe = self.describe

    def _drop(self, registry: Registry[Any] | None = None) -> None:
        with self._lock:
            self._runtime.current = None
            if registry is not None:
                self._catalogs.pop(registry, None)

    # ------------------------------------------------------------ changes

    def wrap(self, layers: Iterable[Middleware]) -> None:
        """Put further middleware around every request, innermost last."""
        self._middleware += layers
        self._drop()

    def declare(self, names: Iterable[str]) -> None:
        """Offer these capabilities even if nothing is registered for them."""
        self._declared |= set(names)
        self._drop()

    def offer_no_logs(self) -> None:
        """Offer `logging` only if it is declared."""
        self._logs = False
        self._drop()

    def complete(self, ref: str, completer: Completer) -> None:
        """Let `completer` complete its argument of what `ref` names: a prompt, or the text of a template."""
        item = self.templates.items.get(ref) or self.prompts.items.get(ref)
        if item is not None:
            completer.check(item)
        self._completers[ref, completer.argument] = completer
        self._drop()

    def check_completers(self, item: Completable) -> None:
        """Check the completers that were given for `item` before it was registered."""
        for (ref, _), completer in self._completers.items():
            if ref == item.key:
                completer.check(item)

    # ------------------------------------------------------------ the description

    def describe(self) -> Description:
        """Describe the server as it is now."""
        with self._lock:
            self._runtime.current = description = self._describe()
        return description

    def _catalog(self, registry: Registry[T]) -> Catalog[T]:
        if registry not in self._catalogs:
            self._catalogs[registry] = registry.catalog()
        return self._catalogs[registry]

    def _describe(self) -> Description:
        tools, prompts = self._catalog(self.tools), self._catalog(self.prompts)
        resources, templates = self._catalog(self.resources), self._catalog(self.templates)
        errors, declared = self._runtime.errors, self._declared
        capabilities: dict[str, JsonObject] = {"tools": {"listChanged": True}}
        handlers: dict[str, Handler] = {"tools/call": Tools(tools, errors).call}
        if [tool for tool in tools.items.values() if tool.declared.task != "forbidden"]:
            capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
            handlers = self._runtime.tasks.handlers(Tools(tools, errors))
        if self._logs or "logging" in declared:
            capabilities["logging"] = {}
        if prompts.items or "prompts" in declared:
            from redstart.features.prompts import Prompts

            capabilities["prompts"] = {"listChanged": True}
            handlers["prompts/get"] = Prompts(prompts, errors).get
        if resources.items or templates.items or "resources" in declared:
            from redstart.features.resources import Resources

            capabilities["resources"] = {"subscribe": True, "listChanged": True}
            handlers["resources/read"] = Resources(resources, templates, errors).read
        if prompts.items or templates.items or "completions" in declared:
            from redstart.features.completion import Completions

            completions = Completions(self._completers.copy(), prompts, templates, errors)
            if completions or "completions" in declared:
                capabilities["completions"] = {}
                handlers["completion/complete"] = completions.complete
        lists: dict[str, Catalog[Any]] = {
            "tools/list": tools,
            "prompts/list": prompts,
            "resources/list": resources,
            "resources/templates/list": templates,
        }
        handlers |= {name: self._pages(lists[name], METHODS[name].capability in capabilities) for name in lists}
        handlers = {**self._common_handlers(capabilities), **handlers}
        methods = {name: self._wrapped(handlers.get(name, self._refuse)) for name in METHODS}
        return Description(capabilities, tools, prompts, resources, templates, methods)

    def _common_handlers(self, capabilities: dict[str, JsonObject]) -> dict[str, Handler]:
        """The handlers of the methods that do not depend on what is registered."""
        options, hub = self._options, self._runtime.hub
        life = Lifecycle(
            self._info, options["instructions"], self._runtime.modern, capabilities, options["cache"] or Cache()
        )
        handlers: dict[str, Handler] = {
            "initialize": life.initialize,
            "ping": life.ping,
            "server/discover": life.discover,
            "logging/setLevel": _kept(life.set_level),
            "resources/subscribe": _kept(hub.subscribe),
            "resources/unsubscribe": _kept(hub.unsubscribe),
            "subscriptions/listen": hub.listen,
        }
        return {name: handlers[name] for name in handlers if METHODS[name].capability in (None, *capabilities)}

    def _pages(self, catalog: Catalog[Any], offered: bool) -> Handler:
        # Middleware gets a result that it can read and change. Without middleware the encoded page is sent as it is.
        find = catalog.result if self._middleware else catalog.page

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


def _kept(handler: Handler) -> Handler:
    """A handler that changes its session. Other processes that serve the session know of it before the answer."""

    async def keep(call: Call) -> Any:
        result = await handler(call)
        if call.link.keep is not None:
            await call.link.keep(call)
        return result

    return keep
