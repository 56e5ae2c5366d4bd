"""`executor="process"`: real children, their ends, and what cannot be one."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from execution import process_tools as tools
from redstart import Context, RegistrationError, Server, SyncContext, Tool
from redstart.execution import processes
from support import Peer, play, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")


def serve(*functions: Any, **options: Any) -> Server:
    server = Server("processes", processes=options.pop("processes", 2), **options)
    for fn in functions:
        server.tool(executor="process")(fn)
    return server


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not. It may be reaped between any two of these lines."""
    try:
        os.kill(pid, 0)
        if not Path("/proc/self/stat").exists():
            return True
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def reaped(pid: int) -> bool:
    """Whether not even a zombie is left."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_arguments_and_results_cross_with_their_types_and_print_harms_nothing() -> None:
    async def script(peer: Peer) -> dict[str, Any]:
        result = await peer.tool("echo", point={"x": 1, "y": 2}, day="2026-02-03")
        found: dict[str, Any] = result["structuredContent"]
        return found

    found = play(serve(tools.echo), script)
    assert found.pop("pid") != os.getpid()
    assert found == {"kind": "Point", "x": 3, "pair": {"left": 1, "right": "2026-02-03"}}


def test_a_child_is_started_lazily_and_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(tools.pid)
    started: list[Any] = []
    start = subprocess.Popen.__init__

    def recorded(self: Any, command: Any, **options: Any) -> None:
        started.append(command)
        start(self, command, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", recorded)

    async def script(peer: Peer) -> list[str]:
        await server.runtime.start()
        assert not started
        return [await peer.text("pid") for _ in range(3)]

    first, *rest = play(server, script)
    assert sum("redstart.child" in command for command in started) == 1
    assert rest == [first, first]
    assert int(first) != os.getpid()


def test_one_call_at_a_time_per_child_and_no_more_children_than_allowed() -> None:
    server = serve(tools.pid, tools.waits, processes=2)

    async def script(peer: Peer) -> set[str]:
        answers = await asyncio.gather(*(peer.begin(("pid", "waits")[i % 2])[1] for i in range(12)))
        assert len(server.runtime.children().all) <= 2
        return {answer["result"]["content"][0]["text"] for answer in answers}

    assert "awaited" in play(server, script)


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("waits", {}, [{"type": "text", "text": "awaited"}]),
        ("nothing", {}, [{"type": "text", "text": "Success"}]),
        (
            "content",
            {},
            [{"type": "text", "text": "see"}, {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}],
        ),
        ("depends", {}, [{"type": "text", "text": '["value","open"]'}]),
        ("doubled", {"price": "0.10000000000000000000001"}, [{"type": "text", "text": "0.20000000000000000000002"}]),
    ],
)
def test_results_of_all_kinds(name: str, arguments: dict[str, Any], content: list[Any]) -> None:
    result = play(serve(getattr(tools, name)), lambda peer: peer.tool(name, **arguments))
    assert result["content"] == content


def test_dependencies_are_cleaned_up_in_the_child() -> None:
    async def script(peer: Peer) -> str:
        await peer.tool("depends")
        return await peer.text("depends")

    assert play(serve(tools.depends, processes=1), script) == '["value","open","closed","open"]'


def test_a_generator_sends_its_progress() -> None:
    async def script(peer: Peer) -> tuple[str, list[float]]:
        return await peer.text("counts", n=2), [notice["params"]["progress"] for notice in peer.notices]

    assert play(serve(tools.counts), script, token="t") == ("part 0\npart 1", [1, 2])


def test_a_handler_with_a_schema_of_its_own() -> None:
    server = Server("by hand")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.register(Tool("by_hand", handler=tools.by_hand, input_schema=schema, executor="process"))
    assert play(server, lambda peer: peer.text("by_hand", n=3)) == "3 by hand"


def test_errors_keep_their_class_and_their_secrets(caplog: pytest.LogCaptureFixture) -> None:
    server = serve(tools.fails, tools.nan, expose_errors=[tools.OwnError])

    async def script(peer: Peer) -> list[Any]:
        texts = [await peer.failure("fails", how=how) for how in ("tool", "value", "own")]
        return [*texts, await peer.failure("nan"), (await peer.begin("fails", how="protocol")[1])["error"]]

    with caplog.at_level(logging.ERROR, "redstart"):
        tool, value, own, nan, protocol = play(server, script)
    assert tool == "no such city"
    assert "ValueError" in value
    assert "secret" not in value
    assert own == "OwnError: own secret"
    assert "failed" in nan
    assert protocol == {"code": -32000, "message": "refused", "data": {"why": "so"}}
    assert "process_tools.py" in caplog.text  # the child's own traceback


def test_a_child_that_dies_is_an_error_and_the_next_call_gets_another() -> None:
    server = serve(tools.fails, processes=1)

    async def script(peer: Peer) -> tuple[str, str]:
        died = await peer.failure("fails", how="die")
        assert server.runtime.children().gate.active == 0
        return died, await peer.failure("fails", how="tool")

    died, after = play(server, script)
    assert "ChildDied" in died
    assert after == "no such city"


@pytest.mark.parametrize("how", ["cancel", "timeout", "disconnect", "stop"])
def test_a_child_is_killed_with_its_own_children(tmp_path: Path, how: str) -> None:
    server = Server("kills")
    server.tool(executor="process", timeout=4.0 if how == "timeout" else None)(tools.hangs)
    server.tool(executor="process")(tools.pid)
    marker = tmp_path / "pids"
    found: list[int] = []

    async def script(peer: Peer) -> None:
        id, answer = peer.begin("hangs", marker=str(marker))
        await until(marker.exists)
        found.extend(map(int, marker.read_text().split()))
        assert all(map(alive, found))
        if how == "cancel":
            peer.cancel(id)
        elif how == "timeout":
            assert "limit of 4 s" in (await answer)["result"]["content"][0]["text"]
        elif how == "disconnect":
            await peer.close()
        else:
            server.runtime.close()
        await until(lambda: not any(map(alive, found)))
        if how in ("cancel", "timeout"):
            assert int(await peer.text("pid")) not in found

    play(server, script)


def test_many_cancelled_calls_leave_no_child_and_no_descriptor(tmp_path: Path) -> None:
    server = serve(tools.hangs, tools.pid, processes=2)

    async def script(peer: Peer) -> None:
        await peer.tool("pid")
        server.runtime.close()
        await asyncio.sleep(0)
        before = len(os.listdir("/dev/fd"))
        ids = [peer.begin("hangs", marker=str(tmp_path / str(i)))[0] for i in range(200)]
        await until(lambda: any(tmp_path.glob("[0-9]")) or any(tmp_path.glob("[0-9]*[0-9]")))
        for id in ids:
            peer.cancel(id)
        await peer.tool("pid")
        children = server.runtime.children()
        await until(lambda: len(children.all) <= 1 and children.gate.waiting == 0)
        server.runtime.close()
        await until(lambda: len(os.listdir("/dev/fd")) <= before)

    play(server, script)


def test_a_child_whose_call_is_cancelled_before_a_thread_takes_it_is_reaped() -> None:
    server = serve(tools.pid, processes=1)
    busy, go = threading.Event(), threading.Event()

    def blocks() -> None:
        busy.set()
        assert go.wait(10)

    async def script(peer: Peer) -> bool:
        pid = int(await peer.text("pid"))
        children = server.runtime.children()
        blocked = children.threads.run(blocks, {})
        await until(busy.is_set)
        id, _ = peer.begin("pid")
        await until(lambda: children.gate.active == 1)
        peer.cancel(id)
        await until(lambda: not children.all)
        go.set()
        await blocked
        await until(lambda: reaped(pid))
        return True

    assert play(server, script)


def test_calls_of_processes_take_no_thread_of_other_tools(tmp_path: Path) -> None:
    server = serve(tools.hangs, processes=2, threads=1)

    @server.tool
    def quick() -> str:
        return "quick"

    async def script(peer: Peer) -> str:
        for number in range(2):
            peer.begin("hangs", marker=str(tmp_path / str(number)))
        await until(lambda: len(list(tmp_path.glob("[01]"))) == 2)
        assert server.runtime.pool.counts.threads == 0
        return await peer.text("quick")

    assert play(server, script) == "quick"


# ---------------------------------------------------------------- registration


def test_what_another_process_cannot_import_is_refused_with_file_and_line() -> None:
    server = Server("refuses")

    def closure() -> None: ...

    class Object:
        def method(self) -> None: ...

    lambda_: Any = lambda: None  # noqa: E731 - the very thing
    for fn, words in (
        (closure, "not at module level"),
        (lambda_, "a lambda"),
        (Object().method, "a method of an object"),
        (functools.partial(tools.pid), "cannot import"),
    ):
        with pytest.raises(RegistrationError, match=words) as caught:
            server.register(Tool("tool", handler=fn, executor="process"))
        if not isinstance(fn, functools.partial):
            assert "test_processes.py:" in str(caught.value)


def takes_context(ctx: SyncContext) -> None: ...


async def takes_async_context(ctx: Context) -> None: ...


def test_a_context_cannot_follow_into_a_process() -> None:
    for fn in (takes_context, takes_async_context):
        with pytest.raises(RegistrationError, match="cannot have a context"):
            Server("refuses").tool(executor="process")(fn)


SCRIPT = """
    import asyncio, json, os, sys
    from redstart import Server
    from redstart.transports.memory import MemoryPeer

    server = Server("script")

    @server.tool(executor="process")
    def where() -> list[str]:
        return [__name__, str(os.getpid())]

    async def main():
        inbox = asyncio.Queue()
        peer = MemoryPeer(server, inbox.put_nowait)
        prefix = "io.modelcontextprotocol/"
        meta = {prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "where", "_meta": meta}}
        peer.send(json.dumps(call).encode())
        print(json.dumps([os.getpid(), json.loads(await inbox.get())["result"]["structuredContent"]["result"]]))
        await peer.close()
        await server.runtime.stop()

    if __name__ == "__main__":
        asyncio.run(main())
    else:
        server.run()  # unguarded, in the eyes of a child
"""


def test_a_script_run_as_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    script = tmp_path / "my script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=50, check=False, text=True)
    assert done.returncode == 0, done.stderr
    parent, (name, child) = json.loads(done.stdout)
    assert name == "__redstart_main__"
    assert int(child) != parent


def test_the_process_that_ends_children_is_waited_for_at_a_normal_end(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-W", "always::ResourceWarning", str(script)]
    done = subprocess.run(command, capture_output=True, timeout=50, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_does_not_hang_if_the_process_that_ends_children_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.01)
    reaper = processes.Reaper()
    reaper.end()  # none was started
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    reaper.watch(child.pid)
    process = reaper._process
    assert process is not None
    try:
        os.kill(process.pid, signal.SIGSTOP)
        reaper.end()
        assert process.poll() is None
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(20) == 0
        assert child.wait(20) == -signal.SIGKILL  # its pipe was closed
        reaper.forget(child.pid)  # a thread that is late harms nothing
    finally:
        for one in (process, child):
            one.kill()
            one.communicate()


UNGUARDED = """
    import asyncio, os
    from redstart import Client, Server

    with open({loads!r}, "a") as file:
        file.write("one\\n")
    if open({loads!r}).read().count("one") > 5:
        os._exit(3)  # a fuse: it must never come to this

    server = Server("unguarded", processes=2)

    @server.tool(executor="process")
    def double(n: int) -> int:
        return 2 * n

    async def main():
        async with Client(server) as client:
            result = await client.call_tool("double", {{"n": 21}})
            print(result.content[0].text)

    {start}
"""
STARTS = {
    "a client": "asyncio.run(main())",
    "a client, its error caught": "try: asyncio.run(main())\n    except Exception: pass",
    "a server": "asyncio.run(main() if __name__ == '__main__' else server.run_async(stdin=open(os.devnull, 'rb')))",
    # The script waits for it: a program that ends starts no threads, from Python 3.12 on.
    "a thread": "import threading; t = threading.Thread(target=lambda: asyncio.run(main())); t.start(); t.join()",
}


@pytest.mark.parametrize("start", STARTS)
def test_a_file_that_calls_its_own_tools_when_it_is_loaded_starts_one_child(tmp_path: Path, start: str) -> None:
    script, loads = tmp_path / "unguarded.py", tmp_path / "loads"
    script.write_text(textwrap.dedent(UNGUARDED.format(loads=str(loads), start=STARTS[start])))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=50, check=False, text=True)
    assert loads.read_text().count("one") == 2  # the script itself, and one child
    if start == "a client":
        assert 'if __name__ == "__main__":' in done.stdout
    elif start != "a thread":
        assert done.stdout == "42\n"


def test_a_child_that_dies_while_it_loads_is_not_started_again(tmp_path: Path) -> None:
    script, loads = tmp_path / "dies.py", tmp_path / "loads"
    body = UNGUARDED.format(loads=str(loads), start='os._exit(4) if __name__ != "__main__" else asyncio.run(main())')
    script.write_text(textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=50, check=False, text=True)
    assert loads.read_text().count("one") == 2
    assert "ChildDied" in done.stdout
    assert "exit status 4" in done.stderr


def test_a_tool_in_a_process_does_not_start_processes() -> None:
    """Each of them could start the next one, without end."""
    assert "a process of its own" in play(serve(tools.nested), lambda peer: peer.failure("nested", depth=0))


def test_children_outlive_no_loop() -> None:
    server = serve(tools.pid)

    async def once(peer: Peer) -> str:
        return await peer.text("pid")

    assert play(server, once) != play(server, once)


def test_what_was_typed_in_is_refused() -> None:
    code = textwrap.dedent(SCRIPT).partition("async def main")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=50, check=False, text=True)
    assert done.returncode != 0
    assert "was typed in" in done.stderr


@pytest.mark.parametrize("tool", ["hangs", "burns"])
def test_children_end_when_their_parent_is_killed(tmp_path: Path, tool: str) -> None:
    marker = tmp_path / "pids"
    body = textwrap.dedent(SCRIPT).replace(
        "def where() -> list[str]:\n    return [__name__, str(os.getpid())]",
        f"def where() -> list[str]:\n    from execution.process_tools import {tool}\n    {tool}({str(marker)!r})",
    )
    script = tmp_path / "script.py"
    script.write_text(body)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    parent = subprocess.Popen([sys.executable, str(script)], env=env, stdout=subprocess.DEVNULL)
    try:

        async def script_() -> None:
            async with asyncio.timeout(40):
                await until(marker.exists)
                pids = list(map(int, marker.read_text().split()))
                parent.kill()
                await until(lambda: not any(map(alive, pids)))

        asyncio.run(script_())
    finally:
        parent.kill()
        parent.wait(20)
