"""`@server.route`: paths of one's own beside /mcp, in the application and on a real socket."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from redstart import RegistrationError, Server
from redstart.transports.routes import Request
from support import free_port, run, serving
from transports.support import Http

SERVED = """
import sys
from redstart import Server
server = Server("routes", auth=lambda token: None)

@server.route("/health")
def health() -> dict[str, bool]:
    return {"ok": True}

@server.route("/hook", methods=["POST"])
async def hook(request) -> tuple[int, dict[str, str], str]:
    return 201, {"X-Size": str(len(request.body)), "content-type": "text/html"}, f"<p>{request.query['q']}</p>"

@server.route("/none", methods=["GET", "DELETE"])
def none() -> None:
    return None

@server.route("/bytes")
async def data(request) -> bytes:
    return request.headers["x-me"].encode()

@server.route("/broken")
def broken() -> str:
    raise RuntimeError("the password is hunter2")

@server.route("/text")
def text() -> str:
    return "grüß"

@server.route("/passed-on")
def passed_on() -> tuple[int, dict[str, str], str]:
    return 200, {"Content-Length": "3", "Transfer-Encoding": "chunked", "X-Kept": "yes"}, "other"

@server.route("/unchanged")
def unchanged() -> tuple[int, dict[str, str], dict[str, bool]]:
    return 304, {"ETag": "x"}, {"ok": True}

@server.route("/gone", methods=["DELETE"])
def gone() -> tuple[int, dict[str, str], dict[str, bool]]:
    return 204, {}, {"ok": True}

if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
"""
CASES: list[tuple[str, str, int, dict[str, str], bytes]] = [
    ("GET", "/health", 200, {"content-type": "application/json"}, b'{"ok":true}'),
    ("HEAD", "/health", 200, {"content-type": "application/json", "content-length": "11"}, b""),
    ("POST", "/hook?q=a%20b", 201, {"content-type": "text/html", "x-size": "3"}, b"<p>a b</p>"),
    ("GET", "/bytes", 200, {"content-type": "application/octet-stream"}, b"me"),
    ("GET", "/text", 200, {"content-type": "text/plain; charset=utf-8"}, "grüß".encode()),
    ("GET", "/none", 204, {}, b""),
    ("DELETE", "/none", 204, {}, b""),
    ("GET", "/passed-on", 200, {"content-length": "5", "x-kept": "yes"}, b"other"),
    ("GET", "/unchanged", 304, {"etag": "x"}, b""),
    ("DELETE", "/gone", 204, {}, b""),
    ("DELETE", "/health", 405, {"allow": "GET"}, b"DELETE is not supported"),
    ("GET", "/hook", 405, {"allow": "POST"}, b"GET is not supported"),
    ("GET", "/healthy", 404, {}, b"/mcp"),
    ("GET", "/broken", 500, {}, b"RuntimeError"),
    ("GET", "/mcp", 401, {}, b"token"),
]


def made() -> Server:
    names: dict[str, Any] = {"__name__": "served"}
    exec(SERVED, names)
    server: Server = names["server"]
    return server


@pytest.mark.parametrize(("method", "where", "status", "headers", "body"), CASES)
@pytest.mark.parametrize("root", ["", "/mcp", "/apps/birds"])
def test_in_an_application(
    root: str, method: str, where: str, status: int, headers: dict[str, str], body: bytes
) -> None:
    if where == "/mcp" and root:
        where = ""

    async def test() -> None:
        server = made()
        path, _, query = where.partition("?")
        http = Http(server.asgi(), root_path=root)
        sent = {"x-me": "me"}
        got = await http.send(b"abc", method=method, path=root + path, query=query.encode(), headers=sent)
        assert got.status == status
        assert {name: got.headers.get(name) for name in headers} == headers
        assert body in got.body if status >= 400 else got.body == body
        assert b"hunter2" not in got.body
        await server.runtime.stop()

    run(test())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("routes") / "served.py"
    script.write_text(SERVED)
    port = free_port()
    with serving([sys.executable, str(script), str(port)], port) as url:
        yield url.removesuffix("/mcp")


@pytest.mark.parametrize(("method", "where", "status", "headers", "body"), CASES)
def test_on_a_socket(url: str, method: str, where: str, status: int, headers: dict[str, str], body: bytes) -> None:
    sent = {"x-me": "me"}
    request = urllib.request.Request(url + where, b"abc" if method == "POST" else None, sent, method=method)
    try:
        got = urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as error:
        got = error
    with got:
        data = got.read()
        assert got.status == status
        assert {name: got.headers.get(name) for name in headers} == headers
        assert body in data if status >= 400 else data == body


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"content-length": "99999999"}, 413),
    ],
)
def test_the_rules_for_host_origin_and_size_hold(sent: dict[str, str], status: int) -> None:
    async def test() -> None:
        server = made()
        got = await Http(server.asgi(max_body_bytes=1000)).send(b"", method="GET", path="/health", headers=sent)
        assert got.status == status
        await server.runtime.stop()

    run(test())


def test_a_plain_function_does_not_block_the_loop() -> None:
    import threading

    async def test() -> None:
        server, go = Server("s"), threading.Event()

        @server.route("/slow")
        def slow() -> str:
            go.wait(10)
            return "slow"

        @server.route("/quick")
        async def quick() -> str:
            return "quick"

        http = Http(server.asgi())
        waiting = http.start(method="GET", path="/slow")
        assert (await http.send(method="GET", path="/quick")).body == b"quick"
        assert not waiting.complete
        go.set()
        assert (await waiting.done()).body == b"slow"
        await server.runtime.stop()

    run(test())


def test_one_that_is_added_while_the_server_runs_is_served() -> None:
    async def test() -> None:
        server = Server("s")
        http = Http(server.asgi())
        assert (await http.send(method="GET", path="/late")).status == 404
        server.route("/late")(lambda: "here")
        assert (await http.send(method="GET", path="/late")).body == b"here"
        await asyncio.sleep(0)
        await server.runtime.stop()

    run(test())


def test_what_cannot_be_a_route_fails_at_once_with_its_place() -> None:
    server = Server("s")
    for path, methods in (("health", ["GET"]), ("/x", [])):
        with pytest.raises(RegistrationError, match=r"test_routes.py:\d+.*@server.route"):
            server.route(path, methods)(lambda: "x")
    with pytest.raises(RegistrationError, match="the request, or nothing"):
        server.route("/x")(lambda a, b: "x")
    server.route("/x", methods=["get", "POST"])(lambda: "x")
    with pytest.raises(RegistrationError, match="POST /x is already served"):
        server.route("/x", methods=["POST"])(lambda: "y")


@pytest.mark.parametrize("options", [{}, {"path": "/tools"}, {"legacy_sse": True}])
def test_a_route_at_the_path_of_the_endpoint_is_refused_with_its_place(options: dict[str, Any]) -> None:
    path = "/sse" if "legacy_sse" in options else options.get("path", "/mcp")
    words = rf"test_routes.py:\d+: {path} is the path of the MCP endpoint.*asgi\(path="
    before = Server("s")
    before.route(path)(lambda: "x")
    with pytest.raises(RegistrationError, match=words):
        before.asgi(**options)
    after = Server("s")
    after.asgi(**options)
    with pytest.raises(RegistrationError, match=words):
        after.route(path)(lambda: "x")


def test_a_response_of_starlette() -> None:
    responses = pytest.importorskip("starlette.responses")
    server = Server("s", debug=True)
    server.route("/json")(lambda: responses.JSONResponse({"a": 1}, 201, {"x-a": "1"}))
    server.route("/stream")(lambda: responses.StreamingResponse(iter([b"a"])))

    async def test() -> None:
        http = Http(server.asgi())
        made = await http.send(method="GET", path="/json")
        assert (made.status, made.json()) == (201, {"a": 1})
        assert (made.headers["content-type"], made.headers["x-a"]) == ("application/json", "1")
        refused = await http.send(method="GET", path="/stream")
        assert refused.status == 500
        assert b"cannot return a StreamingResponse" in refused.body
        await server.runtime.stop()

    run(test())


def test_a_request_has_its_json() -> None:
    assert Request("POST", "/x", body=json.dumps({"a": [1]}).encode()).json() == {"a": [1]}
