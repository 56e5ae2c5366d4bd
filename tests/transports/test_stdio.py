"""stdio with real processes: a clean stdout whatever happens, prompt ends, bounded memory."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import warm
from support import DEADLINE, initialize, message, modern
from transports.support import STDIO_SERVER, Child

LOOPS = ["", "asyncio"]


def call(id: Any, tool: str, **arguments: Any) -> bytes:
    return modern(id, "tools/call", {"name": tool, "arguments": arguments})


def text(answer: Any) -> str:
    found: str = answer["result"]["content"][0]["text"]
    return found


@pytest.mark.requirement("5", "9")
def test_a_silent_start_and_a_prompt_end() -> None:
    with Child() as child:
        assert child.ask(initialize())["id"] == "init"
        status, seconds = child.end()
        assert status == 0
        assert seconds < 3
        assert child.rest() == b""
        assert child.rest("stderr") == b""


@pytest.mark.requirement("8")
@pytest.mark.parametrize("arguments", [(), ("--early",)], ids=str)
def test_nothing_but_messages_on_stdout(arguments: tuple[str, ...]) -> None:
    # Buffered, as where a client starts it: what is printed without a buffer before run() is out of our hands.
    with Child(*arguments, fresh=True, env={"PYTHONUNBUFFERED": ""}) as child:
        assert text(child.ask(call(1, "noisy"))) == "quiet"
        assert text(child.ask(call(2, "echo", text="x"))) == "x"
        assert child.end()[0] == 0
        assert child.rest() == b""
        noise = child.rest("stderr")
        for sound in (b"print from a tool", b"os.write to fd 1", b"a child"):
            assert sound in noise
        assert (b"printed at import" in noise) is bool(arguments)


@pytest.mark.requirement("5")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("busy", ["", "stuck", "wait"])
def test_every_way_to_end_is_prompt_and_clean(how: str, busy: str, loop: str) -> None:
    with Child(env={"REDSTART_LOOP": loop}) as child:
        assert child.ask(modern(1, "server/discover"))["id"] == 1
        if busy:
            child.write(modern(2, "tools/call", {"name": busy}, progressToken="p"))
        if busy == "stuck":
            child.read_until(b"stuck\n", "stderr")
        elif busy == "wait":
            assert child.answer()["method"] == "notifications/progress"
        status, seconds = child.end(how)
        assert status == 0
        assert seconds < 3
        noise = child.rest("stderr")
        assert b"Traceback" not in noise
        assert noise in (b"", b"unwound\n")
        assert child.rest() == b""


@pytest.mark.requirement("5")
def test_what_was_asked_before_the_end_is_answered() -> None:
    asked = b"".join(call(n, "sync_echo", text=str(n)) + b"\n" for n in range(20))
    done = subprocess.run(warm.command(STDIO_SERVER), input=asked, capture_output=True, timeout=DEADLINE, check=True)
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == list(range(20))


def test_a_last_line_without_a_newline_is_a_message() -> None:
    done = subprocess.run(
        warm.command(STDIO_SERVER), input=call(1, "echo"), capture_output=True, timeout=DEADLINE, check=True
    )
    assert json.loads(done.stdout)["id"] == 1


@pytest.mark.parametrize(
    "env", [{"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}]
)
def test_utf8_whatever_the_locale(env: dict[str, str]) -> None:
    with Child(fresh=True, env=env) as child:
        child.write(call(1, "echo", text="é ☃ 😀 \u2028"))
        assert text(json.loads(child.read_until(b"\n").decode())) == "é ☃ 😀 \u2028"


@pytest.mark.requirement("R1", "T2")
@pytest.mark.parametrize("loop", LOOPS)
def test_a_bad_line_is_answered_and_the_stream_goes_on(loop: str) -> None:
    with Child(env={"REDSTART_LOOP": loop}) as child:
        for bad in (b"nonsense", b"{", b"\xff\xfe", b'{"a":NaN}', b"[" * 100_000, b'{"id":' + b"9" * 1_000_000 + b"}"):
            answer = child.ask(bad)
            assert "id" not in answer
            assert answer["error"]["code"] in (-32700, -32600)
            assert text(child.ask(call(1, "echo", text="on"))) == "on"
        child.write(b"", b"  ", b"\t\r")  # blank lines are no messages
        assert child.ask(message(1, "ping"))["result"] == {}


def test_a_line_over_the_limit_is_answered_and_the_stream_goes_on() -> None:
    with Child("--small") as child:
        assert child.ask(b"x" * 3_000_000)["error"]["code"] == -32700
        assert child.ask(call(1, "echo", text="x" * 2_000_000))["error"]["code"] == -32700
        assert text(child.ask(call(2, "echo", text="y" * 500_000))) == "y" * 500_000


@pytest.mark.requirement("2")
def test_content_length_is_answered_in_kind() -> None:
    def counted(data: bytes) -> bytes:
        return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)

    def answer(child: Child) -> Any:
        head = child.read_until(b"\r\n\r\n")
        name, _, size = head.strip().partition(b": ")
        assert name == b"Content-Length"
        return json.loads(child.read_bytes(int(size)))

    with Child() as child:
        child.write(counted(initialize()), counted(call(1, "echo", text="é\n")), counted(b"bad"), end=b"")
        found = [answer(child) for _ in range(3)]
        assert {one.get("id") for one in found} == {"init", 1, None}
        data = counted(message(2, "ping"))
        for n in range(len(data)):  # one byte at a time
            child.write(data[n : n + 1], end=b"")
        assert answer(child)["id"] == 2


@pytest.mark.requirement("5")
@pytest.mark.parametrize("newline", [True, False])
def test_stdin_from_a_regular_file(tmp_path: Path, newline: bool) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(b"\n".join(call(n, "echo", text="x" * 1000) for n in range(3000)) + b"\n" * newline)
    with file.open("rb") as stdin, Child(stdin=stdin) as child:
        found = [json.loads(line)["id"] for line in child.rest().splitlines()]
        assert sorted(found) == list(range(3000))
        assert child.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("redirect", ["</dev/null", "<&-", "<&- >&-", ">&-", "2>&- <&-", "2>&-"])
def test_odd_descriptors_are_no_reason_to_hang_or_to_crash(redirect: str, loop: str) -> None:
    command = ["sh", "-c", f'exec "$0" "$1" {redirect}', sys.executable, str(STDIO_SERVER)]
    with Child(command=command, env={"REDSTART_LOOP": loop}) as child:
        assert child.process.stdin is not None
        child.close_input()
        assert child.process.wait(DEADLINE) == 0
        assert child.rest() == b""
        assert child.rest("stderr") == b""


@pytest.mark.parametrize("loop", LOOPS)
def test_a_closed_stderr_does_not_lead_noise_to_stdout(loop: str) -> None:
    command = ["sh", "-c", 'exec "$0" "$1" 2>&-', sys.executable, str(STDIO_SERVER)]
    with Child(command=command, env={"REDSTART_LOOP": loop}) as child:
        assert text(child.ask(call(1, "noisy"))) == "quiet"
        assert text(child.ask(call(2, "echo", text="x"))) == "x"
        assert child.end()[0] == 0


def test_a_terminal_gets_a_hint() -> None:
    leader, follower = pty.openpty()
    try:
        with Child(stdin=follower) as child:
            hint = child.read_until(b"\n", "stderr")
            assert b"stdio-test is waiting for an MCP client on stdin" in hint
            os.write(leader, message(1, "ping") + b"\n")
            assert child.answer()["id"] == 1
            os.write(leader, b"\x04")  # Ctrl-D
            assert child.process.wait(DEADLINE) == 0
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_does_not_read_is_not_read_either(loop: str) -> None:
    """The server stops reading, so the pipe fills and our write would block; then nothing is lost."""
    one = call(0, "echo", text="x" * 2000)
    with Child(env={"REDSTART_LOOP": loop}) as child:
        assert child.ask(one)["id"] == 0
        stdin = child.process.stdin
        assert stdin is not None
        os.set_blocking(stdin.fileno(), False)
        data = b"".join(call(n, "echo", text="x" * 2000) + b"\n" for n in range(1, 40_001))
        written = 0
        stalled = 0.0
        while written < len(data):  # until it has taken nothing for a whole second
            try:
                written += os.write(stdin.fileno(), data[written : written + 65536])
                stalled = 0.0
            except BlockingIOError:
                if stalled and time.monotonic() - stalled > 1:
                    break
                stalled = stalled or time.monotonic()
                os.sched_yield()
        assert written < 20_000_000, "it took everything, although nobody read the answers"
        whole = data[:written].count(b"\n")
        lines = 0
        while lines < whole:
            lines += child.read_until(b"\n").count(b"\n")
        os.set_blocking(stdin.fileno(), True)
        stdin.write(data[written : data.index(b"\n", written) + 1] if data[written - 1 : written] != b"\n" else b"")
        stdin.flush()
        if data[written - 1 : written] != b"\n":
            child.answer()
        child.write(call("last", "echo", text="still here"))
        assert text(child.answer()) == "still here"


def fill(child: Child) -> None:
    """Ask, and read no answer, until the server has taken nothing for a whole second."""
    stdin = child.process.stdin
    assert stdin is not None
    os.set_blocking(stdin.fileno(), False)
    one = call(1, "large", size=100_000).replace(b'"id": 1', b'"id": %d')
    stalled = 0.0
    for n in range(2, 1 << 20):
        data = one % n + b"\n"
        while data:
            try:
                data = data[os.write(stdin.fileno(), data) :]
                stalled = 0.0
            except BlockingIOError:
                if stalled and time.monotonic() - stalled > 1:
                    return
                stalled = stalled or time.monotonic()
                os.sched_yield()


@pytest.mark.slow("calls have ten seconds to finish, and nobody reads")
@pytest.mark.parametrize("loop", LOOPS)
def test_the_end_of_the_input_is_seen_although_nobody_reads_the_answers(loop: str) -> None:
    with Child(env={"REDSTART_LOOP": loop}) as child:
        fill(child)
        child.close_input()
        assert child.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_gets_every_answer_after_the_end_of_the_input(loop: str) -> None:
    asked = b"".join(call(n, "large", size=100_000) + b"\n" for n in range(200))
    with Child(env={"REDSTART_LOOP": loop}) as child:

        def write() -> None:
            child.write(asked, end=b"")
            child.close_input()

        writer = threading.Thread(target=write)
        writer.start()
        found = [child.answer()["id"] for _ in range(200)]
        writer.join()
        assert sorted(found) == list(range(200))
        assert child.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("arguments", [(), ("--logging",)], ids=str)
@pytest.mark.parametrize("how", ["raise", "print", "log", "write"])
def test_a_client_that_does_not_read_stderr_is_served(how: str, arguments: tuple[str, ...]) -> None:
    with Child(*arguments) as child:
        for n in range(200):
            answer = child.ask(call(n, "loud", how=how))
            assert answer["id"] == n
        assert child.read_until(b"x\n", "stderr")
        child.ask(call(0, "loud", how=how))
        assert b"were left out" in child.read_until(b"left out\n", "stderr")
        assert child.end()[0] == 0


def test_a_large_answer_is_written_in_pieces() -> None:
    with Child() as child:
        child.write(call(1, "large", size=5_000_000))
        assert len(text(child.answer())) == 5_000_000
        assert child.ask(message(2, "ping"))["id"] == 2


@pytest.mark.requirement("3", "14", "17")
def test_both_eras_on_one_pipe() -> None:
    with Child() as child:
        assert child.ask(modern(1, "server/discover"))["result"]["resultType"] == "complete"
        assert child.ask(initialize("2025-06-18"))["result"]["protocolVersion"] == "2025-06-18"
        child.write(message(None, "notifications/initialized"))
        for n in range(2, 10):
            data = message(n, "tools/list") if n % 2 else modern(n, "tools/list")
            assert ("resultType" in child.ask(data)["result"]) is (n % 2 == 0)


def test_two_handshakes_in_one_write_are_answered_in_their_order() -> None:
    with Child() as child:
        child.write(initialize(id=1), message(2, "ping"), initialize(id=3), message(4, "ping"))
        assert [child.answer()["id"] for _ in range(4)] == [1, 2, 3, 4]


def test_a_new_initialize_ends_the_calls_of_the_last_session() -> None:
    with Child() as child:
        child.ask(initialize("2025-06-18", id=0))
        child.write(message(None, "notifications/initialized"))
        child.write(message(1, "tools/call", {"name": "wait", "_meta": {"progressToken": "p"}}))
        assert child.answer()["method"] == "notifications/progress"
        opened = child.ask(initialize("2025-11-25", id=1))
        assert (opened["id"], opened["result"]["protocolVersion"]) == (1, "2025-11-25")
        child.read_until(b"unwound\n", "stderr")
        child.write(message(None, "notifications/initialized"))
        assert text(child.ask(message(2, "tools/call", {"name": "echo", "arguments": {"text": "x"}}))) == "x"
        assert child.end()[0] == 0
        assert child.rest() == b""


@pytest.mark.requirement("18")
@pytest.mark.parametrize("tool", ["echo", "sync_echo"])
def test_a_thousand_requests_at_once(tool: str) -> None:
    with Child() as child:
        child.write(*(call(n, tool, text=str(n)) for n in range(1000)))
        found = [child.answer() for _ in range(1000)]
        assert {one["id"]: text(one) for one in found} == {n: str(n) for n in range(1000)}
        assert child.end()[0] == 0


def test_a_cancelled_call_unwinds_and_is_not_answered() -> None:
    with Child() as child:
        child.write(modern(1, "tools/call", {"name": "wait"}, progressToken=7))
        progress = child.answer()
        assert progress["params"] == {"progressToken": 7, "progress": 1}
        child.write(message(None, "notifications/cancelled", {"requestId": 1}))
        child.read_until(b"unwound\n", "stderr")
        assert child.ask(message(1, "ping"))["result"] == {}
        assert child.end()[0] == 0
        assert child.rest() == b""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("words", ["progress", "info"])
@pytest.mark.parametrize("end", ["tell", "cancel"])
def test_words_of_a_busy_tool_leave_at_once_and_its_client_is_heard(words: str, end: str, loop: str) -> None:
    with Child(env={"REDSTART_LOOP": loop}) as child:
        child.ask(initialize())
        child.write(message(None, "notifications/initialized"))
        params = {"name": "until_told", "arguments": {"words": words}, "_meta": {"progressToken": "p"}}
        child.write(message(1, "tools/call", params))
        assert child.answer()["method"] in ("notifications/progress", "notifications/message")
        child.write(message(2, "ping"))
        while (answer := child.answer()).get("id") != 2:
            assert "method" in answer
        if end == "tell":
            child.write(message(3, "tools/call", {"name": "tell"}))
            ids = [id for id in iter(lambda: child.answer().get("id"), 1) if id is not None]
            assert ids == [3]
        else:
            child.write(message(None, "notifications/cancelled", {"requestId": 1}), message(4, "ping"))
            while child.answer().get("id") != 4:
                pass
        assert child.end()[0] == 0
        assert child.rest() == b""


@pytest.mark.parametrize("loop", ["", pytest.param("asyncio", marks=pytest.mark.slow("uvloop is the quick one"))])
@pytest.mark.parametrize("tool", ["chatty", "chatty_child"])
def test_a_tool_is_held_back_while_its_client_does_not_read(tool: str, loop: str) -> None:
    with Child(env={"REDSTART_LOOP": loop}) as child:
        params = {"name": tool, "arguments": {"count": 20_000}}
        child.write(modern(1, "tools/call", params, progressToken="p"))
        if tool == "chatty":
            assert child.read_until(b"\n", "stderr") == b"held back\n"
        else:
            with pytest.raises(TimeoutError):
                child.read_until(b"through\n", "stderr", within=3)
        lines = list(iter(lambda: child.answer().get("id"), 1))
        assert len(lines) == 20_000
        child.read_until(b"through\n", "stderr")


def test_a_peer_that_closes_its_end_leaves_no_noise() -> None:
    with Child() as child:
        assert child.ask(message(1, "ping"))["id"] == 1
        assert child.process.stdout is not None
        child.process.stdout.close()
        child.write(*(call(n, "large", size=1_000_000) for n in range(5)))
        child.close_input()
        assert child.process.wait(DEADLINE) == 0
        assert child.rest("stderr") == b""


@pytest.mark.requirement("T101")
def test_list_changed_reaches_both_eras() -> None:
    with Child() as child:
        child.ask(initialize())
        child.write(message(None, "notifications/initialized"))
        child.write(modern("L", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        acknowledged = child.answer()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        child.write(call(1, "add_tool"))
        found = [child.answer() for _ in range(3)]
        changed = [one for one in found if one.get("method") == "notifications/tools/list_changed"]
        assert sorted(bool(one["params"]) for one in changed) == [False, True]
        assert child.end()[0] == 0
        last = json.loads(child.rest())
        assert last["id"] == "L"
        assert last["result"]["resultType"] == "complete"
