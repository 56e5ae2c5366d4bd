"""Streamable HTTP in process: the ASGI application, driven message by message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redstart import Context, ProtocolError, Server
from redstart.wire.meta import PROTOCOL_VERSION
from support import HANDSHAKES, MODERN, LeapingLoop, initialize, leap, message, modern, run, until
from transports.support import DEFAULT_HEADERS, Http, Response

LATEST = HANDSHAKES[-1]
TOKENS = {"a": {"sub": "ada"}, "b": {"sub": "bob"}}


class Stage:
    """A server whose tools tell the test where they are."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("http-test", version="1", **options)
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.go = asyncio.Event()
        stage = self

        @self.server.tool
        async def echo(text: str = "") -> str:
            return text

        @self.server.tool
        async def steps(ctx: Context, n: int = 3) -> str:
            for step in range(n):
                await ctx.progress(step + 1, total=n)
            return "done"

        @self.server.tool
        async def wait(ctx: Context, steps: int = 0) -> str:
            for step in range(steps):
                await ctx.progress(step + 1)
            stage.began.set()
            try:
                await stage.go.wait()
            except asyncio.CancelledError:
                stage.ended.set()
                raise
            for step in range(steps):
                await ctx.progress(steps + step + 1)
            return "went on"

        @self.server.tool
        async def shout(ctx: Context) -> str:
            await ctx.debug("low")
            await ctx.error("high")
            return "said"

        @self.server.tool
        async def refuse(code: int) -> str:
            raise ProtocolError(code, "no")

        @self.server.resource("notes://one")
        def note() -> str:
            return "one"

    def http(self, **options: Any) -> Http:
        return Http(self.server.asgi(**options))


def call(id: Any, tool: str, *, token: Any = None, **arguments: Any) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return message(id, "tools/call", params)


async def within(work: Any, seconds: float = 10) -> Any:
    async with asyncio.timeout(seconds):
        return await work


# ---------------------------------------------------------------- where it is


@pytest.mark.requirement("145", "T94")
@pytest.mark.parametrize(
    ("path", "root_path", "asked", "status"),
    [
        ("/mcp", "", "/mcp", 200),
        ("/mcp", "", "/mcp/", 200),
        ("/mcp", "", "/", 404),
        ("/mcp", "", "/mcp/x", 404),
        ("/mcp", "", "/mcpx", 404),
        ("/mcp", "", "/MCP", 404),
        ("/", "", "/", 200),
        ("/api/v1/", "", "/api/v1", 200),
        ("/mcp", "/mcp", "/mcp", 200),  # mounted at /mcp: the path has the root path in it
        ("/mcp", "/mcp", "/mcp/", 200),
        ("/mcp", "/mcp", "/mcp/mcp", 404),
        ("/mcp", "/mcp", "/", 200),  # older servers take it off
        ("/mcp", "/mcp", "", 200),
        ("/mcp", "/api", "/api/mcp", 200),
        ("/mcp", "/api", "/api/mcp/", 200),
        ("/mcp", "/api", "/mcp", 200),
        ("/mcp", "/api", "/api/other", 404),
        ("/mcp", "/api", "/api/mcp/x", 404),
        ("/mcp", "/ap", "/api/mcp", 404),
        ("/mcp", "/api/v1", "/other", 404),
        ("/mcp", "", "", 404),
    ],
)
def test_where_it_answers(path: str, root_path: str, asked: str, status: int) -> None:
    async def test() -> None:
        http = Http(Stage().server.asgi(path=path), root_path=root_path)
        response = await http.modern(1, "server/discover", path=asked)
        assert response.status == status
        assert "location" not in response.headers
        if status == 404:
            assert path.rstrip("/") in response.json()["error"]["message"]

    run(test())


GOOD_HOSTS = [
    "localhost",
    "localhost:8000",
    "LOCALHOST:1",
    "127.0.0.1",
    "127.0.0.1:80",
    "[::1]",
    "[::1]:8000",
    "localhost:",
]
BAD_HOSTS = [
    "evil.com",
    "localhost.evil.com",
    "evil.com:8000",
    "[::1]evil",
    "[::1]:80:evil",
    "[::1",
    "::1",
    "localhost:80:evil",
    "localhost:evil",
    "localhost:8\xb2",
    "localhost@evil.com",
    "evil@localhost",
    "localhost/",
    "localhost#",
    " localhost",
    "127.0.0.2",
    "0.0.0.0",
    "[::ffff:127.0.0.1]",
    "127.0.0.1.nip.io",
    "0x7f000001",
    "*",
    "",
    None,
]


@pytest.mark.requirement("T94")
@pytest.mark.parametrize(("host", "status"), [*[(h, 200) for h in GOOD_HOSTS], *[(h, 421) for h in BAD_HOSTS]])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PATCH"])
def test_hosts(host: str | None, status: int, method: str) -> None:
    async def test() -> None:
        response = await Stage().http().send(modern(1, "server/discover"), method=method, headers={"host": host})
        if status == 421:
            assert response.status == 421
            assert "allowed_hosts" in response.json()["error"]["message"]
        else:
            assert response.status != 421

    run(test())


GOOD_ORIGINS = [
    "http://localhost",
    "http://localhost:3000",
    "https://LOCALHOST",
    "http://127.0.0.1:5",
    "http://[::1]:8000",
    None,
]
BAD_ORIGINS = [
    "https://evil.com",
    "null",
    "",
    "localhost",
    "http://localhost.evil.com",
    "http://localhost:80:evil",
    "http://localhost:80@evil.com",
    "http://evil@localhost",
    "http://[::1]evil",
    "http://localhost/path",
    "http://localhost?x",
    "file://localhost",
    "chrome-extension://localhost",
    "http://127.0.0.2",
    "http://",
    "*",
]


@pytest.mark.requirement("T94")
@pytest.mark.parametrize(("origin", "fine"), [*[(o, True) for o in GOOD_ORIGINS], *[(o, False) for o in BAD_ORIGINS]])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/elsewhere"])
def test_origins(origin: str | None, fine: bool, method: str, path: str) -> None:
    async def test() -> None:
        http = Stage().http()
        for _ in range(2):  # what was found good is remembered
            response = await http.send(
                modern(1, "server/discover"), method=method, path=path, headers={"origin": origin}
            )
            assert (response.status != 403) is fine
            if not fine:
                assert "allowed_origins" in response.json()["error"]["message"]

    run(test())


@pytest.mark.parametrize(
    ("options", "host", "origin", "status"),
    [
        ({"allowed_hosts": ["mcp.example.com"]}, "mcp.example.com", None, 200),
        ({"allowed_hosts": ["mcp.example.com"]}, "MCP.example.com:443", None, 200),
        ({"allowed_hosts": ["mcp.example.com:8443"]}, "mcp.example.com:8443", None, 200),
        ({"allowed_hosts": ["mcp.example.com:8443"]}, "mcp.example.com", None, 421),
        ({"allowed_hosts": ["mcp.example.com"]}, "evil.com", None, 421),
        ({"allowed_hosts": ["*"]}, "anything.at.all", None, 200),
        ({"allowed_hosts": ["*"]}, "anything.at.all", "https://evil.com", 403),
        ({"allowed_origins": ["https://app.example.com"]}, "localhost", "https://app.example.com", 200),
        ({"allowed_origins": ["https://app.example.com/"]}, "localhost", "https://APP.example.com", 200),
        ({"allowed_origins": ["https://app.example.com"]}, "localhost", "http://app.example.com", 403),
        ({"allowed_origins": ["https://app.example.com"]}, "localhost", "https://app.example.com.evil.com", 403),
        ({"allowed_origins": ["*"]}, "localhost", "https://evil.com", 200),
        ({"public_url": "https://mcp.example.com/mcp"}, "mcp.example.com", "https://mcp.example.com", 200),
        ({"public_url": "https://mcp.example.com"}, "evil.com", None, 421),
        ({"public_url": "https://mcp.example.com"}, "", None, 421),
        ({"public_url": "https://[2001:db8::1]:8443/"}, "[2001:db8::1]:8443", None, 200),
        ({"public_url": "https://user@mcp.example.com"}, "mcp.example.com", None, 200),
    ],
)
def test_allow_lists(options: dict[str, Any], host: str, origin: str | None, status: int) -> None:
    async def test() -> None:
        sent = {"host": host, "origin": origin}
        response = await Stage().http(**options).modern(1, "server/discover", headers=sent)
        assert response.status == status

    run(test())


@pytest.mark.requirement("T94", "T95")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"host", b"evil.com"),
        (b"origin", b"http://localhost"),
        (b"mcp-method", b"tools/list"),
        (b"mcp-session-id", b"x"),
    ],
)
def test_a_header_that_decides_stands_once(name: bytes, value: bytes) -> None:
    async def test() -> None:
        pairs = [(k.encode(), v.encode()) for k, v in DEFAULT_HEADERS.items()]
        pairs += [(name, value), (name, value)] if name != b"host" else [(name, value)]
        response = await Stage().http().send(modern(1, "server/discover"), pairs=pairs)
        assert response.status == 400

    run(test())


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("PUT", {}, 405),
        ("PATCH", {}, 405),
        ("HEAD", {}, 405),
        ("OPTIONS", {}, 405),
        ("GET", {}, 405),
        ("DELETE", {}, 405),
        ("GET", {"mcp-session-id": "x", "mcp-protocol-version": MODERN}, 405),
        ("DELETE", {"mcp-session-id": "x", "mcp-protocol-version": MODERN}, 405),
        ("GET", {"mcp-session-id": "x"}, 404),
        ("DELETE", {"mcp-session-id": "x"}, 404),
        ("GET", {"mcp-session-id": "x", "accept": "application/json"}, 406),
        ("POST", {"content-type": "text/plain"}, 415),
        ("POST", {"content-type": None}, 415),
        ("POST", {"content-type": "application/jsonp"}, 415),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {"content-type": "application/json; charset=utf-8"}, 200),
        ("POST", {"content-type": "Application/JSON ;x=y"}, 200),
        ("POST", {"accept": "text/html"}, 406),
        ("POST", {"accept": "application/json;q=0, text/event-stream;q=0"}, 406),
        ("POST", {"accept": ""}, 406),
    ],
)
def test_methods_and_types(method: str, headers: dict[str, Any], status: int) -> None:
    async def test() -> None:
        sent = {"mcp-protocol-version": MODERN, "mcp-method": "server/discover"} if method == "POST" else {}
        response = await Stage().http().send(modern(1, "server/discover"), method=method, headers={**sent, **headers})
        assert response.status == status
        if status == 405:
            assert "POST" in response.headers["allow"]
            assert b"POST" in response.body or method in ("HEAD", "DELETE", "OPTIONS")

    run(test())


@pytest.mark.requirement("T97")
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json;q=0.1, text/event-stream", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/*", "text/event-stream"),
        ("*/*, application/json;q=0", "text/event-stream"),
        ("application/json;q=0, */*;q=1", "text/event-stream"),
        ("application/*;q=0, application/json", "application/json"),
        ('text/html;a="x,application/json", text/event-stream', "text/event-stream"),
        ("APPLICATION/JSON;Q=1", "application/json"),
        ("application/json;q=nonsense, text/event-stream", "text/event-stream"),
    ],
)
def test_accept_by_quality(accept: str | None, kind: str) -> None:
    async def test() -> None:
        response = await Stage().http().modern(1, "tools/list", headers={"accept": accept})
        assert (response.status, response.headers["content-type"]) == (200, kind)
        assert response.messages()[0]["id"] == 1

    run(test())


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["text/event-stream", "application/json"], "text/event-stream"),
        (["application/json", "text/event-stream"], "text/event-stream"),
        (["text/event-stream", "text/html"], "text/event-stream"),
        (["application/json", "text/html"], "application/json"),
        (["*/*", "text/event-stream;q=0"], "application/json"),
        (["text/html", "text/plain"], None),
    ],
)
def test_the_lines_of_an_accept_header_are_one_list(lines: list[str], kind: str | None) -> None:
    async def test() -> None:
        told = {**DEFAULT_HEADERS, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "steps"}
        pairs = [(name.lower().encode(), value.encode()) for name, value in told.items() if name != "accept"]
        pairs += [(b"accept", line.encode()) for line in lines]
        body = modern(1, "tools/call", {"name": "steps", "arguments": {"n": 2}}, progressToken=1)
        response = await Stage().http().send(body, pairs=pairs)
        assert response.status == (200 if kind else 406)
        assert response.headers["content-type"] == (kind or "application/json")
        assert len(response.messages()) == (3 if kind == "text/event-stream" else 1)

    run(test())


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * 1001, {}, 413),
        ([b"x" * 600, b"x" * 600], {}, 413),
        ([b"x" * 600, b"", b"x" * 400, b"x"], {}, 413),
        (b"", {"content-length": "1001"}, 413),
        (b"", {"content-length": "9" * 5000}, 413),
        (b"", {"content-length": "many"}, 413),
        (b"", {"content-length": "-1"}, 413),
        (b"x" * 1000, {}, 400),
        (message(1, "ping").ljust(1000), {"content-length": "1000"}, 200),
        ([b'{"jsonrpc":"2.0",', b'"id":1,"method":"ping"}'], {}, 200),
        ([b'{"jsonrpc":"2.0",', b'"id":1,', b'"method":"ping"}'], {}, 200),
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"{}", {}, 400),
        (b"\xef\xbb\xbf{}", {}, 400),
    ],
)
def test_sizes_and_pieces(body: Any, headers: dict[str, str], status: int) -> None:
    async def test() -> None:
        http = Stage().http(max_body_bytes=1000)
        response = await http.send(body, headers=headers)
        assert response.status == status
        assert (await http.modern(1, "server/discover")).status == 200

    run(test())


def test_a_client_that_leaves_in_the_middle_of_its_body() -> None:
    async def test() -> None:
        http = Stage().http()

        async def receive() -> Any:
            return parts.pop(0)

        async def send(event: Any) -> None:
            raise AssertionError(event)

        scope: Any = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
        scope["headers"] = [(k.encode(), v.encode()) for k, v in DEFAULT_HEADERS.items()]
        for lead in ([], [{"type": "http.request", "body": b"{", "more_body": True}]):
            parts = [*lead, {"type": "http.disconnect"}]
            await http.app(scope, receive, send)

    run(test())


@pytest.mark.requirement("T8", "T99")
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (message(None, "notifications/cancelled", {"requestId": 1}), {"mcp-protocol-version": MODERN}, 202),
        (message(None, "notifications/made/up"), {"mcp-protocol-version": MODERN}, 202),
        (message(None, "notifications/initialized"), {}, 400),  # of no session
        (message(None, "notifications/initialized"), {"mcp-protocol-version": LATEST}, 400),
        (b'{"jsonrpc":"2.0","id":"x","result":{}}', {"mcp-protocol-version": MODERN}, 400),
    ],
)
def test_messages_without_an_answer(body: bytes, headers: dict[str, str], status: int) -> None:
    async def test() -> None:
        response = await Stage().http().send(body, headers=headers)
        assert response.status == status
        assert status != 202 or response.body == b""

    run(test())


# ---------------------------------------------------------------- sessions


@pytest.mark.requirement("14", "145", "T96")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_session(revision: str) -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open(revision)
        assert all(0x21 <= ord(letter) <= 0x7E for letter in session["mcp-session-id"])
        without = {k: v for k, v in session.items() if k != "mcp-protocol-version"}
        for sent in (session, without):
            response = await http.send(message(1, "tools/list"), headers=sent)
            assert response.status == 200
            assert "resultType" not in response.json()["result"]
            assert "mcp-session-id" not in response.headers
            answer = await http.send(b'{"jsonrpc":"2.0","id":"ask-1","result":{}}', headers=sent)
            assert answer.status == 400  # nothing was asked
        assert (await http.send(message(1, "no/such"), headers=session)).status == 200
        assert (await http.send(message(1, "tools/list"), headers={"mcp-protocol-version": revision})).status == 400
        assert (await http.send(message(1, "tools/list"))).status == 400
        unknown = {**session, "mcp-session-id": "unknown"}
        assert (await http.send(message(1, "tools/list"), headers=unknown)).status == 404
        assert (await http.send(initialize(), headers=session)).status == 400
        assert (await http.send(b"", method="DELETE", headers=session)).status == 200
        for method in ("POST", "GET", "DELETE"):
            assert (await http.send(message(1, "ping"), method=method, headers=session)).status == 404

    run(test())


def test_an_id_is_good_in_one_spelling_only() -> None:
    """A spelling that decodes to the same bytes would bring an ended session back to life."""

    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        id = session["mcp-session-id"]
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        others = [id + "!", "~" + id, id[:5] + "." + id[5:], id + "=", id + "=" * 4, id.swapcase(), id[:-1], id + "A"]
        others += [id[:-1] + letter for letter in last if letter != id[-1]]
        others += [("B" if id[0] == "A" else "A") + id[1:], "", " ", "%", "\xff"]
        for other in others:
            response = await http.send(message(1, "ping"), headers={**session, "mcp-session-id": other})
            assert response.status == 404, other
        assert (await http.send(message(1, "ping"), headers=session)).status == 200
        other_server = await Stage().http().send(message(1, "ping"), headers=session)
        assert other_server.status == 404

    run(test())


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_processes_with_the_same_keys_share_their_sessions(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "a key that two processes share"
    options = {"keys": [key]} if source == "argument" else {}
    if source == "environment":
        monkeypatch.setenv("REDSTART_KEYS", key)

    async def test() -> None:
        one, other = Stage(**options).http(), Stage(**options).http()
        session = await one.open(HANDSHAKES[-1])
        assert (await other.send(message(1, "tools/list"), headers=session)).status == 200

    run(test())


def test_a_session_belongs_to_who_opened_it() -> None:
    async def test() -> None:
        http = Stage(auth=TOKENS.get).http()
        ada, bob = {"authorization": "Bearer a"}, {"authorization": "bearer b"}
        session = await http.open(headers=ada)
        assert (await http.send(message(1, "ping"), headers=session)).status == 200
        for method in ("POST", "GET", "DELETE"):
            stolen = await http.send(message(1, "ping"), method=method, headers={**session, **bob})
            assert stolen.status == 404
        assert (await http.send(message(1, "ping"), headers=session)).status == 200

    run(test())


@pytest.mark.parametrize("sent", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic a", "a", "Bearer a b"])
def test_without_a_good_token_nothing_is_served(sent: str | None) -> None:
    async def test() -> None:
        http = Stage(auth=TOKENS.get).http()
        for method in ("POST", "GET", "DELETE"):
            response = await http.send(modern(1, "server/discover"), method=method, headers={"authorization": sent})
            assert response.status == (400 if sent == "Bearer a b" else 401)  # what cannot be a token is malformed
            assert response.headers["www-authenticate"].startswith("Bearer")
        fine = await http.modern(1, "server/discover", headers={"authorization": "Bearer a"})
        assert fine.status == 200

    run(test())


def test_modern_requests_ignore_sessions() -> None:
    async def test() -> None:
        http = Stage().http()
        for id in ("unknown", (await http.open())["mcp-session-id"]):
            response = await http.modern(1, "tools/list", headers={"mcp-session-id": id, "last-event-id": "p1-1"})
            assert response.status == 200
            assert "mcp-session-id" not in response.headers
            missing = await http.send(modern(1, "tools/list"), headers={"mcp-session-id": id})
            assert (missing.status, missing.json()["error"]["code"]) == (400, -32020)

    run(test())


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("body", [message(1, "ping"), message(None, "notifications/initialized")])
def test_a_version_that_is_not_served_is_named_with_those_that_are(method: str, body: bytes) -> None:
    async def test() -> None:
        http = Stage().http()
        session = {**await http.open(), "mcp-protocol-version": "1999-01-01"}
        response = await http.send(body, method=method, headers=session)
        assert response.status == 400
        said = response.json()["error"]["message"]
        assert "MCP-Protocol-Version" in said
        assert "1999-01-01" in said
        assert all(revision in said for revision in (*HANDSHAKES, MODERN))

    run(test())


def test_words_in_the_arguments_do_not_change_the_era() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open("2025-03-26")
        del session["mcp-protocol-version"]
        said = call(1, "echo", text="io.modelcontextprotocol/protocolVersion")
        response = await http.send(said, headers=session)
        assert response.status == 200

    run(test())


@pytest.mark.parametrize(
    ("body", "version", "status", "code"),
    [
        (modern(1, "tools/list"), None, 400, -32020),  # its era is clear, but its headers are missing
        (modern(1, "tools/list"), "2025-11-25", 404, -32600),
        (modern(1, "tools/list"), MODERN, 400, -32020),
        (call(1, "echo", text="io.modelcontextprotocol/protocolVersion"), "2025-11-25", 404, -32600),
        (message(1, "tools/list"), None, 404, -32600),
        (modern(1, "tools/list", None, **{PROTOCOL_VERSION: "1999-01-01"}), "1999-01-01", 400, -32020),
        (message(1, "tools/list"), "1999-01-01", 400, -32600),
    ],
)
def test_a_session_that_is_unknown_and_a_version(body: bytes, version: str | None, status: int, code: int) -> None:
    async def test() -> None:
        sent = {"mcp-session-id": "unknown", "mcp-protocol-version": version}
        response = await Stage().http().send(body, headers=sent)
        assert (response.status, response.json()["error"]["code"]) == (status, code)

    run(test())


def test_a_version_of_the_modern_era_that_is_not_served_is_answered_by_that_era() -> None:
    async def test() -> None:
        sent = {"mcp-protocol-version": "1999-01-01"}
        response = await Stage().http().modern(1, "tools/list", meta={PROTOCOL_VERSION: "1999-01-01"}, headers=sent)
        assert (response.status, response.json()["error"]["code"]) == (400, -32022)

    run(test())


def test_a_stop_ends_what_waits_for_a_person_and_lets_others_finish() -> None:
    async def test() -> None:
        stage = Stage()

        @stage.server.tool
        async def name(ctx: Context) -> str:
            return await ctx.ask("Your name?", str)

        http = stage.http(drain=20)
        opened = await http.send(initialize(elicitation={}))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": LATEST}
        await http.send(message(None, "notifications/initialized"), headers=session)
        asking = http.start(call(1, "name"), headers=session)
        await within(asking.until(lambda r: b"elicitation/create" in r.body))
        pushed = http.start(method="GET", headers=session)
        listening = http.start_modern(2, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await within(listening.until(lambda r: r.messages()))
        working = http.start(call(3, "wait"), headers=session)
        await within(stage.began.wait())
        http.app.begin_stop()
        answer = (await within(asking.done())).messages()[-1]
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        await within(pushed.done())
        assert (await within(listening.done())).messages()[-1]["id"] == 2
        assert not working.complete
        refused = await http.send(call(4, "echo"), headers=session)
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert refused.headers["retry-after"] == "2"
        stage.go.set()
        assert "result" in (await within(working.done())).messages()[-1]
        await stage.server.runtime.stop()

    run(test())


def test_what_was_stopped_may_start_again() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(drain=20)
        session = await http.open()
        for is_told in (False, True):
            assert (await http.send(call(1, "echo"), headers=session)).status == 200
            assert stage.server.runtime.hub.peers
            if is_told:
                http.app.begin_stop()
            await stage.server.runtime.stop()
            assert not stage.server.runtime.hub.peers
        working = http.start(call(2, "wait"), headers=session)
        await within(stage.began.wait())
        await leap(30)  # longer than the calls of the first life had
        stage.go.set()
        assert "result" in (await within(working.done())).messages()[-1]
        await stage.server.runtime.stop()

    run(test(), loop=LeapingLoop, seconds=100)


def test_the_id_of_a_session_is_told_once() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        response = await http.send(call(1, "echo"), headers=session)
        assert (response.status, response.headers.get("mcp-session-id")) == (200, None)

    run(test())


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_the_end_of_all_calls_is_told_to_those_that_wait(era: str) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open() if era == "handshake" else None
        assert not http.app.end_calls()
        if session is None:
            waiting = http.start_modern(1, "tools/call", {"name": "wait", "arguments": {"steps": 0}})
        else:
            waiting = http.start(call(1, "wait", steps=0), headers=session)
        await stage.began.wait()
        assert http.app.end_calls()
        response = await waiting.done()
        assert (response.status, response.json()["error"]["code"]) == (200, -32603)
        assert "stopping" in response.json()["error"]["message"]
        assert not http.app.end_calls()

    run(test())


@pytest.mark.requirement("3")
def test_batches() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open("2025-03-26")
        parts = [call(1, "echo", text="a"), message(2, "no/such"), message(3, "ping"), message(None, "notifications/x")]
        response = await http.send(b"[" + b",".join(parts) + b"]", headers=session)
        assert response.status == 200
        assert sorted(one["id"] for one in response.json()) == [1, 2, 3]
        quiet = await http.send(b"[" + message(None, "notifications/initialized") + b"]", headers=session)
        assert (quiet.status, quiet.body) == (202, b"")
        later = await http.open("2025-06-18")
        assert (await http.send(b"[" + message(3, "ping") + b"]", headers=later)).status == 400

    run(test())


def test_other_clients_have_their_turns_between_the_calls_of_a_batch() -> None:
    async def test() -> None:
        stage = Stage()
        turn, seen = 0, []

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            asyncio.get_running_loop().call_soon(next_turn)

        @stage.server.tool
        async def look() -> None:
            seen.append(turn)

        http = stage.http()
        session = await http.open("2025-03-26")
        next_turn()
        await within(http.send(b"[" + b",".join(call(n, "look") for n in range(20)) + b"]", headers=session))
        assert len(set(seen)) == 20  # no two of them in one turn

    run(test())


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
def test_a_batch_goes_on_without_the_call_that_was_cancelled(accept: str) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = {**await http.open("2025-03-26"), "accept": accept}
        parts = [call(1, "wait"), call(2, "wait", steps=2, token="t")]
        open_batch = http.start(b"[" + b",".join(parts) + b"]", headers=session)
        await within(stage.began.wait())
        stage.began.clear()
        await within(stage.began.wait())
        await http.send(message(None, "notifications/cancelled", {"requestId": 1}), headers=session)
        await within(stage.ended.wait())
        stage.go.set()
        *words, answers = (await within(open_batch.done())).messages()
        assert [answer["id"] for answer in answers] == [2]
        assert answers[0]["result"]["content"][0]["text"] == "went on"
        assert [word["params"]["progress"] for word in words] == ([1, 2, 3, 4] if "event-stream" in accept else [])

    run(test())


@pytest.mark.parametrize("others", [1, 0])
def test_a_batch_that_a_cancellation_completes_is_answered(others: int) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open("2025-03-26")
        parts = [call(1, "wait"), message(2, "no/such"), *[message(3, "ping")] * others]
        open_batch = http.start(b"[" + b",".join(parts) + b"]", headers=session)
        await within(stage.began.wait())
        await http.send(message(None, "notifications/cancelled", {"requestId": 1}), headers=session)
        response = await within(open_batch.done())
        assert sorted(one["id"] for one in response.json()) == [2, 3][: 1 + others]

    run(test())


@pytest.mark.parametrize("others", [[], [2], [2, 3]])
def test_a_call_that_is_cancelled_in_its_own_batch_does_not_run(others: list[int]) -> None:
    async def test() -> None:
        stage = Stage()
        stage.go.set()
        http = stage.http()
        session = await http.open("2025-03-26")
        cancel = message(None, "notifications/cancelled", {"requestId": 1})
        parts = [call(1, "wait"), cancel, *[call(id, "echo") for id in others]]
        response = await within(http.send(b"[" + b",".join(parts) + b"]", headers=session))
        assert response.status == 200
        assert [answer["id"] for answers in response.messages() for answer in answers] == others
        assert not stage.began.is_set()
        again = await within(http.send(call(1, "wait"), headers=session))  # and its id is free
        assert again.json()["result"]["content"][0]["text"] == "went on"

    run(test())


@pytest.mark.parametrize("kind", ["GET", "POST", "POST that is being answered", "GET of legacy_sse"])
def test_nothing_is_left_of_a_stream_that_its_host_cancels(kind: str) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(legacy_sse=True)
        session = await http.open()
        before = asyncio.all_tasks()
        if kind == "GET of legacy_sse":
            stream = http.start(method="GET", path="/sse")
        elif kind == "GET":
            stream = http.start(method="GET", headers=session)
        else:
            stream = http.start(call(1, "wait", steps=1, token="t"), headers=session)
        await within(stream.started.wait())
        if "answered" in kind:  # and its client does not take what is sent
            await within(stage.began.wait())
            stream.may_send.clear()
            stage.go.set()
            for _ in range(20):
                await asyncio.sleep(0)
        stream.task.cancel()
        await asyncio.wait([stream.task])
        await within(until(lambda: asyncio.all_tasks() <= before))
        await stage.server.runtime.stop()

    run(test())


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_the_body_of_a_request_is_not_kept_while_its_call_runs(era: str) -> None:
    """What the call needs of it is kept once."""

    gone = []

    class Body(bytes):
        def __del__(self) -> None:
            gone.append(len(self))

    async def test() -> None:
        stage = Stage()
        http = stage.http()
        if era == "modern":
            told = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "wait"}
            body = Body(modern(1, "tools/call", {"name": "wait", "arguments": {}}))
        else:
            told, body = await http.open(), Body(call(1, "wait"))
        size, chunks = len(body), list[bytes]([body])
        del body
        response = http.start(chunks, headers=told)
        chunks.clear()
        await within(stage.began.wait())
        assert gone == [size]
        stage.go.set()
        assert "result" in (await within(response.done())).messages()[-1]

    run(test())


def test_large_requests_that_run_have_a_size_in_all_and_for_one_caller() -> None:
    async def test() -> None:
        server = Server("large")
        go = asyncio.Event()

        @server.tool
        async def wait(text: str) -> str:
            await go.wait()
            return "done"

        http = Http(server.asgi())

        def large(client: str, size: int = 1_000_000) -> Response:
            params = {"name": "wait", "arguments": {"text": "x" * size}}
            return http.start_modern(1, "tools/call", params, client=client)

        small = [large("10.0.0.0", 60_000) for _ in range(400)]  # they do not count
        started = [large(f"10.0.0.{number // 25}") for number in range(150)]
        for _ in range(10):
            await asyncio.sleep(0)
        refused = [response for response in started if response.status == 503]
        assert 80 < len(refused) < 100
        assert {response.headers["retry-after"] for response in refused} == {"10"}
        assert "may have 67108864 bytes, 16777216 of a caller" in refused[0].json()["error"]["message"]
        first = [response.status for response in started[:25]]  # one address has its share
        assert 10 < first.count(0) < 18
        assert [response.status for response in started[25:40]].count(503) == 0
        go.set()
        assert {(await response.done()).status for response in started} == {200, 503}
        assert {(await response.done()).status for response in small} == {200}
        assert (await large("10.0.0.0").done()).status == 200

    run(test())


# ---------------------------------------------------------------- streams


@pytest.mark.requirement("T64")
@pytest.mark.parametrize("era", ["modern", *HANDSHAKES])
def test_sse_is_lazy(era: str) -> None:
    async def test() -> None:
        http = Stage().http()
        session = {} if era == "modern" else await http.open(era)

        async def ask(tool: str, token: Any, **headers: str) -> Response:
            if era == "modern":
                meta = {} if token is None else {"progressToken": token}
                return await http.modern(1, "tools/call", {"name": tool}, meta=meta, headers=headers)
            return await http.send(call(1, tool, token=token), headers={**session, **headers})

        quiet = await ask("steps", None)
        assert quiet.headers["content-type"] == "application/json"
        told = await ask("steps", 7)
        assert told.is_sse
        assert told.headers["x-accel-buffering"] == "no"
        *steps, last = told.messages()
        assert [m["params"]["progress"] for m in steps] == [1, 2, 3]
        assert {m["params"]["progressToken"] for m in steps} == {7}
        assert last["id"] == 1
        primed = "data" in told.events()[0] and told.events()[0]["data"] == ""
        assert primed is (era == LATEST)
        assert any("retry" in event for event in told.events()) is (era == LATEST)
        assert all("id" in event for event in told.events()) is (era != "modern")
        plain = await ask("steps", 7, accept="application/json")
        assert plain.headers["content-type"] == "application/json"
        assert plain.json()["id"] == 1

    run(test())


@pytest.mark.requirement("T66")
@pytest.mark.parametrize(
    ("level", "said"), [(None, []), ("debug", ["low", "high"]), ("error", ["high"]), ("emergency", [])]
)
def test_modern_logging_is_asked_for_by_each_request(level: str | None, said: list[str]) -> None:
    async def test() -> None:
        meta = {} if level is None else {"io.modelcontextprotocol/logLevel": level}
        response = await Stage().http().modern(1, "tools/call", {"name": "shout"}, meta=meta)
        *logs, last = response.messages()
        assert [m["params"]["data"] for m in logs] == said
        assert last["id"] == 1

    run(test())


@pytest.mark.sends_anything("a handler's own error without the data that its code demands")
@pytest.mark.parametrize(
    ("code", "status"), [(-32601, 404), (-32021, 400), (-32602, 200), (-32603, 200), (-32002, 200)]
)
def test_the_status_of_what_a_handler_refuses(code: int, status: int) -> None:
    async def test() -> None:
        http = Stage().http()
        response = await http.modern(1, "tools/call", {"name": "refuse", "arguments": {"code": code}})
        assert response.status == status
        events = {"accept": "text/event-stream"}
        response = await http.modern(1, "tools/call", {"name": "refuse", "arguments": {"code": code}}, headers=events)
        assert (response.status, response.is_sse) == (status, status == 200)
        assert "error" in response.messages()[0]
        session = await http.open()
        assert (await http.send(call(1, "refuse", code=code), headers=session)).status == 200

    run(test())


def test_keep_alive_comments() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http(keep_alive=0.02)
        response = http.start_modern(1, "tools/call", {"name": "wait"})
        await within(response.until(lambda r: r.body.count(b": keep-alive") >= 3))
        assert response.is_sse
        stage.go.set()
        await within(response.done())
        assert response.messages()[-1]["id"] == 1

    run(test())


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_call_that_takes_long_has_one_response(era: str, accept: str) -> None:
    """It has said something and is then kept alive; to a client that takes JSON only nothing is said before the end."""

    async def test() -> None:
        stage = Stage()
        http = stage.http(keep_alive=20)
        if era == "modern":
            params = {"name": "wait", "arguments": {"steps": 1}}
            response = http.start_modern(1, "tools/call", params, meta={"progressToken": 1}, headers={"accept": accept})
        else:
            session = await http.open()
            response = http.start(call(1, "wait", steps=1, token=1), headers={**session, "accept": accept})
        await within(stage.began.wait())
        for _ in range(2):
            await leap(30)
        if "event-stream" in accept:
            await within(response.until(lambda r: r.body.count(b": keep-alive") == 2))
        else:
            assert not response.status
        stage.go.set()
        *words, result = (await within(response.done())).messages()
        assert response.is_sse is ("event-stream" in accept)
        assert len(words) == 2 * response.is_sse
        assert result["result"]["content"][0]["text"] == "went on"

    run(test(), loop=LeapingLoop, seconds=200)


@pytest.mark.requirement("T100")
@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_keep_alive_that_is_no_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="keep_alive"):
        Stage().server.asgi(keep_alive=seconds)


@pytest.mark.parametrize("steps", [0, 2])
def test_a_modern_client_that_leaves_cancels(steps: int) -> None:
    async def test() -> None:
        stage = Stage()
        response = stage.http().start_modern(
            1, "tools/call", {"name": "wait", "arguments": {"steps": steps}}, meta={"progressToken": 1}
        )
        await within(stage.began.wait())
        response.disconnect()
        await within(stage.ended.wait())
        await within(response.done())
        assert b'"id":1' not in response.body

    run(test())


@pytest.mark.parametrize("steps", [0, 2])
def test_a_handshake_client_that_leaves_does_not_cancel(steps: int) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open()
        response = http.start(call(1, "wait", token=1, steps=steps), headers=session)
        await within(stage.began.wait())
        if steps:
            await within(response.until(lambda r: len(r.messages()) == steps))
        response.disconnect()
        await asyncio.wait([response.task], timeout=0.05)
        assert not stage.ended.is_set()
        stage.go.set()
        await within(response.done())
        if steps:  # what was missed is still there for whoever comes back
            last = response.events()[-1]["id"]
            again = await within(http.send(method="GET", headers={**session, "last-event-id": last}))
            assert [m.get("id") for m in again.messages()] == [None, None, 1]

    run(test())


def test_a_stream_is_replayed_from_the_last_event_and_no_other() -> None:
    async def test() -> None:
        http = Stage().http()
        session = await http.open()
        first = await http.send(call(1, "steps", token="one"), headers=session)
        second = await http.send(call(2, "steps", token="two"), headers=session)
        for response, token, id in ((first, "one", 1), (second, "two", 2)):
            ids = [event["id"] for event in response.events()]
            assert len(set(ids)) == 5
            for seen, event_id in enumerate(ids):
                again = await http.send(method="GET", headers={**session, "last-event-id": event_id})
                found = again.messages()
                assert found == response.messages()[seen:]
                assert all(m.get("id", id) == id for m in found)
                assert all(m["params"]["progressToken"] == token for m in found if "params" in m)
        for unknown in ("p99-1", "x", "", "p1-", "p1-x", "p1--1", "-1", "g", "p1-" + "9" * 30, ids[0][:-1] + "\xb2"):
            response = await http.send(method="GET", headers={**session, "last-event-id": unknown})
            assert response.status == 404, unknown
        other = await http.open()
        stolen = await http.send(method="GET", headers={**other, "last-event-id": first.events()[0]["id"]})
        assert stolen.status == 404

    run(test())


def test_a_client_that_comes_back_before_it_was_missed_gets_the_rest() -> None:
    """Its first connection is lost later: that must not end the second one."""

    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open()
        first = http.start(call(1, "wait", steps=1, token=1), headers=session)
        await within(first.until(lambda r: r.messages()))
        last = {**session, "last-event-id": first.events()[-1]["id"]}
        second = http.start(method="GET", headers=last)
        await within(second.started.wait())
        first.disconnect()
        for _ in range(5):
            await asyncio.sleep(0)
        stage.go.set()
        words = (await within(second.done())).messages()
        assert [word.get("id") for word in words] == [None, 1]

    run(test())


def test_close_stream_lets_the_client_poll() -> None:
    async def test() -> None:
        stage = Stage()
        proceed = asyncio.Event()

        @stage.server.tool
        async def slow(ctx: Context) -> str:
            assert await ctx.close_stream()
            await proceed.wait()
            return "late"

        http = stage.http()
        session = await http.open()
        response = http.start(call(1, "slow"), headers=session)
        await within(response.until(lambda r: r.complete))
        (prime,) = response.events()
        assert (prime["data"], prime["retry"].isdigit()) == ("", True)
        back = http.start(method="GET", headers={**session, "last-event-id": prime["id"]})
        await within(back.started.wait())
        proceed.set()
        await within(back.done())
        assert back.messages()[0]["result"]["content"][0]["text"] == "late"
        await within(response.done())

    run(test())


def test_the_get_stream_carries_what_belongs_to_no_request() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open()
        stream = http.start(method="GET", headers=session)
        await within(stream.started.wait())
        assert stream.is_sse
        stage.server.register(named("later"))
        await within(stream.until(lambda r: r.messages()))
        assert [m["method"] for m in stream.messages()] == ["notifications/tools/list_changed"]
        assert (await http.send(call(1, "steps", token=1), headers=session)).messages()[-1]["id"] == 1
        assert len(stream.messages()) == 1  # answers never go there
        stream.disconnect()
        await within(stream.done())
        stage.server.register(named("missed"))
        await asyncio.sleep(0)
        last = stream.events()[-1]["id"]
        again = http.start(method="GET", headers={**session, "last-event-id": last})
        await within(again.until(lambda r: r.messages()))
        newest = http.start(method="GET", headers=session)
        await within(again.done())  # one message goes to one stream: the newest takes over
        newest.disconnect()
        await within(newest.done())

    run(test())


def test_the_end_of_a_session_ends_its_stream_and_its_calls() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session = await http.open()
        stream = http.start(method="GET", headers=session)
        waiting = http.start(call(1, "wait"), headers=session)
        await within(stage.began.wait())
        await http.send(method="DELETE", headers=session)
        await within(stage.ended.wait())
        await within(stream.done())
        await within(waiting.done())
        assert (waiting.status, waiting.json()["id"]) == (200, 1)
        assert "session has ended" in waiting.json()["error"]["message"]

    run(test())


def named(name: str) -> Any:
    async def tool() -> str:
        return name

    tool.__name__ = name
    return tool


# ---------------------------------------------------------------- subscriptions


@pytest.mark.requirement("T101")
@pytest.mark.parametrize("id", [0, 1, "1", "", "ü", -5])
def test_listen_acknowledges_first_and_tells_only_what_was_asked(id: Any) -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        await http.modern(9, "server/discover")
        for n in range(50):  # hammer it, before and while it opens
            stage.server.runtime.hub.changed("tools")
            if n == 25:
                wanted = {
                    "toolsListChanged": True,
                    "promptsListChanged": False,
                    "resourceSubscriptions": ["notes://one"],
                }
                stream = http.start_modern(id, "subscriptions/listen", {"notifications": wanted})
        stage.server.runtime.hub.updated("notes://other")
        stage.server.runtime.hub.changed("resources")
        await within(stream.until(lambda r: r.messages()))
        stage.server.runtime.hub.updated("notes://one")
        stage.server.runtime.hub.changed("tools")
        await within(stream.until(lambda r: b"notes://one" in r.body.split(b"acknowledged", 1)[1].split(b"}", 3)[-1]))
        ack, *told = stream.messages()
        assert ack["method"] == "notifications/subscriptions/acknowledged"
        assert ack["params"]["notifications"]["toolsListChanged"] is True
        assert ack["params"]["notifications"]["resourceSubscriptions"] == ["notes://one"]
        for one in (ack, *told):
            found = one["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
            assert (found, type(found)) == (id, type(id))
        kinds = {one["method"] for one in told}
        assert kinds <= {"notifications/tools/list_changed", "notifications/resources/updated"}
        assert {one["params"]["uri"] for one in told if "uri" in one["params"]} == {"notes://one"}
        stage.server.runtime.hub.close()
        await within(stream.done())
        last = stream.messages()[-1]
        assert last["id"] == id
        assert last["result"]["resultType"] == "complete"
        assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id

    run(test())


@pytest.mark.requirement("T102")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"toolsListChanged": "yes"}},
        {"notifications": {"resourceSubscriptions": [7]}},
        {"notifications": {"resourceSubscriptions": [f"a:{n}" for n in range(2000)]}},
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_malformed_filter(params: dict[str, Any]) -> None:
    async def test() -> None:
        response = await within(Stage().http().modern(1, "subscriptions/listen", params))
        assert response.messages()[-1]["error"]["code"] == -32602

    run(test())


@pytest.mark.requirement("T105")
def test_many_listeners_and_one_that_does_not_read() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        wanted = {"notifications": {"resourceSubscriptions": ["notes://one"]}}
        streams = [http.start_modern(7, "subscriptions/listen", wanted) for _ in range(4)]
        for stream in streams:
            await within(stream.until(lambda r: r.messages()))
        slow, *others = streams
        slow.may_send.clear()
        for n in range(3_000):
            stage.server.runtime.hub.updated("notes://one")
            await asyncio.sleep(0)
            if n % 100 == 0:
                await asyncio.sleep(0)
        await within(asyncio.gather(*(o.until(lambda r: r.body.count(b"resources/updated") >= 1_500) for o in others)))
        counts = {o.body.count(b"resources/updated") for o in others}
        assert len(counts) == 1
        slow.may_send.set()
        await within(slow.until(lambda r: r.complete))
        assert b"does not read" in slow.body
        assert len(slow.body) < 2_500_000
        for stream in streams:
            stream.disconnect()
            await within(stream.done())
        assert not stage.server.runtime.hub.listeners

    run(test(), seconds=50)


def test_a_listener_is_forgotten_when_its_client_leaves() -> None:
    async def test() -> None:
        stage = Stage()
        stream = stage.http().start_modern(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await within(stream.until(lambda r: r.messages()))
        assert len(stage.server.runtime.hub.listeners) == 1
        stream.disconnect()
        await within(stream.done())
        assert not stage.server.runtime.hub.listeners

    run(test())


@pytest.mark.requirement("T103")
def test_a_stream_is_not_cancelled_by_a_message_of_another_connection() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        response = http.start_modern(1, "tools/call", {"name": "wait"})
        await within(stage.began.wait())
        session = await http.open()
        cancel = message(None, "notifications/cancelled", {"requestId": 1})
        for sent in ({"mcp-protocol-version": MODERN}, session):
            assert (await http.send(cancel, headers=sent)).status == 202
        stage.go.set()
        assert (await within(response.done())).json()["id"] == 1

    run(test())


def test_resources_updated_reaches_the_session_that_subscribed() -> None:
    async def test() -> None:
        stage = Stage()
        http = stage.http()
        session, other = await http.open(), await http.open()
        stream, deaf = (http.start(method="GET", headers=s) for s in (session, other))
        for _ in range(2):
            response = await http.send(message(1, "resources/subscribe", {"uri": "notes://one"}), headers=session)
            assert response.json()["result"] == {}
        stage.server.runtime.hub.updated("notes://one")
        stage.server.runtime.hub.updated("notes://two")
        await within(stream.until(lambda r: r.messages()))
        await http.send(message(1, "resources/unsubscribe", {"uri": "notes://one"}), headers=session)
        stage.server.runtime.hub.updated("notes://one")
        stage.server.runtime.hub.changed("tools")
        await within(stream.until(lambda r: len(r.messages()) == 2))
        assert [m["params"].get("uri") for m in stream.messages()] == ["notes://one", None]
        await within(deaf.until(lambda r: r.messages()))
        assert [m["method"] for m in deaf.messages()] == ["notifications/tools/list_changed"]
        for one in (stream, deaf):
            one.disconnect()
            await within(one.done())

    run(test())


# ---------------------------------------------------------------- life


@pytest.mark.parametrize("managed", [True, False])
def test_it_starts_itself_where_nobody_runs_its_lifespan(managed: bool) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[str]:
        seen.append("start")
        yield "state"
        seen.append("stop")

    async def test() -> None:
        server = Server("life", version="1", lifespan=lifespan)

        @server.tool
        async def state(ctx: Context) -> str:
            return str(ctx.lifespan)

        app = server.asgi()
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        outbox: asyncio.Queue[Any] = asyncio.Queue()
        task = None
        if managed:
            task = asyncio.create_task(app({"type": "lifespan"}, inbox.get, outbox.put))
            inbox.put_nowait({"type": "lifespan.startup"})
            assert (await within(outbox.get()))["type"] == "lifespan.startup.complete"
        http = Http(app)
        found = await asyncio.gather(*(http.modern(n, "tools/call", {"name": "state"}) for n in range(5)))
        assert {r.json()["result"]["content"][0]["text"] for r in found} == {"state"}
        assert seen == ["start"]
        if task is not None:
            inbox.put_nowait({"type": "lifespan.shutdown"})
            assert (await within(outbox.get()))["type"] == "lifespan.shutdown.complete"
            await within(task)
            assert seen == ["start", "stop"]
        else:
            await server.runtime.stop()

    run(test())


def test_a_lifespan_that_fails_says_why() -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    async def test() -> None:
        app = Server("life", version="1", lifespan=lifespan).asgi()
        outbox: asyncio.Queue[Any] = asyncio.Queue()
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        inbox.put_nowait({"type": "lifespan.startup"})
        await within(app({"type": "lifespan"}, inbox.get, outbox.put))
        event = outbox.get_nowait()
        assert event["type"] == "lifespan.startup.failed"
        assert "no database" in event["message"]

    run(test())


def test_websockets_are_refused() -> None:
    async def test() -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(event: Any) -> None:
            sent.append(event)

        await Stage().http().app({"type": "websocket", "path": "/mcp", "headers": []}, receive, send)
        assert [event["type"] for event in sent] == ["websocket.close"]

    run(test())


def test_a_thousand_clients_with_the_same_id() -> None:
    async def test() -> None:
        http = Stage().http()
        sessions = [await http.open() for _ in range(20)]

        async def one(n: int) -> None:
            if n % 2:
                response = await http.modern(0, "tools/call", {"name": "echo", "arguments": {"text": str(n)}})
            else:
                response = await http.send(call(n // 20, "echo", text=str(n)), headers=sessions[n // 2 % 20])
            assert response.json()["result"]["content"][0]["text"] == str(n)

        await asyncio.gather(*(one(n) for n in range(1000)))

    run(test())


def test_answers_are_one_line_of_json() -> None:
    async def test() -> None:
        http = Stage().http()
        text = "line\nbreak\r\u2028"
        response = await http.modern(
            1, "tools/call", {"name": "echo", "arguments": {"text": text}}, headers={"accept": "text/event-stream"}
        )
        (event,) = response.events()
        assert json.loads(event["data"])["result"]["content"][0]["text"] == text

    run(test())


def test_a_client_that_takes_no_stream_cannot_listen() -> None:
    """It would wait for ever."""

    async def test() -> None:
        http = Http(Server("s").asgi())
        params = {"notifications": {"toolsListChanged": True}}
        refused = await http.modern(1, "subscriptions/listen", params, headers={"accept": "application/json"})
        assert refused.status == 406
        assert refused.json()["id"] == 1
        assert "text/event-stream" in refused.json()["error"]["message"]

    run(test(), seconds=5)
