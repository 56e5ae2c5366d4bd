"""The page to which the browser comes back: others on this machine, and websites, can send requests to it too."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from redstart.client.oauth.receiver import LoopbackReceiver
from support import run


async def asked(port: int, line: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line + b" HTTP/1.1\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "line",
    [
        b"GET //[",
        b"GET /callback?" + b"a=b&" * 100,
        b"GET /callback?state=other&code=x",
        b"GET /callback",
        b"POST /callback?state=mine",
        b"GET /other?state=mine",
        b"\xff\xfe",
        b"GET /" + b"x" * 100_000,
    ],
    ids=lambda line: repr(line[:20]),
)
def test_requests_of_others_are_not_the_answer(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> dict[str, str]:
        receiver = LoopbackReceiver("mine")
        async with receiver.listening(0):
            port = urlsplit(receiver.uri).port or 0
            said = await asked(port, line)
            assert not said.startswith(b"HTTP/1.1 200")
            assert (await asked(port, b"GET /callback?state=mine&code=c")).startswith(b"HTTP/1.1 200")
            return await receiver.answer(10)

    assert run(main()) == {"state": "mine", "code": "c"}
    assert caplog.records == []


def test_connections_that_say_nothing_end_with_the_sign_in() -> None:
    """Browsers connect in advance."""

    async def main() -> None:
        receiver = LoopbackReceiver("mine")
        async with receiver.listening(0):
            port = urlsplit(receiver.uri).port or 0
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asked(port, b"GET /callback?state=mine&code=c")
            await receiver.answer(10)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await reader.read() == b""
        writer.close()

    run(main())
