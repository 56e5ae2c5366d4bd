"""The options of a Client, each with its rule."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

from redstart.client.callbacks import OnLog, OnNotification, OnProgress
from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from redstart.client.handlers import OnElicit, OnSample, Roots
from redstart.features.rules import Rule, Wrong, anything, at_least, function, mapping, one_of, path, seconds, wrong
from redstart.wire.jsonrpc import JsonMapping
from redstart.wire.meta import LOG_LEVELS

MAX_ROUNDS: Final = 16
"""How often a server may ask before its result."""

REVISIONS: Final = ("auto", *HANDSHAKE_VERSIONS, *MODERN_VERSIONS)


def _limit(label: str, value: object) -> object:
    try:
        return None if value is None else seconds(label, value)
    except Wrong as error:
        raise TypeError(error.or_none()) from None


def _secret(label: str, value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(label, "a text (str)", f"a {type(value).__name__}")
    return value


def _secrets(label: str, value: object) -> Mapping[str, str]:
    """Names and values that may be secret, so that an error does not show them."""
    try:
        return mapping(label, value)
    except Wrong as error:
        raise Wrong(label, error.words, f"a {type(value).__name__}") from None


def _roots(label: str, value: object) -> object:
    if isinstance(value, str | bytes | Mapping) or not (isinstance(value, Iterable) or callable(value)):
        wrong(label, "a list of roots or a function", value)
    return value


class ClientOptions(TypedDict, total=False):
    """What `Client(target, ...)` takes."""

    protocol: Annotated[str, Rule(one_of(*REVISIONS), "auto")]
    on_elicit: Annotated[OnElicit | None, Rule(function)]
    on_sample: Annotated[OnSample | None, Rule(function)]
    roots: Annotated[Roots | None, Rule(_roots)]
    on_progress: Annotated[OnProgress | None, Rule(function)]
    on_log: Annotated[OnLog | None, Rule(function)]
    on_notification: Annotated[OnNotification | None, Rule(function)]
    user: Annotated[Any, Rule(anything)]
    token: Annotated[str | None, Rule(_secret)]
    headers: Annotated[Mapping[str, str] | None, Rule(_secrets)]
    env: Annotated[Mapping[str, str] | None, Rule(_secrets)]
    cwd: Annotated[str | os.PathLike[str] | None, Rule(path)]
    stderr: Annotated[Literal["inherit", "capture"], Rule(one_of("inherit", "capture"), "inherit")]
    timeout: Annotated[float | None, Rule(_limit, 60, optional=False)]
    client_info: Annotated[JsonMapping | None, Rule(mapping)]
    capabilities: Annotated[JsonMapping | None, Rule(mapping)]
    log_level: Annotated[str | None, Rule(one_of(*LOG_LEVELS))]
    max_rounds: Annotated[int, Rule(at_least(1), MAX_ROUNDS)]
