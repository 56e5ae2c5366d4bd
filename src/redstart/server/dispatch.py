"""The table from method to the function that answers it, and the capabilities: both follow from what is registered.

Prompts, resources and completion are loaded when the first of them is registered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redstart.features.lifecycle import Lifecycle
from redstart.features.registry import Cache, Registry
from redstart.features.tools import Tools
from redstart.protocol.call import Call
from redstart.protocol.methods import METHODS
from redstart.server.middleware import Handler, Middleware, compose
from redstart.wire.jsonrpc import METHOD_NOT_FOUND, ProtocolError

if TYPE_CHECKING:
    from redstart.features.completion import Completions
    from redstart.features.prompts import Prompts
    from redstart.features.resources import Resources
    from redstart.server.server import Server


class Dispatch:
    """What one server answers, and how."""

    def __init__(self, server: Server, instructions: str | None, cache: Cache | None) -> None:
        self._server = server
        self._runtime = server.runtime
        self._lifecycle = Lifecycle(server.info, instructions, server.modern)
        self._lifecycle.cache = cache or self._lifecycle.cache
        self.middleware: list[Middleware] = []
        """What may change a call before its handler sees it."""
        self._declared: set[str] = set()
        self.logs = True
        """Whether `logging` is offered without being declared."""
        self._handlers: dict[str, Handler] = {}
        self._lists: dict[str, Handler] = {}
        self.tools = Tools(server.tools, server.errors)
        self._watch()

    @cached_property
    def prompts(self) -> Prompts:
        from redstart.features.prompts import Prompts

        return Prompts(self._server.prompts, self._server.errors)

    @cached_property
    def resources(self) -> Resources:
        from redstart.features.resources import Resources

        return Resources(self._server.resources, self._server.templates, self._server.errors)

    @cached_property
    def completions(self) -> Completions:
        from redstart.features.completion import Completions

        server = self._server
        return Completions(server.prompts, server.templates, self.resources.matching, server.errors)

    # ------------------------------------------------------------ offering

    def _watch(self) -> None:
        """A change of what is registered reaches the table, and the clients that want to know."""
        server, hub = self._server, self._runtime.hub
        server.tools.changed.append(lambda: hub.changed("tools"))
        server.prompts.changed += [self.offer, lambda: hub.changed("prompts")]
        for registry in (server.resources, server.templates):
            registry.changed += [self.offer, lambda: hub.changed("resources")]

    def declare(self, names: Iterable[str]) -> None:
        """Offer these even while nothing of them is registered."""
        self._declared |= set(names)
        self.offer()

    def offer(self) -> None:
        """Work out the capabilities and the table anew."""
        server = self._server
        there = {"prompts": server.prompts, "resources": server.resources or server.templates}
        wanted = {name for name, registry in there.items() if registry} | self._declared
        offered: dict[str, Any] = {"tools": {"listChanged": True}}
        if self.logs or "logging" in wanted:
            offered["logging"] = {}
        if "prompts" in wanted:
            offered["prompts"] = {"listChanged": True}
        if "resources" in wanted:
            offered["resources"] = {"subscribe": True, "listChanged": True}
        if "completions" in wanted or ("completions" in self.__dict__ and self.completions):
            offered["completions"] = {}
        self._lifecycle.capabilities = offered
        self._runtime.hub.offers = set(offered)
        table = self._table(offered)
        self._handlers = {name: table[name] for name in table if METHODS[name].capability in (None, *offered)}
        self._recompose()

    def _table(self, offered: dict[str, Any]) -> dict[str, Handler]:
        server, life, hub = self._server, self._lifecycle, self._runtime.hub
        # Clients of the handshake era get an empty list of what is not offered; later ones are told that it is not.
        self._lists = {
            "tools/list": self._pages(server.tools),
            "prompts/list": self._pages(server.prompts),
            "resources/list": self._pages(server.resources),
            "resources/templates/list": self._pages(server.templates),
        }
        table: dict[str, Handler] = {
            **self._lists,
            "initialize": life.initialize,
            "ping": life.ping,
            "server/discover": life.discover,
            "logging/setLevel": life.set_level,
            "tools/call": self.tools.call,
            "resources/subscribe": hub.subscribe,
            "resources/unsubscribe": hub.unsubscribe,
            "subscriptions/listen": hub.listen,
        }
        if "prompts" in offered:
            table["prompts/get"] = self.prompts.get
        if "resources" in offered:
            table["resources/read"] = self.resources.read
            hub.rule = self.resources.rule
        if "completions" in offered:
            table["completion/complete"] = self.completions.complete
        return table

    def _pages(self, registry: Registry[Any]) -> Handler:
        async def page(call: Call) -> Any:
            # Middleware gets a result that it can read and change; without any, the encoded page is sent as it is.
            return registry.result(call) if self.middleware else registry.page(call)

        return page

    # ------------------------------------------------------------ answering

    def wrap(self, layers: Iterable[Middleware]) -> None:
        """Put further middleware around every request, innermost last."""
        self.middleware += layers
        self._recompose()

    def _recompose(self) -> None:
        inner: Handler = self.answer
        if self.middleware:
            # Without middleware `Runtime.answer` itself turns a question into a result.
            inner = self._runtime.asking.inside_middleware(inner)
        self._server.dispatch = compose(self.middleware, inner)

    def answer(self, call: Call) -> Awaitable[Any]:
        """The handler's answer to one call."""
        method = call.method
        handler = self._handlers.get(method.name)
        if handler is None:
            handler = None if call.dialect.modern else self._lists.get(method.name)
            if handler is None:
                raise ProtocolError(METHOD_NOT_FOUND, f"This server does not offer {method.name}")
        if call.dialogue is not None and call.dialogue.once:
            return call.dialogue.spend_first(handler)
        return handler(call)
