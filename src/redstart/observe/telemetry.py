"""OpenTelemetry: spans of requests and of runs of tasks, durations of requests and of sessions.

Loaded only with `Server(telemetry=…)`. Only the API is used: the application chooses the SDK and the exporters. The
names are those of the semantic conventions for MCP: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from time import perf_counter
from typing import Final

from msgspec import UNSET, Raw
from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from redstart.observe.metrics import BUCKETS, Outcome, error_of, is_task_run
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError, encode
from redstart.wire.types import InputRequired, ToolResult

Attributes = dict[str, str | int]
DURATIONS: Final = {
    "mcp.server.operation.duration": "How long requests took, until their result was made.",
    "mcp.server.session.duration": "How long sessions lasted.",
}
CARRIED: Final = {"traceparent": 256, "tracestate": 8192, "baggage": 8192}
"""The keys of `_meta` that carry a trace context, and how long each may be."""
MAX_URI: Final = 256
MAX_CONTENT: Final = 16 * 1024
"""The longest arguments or result that a span records, in characters."""
# By name, whatever propagators the application has configured for its other traffic: MCP asks for these formats.
_CONTEXT: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()


class Telemetry:
    """Observes the calls of one server. `known` gives the name of a tool or prompt that is called, if it exists."""

    def __init__(self, known: Callable[[Call], str | None], *, content: bool) -> None:
        self._known = known
        self._content = content
        self._tracer = trace.get_tracer("redstart")
        meter = metrics.get_meter("redstart")
        self._operations, self._session_times = (
            meter.create_histogram(name, "s", says, explicit_bucket_boundaries_advisory=BUCKETS)
            for name, says in DURATIONS.items()
        )
        self._sessions: dict[object, tuple[float, Attributes]] = {}
        """The sessions that are open, by the link or the HTTP session: when they began, and what is said of them."""

    def begin(self, call: Call) -> Callable[[Outcome], None]:
        """Open the span of a call, as the current one of this task."""
        began, about, known = perf_counter(), attributes_of(call), self._known(call)
        name = call.method.name if known is None else f"{call.method.name} {known}"
        parent, links = _parent(call)
        kind = SpanKind.CONSUMER if is_task_run(call) else SpanKind.SERVER
        span = self._tracer.start_span(name, parent, kind, {**about, **_details(call)}, links)
        current = trace.set_span_in_context(span, parent)
        token = contexts.attach(current)
        call.trace = lambda: _carrier(current)
        content = self._content and call.method.name == "tools/call" and span.is_recording()
        if content and call.params.arguments is not UNSET:
            span.set_attribute("gen_ai.tool.call.arguments", _text(call.params.arguments))

        measured = None if is_task_run(call) else {**about, **_measured_name(call, known)}

        def end(outcome: Outcome) -> None:
            contexts.detach(token)
            if measured is not None:
                seconds = perf_counter() - began
                self._operations.record(seconds, {**measured, **_failure(outcome)}, current)
            if call.method.name == "initialize" and call.headers is None and error_of(outcome) is None:
                self.begin_session(call.link, call.dialect.version, "pipe")
            if span.is_recording():
                _note_outcome(span, outcome)
                if content and isinstance(outcome, ToolResult) and not outcome.is_error:
                    span.set_attribute("gen_ai.tool.call.result", _text(encode(outcome)))
            span.end()

        return end

    def begin_session(self, peer: object, version: str, transport: str) -> None:
        """A client has made its handshake; on a pipe that ends the session before."""
        self.end_session(peer)
        self._sessions[peer] = perf_counter(), {"mcp.protocol.version": version, "network.transport": transport}

    def end_session(self, peer: object) -> None:
        """A client has gone, or its session was let go; nothing if it had none."""
        began, about = self._sessions.pop(peer, (0.0, None))
        if about is not None:
            self._session_times.record(perf_counter() - began, about)


def attributes_of(call: Call) -> Attributes:
    """What spans and metrics say of a call: few different values."""
    found: Attributes = {"mcp.method.name": call.method.name, "mcp.protocol.version": call.dialect.version}
    if call.method.name == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    if call.headers is not None:
        found |= {"network.transport": "tcp", "network.protocol.name": "http"}
    elif not is_task_run(call):
        found["network.transport"] = "pipe"
    return found


def _details(call: Call) -> Attributes:
    """What only spans say of a call."""
    found: Attributes = {}
    if is_task_run(call):
        assert call.task is not None
        found["redstart.task.attempt"] = call.task.attempt
    else:
        found["jsonrpc.request.id"] = str(call.id)
    if call.name is not None and call.method.name in NAMED:
        found[NAMED[call.method.name]] = call.name
    if call.uri is not None:
        found["mcp.resource.uri"] = call.uri[:MAX_URI]
    if call.session is not None and call.session.key:
        # Who knows the id of a session may be able to use it, so a digest stands for it.
        found["mcp.session.id"] = sha256(call.session.key.encode()).hexdigest()[:32]
    return found


NAMED: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""The attribute for the name in a request."""


def _measured_name(call: Call, known: str | None) -> Attributes:
    """The name of the tool or prompt; one that does not exist would be one more series for each misspelling."""
    return {NAMED[call.method.name]: known or "_OTHER"} if call.method.name in NAMED else {}


def _failure(outcome: Outcome) -> Attributes:
    found: Attributes = {}
    if (error := error_of(outcome)) is not None:
        found["error.type"] = error
    if isinstance(outcome, ProtocolError):
        found["rpc.response.status_code"] = str(outcome.code)
    return found


def _note_outcome(span: Span, outcome: Outcome) -> None:
    failure = _failure(outcome)
    if failure:
        span.set_attributes(failure)
        span.set_status(StatusCode.ERROR, outcome.message if isinstance(outcome, ProtocolError) else None)
    elif isinstance(outcome, InputRequired):
        span.set_attribute("redstart.outcome", "input_required")


def _parent(call: Call) -> tuple[Context, list[Link]]:
    """The context that the client has sent, and a link to the one around us; else the one around us."""
    ambient = contexts.get_current()
    carrier = {}
    if call.meta is not UNSET:
        sent = ((key, getattr(call.meta, key), most) for key, most in CARRIED.items())
        carrier = {key: value for key, value, most in sent if value is not UNSET and len(value) <= most}
    if "traceparent" not in carrier:
        return _BAGGAGE.extract(carrier, ambient) if carrier else ambient, []
    remote = _BAGGAGE.extract(carrier, _CONTEXT.extract(carrier, ambient))
    around = trace.get_current_span(ambient).get_span_context()
    given = trace.get_current_span(remote).get_span_context()
    linked = around.is_valid and not is_task_run(call) and given != around
    return remote, [Link(around)] if linked else []


def _carrier(current: Context) -> Mapping[str, str]:
    carrier: dict[str, str] = {}
    _CONTEXT.inject(carrier, current)
    _BAGGAGE.inject(carrier, current)
    return carrier


def _text(data: Raw | bytes) -> str:
    return bytes(data)[:MAX_CONTENT].decode(errors="replace")
