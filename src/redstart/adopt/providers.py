"""Provider objects: an object that lists its own tools, prompts and resources, and answers the calls of them.

`tools()` names what there is. A call goes to `tool_call(name, arguments[, elicit])` where the provider has one; only if
that returns `NotImplemented` is the method itself called (auto-dispatch). After a failure the method is not called,
because a tool with side effects must not run twice. `docs/design/0003-providers.md` says why.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from redstart.adopt.provider_calls import ProvidedTool, ToolCall, is_declaration
from redstart.execution.dependencies import injected
from redstart.features.errors import RegistrationError, ToolError, log, place
from redstart.features.marks import components
from redstart.features.prompts import Prompt
from redstart.features.registry import Function
from redstart.features.resources import Binding, Resource
from redstart.features.tools import Tool
from redstart.schema.callables import is_async
from redstart.schema.signature import Signature

if TYPE_CHECKING:
    from redstart.adopt.registrar import Registrar
    from redstart.features.marks import Component

LISTS: Final = ("tools", "prompts", "resources")


@runtime_checkable
class ToolProvider(Protocol):
    """An object that provides tools.

    `tools()` lists names of methods, `("mcp_name", "method")` pairs, callables and `Tool` objects. Optional beside it:
    `capabilities()`, any of "prompts", "resources", "elicitation"; and `tool_call(name, arguments)` or
    `tool_call(name, arguments, elicit)`, sync or async, which returns `NotImplemented` for other tools.

    >>> class Maths:
    ...     def tools(self):
    ...         return ["double"]
    ...
    ...     def double(self, n: int) -> int:
    ...         return 2 * n
    >>> isinstance(Maths(), ToolProvider)
    True
    """

    def tools(self) -> Iterable[object]:
        """The tools: names of methods, `("mcp_name", "method")`, callables, `Tool` objects."""
        ...


@runtime_checkable
class PromptProvider(Protocol):
    """An object that provides prompts.

    `prompts()` lists `("name", "description", [("argument", "its description", required), …])`, names of methods,
    callables and `Prompt` objects. `prompt_get(name, arguments)` gives the messages of what was listed as a tuple.

    >>> class Debates:
    ...     def prompts(self):
    ...         return [("debate", "Debates a topic", [("topic", "The topic", True)])]
    ...
    ...     def prompt_get(self, name, arguments):
    ...         return [("user", f"Let us debate: {arguments['topic']}"), ("assistant", "What is your position?")]
    >>> isinstance(Debates(), PromptProvider)
    True
    """

    def prompts(self) -> Iterable[object]:
        """The prompts: `(name, description, arguments)`, names of methods, callables, `Prompt` objects."""
        ...


@runtime_checkable
class ResourceProvider(Protocol):
    """An object that provides resources.

    `resources()` lists `("uri", "name", "description", "mime type")` and `Resource` objects; a URI with variables is a
    template. `resource_read(uri, arguments)` gives a text, bytes, or `[(uri, mime_type, str_or_bytes), …]`.

    >>> class Logs:
    ...     def resources(self):
    ...         return [("app://logs", "logs", "Log entries", "text/plain")]
    ...
    ...     def resource_read(self, uri, arguments):
    ...         return [(uri, "text/plain", "Log entry 1"), (uri, "text/plain", "Log entry 2")]
    >>> isinstance(Logs(), ResourceProvider)
    True
    """

    def resources(self) -> Iterable[object]:
        """The resources: `(uri, name, description, mime_type)`, `Resource` objects."""
        ...


def is_provider(thing: object) -> bool:
    """Whether `thing` is a provider. The check runs no property of it."""
    return any(_lists(thing, name) for name in LISTS)


def _lists(thing: object, name: str) -> bool:
    """Whether `thing.name()` can be called without arguments; `resources(kind)` of some library is something else."""
    method = inspect.getattr_static(thing, name, None)
    if isinstance(method, staticmethod | classmethod):
        method = method.__func__
    if not inspect.isfunction(method):
        return False
    own = 0 if inspect.ismodule(thing) or isinstance(inspect.getattr_static(thing, name), staticmethod) else 1
    parameters = list(inspect.signature(method).parameters.values())[own:]
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def add_provider(
    server: Registrar, provider: object, includes: Callable[[str], bool] = lambda key: True
) -> frozenset[str] | None:
    """Register everything that `provider` lists and `includes` accepts; returns what its `capabilities()` name."""
    source = Source(provider)
    things = [*source.tools(), *source.prompts(), *source.resources()]
    server.declare(source.declared or ())
    for thing in things:
        if includes(thing.key):
            declared = thing.tool if isinstance(thing, ProvidedTool) else thing
            declared.source = provider  # so that `server.remove(provider)` finds it
            server.register(thing)
    return source.declared


class Source:
    """One provider. Its lists are read once."""

    def __init__(self, provider: object) -> None:
        self.provider = provider
        self.name = provider.__name__ if inspect.ismodule(provider) else type(provider).__name__
        given = self._returned("capabilities")
        self.declared: frozenset[str] | None = None if given is None else frozenset(map(str, given))
        """What `capabilities()` names. None means that there is no such method, and everything is offered."""

    def _returned(self, name: str) -> list[object] | None:
        """What a method of the provider lists; None where it has no such method."""
        if not _lists(self.provider, name):
            return None
        returned = getattr(self.provider, name)()
        if inspect.iscoroutine(returned):
            returned.close()
            raise RegistrationError(f"{self._place(name)}: {name}() is asked once, at registration: write `def`")
        if returned is None:  # inherited from the Protocol
            return None
        if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
            raise RegistrationError(f"{self._place(name)}: {name}() returns a list, not {returned!r:.100}")
        return list(returned)

    def _listed(self, kind: str) -> list[object]:
        listed = self._returned(kind) or []
        if kind == "tools" or self.declared is None or kind in self.declared:
            return listed
        if listed:
            log.warning("%s has %s(), but its capabilities() do not name %s: it is not served", self.name, kind, kind)
        return []

    def _place(self, name: str) -> str:
        return place(getattr(self.provider, name))

    def _method(self, method: object) -> Function | None:
        """The method of this name; what is not a name is the callable itself."""
        value = getattr(self.provider, method, None) if isinstance(method, str) else method
        return value if callable(value) else None

    # ------------------------------------------------------------ tools

    def tools(self) -> Iterator[Component | ProvidedTool]:
        """The tools that `tools()` lists; with a `tool_call`, that is asked first."""
        tool_call = self._method("tool_call")
        ask = None if tool_call is None else ToolCall(tool_call, self.declared)
        for descriptor in self._listed("tools"):
            for thing, defined in self._tool(descriptor, ask is not None):
                if ask is not None and isinstance(thing, Tool):
                    yield ProvidedTool(thing, ask, defined=defined)
                else:
                    yield thing

    def _tool(self, descriptor: object, may_lack: bool) -> Iterator[tuple[Component, bool]]:
        """The tools of one descriptor, each with whether it has a function of its own."""
        if isinstance(descriptor, Tool):
            yield descriptor, True
            return
        name, target = _pair(descriptor, self._place("tools"))
        method = self._method(target)
        if method is None:
            if not may_lack:
                raise RegistrationError(f"{self._place('tools')}: {self.name} has no method {target}, and no tool_call")
            yield (
                Tool(name or str(target), handler=_unhandled, input_schema={"type": "object"}, description=""),
                False,
            )
            return
        for thing in components(method, injected):
            if isinstance(thing, Tool):
                thing.name = name or thing.name
                thing.lenient = True  # what is listed by name is meant to be served
            yield thing, not is_declaration(method)

    # ------------------------------------------------------------ prompts

    def prompts(self) -> Iterator[Component]:
        """The prompts that `prompts()` lists."""
        get = self._method("prompt_get")
        for descriptor in self._listed("prompts"):
            if isinstance(descriptor, Prompt):
                yield descriptor
            elif isinstance(descriptor, tuple):
                yield self._described(descriptor, get)
            else:
                method = self._method(descriptor)
                if method is None:
                    raise RegistrationError(f"{self._place('prompts')}: {self.name} has no method {descriptor}")
                marked = [thing for thing in components(method, injected) if isinstance(thing, Prompt)]
                yield from marked or [Prompt(handler=method)]

    def _described(self, descriptor: tuple[object, ...], get: Function | None) -> Prompt:
        if not 2 <= len(descriptor) <= 3 or not all(isinstance(part, str) for part in descriptor[:2]):
            wanted = '("name", "description", [("argument", "description", required), …])'
            raise RegistrationError(f"{self._place('prompts')}: a prompt is {wanted}, not {descriptor!r:.200}")
        name = descriptor[0]
        handler = self._method(name) if get is None else _answers(partial(get, name), f"The prompt {name}")
        if handler is None:
            raise RegistrationError(f"{self._place('prompts')}: {self.name} has no prompt_get, and no method {name}")
        made = Prompt.from_descriptor(descriptor, handler)
        made.place = self._place("prompts" if get is None else "prompt_get")
        return made

    # ------------------------------------------------------------ resources

    def resources(self) -> Iterator[Component]:
        """The resources that `resources()` lists."""
        read = self._method("resource_read")
        for descriptor in self._listed("resources"):
            if isinstance(descriptor, Resource):
                yield descriptor
                continue
            where = self._place("resources")
            if not isinstance(descriptor, tuple) or not 1 <= len(descriptor) <= 4:
                wanted = '("scheme://…", "name", "description", "mime/type")'
                raise RegistrationError(f"{where}: a resource is {wanted}, not {descriptor!r:.200}")
            if read is None:
                raise RegistrationError(f"{where}: {self.name} has no resource_read for {descriptor[0]}")
            yield Provided.from_descriptor(descriptor, _reader(read))


def _pair(descriptor: object, where: str) -> tuple[str, object]:
    """The MCP name, "" where it follows from the function, and the name of a method, or a callable."""
    if isinstance(descriptor, str) or callable(descriptor):
        return "", descriptor
    if isinstance(descriptor, tuple):
        if len(descriptor) == 2 and isinstance(descriptor[0], str):
            return descriptor
        if len(descriptor) == 3 and isinstance(descriptor[2], int):
            raise RegistrationError(f"{where}: a method has one signature; leave the arity out of {descriptor!r}")
    wanted = '"method", ("mcp_name", "method"), a callable or a Tool'
    raise RegistrationError(f"{where}: a tool is {wanted}, not {descriptor!r:.200}")


def _unhandled(arguments: dict[str, object]) -> object:
    return NotImplemented


# ---------------------------------------------------------------- handlers


def _answers(work: Function, what: str) -> Function:
    """`prompt_get` for one prompt, as a handler of all its arguments."""

    def answered(value: object) -> object:
        if value is NotImplemented:
            raise ToolError(f"{what} is listed, but its provider does not answer for it")
        return value

    if is_async(work):

        async def later(arguments_: dict[str, object]) -> object:
            return answered(await work(arguments_))

        return later
    return lambda arguments_: answered(work(arguments_))


class Provided(Resource):
    """A resource that is read by the provider's `resource_read`, with the URI and the variables of the template."""

    def _check_parameters(self, names: object) -> None:
        """There is nothing to check: the handler is made by `_reader`."""

    def _binding(self, signature: Signature) -> Binding:
        return lambda uri, variables: {"uri": uri, "arguments": dict(variables)}


def _reader(read: Function) -> Function:
    """`resource_read(uri, arguments)`, or `resource_read(uri)`, as a handler. NotImplemented means not found."""
    alone = len(inspect.signature(read).parameters) == 1

    def or_none(value: object) -> object:
        return None if value is NotImplemented else value

    if is_async(read):

        async def later(uri: str, arguments: dict[str, object]) -> object:
            return or_none(await (read(uri) if alone else read(uri, arguments)))

        return later
    return lambda uri, arguments: or_none(read(uri) if alone else read(uri, arguments))
