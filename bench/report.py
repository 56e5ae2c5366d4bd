"""The results as Markdown: the bars first, then every leg, each with CPU beside requests per second."""

from bench.bars import Verdict
from bench.legs import MEMORY, SCALE, SOAK, SPEED, Leg
from bench.probes import IMPORTS, REGISTERED_TOOLS
from bench.results import NoData, Results, Void
from bench.targets import TARGETS

BASE = "mcp"  # ratios are over this target
LEG_HEAD = ["server", "req/s", f"over {BASE}", "p50 µs", "p99 µs", "CPU µs/req", "waited for a core", "generator busy"]
LEG_KEYS = ("rate", "p50_us", "p99_us", "server_cpu_us", "waited", "busy")


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    line = "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"
    return ["| " + " | ".join(head) + " |", line, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _times(value: float) -> str:
    return f"{value:.1f}×" if value < 100 else f"{value:.0f}×"


def ratio_text(results: Results, leg: str, target: str) -> str:
    """How many times faster than the base: the median of the rounds, and the lowest and highest."""
    if target == BASE:
        return "1"
    try:
        ratios = sorted(results.ratios(leg, target, BASE))
    except (Void, NoData):
        return "–"
    middle = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
    return _times(middle) if len(ratios) == 1 else f"{_times(middle)} ({_times(ratios[0])}–{_times(ratios[-1])})"


def _leg_row(results: Results, leg: Leg, target: str) -> list[str]:
    try:
        rate, p50, p99, cpu, waited, busy = (results.typical(leg.name, target, key) for key in LEG_KEYS)
    except Void:
        return [target, "void", "–", "–", "–", "–", "–", "> 85 %"]
    except NoData:
        return [target, "no data", "–", "–", "–", "–", "–", "–"]
    ratio = ratio_text(results, leg.name, target)
    latency = [f"{p50:,.0f}", f"{p99:,.0f}"]
    return [target, f"{rate:,.0f}", ratio, *latency, f"{cpu:,.1f}", f"{waited:.0%}", f"{busy:.0%}"]


def _leg_tables(results: Results) -> list[str]:
    lines = []
    for setup in SPEED:
        for leg in setup.legs:
            if leg.name in results.legs:
                rows = [_leg_row(results, leg, target) for target in setup.targets if target in results.legs[leg.name]]
                lines += [f"### {leg.title}", "", *_table(LEG_HEAD, rows)]
    return lines


def _scale_table(results: Results) -> list[str]:
    rows = []
    for leg in (setup.legs[0] for setup in SCALE):
        for target in results.legs.get(leg.name, {}):
            try:
                rate, cpu = (results.typical(leg.name, target, key) for key in ("rate", "server_cpu_us"))
                least = results.least(leg.name, target, "server_cpu_us")
            except Void:
                continue
            rows.append([f"{target}: {leg.title}", f"{rate:,.0f}", f"{cpu:.1f}", f"{least:.1f}"])
    head = ["server", "req/s", "CPU µs/req", "CPU µs/req, least disturbed round"]
    return ["### The price of 1,000 tools", "", *_table(head, rows)] if rows else []


def _number_table(results: Results, probe: str, title: str, unit: str) -> list[str]:
    values = results.numbers.get(probe)
    if not values:
        return []
    rows = []
    for target in values:
        value = results.number(probe, target)
        try:
            part = f"{value / results.number(probe, BASE):.2f}"
        except NoData:
            part = "–"
        rows.append([IMPORTS.get(target, target) if probe == "import" else target, f"{value:.1f}", part])
    return [f"### {title}", "", *_table(["server", unit, f"part of {BASE}'s"], rows)]


def _memory_table(results: Results) -> list[str]:
    rows = []
    for setup in MEMORY:
        leg = setup.legs[0].name
        for target in results.legs.get(leg, {}):
            record = results.legs[leg][target][-1]
            before = results.number(f"rss-{setup.transport}", target)
            rows.append(
                [target, setup.transport, f"{before:.1f}", f"{record['rss_mib']:.1f}", f"{record['requests']:,}"]
            )
    if not rows:
        return []
    head = ["server", "transport", "MiB after start", "MiB after calls", "calls"]
    return ["### Memory (RSS of the process tree)", "", *_table(head, rows)]


def _soak_table(results: Results) -> list[str]:
    rows = []
    for leg in SOAK.legs:
        for target, records in results.legs.get(leg.name, {}).items():
            record = records[-1]
            rows.append([f"{target}: {leg.title}", f"{record['requests']:,}", f"{record['rss_mib']:.2f}"])
    return ["### Soak", "", *_table(["phase", "calls", "MiB after"], rows)] if rows else []


def _facts(results: Results) -> list[str]:
    facts = results.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    quick = " A quick run: one short round, for a look and not for a judgement." if facts["quick"] else ""
    pinned = f" Pinned to cores {facts['pin']} (server, generator)." if facts["pin"] else ""
    return [
        f"{facts['date']}; {facts['cores']} cores, {facts['system']}; load average {facts['load_before']} before and "
        f"{facts['load_after']} after; {facts['rounds']} rounds, targets interleaved, a fresh process each; "
        f"{facts['seconds']:.0f} s in all.{pinned}{quick}",
        "",
        f"Versions: {versions}.",
        "",
        "Servers: " + "; ".join(f"**{target.name}** {target.note}" for target in TARGETS.values()) + ".",
        "",
        "Read ratios, not digits: each is the median of the rounds' own ratios (lowest–highest in brackets). "
        "A leg is void where the generator was over 85 % busy. CPU is that of the server's whole process tree. "
        "*Waited for a core* is the share of the time in which the server was ready to run but other work had the "
        "cores: where it is high, requests per second say less than CPU.",
        "",
    ]


def markdown(results: Results, verdicts: list[Verdict]) -> str:
    bars = [[v.bar.text, v.bar.wanted, v.measured, f"**{v.word}**" if v.word == "FAIL" else v.word] for v in verdicts]
    registration = f"Registration of {REGISTERED_TOOLS:,} tools with four arguments"
    lines = ["# Benchmark results", "", *_facts(results), "![chart](latest.svg)", ""]
    lines += ["## Bars", "", *_table(["bar", "wanted", "measured", "verdict"], bars)]
    lines += ["## Legs", "", *_leg_tables(results)]
    lines += _number_table(results, "cold-start", "Cold start: spawn to the answer to initialize", "ms")
    lines += _number_table(results, "import", "Import", "CPU ms")
    lines += _number_table(results, "startup", "What a hello server on stdio imports", "modules")
    lines += _number_table(results, "startup-share", "Our share of its start", "%")
    lines += _number_table(results, "registration", registration, "CPU ms")
    for transport in ("stdio", "http"):
        lines += _number_table(results, f"asking-{transport}", f"Asking: a question's round, {transport}", "CPU µs")
    for store in ("sqlite", "redis", "postgresql"):
        lines += _number_table(results, f"tasks-{store}", f"Tasks: round trip of one that does nothing, {store}", "ms")
        lines += _number_table(results, f"tasks-busy-{store}", f"Tasks: p99 of tasks/get, four busy, {store}", "ms")
    lines += _memory_table(results)
    lines += _scale_table(results)
    lines += _soak_table(results)
    if results.failures:
        lines += ["## Failures", ""]
        lines += [f"- {f['target']}, {f['where']}: {f['error'].splitlines()[0]}" for f in results.failures] + [""]
    return "\n".join(lines).rstrip() + "\n"
