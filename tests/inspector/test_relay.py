"""`redstart inspect` in front of real servers: ours by URL and by command, in both eras, and one by others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from auth.provider import Provider, oidc_provider, sign_in
from inspector.development import TOKEN, Dev, command
from redstart import Client
from redstart.client import RequestError
from support import DEADLINE, ERAS, NOVEMBER, ROOT, free_port, initialize, node_packages, run, serving

SERVER = """
import asyncio, sys
from redstart import Context, Server
server = Server("behind", version="2.0")
@server.tool
async def count(ctx: Context, to: int) -> int:
    for step in range(to):
        await ctx.progress(step + 1, total=to)
    return to
@server.tool
async def greet(ctx: Context) -> str:
    print("asking", file=sys.stderr, flush=True)
    return "hello " + await ctx.ask("Your name?", str)
@server.tool
async def wait(ctx: Context) -> str:
    await ctx.progress(1)
    await asyncio.Event().wait()
@server.tool
async def grow(ctx: Context) -> str:
    server.register(later)
    return "done"
def later() -> str:
    return "later"
@server.resource("notes://{name}")
def note(name: str) -> str:
    return f"note {name}"
"""


def said(result: Any) -> str:
    content: str = result.content[0].text
    return content


async def visit(url: str, era: str, token: str) -> None:
    """All that goes to and fro between a client and a server."""
    steps: list[float] = []

    def answer(request: Any) -> Any:
        return dict.fromkeys(request.schema["properties"], "Ada")

    async with Client(url, protocol=era, on_elicit=answer, token=token) as client:
        assert client.server_info.name == "behind"
        assert client.protocol_version == era
        assert {tool.name for tool in await client.list_tools()} == {"count", "greet", "wait", "grow"}
        result = await client.call_tool("count", {"to": 3}, on_progress=lambda step: steps.append(step.progress))
        assert (result.data, steps) == (3, [1, 2, 3])
        assert said(await client.call_tool("greet", {})) == "hello Ada"
        assert (await client.read_resource("notes://a")).contents[0].text == "note a"
        async with client.listen(tools=True) as changes:
            await client.call_tool("grow", {})
            async with asyncio.timeout(10):
                assert (await anext(aiter(changes))).kind == "tools"
        begun = asyncio.Event()
        waiting = asyncio.create_task(client.call_tool("wait", {}, on_progress=lambda step: begun.set()))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("nothing", {})


@pytest.mark.parametrize("era", ERAS)
def test_a_command(tmp_path: Path, era: str) -> None:
    (tmp_path / "behind.py").write_text(SERVER + "\nserver.run()\n")

    async def main() -> None:
        async with command(
            "inspect", "--no-open", "--port", "0", "--", sys.executable, "behind.py", cwd=tmp_path
        ) as dev:
            await visit(dev.url, era, dev.token)
            call = await dev.event("call", lambda event: event["name"] == "greet" and event["state"] == "done")
            assert call["outcome"] == "ok"
            assert call["human"] >= 0
            assert (await dev.event("log", lambda event: event["source"] == "stderr"))["text"] == "asking"
            state = await dev.state()
            assert state["mode"] == "inspect"
            assert state["upstream"]["kind"] == "stdio"
            assert state["upstream"]["log"] == ["asking"] * (1 if era == ERAS[0] else 2)
            assert state["tools"]["count"]["count"] == 1
            await dev.event("call", lambda event: event["name"] == "wait" and event["outcome"] == "cancelled")

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_a_url_with_a_token(tmp_path: Path, era: str) -> None:
    port = free_port()
    text = SERVER.replace('version="2.0"', 'version="2.0", auth=lambda token: token if token == "secret" else None')
    (tmp_path / "behind.py").write_text(text + f"\nserver.run('http', port={port})\n")

    async def main(url: str) -> None:
        async with command("inspect", url, "--token", "secret", "--no-open", "--port", "0", cwd=tmp_path) as dev:
            await visit(dev.url, era, dev.token)
            seen = [event async for batch in first(dev.batches()) for event in batch["events"]]
            assert "secret" not in str(seen)

    with serving([sys.executable, str(tmp_path / "behind.py")], port) as url:
        run(main(url))


async def first(batches: Any) -> Any:
    async for batch in batches:
        yield batch
        return


HOSTILE = """
import json, sys
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
odd = [None, [], {}, "\\ud800", "x" * 100_000, 1e308, -1, True, [[1]], {"a": {"b": [None]}}]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    id, method = asked["id"], asked["method"]
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}, "logging": {}},
                  "serverInfo": {"name": "hostile", "version": "1"}}
    elif method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "logging": {}},
                  "serverInfo": {"name": "hostile", "version": "1"}, "resultType": "complete"}
    else:
        for value in odd:
            for name in ("progress", "message", "cancelled", "tools/list_changed", "resources/updated", "tasks", "x"):
                keys = ("progressToken", "progress", "total", "message", "level", "data", "logger", "requestId", "uri")
                send(method="notifications/" + name, params=dict.fromkeys(keys, value))
                send(method="notifications/" + name, params={**dict.fromkeys(keys, value), "progressToken": id})
                send(method="notifications/" + name, params=value)
                send(method="notifications/" + name, params={"_meta": value})
                meta = {"io.modelcontextprotocol/subscriptionId": value}
                send(method="notifications/" + name, params={"_meta": meta})
            send(id=value, result={})
            send(id=id + 1000, error=value)
            send(method=value)
        result = {"content": [{"type": "text", "text": "alive"}], "resultType": "complete"}
    send(id=id, result=result)
    sys.stdout.flush()
"""


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_sends_what_it_likes(tmp_path: Path, era: str) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)

    async def main() -> None:
        async with command(
            "inspect", "--no-open", "--port", "0", "--", sys.executable, "hostile.py", cwd=tmp_path
        ) as dev:
            async with Client(dev.url, protocol=era, token=dev.token) as client:
                for _ in range(3):
                    assert said(await client.call_tool("any", {}, timeout=20)) == "alive"
            assert (await dev.state())["tools"]["any"]["count"] == 3
            assert dev.process.returncode is None

    run(main())


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        async with command("inspect", "--no-open", "--port", "0", "--", "no-such-program", cwd=tmp_path) as dev:
            with pytest.raises(Exception, match="no-such-program"):
                async with Client(dev.url, token=dev.token):
                    pass
            assert "no-such-program" in (await dev.state())["upstream"]["error"]

    run(main())


ENDS = [sys.executable, "-c", "import sys; sys.exit('no key')"]
CHATS = [
    sys.executable,
    "-c",
    """if 1:
    import json, sys
    for line in sys.stdin:
        deep = "[" * 20_000 + "]" * 20_000
        print(json.dumps({"id": json.loads(line)["id"], "result": 0})[:-2] + deep + "}", flush=True)
""",
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("words", "reason", "said"),
    [
        (["URL"], "unreachable", "is the server running"),
        (["--", "no-such-program"], "not started", "cannot start"),
        (["--", *ENDS], "ended", "no key"),
        (["--", *CHATS], "unreadable", "nested too deeply"),
    ],
    ids=["nobody listens", "no such program", "ends", "deep"],
)
def test_why_a_server_does_not_answer(tmp_path: Path, era: str, words: list[str], reason: str, said: str) -> None:
    words = [word.replace("URL", f"http://127.0.0.1:{free_port()}/mcp") for word in words]

    async def main() -> None:
        async with command("inspect", "--no-open", "--port", "0", *words, cwd=tmp_path) as dev:
            with pytest.raises(RequestError, match=said) as failed:
                async with Client(dev.url, token=dev.token, protocol=era):
                    pass
            assert failed.value.data == {"reason": reason}

    run(main())


@pytest.mark.slow("npm installs it, and its tools take seconds")
def test_the_official_reference_server() -> None:
    node, modules = node_packages("inspector", Path(__file__).parent / "node")

    async def main() -> None:
        script = modules / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
        async with (
            command("inspect", "--no-open", "--port", "0", "--", node, str(script), "stdio", cwd=ROOT) as dev,
            Client(dev.url, token=dev.token) as client,
        ):
            assert "echo" in {tool.name for tool in await client.list_tools()}
            assert said(await client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
            await dev.event("call", lambda event: event["name"] == "echo" and event["state"] == "done")

    run(main())


def test_others_on_this_machine_cannot_use_the_server_as_this_person(tmp_path: Path) -> None:
    """CVE-2025-49596: a proxy for development that starts programs, and has a token, for whoever asks."""
    (tmp_path / "behind.py").write_text(SERVER + "\nserver.run()\n")

    async def main() -> None:
        words = ("inspect", "--no-open", "--port", "0", "--", sys.executable, "behind.py")
        async with command(*words, cwd=tmp_path) as dev, httpx2.AsyncClient(timeout=DEADLINE) as browser:
            for token in ("", "wrong"):
                with pytest.raises(RequestError, match="bearer token is needed"):
                    async with Client(dev.url, token=token or None):
                        pass
            cookie = (await dev.get("/_redstart/state")).headers["set-cookie"]
            assert "; Path=/mcp; HttpOnly; SameSite=Strict" in cookie
            sent = {"cookie": cookie.partition(";")[0], "content-type": "application/json"}
            hello = initialize(NOVEMBER)
            assert (await browser.post(dev.url, content=hello, headers=sent)).status_code == 200  # the page
            sent["cookie"] = sent["cookie"][:-1]
            assert (await browser.post(dev.url, content=hello, headers=sent)).status_code == 401
            refused = await browser.get(f"{dev.origin}/_redstart/state")
            assert (refused.status_code, refused.headers.get("set-cookie")) == (401, None)

    run(main())


# ---------------------------------------------------------------- several servers


def test_the_servers_of_a_file_in_turn(tmp_path: Path) -> None:
    """Each is started when it is used first; a session of the handshake era stays with the server of its beginning."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(
            f"import sys; print('{name} starts', file=sys.stderr, flush=True)\n"
            f"from redstart import Server\nserver = Server('{name}')\n"
            f"@server.tool\ndef who() -> str:\n    return '{name}'\nserver.run()\n"
        )
    entries = {name: {"command": sys.executable, "args": [f"{name}.py"]} for name in ("one", "two")}
    broken = {"command": "x", "env": {"KEY": "${NO_SUCH_VARIABLE}"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {**entries, "broken": broken}}))

    async def main() -> None:
        async with command("inspect", "--config", "mcp.json", "--no-open", "--port", "0", cwd=tmp_path) as dev:
            state = await dev.state()
            assert [one["name"] for one in state["servers"]] == ["one", "two", "broken"]
            assert (state["upstream"]["name"], state["target"]) == ("one", "mcp.json")
            async with Client(dev.url, token=dev.token, protocol=NOVEMBER) as session:
                assert said(await session.call_tool("who", {})) == "one"
                assert not any("two starts" in line for line in dev.lines)
                assert (await dev.post("/_redstart/use?server=two")).status_code == 204
                assert (await dev.state())["upstream"]["name"] == "two"
                async with Client(dev.url, token=dev.token) as client:
                    assert client.server_info.name == "two"
                    assert said(await client.call_tool("who", {})) == "two"
                assert said(await session.call_tool("who", {})) == "one"
            await dev.post("/_redstart/use?server=one")
            await dev.post("/_redstart/use?server=two")
            async with Client(dev.url, token=dev.token) as client:
                assert said(await client.call_tool("who", {})) == "two"
            await dev.line("two starts")
            assert sum("two starts" in line for line in dev.lines) == 1  # it was still connected
            assert (await dev.post("/_redstart/use?server=three")).status_code == 404
            await dev.post("/_redstart/use?server=broken")
            with pytest.raises(Exception, match="NO_SUCH_VARIABLE"):
                async with Client(dev.url, token=dev.token):
                    pass

    run(main())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mcp.json", "--token", "x"), "--token is for one server"),
        (("--config", "mcp.json", "server.py"), "another target is for one server"),
        (("--config", "none.json"), "cannot be read"),
        (("empty.json",), "has no servers"),
        (("--oauth", "--", "x"), "--oauth is for a URL"),
    ],
)
def test_what_a_file_of_servers_does_not_go_with(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (tmp_path / "empty.json").write_text('{"mcpServers": {}}')
    ended = subprocess.run(
        [sys.executable, "-m", "redstart", "inspect", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert said in ended.stderr


# ---------------------------------------------------------------- tokens, headers and sign-in from the page


def test_the_page_sets_token_and_headers_for_a_url(tmp_path: Path) -> None:
    port = free_port()
    text = SERVER.replace('version="2.0"', 'version="2.0", auth=lambda token: token if token == "secret" else None')
    text += "@server.tool\ndef team(ctx: Context) -> str:\n    return ctx.headers.get('x-team', 'none')\n"
    text = text.replace("def team(ctx: Context)", "async def team(ctx: Context)")
    (tmp_path / "behind.py").write_text(text + f"\nserver.run('http', port={port})\n")

    async def main(url: str) -> None:
        async with command("inspect", url, "--no-open", "--port", "0", cwd=tmp_path) as dev:
            with pytest.raises(RequestError) as refused:
                async with Client(dev.url, token=dev.token, protocol=ERAS[-1]) as client:
                    await client.list_tools()
            assert refused.value.data["status"] == 401
            wanted = {"token": "secret", "headers": {"X-Team": "blue"}}
            assert (await post(dev, "upstream", wanted)).status_code == 204
            async with Client(dev.url, token=dev.token) as client:
                assert said(await client.call_tool("team", {})) == "blue"
            refused_bodies: list[object] = [{"token": 1}, {"colour": "blue"}, {"token": " "}, []]
            for wrong in refused_bodies:
                assert (await post(dev, "upstream", wrong)).status_code == 400
            async with Client(dev.url, token=dev.token, protocol=NOVEMBER) as client:  # over a new connection
                assert said(await client.call_tool("team", {})) == "blue"
            assert "secret" not in str(await dev.state())

    with serving([sys.executable, str(tmp_path / "behind.py")], port) as url:
        run(main(url))


async def post(dev: Dev, action: str, body: object) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=DEADLINE) as web:
        return await web.post(f"{dev.origin}/_redstart/{action}", json=body, headers={TOKEN: dev.token})


GUARDED = """
from redstart import Context, Server
from redstart.auth import JWT, fetch
fetch.SECONDS = 20.0
server = Server("notes", auth=JWT(issuer={issuer!r}, audience="http://127.0.0.1:{port}/mcp", scopes="mcp"))
@server.tool
async def whoami(ctx: Context) -> str:
    return ctx.user.subject
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "begun_by", ["--oauth", pytest.param("the page", marks=pytest.mark.slow("the first is the quick one"))]
)
def test_signing_in_at_a_provider_that_we_did_not_write(tmp_path: Path, era: str, begun_by: str) -> None:
    async def main(url: str, provider: Provider) -> None:
        words = ["--oauth"] if begun_by == "--oauth" else []
        async with command("inspect", url, *words, "--no-open", "--port", "0", cwd=tmp_path) as dev:
            if not words:
                assert (await post(dev, "upstream", {"oauth": {}})).status_code == 204
            calling = asyncio.create_task(whoami(dev, era))
            asked = await dev.event("upstream", lambda event: event["signIn"] is not None)
            assert (await dev.state())["upstream"]["signIn"] == asked["signIn"]
            async with httpx2.AsyncClient(timeout=60) as browser:
                await browser.get(await sign_in(browser, asked["signIn"], provider, "ada"))
            async with asyncio.timeout(60):
                assert await calling == "ada"
            await dev.event("upstream", lambda event: event["signIn"] is None)
            assert (await dev.state())["upstream"]["signIn"] is None
            assert await whoami(dev, era) == "ada"  # with the same token: nobody is asked again
            if words:
                await dev.line("Sign in at http://127.0.0.1")

    port = free_port()
    with oidc_provider(scopes=["mcp"], registration=True) as provider:
        (tmp_path / "notes.py").write_text(GUARDED.format(issuer=provider.url, port=port))
        serve = [sys.executable, "-m", "redstart", "run", str(tmp_path / "notes.py"), "--http", "--port", str(port)]
        with serving(serve, port) as url:
            run(main(url, provider))


async def whoami(dev: Dev, era: str) -> str:
    async with Client(dev.url, token=dev.token, protocol=era, timeout=100) as client:
        return said(await client.call_tool("whoami", {}))
