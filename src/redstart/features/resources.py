"""Resources: what a client may read, by URI; with variables in the URI it is a template.

Registering compiles the template and checks that it agrees with the parameters of the handler. A read is one dict
look-up. If no resource has exactly this URI, the templates are tried in the order of their registration.
Spec: /specification/2026-07-28/server/resources.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Unpack

import msgspec
from msgspec import field

from redstart.features.completion import Completer, completers, find_mark
from redstart.features.errors import ErrorPolicy, RegistrationError, place
from redstart.features.options import Declared, ResourceOptions
from redstart.features.prompts import refuse_generator
from redstart.features.registry import Arguments, Catalog, Compiled, Compiler, Function
from redstart.features.results import is_media, one_body, to_json, valid
from redstart.features.rules import HANDLER_OR_NONE, NAME, REQUIRED_TEXT, caller, checked, did_you_mean, showing
from redstart.features.tools import require
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.schema.errors import ShapeError, nearest
from redstart.schema.signature import Signature, compile_signature
from redstart.schema.uritemplate import Template
from redstart.wire import types as t
from redstart.wire.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, ProtocolError, encode

Binding = Callable[[str, Mapping[str, str | list[str]]], Arguments]
"""From a URI and the variables in it to the keyword arguments of the handler."""
JSON: Final = "application/json"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]*")


class NotAPath:
    """A marker in an annotation: the variable is not a path, so that its value is not checked as one.

    >>> from typing import Annotated
    >>> def page(url: Annotated[str, NotAPath]) -> str:
    ...     return f"The page at {url}"
    >>> Resource("pages://{+url}", handler=page).argument_names()
    ('url',)
    """


class Resource(Declared):
    """A URI that can be read, or a template of such URIs. Registering it does not change it.

    >>> Resource("config://app", name="config", handler=lambda: {"debug": False}).template is None
    True
    >>> Resource("notes://{name}", name="note", handler=lambda name: f"# {name}").argument_names()
    ('name',)
    """

    kind: ClassVar = "resource"

    @showing(ResourceOptions)
    def __init__(
        self,
        uri: str,
        name: str = "",
        *,
        handler: Function | None = None,
        **options: Unpack[ResourceOptions],
    ) -> None:
        self.uri: str = REQUIRED_TEXT.check("uri", uri)
        self.handler = HANDLER_OR_NONE.check(f"handler of {name or uri}", handler)
        name = NAME.check("name", name) or _name_of(handler) or uri
        given = checked(ResourceOptions, "a resource", options, after=f" of {name}")
        super().__init__(name, place(handler) if handler is not None else f"{caller()}: the resource {uri}", given)
        self.mime_type = given["mime_type"]
        self.size = given["size"]
        self.annotations = given["annotations"]
        self.cache = given["cache"]
        self.template = _template(uri, given["unsafe"], self.place)

    @classmethod
    def from_descriptor(cls, descriptor: Sequence[Any], handler: Function) -> Resource:
        """A resource from `(uri, name, description, mime_type)`."""
        uri, name, description, mime_type = (*descriptor, "", None, None)[:4]
        return cls(uri, name, handler=handler, description=description, mime_type=mime_type)

    @property
    def key(self) -> str:
        return self.uri

    def argument_names(self) -> tuple[str, ...]:
        return self.template.variables if self.template is not None else ()

    def allows(self, argument: str, value: str) -> bool:
        """Whether a variable may hold `value`."""
        return self.template is not None and self.template.allows(argument, value)

    def companions(self) -> Sequence[Resource]:
        """Resources that are registered and removed together with this one."""
        return ()

    def compile(self, compiler: Compiler) -> CompiledResource:
        """Decide everything that can be decided now; what cannot be served fails here, with file and line."""
        if self.handler is None:
            if self.template is None:
                raise RegistrationError(f"{self.place} has no handler, and only a template may do without one")
            return CompiledResource(declared=self, description=self.description, template=self.template)
        refuse_generator(self.handler, f"{self.place}: the resource {self.uri}")
        signature = compile_signature(self.handler, injected=compiler.injected)
        self._check_parameters([field.name for field in signature.fields])
        fields = [field for field in signature.fields if field.name in self.argument_names()]
        template = self.template
        if template is not None:
            marked = {field.name for field in fields if find_mark(field.annotation, NotAPath) is not None}
            template = Template(self.uri, unsafe=template.unsafe | marked)
        compiled = CompiledResource(
            declared=self,
            description=signature.description if self.description is None else self.description,
            template=template,
            injected=signature.injected,
            arguments=self._binding(signature),
            completers=completers(fields, self.place, compiler),
            handler=self.handler,
            executor=self.executor,
        )
        compiler.equip(compiled)
        return compiled

    def _binding(self, signature: Signature) -> Binding:
        names = frozenset(field.name for field in signature.fields)

        def bind(uri: str, variables: Mapping[str, str | list[str]]) -> Arguments:
            sent = {"uri": uri, **variables}
            return signature.bind(encode({name: value for name, value in sent.items() if name in names}))

        return bind

    def _check_parameters(self, names: Sequence[str]) -> None:
        """The handler takes the variables by name; a parameter `uri` that is not one of them gets the URI."""
        variables = self.argument_names()
        extra = [name for name in names if name not in (*variables, "uri")]
        lost = [name for name in variables if name not in names]
        if extra:
            raise RegistrationError(f"{self.place}: {self.uri} has no variable for the parameter {', '.join(extra)}")
        if lost and names != ["uri"]:
            raise RegistrationError(f"{self.place}: the handler of {self.uri} does not take {', '.join(lost)}")


class CompiledResource(Compiled[Resource], kw_only=True):
    """A resource or a template as its calls need it."""

    template: Template | None
    arguments: Binding | None = None
    completers: dict[str, Completer] = field(default_factory=dict)

    def argument_names(self) -> tuple[str, ...]:
        return self.declared.argument_names()

    def allows(self, argument: str, value: str) -> bool:
        """Whether a variable may hold `value`."""
        return self.template is not None and self.template.allows(argument, value)

    def entry(self, dialect: Dialect) -> object:
        """The entry of `resources/list` or `resources/templates/list`."""
        resource, facts = self.declared, self.facts()
        facts |= {"mime_type": resource.mime_type or None, "annotations": resource.annotations}
        if self.template is not None:
            return dialect.entry(t.ListedTemplate(resource.uri, resource.name, **facts))
        return dialect.entry(t.ListedResource(resource.uri, resource.name, size=resource.size, **facts))

    def fits(self, uri: str) -> bool:
        """Whether `uri` is one of this template."""
        return self.template is not None and self.template.match(uri) is not None

    def bind(self, uri: str) -> Arguments | None:
        """Keyword arguments for the handler; None if the URI is not of this template or nothing can read it."""
        variables = self.template.match(uri) if self.template is not None else {}
        return None if self.arguments is None or variables is None else self.arguments(uri, variables)

    def converted(self, value: object) -> object:
        """Convert the value in the thread of its handler: a lazy value may block while it loads."""
        known = isinstance(value, str | bytes | bytearray | memoryview | t.Result | None) or _is_contents(value)
        if known or (isinstance(value, list | tuple) and any(map(_is_contents, value))):
            return value
        return msgspec.Raw(to_json(value))


class Resources:
    """`resources/read`."""

    def __init__(
        self, catalog: Catalog[CompiledResource], templates: Catalog[CompiledResource], errors: ErrorPolicy
    ) -> None:
        self.catalog = catalog
        self.templates = templates
        self.errors = errors

    def read(self, call: Call) -> Awaitable[t.Result]:
        return self.read_uri(call, call.params.uri)

    async def read_uri(self, call: Call, uri: str) -> t.Result:
        """What the resource at `uri` holds, on behalf of `call`; also for handlers that read a resource."""
        resource, arguments = self._find(call, uri)
        if resource.declared.needs:
            require(call, resource.declared.needs)

        def finish(value: object) -> t.Result:
            if isinstance(value, t.Result) and not isinstance(value, t.ReadResourceResult):
                return value  # a question to the client, for example
            return self._result(call, resource, uri, value)

        work, what = resource.invoke(call, arguments), f"The resource {resource.key}"
        return await self.errors.outcome(work, finish, what, resource.declared.place)

    def _result(self, call: Call, resource: CompiledResource, uri: str, value: object) -> t.ReadResourceResult:
        parts = contents(value, uri, resource.declared.mime_type)
        if not parts:
            raise self.not_found(call, uri)
        made = t.ReadResourceResult(contents=parts)
        if isinstance(value, t.ReadResourceResult):
            made.meta = value.meta
        if call.dialect.modern:
            cache = resource.declared.cache or self.catalog.cache
            made.ttl_ms = int(cache.ttl * 1000)
            made.cache_scope = cache.scope if resource.sees is None else "private"
        return made

    def _find(self, call: Call, uri: str) -> tuple[CompiledResource, Arguments]:
        """The resource with exactly this URI, else the first template that it fits, types included."""
        exact = self.catalog.find(uri, call)
        refused: ShapeError | None = None
        for resource in (exact,) if exact is not None else self.templates.usable(call):
            try:
                arguments = resource.bind(uri)
            except ShapeError as error:
                refused = refused or error
            else:
                if arguments is not None:
                    return resource, arguments
        if refused is not None:
            raise ProtocolError(INVALID_PARAMS, f"{uri[:200]}: {refused}", {"uri": uri}) from refused
        raise self.not_found(call, uri)

    def rule(self, uri: str) -> Callable[[Call], bool] | None:
        """Who may see what is at `uri`, as a function of a call; None means everybody, as for a URI of nothing."""
        exact = self.catalog.items.get(uri)
        fits = (one for one in self.templates.items.values() if one.fits(uri))
        rules = [resource.admits for resource in (exact, *fits) if resource is not None]
        if not rules or None in rules:
            return None
        return lambda call: any(admits(call) for admits in rules if admits is not None)

    def not_found(self, call: Call, uri: str) -> ProtocolError:
        """The error for a URI of nothing that the client of `call` may use."""
        fits = (one for one in self.templates.items.values() if one.refusal is not None and one.fits(uri))
        for resource in (self.catalog.items.get(uri), *fits):
            if resource is not None and resource.refusal is not None and (refused := resource.refusal(call)):
                return refused
        templates = (resource.template for resource in self.templates.visible(call))
        refusals = (why for template in templates if template is not None and (why := template.refused(uri)))
        refusal = next(refusals, None)
        others = (resource.key for resource in self.catalog.visible(call) if resource.key != uri)
        hint = f". {refusal}" if refusal else did_you_mean(uri, others) or self._template_meant(call, uri)
        return ProtocolError(RESOURCE_NOT_FOUND, f"Resource not found: {uri[:200]}{hint}", {"uri": uri})

    def _template_meant(self, call: Call, uri: str) -> str:
        """Name the template whose fixed segments are nearly those of the URI. What fits one was not mistyped."""
        given = uri.partition("?")[0].split("/")
        alike: dict[tuple[int, ...], dict[str, str]] = {}
        for resource in self.templates.visible(call):
            parts = resource.key.partition("{?")[0].split("/")
            if resource.fits(uri):
                return ""
            if len(parts) == len(given) or "{+" in resource.key:
                fixed = tuple(n for n, part in enumerate(parts) if "{" not in part)
                alike.setdefault(fixed, {}).setdefault(_segments(parts, fixed), resource.key)
        for fixed, known in alike.items():
            if near := nearest(_segments(given, fixed), known):
                return f'. Did you mean "{known[near]}"?'
        return ""


def _segments(parts: Sequence[str], places: Iterable[int]) -> str:
    """The segments at these places, without the `:` of the scheme: all have it, so it would make them alike."""
    return "/".join(part.removesuffix(":") for n in places for part in parts[n : n + 1] if part)


# ---------------------------------------------------------------- registration


def _template(uri: object, unsafe: Iterable[str], where: str) -> Template | None:
    """The compiled template of a URI with variables, None for one without."""
    if not isinstance(uri, str) or not _URI.fullmatch(uri):
        raise RegistrationError(f'{where}: {uri!r} is not a URI; it begins with a scheme, such as "notes://"')
    if "{" not in uri and "}" not in uri:
        return None
    try:
        return Template(uri, unsafe=unsafe)
    except ValueError as error:
        raise RegistrationError(f"{where}: {error}") from error


def _name_of(handler: object) -> str:
    name: str = getattr(handler, "__name__", "")
    return "" if name == "<lambda>" else name


# ---------------------------------------------------------------- results


def contents(value: object, uri: str, mime_type: str | None = None) -> list[t.ResourceContents]:
    """What a handler's value becomes: text as it is, bytes as a blob, contents as they are, the rest as JSON."""
    if value is None:
        return []
    if isinstance(value, t.ReadResourceResult):
        value = value.contents
        return [_one(item, uri, mime_type) for item in value]
    if isinstance(value, list | tuple) and not _is_contents(value) and any(_is_contents(item) for item in value):
        return [_one(item, uri, mime_type) for item in value]
    return [_one(value, uri, mime_type)]


def _is_contents(value: object) -> bool:
    return isinstance(value, t.ResourceContents | t.Content | bytes) or is_media(value) or _is_triple(value)


def _is_triple(value: object) -> bool:
    """Whether `value` is `(uri, mime_type, str or bytes)`, and not just three strings."""
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[0], str):
        return False
    return _URI.fullmatch(value[0]) is not None and isinstance(value[2], str | bytes)


def _one(value: Any, uri: str, mime_type: str | None) -> t.ResourceContents:
    if isinstance(value, str):
        return t.ResourceContents(uri, mime_type or TEXT, text=value)
    if isinstance(value, bytes | bytearray | memoryview):
        return t.ResourceContents(uri, mime_type or BYTES, blob=bytes(value))
    if isinstance(value, t.ResourceContents):
        return _checked(value, mime_type)
    if is_media(value):
        return t.ResourceContents(uri, value[1], blob=value[0])
    if _is_triple(value):
        return _one(value[2], value[0], value[1] or mime_type)
    if isinstance(value, t.EmbeddedResource):
        return _checked(value.resource, mime_type)
    if isinstance(value, t.Image | t.Audio):
        return t.ResourceContents(uri, value.mime_type, blob=value.data)
    if isinstance(value, t.Text):
        return t.ResourceContents(uri, mime_type or TEXT, text=value.text)
    return t.ResourceContents(uri, mime_type or JSON, text=to_json(value).decode())


def _checked(given: t.ResourceContents, mime_type: str | None) -> t.ResourceContents:
    one_body(given)
    valid(given)
    if given.mime_type is not None or mime_type is None:
        return given
    return msgspec.structs.replace(given, mime_type=mime_type)
