"""`redstart bench server.py --tool add a=1`: many calls at once, and how long they take.

The client is the same for every server, so the figures compare servers, transports and versions; they are not the most
that a server can do. `--save` keeps a run, `--compare` shows what has changed since.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redstart.cli.connect import WHERE, number, place, server_options, use, whole_number
from redstart.cli.output import FAILED, OK, CommandError, printable, say, show, show_json, styled

if TYPE_CHECKING:
    from redstart.client import Client
    from redstart.wire.jsonrpc import JsonObject

PASSES_ON: Final = True
WARM_UP: Final = 20
PERCENTILES: Final = (50, 90, 95, 99)
ERRORS: Final = 5
"""How many different errors are shown."""
NOTABLE: Final = 0.10
"""A change that is smaller is noise."""


def options(parser: argparse.ArgumentParser) -> None:
    more = f"{WHERE}; the arguments of the tool as name=value"
    parser.add_argument("words", nargs="*", metavar="TARGET ARGUMENT", help=more)
    parser.add_argument("--tool", metavar="NAME", help="the tool to call (default: list the tools instead)")
    count = partial(whole_number, most=10_000)
    parser.add_argument("-c", "--concurrency", type=count, default=8, metavar="N", help="calls at once (default 8)")
    parser.add_argument("-d", "--duration", type=_seconds, default=5.0, metavar="SECONDS", help="how long (default 5)")
    parser.add_argument("--save", metavar="FILE", help="write the figures to a file, as JSON")
    parser.add_argument("--compare", metavar="FILE", help="compare with the figures of such a file")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    server_options(parser)


def _seconds(text: str) -> float:
    return number(text, "a number of seconds up to 3600", sys.float_info.min, 3600)


def act(arguments: argparse.Namespace) -> int:
    from redstart.cli.arguments import is_argument

    words = arguments.words
    first = next((n for n, word in enumerate(words) if is_argument(word)), len(words))
    names, given = words[:first], words[first:]
    if len(names) > 1:
        raise CommandError(f"{names[1]} is not an argument: write name=value, and --tool NAME for the tool")
    if given and not arguments.tool:
        raise CommandError("arguments are for a tool: write --tool NAME")
    target = names[0] if names else None
    before = _read(arguments.compare) if arguments.compare else None
    shown = place(target, arguments.passed_on).shown

    async def work(client: Client) -> int:
        figures = {"server": shown, **await _measure(client, arguments, given)}
        if arguments.save:
            _write(arguments.save, figures)
        if arguments.json:
            show_json(figures)
        else:
            _print(figures, before)
        return FAILED if figures["errors"] else OK

    return use(arguments, target, work)


async def _measure(client: Client, arguments: argparse.Namespace, words: Sequence[str]) -> JsonObject:
    """Keep so many calls open until the time is up. Those that are open then are not counted."""
    import asyncio
    from collections import Counter
    from time import perf_counter

    call = await _request(client, arguments.tool, words)
    for _ in range(WARM_UP):
        await call()
    times: list[float] = []
    errors: Counter[str] = Counter()
    say(f"{arguments.concurrency} calls at once for {arguments.duration:g} s …")
    began = perf_counter()
    end = began + arguments.duration

    async def caller() -> None:
        while (start := perf_counter()) < end:
            wrong = await call()
            finish = perf_counter()
            if finish > end:
                return
            if wrong:
                errors[wrong] += 1
            else:
                times.append(finish - start)

    await asyncio.gather(*(caller() for _ in range(arguments.concurrency)))
    seconds = min(perf_counter() - began, arguments.duration)
    return {
        "tool": arguments.tool,
        "protocol": client.protocol_version,
        "concurrency": arguments.concurrency,
        "seconds": round(seconds, 3),
        "calls": len(times),
        "perSecond": round(len(times) / seconds, 1),
        "milliseconds": _percentiles(times),
        "errors": sum(errors.values()),
        "messages": dict(errors.most_common(ERRORS)),
    }


async def _request(client: Client, tool: str | None, words: Sequence[str]) -> Callable[[], Any]:
    """What is measured: its result is the error, or nothing."""
    from redstart.cli.arguments import tool_arguments
    from redstart.client import RequestError

    if tool is None:

        async def listing() -> str:
            await client.request("tools/list", {})
            return ""

        return listing
    tool, given = await tool_arguments(client, tool, words)

    async def calling() -> str:
        try:
            result = await client.call_tool(tool, given)
        except RequestError as error:
            return str(error)
        return (result.text or "a failed call") if result.is_error else ""

    return calling


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    """Milliseconds.

    >>> _percentiles([0.001, 0.002, 0.003])["p50"]
    2.0
    """
    if not times:
        return {}
    ordered = sorted(times)
    last = len(ordered) - 1
    found = {f"p{share}": ordered[min(last, round(share / 100 * last))] for share in PERCENTILES}
    found |= {"min": ordered[0], "max": ordered[-1], "mean": sum(ordered) / len(ordered)}
    return {name: round(1000 * seconds, 3) for name, seconds in found.items()}


# ---------------------------------------------------------------- files and words


def _read(file: str) -> JsonObject:
    try:
        found = json.loads(Path(file).read_text("utf-8"))
        float(found["perSecond"])
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{file} is not a file that `redstart bench --save` has written") from None
    return dict(found)


def _write(file: str, figures: JsonObject) -> None:
    try:
        Path(file).write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from None
    say(f"saved {file}")


def _print(figures: JsonObject, before: JsonObject | None) -> None:
    what = figures["tool"] or "tools/list"
    head = f"{what}, protocol {figures['protocol']}, {figures['concurrency']} at once, {figures['seconds']:g} s"
    show(head)
    old = before or {}
    rows = [("calls a second", figures["perSecond"], old.get("perSecond"), True)]
    times, older = figures["milliseconds"], old.get("milliseconds") or {}
    rows += [(f"{name} (ms)", times[name], older.get(name), False) for name in times]
    for name, value, was, more in rows:
        change = _change(value, was, more)
        show(f"  {name:<16} {value:>12,.{1 if more else 3}f}{change}")
    if figures["errors"]:
        say(f"{figures['errors']} calls failed:")
        for text, count in figures["messages"].items():
            say(printable(f"  {count} × {text:.200}"))


def _change(value: float, was: object, more: bool) -> str:
    """How much it is more or less than before, and whether that is better."""
    if not isinstance(was, int | float) or not was:
        return ""
    share = value / was - 1
    text = f"{share:+8.1%}"
    if abs(share) < NOTABLE:
        return styled(text, "dim", sys.stdout)
    return styled(text, "green" if (share > 0) == more else "red", sys.stdout)
