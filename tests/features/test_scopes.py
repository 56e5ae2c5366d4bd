"""`scopes=`: what a token must allow, in lists and in calls, and the challenge for one that does not."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

import pytest

from redstart import Client, Complete, Context, Server, User
from redstart.auth import BearerTokens, TokenVerifier
from redstart.client.errors import RequestError
from redstart.wire.meta import CLIENT_CAPABILITIES
from support import ERAS, MODERN, NOVEMBER, message, run
from tasks.clients import EXTENSION
from transports.support import Child, Http
from transports.test_protected import fields

WRITER = User("ada", scopes="mcp notes:read notes:write")
READER = User("bob", scopes="mcp notes:read")
SAID = "needs a token with the scopes: notes:read notes:write"


def first(result: Any) -> str:
    return str(result.content[0].text)


def notes(**options: Any) -> Server:
    server = Server("notes", **options)

    @server.tool
    async def plain() -> str:
        return "plain"

    @server.tool(scopes=["notes:read", "notes:write"])
    async def write() -> str:
        return "written"

    @server.tool(scopes="notes:write", visible=lambda user: True)
    async def offered() -> str:
        return "offered"

    @server.tool(scopes="notes:write", visible=lambda user: user is not None and user.subject == "ada")
    async def secret() -> str:
        return "secret"

    @server.tool
    async def inner(ctx: Context) -> str:
        return first(await ctx.call_tool("write", {}))

    @server.tool(scopes="notes:write", task="optional")
    async def job() -> str:
        return "done"

    @server.prompt(scopes=["notes:write"])
    def review(language: Annotated[str, Complete(["en", "de"])] = "en") -> str:
        return "review"

    @server.resource("notes://all", scopes=["notes:write"])
    def everything() -> str:
        return "all"

    @server.resource("note://{name}", scopes=["notes:write"])
    def one(name: str) -> str:
        return name

    return server


@pytest.mark.parametrize("era", ERAS)
def test_lists_have_what_a_token_allows(era: str) -> None:
    async def listed(user: object) -> list[set[str]]:
        async with Client(notes(), user=user, protocol=era) as client:
            return [
                {tool.name for tool in await client.list_tools()},
                {prompt.name for prompt in await client.list_prompts()},
                {resource.uri for resource in await client.list_resources()},
                {template.uri_template for template in await client.list_resource_templates()},
            ]

    async def test() -> None:
        everything = {"plain", "write", "offered", "secret", "inner", "job"}
        assert await listed(WRITER) == [everything, {"review"}, {"notes://all"}, {"note://{name}"}]
        for user in (READER, None, "ada", {"sub": "ada", "scope": "notes:read"}):
            assert await listed(user) == [{"plain", "offered", "inner"}, set(), set(), set()]
        claims = {"sub": "ada", "scope": "notes:read notes:write"}
        assert "write" in (await listed(claims))[0]

    run(test())


@pytest.mark.requirement("T108")
@pytest.mark.parametrize("era", ERAS)
def test_calls_need_the_scopes(era: str) -> None:
    async def test() -> None:
        async with Client(notes(), user=WRITER, protocol=era) as client:
            assert first(await client.call_tool("write", {})) == "written"
            assert first(await client.call_tool("inner", {})) == "written"
            assert (await client.get_prompt("review")).messages
            assert (await client.read_resource("notes://all")).contents[0].text == "all"
            assert (await client.read_resource("note://x")).contents[0].text == "x"
        async with Client(notes(), user=READER, protocol=era) as client:
            assert first(await client.call_tool("plain", {})) == "plain"
            with pytest.raises(RequestError, match=SAID) as caught:
                await client.call_tool("write", {})
            assert caught.value.data == {"requiredScopes": ["notes:read", "notes:write"]}
            for refused in (
                client.call_tool("offered", {}),
                client.call_tool("job", {}),
                client.get_prompt("review"),
                client.read_resource("notes://all"),
                client.read_resource("note://x"),
                client.complete({"type": "ref/prompt", "name": "review"}, "language", "e"),
            ):
                with pytest.raises(RequestError, match="needs a token with the scopes: notes:write"):
                    await refused
            with pytest.raises(RequestError, match="Unknown tool"):  # what is not visible does not exist
                await client.call_tool("secret", {})

    run(test())


def guarded() -> Http:
    tokens = {"writer": WRITER, "reader": READER}
    verifier = TokenVerifier(tokens.get, authorization_servers=["https://login.example.com"], scopes="mcp")
    return Http(notes(auth=verifier).asgi())


CHALLENGE = {
    "error": "insufficient_scope",
    "scope": "mcp notes:read notes:write",
    "resource_metadata": "http://localhost:8000/.well-known/oauth-protected-resource/mcp",
}


def test_over_http_a_client_is_told_what_to_ask_for() -> None:
    async def test() -> None:
        http, call = guarded(), {"name": "write", "arguments": {}}
        good = await http.modern(1, "tools/call", call, headers={"authorization": "Bearer writer"})
        assert (good.status, "www-authenticate" in good.headers) == (200, False)
        for accept in ("application/json, text/event-stream", "text/event-stream", "application/json"):
            headers = {"authorization": "Bearer reader", "accept": accept}
            refused = await http.modern(2, "tools/call", call, headers=headers)
            assert refused.status == 403
            assert fields(refused.headers["www-authenticate"]) == CHALLENGE
            assert refused.json()["id"] == 2
            assert SAID in refused.json()["error"]["message"]
        read = await http.modern(3, "resources/read", {"uri": "note://x"}, headers={"authorization": "Bearer reader"})
        assert fields(read.headers["www-authenticate"])["scope"] == "mcp notes:write"

    run(test())


def test_a_tool_that_calls_another_one_needs_the_scopes_of_both() -> None:
    """A client that asks for exactly those of the challenge must not lose the ones that it has."""
    auth = BearerTokens({"reader": READER})
    server = Server("notes", auth=auth)

    @server.tool(scopes="notes:write")
    async def write() -> str:
        return "written"

    @server.tool(scopes=["notes:read", "mcp"])
    async def outer(ctx: Context) -> str:
        return first(await ctx.call_tool("write", {}))

    async def test() -> None:
        headers = {"authorization": "Bearer reader"}
        call = {"name": "outer", "arguments": {}}
        refused = await Http(server.asgi()).modern(1, "tools/call", call, headers=headers)
        assert refused.status == 403
        assert fields(refused.headers["www-authenticate"])["scope"] == "notes:read mcp notes:write"
        assert refused.json()["error"]["message"] == "write needs a token with the scopes: notes:write"
        assert refused.json()["error"]["data"] == {"requiredScopes": ["notes:read", "mcp", "notes:write"]}

    run(test())


def test_a_session_is_told_too_and_a_batch_as_a_whole_is_not_refused() -> None:
    async def test() -> None:
        http = guarded()
        reader = {"authorization": "Bearer reader"}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {}}}
        headers = await http.open(headers=reader)
        refused = await http.send(json.dumps(call).encode(), headers=headers)
        assert refused.status == 403
        assert fields(refused.headers["www-authenticate"]) == CHALLENGE
        headers = await http.open("2025-03-26", headers=reader)
        answers = await http.send(json.dumps([{**call, "id": 1}, call]).encode(), headers=headers)
        assert answers.status == 200
        assert "www-authenticate" not in answers.headers

    run(test())


@pytest.mark.parametrize("revision", [MODERN, NOVEMBER])
def test_a_task_is_for_tokens_that_may_call_its_tool(revision: str) -> None:
    """One user may have several tokens: one that may do less does not get the result of another one's call."""
    less = User("ada", scopes="mcp")
    verifier = TokenVerifier({"writer": WRITER, "less": less}.get, scopes="mcp")
    server = notes(auth=verifier)
    methods = ["tasks/get", "tasks/update", "tasks/cancel"] if revision == MODERN else ["tasks/get", "tasks/result"]

    async def test() -> None:
        http, meta = Http(server.asgi()), {CLIENT_CAPABILITIES: EXTENSION}

        async def ask(token: str, method: str, params: dict[str, Any]) -> Any:
            headers = {"authorization": f"Bearer {token}"}
            if revision == MODERN:
                named = {"mcp-name": params["taskId"]} if "taskId" in params else {}
                return await http.modern(1, method, params, headers={**headers, **named}, meta=meta)
            headers = await http.open(revision, headers=headers)
            return await http.send(message(1, method, params), headers=headers)

        call = {"name": "job", "arguments": {}} | ({} if revision == MODERN else {"task": {}})
        made = (await ask("writer", "tools/call", call)).json()["result"]
        named = {"taskId": made["taskId"] if revision == MODERN else made["task"]["taskId"], "inputResponses": {}}
        for method in methods:
            refused = await ask("less", method, named)
            assert (refused.status, refused.json()["error"]["data"]) == (403, {"requiredScopes": ["notes:write"]})
            assert fields(refused.headers["www-authenticate"])["scope"] == "mcp notes:write"
        if revision == MODERN:
            watching = {"notifications": {"taskIds": [named["taskId"]]}}
            assert (await ask("less", "subscriptions/listen", watching)).status == 403
        else:
            for token, count in (("writer", 1), ("less", 0)):
                assert len((await ask(token, "tasks/list", {})).json()["result"]["tasks"]) == count
        for method in methods:
            assert (await ask("writer", method, named)).status == 200

    run(test(), server)


@pytest.mark.requirement("T108")
def test_the_users_of_requests_that_run_at_once_stay_apart() -> None:
    tokens = {f"t{number}": User(f"user {number}", scopes="even" if number % 2 == 0 else "odd") for number in range(40)}
    server = Server("many", auth=BearerTokens(tokens))
    arrived: list[str] = []

    @server.tool
    async def who(ctx: Context) -> str:
        arrived.append(ctx.user.subject)
        while len(arrived) < 40:  # all of them are in the handler at once
            await asyncio.sleep(0)
        return f"{ctx.user.subject} {' '.join(ctx.user.scopes)}"

    async def test() -> None:
        http, call = Http(server.asgi()), {"name": "who", "arguments": {}}
        asked = [
            http.start_modern(0, "tools/call", call, headers={"authorization": f"Bearer t{number}"})
            for number in range(40)
        ]
        for number, response in enumerate(asked):
            said = (await response.done()).json()["result"]["content"][0]["text"]
            assert said == f"user {number} {'odd' if number % 2 else 'even'}"

    run(test())


def test_without_auth_nobody_has_a_scope(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        refused = await Http(notes().asgi()).modern(1, "tools/call", {"name": "write", "arguments": {}})
        assert refused.status == 403
        assert "www-authenticate" not in refused.headers

    run(test())
    assert "test_scopes.py:" in caplog.text
    assert "write needs the scopes notes:read notes:write, and nobody has them: give the Server auth=" in caplog.text
    caplog.clear()
    notes(stdio_scopes="notes:write")
    notes(auth=lambda token: None)
    assert caplog.text == ""


STDIO = """
from redstart import Context, Server
from redstart.auth import BearerTokens

server = Server("local", auth=BearerTokens({{"s3cret": "ada"}}){options})

@server.tool(scopes="write")
async def write(ctx: Context) -> str:
    return repr(ctx.user.subject)

server.run()
"""
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{},"_meta":%b}}'


@pytest.mark.requirement("T109")
@pytest.mark.parametrize("scopes", [None, "write"])
def test_on_stdio_the_local_user_has_the_scopes_that_the_operator_gives(scopes: str | None, tmp_path: Any) -> None:
    script = tmp_path / "local.py"
    script.write_text(STDIO.format(options=f", stdio_scopes={scopes!r}" if scopes else ""))
    with Child(command=[sys.executable, str(script)]) as child:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        }
        answer = child.ask(CALL % json.dumps(meta).encode())
        child.ask(CALL % json.dumps(meta).encode())
        child.close_input()
        said = child.rest("stderr").decode()
    assert said.count("auth= is not applied on stdio") == 1
    if scopes:
        assert answer["result"]["content"][0]["text"] == "'local'"
        assert "has the scopes write" in said
    else:
        assert "needs a token with the scopes: write" in answer["error"]["message"]
        assert "stdio_scopes=" in said


def test_a_scope_does_not_open_what_is_not_visible_for_its_user() -> None:
    async def main() -> None:
        async with Client(notes(), user=User("eve", scopes="mcp notes:read notes:write")) as eve:
            names = [tool.name for tool in await eve.list_tools()]
            assert "write" in names
            assert "secret" not in names
            with pytest.raises(RequestError, match="Unknown tool"):
                await eve.call_tool("secret", {})

    run(main())
