"""The commands of a Typer application as tools: each runs the program, as a person would in a terminal.

A command is a function with type hints, so its schema is made like that of any other tool. Only what runs is another.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from redstart import Tool, ToolError

SECONDS = 60


def tools_of(app: typer.Typer, program: Path) -> Iterator[Tool]:
    """A tool for each command of `app`, which `python program` runs."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        words = [name] if len(app.registered_commands) > 1 else []  # an application of one command has no words for it
        yield Tool(name, handler=_runner([sys.executable, str(program), *words], command.callback))


def _runner(command: list[str], callback: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the parameters of a command that runs the program with them."""
    parameters = list(inspect.signature(callback, eval_str=True).parameters.values())

    async def run(**arguments: Any) -> str:
        options: list[str] = []
        positional: list[str] = []
        for parameter in parameters:
            value, option = arguments[parameter.name], f"--{parameter.name.replace('_', '-')}"
            if parameter.default is parameter.empty:
                positional.append(str(value))
            elif isinstance(value, bool):
                options.append(option if value else option.replace("--", "--no-", 1))
            elif value is not None:
                options.append(f"{option}={value}")
        return await _output([*command, *options, "--", *positional])

    described = [parameter.replace(annotation=_described(parameter.annotation)) for parameter in parameters]
    run.__signature__ = inspect.Signature(described, return_annotation=str)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in described} | {"return": str}
    run.__doc__ = callback.__doc__
    return run


def _described(annotation: Any) -> Any:
    """The type of a parameter, with the help of its `typer.Option` as the description."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, info = get_args(annotation)[:2]
    return Annotated[kind, info.help] if getattr(info, "help", None) else kind


async def _output(command: list[str]) -> str:
    """What a program prints. No shell reads the words, and behind `--` none of them is an option."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise ToolError(f"the program took more than {SECONDS} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError(errors.decode(errors="replace").strip() or f"the program ended with {process.returncode}")
    return output.decode(errors="replace")
