"""The arguments of one function: JSON bytes -> keyword arguments, in one decode.

The fast path is a msgspec struct made for the function. Whatever it refuses is read again as plain JSON by the
intermediate form, which mends what may be mended ("5" for an integer) or names every bad argument.
Must not know: functions, annotations, docstrings.
"""

import collections
import copy
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from redstart.schema.containers import opened
from redstart.schema.document import Defs, Schema, finish
from redstart.schema.errors import Findings, Problem, ShapeError, show_typed, twice
from redstart.schema.nodes import RecordNode, Slot
from redstart.schema.scalars import ABSENT, Node, Walk
from redstart.schema.types import native_decoder

asdict = msgspec.structs.asdict

COPIED = (list, dict, set, bytearray)
TOO_DEEP = Problem("", "The arguments are nested too deeply", kind="text")
RECORD_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "__pydantic_fields__")


class Argument(msgspec.Struct):
    """One argument: how it is read, and what stands in for it. `make` makes a fresh default for each call."""

    slot: Slot
    native: Any
    default: Any = ABSENT
    make: Callable[[], Any] | None = None


def fresh(default: Any) -> Callable[[], Any] | None:
    """A maker of copies, where sharing one default between calls would let them meet."""
    if isinstance(default, COPIED) or any(hasattr(type(default), mark) for mark in RECORD_MARKS):
        return lambda: copy.deepcopy(default)
    return None


class Arguments:
    """The compiled arguments of one function; `bind` is the hot path."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self._arguments = arguments
        self._record = RecordNode("Arguments", None, dict)
        self._record.slots = tuple(argument.slot for argument in arguments)
        self._record.closed = True
        self._required = sum(argument.slot.required for argument in arguments)
        wires = [argument.slot.wire for argument in arguments]
        self._needles = [msgspec.json.encode(wire) for wire in wires]
        # A name can be written with escapes: then counting its plain form proves nothing.
        self._escape = b"\\u00" if all(wire.isascii() and wire.isidentifier() for wire in wires) else b"\\"
        self._late: list[tuple[Argument, Node]] = []
        self._names: dict[str, str] = {}
        self._decode = self._make_decoder()
        self._finish = bool(self._late or self._names or any(_may_vanish(item) for item in arguments))
        self.bind = self._make_bind()

    def schema(self) -> Schema:
        defs = Defs(arguments=True)
        return finish(self._record.body(defs), defs)

    def _make_bind(self) -> Callable[[bytes | msgspec.Raw | None], dict[str, Any]]:
        # A closure, not a method: on this path every attribute lookup shows.
        decode, needles, escape, required = self._decode, self._needles, self._escape, self._required
        finish, finished, mend, refuse_twice = self._finish, self._finished, self._mend, self._refuse_twice

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
            found = Findings()
            for key, times in collections.Counter(key for key, _ in pairs).items():
                if times > 1:
                    found.add(twice, key)
            if found.count:
                raise found.error()

    def _finished(self, out: dict[str, Any], raw: bytes) -> dict[str, Any]:
        """Renames, conversions that msgspec cannot do, and optional arguments without a default."""
        if self._names:
            out = {self._names[name]: value for name, value in out.items()}
        walk = Walk(False, enough=1)  # `_mend` says what is wrong
        for argument, node in self._late:
            key = argument.slot.key
            if out[key] is not msgspec.UNSET:
                out[key] = node.read(out[key], argument.slot.wire, walk)
            elif argument.make is not None:
                out[key] = argument.make()
            elif argument.default is not ABSENT:
                out[key] = argument.default
        if walk.count:
            return self._mend(raw)
        return {key: value for key, value in out.items() if value is not msgspec.UNSET}

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
        value = opened({} if value is None else value, dict, walk)
        if type(value) is not dict:
            words = f"The arguments must be an object, got {show_typed(value)}"
            raise ShapeError([Problem("", words, kind="text")])
        try:
            out = self._record.read(value, "", walk)
        except RecursionError:  # arrays within arrays in a string, which nothing has measured yet
            raise ShapeError([TOO_DEEP]) from None
        if not isinstance(out, dict):
            raise walk.error()
        for argument in self._arguments:
            key = argument.slot.key
            if key not in out and (argument.make is not None or argument.default is not ABSENT):
                out[key] = argument.make() if argument.make is not None else argument.default
        return out

    def _make_decoder(self) -> Callable[[bytes], Any]:
        decoder = native_decoder(self._struct())
        if decoder is None:  # msgspec refuses at least one of the types: find out which
            for argument in self._arguments:
                if native_decoder(argument.native) is None:
                    argument.native = ABSENT
            decoder = native_decoder(self._struct())
        assert decoder is not None
        return decoder

    def _struct(self) -> Any:
        self._late = [(item, item.slot.node) for item in self._arguments if item.native is ABSENT]
        fields: list[Any] = []
        self._names = {}
        rename = {}
        safe = all(_is_safe(item.slot.key) for item in self._arguments)
        for number, item in enumerate(self._arguments):
            name = item.slot.key if safe else f"p{number}"
            rename[name] = item.slot.wire
            if not safe:
                self._names[name] = item.slot.key
            fields.append(_struct_field(name, item))
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, rename=rename)


def _is_safe(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__")


def _may_vanish(argument: Argument) -> bool:
    return not argument.slot.required and argument.default is ABSENT and argument.make is None


def _struct_field(name: str, argument: Argument) -> tuple[Any, ...]:
    late = argument.native is ABSENT
    kind = Any if late else argument.native
    if argument.slot.required:
        return (name, kind)
    if late or _may_vanish(argument):
        return (name, kind | msgspec.UnsetType if not late else Any, msgspec.UNSET)
    if argument.make is not None:
        return (name, kind, msgspec.field(default_factory=argument.make))
    return (name, kind, msgspec.field(default=argument.default))
