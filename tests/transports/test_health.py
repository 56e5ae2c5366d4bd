"""`/healthz` and `/readyz`: under a host, on our own socket, while the server stops and while its store is away."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Server
from redstart.features.rules import OptionError
from store.engines import Engine, running
from support import DEADLINE, free_port, run
from transports.support import Child, Http, Response

PROBE: dict[str, str | None] = {"host": "10.1.2.3:8000", "content-type": None, "accept": "*/*"}
"""As a kubelet sends it: under the address of the container."""


async def probe(http: Http, path: str, method: str = "GET", **headers: str) -> Response:
    return await http.send(method=method, path=path, headers={**PROBE, **headers})


def test_both_say_yes_without_a_token_under_any_host_name() -> None:
    async def test() -> None:
        server = Server("live", auth=lambda token: None)
        http = Http(server.asgi())
        for path, reason in (("/healthz", "the process runs"), ("/readyz", "the server is ready")):
            response = await probe(http, path)
            assert response.status == 200
            assert response.json() == {"ok": True, "reason": reason}
            assert response.headers["content-type"] == "application/json"
            assert response.headers["cache-control"] == "no-store"
            head = await probe(http, path, "HEAD")
            assert (head.status, head.body) == (200, b"")
            refused = await probe(http, path, "POST")
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        assert (await probe(http, "/mcp")).status == 421  # the rule for hosts holds for all else
        await server.runtime.stop()

    run(test())


def test_a_page_of_another_site_is_refused() -> None:
    async def test() -> None:
        server = Server("live")
        assert (await probe(Http(server.asgi()), "/healthz", origin="https://evil.example")).status == 403
        await server.runtime.stop()

    run(test())


def test_the_paths_can_be_others_or_none() -> None:
    async def test() -> None:
        server = Server("live")
        http = Http(server.asgi(health_path="/live", ready_path=None, allowed_hosts=["*"]))
        assert (await probe(http, "/live")).status == 200
        assert (await probe(http, "/healthz")).status == 404
        assert (await probe(http, "/readyz")).status == 404
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize("value", ["healthz", 7, True])
def test_a_path_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match='health_path must be a path such as "/healthz", or None'):
        Server("live").asgi(health_path=value)


def test_a_route_of_the_application_comes_first() -> None:
    async def test() -> None:
        server = Server("live")

        @server.route("/healthz")
        def mine() -> str:
            return "mine"

        assert (await Http(server.asgi()).send(method="GET", path="/healthz")).body == b"mine"
        await server.runtime.stop()

    run(test())


def test_the_endpoint_itself_may_have_the_path() -> None:
    async def test() -> None:
        server = Server("live")
        http = Http(server.asgi(path="/healthz"), path="/healthz")
        assert (await http.modern(1, "tools/list")).status == 200
        await server.runtime.stop()

    run(test())


def test_below_the_path_at_which_another_application_has_mounted_us() -> None:
    async def test() -> None:
        server = Server("live")
        response = await probe(Http(server.asgi(), root_path="/tools"), "/tools/readyz")
        assert response.status == 200
        await server.runtime.stop()

    run(test())


def test_readiness_starts_a_server_that_nobody_has_started_and_health_does_not() -> None:
    async def test() -> None:
        begun = []

        @asynccontextmanager
        async def lifespan(server: Any) -> AsyncIterator[None]:
            begun.append(1)
            yield

        server = Server("live", lifespan=lifespan)
        http = Http(server.asgi())
        assert (await probe(http, "/healthz")).status == 200
        assert begun == []
        assert (await probe(http, "/readyz")).status == 200
        assert begun == [1]
        await server.runtime.stop()

    run(test())


def test_a_server_that_does_not_start_lives_and_is_not_ready() -> None:
    async def test() -> None:
        @asynccontextmanager
        async def lifespan(server: Any) -> AsyncIterator[None]:
            raise ConnectionError("no database")
            yield

        http = Http(Server("live", lifespan=lifespan).asgi())
        assert (await probe(http, "/healthz")).status == 200
        response = await probe(http, "/readyz")
        assert response.status == 503
        assert response.json() == {"ok": False, "reason": "the server has not started"}

    run(test())


def test_under_a_host_a_server_that_stops_is_not_ready() -> None:
    async def test() -> None:
        server = Server("live")
        app = server.asgi()
        http = Http(app)
        assert (await probe(http, "/readyz")).status == 200
        app.begin_stop()
        response = await probe(http, "/readyz")
        assert response.status == 503
        assert response.json() == {"ok": False, "reason": "the server is stopping"}
        assert (await probe(http, "/healthz")).status == 200
        await server.runtime.stop()
        assert (await probe(http, "/readyz")).status == 200  # it may start again
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize(
    "how", ["killed", pytest.param("paused", marks=pytest.mark.slow("it waits for the time limit of the driver"))]
)
def test_a_store_that_is_away_is_not_ready_until_it_is_back(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(engine: Engine) -> None:
        server = Server("live", store=engine.url)
        http = Http(server.asgi())
        assert (await probe(http, "/readyz")).status == 200
        if how == "killed":
            engine.kill()
        else:
            engine.pause()
        responses = await _until(http, 503)
        assert responses[-1].json() == {"ok": False, "reason": "the store is away"}
        assert (await probe(http, "/healthz")).status == 200
        if how == "killed":
            await asyncio.to_thread(engine.start)
        else:
            engine.resume()
        await _until(http, 200)
        await server.runtime.stop()

    with running("redis") as engine:
        run(test(engine))
    assert "not ready: " in caplog.text


async def _until(http: Http, status: int) -> list[Response]:
    """Ask until the status is this one: an answer of the store counts for a second."""
    found = [await probe(http, "/readyz")]
    while found[-1].status != status:
        await asyncio.sleep(0.1)
        found.append(await probe(http, "/readyz"))
    return found


def test_many_probes_ask_the_store_once() -> None:
    async def test() -> None:
        asked = 0

        class Counting:
            def __getattr__(self, name: str) -> Any:
                return getattr(kept, name)

            async def kv_get(self, key: str) -> bytes | None:
                nonlocal asked
                asked += "ready" in key
                return await kept.kv_get(key)

        from redstart.store.memory import MemoryStore

        kept = MemoryStore()
        store: Any = Counting()
        server = Server("live", store=store)
        http = Http(server.asgi())
        responses = await asyncio.gather(*(probe(http, "/readyz") for _ in range(50)))
        assert {response.status for response in responses} == {200}
        assert asked == 1
        await server.runtime.stop()

    run(test())


SOURCE = """
import asyncio, sys
from redstart import Server
server = Server("live")
@server.tool
async def rest() -> str:
    print("resting", file=sys.stderr, flush=True)
    await asyncio.sleep(60)
    return "rested"
"""


def ask(port: int, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", path, headers={"host": "10.1.2.3"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_on_our_own_socket_a_signal_makes_it_unready_before_it_refuses_connections(tmp_path: Path) -> None:
    (tmp_path / "live.py").write_text(SOURCE)
    port = free_port()
    words = [sys.executable, "-m", "redstart", "run", str(tmp_path / "live.py"), "--http", "--port", str(port)]
    with Child(command=[*words, "--drain-delay", "2.5"]) as child:
        child.read_until(b"is served at", "stderr")
        assert ask(port, "/healthz") == (200, {"ok": True, "reason": "the process runs"})
        assert ask(port, "/readyz") == (200, {"ok": True, "reason": "the server is ready"})
        child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE
        while (answer := ask(port, "/readyz"))[0] == 200:
            assert time.monotonic() < deadline
        assert answer == (503, {"ok": False, "reason": "the server is stopping"})
        assert ask(port, "/healthz")[0] == 200
        assert child.process.wait(DEADLINE) == 0
        assert b"rror" not in child.rest("stderr")
