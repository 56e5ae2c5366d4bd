"""The results as one SVG, written by hand: per leg one bar per server, scaled to the fastest of the leg."""

from html import escape

from bench.legs import SPEED
from bench.report import ratio_text
from bench.results import NoData, Results, Void

WIDTH, LABEL, BAR, VALUE = 900, 150, 440, 300
ROW, GAP, TOP = 20, 34, 58
COLOURS = {
    "redstart": "#c8472b",
    "redstart-asyncio": "#e08a6d",
    "mcp": "#5b7c99",
    "mcp-sse": "#8ba3b8",
    "fastmcp": "#7a8b6f",
    "typescript": "#8a7aa8",
}
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.t{font-weight:600}.s{fill:#666}"
    "rect.b{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.s{fill:#999}rect.b{fill:#161616}}"
)


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{extra}>{escape(text)}</text>'


def _row(results: Results, leg: str, target: str, y: float, fastest: float) -> list[str]:
    name = _text(LABEL - 8, y + 14, target, ' text-anchor="end"')
    try:
        rate = results.typical(leg, target, "rate")
        cpu = results.typical(leg, target, "server_cpu_us")
    except (Void, NoData):
        return [name, _text(LABEL + 4, y + 14, "void or no data", ' class="s"')]
    length = max(1.5, BAR * rate / fastest)
    ratio = ratio_text(results, leg, target).split(" ")[0]
    ratio = "" if ratio == "1" else f" · {ratio} mcp"
    return [
        name,
        f'<rect x="{LABEL}" y="{y + 2:g}" width="{length:.1f}" height="{ROW - 4}" rx="2" fill="{COLOURS[target]}"/>',
        _text(LABEL + length + 6, y + 14, f"{rate:,.0f}/s · {cpu:,.1f} µs CPU{ratio}", ' class="s"'),
    ]


def _group(results: Results, leg: str, title: str, targets: list[str], y: float) -> list[str]:
    rates = []
    for target in targets:
        try:
            rates.append(results.typical(leg, target, "rate"))
        except (Void, NoData):
            continue
    parts = [_text(LABEL, y + 12, title, ' class="t"')]
    for i, target in enumerate(targets):
        parts += _row(results, leg, target, y + 18 + i * ROW, max(rates, default=1))
    return parts


def svg(results: Results) -> str:
    y = float(TOP)
    parts: list[str] = []
    for setup in SPEED:
        for leg in setup.legs:
            targets = [target for target in setup.targets if target in results.legs.get(leg.name, {})]
            if targets:
                parts += _group(results, leg.name, leg.title, targets, y)
                y += len(targets) * ROW + GAP
    facts = results.facts
    subtitle = (
        f"medians of {facts['rounds']} interleaved rounds, {facts['cores']} cores, {facts['date']}; "
        "bars are scaled within each leg"
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:g}" viewBox="0 0 {WIDTH} {y:g}">',
        f"<style>{STYLE}</style>",
        f'<rect class="b" width="{WIDTH}" height="{y:g}"/>',
        _text(LABEL, 24, "Requests per second, every response verified", ' class="t" style="font-size:16px"'),
        _text(LABEL, 43, subtitle, ' class="s"'),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"
