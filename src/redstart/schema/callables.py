"""The function behind a callable: its parameters, its place in the source, the names for its annotations.

Knows: partial, methods, decorated functions, callable instances, closures.  Must not know: JSON, schemas.
"""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

R = TypeVar("R")
Kind: TypeAlias = Literal["value", "coroutine", "generator", "async generator"]


class SignatureError(TypeError):
    """A function that cannot be offered; the message names file, line, parameter, and what to write instead."""


class CallTarget(msgspec.Struct):
    """What registration needs to know about a callable."""

    name: str
    doc: str | None
    place: str
    label: str
    parameters: list[inspect.Parameter]
    returns: object
    globalns: dict[str, Any]
    localns: dict[str, Any]
    owner: dict[str, Any]

    def fail(self, why: str, parameter: str = "") -> SignatureError:
        at = f', parameter "{parameter}"' if parameter else ""
        return SignatureError(f"{self.place}: {self.label}{at}: {why}")

    def resolved(self, *, lenient: bool = False) -> list[inspect.Parameter]:
        """The parameters, their annotations without strings; see `resolve`."""
        return [p.replace(annotation=self.resolve(p.annotation, p.name, lenient=lenient)) for p in self.parameters]

    def resolve(self, annotation: object, parameter: str, *, lenient: bool = False) -> object:
        """The annotation without strings and forward references in it. With `lenient` an unknown name is not an error:
        the annotation then counts as absent."""
        if type(annotation) is type or annotation is None:
            return annotation
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        for localns in (self.localns, {**self.owner, **self.localns}):
            try:
                hints = typing.get_type_hints(holder, self.globalns, localns, include_extras=True)
                return None if annotation == "None" else hints["it"]
            except NameError as error:
                problem: Exception = error
            except (TypeError, SyntaxError, AttributeError) as error:
                problem = error
                break
        if lenient:
            return inspect.Parameter.empty
        raise self._unresolved(annotation, parameter, problem) from problem

    def _unresolved(self, annotation: object, parameter: str, problem: Exception) -> SignatureError:
        text = annotation if isinstance(annotation, str) else repr(annotation)
        name = getattr(problem, "name", None)
        if not isinstance(problem, NameError) or not name:
            return self.fail(f"the annotation {text} cannot be read: {problem}", parameter)
        return self.fail(
            f"the annotation {text} uses {name}, which is not known at run time. Import {name} at the top of the"
            ' module, outside "if TYPE_CHECKING:", or define it at module level.',
            parameter,
        )


def target_of(fn: Callable[..., object]) -> CallTarget:
    """The target of `fn`; its annotations may use local names of the functions around it."""
    return find_target(fn, None, local_names(fn))


def find_target(fn: Callable[..., object], where: str | None, names: Mapping[str, Any] | None) -> CallTarget:
    function, fixed, owner = unwrapped(fn)
    code = getattr(function, "__code__", None)
    name = getattr(fn, "__name__", None) or getattr(function, "__name__", "")
    if name in ("__call__", "__init__") or not name:
        name = (fn if isinstance(fn, type) else type(fn)).__name__
    qualname = getattr(function, "__qualname__", name)
    target = CallTarget(
        name=name,
        doc=_doc(fn, function),
        place=f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(fn, "__module__", "?"),
        label=where or f"{qualname}()",
        parameters=[],
        returns=inspect.Signature.empty,
        globalns=getattr(function, "__globals__", {}),
        localns={**(names or {}), **_closure(function)},
        owner=dict(vars(owner)) if owner is not None else {},
    )
    if isinstance(fn, classmethod):
        raise target.fail(
            "a classmethod object is not callable: put the decorator below @classmethod, or register Class.method."
        )
    signature = _signature(fn, target)
    target.parameters = [item for item in signature.parameters.values() if item.name not in fixed]
    target.returns = signature.return_annotation
    first = target.parameters[0] if target.parameters else None
    if first and first.name in ("self", "cls") and first.annotation is first.empty:
        raise target.fail("is a method without its object: register instance.method.", first.name)
    return target


def _signature(fn: Callable[..., object], target: CallTarget) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            return inspect.signature(fn, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(fn)
    except (ValueError, TypeError) as error:
        raise target.fail(f"has no readable signature ({error}). Write a function around it.") from error


def unwrapped(fn: Any) -> tuple[Any, set[str], type | None]:
    """The plain function, the names of the arguments that a partial has fixed, and the class of a method."""
    fixed: set[str] = set()
    owner: type | None = None
    for _ in range(100):  # `__wrapped__` may lead back to the function itself
        if isinstance(fn, functools.partial):
            fixed |= fn.keywords.keys()
            fn = fn.func
        elif isinstance(fn, types.FunctionType):
            inner = getattr(fn, "__wrapped__", None)
            if inner is None:
                break
            fn = inner
        elif isinstance(fn, types.MethodType):
            owner = fn.__self__ if isinstance(fn.__self__, type) else type(fn.__self__)
            fn = fn.__func__
        elif isinstance(fn, staticmethod | classmethod):
            fn = fn.__func__
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        elif isinstance(fn, type):
            owner = fn
            init = vars(fn).get("__init__")
            fn = init if isinstance(init, types.FunctionType) else fn.__new__
        elif callable(fn) and isinstance(type(fn).__call__, types.FunctionType):
            owner = type(fn)
            fn = owner.__call__
        else:
            break
    return fn, fixed, owner


def _doc(fn: object, function: object) -> str | None:
    own = getattr(fn, "__doc__", None)
    if isinstance(fn, functools.partial) and own == functools.partial.__doc__:
        return _doc(fn.func, function)
    if not isinstance(fn, type) and callable(fn) and getattr(function, "__name__", "") == "__call__":
        return function.__doc__ or own
    return own


def _closure(function: object) -> dict[str, Any]:
    out = {parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            out[name] = cell.cell_contents
        except ValueError:  # assigned later than the function was defined
            continue
    return out


# ---------------------------------------------------------------- names of the functions around a function

# Under `from __future__ import annotations` a name that occurs only in annotations is not in the closure of its
# function. While a function is being registered, the functions around it are usually still running, so their frames
# have the name.


def local_names(fn: Any) -> dict[str, Any]:
    """The local names of the functions around `fn` that are running now."""
    fn = unwrapped(fn)[0]
    around = getattr(fn, "__qualname__", "").split(".<locals>.")[:-1]
    outer = {part.rpartition(".")[2] for part in around}
    names: dict[str, Any] = {}
    frame = sys._getframe(1) if outer else None
    while frame is not None:
        if frame.f_code.co_name in outer and frame.f_globals is getattr(fn, "__globals__", None):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def with_local_names(fn: Any, read: Callable[[dict[str, Any] | None], R]) -> R:
    """`read(names)`; if a name is missing, once more with the local names of the functions around it."""
    try:
        return read(None)
    except SignatureError:
        names = local_names(fn)
        if not names:
            raise
    return read(names)


# ---------------------------------------------------------------- kinds of functions


def kind_of(fn: object) -> Kind:
    """What a call of `fn` returns. A call of a class counts as a value, even if its instances can be awaited."""
    if inspect.isclass(fn) or not callable(fn):
        return "value"
    for code in (inspect.unwrap(fn), inspect.unwrap(getattr(fn, "__call__", fn))):  # noqa: B004 - the method itself
        if inspect.isasyncgenfunction(code):
            return "async generator"
        if inspect.iscoroutinefunction(code):
            return "coroutine"
        if inspect.isgeneratorfunction(code):
            return "generator"
    return "value"


def is_async(fn: object) -> bool:
    """Whether a call of `fn` returns an awaitable or an async iterator."""
    return kind_of(fn) in ("coroutine", "async generator")


def is_generator(fn: object) -> bool:
    """Whether a call of `fn` returns an iterator."""
    return kind_of(fn) in ("generator", "async generator")


def name_of(fn: Callable[..., Any]) -> str:
    """The name of a function in messages to people."""
    return getattr(fn, "__name__", repr(fn))
