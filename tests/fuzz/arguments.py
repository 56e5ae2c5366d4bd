"""Arguments against random types: recursive ones, unions, containers, models of three families.

The promise: every value is read or refused in words of bounded length, and the time is bounded by the bytes.
"""

from __future__ import annotations

import json
import random
import sys
import time
import types
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any, Optional, Union

import msgspec
import pydantic

from redstart.schema.errors import ShapeError
from redstart.schema.signature import EMPTY, Signature

from .mutate import NASTY, Mutator
from .targets import Failure

PER_BYTE, AT_LEAST = 100e-6, 0.25  # seconds of CPU; what is exponential takes hours
LONGEST_REFUSAL = 5000
PER_TYPE = 10  # messages for each type
LEAVES = ("int", "str", "bool", "None", "float", "list[int]", "dict[str, int]", "dict[int, str]", "tuple[int, str]")
SHAPES = ("{}", "{}", "{}", "list[{}]", "dict[str, {}]", "Optional[{}]", "tuple[{}, int]")
KEYS = ("a", "b", "c")


async def arguments(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """One argument of a random type, a value that nearly fits it, and the clock."""
    sent = 0
    while sent < count and go_on():
        annotation, told = random_type(mutator.random)
        signature = Signature.from_parameters("t", [("x", annotation, "", True, EMPTY)])
        for _ in range(PER_TYPE):
            value = random_value(mutator.random)
            raw = json.dumps({"x": value} if mutator.random.random() < 0.95 else value).encode()
            judge_arguments(signature, raw, told)
            sent += 1
    return sent


def judge_arguments(signature: Any, raw: bytes, told: str) -> None:
    began = time.process_time()
    try:
        signature.bind(raw)
    except ShapeError as error:
        if not 0 < len(str(error)) < LONGEST_REFUSAL:
            raise Failure(f"{len(str(error))} characters are said about {raw!r} for {told}") from None
    except Exception as error:
        raise Failure(f"{error!r} for {raw!r} and {told}") from error
    taken = time.process_time() - began
    if taken > AT_LEAST + PER_BYTE * len(raw):
        raise Failure(f"{taken:.2f} s for {len(raw)} bytes: {raw!r} and {told}")


def random_type(pick: random.Random) -> tuple[Any, str]:
    """A union of classes that contain each other, and how it is written."""
    module = types.ModuleType("fuzzed_types")
    sys.modules[module.__name__] = module
    scope = vars(module)
    scope |= {"Optional": Optional, "Union": Union}
    names = [f"C{number}" for number in range(pick.randint(1, 3))]
    make = pick.choice((_dataclass, _struct, _model))
    told = [make.__name__]
    for name in names:
        fields = {key: _field(pick, names) for key in ("a", *pick.sample(KEYS[1:], pick.randint(0, 2)))}
        if make is _struct:  # msgspec reads one Struct in a union, unless they have tags; we read several
            scope[name] = make(name, fields, tag=pick.random() < 0.5)
        else:
            scope[name] = make(name, fields)
        told.append(f"{name}: {fields}")
    if make is _model:
        for name in names:
            scope[name].model_rebuild(_types_namespace=scope)
    text = _field(pick, names)
    return eval(text, scope), f"{text} where {told}"


def _field(pick: random.Random, names: list[str]) -> str:
    parts = [*pick.sample(names, pick.randint(1, len(names))), *pick.sample(LEAVES, pick.randint(0, 3))]
    pick.shuffle(parts)
    return pick.choice(SHAPES).format(f"Union[{', '.join(parts)}]")


def _dataclass(name: str, fields: dict[str, str]) -> Any:
    made: Any = make_dataclass(name, [(key, kind, None) for key, kind in fields.items()])
    made.__module__ = "fuzzed_types"
    return made


def _struct(name: str, fields: dict[str, str], tag: bool = False) -> Any:
    listed = [(key, kind, None) for key, kind in fields.items()]
    return msgspec.defstruct(name, listed, module="fuzzed_types", tag=tag or None)


def _model(name: str, fields: dict[str, str]) -> Any:
    made: Any = pydantic.create_model  # its overloads do not know fields of which the names are data
    return made(name, __module__="fuzzed_types", **{key: (kind, None) for key, kind in fields.items()})


def random_value(pick: random.Random) -> Any:
    """A tower of objects and arrays, some of them in strings, with odd things at its ends."""
    value: Any = pick.choice([value for value in NASTY if value != "\ud800"])
    if pick.random() < 0.3:  # deep and nothing else, so that it fits many types down to its end
        for _ in range(25):
            value = {"a": value}
        return value
    strings = 0
    for _ in range(pick.choice((1, 3, 10, 25))):
        value = {key: value if key == "a" else pick.choice((value, 1, None, "x")) for key in KEYS[: pick.randint(1, 2)]}
        if pick.random() < 0.2:
            value = {"type": pick.choice(("C0", "C1", "C9")), **value}
        if pick.random() < 0.4:
            value = [value] if pick.random() < 0.6 else [value, 1]
        if strings < 3 and pick.random() < 0.1:
            value, strings = json.dumps(value), strings + 1
        if len(json.dumps(value)) > 5000:
            break
    if pick.random() < 0.02:
        value = [value] * 50
    if pick.random() < 0.02:
        value = {f"unknown{number}": 1 for number in range(2000)}
    return value
