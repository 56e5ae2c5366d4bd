"""The public face of the type room: `compile_type(annotation)` -> `CompiledType`.

    shape = compile_type(list[int])
    shape.decode(b"[1, 2]")        # [1, 2]
    shape.schema()                 # {"type": "array", "items": {"type": "integer"}}

Knows: the intermediate form.  Must not know: functions, docstrings, the wire.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redstart.schema.document import Defs, Schema, finish
from redstart.schema.errors import Problem, ShapeError
from redstart.schema.resolve import Scope, UnsupportedType, compile_field
from redstart.schema.scalars import ABSENT, Node, Walk

__all__ = ["CompiledType", "UnsupportedType", "compile_type"]


class CompiledType:
    """One type: its schema, and the way from JSON to a Python value."""

    def __init__(self, node: Node, notes: Schema) -> None:
        self.node = node
        self.notes = notes
        self._decoder: Callable[[bytes], Any] | None = None
        self.native = node.native  # what msgspec can decode directly, or ABSENT

    def schema(self, *, titled: bool = False) -> Schema:
        """The schema as a document of its own; in that of a form (`titled`) the choices of an Enum have titles."""
        defs = Defs(titled=titled)
        return finish({**self.node.emit(defs), **self.notes}, defs)

    def decode(self, raw: bytes) -> Any:
        """The value of strict JSON bytes."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = self._make_decoder()
        try:
            return decoder(raw)
        except ShapeError:
            raise
        except (ValueError, RecursionError) as error:
            raise self._explained(raw, error) from None

    def convert(self, value: object, *, lax: bool = True) -> Any:
        """The value of JSON builtins; all problems at once in a ShapeError."""
        walk = Walk(False)
        out = self.node.read(value, "", walk)
        if walk.count and lax:
            walk = Walk(True)
            out = self.node.read(value, "", walk)
        if walk.count:
            raise walk.error("value")
        return out

    def _make_decoder(self) -> Callable[[bytes], Any]:
        decoder = native_decoder(self.native)
        return decoder if decoder is not None else self._slowly

    def _slowly(self, raw: bytes) -> Any:
        return self.convert(msgspec.json.decode(raw), lax=False)

    def _explained(self, raw: bytes, error: Exception) -> ShapeError:
        try:
            self._slowly(raw)
        except ShapeError as explained:
            return explained
        except (ValueError, RecursionError):
            return ShapeError([Problem("", f"is not valid JSON: {error}")], noun="value")
        return ShapeError([Problem("", f"is refused: {error}")], noun="value")


def native_decoder(native: Any) -> Callable[[bytes], Any] | None:
    """msgspec's decoder, or None if it cannot decode the type."""
    if native is ABSENT:
        return None
    try:
        return msgspec.json.Decoder(native).decode
    except Exception:  # whatever it is that msgspec cannot do, we can
        return None


def compile_type(
    annotation: object,
    *,
    where: str = "type",
    globalns: Mapping[str, Any] | None = None,
    localns: Mapping[str, Any] | None = None,
) -> CompiledType:
    """The shape of an annotation, or UnsupportedType naming `where` and the type."""
    return compile_shape(annotation, Scope(where, globalns or {}, localns or {}))


def compile_shape(annotation: object, scope: Scope) -> CompiledType:
    try:
        return CompiledType(*compile_field(annotation, scope))
    except UnsupportedType:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise scope.fail(annotation, f"cannot be used: {error}") from error
