"""docs/images/trace.svg, from a real trace: `python scripts/trace_picture.py` runs it and draws it.

This file is also the server. An agent calls it over HTTP, a `redstart worker` on the same SQLite file runs the task,
and each of the three processes writes its spans to a file, by the SDK of OpenTelemetry.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from redstart import Client, Server, TaskLimits

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "trace.svg"
SPANS = "TRACE_PICTURE_SPANS"
"""The environment variable with the file for the spans of all processes."""
SERVICE = os.environ.get("TRACE_PICTURE_SERVICE", "agent")

server = Server("shop", telemetry=True, tasks=TaskLimits(concurrent=0))  # leaves all tasks to the worker
tracer = trace.get_tracer("shop")


@server.tool(task="required")
async def report() -> str:
    with tracer.start_as_current_span("SELECT orders"):
        await asyncio.sleep(0.06)
    with tracer.start_as_current_span("render"):
        await asyncio.sleep(0.03)
    return "42 orders"


@server.tool
async def mail(text: str) -> None:
    with tracer.start_as_current_span("SMTP"):
        await asyncio.sleep(0.02)


class Span(NamedTuple):
    """What is drawn of a span; times in nanoseconds."""

    trace: int
    id: int
    parent: int | None
    service: str
    name: str
    kind: str
    attempt: int | None
    start: int
    end: int


def as_line(span: ReadableSpan) -> str:
    context, parent, attributes = span.context, span.parent, span.attributes or {}
    ids = context.trace_id, context.span_id, None if parent is None else parent.span_id
    said = SERVICE, span.name, span.kind.name, attributes.get("redstart.task.attempt")
    return json.dumps([*ids, *said, span.start_time, span.end_time]) + "\n"


def record(path: str) -> None:
    """Write each span of this process to a file, as a line."""
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # as long as the process lives
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=as_line)))
    trace.set_tracer_provider(provider)


if SPANS in os.environ:
    record(os.environ[SPANS])


# ---------------------------------------------------------------- the run


@asynccontextmanager
async def running(name: str, spans: str, ready: str, *command: str) -> AsyncIterator[str]:
    """A process of redstart, from the line in which it says `ready` on; the last word of that line."""
    environment = os.environ | {"TRACE_PICTURE_SERVICE": name, SPANS: spans}
    words = [sys.executable, "-m", "redstart", *command]
    process: Process = await create_subprocess_exec(*words, stdin=PIPE, stderr=PIPE, env=environment)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            while ready not in (line := (await process.stderr.readline()).decode()):
                if not line:
                    raise SystemExit(f"the {name} has ended")
        yield line.split()[-1]
    finally:
        process.terminate()
        await process.communicate()


async def run(folder: str, spans: str) -> None:
    store = ("--store", f"sqlite:///{folder}/shop.db")
    async with (
        running("server", spans, "is served at", "run", __file__, "--http", "--port", "0", *store) as url,
        running("worker", spans, "a worker of", "worker", __file__, "--concurrency", "1", *store),
        Client(url) as client,
    ):
        with tracer.start_as_current_span("chat"):
            with tracer.start_as_current_span("tools/call report", kind=SpanKind.CLIENT):
                task = await client.start_task("report", meta=sent())
            found = (await task).text
            with tracer.start_as_current_span("tools/call mail", kind=SpanKind.CLIENT):
                await client.call_tool("mail", {"text": found}, meta=sent())


def sent() -> dict[str, str]:
    """The context of the current span, for `_meta`."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier


def traced() -> list[Span]:
    """The spans of one trace through three processes."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "spans")
        record(str(file))
        asyncio.run(run(folder, str(file)))
        spans = [Span(*json.loads(line)) for line in file.read_text().splitlines()]
    [chat] = [span for span in spans if span.name == "chat"]
    return [span for span in spans if span.trace == chat.trace]


# ---------------------------------------------------------------- the picture

WIDTH, LABEL, BAR, TOP, ROW, STEP = 900, 265, 440, 62, 26, 18
COLOURS = {"agent": "#5b7c99", "server": "#c8472b", "worker": "#7a8b6f"}
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:16px}.s{fill:#666}.g{stroke:#ddd}"
    "rect.b{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.s{fill:#999}.g{stroke:#333}rect.b{fill:#161616}}"
)
TITLE = "One trace through an agent, a server and a worker"


def in_order(spans: list[Span], parent: int | None = None, depth: int = 0) -> Iterator[tuple[int, Span]]:
    """Each span below its parent, the earliest first, and how deep it is."""
    for span in sorted((span for span in spans if span.parent == parent), key=lambda span: span.start):
        yield depth, span
        yield from in_order(spans, span.id, depth + 1)


def about(span: Span) -> str:
    """How long it took, its kind, and which attempt a run of a task was."""
    kind = "" if span.kind == "INTERNAL" else span.kind
    attempt = "" if span.attempt is None else f"attempt {span.attempt}"
    return ", ".join(filter(None, (f"{(span.end - span.start) / 1e6:.0f} ms", kind, attempt)))


def text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{extra}>{escape(words)}</text>'


def svg(spans: list[Span]) -> str:
    rows = list(in_order(spans))
    begin, end = rows[0][1].start, rows[0][1].end
    scale, height = BAR / (end - begin), TOP + ROW * len(rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img"><title>{TITLE}</title><style>{STYLE}</style><rect class="b" width="{WIDTH}" height="{height}"/>',
        text(16, 26, TITLE, ' class="t"'),
    ]
    for tick in range(0, (end - begin) // 1_000_000 + 1, 50):
        x = LABEL + tick * 1e6 * scale
        parts += [f'<path class="g" d="M{x:.1f} {TOP - 6}V{height - 10}"/>']
        parts += [text(x, TOP - 10, f"{tick} ms", ' class="s" text-anchor="middle"')]
    for y, (depth, span) in zip(range(TOP, height, ROW), rows, strict=False):
        x, width = LABEL + (span.start - begin) * scale, max(2.0, (span.end - span.start) * scale)
        parts += [
            text(16 + STEP * depth, y + 17, f"{span.service}: {span.name}"),
            f'<rect x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="{ROW - 10}" rx="2" '
            f'fill="{COLOURS[span.service]}"/>',
            text(x + width + 6, y + 17, about(span), ' class="s"'),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if sys.argv[1:] else PICTURE).write_text(svg(traced()), encoding="utf-8")
