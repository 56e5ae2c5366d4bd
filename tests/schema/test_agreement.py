"""What the schema accepts, the decoder accepts, and the other way round: on generated types and values."""

import dataclasses
import enum
import keyword
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import annotated_types as at
import jsonschema
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart.schema.errors import ShapeError
from redstart.schema.signature import EMPTY, Signature
from redstart.schema.types import compile_type
from support import DEADLINE


@dataclasses.dataclass
class Data:
    a: int
    b: str | None = None


class Named(NamedTuple):
    a: int
    b: "list[bool]" = []  # noqa: RUF012


class Typed(TypedDict, total=False):
    a: float
    b: Data


class Struct(msgspec.Struct, forbid_unknown_fields=True):
    a: "Struct | None" = None


class Color(enum.Enum):
    A = "a"
    B = "b"


leaves: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(int, float, str, bool, None, Any, Data, Named, Typed, Struct, Color),
        *(Literal["a", 1], Literal[True, None], Annotated[int, at.Ge(0)], Annotated[str, msgspec.Meta(max_length=1)]),
        *(Annotated[int | str, at.Lt(2)], Annotated[float, at.Ge(0)], Annotated[dict[str, int], at.MinLen(1)]),
        *(Annotated[str, msgspec.Meta(pattern="^a", max_length=2)], tuple[int, ...], set[int]),
    ]
)
annotations = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]
        inner.map(lambda t: Annotated[list[t], at.MaxLen(2)]),  # type: ignore[valid-type]
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]
        inner.map(lambda t: Optional[t]),  # noqa: UP045
        st.tuples(inner, inner).map(lambda pair: tuple[pair]),  # type: ignore[valid-type]
        st.lists(inner, min_size=2, max_size=3).map(lambda many: Union[tuple(many)]),  # noqa: UP007
    ),
    max_leaves=4,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 2.5, "a", "b", "ab", "", 2**60]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=5,
)


def accepts(read: Any, value: Any) -> bool:
    try:
        read(value)
    except ShapeError:
        return False
    return True


@settings(max_examples=150)
@given(annotations, st.lists(values, min_size=1, max_size=5))
def test_schema_and_decoder_accept_the_same(annotation: Any, candidates: list[Any]) -> None:
    shape = compile_type(annotation)
    schema = shape.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    reference = jsonschema.Draft202012Validator(schema)
    for value in candidates:
        expected = reference.is_valid(value)
        assert accepts(lambda v: shape.convert(v, lax=False), value) == expected, (annotation, schema, value)
        assert accepts(lambda v: shape.decode(msgspec.json.encode(v)), value) == expected, (annotation, schema, value)


@settings(max_examples=100)
@given(annotations, values)
def test_bytes_and_builtins_give_the_same_value(annotation: Any, value: Any) -> None:
    shape = compile_type(annotation)
    if accepts(shape.decode, msgspec.json.encode(value)):
        decoded = shape.decode(msgspec.json.encode(value))
        converted = shape.convert(value, lax=False)
        assert decoded == converted
        assert type(decoded) is type(converted)
        assert shape.convert(value, lax=True) == decoded  # being lax changes nothing that was right


names = st.lists(
    st.from_regex(r"[a-z_]{1,6}", fullmatch=True) | st.sampled_from(keyword.kwlist), unique=True, max_size=4
)


@settings(max_examples=100)
@given(names, st.data())
def test_bind_accepts_what_the_input_schema_accepts(keys: list[str], data: st.DataObject) -> None:
    rows = [(key, data.draw(annotations), "", data.draw(st.booleans()), EMPTY) for key in keys]
    sig = Signature.from_parameters("t", rows)
    reference = jsonschema.Draft202012Validator(sig.input_schema)
    jsonschema.Draft202012Validator.check_schema(sig.input_schema)
    assert b'"type":[' not in msgspec.json.encode(sig.input_schema)  # a list of types, which many clients cannot read
    given_keys = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    value = {key: data.draw(values) for key in given_keys}
    if reference.is_valid(value):
        assert sig.bind(msgspec.json.encode(value)).keys() == value.keys()
    else:
        try:
            sig.bind(msgspec.json.encode(value))
        except ShapeError:
            return
        for key, annotation, _, required, _ in rows:  # accepted all the same: only because bind is lax
            if key in value and (required or value[key] is not None):
                compile_type(annotation).convert(value[key], lax=True)


REFUSED = """
import asyncio
from typing import Union

import msgspec

from redstart import Client, Server

class Folder(msgspec.Struct, tag=True):
    parent: "Union[dict[str, int], Folder, Owner, None]" = None

class Owner(msgspec.Struct, tag=True):
    homes: "tuple[Union[Owner, Folder], int] | None" = None

def name(x: Owner) -> str:
    return type(x).__name__

async def main() -> None:
    async with Client(Server("s", tools=[name])) as c:
        value = {"type": "Owner", "homes": [{"type": "Folder", "parent": {"a": 1}}, 1]}
        print((await c.call_tool("name", {"x": value})).text)

asyncio.run(main())
"""


def test_classes_that_contain_each_other_do_not_end_the_process(tmp_path: Path) -> None:
    """msgspec refuses one of them and keeps half of the other: reading a message with that is a segmentation fault."""
    file = tmp_path / "program.py"
    file.write_text(REFUSED)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=DEADLINE)
    assert (done.returncode, done.stdout.strip()) == (0, "Owner"), done.stderr
