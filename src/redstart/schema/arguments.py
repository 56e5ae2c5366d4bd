"""The arguments of one function: JSON bytes -> keyword arguments, in one decode.

The fast path is a msgspec struct made for the function. Whatever it refuses is read again as plain JSON by the nodes,
which mend what may be mended ("5" for an integer) or name every bad argument.
Must not know: functions, docstrings.
"""

import collections
import copy
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from redstart.schema.containers import parsed_string
from redstart.schema.document import Defs, Schema, finish
from redstart.schema.errors import Findings, Problem, ShapeError, show_typed, twice
from redstart.schema.nodes import RecordNode, Slot
from redstart.schema.scalars import ABSENT, Walk
from redstart.schema.types import CompiledType, native_decoder

asdict = msgspec.structs.asdict

COPIED = (list, dict, set, bytearray)
TOO_DEEP = Problem("", "The arguments are nested too deeply", kind="text")
RECORD_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "__pydantic_fields__")


class Argument(msgspec.Struct, frozen=True):
    """One argument. `make`, where there is one, makes a fresh default for each call."""

    name: str
    annotation: object
    description: str
    required: bool
    default: Any  # or ABSENT
    shape: CompiledType
    make: Callable[[], object] | None = None

    @property
    def may_be_absent(self) -> bool:
        """Whether nothing stands in for it."""
        return not self.required and self.default is ABSENT and self.make is None

    def slot(self) -> Slot:
        notes = {"description": self.description} if self.description else {}
        return Slot(self.name, self.name, self.shape.node, self.required, self.default, {**notes, **self.shape.notes})


def fresh(default: object) -> Callable[[], object] | None:
    """A maker of copies, where calls would otherwise share one default."""
    if isinstance(default, COPIED) or any(hasattr(type(default), mark) for mark in RECORD_MARKS):
        return lambda: copy.deepcopy(default)
    return None


class Arguments:
    """The compiled arguments of one function; `bind` is the hot path."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self._arguments = arguments
        self._record = RecordNode("Arguments", None, dict, [argument.slot() for argument in arguments])
        self._record.closed = True
        self._late: list[Argument] = []  # what msgspec cannot decode
        self._names: dict[str, str] = {}  # names of the struct's fields, where they cannot be those of the arguments
        self._decode = self._make_decoder()
        self.bind = self._make_bind()

    def schema(self) -> Schema:
        defs = Defs(arguments=True)
        return finish(self._record.body(defs), defs)

    def _make_bind(self) -> Callable[[bytes | msgspec.Raw | None], dict[str, Any]]:
        # A closure, not a method: on this path every attribute lookup shows.
        names = [argument.name for argument in self._arguments]
        needles = [msgspec.json.encode(name) for name in names]
        # A name can be written with escapes: then counting its plain form proves nothing.
        escape = b"\\u00" if all(name.isascii() and name.isidentifier() for name in names) else b"\\"
        required = sum(argument.required for argument in self._arguments)
        finish = bool(self._late or self._names or any(item.may_be_absent for item in self._arguments))
        decode, finished, mend, refuse_twice = self._decode, self._finished, self._mend, self._refuse_twice

        def bind(raw: bytes | msgspec.Raw | None) -> dict[str, Any]:
            """Keyword arguments for the function, defaults filled in; ShapeError names every bad argument."""
            if type(raw) is not bytes:
                raw = b"{}" if raw is None else bytes(raw)
            try:
                out = asdict(decode(raw))
            except (ValueError, RecursionError):
                return mend(raw)
            # All required arguments are there, so as many colons as these leave no room for a second one.
            if raw.count(b":") > required:
                for needle in needles:
                    if raw.count(needle) > 1:
                        refuse_twice(raw)
                        break
                else:
                    if escape in raw:
                        refuse_twice(raw)
            return finished(out, raw) if finish else out

        return bind

    def _refuse_twice(self, raw: bytes) -> None:
        """The slow and certain check."""
        import json  # only here, where a doubt costs a second parse

        try:
            pairs = json.loads(raw, object_pairs_hook=tuple, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            return  # the decoder has its own words for it
        if isinstance(pairs, tuple):
            problems = Findings()
            for key, times in collections.Counter(key for key, _ in pairs).items():
                if times > 1:
                    problems.add(twice, key)
            if problems.count:
                raise problems.error()

    def _finished(self, out: dict[str, Any], raw: bytes) -> dict[str, Any]:
        """Renames, conversions that msgspec cannot do, and optional arguments without a default."""
        if self._names:
            out = {self._names[name]: value for name, value in out.items()}
        walk = Walk(False, enough=1)  # `_mend` says what is wrong
        for argument in self._late:
            if out[argument.name] is not msgspec.UNSET:
                out[argument.name] = argument.shape.node.read(out[argument.name], argument.name, walk)
        if walk.count:
            return self._mend(raw)
        return self._with_defaults({key: value for key, value in out.items() if value is not msgspec.UNSET})

    def _mend(self, raw: bytes) -> dict[str, Any]:
        """The slow path: plain JSON, then lax reading that collects all problems."""
        try:
            value = msgspec.json.decode(raw) if raw.strip() else {}
        except RecursionError:
            raise ShapeError([TOO_DEEP]) from None
        except ValueError as error:
            raise ShapeError([Problem("", f"The arguments are not valid JSON: {error}", kind="text")]) from None
        self._refuse_twice(raw)
        walk = Walk(True)
        value = parsed_string({} if value is None else value, dict, walk)
        if type(value) is not dict:
            words = f"The arguments must be an object, got {show_typed(value)}"
            raise ShapeError([Problem("", words, kind="text")])
        try:
            out = self._record.read(value, "", walk)
        except RecursionError:  # arrays within arrays in a string, which nothing has measured yet
            raise ShapeError([TOO_DEEP]) from None
        if not isinstance(out, dict):
            raise walk.error()
        return self._with_defaults(out)

    def _with_defaults(self, out: dict[str, Any]) -> dict[str, Any]:
        for argument in self._arguments:
            if argument.name not in out and not argument.required and not argument.may_be_absent:
                out[argument.name] = argument.make() if argument.make is not None else argument.default
        return out

    def _make_decoder(self) -> Callable[[bytes], Any]:
        natives = {argument.name: argument.shape.native for argument in self._arguments}
        decoder = native_decoder(self._struct(natives))
        if decoder is None:  # msgspec refuses at least one of the types: find out which
            natives = {name: ABSENT if native_decoder(kind) is None else kind for name, kind in natives.items()}
            decoder = native_decoder(self._struct(natives))
        assert decoder is not None
        return decoder

    def _struct(self, natives: dict[str, Any]) -> type:
        self._late = [argument for argument in self._arguments if natives[argument.name] is ABSENT]
        safe = all(name.isidentifier() and not name.startswith("__") for name in natives)
        names = {name if safe else f"p{number}": name for number, name in enumerate(natives)}
        self._names = {} if safe else names
        pairs = zip(names, self._arguments, strict=True)
        fields = [_struct_field(name, argument, natives[argument.name]) for name, argument in pairs]
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, rename=names)


def _struct_field(name: str, argument: Argument, native: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    late = native is ABSENT
    kind = Any if late else native
    if argument.required:
        return (name, kind)
    if late or argument.may_be_absent:
        return (name, kind if late else kind | msgspec.UnsetType, msgspec.UNSET)
    if argument.make is not None:
        return (name, kind, msgspec.field(default_factory=argument.make))
    return (name, kind, msgspec.field(default=argument.default))
