"""The handlers of a server's questions: elicitation, sampling, roots. The same handlers answer in both eras.

Must not know how a question came (as a request, or as an entry of `inputRequests`) nor how the answer is sent.
Spec: /specification/2026-07-28/client/elicitation, /client/sampling, /client/roots.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from redstart.client.dialects import FORMS_SINCE, URLS_SINCE
from redstart.client.errors import RequestError
from redstart.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, JsonMapping, JsonObject

REJECTED: Final = -1
"""The error code for a sampling request that the user turned down (handshake era)."""

_ACTIONS: Final = ("accept", "decline", "cancel")

T = TypeVar("T")


class ElicitRequest(Struct, rename="camel", kw_only=True):
    """A question for the user: a form (`schema`) or a page to open (`url`).

    >>> ElicitRequest(message="Your name?", schema={"type": "object", "properties": {}}).mode
    'form'
    """

    message: str
    mode: str = "form"
    schema: JsonObject = msgspec.field(name="requestedSchema", default_factory=dict)
    url: str | None = None
    key: str | None = None
    """The server's key of the question, in the modern era."""
    elicitation_id: str | None = None
    meta: JsonObject = msgspec.field(name="_meta", default_factory=dict)


class SampleRequest(Struct, rename="camel", kw_only=True):
    """A request for a message of the client's model.

    >>> SampleRequest(messages=[], max_tokens=100).max_tokens
    100
    """

    messages: list[JsonObject]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: JsonObject | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: Any = None
    tools: list[JsonObject] | None = None
    tool_choice: JsonObject | None = None
    key: str | None = None
    meta: JsonObject = msgspec.field(name="_meta", default_factory=dict)


Root: TypeAlias = str | os.PathLike[str] | JsonMapping
OnElicit: TypeAlias = Callable[[ElicitRequest], object]
OnSample: TypeAlias = Callable[[SampleRequest], object]
Roots: TypeAlias = Iterable[Root] | Callable[[], Iterable[Root] | Awaitable[Iterable[Root]]]


class QuestionHandlers:
    """The handlers, the capabilities that follow from them, and their answers.

    >>> QuestionHandlers(on_elicit=lambda request: {"name": "Ada"}).capabilities(URLS_SINCE)
    {'elicitation': {'form': {}, 'url': {}}}
    """

    def __init__(
        self,
        on_elicit: OnElicit | None = None,
        on_sample: OnSample | None = None,
        roots: Roots | None = None,
        extra: JsonMapping | None = None,
    ) -> None:
        self._on_elicit = on_elicit
        self._on_sample = on_sample
        self._roots = roots if roots is None or callable(roots) else list(roots)
        self._extra = extra or {}

    def capabilities(self, version: str) -> JsonObject:
        """What to declare to a server of `version`, widened by `capabilities=`."""
        declared: JsonObject = {}
        if self._on_elicit is not None and version >= FORMS_SINCE:
            declared["elicitation"] = {"form": {}, "url": {}} if version >= URLS_SINCE else {}
        if self._on_sample is not None:
            declared["sampling"] = {}
        if self._roots is not None:
            declared["roots"] = {}
        return _merged(declared, self._extra)

    async def answer(self, method: str, params: object, key: str | None = None) -> JsonObject:
        """The result for one question; RequestError if it cannot be answered."""
        if method == "elicitation/create" and self._on_elicit is not None:
            elicit = _question(ElicitRequest, method, params, key)
            return elicited(elicit, await _awaited(self._on_elicit(elicit)))
        if method == "sampling/createMessage" and self._on_sample is not None:
            return _sampled(await _awaited(self._on_sample(_question(SampleRequest, method, params, key))))
        if method == "roots/list" and self._roots is not None:
            roots = await _awaited(self._roots() if callable(self._roots) else self._roots)
            return {"roots": [_root(root) for root in roots]}
        raise RequestError(METHOD_NOT_FOUND, f"This client does not answer {method}")


def _question(kind: type[T], method: str, params: object, key: str | None) -> T:
    try:
        return msgspec.convert({**(params if isinstance(params, dict) else {}), "key": key}, kind)
    except msgspec.ValidationError as error:
        raise RequestError(INVALID_PARAMS, f"{method}: {error}") from error


async def _awaited(value: T | Awaitable[T]) -> T:
    return await value if inspect.isawaitable(value) else value


def _merged(declared: JsonMapping, extra: JsonMapping) -> JsonObject:
    """`declared` widened by `extra`, objects inside of objects too."""
    merged = dict(declared)
    for name, value in extra.items():
        inner = merged.get(name)
        if isinstance(inner, dict) and isinstance(value, Mapping):
            value = _merged(inner, value)
        merged[name] = value
    return merged


def elicited(request: ElicitRequest, answer: object) -> JsonObject:
    """An `ElicitResult` from what `on_elicit` returned.

    >>> ask = ElicitRequest(message="Sure?")
    >>> elicited(ask, {"sure": True}), elicited(ask, None), elicited(ask, "cancel")
    ({'action': 'accept', 'content': {'sure': True}}, {'action': 'decline'}, {'action': 'cancel'})
    """
    if answer is None or answer is True:
        answer = "accept" if answer else "decline"
    if isinstance(answer, str):
        if answer not in _ACTIONS:
            raise TypeError(f"on_elicit returned {answer!r}; return a dict, None, or one of {', '.join(_ACTIONS)}")
        answer = {"action": answer}
    answer = msgspec.to_builtins(answer)
    if not isinstance(answer, dict):
        raise TypeError(f"on_elicit returned {answer!r}; return a dict with the values of the form")
    result: JsonObject = answer if _is_explicit(request, answer) else {"action": "accept", "content": answer}
    if result["action"] == "accept" and request.mode == "form":
        result = {**result, "content": {**_defaults(request.schema), **(result.get("content") or {})}}
    elif "content" in result:
        result = {name: value for name, value in result.items() if name != "content"}
    return result


def _is_explicit(request: ElicitRequest, answer: JsonObject) -> bool:
    """Whether `answer` is a whole ElicitResult, and not the values of a form that has a field "action"."""
    if answer.get("action") not in _ACTIONS or not answer.keys() <= {"action", "content", "_meta"}:
        return False
    return "content" in answer or "action" not in request.schema.get("properties", {})


def _defaults(schema: JsonObject) -> JsonObject:
    fields = schema.get("properties", {})
    return {name: field["default"] for name, field in fields.items() if "default" in field}


def _sampled(answer: object) -> JsonObject:
    if answer is None:
        raise RequestError(REJECTED, "The user rejected the sampling request")
    if isinstance(answer, str):
        answer = {"content": {"type": "text", "text": answer}}
    answer = msgspec.to_builtins(answer)
    if not isinstance(answer, dict):
        raise TypeError(f"on_sample returned {answer!r}; return the text, or a dict with content and model")
    return {"role": "assistant", "model": "unknown", **answer}


def _root(root: Root) -> JsonObject:
    if isinstance(root, Mapping):
        return dict(root)
    text = os.fspath(root)
    return {"uri": text if "://" in text else Path(text).absolute().as_uri()}
