"""The options of a Client, each with its rule."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

from redstart.client.callbacks import OnLog, OnNotification, OnProgress
from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from redstart.client.handlers import OnElicit, OnSample, Roots
from redstart.features.rules import (
    Rule,
    Wrong,
    anything,
    at_least,
    flag,
    function,
    mapping,
    one_of,
    path,
    seconds,
    text,
    wrong,
)
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


def _auth(label: str, value: object) -> object:
    from redstart.client.oauth.grants import OAuth, TokenGrant

    if value == "oauth":
        return OAuth()
    if not isinstance(value, TokenGrant):
        raise Wrong(label, '"oauth", or an OAuth, ClientCredentials or JwtBearer', f"a {type(value).__name__}")
    return value


def _roots(label: str, value: object) -> object:
    if isinstance(value, str | bytes | Mapping) or not (isinstance(value, Iterable) or callable(value)):
        wrong(label, "a list of roots or a function", value)
    return value


class ClientOptions(TypedDict, total=False):
    """What `Client(target, ...)` takes."""

    server: Annotated[str | None, Rule(text)]
    """Which server of a configuration is meant."""
    protocol: Annotated[str, Rule(one_of(*REVISIONS), "auto")]
    """`"auto"`, or the revision to speak."""
    on_elicit: Annotated[OnElicit | None, Rule(function)]
    """Answers the server's questions: returns the values of the form, None to decline, or `"cancel"`."""
    on_sample: Annotated[OnSample | None, Rule(function)]
    """Answers for the server with a model: returns the text."""
    roots: Annotated[Roots | None, Rule(_roots)]
    """The folders that the server may know of."""
    on_progress: Annotated[OnProgress | None, Rule(function)]
    """Is called with the progress of calls."""
    on_log: Annotated[OnLog | None, Rule(function)]
    """Is called with the log messages of the server."""
    on_notification: Annotated[OnNotification | None, Rule(function)]
    """Is called with every notification."""
    user: Annotated[Any, Rule(anything)]
    """Who calls a Server object in the same process."""
    token: Annotated[str | None, Rule(_secret)]
    """A bearer token."""
    auth: Annotated[Any, Rule(_auth)]
    """How to get a token: `OAuth(…)`."""
    headers: Annotated[Mapping[str, str] | None, Rule(_secrets)]
    """Headers of every HTTP request."""
    env: Annotated[Mapping[str, str] | None, Rule(_secrets)]
    """Environment variables of the server's process."""
    cwd: Annotated[str | os.PathLike[str] | None, Rule(path)]
    """The folder in which the server's process is started."""
    stderr: Annotated[Literal["inherit", "capture"], Rule(one_of("inherit", "capture"), "inherit")]
    """Where the process's stderr goes."""
    timeout: Annotated[float | None, Rule(_limit, 60, optional=False)]
    """Seconds for each request, without the time a person takes to answer; None for no limit."""
    client_info: Annotated[JsonMapping | None, Rule(mapping)]
    """The name and version that the server is told."""
    capabilities: Annotated[JsonMapping | None, Rule(mapping)]
    """Capabilities to declare beside those of the handlers."""
    log_level: Annotated[str | None, Rule(one_of(*LOG_LEVELS))]
    """From which level on the server should log."""
    cache: Annotated[bool, Rule(flag, True)]
    """Whether results are kept for as long as the server allows."""
    validate: Annotated[bool, Rule(flag, True)]
    """Whether results are checked against the output schema of their tool."""
    max_rounds: Annotated[int, Rule(at_least(1), MAX_ROUNDS)]
    """How often a server may ask before its result."""
    record: Annotated[str | os.PathLike[str] | None, Rule(path)]
    """A file that gets every message."""
