"""Requests, answers, and the server's own questions, whatever carries them."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from client.support import (
    HANDSHAKE_ONLY,
    Request,
    answer,
    event,
    handshake,
    handshake_client,
    http_server,
    modern,
    python,
    reply,
    scripted,
)
from redstart.client import Client, HttpError, InvalidReply, RequestError, transport
from support import run


def test_a_question_on_the_stream_of_a_call_is_answered_by_a_post() -> None:
    async def main() -> None:
        answered: asyncio.Queue[Any] = asyncio.Queue()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                await request.answer(202)
                await answered.put(request)
                return
            ask = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            questions = event("elicitation/create", ask, id="q1") + event("ping", id=0) + event("x/unknown", id=5)
            await request.hold(questions)
            replies = [await answered.get() for _ in range(3)]
            assert all(r.headers["mcp-session-id"] == "s1" for r in replies)
            texts = {json.dumps(r.message, sort_keys=True) for r in replies}
            await request.more(answer(request, {"replies": sorted(texts)}))

        async with (
            http_server(handshake(handler)) as url,
            Client(url, protocol="2025-11-25", on_elicit=lambda r: {"a": 1}) as c,
        ):
            replies = [json.loads(text) for text in (await c.request("x/y"))["replies"]]
            by_id = {r["id"]: r for r in replies}
            assert by_id["q1"]["result"] == {"action": "accept", "content": {"a": 1}}
            assert by_id[0]["result"] == {}
            assert by_id[5]["error"]["code"] == -32601

    run(main())


def test_a_withdrawn_question_is_not_answered() -> None:
    async def main() -> None:
        asked, withdrawn = asyncio.Event(), asyncio.Event()
        posts: list[Any] = []

        async def elicit(request: Any) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                posts.append(request.message)
                await request.answer(202)
                return
            await request.hold(event("elicitation/create", {"message": "?"}, id=1))
            await asked.wait()
            await request.more(event("notifications/cancelled", {"requestId": 1}))
            await withdrawn.wait()
            await request.more(answer(request, {}))

        async with http_server(handshake(handler)) as url, Client(url, protocol="2025-11-25", on_elicit=elicit) as c:
            await c.request("x/y")
        assert posts == []

    run(main())


def test_a_callback_that_fails_is_an_error_for_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        answered: asyncio.Queue[Any] = asyncio.Queue()

        async def handler(request: Request) -> None:
            if "method" not in request.message:
                await answered.put(request.message)
                await request.answer(500, b"I did not want to know")  # which is logged, and no more
                return
            await request.hold(event("elicitation/create", {"message": "?"}, id=7))
            await request.more(answer(request, {"reply": await answered.get()}))

        def broken(request: Any) -> None:
            raise LookupError("a secret")

        server = handshake(handler)
        async with http_server(server) as url, Client(url, protocol="2025-11-25", on_elicit=broken) as c:
            reply = (await c.request("x/y"))["reply"]
            assert reply["error"] == {"code": -32603, "message": "elicitation/create: LookupError"}

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "a secret" in caplog.text


def test_a_modern_server_may_not_ask_by_request(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Request) -> None:
        await request.stream(event("elicitation/create", {"message": "?"}, id=7), answer(request, {}))

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url, on_elicit=lambda r: {}) as c:
            await c.request("x/y")

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "does not allow" in caplog.text


def test_a_notification_that_is_refused() -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.answer(500, b"no"))) as url, Client(url) as c:
            with pytest.raises(HttpError, match="HTTP 500: no"):
                await c.notify("notifications/x")

    run(main())


def test_noise_batches_blank_lines_and_split_characters(caplog: pytest.LogCaptureFixture) -> None:
    lines = [
        "Server is starting!",
        "",
        "   ",
        '{"jsonrpc":"2.0","method":"notifications/unknown","params":7}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":"1","result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
        '[{"jsonrpc":"2.0","method":"notifications/x"},' + reply({"text": "\N{SNOWMAN}"}) + "]",
    ]

    async def main() -> None:
        async with handshake_client(scripted(**HANDSHAKE_ONLY, x__y=lines)) as c:
            assert await c.request("x/y") == {"text": "\N{SNOWMAN}"}

    with caplog.at_level(logging.WARNING, "redstart.client"):
        run(main())
    assert "Server is starting!" in caplog.text
    assert "what?" in caplog.text


DEEP = "[" * 20_000 + "]" * 20_000
FAR = '"text":"' + r"x\"id\":9]}" * 100 + '"'
TOO_DEEP = {
    "the id before it": '{"jsonrpc":"2.0","id":$id,"result":%s}',
    "the id behind it": '{"result":%s,"id":$id}',
    "the id far from both ends": '{"jsonrpc":"2.0",%far,"id":$id,"result":%s,"_meta":{"id":7},%far}',
    "an id in a name with escapes": r'{"result":%s,"\u0069d" : $id ,"_meta":{}}',
    "an error": '{"result":{"id":8},"error":{"code":1,"data":%s},%far,"id":$id}',
    "without an end": '{"id":$id,"result":' + "[" * 20_000,
    "in a batch": '[{"jsonrpc":"2.0","method":"x/y","params":{}},{"result":%s,"id":$id},3]',
    "in a batch, far from its ends": ' [{"id":77,"result":{}},{%far,"id":$id,"result":%s,%far}, {"id":78,"result":{}}]',
}


@pytest.mark.parametrize("line", TOO_DEEP.values(), ids=TOO_DEEP.keys())
def test_an_answer_that_is_nested_too_deeply_ends_its_request(line: str) -> None:
    line = line.replace("%s", DEEP).replace("%far", FAR)

    async def main() -> None:
        async with handshake_client(scripted(**HANDSHAKE_ONLY, x__y=[line])) as c:
            with pytest.raises(InvalidReply, match="nested too deeply"):
                await c.request("x/y", timeout=5)

    run(main())


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_other_answers_of_a_batch_with_one_that_is_nested_too_deeply(place: int) -> None:
    batch = ['{"id":100,"result":{}}', '{"jsonrpc":"2.0","id":$id,"result":{"fine":true}}']
    batch.insert(place, f'{{"id":101,"result":{DEEP}}}')

    async def main() -> None:
        async with handshake_client(scripted(**HANDSHAKE_ONLY, x__y=["[" + ",".join(batch) + "]"])) as c:
            assert await c.request("x/y", timeout=5) == {"fine": True}

    run(main())


def test_an_answer_that_is_nested_too_deeply_and_too_large_to_find_its_id_ends_all_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "MAX_TOKENS", 500)
    line = f'{{"result":{DEEP},"more":[{"[]," * 300}[]],"id":$id}}'

    async def main() -> None:
        async with handshake_client(scripted(**HANDSHAKE_ONLY, x__y=[line])) as c:
            with pytest.raises(InvalidReply, match="nested too deeply"):
                await c.request("x/y", timeout=5)

    run(main())


def test_a_notification_that_is_nested_too_deeply_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    deep = '{"jsonrpc":"2.0","method":"x/deep","params":' + "[" * 20_000 + "]" * 20_000 + "}"
    script = scripted(**HANDSHAKE_ONLY, x__y=[deep, '{"jsonrpc":"2.0","id":$id,"result":{"fine":true}}'])

    async def main() -> None:
        async with handshake_client(script) as c:
            assert await c.request("x/y") == {"fine": True}

    run(main())
    assert "x/deep" in caplog.text


def test_replies_out_of_order() -> None:
    script = """
held = []
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        say(m["id"], INITIALIZED)
    elif "id" in m:
        held.append(m)
        if len(held) == 10:
            for m in reversed(held):
                say(m["id"], {"n": m["params"]["n"]})
"""

    async def main() -> None:
        async with handshake_client(python(script)) as c:
            answers = await asyncio.gather(*(c.request("x", {"n": n}) for n in range(10)))
            assert [answer["n"] for answer in answers] == list(range(10))

    run(main())


def test_an_error_has_code_message_and_data() -> None:
    error = '{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"bad","data":{"uri":"a"}}}'
    broken = '{"jsonrpc":"2.0","id":$id,"error":"just text"}'

    async def main() -> None:
        async with handshake_client(scripted(**HANDSHAKE_ONLY, x__y=[error], x__z=[broken])) as c:
            with pytest.raises(RequestError) as caught:
                await c.request("x/y")
            assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "bad", {"uri": "a"})
            with pytest.raises(RequestError, match="malformed error"):
                await c.request("x/z")

    run(main())
