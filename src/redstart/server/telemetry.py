"""OpenTelemetry: a span for each request and for each run of a task. Loaded only with `Server(telemetry=…)`.

Only the API is used: the application chooses the SDK and the exporters. The names are those of the semantic
conventions for MCP: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from msgspec import UNSET, Raw
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from redstart.features.errors import Unwind
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError, encode
from redstart.wire.types import InputRequired, Result, ToolResult

Attributes = dict[str, str | int]
CARRIED: Final = {"traceparent": 256, "tracestate": 8192, "baggage": 8192}
"""The keys of `_meta` that carry a trace context, and how long each may be."""
MAX_URI: Final = 256
MAX_CONTENT: Final = 16 * 1024
"""The longest arguments or result that a span records, in characters."""
# By name, whatever propagators the application has configured for its other traffic: MCP asks for these formats.
_CONTEXT: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()


class Telemetry:
    """Makes the spans of one server. `known` gives the name of a tool or prompt that is called, if it exists."""

    def __init__(self, known: Callable[[Call], str | None], *, content: bool) -> None:
        self._known = known
        self._content = content
        self._tracer = trace.get_tracer("redstart")

    def begin(self, call: Call) -> Callable[[Result | Raw | BaseException | None], None]:
        """Open the span of a call, as the current one of this task."""
        about, known = attributes_of(call), self._known(call)
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

        def end(outcome: Result | Raw | BaseException | None) -> None:
            contexts.detach(token)
            if span.is_recording():
                _note_outcome(span, outcome)
                if content and isinstance(outcome, ToolResult) and not outcome.is_error:
                    span.set_attribute("gen_ai.tool.call.result", _text(encode(outcome)))
            span.end()

        return end


def is_task_run(call: Call) -> bool:
    """Whether a worker runs the call of a task: the request that made the task has been answered before."""
    return call.task is not None and call.task.running


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


def error_of(outcome: Result | Raw | BaseException | None) -> str | None:
    """The value of `error.type`; None if the call has succeeded."""
    if isinstance(outcome, ProtocolError):
        return str(outcome.code)
    if isinstance(outcome, asyncio.CancelledError | Unwind):
        return "cancelled"
    if isinstance(outcome, BaseException):
        return type(outcome).__qualname__
    return "tool_error" if isinstance(outcome, ToolResult) and outcome.is_error else None


def _note_outcome(span: Span, outcome: Result | Raw | BaseException | None) -> None:
    error = error_of(outcome)
    if error is not None:
        span.set_attribute("error.type", error)
        message = outcome.message if isinstance(outcome, ProtocolError) else None
        span.set_status(StatusCode.ERROR, message)
    if isinstance(outcome, ProtocolError):
        span.set_attribute("rpc.response.status_code", str(outcome.code))
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
