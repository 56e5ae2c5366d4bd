"""The page beside the endpoint: who may see it, what it tells, what it hides."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from inspector.development import TOKEN, command, developing
from redstart import Client
from support import DEADLINE, ERAS, MODERN, NOVEMBER, run

SERVER = """
import logging
from typing import Annotated
from msgspec import Meta
from redstart import Context, Server

server = Server("demo", version="1.0", instructions="Try it.")

@server.tool
def login(user: str, password: Annotated[str, Meta(extra_json_schema={"format": "password"})]) -> str:
    return "welcome " + user

@server.tool
def divide(a: int, b: int) -> float:
    return a / b

@server.tool
async def greet(ctx: Context) -> str:
    await ctx.debug("looking around")
    logging.getLogger("shop").warning("nobody is here")
    return "hello " + await ctx.ask("Your name?", str)

@server.prompt
def review(code: str) -> str:
    return code

@server.resource("notes://all")
def notes() -> str:
    return "all"
"""


def answer(request: Any) -> Any:
    return dict.fromkeys(request.schema["properties"], "Ada")


def test_who_may_see_what(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            developing(tmp_path, SERVER) as dev,
            httpx2.AsyncClient(base_url=dev.origin, timeout=DEADLINE) as web,
        ):
            page = await web.get("/")
            assert page.headers["content-type"].startswith("text/html")
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert dev.token not in page.text
            for path in ("state", "events", "reload", "forget"):
                for token in ({}, {TOKEN: "wrong"}, {"Authorization": f"Bearer {dev.token}"}):
                    method = "GET" if path in ("state", "events") else "POST"
                    refused = await web.request(method, f"/_redstart/{path}", headers=token)
                    assert refused.status_code == 401, path
                    assert "open the URL that the terminal shows" in refused.json()["error"]
            own = {TOKEN: dev.token}
            assert (await web.get(f"/_redstart/state?token={dev.token}")).status_code == 401
            assert (
                await web.get("/_redstart/state", headers={**own, "Origin": "https://evil.example"})
            ).status_code == 403
            assert (await web.get("/_redstart/state", headers={**own, "Host": "evil.example"})).status_code == 421
            assert (await web.get("/_redstart/state", headers={**own, "Origin": dev.origin})).status_code == 200
            assert (await web.get("/_redstart/events?since=x", headers=own)).status_code == 400
            for name in ("nothing.js", "..%2fpage.py", "../page.py", "%2e%2e/page.py"):
                assert (await web.get(f"/_redstart/static/{name}", headers=own)).status_code == 404
            assert (await web.post("/_redstart/run", headers=own)).status_code == 404

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_what_the_state_and_the_events_tell(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        async with developing(tmp_path, SERVER) as dev:
            info = {"name": "tester", "version": "3"}
            async with Client(dev.url, protocol=era, on_elicit=answer, client_info=info) as client:
                assert (await client.call_tool("login", {"user": "ada", "password": "hunter2"})).content
                await client.call_tool("divide", {"a": 1, "b": 0})
                await client.call_tool("greet", {})
                state = await dev.state()
                check_state(state, era, tmp_path)
                await check_events(dev, era, tmp_path)

    run(main())


def check_state(state: Any, era: str, folder: Path) -> None:
    assert state["server"]["name"] == "demo"
    assert state["server"]["instructions"] == "Try it."
    assert state["protocols"][0] == MODERN
    place = {"file": str(folder / "server.py"), "line": 9, "shown": "server.py:9"}
    assert state["places"]["tools"]["login"] == place
    assert list(state["places"]["prompts"]) == ["review"]
    assert list(state["places"]["resources"]) == ["notes://all"]
    (client,) = [record for record in state["clients"] if record["name"] == "tester"]
    assert (client["version"], client["revision"], client["transport"]) == ("3", era, "http")
    assert "elicitation" in client["capabilities"]
    assert state["tools"]["divide"]["count"] == state["tools"]["divide"]["errors"] == 1
    assert state["tools"]["greet"]["count"] == 1
    assert all(one["file"].startswith("~") for one in state["install"])
    claude = {one["transport"]: one for one in state["install"] if one["client"] == "claude-code"}
    assert str(folder / "server.py") in claude["stdio"]["text"]
    assert state["endpoint"] in claude["http"]["text"]
    undescribed = [one for one in state["findings"] if one["code"] == "RS101"]
    assert "login" in {one["name"] for one in undescribed}


async def check_events(dev: Any, era: str, folder: Path) -> None:
    failed = await dev.event("call", lambda event: event["name"] == "divide" and event["state"] == "done")
    assert failed["outcome"] == "tool_error"
    assert failed["error"]["type"] == "ZeroDivisionError"
    assert failed["error"]["place"]["shown"] == "server.py:15"
    assert failed["error"]["frames"][-1]["source"] == "return a / b"
    assert len(failed["error"]["id"]) == 8
    assert set(failed["timings"]) == {"queue", "validate", "handler", "encode"}
    asked = await dev.event("call", lambda event: event["name"] == "greet" and event["state"] == "waiting")
    greeted = await dev.event("call", lambda event: event["name"] == "greet" and event["state"] == "done")
    assert asked["call"] == greeted["call"]
    assert greeted["rounds"] == len(greeted["ids"]) == (2 if era == MODERN else 1)
    assert greeted["human"] > 0
    login = await dev.event("message", lambda event: event["name"] == "login" and event["direction"] == "in")
    assert "ada" in login["text"]
    assert "hunter2" not in login["text"]
    assert login["headers"]["host"] == dev.origin.removeprefix("http://")
    reply = await dev.event("message", lambda event: event["name"] == "login" and event["direction"] == "out")
    assert (reply["call"], reply["type"], reply["status"]) == (login["call"], "response", 200)
    assert "welcome ada" in reply["text"]
    assert (await dev.event("log", lambda event: event["source"] == "context"))["text"] == "looking around"
    warning = await dev.event("log", lambda event: event["logger"] == "shop")
    assert (warning["call"], warning["text"]) == (greeted["call"], "nobody is here")
    assert (await dev.event("client", lambda event: event["client"]["name"] == "tester"))["change"] == "came"


def test_a_client_that_goes_is_reported_and_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path, SERVER) as dev:
            async with Client(dev.url, protocol=NOVEMBER, client_info={"name": "short", "version": "1"}) as client:
                await client.list_tools()
            went = await dev.event("client", lambda event: event["change"] == "went")
            assert went["client"]["name"] == "short"
            assert went["client"]["open"] is False
            assert (await dev.post("/_redstart/forget")).status_code == 204
            assert (await dev.state())["clients"] == []

    run(main())


def test_the_applications_own_page_stays(tmp_path: Path) -> None:
    text = SERVER + "\n@server.route('/')\ndef home() -> str:\n    return 'my own page'\n"

    async def main() -> None:
        async with developing(tmp_path, text) as dev, httpx2.AsyncClient(base_url=dev.origin, timeout=DEADLINE) as web:
            assert (await web.get("/")).text == "my own page"
            assert (await web.get("/_redstart/")).headers["content-type"].startswith("text/html")

    run(main())


def test_nothing_is_served_by_run_alone_and_inspect_hides_what_callers_say(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    arguments = ("run", "server.py", "--http", "--port", "0")

    async def main() -> None:
        async with command(*arguments, "--inspect", cwd=tmp_path) as dev:
            async with Client(dev.url, headers={"X-Api-Key": "key-1", "X-Note": "note-1"}) as client:
                await client.call_tool("login", {"user": "ada", "password": "hunter2"})
                await client.call_tool("divide", {"a": 1, "b": 0})
            state = await dev.state()
            assert (state["mode"], state["redacted"], state["canReload"]) == ("run", True, False)
            failed = await dev.event("call", lambda event: event["name"] == "divide" and event["state"] == "done")
            assert (failed["error"]["type"], failed["error"]["text"]) == ("ZeroDivisionError", "")
            batches = dev.batches()
            seen = str(await anext(batches))
            await batches.aclose()
            for secret in ("hunter2", "ada", "welcome", "key-1", "note-1", "division by zero", "return a / b"):
                assert secret not in seen, secret
            assert (await dev.post("/_redstart/reload")).status_code == 409

    run(main())


def test_the_events_of_all_workers_reach_the_page(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("--workers is not for Windows")
    (tmp_path / "server.py").write_text(SERVER)
    arguments = ("run", "server.py", "--http", "--port", "0", "--workers", "2", "--inspect")

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "redstart", *arguments, "--store", "sqlite:///shared.db"),
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        from inspector.development import Dev

        dev = Dev(process)
        try:
            dev.token = (await dev.line(r"/#token=(\S+)"))[1]
            dev.origin = (await dev.line(r"is served at (http://[^/]+)"))[1]
            async with asyncio.timeout(20):
                while sum("is served at" in line for line in dev.lines) < 2:
                    await asyncio.sleep(0.05)  # the second process starts
            workers: set[int | None] = set()

            async def call() -> None:
                """A call is not shown if its process has yet to hear of the page: so there is always another."""
                while True:
                    async with Client(dev.url) as client:
                        await client.call_tool("divide", {"a": 4, "b": 2})

            async with asyncio.timeout(20):
                calls = asyncio.create_task(call())
                async for batch in dev.batches():
                    workers |= {event["worker"] for event in batch["events"] if event["kind"] == "call"}
                    if len(workers) == 2:
                        break
                calls.cancel()
                while (await dev.state())["workers"] != 2:
                    continue  # the other process has yet to answer
            assert None in workers  # its own
        finally:
            process.terminate()
            await dev.ended()

    run(main())


BROWSER = """#!/bin/sh
file="${1#file://}"
echo "browser $(stat -c %a "$file") $*|$(cat "$file")" >&2
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the browser of this test is a shell script")
@pytest.mark.parametrize("words", [("dev", "server.py"), ("inspect", "--", "no-such-program")], ids=["dev", "inspect"])
@pytest.mark.parametrize("used", [True, False], ids=["used", "not used"])
def test_no_other_user_learns_the_token_when_the_browser_opens(
    tmp_path: Path, words: tuple[str, ...], used: bool
) -> None:
    """The arguments of a program are visible to all: it is given a file that only this user can read, for a while."""
    (tmp_path / "server.py").write_text(SERVER)
    browser = tmp_path / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o700)
    home = tmp_path / "home"
    home.mkdir()

    async def main() -> None:
        env = {"DISPLAY": ":0", "BROWSER": f"{browser} %s", "HOME": str(home)}
        async with command(words[0], "--port", "0", *words[1:], cwd=tmp_path, **env) as dev:
            mode, file, text = (await dev.line(r"browser (\d+) (\S+)\|(.*)")).groups()
            assert (mode, file) == ("600", next(home.iterdir()).as_uri())
            assert dev.token not in file
            assert f'content="0;url={dev.origin}/#token={dev.token}"' in text
            if used:
                for _ in range(2):
                    await dev.state()
                assert list(home.iterdir()) == []
        assert list(home.iterdir()) == []

    run(main())
