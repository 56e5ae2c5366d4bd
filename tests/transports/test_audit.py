"""The logger `redstart.audit`: a line for each refusal, without secrets, and none for what is served."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from redstart import Server, User
from redstart.auth import BearerTokens
from support import MODERN, Peer, free_port, message, modern, run
from tasks.clients import EXTENSION, started
from transports.support import Http

TOKENS = {"t-ada": User("ada", scopes=["read"]), "t-bob": User("bob", scopes=["read", "write"])}


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.all: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(json.loads(record.getMessage()))


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    logger, handler = logging.getLogger("redstart.audit"), Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.all
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


def guarded(**options: Any) -> Server:
    server = Server("guarded", auth=BearerTokens(TOKENS), **options)

    @server.tool
    async def look() -> str:
        return "seen"

    @server.tool(scopes=["write"])
    async def change() -> str:
        return "changed"

    return server


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def sent(server: Server, *requests: dict[str, Any], **options: Any) -> list[int]:
    """The statuses of modern calls of a tool."""

    async def script() -> list[int]:
        http = Http(server.asgi(**options))
        statuses = []
        for request in requests:
            tool = request.pop("tool", "look")
            response = await http.modern(1, "tools/call", {"name": tool}, client="192.0.2.7", **request)
            statuses.append(response.status)
        return statuses

    return run(script(), server)


def test_what_is_served_has_no_line(lines: list[dict[str, Any]]) -> None:
    assert sent(guarded(), {"headers": bearer("t-ada")}) == [200]
    assert lines == []


def test_a_missing_and_a_wrong_token(lines: list[dict[str, Any]]) -> None:
    assert sent(guarded(), {}, {"headers": bearer("t-secret")}) == [401, 401]
    first, second = lines
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "event": "no valid token",
        "status": 401,
        "reason": "A valid bearer token is needed",
        "client": "192.0.2.7",
        "method": "POST",
        "path": "/mcp",
        "mcp_method": "tools/call",
        "mcp_name": "look",
    }
    assert second["event"] == "no valid token"
    assert "t-secret" not in json.dumps(lines)


def test_a_token_in_the_url(lines: list[dict[str, Any]]) -> None:
    assert sent(guarded(), {"query": b"access_token=t-secret"}) == [400]
    assert [line["event"] for line in lines] == ["malformed"]
    assert "t-secret" not in json.dumps(lines)


def test_a_scope_that_is_missing(lines: list[dict[str, Any]]) -> None:
    assert sent(guarded(), {"tool": "change", "headers": bearer("t-ada")}) == [403]
    (line,) = lines
    assert (line["event"], line["mcp_name"]) == ("not allowed", "change")
    assert len(line["user"]) == 16
    assert "ada" not in json.dumps(line)


def test_a_foreign_host_and_a_foreign_page(lines: list[dict[str, Any]]) -> None:
    foreign = {"headers": {"host": "evil.example"}}
    page = {"headers": {"origin": "https://evil.example"}}
    assert sent(guarded(), foreign, page) == [421, 403]
    assert [line["event"] for line in lines] == ["unknown host", "not allowed"]


def test_the_session_of_somebody_else(lines: list[dict[str, Any]]) -> None:
    server = guarded()

    async def script() -> str:
        http = Http(server.asgi())
        session = await http.open(headers=bearer("t-ada"))
        response = await http.send(message(1, "ping"), headers={**session, **bearer("t-bob")})
        assert response.status == 404
        return session["mcp-session-id"]

    id = run(script(), server)
    (line,) = lines
    assert line["event"] == "unknown session"
    assert id not in json.dumps(line)


def test_the_task_of_somebody_else(lines: list[dict[str, Any]]) -> None:
    server = Server("jobs")

    @server.tool(task="optional")
    async def work() -> int:
        return 1

    async def script() -> str:
        ada = await Peer(server, MODERN, capabilities=EXTENSION, principal="ada").open()
        bob = await Peer(server, MODERN, capabilities=EXTENSION, principal="bob").open()
        id: str = (await started(ada, "work"))["taskId"]
        assert "result" in await ada.call("tasks/get", taskId=id)
        assert lines == []
        assert "error" in await bob.call("tasks/get", taskId=id)
        await ada.close()
        await bob.close()
        return id

    id = run(script(), server)
    (line,) = lines
    assert (line["event"], line["mcp_method"]) == ("unknown task", "tasks/get")
    assert id not in json.dumps(line)


def test_limits(lines: list[dict[str, Any]]) -> None:
    server = guarded()

    async def script() -> None:
        http = Http(server.asgi(max_body_bytes=300))
        body = modern(1, "tools/call", {"name": "look", "arguments": {"text": "x" * 1000}})
        length = {"content-length": str(len(body))}
        response = await http.send(body, headers={**bearer("t-ada"), **length})
        assert response.status == 413

    run(script(), server)
    (line,) = lines
    assert line["event"] == "too large"
    assert line["reason"].startswith("The body is larger than 300 bytes")


def test_a_rate(lines: list[dict[str, Any]]) -> None:
    ada = {"headers": bearer("t-ada")}
    assert sent(guarded(), dict(ada), dict(ada), rate_limit="1/minute") == [200, 429]
    (line,) = lines
    assert line["event"] == "limit"
    assert line["reason"]


def test_a_store_that_is_away(lines: list[dict[str, Any]]) -> None:
    away = guarded(store=f"redis://127.0.0.1:{free_port()}")
    assert sent(away, {"headers": bearer("t-ada")}) == [503]
    (line,) = lines
    assert line["event"] == "overload"
    assert line["reason"].startswith("The store of this server is away")


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/healthz", 200)])
def test_what_is_no_refusal(lines: list[dict[str, Any]], path: str, status: int) -> None:
    server = guarded()

    async def script() -> None:
        http = Http(server.asgi())
        assert (await http.send(method="GET", path=path)).status == status
        unknown = await http.modern(1, "tools/nothing", headers=bearer("t-ada"))
        assert unknown.status == 404

    run(script(), server)
    assert lines == []


def test_nothing_is_written_where_nobody_has_set_the_level(capfd: pytest.CaptureFixture[str]) -> None:
    assert sent(guarded(), {}) == [401]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("sent", "event", "status", "reason"),
    [
        (b"Content-Length: 101\r\n\r\n", "too large", 413, "max_body_bytes="),
        (b"X: " + b"x" * 70_000, "too large", 431, "the head or the trailers are larger than 65536 bytes"),
        (b"Content-Length: x\r\n\r\n", "malformed", 400, "not a valid HTTP request"),
        (b"Content-Length: 9\r\n\r\n", "too slow", 408, "body_deadline="),
    ],
)
def test_what_is_refused_before_it_is_read(
    lines: list[dict[str, Any]], sent: bytes, event: str, status: int, reason: str
) -> None:
    async def script() -> None:
        port = free_port()
        serving = asyncio.create_task(
            Server("small").run_async("http", port=port, max_body_bytes=100, body_deadline=0.2)
        )
        reader, writer = await until_open(port)
        writer.write(b"POST /mcp?token=t-secret HTTP/1.1\r\nHost: localhost\r\n" + sent)
        answer = await reader.read()
        assert answer.split()[1] == b"%d" % status
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])

    run(script())
    (line,) = lines
    assert line.pop("time")
    assert reason in line.pop("reason")
    assert line == {"event": event, "status": status, "client": "127.0.0.1"}


async def until_open(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)


def test_a_request_that_the_end_of_the_server_cuts_off_is_not_refused(lines: list[dict[str, Any]]) -> None:
    async def script() -> None:
        server, port, began = Server("small"), free_port(), asyncio.Event()

        @server.route("/wait")
        async def wait(request: Any) -> None:
            began.set()
            await asyncio.Event().wait()

        serving = asyncio.create_task(server.run_async("http", port=port, drain=0))
        reader, writer = await until_open(port)
        writer.write(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await began.wait()
        serving.cancel()
        assert (await reader.read()).startswith(b"HTTP/1.1 503")
        await asyncio.wait([serving])
        writer.close()

    run(script())
    assert lines == []
