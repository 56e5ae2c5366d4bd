"""Prompts: messages that a user selects and fills in.

Registering a Prompt compiles it. Its arguments are strings on the wire; the annotations of the handler say what they
become. Spec: /specification/2026-07-28/server/prompts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Unpack, cast

from msgspec import Struct, field

from redstart.features.completion import Completer, completers
from redstart.features.errors import ErrorPolicy, RegistrationError, Unencodable, place
from redstart.features.options import Declared, PromptOptions
from redstart.features.prompt_template import compile_text, fill
from redstart.features.registry import Arguments, Catalog, Compiled, Compiler, Function
from redstart.features.results import BLOCK_TYPES, block, is_media, valid
from redstart.features.rules import HANDLER_OR_NONE, NAME, checked, did_you_mean, showing
from redstart.features.tools import require
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.schema.errors import ShapeError
from redstart.schema.signature import Signature, compile_signature
from redstart.wire import types as t
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError, encode

ROLES: Final = ("user", "assistant")
Bind = Callable[[dict[str, str]], Arguments]
"""From the strings that were sent to the keyword arguments of the handler."""


class PromptResult(Struct, metaclass=t.Explained):
    """The messages of a prompt, with a description of this result.

    >>> PromptResult("A debate about tea", [("user", "Tea is best."), ("assistant", "Coffee is.")]).description
    'A debate about tea'
    """

    description: str | None = None
    messages: object = ()


class Prompt(Declared):
    """A function that makes messages, and what clients are told about it. Registering it does not change it.

    >>> prompt = Prompt("greet", handler=lambda args: f"Greet {args['who']}.", arguments=[("who", "Whom", True)])
    >>> prompt.name
    'greet'
    >>> Prompt("greet", messages="Greet {who}{?how? {how}}.", arguments=[("who", "Whom", True), ("how", "")])
    Prompt('greet')
    """

    kind: ClassVar = "prompt"

    @showing(PromptOptions)
    def __init__(
        self,
        name: str = "",
        *,
        handler: Function | None = None,
        messages: object = None,
        **options: Unpack[PromptOptions],
    ) -> None:
        self.handler = HANDLER_OR_NONE.check(f"handler of {name}" if name else "handler", handler)
        self.messages = messages
        name = NAME.check("name", name) or getattr(handler, "__name__", "")
        given = checked(PromptOptions, "a prompt", options, after=f" of {name or 'the prompt'}")
        super().__init__(name, place(handler) if handler is not None else f"the prompt {name}", given)
        self.arguments = cast(list[t.PromptArgument] | None, given["arguments"])

    @classmethod
    def from_descriptor(cls, descriptor: Sequence[Any], handler: Function) -> Prompt:
        """A prompt from `(name, description, [(argument, description, required), …])`."""
        name, description, *rest = descriptor
        return cls(name, handler=handler, description=description, arguments=rest[0] if rest else ())

    def compile(self, compiler: Compiler) -> CompiledPrompt:
        """Decide everything that can be decided now; what cannot be served fails here, with file and line."""
        if not self.name or self.name == "<lambda>" or not self.name.isprintable():
            raise RegistrationError(f"{self.place}: {self.name!r} is not a valid prompt name; give it one with name=")
        if (self.handler is None) == (self.messages is None):
            raise RegistrationError(f"{self.place}: a prompt has a handler= or messages=, one of the two")
        compiled = self._compile_messages() if self.handler is None else self._compile_handler(self.handler, compiler)
        compiler.equip(compiled)
        return compiled

    def _compile_handler(self, handler: Callable[..., Any], compiler: Compiler) -> CompiledPrompt:
        refuse_generator(handler, f"{self.place}: the prompt {self.name}")
        signature = compile_signature(handler, injected=compiler.injected)
        if self.arguments is None:
            arguments = [_listed(field) for field in signature.fields]
            bind = _by_name(signature)
        else:
            arguments = self.arguments
            bind = self._explicit(signature, arguments)
        names = [argument.name for argument in arguments]
        fields = [field for field in signature.fields if field.name in names]
        return CompiledPrompt(
            declared=self,
            description=signature.description if self.description is None else self.description,
            arguments=arguments,
            injected=signature.injected,
            bind=bind,
            completers=completers(fields, self.place, compiler),
            handler=handler,
            executor=self.executor,
        )

    def _compile_messages(self) -> CompiledPrompt:
        """A prompt that is text with placeholders needs no handler of its own."""
        arguments = self.arguments or []
        names = [argument.name for argument in arguments]
        try:
            made = [(m.role, m.content) for m in messages(self.messages)]
        except Unencodable as error:
            raise RegistrationError(f"{self.place} has {error}") from error
        parts = [(r, compile_text(c.text, names, self.place) if isinstance(c, t.Text) else c) for r, c in made]
        required = [a.name for a in arguments if a.required is True]
        return CompiledPrompt(
            declared=self,
            description=self.description,
            arguments=arguments,
            bind=_requiring(required, names, lambda given: {"given": given}),
            handler=lambda given: [(r, fill(c, given) if isinstance(c, list) else c) for r, c in parts],
            executor="inline",
        )

    def _explicit(self, signature: Signature, arguments: Sequence[t.PromptArgument]) -> Bind:
        """A handler with given arguments takes them by name, or all of them as one dict."""
        names = [field.name for field in signature.fields]
        listed = [argument.name for argument in arguments]
        required = [a.name for a in arguments if a.required is True]
        if set(names) <= set(listed):
            self._check_names(signature, listed, required)
            bind = _by_name(signature)
        elif len(names) == 1:
            only = names[0]
            bind = lambda given: {only: given}  # noqa: E731 — two binders, told apart once
        else:
            raise RegistrationError(
                f"{self.place}: the prompt {self.name} has the arguments ({', '.join(listed)}), "
                f"but its handler takes ({', '.join(names)})"
            )
        return _requiring(required, listed, bind)

    def _check_names(self, signature: Signature, listed: Sequence[str], required: Sequence[str]) -> None:
        names = {field.name for field in signature.fields}
        lost = [name for name in listed if name not in names]
        if lost:
            raise RegistrationError(f"{self.place}: the handler of {self.name} does not take {', '.join(lost)}")
        bare = [f.name for f in signature.fields if f.required and f.name not in required]
        if bare:
            raise RegistrationError(
                f"{self.place}: {', '.join(bare)} of {self.name} need a default in the handler, or required=True"
            )


class CompiledPrompt(Compiled[Prompt], kw_only=True):
    """A prompt as its calls need it."""

    arguments: list[t.PromptArgument]
    bind: Bind
    completers: dict[str, Completer] = field(default_factory=dict)

    def texts(self) -> Iterator[tuple[str, object]]:
        yield from super().texts()
        yield from ((f"argument {one.name}", text) for one in self.arguments for text in (one.title, one.description))

    def argument_names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments)

    def allows(self, argument: str, value: str) -> bool:
        """Whether an argument may hold `value`. An argument of a prompt may be any text."""
        return True

    def converted(self, value: object) -> t.Result:
        """Convert the value in the thread of its handler: a lazy value may block while it loads."""
        return result(value)

    def entry(self, dialect: Dialect) -> object:
        """The entry of `prompts/list`."""
        return dialect.entry(t.ListedPrompt(self.key, arguments=self.arguments, **self.facts()))


class Prompts:
    """`prompts/get`."""

    def __init__(self, catalog: Catalog[CompiledPrompt], errors: ErrorPolicy) -> None:
        self.catalog = catalog
        self.errors = errors

    def get(self, call: Call) -> Awaitable[t.Result]:
        params: t.GetPromptParams = call.params
        return self.render(call, params.name, params.arguments or {})

    async def render(self, call: Call, name: str, arguments: Mapping[str, object]) -> t.Result:
        """The messages of the prompt `name`, on behalf of `call`; also for handlers that use a prompt."""
        prompt = self.catalog.find(name, call)
        if prompt is None:
            raise self.catalog.unknown(name, call)
        if prompt.declared.needs:
            require(call, prompt.declared.needs)
        try:
            given = prompt.bind(_strings(arguments))
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"The prompt {name}: {error}") from error
        work, what = prompt.invoke(call, given), f"The prompt {name}"
        return await self.errors.outcome(work, result, what, prompt.declared.place)


# ---------------------------------------------------------------- arguments


def _listed(field: Any) -> t.PromptArgument:
    return t.PromptArgument(
        field.name,
        title=field.shape.notes.get("title"),
        description=field.description or None,
        required=field.required,
    )


def _strings(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments as strings; one that is not a string is refused by name. Null means absent, as for tools."""
    given = {name: value for name, value in arguments.items() if value is not None}
    wrong = [name for name, value in given.items() if not isinstance(value, str)]
    if wrong:
        raise ProtocolError(INVALID_PARAMS, f"The arguments of a prompt are strings; not so: {', '.join(wrong)}")
    return given


def _by_name(signature: Signature) -> Bind:
    """Convert strings to the types of the annotations. Clients send "" for a field that was left empty: it counts as
    absent if its type does not accept it."""
    bind = signature.bind
    skipped = frozenset(f.name for f in signature.fields if not f.required and _refuses_empty(f.shape))

    def read(given: dict[str, str]) -> Arguments:
        if skipped and "" in given.values():
            given = {name: value for name, value in given.items() if value or name not in skipped}
        return bind(encode(given))

    return read


def _refuses_empty(shape: Any) -> bool:
    try:
        shape.convert("")
    except ShapeError:
        return True
    return False


def _requiring(required: Sequence[str], listed: Sequence[str], bind: Bind) -> Bind:
    def read(given: dict[str, str]) -> Arguments:
        lacking = [name for name in required if name not in given]
        if lacking:
            raise ProtocolError(INVALID_PARAMS, f"Missing required argument: {', '.join(lacking)}")
        for name in given:
            if name not in listed:
                hint = did_you_mean(name, dict.fromkeys(listed))
                raise ProtocolError(INVALID_PARAMS, f"Unknown argument: {name[:100]}{hint}")
        return bind(given)

    return read


def refuse_generator(handler: Function | None, what: str) -> None:
    """Refuse a generator: only tools may yield."""
    target = inspect.unwrap(handler) if handler is not None else None
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise RegistrationError(f"{what} is a generator: return a list instead of yielding")


# ---------------------------------------------------------------- results


def result(value: Any) -> t.Result:
    """The result that a handler's value becomes."""
    if isinstance(value, t.Result) and not isinstance(value, t.GetPromptResult):
        return value  # a question to the client, for example
    if isinstance(value, Mapping) and "messages" in value:
        value = PromptResult(value.get("description"), value["messages"])
    if _is_pair(value) and isinstance(value[1], list) and all(_has_role(item) for item in value[1]):
        value = PromptResult(*value)
    if isinstance(value, PromptResult | t.GetPromptResult):
        made = t.GetPromptResult(description=value.description, messages=messages(value.messages))
        if isinstance(value, t.GetPromptResult):
            made.meta = value.meta
        return valid(made)
    return t.GetPromptResult(messages=messages(value))


def messages(value: Any) -> list[t.Message]:
    """Messages from a string, a message, a pair, a block, or a list of these."""
    if isinstance(value, list | tuple) and not _is_pair(value) and not is_media(value):
        return [message for item in value for message in _message(item)]
    return _message(value)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _has_role(value: Any) -> bool:
    """Whether this is a message that says who speaks, as those in `(description, messages)` do."""
    pair = _is_pair(value) and value[0] in ROLES
    return pair or isinstance(value, t.Message) or (isinstance(value, Mapping) and "role" in value)


def _message(value: Any) -> list[t.Message]:
    if isinstance(value, t.Message):
        return _messages_from(value.role, value.content)
    if _is_pair(value):
        return _messages_from(*value)
    if isinstance(value, Mapping) and "role" in value:
        return _messages_from(value["role"], value.get("content"))
    if value is None:
        raise Unencodable("None instead of messages")
    return _messages_from("user", value)


def _messages_from(role: Any, content: Any) -> list[t.Message]:
    """One message, or one for each block of a list of blocks."""
    if role not in ROLES:
        raise Unencodable(f'a message with the role {str(role)[:100]!r}; a role is "user" or "assistant"')
    if isinstance(content, list) and content and all(_is_block(item) for item in content):
        return [t.Message(role, block(item)) for item in content]
    if content is None:
        raise Unencodable("a message without content")
    return [t.Message(role, block(content))]


def _is_block(value: object) -> bool:
    if isinstance(value, Mapping):
        return value.get("type") in BLOCK_TYPES
    return isinstance(value, str | t.Content) or is_media(value)
