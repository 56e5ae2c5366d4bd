"""The bars that redstart must clear, as a table. Each row reads one number from the results."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.results import NoData, Results, Void

Read = Callable[[Results], float]


@dataclass(frozen=True)
class Bar:
    text: str
    read: Read
    limit: float
    most: bool = False  # True: the number may be at most the limit
    unit: str = "×"
    beside: Read | None = None  # a second reading of the same thing, shown but not judged
    beside_name: str = "CPU"  # server CPU per request: a busy machine disturbs it less than requests per second

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.limit:g} {self.unit}"


@dataclass(frozen=True)
class Verdict:
    bar: Bar
    word: str  # pass, FAIL, void, no data
    measured: str


def _ratio(leg: str, theirs: str, ours: str = "redstart") -> Read:
    return lambda results: median(results.ratios(leg, ours, theirs))


def _cpu_ratio(leg: str, theirs: str, ours: str = "redstart") -> Read:
    key = "server_cpu_us"
    return lambda results: results.typical(leg, theirs, key) / results.typical(leg, ours, key)


def _faster(text: str, limit: float, leg: str, theirs: str, ours: str = "redstart") -> Bar:
    return Bar(text, _ratio(leg, theirs, ours), limit, beside=_cpu_ratio(leg, theirs, ours))


def _lowest_ratio(leg: str, theirs: str) -> Read:
    return lambda results: min(results.ratios(leg, "redstart", theirs))


def _part_of(probe: str, theirs: str) -> Read:
    return lambda results: results.number(probe, "redstart") / results.number(probe, theirs)


def _number(probe: str, target: str = "redstart") -> Read:
    return lambda results: results.number(probe, target)


def _asking(transport: str, title: str) -> Bar:
    """The least disturbed round of each is shown beside: a busy machine disturbs the longer work more."""
    probe = f"asking-{transport}"

    def typical(results: Results) -> float:
        return results.number(probe, "round") / results.number(probe, "plain call")

    def least(results: Results) -> float:
        return min(results.numbers[probe]["round"]) / min(results.numbers[probe]["plain call"])

    text = f"CPU of one round of an `ask` {title}, over a plain call"
    return Bar(text, typical, 2, most=True, beside=least, beside_name="least disturbed rounds")


def _inspector() -> Bar:
    """Judged by the least disturbed slice of each; the median of the ratios of neighbours beside it."""

    def least(results: Results) -> float:
        if "inspector" not in results.numbers:
            raise NoData
        return min(results.numbers["inspector"]["inspected"]) / min(results.numbers["inspector"]["plain"])

    def typical(results: Results) -> float:
        found = results.numbers["inspector"]
        return median(ours / plain for plain, ours in zip(found["plain"], found["inspected"], strict=True))

    text = "CPU of a call over HTTP at 5,000 a second, with the inspector read over without (least disturbed slices)"
    return Bar(text, least, 1.1, most=True, beside=typical, beside_name="median of neighbours")


def _highest_rss(transport: str) -> Read:
    def read(results: Results) -> float:
        if results.least(f"memory-{transport}", "redstart", "requests") < 100_000:
            raise NoData
        after = results.typical(f"memory-{transport}", "redstart", "rss_mib")
        return max(after, results.number(f"rss-{transport}", "redstart"))

    return read


def _scale(transport: str, title: str) -> Bar:
    """Judged by the least disturbed round of each, since ten per cent is less than the noise; the medians beside it."""

    def least(results: Results) -> float:
        few, many = (results.least(f"scale-{transport}-{n}", "redstart", "server_cpu_us") for n in (1, 1000))
        return many / few

    def typical(results: Results) -> float:
        few, many = (results.typical(f"scale-{transport}-{n}", "redstart", "server_cpu_us") for n in (1, 1000))
        return many / few

    text = f"CPU of a call {title}, 1,000 tools over one (least disturbed rounds)"
    return Bar(text, least, 1.1, most=True, beside=typical, beside_name="medians")


def _least_cpu(leg: str) -> Read:
    return lambda results: results.least(leg, "redstart", "server_cpu_us")


def _growth(results: Results) -> float:
    return results.typical("soak", "redstart", "rss_mib") - results.typical("soak-warm-up", "redstart", "rss_mib")


def _task(store: str, limit: float) -> tuple[Bar, Bar]:
    """A task that does nothing: at the store itself, and how much more it takes on stdio."""
    probe = f"tasks-{store}"

    def more(results: Results) -> float:
        return results.number(probe, "stdio") - results.number(probe, "store")

    title = {"sqlite": "SQLite", "redis": "Redis", "postgresql": "PostgreSQL"}[store]
    return (
        Bar(f"round trip of a task at the store, {title}: p50", _number(probe, "store"), limit, most=True, unit="ms"),
        Bar(f"the same by `tasks/result` on stdio, {title}: more", more, 2, most=True, unit="ms"),
    )


def _busy(store: str, title: str) -> tuple[Bar, Bar]:
    return tuple(  # type: ignore[return-value]
        Bar(f"`tasks/get` beside four busy {how}, {title}: p99", _number(f"tasks-busy-{store}", how), limit, True, "ms")
        for how, limit in (("threads", 1000), ("processes", 100))
    )


def _over_docket(results: Results) -> float:
    return results.number("tasks-redis", "pydocket") / results.number("tasks-redis", "server")


BARS = (
    _faster("stdio, 64 in flight, over mcp: median", 40, "stdio-64", "mcp"),
    Bar("stdio, 64 in flight, over mcp: lowest round", _lowest_ratio("stdio-64", "mcp"), 30),
    _faster("stdio, 64 in flight, over TypeScript", 1, "stdio-64", "typescript"),
    _faster("stdio, one at a time, over mcp (uvloop)", 5, "stdio-1", "mcp"),
    _faster("stdio, one at a time, over mcp (plain asyncio)", 4, "stdio-1", "mcp", "redstart-asyncio"),
    _faster("stdio, sync tool, 64 in flight, over mcp", 8, "stdio-sync-64", "mcp"),
    _faster("HTTP 2026-07-28, 32 connections, all defaults on, over mcp", 11, "http-32", "mcp"),
    Bar("the same: CPU of a request (least disturbed round)", _least_cpu("http-32"), 30, most=True, unit="µs"),
    Bar("CPU of a JWT check that is remembered", _number("jwt"), 10, most=True, unit="µs"),
    _faster("HTTP 2026-07-28, 32 connections, over TypeScript", 5, "http-32", "typescript"),
    _faster("HTTP 2025-11-25 with a session, over mcp (JSON replies)", 8, "http-session-32", "mcp"),
    _faster("HTTP 2025-11-25 with a session, over mcp (its default SSE)", 8, "http-session-32", "mcp-sse"),
    Bar("cold start to the answer to initialize, part of mcp's", _part_of("cold-start", "mcp"), 0.125, most=True),
    Bar("cold start, part of TypeScript's", _part_of("cold-start", "typescript"), 0.6, most=True),
    Bar("our modules that a hello server on stdio loads", _number("startup"), 50, most=True, unit="modules"),
    Bar("CPU of `import redstart`", _number("import"), 100, most=True, unit="ms"),
    Bar("CPU of `from redstart import Server`", _number("import", "redstart-server"), 100, most=True, unit="ms"),
    Bar("memory on stdio, after start and 100,000 calls", _highest_rss("stdio"), 30, most=True, unit="MiB"),
    Bar("memory over HTTP, after start and 100,000 calls", _highest_rss("http"), 45, most=True, unit="MiB"),
    _scale("stdio", "on stdio"),
    _scale("http", "over HTTP"),
    _inspector(),
    _asking("stdio", "on stdio, 32 in flight"),
    _asking("http", "over HTTP, 32 connections"),
    *_task("sqlite", 15),
    *_task("redis", 3),
    *_task("postgresql", 6),
    Bar("round trip of a task in one process on the same Redis, pydocket over ours", _over_docket, 2),
    *_busy("sqlite", "SQLite"),
    *_busy("redis", "Redis"),
    Bar("memory growth over 1,000,000 calls on stdio (--soak)", _growth, 1, most=True, unit="MiB"),
)


def _digits(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def judge(results: Results) -> list[Verdict]:
    verdicts = []
    for bar in BARS:
        try:
            value = bar.read(results)
        except Void:
            verdicts.append(Verdict(bar, "void", "–"))
            continue
        except NoData:
            verdicts.append(Verdict(bar, "no data", "–"))
            continue
        cleared = value <= bar.limit if bar.most else value >= bar.limit
        beside = f" ({bar.beside_name} {_digits(bar.beside(results))} ×)" if bar.beside else ""
        verdicts.append(Verdict(bar, "pass" if cleared else "FAIL", f"{_digits(value)} {bar.unit}{beside}"))
    return verdicts
