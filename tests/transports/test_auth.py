"""`auth=`: who is let in, what the function may return, how long it may take, and what a broken one does."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from redstart import Context, Server
from support import MODERN, initialize, modern, run
from transports.support import DEFAULT_HEADERS, Http

BEARER = {"authorization": "Bearer token"}
PEOPLE: list[Any] = [
    "ada",
    {"sub": "ada"},
    {"id": 7},
    {"sub": None, "id": 7},
    SimpleNamespace(username="ada"),
    SimpleNamespace(id=UUID(int=5)),
    SimpleNamespace(id=7, is_authenticated=True),
]
NOBODY: list[Any] = [
    None,
    False,
    True,
    0,
    1,
    0.5,
    "",
    " ",
    b"ada",
    [],
    ["ada"],
    {},
    {"sub": ""},
    {"sub": False},
    {"sub": None},
    {"sub": "", "name": "ada"},
    {"role": "admin"},
    range(3),
    SimpleNamespace(id=None, username="", is_authenticated=False),
    SimpleNamespace(id=7, is_authenticated=False),
    type("Ada", (), {"name": "ada"}),
]


def serving(auth: Any, **options: Any) -> Http:
    server = Server("guarded", auth=auth)

    @server.tool
    async def who(ctx: Context) -> str:
        return repr(ctx.user)

    return Http(server.asgi(**options))


def every_way(http: Http, headers: dict[str, str]) -> list[Any]:
    """A request of each era and method, the old pair of endpoints included."""
    session = {**headers, "mcp-session-id": "x", "mcp-protocol-version": "2025-11-25"}
    return [
        http.start_modern(1, "server/discover", headers=headers),
        http.start(initialize(), headers=headers),
        http.start(method="GET", headers=session),
        http.start(method="DELETE", headers=session),
        http.start(method="GET", path="/sse", headers=headers),
        http.start(initialize("2024-11-05"), path="/messages", query=b"session_id=x", headers=headers),
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("returned", NOBODY, ids=repr)
def test_only_a_principal_is_let_in(returned: Any, asynchronous: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def later(token: str) -> Any:
        return returned

    async def test() -> None:
        http = serving(later if asynchronous else lambda token: returned, legacy_sse=True)
        for response in every_way(http, BEARER):
            await response.done()
            assert response.status == 401, response.body
            assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'
            assert response.json()["error"]["message"] == "A valid bearer token is needed"

    run(test())
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    if returned is None:
        assert said == []
        return
    assert len(said) == 1  # a caller must not be able to fill the log
    assert type(returned).__name__ in said[0]
    assert "non-empty str" in said[0]


def test_what_users_cannot_be_is_said_once_for_each_type(caplog: pytest.LogCaptureFixture) -> None:
    class Strange:
        def __init__(self, token: str) -> None:
            self._token = token

        @property
        def principal(self) -> str:
            raise ValueError(f"no row for {self._token}")

    async def test() -> None:
        http = serving(Strange)
        for token in ("one", "two", "three"):
            response = await http.modern(1, "server/discover", headers={"authorization": f"Bearer {token}"})
            assert response.status == 401

    run(test())
    assert [record.getMessage().count("no row for one") for record in caplog.records] == [1]


@pytest.mark.parametrize("sent", [None, "", "Bearer", "Bearer ", "Basic eDp5", "bear x", "x"])
def test_without_a_token_nobody_is_asked(sent: str | None) -> None:
    asked = []

    def anybody(token: str) -> str:
        asked.append(token)
        return "anybody"

    async def test() -> None:
        http = serving(anybody, legacy_sse=True)
        for response in every_way(http, {} if sent is None else {"authorization": sent}):
            await response.done()
            assert response.status == 401, response.body

    run(test())
    assert asked == []


@pytest.mark.parametrize("returned", PEOPLE, ids=repr)
def test_a_principal_is_let_in(returned: Any) -> None:
    async def test() -> None:
        http = serving(lambda token: returned)
        answer = await http.modern(1, "tools/call", {"name": "who", "arguments": {}}, headers=BEARER)
        assert answer.json()["result"]["content"][0]["text"] == repr(returned)
        assert (await http.send(initialize(), headers=BEARER)).status == 200

    run(test())


def test_a_plain_function_runs_in_a_thread() -> None:
    came, go = threading.Event(), threading.Event()

    def slow(token: str) -> str:
        came.set()
        assert go.wait(10)
        return token

    async def test() -> None:
        http = serving(slow)
        request = http.start_modern(1, "server/discover", headers=BEARER)
        while not came.is_set():  # the loop runs while the function waits
            await asyncio.sleep(0)
        go.set()
        assert (await request.done()).status == 200

    run(test())


def test_busy_tools_do_not_keep_callers_out() -> None:
    """The threads of tools may all be taken; who a caller is must still be found out."""
    go = threading.Event()
    server = Server("busy", auth=lambda token: token, threads=1)

    @server.tool
    def work() -> str:
        assert go.wait(10)
        return "done"

    async def test() -> None:
        http = Http(server.asgi())
        working = http.start_modern(1, "tools/call", {"name": "work", "arguments": {}}, headers=BEARER)
        assert (await http.modern(2, "server/discover", headers=BEARER)).status == 200
        go.set()
        assert (await working.done()).status == 200
        await server.runtime.stop()

    run(test())


def test_the_threads_that_check_tokens_end_with_the_server() -> None:
    threads = []

    def named(token: str) -> str:
        threads.append(threading.current_thread())
        return token

    async def test() -> None:
        server = Server("named", auth=named)
        assert (await Http(server.asgi()).modern(1, "server/discover", headers=BEARER)).status == 200
        await server.runtime.stop()

    run(test())
    (thread,) = threads
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_that_takes_too_long_is_a_503(asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    async def endless(token: str) -> str:
        await asyncio.Event().wait()
        return token

    def stuck(token: str) -> str:
        go.wait(30)
        return token

    async def test() -> None:
        http = serving(endless if asynchronous else stuck, legacy_sse=True)
        for response in every_way(http, BEARER):
            await response.done()
            assert (response.status, response.headers["retry-after"]) == (503, "2")
            assert "0.05 seconds" in response.json()["error"]["message"]
        go.set()

    monkeypatch.setattr("redstart.access.authenticator.SECONDS", 0.05)
    run(test())


@pytest.mark.parametrize("error", [KeyError("token"), TimeoutError("database")], ids=repr)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_that_fails_is_a_500_in_words(
    error: Exception, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def later(token: str) -> Any:
        raise error

    def now(token: str) -> Any:
        raise error

    async def test() -> None:
        http = serving(later if asynchronous else now, legacy_sse=True)
        for response in every_way(http, BEARER):
            await response.done()
            assert response.status == 500
            assert f"auth= failed with {type(error).__name__}" in response.json()["error"]["message"]
            assert "database" not in response.json()["error"]["message"]

    run(test())
    assert "auth= failed" in caplog.text
    assert "return None" in caplog.text


@pytest.mark.parametrize(
    "name",
    [b"authorization", b"host", b"origin", b"mcp-protocol-version", b"mcp-session-id", b"mcp-method", b"mcp-name",
     b"mcp-param-region", b"last-event-id", b"content-type"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_header_that_decides_something_stands_once(name: bytes, method: str) -> None:
    async def test() -> None:
        http = serving(lambda token: token)
        values = {
            **{key.encode(): value.encode() for key, value in {**DEFAULT_HEADERS, **BEARER}.items()},
            b"origin": b"http://localhost",
            b"mcp-protocol-version": MODERN.encode(),
            b"mcp-method": b"server/discover",
            b"last-event-id": b"x-1",
        }
        pairs = [*values.items(), (name, values.get(name, b"x"))]
        if name not in values:
            pairs.append((name, b"x"))
        response = await http.send(modern(1, "server/discover"), pairs=pairs, method=method)
        assert response.status == 400
        assert name.decode() in response.json()["error"]["message"].lower()

    run(test())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_may_ask_for_the_request(asynchronous: bool) -> None:
    def by_key(request: Any) -> str | None:
        return {"k3y": "ada"}.get(request.headers.get("x-api-key", ""))

    async def by_both(token: str, request: Any) -> str:
        return f"{token} of {request.headers['x-org']} by {request.method} {request.path}"

    async def test() -> None:
        http = serving(by_both if asynchronous else by_key)
        call = {"name": "who", "arguments": {}}
        if asynchronous:
            headers = {**BEARER, "x-org": "birds"}
            assert (await http.modern(1, "server/discover", headers={"x-org": "birds"})).status == 401
            said = "'token of birds by POST /mcp'"
        else:
            headers = {"x-api-key": "k3y"}  # no bearer token is needed
            assert (await http.modern(1, "server/discover", headers={"x-api-key": "x"})).status == 401
            assert (await http.modern(1, "server/discover")).status == 401
            said = "'ada'"
        answer = await http.modern(1, "tools/call", call, headers=headers)
        assert answer.json()["result"]["content"][0]["text"] == said

    run(test())
