"""What becomes of the tasks of a server on stdio that is killed or told to stop, and is started again."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from support import DEADLINE, ERAS, NOVEMBER
from tasks.processes import Pipe, ended

SERVER = str(Path(__file__).with_name("recovery_server.py"))
LEASE = 1.5


class Place:
    """A folder with a store, and the servers that are started on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def server(self, revision: str = ERAS[1], **environment: str) -> Pipe:
        given = {"FOLDER": str(self.folder), "STORE": f"sqlite:///{self.folder}/tasks.db", "LEASE": str(LEASE)}
        return Pipe([sys.executable, SERVER], revision, given | environment)

    def notes(self) -> list[str]:
        file = self.folder / "notes"
        return file.read_text().splitlines() if file.exists() else []

    async def noted(self, text: str) -> None:
        async with asyncio.timeout(DEADLINE):
            while text not in self.notes():
                await asyncio.sleep(0.01)  # another process writes it

    def release(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await work

    asyncio.run(bounded())


def value(task: dict[str, Any]) -> Any:
    assert task["status"] == "completed", task
    result = task["result"]
    return result["structuredContent"]["result"] if "structuredContent" in result else result["content"][0]["text"]


# ---------------------------------------------------------------- kill -9


@pytest.mark.parametrize("tool", ["safe", "retried"])
def test_what_may_be_repeated_is_run_again(place: Place, tool: str) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start(tool)
            await place.noted(f"{tool} 1")
            await client.kill()
        place.release()
        async with place.server() as client:
            assert value(await ended(client, task)) == 2
        assert place.notes() == [f"{tool} 1", f"{tool} 2"]

    run(script())


def test_attempts_are_bounded(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("retried")
            await place.noted("retried 1")
            await client.kill()
        async with place.server() as client:
            await place.noted("retried 2")
            await client.kill()
        async with place.server() as client:
            failed = await ended(client, task)
        assert failed["status"] == "failed"
        assert failed["error"]["data"] == {"reason": "worker lost"}
        assert place.notes()[-1] == "retried 2"

    run(script())


def test_what_may_have_had_effects_fails_and_is_not_run_twice(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("unsafe")
            await place.noted("unsafe 1")
            await client.kill()
            killed = time.monotonic()
        place.release()
        async with place.server() as client:
            failed = await ended(client, task)
            took = time.monotonic() - killed
            assert failed["status"] == "failed"
            assert failed["error"]["data"] == {"reason": "worker lost"}
            assert took < LEASE + 5
            assert value(await ended(client, await client.start("unsafe"))) == 1  # the server itself works on
        assert place.notes() == ["unsafe 1", "unsafe 1", "unsafe ended"]

    run(script())


def test_a_checkpoint_is_where_it_goes_on(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("counts")
            await place.noted("three")
            await client.kill()
        place.release()
        async with place.server() as client:
            assert value(await ended(client, task)) == [3, 4, 5]

    run(script())


def test_a_step_has_its_effect_once(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("pays")
            await place.noted("waits 1")
            await client.kill()
        place.release()
        async with place.server() as client:
            assert value(await ended(client, task)) == "receipt 7"
        assert place.notes() == ["paid", "waits 1", "waits 2"]

    run(script())


def test_a_parked_task_is_answered_after_a_restart(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("asks")
            parked = await ended(client, task, "input_required")
            await client.kill()
        async with place.server() as client:
            again = await client.get(task)
            assert again["inputRequests"] == parked["inputRequests"]
            [key] = again["inputRequests"]
            answer = {"action": "accept", "content": {"answer": "Ada"}}
            await client.result("tasks/update", taskId=task, inputResponses={key: answer})
            assert value(await ended(client, task)) == "Hello Ada"

    run(script())


def test_the_list_has_the_tasks_of_before(place: Place) -> None:
    async def script() -> None:
        async with place.server(NOVEMBER) as client:
            parked, running = await client.start("asks"), await client.start("safe")
            await place.noted("safe 1")
            await client.kill()
        place.release()
        async with place.server(NOVEMBER) as client:
            tasks = (await client.result("tasks/list"))["tasks"]
            assert {task["taskId"] for task in tasks} == {parked, running}
            assert (await ended(client, running))["status"] == "completed"

    run(script())


@pytest.mark.parametrize("revision", ERAS)
def test_servers_with_different_names_keep_apart_in_one_file(place: Place, revision: str) -> None:
    async def script() -> None:
        async with place.server(revision, NAME="first") as first, place.server(revision, NAME="second") as second:
            task = await first.start("unsafe")
            await place.noted("unsafe 1")
            unknown = await second.request("tasks/get", taskId=task)
            never = await second.request("tasks/get", taskId="never")
            assert unknown["error"]["code"] == never["error"]["code"] == -32602
            if revision == NOVEMBER:
                assert (await second.result("tasks/list"))["tasks"] == []
            other = await second.start("safe")
            await place.noted("safe 1")
            await first.kill()  # the second server may say that the task is lost, but does not run it
            await asyncio.sleep(LEASE)
            place.release()
            assert (await ended(second, other))["status"] == "completed"
        assert place.notes() == ["unsafe 1", "safe 1"]
        async with place.server(revision, NAME="first") as first:
            assert (await ended(first, task))["status"] == "failed"

    run(script())


# ---------------------------------------------------------------- SIGTERM


def test_a_server_that_is_told_to_stop_hands_back_what_may_be_repeated(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task, parked = await client.start("safe"), await client.start("asks")
            await place.noted("safe 1")
            await ended(client, parked, "input_required")
            client.process.send_signal(signal.SIGTERM)
            assert await client.process.wait() == 0
        place.release()
        began = time.monotonic()
        async with place.server(LEASE="30") as client:
            assert value(await ended(client, task)) == 1  # it was not lost
            assert (await client.get(parked))["status"] == "input_required"
        assert time.monotonic() - began < 15  # and nobody waited for a lease to end
        assert sorted(place.notes()) == ["asks", "safe 1", "safe 1"]

    run(script())


def test_what_may_have_had_effects_has_time_to_finish(place: Place) -> None:
    async def script() -> None:
        async with place.server() as client:
            task = await client.start("unsafe")
            await place.noted("unsafe 1")
            client.process.send_signal(signal.SIGTERM)
            place.release()
            assert await client.process.wait() == 0
        async with place.server() as client:
            assert value(await client.get(task)) == 1

    run(script())
