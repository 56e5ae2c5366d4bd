"""The HTTP transport of 2024-11-05."""

from __future__ import annotations

import asyncio

import pytest

from client.support import Handler, Request, Start, http_server
from redstart.client import Client, ClientError, HttpError
from support import run


@pytest.mark.parametrize("protocol", ["auto", "2024-11-05"])
def test_the_sdk_server_with_the_two_endpoints_of_the_first_revision(start_http: Start, protocol: str) -> None:
    async def main() -> None:
        async with Client(start_http("sse"), protocol=protocol, on_elicit=lambda r: {"name": "Ada"}) as c:
            assert c.protocol_version == ("2025-11-25" if protocol == "auto" else protocol)
            answers = await asyncio.gather(*(c.call_tool("add", {"a": i}) for i in range(10)))
            assert [answer.data for answer in answers] == [i + 2 for i in range(10)]
            if protocol == "auto":
                assert (await c.call_tool("greet")).text == "Hello Ada, True"

    run(main())


def first_revision(get: Handler) -> Handler:
    """A server that knows GET alone."""

    async def handle(request: Request) -> None:
        if request.method == "GET":
            await get(request)
        else:
            await request.answer(405)

    return handle


@pytest.mark.parametrize(
    ("get", "exception", "text"),
    [
        (lambda request: request.answer(404, b"nothing here"), HttpError, "HTTP 405"),
        (lambda request: request.stream(b": nothing\n\n"), HttpError, "HTTP 405"),
        (lambda request: request.hold(b"event: endpoint\ndata: http://127.0.0.2/x\n\n"), HttpError, "HTTP 405"),
        (lambda request: request.stream(b"event: endpoint\ndata: /messages\n\n"), ClientError, "ended its stream|405"),
    ],
)
def test_a_server_that_only_looks_like_the_first_revision(
    get: Handler, exception: type[ClientError], text: str
) -> None:
    async def main() -> None:
        async with http_server(first_revision(get)) as url, Client(url):
            pass

    with pytest.raises(exception, match=text):
        run(main())
