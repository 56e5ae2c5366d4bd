"""What a server may ask its client: elicitation, sampling, roots. One set of callbacks answers both eras.

Must not know: how a question came (a request, or an entry of `inputRequests`) and how the answer goes back.
Spec: /specification/2026-07-28/client/elicitation, /client/sampling, /client/roots.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from redstart.client.dialects import FORMS_SINCE, URLS_SINCE
from redstart.client.errors import RequestError
from redstart.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

REJECTED: Final = -1
"""The error code for a sampling request that the user turned down (handshake era)."""

_ACTIONS: Final = ("accept", "decline", "cancel")


class ElicitRequest(Struct, rename="camel", kw_only=True):
    """A question for the user: a form (`schema`) or a page to open (`url`).

    >>> ElicitRequest(message="Your name?", schema={"type": "object", "properties": {}}).mode
    'form'
    """

    message: str
    mode: str = "form"
    schema: dict[str, Any] = msgspec.field(name="requestedSchema", default_factory=dict)
    url: str | None = None
    key: str | None = None
    """The server's name for the question, in the modern era."""
    elicitation_id: str | None = None
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


class SampleRequest(Struct, rename="camel", kw_only=True):
    """A request for a message of the client's model.

    >>> SampleRequest(messages=[], max_tokens=100).max_tokens
    100
    """

    messages: list[dict[str, Any]]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: dict[str, Any] | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: Any = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    key: str | None = None
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


Root: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
OnElicit: TypeAlias = Callable[[ElicitRequest], Any | Awaitable[Any]]
OnSample: TypeAlias = Callable[[SampleRequest], Any | Awaitable[Any]]
Roots: TypeAlias = Iterable[Root] | Callable[[], Iterable[Root] | Awaitable[Iterable[Root]]]


class QuestionHandlers:
    """The callbacks, the capabilities that follow from them, and the answers they give.

    >>> QuestionHandlers(on_elicit=lambda request: {"name": "Ada"}).capabilities(None)
    {'elicitation': {'form': {}, 'url': {}}}
    """

    def __init__(
        self,
        on_elicit: OnElicit | None = None,
        on_sample: OnSample | None = None,
        roots: Roots | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._on_elicit = on_elicit
        self._on_sample = on_sample
        self._roots = roots if roots is None or callable(roots) else list(roots)
        self._extra = extra or {}

    def capabilities(self, version: str | None) -> dict[str, Any]:
        """What to declare to a server of `version` (`None`: the newest), widened by `capabilities=`."""
        declared: dict[str, Any] = {}
        if self._on_elicit is not None and (version is None or version >= FORMS_SINCE):
            modes = version is None or version >= URLS_SINCE
            declared["elicitation"] = {"form": {}, "url": {}} if modes else {}
        if self._on_sample is not None:
            declared["sampling"] = {}
        if self._roots is not None:
            declared["roots"] = {}
        return _merged(declared, self._extra)

    async def answer(self, method: str, params: Any, key: str | None = None) -> dict[str, Any]:
        """The result of one question; RequestError where there is none to give."""
        params = params if isinstance(params, dict) else {}
        try:
            if method == "elicitation/create" and self._on_elicit is not None:
                elicit = msgspec.convert({**params, "key": key}, ElicitRequest)
                return elicited(elicit, await _awaited(self._on_elicit(elicit)))
            if method == "sampling/createMessage" and self._on_sample is not None:
                sample = msgspec.convert({**params, "key": key}, SampleRequest)
                return _sampled(await _awaited(self._on_sample(sample)))
        except msgspec.ValidationError as error:
            raise RequestError(INVALID_PARAMS, f"{method}: {error}") from error
        if method == "roots/list" and self._roots is not None:
            roots = await _awaited(self._roots()) if callable(self._roots) else self._roots
            return {"roots": [_root(root) for root in roots]}
        raise RequestError(METHOD_NOT_FOUND, f"This client does not answer {method}")


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _merged(declared: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in extra.items():
        inner = declared.get(name)
        both = isinstance(inner, dict) and isinstance(value, Mapping)
        declared[name] = _merged(dict(inner or {}), value) if both else value
    return declared


def elicited(request: ElicitRequest, answer: Any) -> dict[str, Any]:
    """An `ElicitResult` from what `on_elicit` returned.

    >>> ask = ElicitRequest(message="Sure?")
    >>> elicited(ask, {"sure": True}), elicited(ask, None), elicited(ask, "cancel")
    ({'action': 'accept', 'content': {'sure': True}}, {'action': 'decline'}, {'action': 'cancel'})
    """
    if answer is None:
        return {"action": "decline"}
    if isinstance(answer, str):
        if answer not in _ACTIONS:
            raise TypeError(f"on_elicit returned {answer!r}; return a dict, None, or one of {', '.join(_ACTIONS)}")
        answer = {"action": answer}
    elif answer is True:
        answer = {"action": "accept"}
    answer = msgspec.to_builtins(answer)
    if not isinstance(answer, dict):
        raise TypeError(f"on_elicit returned {answer!r}; return a dict with the values of the form")
    result: dict[str, Any] = answer if _is_explicit(request, answer) else {"action": "accept", "content": answer}
    if result["action"] == "accept" and request.mode == "form":
        result = {**result, "content": {**_defaults(request.schema), **(result.get("content") or {})}}
    elif "content" in result:
        result = {name: value for name, value in result.items() if name != "content"}
    return result


def _is_explicit(request: ElicitRequest, answer: dict[str, Any]) -> bool:
    """Whether `answer` is a whole ElicitResult, and not a form that has a field called "action"."""
    if answer.get("action") not in _ACTIONS or not answer.keys() <= {"action", "content", "_meta"}:
        return False
    return "content" in answer or "action" not in request.schema.get("properties", {})


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    return {name: field["default"] for name, field in fields.items() if "default" in field}


def _sampled(answer: Any) -> dict[str, Any]:
    if answer is None:
        raise RequestError(REJECTED, "The user rejected the sampling request")
    if isinstance(answer, str):
        answer = {"content": {"type": "text", "text": answer}}
    answer = msgspec.to_builtins(answer)
    if not isinstance(answer, dict):
        raise TypeError(f"on_sample returned {answer!r}; return the text, or a dict with content and model")
    return {"role": "assistant", "model": "unknown", **answer}


def _root(root: Root) -> dict[str, Any]:
    if isinstance(root, Mapping):
        return dict(root)
    text = os.fspath(root)
    return {"uri": text if "://" in text else Path(text).absolute().as_uri()}
