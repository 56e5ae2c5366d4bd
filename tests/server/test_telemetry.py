"""`telemetry=`: the spans of requests and tasks, and durations, as the real SDK of OpenTelemetry receives them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, ProtocolError, Server, TaskLimits, Text, ToolError, ToolResult
from redstart.features.rules import OptionError
from support import ERAS, MODERN, NOVEMBER, Peer, ask, exchange, message, play, refused, run
from tasks.clients import EXTENSION, started, until
from transports.support import Http

sdk = pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import baggage, context, metrics, trace  # noqa: E402
from opentelemetry.sdk.metrics import Histogram, MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import (  # noqa: E402
    AggregationTemporality,
    HistogramDataPoint,
    InMemoryMetricReader,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import SpanKind, StatusCode  # noqa: E402

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
EXPORTER = InMemorySpanExporter()
READER = InMemoryMetricReader(preferred_temporality={Histogram: AggregationTemporality.DELTA})


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    """A process has one provider for good."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    EXPORTER.clear()
    durations("")
    yield
    EXPORTER.clear()


def spans(name: str = "") -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name.startswith(name)]


def only(name: str) -> ReadableSpan:
    found = spans(name)
    assert len(found) == 1, [span.name for span in spans()]
    return found[0]


def durations(name: str) -> list[HistogramDataPoint]:
    """What a histogram has got since the last time that it was read; reading one reads all."""
    found = READER.get_metrics_data()
    scopes = [scope for resource in found.resource_metrics for scope in resource.scope_metrics] if found else []
    return [
        point
        for scope in scopes
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint)
    ]


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def traced(**options: Any) -> Server:
    server = Server("traced", **{"telemetry": True, **options})

    @server.tool
    async def add(a: int, b: int) -> int:
        with trace.get_tracer("app").start_as_current_span("inside"):
            return a + b

    @server.tool
    def in_thread() -> str:
        with trace.get_tracer("app").start_as_current_span("inside"):
            return str(baggage.get_baggage("user"))

    @server.tool
    async def fails() -> str:
        raise ToolError("no such bird")

    @server.tool
    async def breaks() -> str:
        raise ProtocolError(-32050, "broken")

    @server.tool
    async def asks(ctx: Context) -> str:
        return await ctx.ask("Your name?", str)

    @server.prompt
    def review() -> str:
        return "review"

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        return name

    return server


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_call_is_a_span_with_the_names_of_the_conventions(era: str) -> None:
    ask(traced(), era, "tools/call", name="add", arguments={"a": 1, "b": 2})
    span = only("tools/call")
    assert span.name == "tools/call add"
    assert span.kind is SpanKind.SERVER
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET
    assert said(span) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": era,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "jsonrpc.request.id": "1",
        "network.transport": "pipe",
    }
    inside = only("inside")
    assert inside.parent is not None
    assert inside.parent.span_id == span.context.span_id  # the span of the call is the current one in its handler


@pytest.mark.parametrize("era", ERAS)
def test_every_method_has_a_span_named_without_a_uri(era: str) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("prompts/get", {"name": "review"}),
        ("resources/read", {"uri": "notes://secret"}),
    ]
    exchange(traced(), era, requests)
    names = [span.name for span in spans() if span.name != "initialize"]
    assert names == ["tools/list", "prompts/get review", "resources/read"]
    assert said(only("prompts/get"))["gen_ai.prompt.name"] == "review"
    assert said(only("resources/read"))["mcp.resource.uri"] == "notes://secret"


def test_an_error_of_the_protocol_is_the_status_of_the_span() -> None:
    refused(traced(), MODERN, "tools/call", name="breaks")
    span = only("tools/call breaks")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "broken")
    assert said(span)["error.type"] == "-32050"
    assert said(span)["rpc.response.status_code"] == "-32050"


@pytest.mark.parametrize("era", ERAS)
def test_a_result_that_is_an_error_is_a_tool_error(era: str) -> None:
    ask(traced(), era, "tools/call", name="fails")
    span = only("tools/call fails")
    assert span.status.status_code is StatusCode.ERROR
    assert said(span)["error.type"] == "tool_error"
    assert "no such bird" not in str(span.to_json())


def test_an_unknown_tool_is_not_in_the_name_of_a_span() -> None:
    refused(traced(), MODERN, "tools/call", name="x" * 200)
    span = only("tools/call")
    assert span.name == "tools/call"
    assert said(span)["gen_ai.tool.name"] == "x" * 200
    assert said(span)["error.type"] == "-32602"


def test_a_middleware_that_fails_is_an_internal_error() -> None:
    async def broken(call: Any, next: Any) -> Any:
        raise RuntimeError("secret")

    refused(traced(middleware=[broken]), MODERN, "tools/list")
    assert said(only("tools/list"))["error.type"] == "-32603"
    assert "secret" not in str(only("tools/list").to_json())


def test_a_question_is_not_an_error() -> None:
    async def script() -> None:
        peer = Peer(server, capabilities={"elicitation": {}})
        assert (await peer.tool("asks"))["resultType"] == "input_required"
        await peer.close()

    server = traced()
    run(script(), server)
    span = only("tools/call asks")
    assert span.status.status_code is StatusCode.UNSET
    assert said(span)["redstart.outcome"] == "input_required"


def test_a_cancelled_call_ends_its_span() -> None:
    began = asyncio.Event()
    server = traced()

    @server.tool
    async def sleeps() -> None:
        began.set()
        await asyncio.Event().wait()

    async def script(peer: Peer) -> None:
        id, _ = peer.begin("sleeps")
        await began.wait()
        peer.cancel(id)
        await peer.tool("add", a=1, b=2)

    play(server, script)
    assert said(only("tools/call sleeps"))["error.type"] == "cancelled"


def test_arguments_and_results_are_recorded_only_if_asked_for() -> None:
    for telemetry, recorded in ((True, False), ("content", True)):
        EXPORTER.clear()
        ask(traced(telemetry=telemetry), MODERN, "tools/call", name="add", arguments={"a": 1, "b": 2})
        found = said(only("tools/call"))
        assert ("gen_ai.tool.call.arguments" in found) is recorded
        assert ("gen_ai.tool.call.result" in found) is recorded
        if recorded:
            assert json.loads(found["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
            assert json.loads(found["gen_ai.tool.call.result"])["structuredContent"] == {"result": 3}


def test_recorded_content_has_a_bound() -> None:
    server = traced(telemetry="content")

    @server.tool
    async def echo(text: str) -> ToolResult:
        return ToolResult(content=[Text(text)])

    ask(server, MODERN, "tools/call", name="echo", arguments={"text": "é" * 100_000})
    found = said(only("tools/call"))
    assert len(found["gen_ai.tool.call.arguments"]) <= 16 * 1024
    assert len(found["gen_ai.tool.call.result"]) <= 16 * 1024


# ---------------------------------------------------------------- trace context


def call_with(server: Server, era: str, tool: str, meta: dict[str, Any]) -> dict[str, Any]:
    async def script() -> dict[str, Any]:
        peer = await Peer(server, era, meta=meta).open()
        result = await peer.tool(tool, **({"a": 1, "b": 2} if tool == "add" else {}))
        await peer.close()
        return result

    return run(script(), server)


@pytest.mark.parametrize("era", ERAS)
def test_the_trace_context_of_the_client_is_the_parent(era: str) -> None:
    result = call_with(
        traced(), era, "in_thread", {"traceparent": TRACEPARENT, "tracestate": "a=b", "baggage": "user=ada"}
    )
    span = only("tools/call")
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.parent.is_remote
    assert span.context.trace_state.get("a") == "b"
    inside = only("inside")
    assert inside.parent is not None
    assert inside.parent.span_id == span.context.span_id  # in a thread too
    assert result["content"][0]["text"] == "ada"


@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": "nonsense"},
        {"traceparent": f"00-{'0' * 32}-{PARENT}-01"},
        {"traceparent": TRACEPARENT + "-" + "x" * 1000},
        {"tracestate": "a=b"},
    ],
)
def test_a_trace_context_that_is_not_valid_begins_a_new_trace(meta: dict[str, Any]) -> None:
    call_with(traced(), MODERN, "add", meta)
    span = only("tools/call")
    assert span.parent is None
    assert f"{span.context.trace_id:032x}" != TRACE


def test_the_span_around_is_linked_if_the_client_sent_its_own() -> None:
    server = traced()

    async def script(peer: Peer) -> None:
        with trace.get_tracer("app").start_as_current_span("around") as around:
            await peer.tool("add", a=1, b=2)
            peer.meta["traceparent"] = TRACEPARENT
            await peer.tool("add", a=1, b=2)
        first, second = spans("tools/call")
        assert first.parent is not None
        assert first.parent.span_id == around.get_span_context().span_id
        assert first.links == ()
        assert f"{second.context.trace_id:032x}" == TRACE
        assert [link.context.span_id for link in second.links] == [around.get_span_context().span_id]

    play(server, script)


def test_the_context_around_is_as_before_after_a_call() -> None:
    before = context.get_current()
    call_with(traced(), MODERN, "add", {"traceparent": TRACEPARENT})
    assert context.get_current() == before


# ---------------------------------------------------------------- tasks


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("meta", [{}, {"traceparent": TRACEPARENT}], ids=["no context", "context"])
def test_a_task_runs_in_the_trace_of_its_request(era: str, meta: dict[str, Any]) -> None:
    server = Server("jobs", telemetry=True)

    @server.tool(task="optional")
    async def double(number: int) -> int:
        return 2 * number

    async def script() -> None:
        capabilities = EXTENSION if era == MODERN else {"tasks": {}}
        peer = await Peer(server, era, capabilities=capabilities, meta=meta).open()
        task = await started(peer, "double", number=2)
        await until(peer, task["taskId"])
        await peer.close()

    run(script(), server)
    made, ran = sorted(spans("tools/call double"), key=lambda span: span.kind is SpanKind.CONSUMER)
    assert (made.kind, ran.kind) == (SpanKind.SERVER, SpanKind.CONSUMER)
    assert ran.parent is not None
    assert ran.parent.span_id == made.context.span_id
    assert ran.context.trace_id == made.context.trace_id
    assert (f"{ran.context.trace_id:032x}" == TRACE) is bool(meta)
    assert said(ran)["redstart.task.attempt"] == 1
    assert "jsonrpc.request.id" not in said(ran)
    assert "network.transport" not in said(ran)


def test_a_task_runs_in_the_trace_of_its_request_in_another_process_too(tmp_path: Path) -> None:
    """Two servers with one store, of which only the second one works on tasks."""

    def jobs(concurrent: int) -> Server:
        limits = TaskLimits(concurrent=concurrent)
        server = Server("jobs", telemetry=True, store=f"sqlite:///{tmp_path}/jobs.db", tasks=limits, keys=["k" * 32])

        @server.tool(task="optional")
        async def double(number: int) -> int:
            return 2 * number

        return server

    async def script() -> None:
        peer = await Peer(first, MODERN, capabilities=EXTENSION).open()
        task = await started(peer, "double", number=2)
        await second.runtime.start()
        await until(peer, task["taskId"])
        await peer.close()

    first, second = jobs(0), jobs(4)
    run(script(), first, second)
    made, ran = sorted(spans("tools/call double"), key=lambda span: span.kind is SpanKind.CONSUMER)
    assert ran.parent is not None
    assert ran.parent.span_id == made.context.span_id
    assert ran.context.trace_id == made.context.trace_id


# ---------------------------------------------------------------- over HTTP


def test_http_and_the_digest_of_the_session() -> None:
    server = traced()

    async def script() -> str:
        http = Http(server.asgi())
        session = await http.open()
        for id in (1, 2):
            await http.send(message(id, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}), headers=session)
        await http.modern(3, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        return session["mcp-session-id"]

    id = run(script(), server)
    first, second, modern = map(said, spans("tools/call"))
    assert first["network.transport"] == modern["network.transport"] == "tcp"
    assert first["network.protocol.name"] == "http"
    assert first["mcp.session.id"] == second["mcp.session.id"]
    assert "mcp.session.id" not in modern
    assert not any(id in str(span.to_json()) for span in spans())


# ---------------------------------------------------------------- durations


def test_the_duration_of_each_request_is_measured() -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        ("tools/call", {"name": "fails"}),
        ("tools/call", {"name": "breaks"}),
        ("tools/call", {"name": "one"}),
        ("tools/call", {"name": "two"}),
        ("tools/list", {}),
    ]
    exchange(traced(), MODERN, requests)
    points = durations("mcp.server.operation.duration")
    found = {(p.attributes["mcp.method.name"], p.attributes.get("gen_ai.tool.name")): p for p in points}
    assert {key: point.count for key, point in found.items()} == {
        ("tools/call", "add"): 1,
        ("tools/call", "fails"): 1,
        ("tools/call", "breaks"): 1,
        ("tools/call", "_OTHER"): 2,
        ("tools/list", None): 1,
    }
    assert dict(found["tools/call", "breaks"].attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": MODERN,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "breaks",
        "network.transport": "pipe",
        "error.type": "-32050",
        "rpc.response.status_code": "-32050",
    }
    assert found["tools/call", "fails"].attributes["error.type"] == "tool_error"
    assert 0 < found["tools/list", None].sum < 30
    assert found["tools/list", None].explicit_bounds == (
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
    )


def test_the_run_of_a_task_is_not_another_request() -> None:
    server = Server("jobs", telemetry=True)

    @server.tool(task="optional")
    async def double(number: int) -> int:
        return 2 * number

    async def script() -> None:
        peer = await Peer(server, MODERN, capabilities=EXTENSION).open()
        await until(peer, (await started(peer, "double", number=2))["taskId"])
        await peer.close()

    run(script(), server)
    points = durations("mcp.server.operation.duration")
    assert [p.count for p in points if p.attributes["mcp.method.name"] == "tools/call"] == [1]


def test_the_duration_of_a_session_on_a_pipe() -> None:
    server = traced()

    async def script() -> None:
        peer = await Peer(server, NOVEMBER).open()
        assert durations("mcp.server.session.duration") == []
        await peer.open()  # another handshake begins another session
        modern = await Peer(server, MODERN).open()
        await modern.tool("add", a=1, b=2)
        await modern.close()
        await peer.close()

    run(script(), server)
    (point,) = durations("mcp.server.session.duration")
    assert point.count == 2
    assert dict(point.attributes) == {"mcp.protocol.version": NOVEMBER, "network.transport": "pipe"}


def test_the_duration_of_a_session_over_http() -> None:
    server = traced()

    async def script() -> None:
        http = Http(server.asgi())
        session = await http.open()
        await http.send(message(1, "ping"), headers=session)
        assert durations("mcp.server.session.duration") == []
        ended = await http.send(method="DELETE", headers=session)
        assert ended.status in (200, 204)

    run(script(), server)
    (point,) = durations("mcp.server.session.duration")
    assert point.count == 1
    assert dict(point.attributes) == {"mcp.protocol.version": NOVEMBER, "network.transport": "tcp"}


@pytest.mark.parametrize("part", ["begin", "end"])
def test_a_call_is_answered_whatever_observes_it(part: str, caplog: pytest.LogCaptureFixture) -> None:
    """A sampler or a processor of the application may raise."""
    server = traced(telemetry=False)

    def end(outcome: object) -> None:
        raise RuntimeError("end")

    def begin(call: object) -> Any:
        if part == "begin":
            raise RuntimeError("begin")
        return end

    server.runtime.observe(begin)
    result = ask(server, MODERN, "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert result["structuredContent"] == {"result": 3}
    assert "what observes calls has failed" in caplog.text


# ---------------------------------------------------------------- switching it on


def test_nothing_is_recorded_or_loaded_unless_it_is_switched_on() -> None:
    ask(traced(telemetry=False), MODERN, "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert [span.name for span in spans()] == ["inside"]
    script = "import sys, redstart; redstart.Server('x'); print([n for n in sys.modules if 'opentelemetry' in n])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_api_is_named_with_its_extra() -> None:
    script = "import sys; sys.modules['opentelemetry'] = None\nfrom redstart import Server\nServer('x', telemetry=True)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert 'pip install "redstart[otel]"' in done.stderr


def test_other_values_are_refused() -> None:
    with pytest.raises(OptionError, match="telemetry"):
        Server("x", telemetry="yes")  # type: ignore[arg-type]
