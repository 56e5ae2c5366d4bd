"""What a tool promises to return, decided at registration, and how a returned value keeps the promise.

A promise of data has a schema: the value goes out as structured content, with its JSON as text beside it.
Spec: /specification/2026-07-28/server/tools (structured content, output schema).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import GenericAlias
from typing import Annotated, Any, Final, NotRequired, TypedDict, get_args, get_origin

from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.features.errors import RegistrationError, ToolError, log
from redstart.features.results import LEAVES, SUCCESS, blocks, finished, free_result, is_loaded_type, ours_for, to_json
from redstart.schema.errors import Problem, ShapeError
from redstart.schema.types import compile_type
from redstart.wire import types as t
from redstart.wire.jsonrpc import decode

NO_SOLUTION: Final = "No solutions"
FAILED: Final = "Tool failed"


class Cut(Struct, frozen=True):
    """Where the solutions of a generator end."""

    limit: int
    many: bool
    """Whether the result is a list of solutions; else it is the first solution itself."""
    logical: bool = False
    """Whether None, False and no solution at all mean failure."""
    empty: bool = True
    """Whether there may be no solution."""
    surely: bool = False
    """Whether failing is a bug of the tool, which the log should know."""


class Collected(Struct):
    """All that a generator has given."""

    items: list[object]
    returned: object = None
    cut: Cut | None = None
    truncated: bool = False


class Converted(Struct, frozen=True):
    """A value that was converted in the thread where its handler ran."""

    result: t.ToolResult


class Output:
    """What one tool promises to return."""

    __slots__ = (
        "_allowed",
        "_boolean",
        "_check",
        "_cut",
        "_exact",
        "_names",
        "_text",
        "_where",
        "_wraps",
        "schema",
    )

    def __init__(
        self,
        annotation: object,
        schema: Mapping[str, object] | None,
        names: Sequence[str] | None,
        cut: Cut | None,
        where: str,
    ) -> None:
        self._where = where
        self._cut = cut
        annotation = _element(annotation, cut)
        self._names = tuple(names) if names is not None else _names_in(annotation)
        self._boolean = self._names == () and cut is not None and cut.logical  # a predicate that is only true or false
        self._check: Callable[[bytes], Any] | None = None
        self._allowed: tuple[type, ...] = ()
        self._exact: object = None
        self._text = False  # whether it promises a text
        self.schema = schema
        if schema is not None:
            self._check = _checking(schema, where)
        else:
            self._promise(annotation)
        self._wraps: tuple[str, ...] = ()
        """Where clients get the value as `{"result": …}`: many know objects only, and older revisions too.

        A schema that somebody wrote by hand is published as it is wherever the revision allows that.
        """
        if self.schema is not None and self.schema.get("type") != "object":
            self._wraps = ("objects", "any") if schema is None else ("objects",)

    def _promise(self, annotation: object) -> None:
        leaves = list(_leaves(annotation))
        for kind in leaves:
            if words := ours_for(kind):
                raise RegistrationError(f"{self._where}: {words}")
        if self._names:
            annotation = _record("Outputs", _typed(self._names, annotation))
        elif self._boolean or not _is_data(_bare(annotation), leaves):
            self._text = _bare(annotation) is str
            self._allowed = () if self._text else _block_types(leaves)
            annotation = Any
        if self._cut is not None and self._cut.many:
            annotation = _record(
                "Solutions", {"solutions": GenericAlias(list, (annotation,)), "truncated": NotRequired[bool]}
            )
        elif annotation is Any:
            return
        shape = compile_type(annotation, where=self._where)
        self.schema = shape.schema()
        self._check = shape.decode
        # A value of exactly one of these classes needs no check.
        self._exact = annotation if annotation in (int, bool) else None

    def listed(self, structured: str) -> object:
        """The schema for `tools/list`, in a revision that knows `structured`."""
        if self.schema is None or structured == "none":
            return None
        return _wrapped_schema(self.schema) if structured in self._wraps else self.schema

    # ------------------------------------------------------------ keeping it

    def result(self, value: Any, structured: str) -> t.ToolResult:
        """The result that `value` becomes in a revision that knows `structured`, or "whole" for another handler."""
        if type(value) is self._exact:
            text = str(value) if self._exact is int else "true" if value else "false"
            made, raw = t.ToolResult(content=[t.Text(text)]), text.encode()
        else:
            found = self._made(value)
            if found.structured is UNSET or found.is_error is True:
                return found
            made, raw = found, bytes(found.structured)
            if self._check is not None:
                self._check(raw)
        if structured in self._wraps or (structured == "objects" and raw[:1] != b"{"):
            raw = b'{"result":%b}' % raw
        made.structured = UNSET if structured == "none" else Raw(raw)
        return made

    def converted(self, value: object) -> object:
        """Convert the value in the thread of its handler: a lazy value may block while it loads."""
        return value if value is NotImplemented or type(value) in LEAVES else Converted(self._made(value))

    def _made(self, value: object) -> t.ToolResult:
        if type(value) is Converted:
            return value.result
        if type(value) is Collected:
            return self._collected(value)
        if self._cut is not None and self._cut.logical:
            return self._collected(Collected(_logical(value), cut=self._cut))
        return self._one(value)

    def _one(self, value: object) -> t.ToolResult:
        """The result of one value."""
        if isinstance(value, ToolError):
            value = value.result()
        if isinstance(value, t.ToolResult):
            self._refuse_lack(value)
            return finished(value)
        if self._names:
            return self._named(value)
        if self._boolean:
            return t.ToolResult(content=[t.Text(SUCCESS)])
        if self.schema is None or (self._cut is not None and self._cut.many):
            if value is None and self._text:
                words = 'must be a string, because the tool declares "-> str"'
                raise ShapeError([Problem("", words, "None")], noun="value")
            made = free_result(value)
            self._refuse_strangers(made)
            return made
        if isinstance(value, list | tuple) and any(isinstance(item, ToolError) for item in value):
            return free_result(value)
        if isinstance(value, t.Content):
            self._refuse_lack(t.ToolResult())
        raw = to_json(value)
        return t.ToolResult(content=[t.Text(_text(value, raw))], structured=Raw(raw))

    def _named(self, value: object) -> t.ToolResult:
        made = named(self._names or (), decode(value) if type(value) is Raw else value)
        lines = [f"{name}: {_text(item, to_json(item))}" for name, item in made.items()]
        return t.ToolResult(content=[t.Text("\n".join(lines))], structured=Raw(to_json(made)))

    def _collected(self, found: Collected) -> t.ToolResult:
        """The result of a generator."""
        cut = found.cut
        if cut is None:
            return self._streamed(found)
        if not found.items and not cut.empty:
            if cut.surely:
                log.error("%s: there was no solution, although it says that there always is one", self._where)
            raise ToolError(FAILED)
        if not cut.many:
            return self._one(found.items[0]) if found.items else self._none()
        results = [self._one(item) for item in found.items]
        content = [block for result in results for block in result.content]
        failed = any(result.is_error is True for result in results)
        entries = [_entry(result, item) for result, item in zip(results, found.items, strict=True)]
        raw = b'{"solutions":[%b]%b}' % (b",".join(entries), b',"truncated":true' if found.truncated else b"")
        if found.truncated:
            content.append(t.Text(f"(the first {len(results)} solutions; there are more. truncated: true)"))
        made = t.ToolResult(content=content or [t.Text(NO_SOLUTION)], structured=Raw(raw))
        if failed:
            made.is_error = True
        return made

    def _none(self) -> t.ToolResult:
        if self.schema is not None:
            raise ToolError(NO_SOLUTION)
        return t.ToolResult(content=[t.Text(NO_SOLUTION)])

    def _streamed(self, found: Collected) -> t.ToolResult:
        """Yielded content, with the return value behind it."""
        content, failed = blocks(found.items)
        if found.returned is None and self.schema is None:
            made = t.ToolResult(content=content or [t.Text(SUCCESS)])
        else:
            made = self._one(found.returned)
            made.content = [*content, *made.content]
        if failed:
            made.is_error = True
        return made

    # ------------------------------------------------------------ refusing

    def _refuse_lack(self, result: t.ToolResult) -> None:
        if self.schema is not None and result.structured is UNSET and result.is_error is not True:
            raise ShapeError(
                [Problem("", "must have structured content, because the tool has an output schema")], noun="value"
            )

    def _refuse_strangers(self, made: t.ToolResult) -> None:
        """`-> list[Image]` promises images."""
        allowed = self._allowed
        if allowed and made.is_error is not True:
            for block in made.content:
                if not isinstance(block, allowed):
                    names = ", ".join(kind.__name__ for kind in allowed)
                    raise ShapeError(
                        [Problem("", f"must be made of {names}, not of {type(block).__name__}")], noun="value"
                    )


def named(names: Sequence[str], value: object) -> dict[str, object]:
    """The outputs by their names, from a tuple, a mapping or an object with such attributes."""
    if isinstance(value, Mapping) and set(names) <= value.keys():
        return {name: value[name] for name in names}
    if all(hasattr(value, name) for name in names) and not isinstance(value, str | int | float):
        return {name: getattr(value, name) for name in names}
    if len(names) == 1:
        return {names[0]: value}
    if isinstance(value, tuple | list) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    raise ValueError(f"expected the {len(names)} outputs {', '.join(names)}, got {type(value).__name__}")


def _entry(result: t.ToolResult, value: object) -> bytes:
    """A solution as an entry of `solutions`: its data, or the text that it is."""
    if result.structured is not UNSET:
        return bytes(result.structured)
    texts = [block.text for block in result.content if isinstance(block, t.Text)]
    return to_json(value) if not isinstance(value, t.Content | ToolError | t.ToolResult) else to_json("\n".join(texts))


def _text(value: object, raw: bytes) -> str:
    """Text for the model: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is Raw and raw[:1] == b'"':
        return str(decode(raw))
    return raw.decode()


def _logical(value: object) -> list[object]:
    """The solutions that a plain value of a predicate stands for: None and False are no solution."""
    if type(value) is Raw:
        value = decode(value)
    return [] if value is None or value is False else [value]


def _checking(schema: Mapping[str, object], where: str) -> Callable[[bytes], object]:
    from redstart.schema.json_schema import compile_schema  # most outputs follow from an annotation

    validator = compile_schema(schema, where=where)

    return lambda raw: validator.check(decode(raw), noun="value")


def _record(name: str, fields: dict[str, object]) -> object:
    """A TypedDict whose fields are known only now."""
    make: Any = TypedDict
    return make(name, fields)


_OF_DOCUMENTS: Final = ("$schema", "$defs", "definitions")


def _wrapped_schema(schema: Mapping[str, object]) -> dict[str, object]:
    inner = {key: value for key, value in schema.items() if key not in _OF_DOCUMENTS}
    return {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,  # the only sign that clients know: FastMCP's and ours unwrap the value
        **{key: schema[key] for key in _OF_DOCUMENTS if key in schema},
    }


# ---------------------------------------------------------------- annotations

_NOT_DATA: Final = (None, type(None), str, bytes, list, tuple, Any, object, inspect.Signature.empty)
_STREAMS: Final = ("Iterator", "AsyncIterator", "Generator", "AsyncGenerator", "Iterable", "AsyncIterable")


def _is_data(annotation: object, leaves: Sequence[object]) -> bool:
    """Whether a return annotation promises data (then it has a schema) rather than text, content or nothing."""
    if isinstance(annotation, UnsetType) or annotation in _NOT_DATA or not _is_annotation(annotation):
        return False
    if _origin_name(annotation) in _STREAMS or any(map(_is_content_type, leaves)):
        return False
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (tuple, list, Sequence) and all(a in (Any, object, ...) for a in inner):
        return False  # a list of anything may well be a list of content
    return not (origin is tuple and inner[:1] == (bytes,))


def _leaves(annotation: object) -> Iterator[object]:
    """The types that an annotation is made of, such as `Text` and `Image` of `list[Text | Image]`."""
    annotation = _bare(annotation)
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from _leaves(part)


def _bare(annotation: object) -> object:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _origin_name(annotation: object) -> str:
    return getattr(get_origin(annotation), "__name__", "")


def _is_annotation(annotation: object) -> bool:
    marks = ("__supertype__", "__value__")
    return (
        isinstance(annotation, type) or get_origin(annotation) is not None or any(hasattr(annotation, m) for m in marks)
    )


def _is_content_type(leaf: object) -> bool:
    return is_loaded_type(leaf) or (isinstance(leaf, type) and issubclass(leaf, t.Content | t.ToolResult | ToolError))


def _block_types(leaves: Sequence[object]) -> tuple[type, ...]:
    """The content classes that `-> Image` and `-> list[Text | Image]` allow; () for all."""
    kinds = [t.Text if leaf is str else leaf for leaf in leaves if leaf is not Ellipsis]
    blocks = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, t.Content | ToolError)]
    if len(blocks) < len(kinds) or t.Content in blocks:
        return ()
    return tuple(kind for kind in blocks if not issubclass(kind, ToolError))


def _element(annotation: object, cut: Cut | None) -> object:
    """What one solution is, or what a generator returns at its end, or the annotation itself."""
    if _origin_name(annotation) not in _STREAMS:
        return annotation
    inner = get_args(annotation)
    if cut is not None:
        return inner[0] if inner else Any
    return inner[2] if _origin_name(annotation) == "Generator" and len(inner) == 3 else Any


def _names_in(annotation: object) -> tuple[str, ...] | None:
    """The names in `tuple[Annotated[int, "Q"], Annotated[int, "R"]]`."""
    if get_origin(annotation) is not tuple:
        return None
    marks = [getattr(item, "__metadata__", (None,))[0] for item in get_args(annotation)]
    names = tuple(mark for mark in marks if isinstance(mark, str))
    return names if names and len(names) == len(marks) else None


def _typed(names: Sequence[str], annotation: object) -> dict[str, object]:
    """The type of each named output, as far as the annotation tells."""
    inner = get_args(annotation) if get_origin(annotation) is tuple else ()
    if len(names) == 1 and not (inner and len(inner) == 1):
        return {names[0]: _known(annotation)}
    if len(inner) == len(names):
        return {name: _known(_bare(kind)) for name, kind in zip(names, inner, strict=True)}
    return dict.fromkeys(names, Any)


def _known(annotation: object) -> object:
    if isinstance(annotation, UnsetType) or annotation in (None, object, inspect.Signature.empty):
        return Any
    return annotation if _is_annotation(annotation) else Any
