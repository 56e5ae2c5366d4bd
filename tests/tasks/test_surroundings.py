"""What surrounds the handler of a task: users, headers, middleware, `visible=`, `needs=`, and the kinds of handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

from execution import process_tools
from execution.test_processes import alive
from redstart import Call, Context, Depends, Next, Progress, Server, SyncContext, ToolError, User
from support import HANDSHAKES, MODERN, NOVEMBER, Peer, run
from support import until as until_true
from tasks.clients import EXTENSION, RELATED, started, until, with_peer

ERAS = [NOVEMBER, MODERN]


async def outcome(peer: Peer, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool that was run as a task."""
    id = (await started(peer, tool, **arguments))["taskId"]
    if peer.modern:
        return (await until(peer, id))["result"]  # type: ignore[no-any-return]
    return (await peer.call("tasks/result", taskId=id))["result"]  # type: ignore[no-any-return]


async def text(peer: Peer, tool: str, **arguments: Any) -> str:
    return "\n".join(block["text"] for block in (await outcome(peer, tool, **arguments))["content"])


# ---------------------------------------------------------------- lists and revisions


@pytest.mark.requirement("126")
@pytest.mark.parametrize("revision", [*HANDSHAKES, MODERN])
def test_a_client_is_told_which_tools_run_as_tasks_if_its_revision_knows_it(revision: str) -> None:
    async def script(peer: Peer) -> None:
        tools = {tool["name"]: tool for tool in (await peer.call("tools/list"))["result"]["tools"]}
        if revision == NOVEMBER:
            assert tools["double"]["execution"] == {"taskSupport": "optional"}
            assert tools["must"]["execution"] == {"taskSupport": "required"}
            assert "execution" not in tools["plain"]
        else:
            assert not [name for name, tool in tools.items() if "execution" in tool]

    with_peer(revision, script)


@pytest.mark.requirement("33", "127", "T17")
@pytest.mark.parametrize("revision", HANDSHAKES[:-1])
def test_clients_of_earlier_revisions_run_everything_at_once(revision: str) -> None:
    async def script(peer: Peer) -> None:
        assert "tasks" not in peer.opened["result"]["capabilities"]
        given: list[dict[str, Any]] = [{}, {"task": {}}, {"task": {"ttl": -1}}]
        for task in given:
            for tool in ("must", "double"):
                params = {"name": tool, "arguments": {"number": 0}, **task}
                result = (await peer.request("tools/call", params))["result"]
                assert result["content"][0]["text"] == "0"
                assert "task" not in result
        for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"):
            assert (await peer.call(method, taskId="x"))["error"]["code"] == -32601

    with_peer(revision, script)


@pytest.mark.requirement("T81")
@pytest.mark.parametrize("declared", [None, True, "yes", 1, []])
def test_only_an_object_declares_the_extension(declared: Any) -> None:
    async def script(peer: Peer) -> None:
        refused = (await peer.call("tools/call", name="must", arguments={"number": 1}))["error"]
        assert refused["code"] == -32021
        assert refused["data"] == {"requiredCapabilities": EXTENSION}

    with_peer(MODERN, script, {"extensions": {"io.modelcontextprotocol/tasks": declared}})


@pytest.mark.requirement("T82")
def test_a_handler_that_does_not_detach_is_an_ordinary_call() -> None:
    server = Server("detach")

    @server.tool(task="optional", detach="manual")
    async def maybe(ctx: Context, long: bool) -> str:
        if long:
            await ctx.detach()
        return "task" if ctx.task_id else "call"

    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "maybe", "arguments": {"long": False}}
        if not peer.modern:
            params["task"] = {}
        assert (await peer.request("tools/call", params))["result"]["content"][0]["text"] == "call"
        assert await text(peer, "maybe", long=True) == "task"

    with_peer(MODERN, script, server=server)


# ---------------------------------------------------------------- who asks


class Person:
    """A user of an application's own class."""

    def __init__(self, id: str) -> None:
        self.id = id


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("principal", "seen"),
    [
        ("ada", "ada"),
        ({"sub": "ada", "roles": ["admin"]}, {"sub": "ada", "roles": ["admin"]}),
        (Person("ada"), "ada"),
        (SimpleNamespace(username="ada"), "ada"),
        (None, None),
    ],
)
def test_the_user_of_a_task(era: str, principal: Any, seen: Any) -> None:
    server = Server("users")

    @server.tool(task="optional")
    async def who(ctx: Context) -> dict[str, Any]:
        return {"user": ctx.user, "headers": dict(ctx.headers), "revision": ctx.protocol_version}

    async def main() -> None:
        peer = await Peer(server, era, capabilities=EXTENSION, principal=principal).open()
        result = (await outcome(peer, "who"))["structuredContent"]
        assert result == {"user": seen, "headers": {}, "revision": era}
        await peer.close()

    run(main(), server)


@pytest.mark.parametrize("era", ERAS)
def test_a_user_of_a_token_is_one_in_a_task_too(era: str) -> None:
    server = Server("users")
    ada = User("ada", issuer="https://login.example.com", scopes="read write", claims={"org": "x"})
    seen: list[Any] = []

    @server.tool(task="optional")
    async def who(ctx: Context) -> str:
        seen.append(ctx.user)
        return "done"

    async def main() -> None:
        peer = await Peer(server, era, capabilities=EXTENSION, principal=ada).open()
        await outcome(peer, "who")
        await peer.close()

    run(main(), server)
    assert seen == [ada]
    assert seen[0].principal == "https://login.example.com ada"


@pytest.mark.parametrize("era", ERAS)
def test_what_a_handler_knows_of_its_client(era: str) -> None:
    server = Server("clients")

    @server.tool(task="optional", needs=["elicitation"])
    async def knows(ctx: Context) -> list[Any]:
        return [ctx.can_elicit, ctx.can_sample, ctx.meta.get("trace")]

    async def main() -> None:
        capabilities = {"elicitation": {}, **EXTENSION}
        peer = await Peer(server, era, capabilities=capabilities, meta={"trace": "t1"}).open()
        assert await text(peer, "knows") == '[true,false,"t1"]'
        await peer.close()

    run(main(), server)


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_that_needs_what_a_client_lacks_does_not_become_a_task(era: str) -> None:
    ran: list[int] = []
    server = Server("needs")

    @server.tool(task="optional", needs=["sampling"])
    async def thinks() -> str:
        ran.append(1)
        return "thought"

    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "thinks", "arguments": {}} | ({} if peer.modern else {"task": {}})
        answer = await peer.request("tools/call", params)
        if peer.modern:
            assert answer["error"]["code"] == -32021
        else:
            assert answer["result"]["isError"] is True
            assert "sampling" in answer["result"]["content"][0]["text"]
        assert not ran

    with_peer(era, script, EXTENSION, server)


@pytest.mark.parametrize("era", ERAS)
def test_who_may_see_a_tool_is_decided_when_the_task_is_created(era: str) -> None:
    """A rule may look at what only the request has: a user of an application's own class."""
    server = Server("rules")

    @server.tool(task="optional", visible=lambda user: isinstance(user, Person) and user.id == "ada")
    async def secret() -> str:
        return "a secret"

    async def main() -> None:
        ada = await Peer(server, era, capabilities=EXTENSION, principal=Person("ada")).open()
        eve = await Peer(server, era, capabilities=EXTENSION, principal=Person("eve")).open()
        assert await text(ada, "secret") == "a secret"
        params: dict[str, Any] = {"name": "secret", "arguments": {}, "task": {}}
        error = (await eve.request("tools/call", params))["error"]
        assert (error["code"], "Unknown tool" in error["message"]) == (-32602, True)
        await ada.close()
        await eve.close()

    run(main(), server)


@pytest.mark.parametrize("era", ERAS)
def test_middleware_is_called_for_the_request_and_in_the_worker(era: str) -> None:
    server = Server("middleware")
    seen: list[tuple[str, bool, Any]] = []

    @server.add_middleware
    async def watch(call: Call, next: Next) -> Any:
        if call.method.name == "tools/call":
            seen.append((type(call.task).__name__, call.headers is None, call.user))
            if "number" in call.arguments and call.task is None:
                call.arguments = {"number": call.arguments["number"] + 1}
        return await next(call)

    @server.tool(task="optional")
    async def same(number: int) -> int:
        return number

    async def main() -> None:
        peer = await Peer(server, era, capabilities=EXTENSION, principal="ada").open()
        assert await text(peer, "same", number=1) == "2"
        assert seen == [("NoneType", True, "ada"), ("Leg", True, "ada")]
        await peer.close()

    run(main(), server)


@pytest.mark.parametrize("era", ERAS)
def test_middleware_refuses_a_task(era: str) -> None:
    server = Server("middleware")

    @server.add_middleware
    async def refuse(call: Call, next: Next) -> Any:
        if call.method.name == "tools/call":
            raise ToolError("not today")
        return await next(call)

    @server.tool(task="optional")
    async def same(number: int) -> int:
        return number

    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "same", "arguments": {"number": 1}} | ({} if peer.modern else {"task": {}})
        result = (await peer.request("tools/call", params))["result"]
        assert (result["isError"], result["content"][0]["text"]) == (True, "not today")

    with_peer(era, script, server=server)


@pytest.mark.parametrize("era", ERAS)
def test_arguments_that_do_not_fit(era: str) -> None:
    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "double", "arguments": {"number": "x"}}
        if peer.modern:  # what cannot run need not become a task
            result = (await peer.request("tools/call", params))["result"]
        else:
            id = (await peer.request("tools/call", {**params, "task": {}}))["result"]["task"]["taskId"]
            result = (await peer.call("tasks/result", taskId=id))["result"]
            assert (await until(peer, id))["status"] == "failed"
        assert result["isError"] is True
        assert "number" in result["content"][0]["text"]

    with_peer(era, script)


# ---------------------------------------------------------------- kinds of handlers


def kinds() -> Server:
    server = Server("kinds", threads=2, processes=2)

    def opened() -> Iterator[str]:
        yield "a resource"

    @server.tool(task="optional")
    def in_thread(ctx: SyncContext) -> str:
        ctx.progress(1, 2, "half")
        return f"{ctx.attempt} {ctx.task_id is not None}"

    @server.tool(task="optional")
    def yields() -> Iterator[Any]:
        yield "one"
        yield Progress(1, 2, "half")
        yield "two"

    @server.tool(task="optional")
    async def yields_later() -> AsyncIterator[Any]:
        yield "one"
        yield "two"

    @server.tool(task="optional")
    async def depends(resource: Annotated[str, Depends(opened)]) -> str:
        return resource

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @server.tool(task="optional")
    async def wordless() -> str:
        raise Broken

    @server.tool(task="optional")
    async def exits() -> str:
        raise SystemExit(3)

    @server.tool(task="optional")
    async def surrogate() -> str:
        return "\ud800"

    server.tool(task="optional", executor="process")(process_tools.pid)
    return server


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "wanted"),
    [("in_thread", "1 true"), ("yields", "one\ntwo"), ("yields_later", "one\ntwo"), ("depends", "a resource")],
)
def test_every_kind_of_handler_runs_as_a_task(era: str, tool: str, wanted: str) -> None:
    async def script(peer: Peer) -> None:
        assert (await text(peer, tool)).lower() == wanted

    with_peer(era, script, server=kinds())


@pytest.mark.requirement("T87")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["wordless", "exits", "surrogate"])
def test_no_exception_leaves_a_task_without_an_end(era: str, tool: str) -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, tool))["taskId"]
        task = await until(peer, id)
        assert task["status"] == ("completed" if peer.modern else "failed")
        result = task["result"] if peer.modern else (await peer.call("tasks/result", taskId=id))["result"]
        assert result["isError"] is True

    with_peer(era, script, server=kinds())


@pytest.mark.requirement("129")
@pytest.mark.parametrize("tool", ["double", "fails", "breaks"])
def test_the_result_is_what_the_call_would_have_had(tool: str) -> None:
    async def script(peer: Peer) -> None:
        arguments = {"number": 2} if tool == "double" else {}
        plain = await peer.call("tools/call", name=tool, arguments=arguments)
        id = (await started(peer, tool, **arguments))["taskId"]
        later = await peer.call("tasks/result", taskId=id)
        if "result" in later:
            assert later["result"].pop("_meta")[RELATED] == {"taskId": id}
            plain["result"].pop("_meta", None)
        assert {**later, "id": 0} == {**plain, "id": 0}

    with_peer(NOVEMBER, script)


@pytest.mark.requirement("133")
@pytest.mark.parametrize("era", ERAS)
def test_the_process_of_a_cancelled_task_is_killed(era: str, tmp_path: Path) -> None:
    server = Server("processes", processes=1)
    server.tool(task="optional", executor="process")(process_tools.hangs)
    marker = tmp_path / "marker"

    async def main() -> None:
        peer = await Peer(server, era, capabilities=EXTENSION).open()
        id = (await started(peer, "hangs", marker=str(marker)))["taskId"]
        await until_true(marker.exists)
        child, grandchild = map(int, marker.read_text().split())
        assert "result" in await peer.call("tasks/cancel", taskId=id)
        assert (await until(peer, id))["status"] == "cancelled"
        await until_true(lambda: not alive(child) and not alive(grandchild))
        await peer.close()

    run(main(), server)
