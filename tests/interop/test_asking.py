"""Asking the user: one body per behaviour, over both transports, in three revisions, with two clients that answer."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from interop.asking_clients import CLIENTS, REVISIONS, SERVER, Line, Question, Refused
from support import JUNE, free_port, serving

MISSING_CAPABILITY = -32021
WAYS = [
    pytest.param((client, transport, revision), id=f"{client}-{transport}-{revision}")
    for client in CLIENTS
    for transport in ("stdio", "http")
    for revision in REVISIONS
]
tags = (f"tag{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with serving([sys.executable, SERVER, str(port)], port) as url:
        yield url


def _line(request: Any, url: str, *, can_answer: bool) -> Iterator[Line]:
    client, transport, revision = request.param
    line = Line(client, url if transport == "http" else None, revision, can_answer=can_answer)
    yield line
    line.close()


@pytest.fixture(scope="module", params=WAYS)
def line(request: Any, url: str) -> Iterator[Line]:
    """A client whose user answers."""
    yield from _line(request, url, can_answer=True)


@pytest.fixture(scope="module", params=WAYS)
def mute(request: Any, url: str) -> Iterator[Line]:
    """A client that declares nothing."""
    yield from _line(request, url, can_answer=False)


@pytest.fixture
def tag() -> str:
    """A name that no other test has, because all of them share the server."""
    return next(tags)


# ---------------------------------------------------------------- one question


@pytest.mark.requirement("66", "67", "72", "T40")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"answer": "Ada"}, "Hello, Ada!"),
        ("decline", "No name provided. (declined)"),
        ("cancel", "No name provided. (cancelled)"),
    ],
)
def test_each_answer_has_its_own_end(line: Line, answer: Any, text: str) -> None:
    line.table.script(answer)
    assert line.tool("ask_name") == (text, False)
    [question] = line.table.asked
    assert (question.kind, question.message) == ("form", "What is your name?")
    assert question.schema == {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("decline", "The user declined to answer: What is your name?"),
        ("cancel", "The user did not answer: What is your name?"),
    ],
)
def test_ask_ends_politely(line: Line, answer: str, text: str) -> None:
    line.table.script(answer)
    assert line.tool("polite") == (text, False)


@pytest.mark.requirement("68", "69")
def test_a_dataclass(line: Line) -> None:
    line.table.script({"city": "Bern", "nights": 3, "window": True})
    assert line.tool("trip") == ("Accepted(data=Trip(city='Bern', nights=3, window=True))", False)
    [question] = line.table.asked
    assert list(question.fields) == ["city", "nights", "window"]
    assert question.schema["required"] == ["city"]


def test_a_dataclass_with_its_defaults(line: Line) -> None:
    line.table.script({"city": "Bern"})
    assert line.tool("trip") == ("Accepted(data=Trip(city='Bern', nights=2, window=False))", False)


def test_a_bad_answer_is_asked_again_with_the_reason(line: Line) -> None:
    line.table.script({"city": "Bern", "nights": "many"}, {"city": "Bern", "nights": 1})
    assert line.tool("trip") == ("Accepted(data=Trip(city='Bern', nights=1, window=False))", False)
    first, second = line.table.asked
    assert first.message == "Where to?"
    assert second.message.startswith("Where to?\n\n")
    assert "nights" in second.message


def test_an_enum(line: Line) -> None:
    line.table.script({"answer": "blue"})
    assert line.tool("color") == ("DEEP_BLUE", False)
    choices = line.table.asked[0].fields["answer"]
    if line.revision == JUNE:
        assert choices["enum"] == ["red", "blue"]
    else:
        assert [option["const"] for option in choices["oneOf"]] == ["red", "blue"]


def test_several_choices(line: Line) -> None:
    toppings: Any = "ham, leek" if line.revision == JUNE else ["ham", "leek"]
    line.table.script({"size": "large", "toppings": toppings})
    assert line.tool("pizza") == ("large: ham + leek", False)
    assert line.table.asked[0].fields["toppings"]["type"] == ("string" if line.revision == JUNE else "array")


@pytest.mark.parametrize(
    ("answer", "text"),
    [({"answer": True}, "deleted"), ({"answer": False}, "kept"), ("decline", "kept"), ("cancel", "kept")],
)
def test_confirm(line: Line, answer: Any, text: str) -> None:
    line.table.script(answer)
    assert line.tool("sure") == (text, False)


def test_choose(line: Line) -> None:
    line.table.script({"answer": "2"})
    assert line.tool("pick") == ("2", False)
    assert "Large" in str(line.table.asked[0].schema)


@pytest.mark.requirement("T44")
def test_a_web_page(line: Line) -> None:
    line.table.script(True)
    text, failed = line.tool("sign_in")
    if line.revision == JUNE:  # it has no such question
        assert failed
        assert "cannot send a user to a web page" in text
        return
    assert (text, failed) == ("on the way", False)
    [question] = line.table.asked
    assert (question.kind, question.url) == ("url", "https://example.com/sign-in")
    line.table.script("decline")
    assert line.tool("sign_in") == ("not signed in", False)


def test_sampling(line: Line) -> None:
    line.table.script("old pond")
    assert line.tool("haiku") == ("unknown: old pond", False)
    assert line.table.asked == [Question("sample", "A haiku, please")]


def test_roots(line: Line) -> None:
    assert line.tool("folders") == ("file:///home/ada", False)


# ---------------------------------------------------------------- several questions


@pytest.mark.requirement("70")
def test_several_in_sequence(line: Line) -> None:
    line.table.script({"answer": "a"}, {"answer": "b"}, {"answer": "c"})
    assert line.tool("sequence") == ("abc", False)
    assert [q.message for q in line.table.asked] == [
        "Letter 0 after ''?",
        "Letter 1 after 'a'?",
        "Letter 2 after 'ab'?",
    ]


def _by_message(question: Question) -> Any:
    if question.kind == "sample":
        return "Hello"
    return {"answer": 36 if "age" in question.message else "Ada"}


def test_ask_all(line: Line) -> None:
    line.table.script()
    line.table.user = _by_message
    assert line.tool("form_of_two") == ("Ada is 36", False)
    assert len(line.table.asked) == 2


def test_elicitation_sampling_and_roots_together(line: Line) -> None:
    line.table.script()
    line.table.user = _by_message
    assert line.tool("gathered") == ("Hello Ada in file:///home/ada", False)
    assert len(line.table.asked) == 2  # the roots are no question to the user


def test_a_step_is_done_once(line: Line, tag: str) -> None:
    line.table.script({"answer": "Ada"}, {"answer": True})
    text, failed = line.tool("book", tag=tag)
    assert (text, failed) == (f"ticket 41, {len(tag)}, reserved 1 time(s)", False)
    assert line.table.asked[1].message == "Keep ticket 41?"
    assert line.tool("times", tag=tag) == ("3" if line.modern else "1", False)


@pytest.mark.requirement("66")
def test_a_plain_function(line: Line) -> None:
    line.table.script({"answer": "Ada"}, {"answer": True})
    assert line.tool("plainly") == ("Ada 3 True", False)


def test_a_generator(line: Line) -> None:
    line.table.script({"answer": "Ada"})
    assert line.tool("told") == ("once upon a time\nthere was Ada", False)


def test_a_prompt(line: Line) -> None:
    line.table.script({"answer": "Ada"})
    assert line.run(line.driver.prompt("interview")) == "Interview Ada."


def test_a_resource(line: Line) -> None:
    line.table.script({"answer": "Ada"})
    assert line.run(line.driver.read("asked://who")) == "It was Ada."


# ---------------------------------------------------------------- limits


def test_the_time_of_the_user_is_not_the_handlers(line: Line, tag: str) -> None:
    async def think(question: Question) -> Any:
        await line.driver.tool("wait_for_end", tag=tag)  # the limit of the tool has passed by then
        return {"answer": "Ada"}

    line.table.script()
    line.table.user = think
    assert line.tool("hasty", tag=tag) == ("Ada was in time", False)


def test_cancelled_while_asking(line: Line, tag: str) -> None:
    async def play() -> None:
        seen = asyncio.Event()

        async def never(question: Question) -> Any:
            seen.set()
            await asyncio.get_running_loop().create_future()

        line.table.user = never
        call = asyncio.create_task(line.driver.tool("abandoned", tag=tag))
        await seen.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await line.driver.tool("wait_for_end", tag=tag) == ("ended", False)

    line.run(play())
    line.table.script({"answer": "Ada"})
    assert line.tool("ask_name") == ("Hello, Ada!", False)


# ---------------------------------------------------------------- a client that cannot be asked


@pytest.mark.requirement("71", "T42", "T93")
def test_a_client_without_the_capability(mute: Line) -> None:
    assert mute.tool("reach") == ("false", False)
    if not mute.modern:
        text, failed = mute.tool("ask_name")
        assert failed
        assert "the client does not support it" in text
        assert "What is your name?" in text
        return
    with pytest.raises(Refused) as refused:
        mute.tool("ask_name")
    assert refused.value.code == MISSING_CAPABILITY
    assert refused.value.data == {"requiredCapabilities": {"elicitation": {}}}


def test_needs_is_checked_before_the_handler(mute: Line, tag: str) -> None:
    if mute.modern:
        with pytest.raises(Refused) as refused:
            mute.tool("needy", tag=tag)
        assert refused.value.code == MISSING_CAPABILITY
        assert refused.value.data == {"requiredCapabilities": {"elicitation": {}}}
    else:
        text, failed = mute.tool("needy", tag=tag)
        assert failed
        assert "elicitation" in text
    assert mute.tool("times", tag=tag) == ("0", False)


@pytest.mark.parametrize(("tool", "needed"), [("haiku", "sampling"), ("folders", "roots")])
def test_sampling_and_roots_need_their_capabilities(mute: Line, tool: str, needed: str) -> None:
    if mute.modern:
        with pytest.raises(Refused) as refused:
            mute.tool(tool)
        assert refused.value.data == {"requiredCapabilities": {needed: {}}}
    else:
        text, failed = mute.tool(tool)
        assert failed
        assert needed in text


def test_needs_lets_others_pass(line: Line, tag: str) -> None:
    line.table.script({"answer": "Ada"})
    assert line.tool("needy", tag=tag) == ("Ada", False)
