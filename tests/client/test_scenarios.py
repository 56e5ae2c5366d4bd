"""One suite of scenarios over {memory, stdio, http} x {the five revisions}, against redstart's own server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from client.peers.redstart_server import build
from client.support import cancel, peer, time_out
from redstart.client import (
    Client,
    ConnectionClosed,
    ElicitRequest,
    Event,
    LogMessage,
    Progress,
    RequestError,
    SampleRequest,
)
from redstart.wire.types import ListedTool
from support import HANDSHAKES, REVISIONS, run

Connect = Callable[..., Client]
TRANSPORTS = ("memory", "stdio", "http")
STRUCTURED = REVISIONS[2:]
FORMS = REVISIONS[2]


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=REVISIONS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(transport: str, protocol: str, start_http: Callable[..., str]) -> Connect:
    """A client of redstart's server, by one transport and one revision."""
    command = peer("redstart") if transport == "stdio" else []

    def connect(**options: Any) -> Client:
        options = {"protocol": protocol, **options}
        if transport == "memory":
            return Client(build(), **options)
        if command:
            return Client(command, stderr="capture", **options)
        return Client(start_http(peer="redstart"), **options)

    return connect


@pytest.mark.requirement("7")
def test_who_is_there(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            assert c.protocol_version == protocol
            assert (c.server_info.name, c.server_info.version) == ("scenarios", "1.2.3")
            assert c.instructions == "Be quick."
            assert "tools" in c.server_capabilities
            tools = {tool.name: tool for tool in await c.list_tools()}
            assert tools["add"].input_schema["required"] == ["a"]
            assert bool(tools["add"].output_schema) is (protocol in STRUCTURED)

    run(main())


@pytest.mark.parametrize("protocol", ["auto"])
def test_auto_is_modern(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            assert c.protocol_version == REVISIONS[-1]

    run(main())


@pytest.mark.requirement("18")
def test_calls(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            added = await c.call_tool("add", {"a": 1})
            assert (added.text, added.is_error) == ("3", False)
            assert added.data == (3 if protocol in STRUCTURED else None)
            point = await c.call_tool("point", {"x": 1, "y": 2})
            assert point.data == ({"x": 1, "y": 2} if protocol in STRUCTURED else None)
            assert (await c.call_tool("region", {"region": "Köln", "n": 2})).text == "KölnKöln"
            answers = await asyncio.gather(*(c.call_tool("add", {"a": i}) for i in range(50)))
            assert [answer.text for answer in answers] == [str(i + 2) for i in range(50)]

    run(main())


def test_failures(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            failed = await c.call_tool("fail", {"text": "not today"})
            assert failed.is_error
            assert "not today" in failed.text
            wrong = await c.call_tool("add", {"a": "one"})
            assert wrong.is_error
            assert "a" in wrong.text
            with pytest.raises(RequestError) as unknown:
                await c.call_tool("ad")
            assert unknown.value.code == -32602
            with pytest.raises(RequestError) as missing:
                await c.request("x/unknown", {})
            assert missing.value.code == -32601
            assert (await c.call_tool("add", {"a": 1})).text == "3"

    run(main())


@pytest.mark.requirement("117")
def test_progress(connect: Connect) -> None:
    async def main() -> None:
        seen: list[Progress] = []
        async with connect(on_progress=seen.append) as c:
            await c.call_tool("count", {"to": 3})
            assert [(p.progress, p.total) for p in seen] == [(1, 3), (2, 3), (3, 3)]

    run(main())


def test_log(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        lines: list[LogMessage] = []
        async with connect(on_log=lines.append, log_level="info") as c:
            await c.call_tool("talk")
            assert [(line.level, line.data) for line in lines] == [("info", "to the log")]
        async with connect(on_log=lines.append, log_level="error") as c:
            await c.call_tool("talk")
            assert len(lines) == 1
            if protocol in HANDSHAKES:
                await c.set_log_level("debug")
                await c.call_tool("talk")
                assert len(lines) == 2

    run(main())


def test_prompts_resources_and_completion(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            assert [prompt.name for prompt in await c.list_prompts()] == ["review"]
            prompt = await c.get_prompt("review", {"code": "x = 1"})
            assert prompt.messages[0].content.text == "Review this python: x = 1"
            assert [resource.uri for resource in await c.list_resources()] == ["notes://a"]
            templates = await c.list_resource_templates()
            assert [template.uri_template for template in templates] == ["notes://named/{name}"]
            assert (await c.read_resource("notes://a")).contents[0].text == "a note"
            assert (await c.read_resource("notes://named/b")).contents[0].blob == b"b"
            assert (await c.complete("review", "language", "p")).values == ["python", "perl", "prolog"]
            assert (await c.complete("review", "language", "py")).values == ["python"]
            with pytest.raises(RequestError) as missing:
                await c.read_resource("notes://nowhere/b")
            assert missing.value.code in (-32602, -32002)

    run(main())


@pytest.mark.requirement("23")
def test_questions(connect: Connect, protocol: str) -> None:
    def elicit(request: ElicitRequest) -> dict[str, Any]:
        fields = request.schema["properties"]
        assert request.mode == "form"
        return {name: 36 if field["type"] == "integer" else "Ada" for name, field in fields.items()}

    async def sample(request: SampleRequest) -> str:
        return f"hi in {request.max_tokens}"

    async def main() -> None:
        async with connect(on_elicit=elicit, on_sample=sample, roots=["file:///r"]) as c:
            assert (await c.call_tool("think")).text == "hi in 10"
            assert "file:///r" in (await c.call_tool("ground")).text
            if protocol < FORMS:
                return
            assert (await c.call_tool("greet")).text == "Hello Ada"
            assert (await c.call_tool("interview")).text == "Ada is 36"
            many = await asyncio.gather(*(c.call_tool("greet") for _ in range(10)))
            assert {answer.text for answer in many} == {"Hello Ada"}

    run(main())


def test_a_client_that_cannot_be_asked(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            for tool in ("greet", "think", "ground"):
                if protocol in HANDSHAKES:
                    assert (await c.call_tool(tool)).is_error
                else:
                    with pytest.raises(RequestError, match="-32021"):
                        await c.call_tool(tool)

    run(main())


@pytest.mark.parametrize("protocol", REVISIONS[2:])
def test_a_refusal(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        asked: list[str | None] = []

        def decline(request: ElicitRequest) -> None:
            asked.append(request.key)

        async with connect(on_elicit=decline) as c:
            assert "Hello" not in (await c.call_tool("greet")).text
            assert asked == ([None] if protocol in HANDSHAKES else ["who"])

    run(main())


def test_cancellation(connect: Connect, transport: str, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            assert (await cancel(c, f"{transport} {protocol} {time.monotonic_ns()}")).text == "true"

    run(main())


def test_timeout(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            tag = await time_out(c)
            assert (await c.call_tool("was_cancelled", {"tag": tag}, timeout=10)).text == "true"

    run(main())


def test_changes(connect: Connect, transport: str, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c, c.listen(tools=True) as events:
            name = f"new_{transport}_{protocol}_{time.monotonic_ns()}".replace("-", "_")
            await c.call_tool("grow", {"name": name})
            assert await anext(events) == Event("tools")
            assert name in [tool.name for tool in await c.list_tools()]
            assert (await c.call_tool(name)).text == name

    run(main())


@pytest.mark.parametrize("transport", ["stdio"])
def test_a_server_that_dies(connect: Connect, transport: str) -> None:
    async def main() -> None:
        async with connect() as c:
            with pytest.raises(ConnectionClosed, match="last words") as caught:
                await c.call_tool("die")
            assert caught.value.exit_status == 3

    run(main())


@pytest.mark.requirement("16", "24")
def test_ping_and_the_raw_way(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect() as c:
            if protocol in HANDSHAKES:
                await c.ping()
            raw = await c.request("tools/list", {})
            assert ("resultType" in raw) is (protocol not in HANDSHAKES)
            assert raw["tools"][0]["name"] == "add"
            await c.notify("notifications/nobody/knows")
            assert (await c.call_tool("add", {"a": 1})).text == "3"

    run(main())


def test_what_comes_back_is_typed(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            assert all(isinstance(tool, ListedTool) for tool in await c.list_tools())

    run(main())
