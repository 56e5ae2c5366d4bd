"""Run the generator once: write its plan, read its lines, keep what a failed leg left behind."""

import json
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import build, messages
from bench.legs import Leg, Setup
from bench.messages import Message
from bench.targets import Target

BUSY_LIMIT = 0.85


class RunFailed(Exception):
    """The server did not start, or a response was not as expected; the text holds the offending bytes."""


@dataclass
class Timing:
    """How long each leg warms up and is measured, in seconds."""

    warm: float = 0.5
    measure: float = 0.5
    first_warm: float = 1.5  # of a process's first leg: a just-in-time compiler needs it
    pin: str = ""  # "0,1": the server on core 0, the generator on core 1


@dataclass
class Run:
    """What one server process gave: its start, and one record per leg."""

    start: dict[str, Any] = field(default_factory=dict)
    legs: dict[str, dict[str, Any]] = field(default_factory=dict)
    exit: dict[str, Any] = field(default_factory=dict)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _message_lines(key: str, message: Message) -> list[str]:
    return [*(f"header\t{header}" for header in message.headers), f"{key}\t{message.body}"]


def _limit(leg: Leg, target: Target) -> float:
    return 600 if target.is_ours else leg.limit


def _leg_lines(leg: Leg, setup: Setup, target: Target, timing: Timing) -> list[str]:
    if leg.operation == "list":
        message = messages.list_tools(setup.era)
        expect = f'count\t{setup.tools}\t"inputSchema"'
    else:
        message = messages.call(setup.era, leg.operation)
        expect = f"text\t{messages.ECHO_TEXT}" if leg.operation == "echo" else f"sum\t{messages.ADDEND}"
    lines = [f"leg\t{leg.name}", *_message_lines("request", message), f"expect\t{expect}", f"window\t{leg.window}"]
    if leg.requests:
        return [*lines, f"requests\t{leg.requests}", f"limit\t{_limit(leg, target)}"]
    warm = timing.first_warm if leg is setup.legs[0] else timing.warm
    return [*lines, f"warm\t{warm}", f"measure\t{timing.measure}"]


def _plan(setup: Setup, target: Target, timing: Timing) -> str:
    port = _free_port() if setup.transport == "http" else 0
    lines = [f"mode\t{setup.transport}", f"port\t{port}"]
    if timing.pin:
        lines.append(f"pin\t{timing.pin}")
    lines += [f"exec\t{word}" for word in target.command(port=port, tools=setup.tools)]
    for opening in messages.openings(setup.era):
        lines += _message_lines("open" if opening.wants_reply else "notify", opening)
    for leg in setup.legs:
        lines += _leg_lines(leg, setup, target, timing)
    return "\n".join(lines) + "\n"


def drive(setup: Setup, target: Target, timing: Timing) -> Run:
    """Start `target` for `setup` in a fresh process and run its legs."""
    patience = 120 + sum(_limit(leg, target) for leg in setup.legs)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        errors = Path(folder) / "stderr"
        plan.write_text(_plan(setup, target, timing))
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [str(build.generator()), str(plan)],
                env=target.full_environment(),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
            try:
                output, _ = process.communicate(timeout=patience)
            except BaseException:
                process.kill()  # the server dies with the generator
                process.wait()
                raise
        try:
            return _read(output, setup)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise RunFailed(f"{error}\n{errors.read_text(errors='replace')[-800:]}".strip()) from error


def _read(output: str, setup: Setup) -> Run:
    run = Run()
    operations = {leg.name: leg.operation for leg in setup.legs}
    for line in output.splitlines():
        record = json.loads(line)
        event = record.pop("event")
        if event == "error":
            raise ValueError(f"{record['message']}\n{record['bytes']}".strip())
        if event == "start":
            run.start = record
        elif event == "exit":
            run.exit = record
        else:
            messages.check_sample(record.pop("sample"), operations[record["leg"]], setup.tools)
            record["void"] = record["busy"] > BUSY_LIMIT
            run.legs[record.pop("leg")] = record
    if not run.exit:
        raise ValueError("the generator ended early")
    return run
