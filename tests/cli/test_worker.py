"""`redstart worker`, `--store` and `--workers`: several processes with one store, and how they start and end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Client
from redstart.cli import main
from redstart.client import ElicitRequest
from store.engines import Engine, Redis, running
from support import DEADLINE, ERAS, free_port
from tasks.processes import Http, Pipe, ended
from warm import redstart

REDSTART = str(Path(sys.executable).with_name("redstart"))

APP = """
import asyncio, os, sys
from pathlib import Path
from redstart import Server, Context, TaskLimits

HERE = Path(__file__).parent
server = Server("shop", tasks=TaskLimits(lease=1.5, concurrent=CONCURRENT))

def note(text):
    with (HERE / "notes").open("a") as notes:
        notes.write(text + "\\n")

@server.tool(task="optional")
async def unsafe(seconds: float) -> int:
    note("unsafe began")
    await asyncio.sleep(seconds)
    while (HERE / "held").exists():
        await asyncio.sleep(0.01)
    note("unsafe ended")
    return os.getpid()

@server.tool(task="optional", annotations={"idempotentHint": True})
async def safe(seconds: float, ctx: Context) -> int:
    note(f"safe began {ctx.attempt}")
    await asyncio.sleep(seconds if ctx.attempt == 1 and not (HERE / "quick").exists() else 0)
    return os.getpid()

@server.tool
async def greets(ctx: Context) -> list[str]:
    first = await ctx.ask("First name?", str, "first")
    last = await ctx.ask("Last name?", str, "last")
    return [first, last]

@server.tool
def pid() -> int:
    return os.getpid()
"""


def write(folder: Path, concurrent: int = 16, text: str = APP) -> str:
    file = folder / "shop.py"
    file.write_text(text.replace("CONCURRENT", str(concurrent)))
    return str(file)


@pytest.fixture(scope="module")
def redis() -> Iterator[Engine]:
    engine = Redis("off")
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        redstart(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | environment,
    )


@contextmanager
def process(*arguments: str, says: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command of ours, once it has said on stderr that it is ready. Not a warm one: tests know it by its id."""
    child = subprocess.Popen(
        [REDSTART, *arguments],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    assert child.stderr is not None
    try:
        await_line(child, says)
        yield child
    finally:
        child.kill() if child.poll() is None else None
        child.wait(DEADLINE)
        child.stderr.close()


def await_line(child: subprocess.Popen[str], says: str) -> str:
    """The next line on stderr in which this stands."""
    assert child.stderr is not None
    for line in child.stderr:
        if re.search(says, line):
            return line
    raise AssertionError(f"it ended without a word of {says!r}")


def until_noted(folder: Path, text: str) -> Any:
    """Wait until a tool has noted this."""

    async def wait() -> None:
        async with asyncio.timeout(DEADLINE):
            while not (folder / "notes").exists() or text not in (folder / "notes").read_text():
                await asyncio.sleep(0.01)  # another process writes it

    return wait()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["worker", "{}"],
            "no other process can see a store in memory, so a worker has no work; write --store",
        ),
        (["worker", "{}", "--store", "memory://"], "no other process can see a store in memory"),
        (
            ["run", "{}", "--http", "--workers", "2"],
            "2 processes cannot share a store in memory: .* Write --store",
        ),
        (["run", "{}", "--workers", "2"], "--workers is for HTTP; write --http beside it"),
        (["run", "{}", "--store", "redsi://h"], r"--store: no store is known for 'redsi://h'; did you mean redis://\?"),
        (["worker", "{}", "--store", "redsi://h"], "did you mean redis"),
        (["worker", "no_such_file.py", "--store", "sqlite:///x.db"], "there is no file"),
    ],
)
def test_refusals(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    assert main([argument.format(file) for argument in arguments]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("command", ["run --http --workers", "worker --concurrency"])
@pytest.mark.parametrize("number", ["0", "-1", "many", "1001", "9" * 5000])
def test_a_number_of_processes_or_tasks(command: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = command.split()
    with pytest.raises(SystemExit) as ending:
        main([name, "shop.py", *options[:-1], f"{options[-1]}={number}"])
    assert ending.value.code == 2
    assert "a whole number from 1 to 1000" in capsys.readouterr().err


def test_a_worker_without_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(
        tmp_path, text="from redstart import Server\nserver = Server('s')\n@server.tool\ndef f() -> int: ...\n"
    )
    assert main(["worker", file, "--store", f"sqlite:///{tmp_path}/x.db"]) == 2
    assert 's has no tool that runs as a task; write @server.tool(task="optional")' in capsys.readouterr().err


def test_several_processes_refuse_a_public_address_without_a_name(tmp_path: Path) -> None:
    done = run_command(
        "run", write(tmp_path), "--http", "--workers", "2", "--host", "0.0.0.0", "--store", f"sqlite:///{tmp_path}/x.db"
    )
    assert done.returncode == 1
    assert "0.0.0.0 can be reached from other machines" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_auth_that_cannot_work_ends_the_command(tmp_path: Path, workers: str) -> None:
    """Also where several processes would have been started again and again, each to say the same."""
    proxy = 'auth=OAuthProxy(GitHub(client_id="a", client_secret="b"))'
    text = f"from redstart import Server\nfrom redstart.auth import GitHub, OAuthProxy\nserver = Server('s', {proxy})\n"
    store = f"sqlite:///{tmp_path}/x.db"
    done = run_command(
        "run", write(tmp_path, text=text), "--http", "--port", "0", "--workers", workers, "--store", store
    )
    assert done.returncode == 1
    assert done.stderr.startswith("redstart: OAuthProxy needs keys, because its store outlives this process; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("path", ["/api", "/mcp"])
def test_a_route_may_have_the_usual_path_of_the_endpoint_if_that_has_another(tmp_path: Path, path: str) -> None:
    text = "from redstart import Server\nserver = Server('s')\n@server.route('/mcp')\nasync def page(_): return ''\n"
    options = ["--path", path, "--store", f"sqlite:///{tmp_path}/x.db"]
    arguments = ["run", write(tmp_path, text=text), "--http", "--port", str(free_port()), "--workers", "2", *options]
    if path == "/api":
        with process(*arguments, says="/api") as child:
            child.terminate()
            assert child.wait(DEADLINE) == 0
        return
    done = run_command(*arguments)
    assert (done.returncode, "is the path of the MCP endpoint" in done.stderr) == (1, True)
    assert done.stderr.count("\n") == 1


# ---------------------------------------------------------------- workers


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_worker_runs_what_a_server_leaves_to_it(tmp_path: Path, redis: Engine, how: str) -> None:
    """The server claims nothing: `concurrent=0`. A worker of the same file takes the default instead."""
    file, url = write(tmp_path, concurrent=0), redis.url
    option, environment = (["--store", url], {}) if how == "option" else ([], {"REDSTART_STORE": url})
    says = "a worker of shop runs unsafe, safe: 16 at once"

    async def use() -> None:
        async with Pipe(redstart("run", file, *option), environment=environment) as client:
            task = await client.start("unsafe", seconds=0)
            with process("worker", file, *option, says=says, **environment) as worker:
                done = await ended(client, task)
                assert done["result"]["structuredContent"]["result"] == worker.pid
                worker.terminate()
                assert worker.wait(DEADLINE) == 0

    asyncio.run(use())


def test_the_option_beats_the_store_of_the_server(tmp_path: Path) -> None:
    text = APP.replace('Server("shop",', 'Server("shop", store="redis://127.0.0.1:1/0",')
    file, url = write(tmp_path, text=text), f"sqlite:///{tmp_path}/tasks.db"

    async def use() -> None:
        async with Pipe(redstart("run", file, "--store", url)) as client:
            assert (await ended(client, await client.start("unsafe", seconds=0)))["status"] == "completed"

    asyncio.run(use())
    assert (tmp_path / "tasks.db").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop(tmp_path: Path, redis: Engine, number: int) -> None:
    stop_a_worker(tmp_path, redis.url, number)


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql"])
def test_a_worker_on_another_store_that_is_told_to_stop(tmp_path: Path, scheme: str) -> None:
    if scheme == "sqlite":
        stop_a_worker(tmp_path, f"sqlite:///{tmp_path}/tasks.db", signal.SIGTERM)
    else:
        with running(scheme) as engine:
            stop_a_worker(tmp_path, engine.url, signal.SIGTERM)


def stop_a_worker(tmp_path: Path, url: str, number: int) -> None:
    """What can be repeated goes back at once, and the rest has time to finish."""
    file = write(tmp_path, concurrent=0)

    async def use() -> None:
        async with Pipe(redstart("run", file, "--store", url)) as client:
            with process("worker", file, "--store", url, "--concurrency", "2", says="2 at once") as worker:
                (tmp_path / "held").touch()
                short = await client.start("unsafe", seconds=0)
                long = await client.start("safe", seconds=600)
                waiting = await client.start("unsafe", seconds=0)
                await until_noted(tmp_path, "unsafe began")
                await until_noted(tmp_path, "safe began 1")
                worker.send_signal(number)
                (tmp_path / "held").unlink()  # it ends after the signal, or there would be room for the one that waits
                assert await asyncio.to_thread(worker.wait, DEADLINE) == 0
            assert (await client.get(short))["status"] == "completed"
            assert (await client.get(long))["status"] == (await client.get(waiting))["status"] == "working"
            (tmp_path / "quick").touch()
            with process("worker", file, "--store", url, says="at once") as second:
                for task in (long, waiting):
                    done = await ended(client, task)
                    assert done["result"]["structuredContent"]["result"] == second.pid
        assert (tmp_path / "notes").read_text().count("safe began 1") == 2  # handed back: not a lost attempt

    asyncio.run(use())


def test_a_worker_waits_for_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    file = write(tmp_path)
    engine = Redis("off")

    async def use(url: str) -> None:
        async with Pipe(redstart("run", write(tmp_path, concurrent=0), "--store", url)) as client:
            assert (await ended(client, await client.start("unsafe", seconds=0)))["status"] == "completed"

    try:
        url = engine.url
        with process("worker", file, "--store", url, says="tasks wait: ") as worker:
            engine.start()
            asyncio.run(use(url))
            engine.kill()
            await_line(worker, "tasks wait: ")
            engine.start()
            asyncio.run(use(url))
            worker.terminate()
            assert worker.wait(DEADLINE) == 0
    finally:
        engine.close()


def test_a_worker_gives_up_after_its_drain(tmp_path: Path, redis: Engine) -> None:
    file, url = write(tmp_path, concurrent=0), redis.url

    async def use() -> None:
        async with Pipe(redstart("run", file, "--store", url)) as client:
            with process("worker", file, "--store", url, "--drain", "0.2", says="at once") as worker:
                task = await client.start("unsafe", seconds=600)
                await until_noted(tmp_path, "unsafe began")
                worker.terminate()
                assert await asyncio.to_thread(worker.wait, DEADLINE) == 0
            failed = await client.get(task)
            assert failed["status"] == "failed"
            assert failed["error"]["message"] == "The server stopped before the work was done."

    asyncio.run(use())


def test_a_second_ctrl_c_ends_a_worker_at_once(tmp_path: Path, redis: Engine) -> None:
    file, url = write(tmp_path, concurrent=0), redis.url

    async def use() -> None:
        async with Pipe(redstart("run", file, "--store", url)) as client:
            with process("worker", file, "--store", url, says="at once") as worker:
                task = await client.start("unsafe", seconds=600)
                await until_noted(tmp_path, "unsafe began")
                worker.send_signal(signal.SIGINT)
                await asyncio.to_thread(await_line, worker, "stopping: tasks have 30 s to finish; Ctrl-C ends them now")
                worker.send_signal(signal.SIGINT)
                await asyncio.to_thread(worker.wait, 10)
            failed = await ended(client, task)
            assert failed["status"] == "failed"
        assert (tmp_path / "notes").read_text() == "unsafe began\n"

    asyncio.run(use())


# ---------------------------------------------------------------- several processes


@contextmanager
def supervised(file: str, url: str, workers: int = 2, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Several processes that serve one port; all of them have said that they do."""
    port = free_port()
    arguments = ["run", file, "--http", "--port", str(port), "--workers", str(workers), "--store", url, *options]
    served = f"shop is served at http://127.0.0.1:{port}/mcp"
    with process(*arguments, says=served) as child:
        for _ in range(workers - 1):
            await_line(child, served)
        yield child, port


async def who_serves(port: int, count: int) -> set[int]:
    """The processes that answer on a port, each call on a connection of its own, until so many are known."""
    seen: set[int] = set()
    async with asyncio.timeout(DEADLINE):
        while len(seen) < count:
            async with Http(port) as client:
                seen.add((await client.tool("pid"))["structuredContent"]["result"])
    return seen


def test_several_processes_serve_one_port(tmp_path: Path, redis: Engine) -> None:
    file = write(tmp_path)

    async def use(port: int, supervisor: int) -> None:
        processes = await who_serves(port, 2)
        assert supervisor not in processes
        async with Http(port) as client:
            task = await client.start("unsafe", seconds=0)
            for _ in range(4):  # whoever answers, the task is known
                async with Http(port) as other:
                    assert (await ended(other, task))["status"] == "completed"

    with supervised(file, redis.url) as (child, port):
        asyncio.run(use(port, child.pid))
        child.terminate()
        assert child.wait(DEADLINE) == 0


@pytest.mark.parametrize("era", ERAS)
def test_any_process_goes_on_with_a_dialogue(tmp_path: Path, redis: Engine, era: str) -> None:
    """Every request of the client is on a connection of its own, so that chance decides who gets it."""

    def on_elicit(question: ElicitRequest) -> dict[str, Any]:
        return {"answer": question.message}

    async def use(port: int) -> None:
        options: dict[str, Any] = {"protocol": era, "on_elicit": on_elicit, "headers": {"Connection": "close"}}
        async with asyncio.timeout(DEADLINE), Client(f"http://127.0.0.1:{port}/mcp", **options) as client:
            seen: list[int] = []
            while len(seen) < 12 or len(set(seen)) < 2:
                seen.append((await client.call_tool("pid")).data)
                assert (await client.call_tool("greets")).data == ["First name?", "Last name?"]

    with supervised(write(tmp_path), redis.url) as (_, port):
        asyncio.run(use(port))


def test_a_process_that_dies_is_started_again(tmp_path: Path, redis: Engine) -> None:
    with supervised(write(tmp_path), redis.url) as (child, port):
        before = asyncio.run(who_serves(port, 2))
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        assert f"process {victim} ended with -9; the next starts in 0.2 s" in await_line(child, "ended with")
        await_line(child, "is served at")
        after = asyncio.run(who_serves(port, 2))
        assert victim not in after
        assert len(after & before) == 1
        child.terminate()
        assert child.wait(DEADLINE) == 0


def test_a_process_that_dies_is_started_again_where_nobody_reads_what_is_said(tmp_path: Path, redis: Engine) -> None:
    with supervised(write(tmp_path), redis.url) as (child, port):
        assert child.stderr is not None
        child.stderr.close()
        victim = min(asyncio.run(who_serves(port, 2)))
        os.kill(victim, signal.SIGKILL)
        assert victim not in asyncio.run(who_serves(port, 2))
        child.terminate()
        assert child.wait(DEADLINE) == 0


def test_the_pause_grows(tmp_path: Path) -> None:
    """A file that cannot be loaded the second time: no process stays, and each pause is longer."""
    seen = tmp_path / "seen"
    text = f"from pathlib import Path\nif Path({str(seen)!r}).exists(): raise OSError('gone')\n"
    file = write(tmp_path, text=text + f"Path({str(seen)!r}).touch()\n" + APP)
    url = f"sqlite:///{tmp_path}/x.db"
    arguments = ["run", file, "--http", "--port", str(free_port()), "--workers", "2", "--store", url]
    with process(*arguments, says="the next starts in 0.2 s") as child:
        for pause in ("0.4", "0.8"):
            await_line(child, f"ended with 2; the next starts in {pause} s")
        child.terminate()
        assert child.wait(DEADLINE) == 0


def test_a_process_that_cannot_start_while_all_are_told_to_stop(tmp_path: Path) -> None:
    """It had nothing to finish, so the end is a good one."""
    seen, go = tmp_path / "seen", tmp_path / "go"
    text = f"""
import os, signal, sys, time
from pathlib import Path
if Path({str(seen)!r}).exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stderr.write("loads for the second time\\n")  # one write: both processes have this pipe
    while not Path({str(go)!r}).exists(): time.sleep(0.01)
    raise OSError("gone")
Path({str(seen)!r}).touch()
"""
    arguments = ["run", write(tmp_path, text=text + APP), "--http", "--port", str(free_port()), "--workers", "2"]
    store = f"sqlite:///{tmp_path}/x.db"
    with process(*arguments, "--store", store, says="loads for the second time") as child:
        await_line(child, "loads for the second time")
        child.terminate()
        go.touch()
        assert child.wait(DEADLINE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_processes_that_have_yet_to_start_when_all_are_told_to_stop(tmp_path: Path, number: int) -> None:
    seen = tmp_path / "seen"
    text = f"""
import sys, time
from pathlib import Path
if Path({str(seen)!r}).exists():
    sys.stderr.write("loads for the second time\\n")
    time.sleep({DEADLINE})
Path({str(seen)!r}).touch()
"""
    arguments = ["run", write(tmp_path, text=text + APP), "--http", "--port", str(free_port()), "--workers", "2"]
    store = f"sqlite:///{tmp_path}/x.db"
    with process(*arguments, "--store", store, says="loads for the second time") as child:
        await_line(child, "loads for the second time")
        child.send_signal(number)
        assert child.wait(DEADLINE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_calls_finish_when_all_are_told_to_stop(tmp_path: Path, redis: Engine, number: int) -> None:
    async def use(child: subprocess.Popen[str], port: int) -> None:
        async with Http(port, extension=False) as client:
            call = asyncio.create_task(client.tool("unsafe", seconds=1))
            await until_noted(tmp_path, "unsafe began")
            child.send_signal(number)
            assert (await call)["structuredContent"]["result"] != child.pid
        assert await asyncio.to_thread(child.wait, DEADLINE) == 0

    with supervised(write(tmp_path), redis.url) as (child, port):
        asyncio.run(use(child, port))


def test_the_processes_end_with_their_supervisor(tmp_path: Path, redis: Engine) -> None:
    async def until_gone(processes: set[int]) -> None:
        async with asyncio.timeout(DEADLINE):
            while any(Path(f"/proc/{pid}").exists() for pid in processes):
                await asyncio.sleep(0.02)  # they are no children of ours: nothing tells us of their end

    with supervised(write(tmp_path), redis.url) as (child, port):
        processes = asyncio.run(who_serves(port, 2))
        child.kill()
        child.wait(DEADLINE)
        asyncio.run(until_gone(processes))


def test_a_port_that_is_taken(tmp_path: Path, redis: Engine) -> None:
    file = write(tmp_path)
    with supervised(file, redis.url) as (child, port):
        # The processes of one command share the port, and nobody else does.
        for more in ([], ["--workers", "2", "--store", f"sqlite:///{tmp_path}/x.db"]):
            done = run_command("run", file, "--http", "--port", str(port), *more)
            assert (done.returncode, "cannot listen on" in done.stderr) == (1, True)
        child.terminate()
        assert child.wait(DEADLINE) == 0


def test_a_server_hands_its_tasks_back_before_its_open_calls_have_finished(tmp_path: Path, redis: Engine) -> None:
    """While one process still answers a call, another one goes on with the tasks that may be repeated."""
    file, url, port = write(tmp_path), redis.url, free_port()
    store = ["--store", url]

    async def use(child: subprocess.Popen[str]) -> None:
        async with Http(port) as client, Http(port, extension=False) as plain:
            await client.start("safe", seconds=600)
            await until_noted(tmp_path, "safe began 1")
            (tmp_path / "quick").touch()
            with process("worker", file, *store, says="at once"):  # before the call, which goes on for a few seconds
                call = asyncio.create_task(plain.tool("unsafe", seconds=4))
                await until_noted(tmp_path, "unsafe began")
                child.terminate()
                await until_noted(tmp_path, "safe began 1\nunsafe began\nsafe began 1\n")
                assert not call.done()
                await call
        assert await asyncio.to_thread(child.wait, DEADLINE) == 0

    with process("run", file, "--http", "--port", str(port), *store, says="is served at") as child:
        asyncio.run(use(child))
