"""Tasks in both protocols, on the store in memory: what a client sees from the first request to the result."""

from __future__ import annotations

from typing import Any

import pytest

from redstart import Context, Server
from support import JUNE, MODERN, NOVEMBER, Peer, run
from tasks.clients import EXTENSION, RELATED, TERMINAL, jobs, started, until, with_peer

# ---------------------------------------------------------------- who gets a task


@pytest.mark.requirement("T78")
def test_a_modern_client_with_the_extension_gets_a_task_at_once() -> None:
    async def script(peer: Peer) -> None:
        task = await started(peer, "double", number=21)
        assert task["resultType"] == "task"
        assert task["status"] == "working"
        assert task["ttlMs"] == 300_000
        assert {"result", "error", "inputRequests", "requestState", "task"}.isdisjoint(task)
        ended = await until(peer, task["taskId"])
        assert (ended["status"], ended["resultType"]) == ("completed", "complete")
        assert ended["result"]["structuredContent"] == {"result": 42}

    with_peer(MODERN, script)


@pytest.mark.requirement("T81")
def test_a_modern_client_without_the_extension_is_served_at_once_or_told_what_it_lacks() -> None:
    async def script(peer: Peer) -> None:
        assert (await peer.tool("double", number=21))["structuredContent"] == {"result": 42}
        refused = (await peer.call("tools/call", name="must", arguments={"number": 1}))["error"]
        assert refused["code"] == -32021
        assert refused["data"] == {"requiredCapabilities": EXTENSION}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            refused = (await peer.call(method, taskId="x", inputResponses={}))["error"]
            assert refused["code"] == -32021
        refused = (await peer.call("subscriptions/listen", notifications={"taskIds": ["x"]}))["error"]
        assert refused["code"] == -32021

    with_peer(MODERN, script, {})


@pytest.mark.requirement("33", "122", "124", "128", "129", "131", "T69")
def test_a_client_of_november_asks_for_a_task() -> None:
    async def script(peer: Peer) -> None:
        assert peer.opened["result"]["capabilities"]["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
        assert (await peer.tool("double", number=21))["structuredContent"] == {"result": 42}
        task = await started(peer, "double", number=21)
        assert task["ttl"] == 300_000  # a finished task is kept for five minutes
        assert set(task) == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        answer = await peer.call("tasks/result", taskId=task["taskId"])
        assert answer["result"]["structuredContent"] == {"result": 42}
        assert answer["result"]["_meta"][RELATED] == {"taskId": task["taskId"]}
        assert (await until(peer, task["taskId"]))["status"] == "completed"

    with_peer(NOVEMBER, script)


@pytest.mark.requirement("123", "125", "140", "T71", "T72")
@pytest.mark.parametrize(
    ("tool", "task", "code"),
    [("plain", {}, -32601), ("must", None, -32601), ("double", {"ttl": -1}, -32602), ("double", {"ttl": "1"}, -32602)],
)
def test_what_a_client_of_november_may_not_ask_for(tool: str, task: Any, code: int) -> None:
    async def script(peer: Peer) -> None:
        params = {"name": tool, "arguments": {"number": 1}} | ({} if task is None else {"task": task})
        assert (await peer.request("tools/call", params))["error"]["code"] == code

    with_peer(NOVEMBER, script)


@pytest.mark.requirement("140", "T67")
def test_a_ttl_is_cut_to_an_hour() -> None:
    async def script(peer: Peer) -> None:
        params = {"name": "double", "arguments": {"number": 1}, "task": {"ttl": 10**9}}
        assert (await peer.request("tools/call", params))["result"]["task"]["ttl"] == 3_600_000

    with_peer(NOVEMBER, script)


@pytest.mark.requirement("33", "126", "127", "T17")
def test_older_clients_run_everything_at_once_and_have_no_tasks() -> None:
    async def script(peer: Peer) -> None:
        assert "tasks" not in peer.opened["result"]["capabilities"]
        params = {"name": "must", "arguments": {"number": 3}, "task": {}}
        assert (await peer.request("tools/call", params))["result"]["structuredContent"] == {"result": 3}
        assert (await peer.call("tasks/get", taskId="x"))["error"]["code"] == -32601
        listed = (await peer.call("tools/list"))["result"]["tools"]
        assert all("execution" not in tool for tool in listed)

    with_peer(JUNE, script)


@pytest.mark.requirement("33", "T75")
def test_a_server_without_such_tools_has_no_tasks() -> None:
    server = Server("none")

    @server.tool
    async def plain() -> str:
        return "plain"

    async def script(peer: Peer) -> None:
        assert "tasks" not in peer.opened["result"]["capabilities"]
        for method in ("tasks/get", "tasks/cancel", "tasks/result", "tasks/list"):
            assert (await peer.call(method, taskId="x"))["error"]["code"] == -32601
        params = {"name": "plain", "arguments": {}, "task": {}}  # the spec: not declared, so ignored
        assert (await peer.request("tools/call", params))["result"]["content"][0]["text"] == "plain"

    with_peer(NOVEMBER, script, server=server)


# ---------------------------------------------------------------- how it ends


@pytest.mark.requirement("142", "T70", "T79")
def test_an_error_of_the_tool() -> None:
    async def november(peer: Peer) -> None:
        task = await started(peer, "fails")
        result = (await peer.call("tasks/result", taskId=task["taskId"]))["result"]
        assert (result["isError"], result["content"][0]["text"]) == (True, "no such bird")
        assert (await until(peer, task["taskId"]))["status"] == "failed"

    async def modern(peer: Peer) -> None:
        ended = await until(peer, (await started(peer, "fails"))["taskId"])
        assert (ended["status"], ended["result"]["isError"]) == ("completed", True)

    with_peer(NOVEMBER, november)
    with_peer(MODERN, modern)


@pytest.mark.requirement("129", "142")
def test_an_error_of_the_protocol() -> None:
    wanted = {"code": -32050, "message": "broken", "data": {"part": 3}}

    async def november(peer: Peer) -> None:
        task = await started(peer, "breaks")
        assert (await peer.call("tasks/result", taskId=task["taskId"]))["error"] == wanted
        assert (await until(peer, task["taskId"]))["status"] == "failed"

    async def modern(peer: Peer) -> None:
        ended = await until(peer, (await started(peer, "breaks"))["taskId"])
        assert (ended["status"], ended["error"], "result" in ended) == ("failed", wanted, False)

    with_peer(NOVEMBER, november)
    with_peer(MODERN, modern)


@pytest.mark.requirement("132", "133", "134", "135", "T68", "T80")
@pytest.mark.parametrize("tool", ["sleeps", "waits"])
def test_cancelled(tool: str) -> None:
    async def november(peer: Peer) -> None:
        id = (await started(peer, tool))["taskId"]
        _, waiting = peer._begin("tasks/result", {"taskId": id})
        cancelled = (await peer.call("tasks/cancel", taskId=id))["result"]
        assert cancelled["status"] == "cancelled"
        assert (await waiting)["error"]["code"] == -32602
        assert (await peer.call("tasks/cancel", taskId=id))["error"]["code"] == -32602
        assert (await until(peer, id))["status"] == "cancelled"

    async def modern(peer: Peer) -> None:
        id = (await started(peer, tool))["taskId"]
        for _ in range(2):
            ack = (await peer.call("tasks/cancel", taskId=id))["result"]
            assert {key for key in ack if key != "_meta"} == {"resultType"}
        assert (await until(peer, id))["status"] == "cancelled"

    with_peer(NOVEMBER, november)
    with_peer(MODERN, modern)


@pytest.mark.requirement("131", "T80")
@pytest.mark.parametrize("revision", [NOVEMBER, MODERN])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/result", "tasks/update"])
def test_an_unknown_id(revision: str, method: str) -> None:
    async def script(peer: Peer) -> None:
        answer = await peer.call(method, taskId="nothing", inputResponses={})
        gone = (method, revision) == ("tasks/result", MODERN)
        assert answer["error"]["code"] == (-32601 if gone else -32602)

    with_peer(revision, script)


@pytest.mark.requirement("T85")
def test_the_eras_do_not_see_each_others_tasks() -> None:
    server = jobs()

    async def main() -> None:
        old = await Peer(server, NOVEMBER).open()
        new = await Peer(server, MODERN, capabilities=EXTENSION).open()
        id = (await started(new, "double", number=1))["taskId"]
        assert (await old.call("tasks/get", taskId=id))["error"]["code"] == -32602
        id = (await started(old, "double", number=1))["taskId"]
        assert (await new.call("tasks/get", taskId=id))["error"]["code"] == -32602
        await old.close()
        await new.close()

    run(main(), server)


# ---------------------------------------------------------------- questions


@pytest.mark.requirement("T84")
def test_a_question_of_a_modern_task() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        task = await until(peer, id, "input_required")
        ((key, question),) = task["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Your name?"
        answers = {key: {"action": "accept", "content": {"answer": "Ada"}}, "unknown": {"action": "accept"}}
        ack = (await peer.call("tasks/update", taskId=id, inputResponses=answers))["result"]
        assert {name for name in ack if name != "_meta"} == {"resultType"}
        assert (await until(peer, id))["result"]["content"][0]["text"] == "Hello Ada"

    with_peer(MODERN, script)


@pytest.mark.requirement("T84")
def test_answers_come_one_by_one() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "asks_two"))["taskId"]
        assert set((await until(peer, id, "input_required"))["inputRequests"]) == {"a", "b"}
        await peer.call(
            "tasks/update", taskId=id, inputResponses={"a": {"action": "accept", "content": {"answer": "1"}}}
        )
        task = await until(peer, id, "input_required", *TERMINAL)
        assert (task["status"], set(task["inputRequests"])) == ("input_required", {"b"})
        await peer.call(
            "tasks/update", taskId=id, inputResponses={"b": {"action": "accept", "content": {"answer": "2"}}}
        )
        assert (await until(peer, id))["result"]["content"][0]["text"] == "1 and 2"

    with_peer(MODERN, script)


@pytest.mark.requirement("T84")
def test_a_question_that_is_asked_again_has_another_key() -> None:
    server = Server("again")

    @server.tool(task="optional")
    async def age(ctx: Context) -> int:
        return await ctx.ask("Age?", int, "age")

    async def script(peer: Peer) -> None:
        id = (await started(peer, "age"))["taskId"]
        assert set((await until(peer, id, "input_required"))["inputRequests"]) == {"age"}
        await peer.call(
            "tasks/update", taskId=id, inputResponses={"age": {"action": "accept", "content": {"answer": "x"}}}
        )
        while (task := await until(peer, id, "input_required", *TERMINAL))["inputRequests"].keys() == {"age"}:
            pass
        (key,) = task["inputRequests"]
        assert key != "age"
        await peer.call("tasks/update", taskId=id, inputResponses={key: {"action": "accept", "content": {"answer": 7}}})
        assert (await until(peer, id))["result"]["structuredContent"] == {"result": 7}

    with_peer(MODERN, script, server=server)


@pytest.mark.requirement("143")
def test_a_question_of_a_task_of_november_comes_on_the_stream_of_its_result() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        assert (await until(peer, id, "input_required"))["status"] == "input_required"
        _, waiting = peer._begin("tasks/result", {"taskId": id})
        while (asked := await peer.receive()).get("method") != "elicitation/create":
            pass
        assert asked["params"]["_meta"][RELATED] == {"taskId": id}
        peer.send({"id": asked["id"], "result": {"action": "accept", "content": {"answer": "Ada"}}})
        assert (await waiting)["result"]["content"][0]["text"] == "Hello Ada"

    with_peer(NOVEMBER, script)


@pytest.mark.requirement("T83")
@pytest.mark.parametrize("revision", [NOVEMBER, MODERN])
def test_a_handler_asks_first_and_becomes_a_task_then(revision: str) -> None:
    async def script(peer: Peer) -> None:
        answer = {"action": "accept", "content": {"answer": "Ada"}}
        params: dict[str, Any] = {"name": "later", "arguments": {}}
        if peer.modern:
            first = (await peer.request("tools/call", params))["result"]
            assert (first["resultType"], "taskId" in first) == ("input_required", False)
            more = {"inputResponses": {"user_name": answer}, "requestState": first["requestState"]}
            task = (await peer.request("tools/call", {**params, **more}))["result"]
            assert (task["resultType"], "requestState" in task) == ("task", False)
            text = (await until(peer, task["taskId"]))["result"]["content"][0]["text"]
        else:
            _, waiting = peer._begin("tools/call", {**params, "task": {}})
            while (asked := await peer.receive()).get("method") != "elicitation/create":
                pass
            peer.send({"id": asked["id"], "result": answer})
            task = (await waiting)["result"]["task"]
            text = (await peer.call("tasks/result", taskId=task["taskId"]))["result"]["content"][0]["text"]
        assert text == f"Ada by {task['taskId']}"

    with_peer(revision, script)


# ---------------------------------------------------------------- notifications and lists


@pytest.mark.requirement("139", "141")
def test_status_and_progress_are_told_to_a_client_of_november() -> None:
    server = jobs()

    async def main() -> None:
        peer = await Peer(server, NOVEMBER, meta={"progressToken": "p"}).open()
        task = await started(peer, "tells")
        methods = []
        while "notifications/tasks/status" not in methods:
            notice = await peer.receive()
            methods.append(notice["method"])
            if notice["method"] == "notifications/progress":
                told = {"progressToken": "p", "progress": 1.0, "total": 2.0, "message": "half"}
                assert notice["params"] == {**told, "_meta": {RELATED: {"taskId": task["taskId"]}}}
            else:
                assert notice["params"]["taskId"] == task["taskId"]
        assert "notifications/progress" in methods
        await peer.close()

    run(main(), server)


def test_a_modern_client_listens_to_its_tasks() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        await until(peer, id, "input_required")
        number, _ = peer._begin("subscriptions/listen", {"notifications": {"taskIds": [id, "nothing"]}})
        ack = await peer.receive()
        assert ack["method"] == "notifications/subscriptions/acknowledged"
        assert ack["params"]["notifications"] == {"taskIds": [id]}
        now = await peer.receive()
        assert (now["method"], now["params"]["status"]) == ("notifications/tasks", "input_required")
        (key,) = now["params"]["inputRequests"]
        answers = {key: {"action": "accept", "content": {"answer": "Ada"}}}
        await peer.call("tasks/update", taskId=id, inputResponses=answers)
        while (now := await peer.receive())["params"]["status"] != "completed":
            assert now["method"] == "notifications/tasks"
        assert now["params"]["result"]["content"][0]["text"] == "Hello Ada"
        assert now["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == number

    with_peer(MODERN, script)


@pytest.mark.requirement("136", "T73")
def test_a_client_of_november_lists_its_tasks() -> None:
    async def script(peer: Peer) -> None:
        ids = [(await started(peer, "double", number=n))["taskId"] for n in range(60)]
        found: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = (await peer.request("tasks/list", params))["result"]
            found += [task["taskId"] for task in page["tasks"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert found == ids
        assert (await peer.request("tasks/list", {"cursor": "bad"}))["error"]["code"] == -32602

    with_peer(NOVEMBER, script)
