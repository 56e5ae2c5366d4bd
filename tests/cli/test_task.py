"""`redstart call --task` and `redstart task`: begin, look, answer, wait, cancel, leave."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ERAS, free_port, serving
from warm import redstart

WORKSHOP = str(Path(__file__).with_name("workshop.py"))
SECONDS = 30


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with serving(redstart("run", WORKSHOP, "--http", "--port", str(port)), port) as url:
        yield url


def ran(*words: str, status: int = 0) -> tuple[str, str]:
    """What the command has written to stdout and to stderr."""
    done = subprocess.run(
        redstart(*words), capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", [[], ["--task"]])
def test_a_tool_that_must_be_a_task(how: list[str], era: str) -> None:
    out, said = ran("call", WORKSHOP, "hat", "ribbons=2", *how, "--answer", "answer=Ada", "--protocol", era)
    assert out == "a hat for Ada\n"
    assert said.startswith("Task ") is bool(how)


@pytest.mark.parametrize("era", ERAS)
def test_begun_in_one_command_and_ended_in_another(era: str, url: str) -> None:
    id = ran("call", url, "hat", "ribbons=2", "--no-wait", "--protocol", era)[0].strip()
    out, _ = ran("task", url, id, "--answer", "answer=Ada", "--protocol", era)
    assert out == "a hat for Ada\n"
    out, _ = ran("task", url, id, "--json", "--protocol", era)
    assert json.loads(out)["content"] == [{"type": "text", "text": "a hat for Ada"}]


@pytest.mark.parametrize("era", ERAS)
def test_looked_at_and_cancelled(era: str, url: str) -> None:
    begun = json.loads(ran("call", url, "forever", "--no-wait", "--json", "--protocol", era)[0])
    assert begun["status"] == "working"
    looked, _ = ran("task", url, begun["taskId"], "--protocol", era)
    assert looked.startswith("working")
    cancelled, _ = ran("task", url, begun["taskId"], "--cancel", "--protocol", era)
    assert cancelled.startswith("cancelled")
    _, said = ran("task", url, begun["taskId"], "--wait", "--protocol", era, status=1)
    assert said.startswith(f"redstart: the task {begun['taskId']} was cancelled")


def test_a_question_is_shown(url: str) -> None:
    """Nobody answers here: the question is cancelled, the status says so, and the task ends."""
    id = ran("call", url, "hat", "ribbons=1", "--no-wait")[0].strip()
    out, said = ran("task", url, id, "--wait", status=2)
    assert out == "a hat for nobody\n"
    assert "The server asks: For whom?" in said


def test_an_answer_at_once() -> None:
    out, said = ran("call", WORKSHOP, "add", "a=1", "b=2", "--task")
    assert (out, said) == ("3\n", "add was answered at once: there is no task\n")


def test_a_server_of_this_command_keeps_no_task() -> None:
    out, said = ran("call", WORKSHOP, "forever", "--no-wait")
    assert out.strip().isalnum()
    assert "The server ends with this command." in said


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["no-such-task"], 4, "Unknown task: no-such-task"),
        ([], 2, "which task?"),
        (["7", "--cancel", "--wait"], 2, "--cancel stops the task"),
    ],
)
def test_what_is_wrong(words: list[str], status: int, said: str, url: str) -> None:
    assert said in ran("task", url, *words, status=status)[1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows are others")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("own", [True, False])
def test_ctrl_c(own: bool, era: str, url: str) -> None:
    """The server of a URL goes on with the task; one that the command has started ends, and so does the task."""
    command = redstart("call", WORKSHOP if own else url, "forever", "--task", "--protocol", era)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        id = process.stderr.readline().removeprefix("Task ").strip()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in said
    if own:
        assert "The task is cancelled, because its server ends with this command." in said
    else:
        assert f"The task goes on. Look at it or stop it: redstart task {url} {id} [--cancel]" in said
        assert ran("task", url, id, "--protocol", era)[0].startswith("working")
