"""The table of limits in docs/http.md, made from the code: `python scripts/limits.py` writes it.

A row has a text with the names of constants and options in braces. A test compares the page with `table()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from redstart.features.rules import rules_of
from redstart.transports.http_options import EndpointOptions, HttpOptions

PAGE = Path(__file__).parent.parent / "docs" / "http.md"
BEGIN = "<!-- made by scripts/limits.py -->\n\n"
END = "\n<!-- until here -->"

RUN_ONLY = HttpOptions.__annotations__.keys() - EndpointOptions.__annotations__.keys()
HTTP = {name: rule.default for name, rule in rules_of(HttpOptions).items()}

# What is limited; the limit; its option. `size`, `count` and `time` say how the value is written.
ROWS: list[tuple[str, str, str]] = [
    ("the body of a request", "{size:max_body_bytes}, else 413", "max_body_bytes"),
    (
        "the head of a request; its trailers, which are dropped",
        "{size:connection.MAX_HEAD} each, else 431",
        "",
    ),
    (
        "the headers of a request",
        "{count:max_headers}, else 431",
        "max_headers",
    ),
    (
        "bodies that are still being received, of all clients together",
        "{size:connection.MAX_UNFINISHED}; beyond that those over {size:connection.SMALL} are a 503",
        "",
    ),
    (
        "bodies over {size:http.SMALL_BODY} whose calls run",
        "{size:http.MAX_RUNNING_BYTES}, and {part:http.RUNNING_SHARE} of that for one caller, else 503",
        "",
    ),
    ("calls that run at once, in one process", "{count:max_calls}, else 503 with `Retry-After`", "max_calls"),
    ("those of one caller", "{count:max_calls_per_caller}, else 429 with `Retry-After`", "max_calls_per_caller"),
    (
        "event streams that are open without a call (`GET`, `subscriptions/listen`), in one process",
        "{count:max_streams}, else 503 with `Retry-After`",
        "max_streams",
    ),
    ("those of one caller", "{count:max_streams_per_caller}, else 429 with `Retry-After`", "max_streams_per_caller"),
    ("calls of one caller per time, in all processes", "{rate:rate_limit}, else 429 with `Retry-After`", "rate_limit"),
    (
        "calls of one tool by one caller per time, in all processes",
        "{rate:tool_rate_limits}, as above",
        "tool_rate_limits",
    ),
    (
        "streams of `legacy_sse`; the calls that run for them; their params",
        "{count:legacy_sse.MAX_PEERS}; {count:legacy_sse.MAX_CALLS}; {size:legacy_sse.MAX_CALL_BYTES}; "
        "{part:legacy_sse.SHARE} of each for one caller",
        "",
    ),
    (
        "from the first byte of a request to its last; the handshake of TLS",
        "{time:body_deadline}, else 408",
        "body_deadline",
    ),
    (
        "a client that reads nothing of what was sent to it, or less than {size:connection.LEAST} of it",
        "{time:write_deadline}, then the connection ends",
        "write_deadline",
    ),
    ("a connection without a request", "{time:connection.Connection.idle}", ""),
    (
        "what waits for all slow clients, beyond 64 KiB each",
        "{size:max_unsent_bytes}; then the connection that has read nothing for the longest time is closed",
        "max_unsent_bytes",
    ),
    (
        "what waits for one event stream whose client is slow",
        "{size:stream.MAX_BYTES} or {count:stream.MAX_EVENTS} events, then the stream ends, and the client is told why",
        "",
    ),
    ("sessions that are in use", "{count:max_sessions}, the longest idle one goes first", "max_sessions"),
    ("sessions of one caller", "{part:sessions.SHARE} of them", ""),
    ("a session whose client is away", "{time:session_idle}, then its calls end too", "session_idle"),
    (
        "events that are kept for clients that come back",
        "{size:max_kept_bytes}, and {part:stream.KEPT_SHARE} of that for one session",
        "max_kept_bytes",
    ),
    (
        "requests of sessions whose clients have gone and may come back",
        "{count:response.MAX_LEFT}, and {size:response.MAX_LEFT_BYTES} of params; the oldest ends with an error",
        "",
    ),
    ("calls that have yet to end when the server stops", "{time:drain}, then they end with an error", "drain"),
    ("`auth=` for one request", "{time:access.authenticator.SECONDS}, else 503", ""),
    (
        "URIs that one session subscribes to, or one `subscriptions/listen` names",
        "{count:features.subscriptions.MAX_URIS}, and {chars:features.subscriptions.MAX_SUBSCRIBED} characters in all",
        "",
    ),
    (
        "URIs of all subscriptions together, with the headers that came with them",
        "{chars:features.subscriptions.MAX_SUBSCRIBED_BY_ALL} characters",
        "",
    ),
    ("the depth of a message", "{count:protocol.strict.MAX_DEPTH} levels", "max_depth"),
    (
        "messages of a batch; the bytes of its answers",
        "{count:wire.jsonrpc.MAX_BATCH}; {size:protocol.call.Batch.max_bytes}, then each further answer is an error, "
        "and calls that have not begun do not run",
        "",
    ),
    (
        "the name of a tool, a prompt or an argument; a request id; a progress token",
        "{count:wire.jsonrpc.MAX_ID_LENGTH} characters, integers within ±2^53",
        "",
    ),
    ("a URI; a cursor", "8192 characters; 4096 characters", ""),
]


def _value(name: str) -> Any:
    """The default of an option, or a constant: `connection.MAX_HEAD`, `wire.jsonrpc.MAX_BATCH`."""
    if name in HTTP:
        return HTTP[name]
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        for room in ("transports.", ""):
            try:
                found: Any = import_module(f"redstart.{room}{'.'.join(parts[:length])}")
            except ModuleNotFoundError:
                continue
            for attribute in parts[length:]:
                found = getattr(found, attribute)
            return found
    raise LookupError(name)


def _size(value: int) -> str:
    for unit, word in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value % unit == 0:
            return f"{value // unit} {word}"
    return f"{value} bytes"


def _chars(value: int) -> str:
    return _size(value).replace("iB", "i")


def _count(value: int) -> str:
    return f"{value:,}" if value >= 10_000 else str(value)


def _time(value: float) -> str:
    return f"{value / 3600:g} h" if value >= 3600 else f"{value:g} s"


def _part(value: int) -> str:
    return {4: "a quarter", 8: "an eighth", 10: "a tenth"}.get(value, f"a {value}th")


def _rate(value: object) -> str:
    return str(value) if value else "none unless it is set, as `100/minute`"


WRITERS: dict[str, Callable[[Any], str]] = {
    "size": _size,
    "chars": _chars,
    "count": _count,
    "time": _time,
    "part": _part,
    "rate": _rate,
}


def filled(text: str) -> str:
    """A text of a row with its values."""
    return re.sub(r"\{(\w+):([\w.]+)\}", lambda match: WRITERS[match[1]](_value(match[2])), text)


def table() -> str:
    """The whole table."""
    lines = ["| what | limit | option |", "|---|---|---|"]
    for what, limit, option in ROWS:
        where = ", `run` only" if option in RUN_ONLY else "" if option in HTTP else ", of `Server`"
        shown = f"`{option}`{where} " if option else ""
        lines.append(f"| {filled(what)} | {filled(limit)} | {shown}|")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table of now."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no place for the table")
    return before + begin + table() + end + after


if __name__ == "__main__":
    PAGE.write_text(page())
