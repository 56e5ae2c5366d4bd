"""The client against the official SDK's server: both eras, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from client.support import HANDSHAKE_ONLY, cancel, handshake_client, peer, scripted, time_out
from redstart.client import (
    Client,
    ClientError,
    ConnectionClosed,
    ElicitRequest,
    LogMessage,
    Notification,
    NotSupported,
    Progress,
    RequestError,
    SampleRequest,
)
from support import HANDSHAKES, REVISIONS, LeapingLoop, leap, run

Start = Callable[..., str]
Connect = Callable[..., Client]
WAYS = ["stdio", "http", "json"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(way: str, start_http: Start) -> Connect:
    """A client for the SDK's server, by one of the three ways it answers."""
    command = peer("mcp") if way == "stdio" else []

    def connect(**options: Any) -> Client:
        if command:
            return Client(command, stderr="capture", **options)
        return Client(start_http() if way == "http" else start_http("json"), **options)

    return connect


def test_auto_finds_the_modern_era(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            assert c.protocol_version == "2026-07-28"
            assert (c.server_info.name, c.server_info.version) == ("peer", "2.3")
            assert c.instructions == "Be kind."
            assert "tools" in c.server_capabilities

    run(main())


@pytest.mark.parametrize("protocol", REVISIONS)
def test_everything_there_is_to_list_and_read(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect(protocol=protocol) as c:
            assert c.protocol_version == protocol
            assert "add" in [tool.name for tool in await c.list_tools()]
            assert [prompt.name for prompt in await c.list_prompts()] == ["review"]
            assert [resource.uri for resource in await c.list_resources()] == ["notes://a"]
            templates = await c.list_resource_templates()
            assert [template.uri_template for template in templates] == ["notes://named/{name}"]
            assert (await c.call_tool("add", {"a": 1})).data == 3
            assert (await c.call_tool("point", {"x": 1, "y": 2})).data == {"x": 1, "y": 2}
            assert (await c.call_tool("region", {"region": "Köln", "n": 2})).text == "KölnKöln"
            prompt = await c.get_prompt("review", {"code": "x = 1"})
            assert prompt.messages[0].content.text == "Review this python: x = 1"
            assert (await c.read_resource("notes://a")).contents[0].text == "a note"
            assert (await c.read_resource("notes://named/b")).contents[0].text == "note b"
            completion = await c.complete("review", "language", "p", {"code": "x"})
            assert completion.values == ["python", "perl", "prolog"]
            assert (await c.request("tools/list"))["tools"]

    run(main())


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_errors(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect(protocol=protocol) as c:
            failed = await c.call_tool("fail", {"text": "x"})
            assert failed.is_error
            with pytest.raises(RequestError):  # with code 0 or -32603, where -32602 is due
                await c.get_prompt("no such prompt")
            with pytest.raises(RequestError, match="-32601"):
                await c.request("x/unknown", {})

    run(main())


@pytest.mark.parametrize("protocol", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_many_calls_at_once(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect(protocol=protocol) as c:
            answers = await asyncio.gather(*(c.call_tool("add", {"a": i}) for i in range(50)))
            assert [answer.data for answer in answers] == [i + 2 for i in range(50)]

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", REVISIONS)
def test_progress_comes_before_the_result_and_in_order(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        seen: list[Progress] = []
        slow: list[float] = []

        async def later(progress: Progress) -> None:
            await asyncio.sleep(0)
            slow.append(progress.progress)

        async with connect(protocol=protocol, on_progress=seen.append) as c:
            assert (await c.call_tool("count", {"to": 3})).data == 3
            assert [(p.progress, p.total) for p in seen] == [(1, 3), (2, 3), (3, 3)]
            await c.call_tool("count", {"to": 4}, on_progress=later)
            assert slow == [1, 2, 3, 4]
            assert len(seen) == 3

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_questions_of_the_server(connect: Connect, protocol: str) -> None:
    asked: list[Any] = []

    def elicit(request: ElicitRequest) -> dict[str, Any]:
        asked.append(request)
        return {"name": "Ada"}

    async def sample(request: SampleRequest) -> str:
        asked.append(request)
        return "hi"

    async def main() -> None:
        async with connect(protocol=protocol, on_elicit=elicit, on_sample=sample, roots=["file:///r"]) as c:
            # The default of the form's other field is filled in.
            assert (await c.call_tool("greet")).text == "Hello Ada, True"
            assert asked[0].message == "What is your name?"
            assert "name" in asked[0].schema["properties"]
            assert (asked[0].key is None) is (protocol in HANDSHAKES)
            assert (await c.call_tool("think")).text == "hi"
            assert asked[1].max_tokens == 10
            assert (await c.call_tool("ground")).text == "file:///r"
            assert (await c.call_tool("both")).text == "Ada: hi"

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("answer", [None, "cancel"])
def test_a_refusal_is_an_answer_too(connect: Connect, protocol: str, answer: str | None) -> None:
    async def main() -> None:
        async with connect(protocol=protocol, on_elicit=lambda request: answer) as c:
            assert (await c.call_tool("greet")).is_error

    run(main())


def test_a_callback_that_fails_reaches_the_caller_in_the_modern_era(connect: Connect) -> None:
    def broken(request: ElicitRequest) -> None:
        raise LookupError("no terminal")

    async def main() -> None:
        async with connect(on_elicit=broken) as c:
            with pytest.raises(LookupError, match="no terminal"):
                await c.call_tool("greet")
            assert (await c.call_tool("add", {"a": 1})).data == 3

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_a_cancelled_call_is_cancelled_on_the_server(connect: Connect, protocol: str, way: str) -> None:
    async def main() -> None:
        async with connect(protocol=protocol) as c:
            assert (await cancel(c, f"cancel {way} {protocol} {time.monotonic_ns()}")).data is True

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)  # with JSON the SDK does not notice a disconnect
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_a_timeout_names_the_method_and_cancels(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        async with connect(protocol=protocol) as c:
            tag = await time_out(c)
            assert (await c.call_tool("was_cancelled", {"tag": tag}, timeout=10)).data is True

    run(main())


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_the_time_a_human_takes_does_not_count(connect: Connect, protocol: str) -> None:
    async def slow(request: ElicitRequest) -> dict[str, Any]:
        await leap(12)
        return {"name": "Ada"}

    async def main() -> None:
        async with connect(protocol=protocol, on_elicit=slow) as c:
            assert (await c.call_tool("greet", timeout=10)).text == "Hello Ada, True"

    run(main(), loop=LeapingLoop)


@pytest.mark.parametrize("way", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_log_and_notifications(connect: Connect, protocol: str) -> None:
    async def main() -> None:
        lines: list[LogMessage] = []
        all_of_them: list[Notification] = []
        async with connect(protocol=protocol, on_log=lines.append, on_notification=all_of_them.append) as c:
            await c.call_tool("talk")
            assert [(line.level, line.data) for line in lines] == [("info", "to the log")]
            assert "notifications/message" in [notification.method for notification in all_of_them]

    run(main())


def test_what_only_the_handshake_era_has(connect: Connect) -> None:
    async def main() -> None:
        async with connect() as c:
            for call, instead in (
                (c.ping(), "any request"),
                (c.set_log_level("debug"), "log_level"),
                (c.subscribe("notes://a"), "listen"),
                (c.unsubscribe("notes://a"), "listen"),
            ):
                with pytest.raises(NotSupported, match=instead):
                    await call
        async with connect(protocol="2025-11-25") as c:
            await c.ping()

    run(main())


def test_enter_and_exit_in_different_tasks(connect: Connect) -> None:
    async def main() -> None:
        for protocol in ("2025-11-25", "2026-07-28"):
            client = connect(protocol=protocol)
            c = await asyncio.create_task(client.__aenter__())
            assert (await asyncio.create_task(c.call_tool("add", {"a": 1}))).data == 3
            await asyncio.create_task(client.__aexit__(None, None, None))

    run(main())


def test_closing_fails_what_still_waits(connect: Connect) -> None:
    async def main() -> None:
        client = connect()
        async with client as c:
            started = asyncio.Event()
            call = asyncio.create_task(c.call_tool("was_cancelled", {"tag": "never"}))
            call.add_done_callback(lambda _: started.set())
            await c.list_tools()
        with pytest.raises(ConnectionClosed, match="the client was closed"):
            await call

    run(main())


def test_a_client_is_used_inside_its_block() -> None:
    async def main() -> None:
        c = handshake_client(scripted(**HANDSHAKE_ONLY))
        with pytest.raises(ClientError, match="not open"):
            await c.list_tools()
        async with c:
            with pytest.raises(ClientError, match="open already"):
                await c.__aenter__()
        async with c:  # and again
            assert c.server_info.name == "s"

    run(main())
