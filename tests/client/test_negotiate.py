"""Finding the era: every kind of server that a probe may meet, over stdio and HTTP."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from client.support import DISCOVERED, INITIALIZED, Request, http_server, peer, python, reply, scripted
from redstart.client import (
    Client,
    ClientError,
    ConnectionClosed,
    HttpError,
    InvalidReply,
    NotSupported,
    RequestError,
    negotiate,
)
from support import MODERN, run


def error(code: int, data: Any = None) -> str:
    fault = json.dumps({"code": code, "message": "no", "data": data})
    return f'{{"jsonrpc":"2.0","id":$id,"error":{fault}}}'


def script(discover: Any, initialize: Any = None) -> list[str]:
    return scripted(server__discover=discover, initialize=initialize or [reply(INITIALIZED)])


FALLS_BACK: list[tuple[str, Any]] = [
    ("method not found", [error(-32601)]),
    ("invalid request", [error(-32600)]),
    ("invalid params", [error(-32602)]),
    ("not initialized", [error(-32002)]),
    ("an application's code", [error(1)]),
    ("wrong version, handshake revisions offered", [error(-32022, {"supported": ["2025-11-25"]})]),
    ("wrong version, nothing offered", [error(-32022)]),
    ("a result that is no DiscoverResult", [reply({})]),
    ("a DiscoverResult of handshake revisions", [reply({**DISCOVERED, "supportedVersions": ["2025-11-25"]})]),
    ("an end", "exit"),
    ("silence", "ignore"),
]


@pytest.mark.parametrize("discover", [row[1] for row in FALLS_BACK], ids=[row[0] for row in FALLS_BACK])
def test_what_leads_to_the_handshake(discover: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiate, "PROBE", 0.5)

    async def main() -> None:
        async with Client(script(discover), stderr="capture") as c:
            assert c.protocol_version == "2025-11-25"

    run(main())


def test_a_server_that_dies_over_both_questions_says_so() -> None:
    async def main() -> None:
        async with Client(script("exit", "exit"), stderr="capture"):
            pass

    with pytest.raises(ConnectionClosed, match="exit status 7"):
        run(main())


@pytest.mark.parametrize(
    ("discover", "initialize", "exception", "text"),
    [
        ([error(-32022, {"supported": ["2027-01-01"]})], None, NotSupported, "2027-01-01"),
        ([error(-32021, {"requiredCapabilities": {}})], None, RequestError, "-32021"),
        ([error(-32020)], None, RequestError, "-32020"),
        ([error(-32601)], [error(-32602)], RequestError, "-32602"),
        ([error(-32601)], [reply({**INITIALIZED, "protocolVersion": "1999-01-01"})], NotSupported, "1999-01-01"),
        ([error(-32601)], [reply({"capabilities": {}})], InvalidReply, "initialize"),
    ],
)
def test_what_ends_in_an_error(discover: Any, initialize: Any, exception: type[ClientError], text: str) -> None:
    async def main() -> None:
        async with Client(script(discover, initialize), stderr="capture"):
            pass

    with pytest.raises(exception, match=text):
        run(main())


@pytest.mark.parametrize("target", ["mcp", "redstart"])
def test_a_slow_server_is_no_older_server(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both questions are waiting when it starts to read; it answers the first one first."""
    monkeypatch.setattr(negotiate, "PROBE", 0.01)
    command = peer(target)

    async def main() -> None:
        async with Client(command, stderr="capture") as c:
            assert c.protocol_version == MODERN
            assert (await c.call_tool("add", {"a": 1})).data == 3

    run(main())


ANSWERS_BOTH = """
import json, os, sys
discover, initialize = (json.loads(sys.stdin.readline()) for _ in range(2))
answers = zip((discover, initialize), json.loads(sys.argv[1]))
lines = [json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) for asked, result in answers]
os.write(1, "".join(line + "\\n" for line in lines).encode())
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        tools = [{"name": str("_meta" in asked["params"]), "inputSchema": {"type": "object"}}]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("protocol", ["auto", MODERN])
def test_both_answers_of_a_slow_server_in_one_write(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one counts, also for the requests that follow: each carries its envelope."""
    monkeypatch.setattr(negotiate, "PROBE", 0.01)
    command = [sys.executable, "-c", ANSWERS_BOTH, json.dumps([DISCOVERED, INITIALIZED])]

    async def main() -> None:
        async with Client(command, protocol=protocol, stderr="capture") as c:
            assert c.protocol_version == MODERN
            assert [tool.name for tool in await c.list_tools()] == ["True"]

    run(main())


def test_a_server_that_says_nothing_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiate, "PROBE", 0.1)

    async def main() -> None:
        async with Client(script("ignore", "ignore"), timeout=0.5, stderr="capture"):
            pass

    with pytest.raises(TimeoutError, match=r"no answer within 0\.5 seconds"):
        run(main())


@pytest.mark.parametrize("initialize", [[error(-32601)], "exit"])
def test_a_server_that_is_silent_first_and_then_refuses(initialize: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiate, "PROBE", 0.1)

    async def main() -> None:
        async with Client(script("ignore", initialize), stderr="capture"):
            pass

    with pytest.raises(ClientError, match=r"-32601|exit status 7"):
        run(main())


def test_a_revision_that_the_server_does_not_speak() -> None:
    async def handshake() -> None:
        async with Client(script([error(-32601)]), protocol="2024-11-05", stderr="capture"):
            pass

    async def modern() -> None:
        async with Client(script([error(-32601)]), protocol=MODERN, stderr="capture"):
            pass

    with pytest.raises(NotSupported, match="asked for 2024-11-05, the server speaks 2025-11-25"):
        run(handshake())
    with pytest.raises(NotSupported, match="does not speak 2026-07-28, but 2025-11-25"):
        run(modern())


def test_a_pinned_client_does_not_take_the_answer_of_an_older_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiate, "PROBE", 0.1)

    async def main() -> None:
        async with Client(script("ignore"), protocol=MODERN, stderr="capture"):
            pass

    with pytest.raises(NotSupported, match="does not speak 2026-07-28, but 2025-11-25"):
        run(main())


def test_the_first_messages_on_the_wire(tmp_path: Any) -> None:
    copy = tmp_path / "wire"
    tee = (
        "import subprocess, sys\n"
        f"out = open({str(copy)!r}, 'wb', 0)\n"
        "p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
        "for line in sys.stdin.buffer:\n"
        "    out.write(line)\n"
        "    p.stdin.write(line)\n"
        "    p.stdin.flush()\n"
        "p.stdin.close()\n"
        "p.wait()\n"
    )

    async def main() -> None:
        command = [sys.executable, "-c", tee, *script([error(-32601)])]
        async with Client(
            command, stderr="capture", on_elicit=lambda r: None, client_info={"name": "me", "version": "2"}
        ):
            pass

    run(main())
    probe, initialize, initialized = [json.loads(line) for line in copy.read_bytes().splitlines()]
    capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    assert probe["method"] == "server/discover"
    assert probe["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "2"},
    }
    assert initialize["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "me", "version": "2"},
    }
    assert initialize["id"] != probe["id"]
    assert initialized == {"jsonrpc": "2.0", "method": "notifications/initialized"}


# ---------------------------------------------------------------- HTTP


async def _old_server(request: Request, status: int, body: Any) -> None:
    """A server of the handshake era that answers the probe with `status` and `body`."""
    match request.message and request.message.get("method"):
        case "server/discover":
            await request.answer(status, body)
        case "initialize":
            assert "mcp-protocol-version" not in request.headers
            await request.result(INITIALIZED)
        case _:
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
            await request.answer(202)


def rpc_error(code: int, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no", "data": data}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""),
        (400, b"Bad Request: No valid session ID provided"),
        (404, b"not found"),
        (405, b""),
        (406, b"no"),
        (500, b"oops"),
        (400, rpc_error(-32000)),
        (400, rpc_error(-32600)),
        (404, rpc_error(-32601)),
        (200, rpc_error(-32601)),
        (400, rpc_error(-32022, {"supported": ["2025-11-25"]})),
    ],
)
def test_http_answers_that_lead_to_the_handshake(status: int, body: Any) -> None:
    async def main() -> None:
        async with http_server(lambda request: _old_server(request, status, body)) as url, Client(url) as c:
            assert c.protocol_version == "2025-11-25"

    run(main())


@pytest.mark.parametrize(
    ("status", "body", "exception", "text"),
    [
        (401, b"no token", HttpError, "HTTP 401: no token"),
        (403, b"", HttpError, "HTTP 403"),
        (400, rpc_error(-32020), RequestError, "-32020"),
        (400, rpc_error(-32022, {"supported": ["2027-01-01"]}), NotSupported, "2027-01-01"),
    ],
)
def test_http_answers_that_are_no_verdict(status: int, body: Any, exception: type[ClientError], text: str) -> None:
    async def main() -> None:
        async with http_server(lambda request: _old_server(request, status, body)) as url, Client(url):
            pass

    with pytest.raises(exception, match=text):
        run(main())


@pytest.mark.parametrize("body", [b"", b"<html>Not Found</html>", rpc_error(-32601)])
def test_a_pinned_client_is_told_what_an_older_server_speaks(body: Any) -> None:
    async def main() -> None:
        async with http_server(lambda request: _old_server(request, 404, body)) as url, Client(url, protocol=MODERN):
            pass

    with pytest.raises(NotSupported, match="does not speak 2026-07-28, but 2025-11-25"):
        run(main())


def test_a_pinned_client_is_told_that_there_is_no_endpoint() -> None:
    async def main() -> None:
        page = b"<html>Not Found</html>"
        async with http_server(lambda request: request.answer(404, page)) as url, Client(url, protocol=MODERN):
            pass

    with pytest.raises(NotSupported, match=r"there is no MCP endpoint here: POST http://.*: HTTP 404$"):
        run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        async with http_server(lambda request: request.answer(200)) as url:
            pass
        async with Client(url):
            pass

    with pytest.raises(ConnectionClosed, match=r"POST http://127\.0\.0\.1"):
        run(main())


# ---------------------------------------------------------------- servers that are known


def test_a_server_of_the_handshake_era_is_probed_once() -> None:
    seen: list[str] = []

    async def handler(request: Request) -> None:
        method = request.message and request.message.get("method")
        seen.append(str(method))
        if method == "initialize":
            await request.result(INITIALIZED)
        elif method == "notifications/initialized":
            await request.answer(202)
        else:
            await request.answer(404)

    async def main() -> None:
        async with http_server(handler) as url:
            for _ in range(2):
                async with Client(url) as c:
                    assert c.protocol_version == "2025-11-25"

    run(main())
    assert seen.count("server/discover") == 1
    assert seen.count("initialize") == 2


def test_a_known_server_that_has_a_new_era_is_asked_again() -> None:
    upgraded = False

    async def handler(request: Request) -> None:
        method = request.message["method"]
        if upgraded and method == "server/discover":
            await request.result(DISCOVERED)
        elif upgraded:
            await request.error(400, -32022, {"supported": [MODERN]})
        elif method == "initialize":
            await request.result(INITIALIZED)
        else:
            await request.answer(202 if method == "notifications/initialized" else 404)

    async def main() -> list[str]:
        nonlocal upgraded
        found = []
        async with http_server(handler) as url:
            for number in range(3):
                upgraded = number > 0
                async with Client(url) as c:
                    found.append(c.protocol_version)
        return found

    assert run(main()) == ["2025-11-25", MODERN, MODERN]


def test_a_silent_command_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer the probe costs the time of the probe for its first client only."""
    monkeypatch.setattr(negotiate, "PROBE", 0.2)
    command = python(
        """
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        say(message["id"], {**INITIALIZED, "serverInfo": {"name": str(message["id"]), "version": "1"}})
"""
    )

    async def main() -> list[str]:
        names = []
        for _ in range(2):
            async with Client(command) as c:
                names.append(c.server_info.name)
        return names

    assert run(main()) == ["2", "1"]  # the id of `initialize`: after a probe, and without one
