"""npm's @modelcontextprotocol/server-everything, which has a bit of all that a server can have, over stdio and HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Client
from support import free_port, node_packages, run, serving

SOURCE = Path(__file__).parent / "node"
STATIC = "demo://resource/static/document/features.md"


@contextmanager
def everything(transport: str) -> Iterator[Any]:
    """The target of a client: a command, or a URL."""
    node, folder = node_packages("everything", SOURCE)
    program = str(folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    if transport == "stdio":
        yield [node, program, "stdio"]
        return
    port = free_port()
    with serving(["env", f"PORT={port}", node, program, "streamableHttp"], port) as url:
        yield url


@pytest.mark.slow("its tasks take seconds; our own servers are the quick ones")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_bit_of_all(transport: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def on_elicit(request: Any) -> dict[str, Any]:
        asked.append(request.message)
        return {"name": "Ada"} if "name" in request.schema["properties"] else {"interpretation": "technical"}

    async def main(target: Any) -> None:
        steps: list[float] = []
        options: dict[str, Any] = {"on_elicit": on_elicit, "on_sample": lambda r: "sampled", "roots": [tmp_path]}
        async with Client(target, stderr="capture", **options) as c:
            assert c.protocol_version == "2025-11-25"
            assert {"echo", "get-sum", "simulate-research-query"} <= {tool.name for tool in await c.list_tools()}
            assert (await c.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."
            weather = (await c.call_tool("get-structured-content", {"location": "Chicago"})).data
            assert weather.keys() == {"temperature", "conditions", "humidity"}
            await c.call_tool(
                "trigger-long-running-operation",
                {"duration": 0.3, "steps": 3},
                on_progress=lambda progress: steps.append(progress.progress),
            )
            assert steps == [1, 2, 3]
            assert '"sampled"' in (await c.call_tool("trigger-sampling-request", {"prompt": "x"})).text
            assert tmp_path.as_uri() in (await c.call_tool("get-roots-list")).text
            assert "Ada" in (await c.call_tool("trigger-elicitation-request")).text
            assert (await c.read_resource(STATIC)).contents[0].text
            assert (await c.complete("completable-prompt", "department", "E")).values == ["Engineering"]
            assert (await c.get_prompt("args-prompt", {"city": "Graz"})).messages
            task = await c.start_task("simulate-research-query", {"topic": "birds"})
            assert (task.status, "# Research Report: birds" in (await task).text) == ("working", True)
            report = await c.call_tool("simulate-research-query", {"topic": "birds", "ambiguous": True})
            assert "# Research Report" in report.text

    with everything(transport) as target:
        run(main(target), seconds=90)
    assert len(asked) == 2
