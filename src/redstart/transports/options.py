"""The options of `run()`, `run_async()` and `asgi()`, and which of them belong to which transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

from redstart.features.errors import RegistrationError
from redstart.protocol.framing import Framing
from redstart.schema.problems import nearest


class OptionError(RegistrationError, ValueError):
    """An option that does not exist, or does not belong here."""


class EndpointOptions(TypedDict, total=False):
    """What `asgi()` takes."""

    path: str
    allowed_hosts: Iterable[str]
    allowed_origins: Iterable[str]
    public_url: str | None
    max_body_bytes: int
    keep_alive: float
    drain: float
    write_deadline: float
    max_sessions: int
    session_idle: float
    max_kept_bytes: int
    trusted_proxies: Iterable[str]
    legacy_sse: bool


class HttpOptions(EndpointOptions, total=False):
    """What `run("http", …)` takes."""

    host: str
    port: int
    body_deadline: float


class StdioOptions(TypedDict, total=False):
    """What `run("stdio", …)` takes."""

    framing: Framing
    stdin: Any
    stdout: Any
    max_message_bytes: int


_KINDS: Final[Mapping[str, Any]] = {"stdio": StdioOptions, "http": HttpOptions, "streamable-http": HttpOptions}


def check_names(what: str, kind: Any, options: Iterable[str]) -> None:
    """Refuse an option that `what` does not have."""
    for name in options:
        if name not in kind.__annotations__:
            near = nearest(name, kind.__annotations__)
            hint = f"did you mean {near!r}?" if near else f"it has: {', '.join(kind.__annotations__)}"
            raise OptionError(f"{what} has no option {name!r}: {hint}")


def is_http(call: str, transport: Any, options: Mapping[str, Any]) -> bool:
    """Whether HTTP is meant, and not stdio; options that do not fit are refused. `call` is `run` or `run_async`."""
    kind = _KINDS.get(transport) if isinstance(transport, str) else None
    if kind is None:
        hint = f'; write server.{call}("http", legacy_sse=True)' if transport == "sse" else ""
        raise OptionError(f'transport must be "stdio" or "http", not {transport!r:.50}{hint}')
    other, spelled = (StdioOptions, "stdio") if kind is HttpOptions else (HttpOptions, "http")
    for name, value in options.items():
        if name in other.__annotations__ and name not in kind.__annotations__:
            advice = f'write server.{call}("{spelled}", {name}={value!r:.50})'
            raise OptionError(f"{name}= is an option of {spelled}, and this is {transport}: {advice}")
    check_names(f"server.{call}()", kind, options)
    return kind is HttpOptions
