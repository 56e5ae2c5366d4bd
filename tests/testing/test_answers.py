"""Scripted answers: the forms an answer may have, and scripts that do not fit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from redstart import Cancelled, Client, Context, Declined, Server
from redstart.client.handlers import ElicitRequest
from redstart.testing import Answers
from support import ERAS, run

TWO = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
ONE = {"type": "object", "properties": {"answer": {"type": "string"}}}


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("Ada", {"answer": "Ada"}),
        ({"answer": "Ada"}, {"answer": "Ada"}),
        (Declined(), "decline"),
        (Cancelled(), "cancel"),
        (("name", "Ada"), {"answer": "Ada"}),
        (lambda request: request.message.upper(), {"answer": "YOUR NAME?"}),
    ],
)
def test_the_forms_of_an_answer(answer: Any, sent: object) -> None:
    answers = Answers(answer)
    assert answers(ElicitRequest(message="Your name?", schema=ONE)) == sent
    answers.check()


def test_a_page_needs_no_values() -> None:
    assert Answers(True)(ElicitRequest(message="Sign in", mode="url", url="https://x.example")) is True


@pytest.mark.parametrize(
    ("script", "schema", "words"),
    [
        ((), ONE, "the server asks 'Your name?', and the script has no more answers"),
        ((("age", 3),), ONE, "the server asks 'Your name?', where the script expects a question with 'age'"),
        (("Ada",), TWO, "'Your name?' has the fields name, age: write a dict, not 'Ada'"),
    ],
)
def test_a_script_that_does_not_fit_fails_at_the_question_and_at_the_end(
    script: tuple[Any, ...], schema: dict[str, Any], words: str
) -> None:
    answers = Answers(*script)
    with pytest.raises(AssertionError) as error:
        answers(ElicitRequest(message="Your name?", schema=schema))
    assert str(error.value) == words
    with pytest.raises(AssertionError) as error:
        answers.check()
    assert str(error.value) == words


def test_answers_that_are_left_over() -> None:
    answers = Answers("Ada", Declined())
    answers(ElicitRequest(message="Your name?", schema=ONE))
    with pytest.raises(AssertionError, match=r"did not ask for these answers: Declined\(\)"):
        answers.check()


@pytest.mark.parametrize("revision", ERAS)
def test_an_answer_that_the_server_refuses_is_asked_for_again_in_both_eras(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def age(ctx: Context) -> int:
        return await ctx.ask("Your age?", int)

    answers = Answers("old")

    async def main() -> None:
        async with Client(server, protocol=revision, on_elicit=answers) as client:
            with suppress(AssertionError):  # in the handshake era a client only logs it
                await client.call_tool("age")

    run(main())
    with pytest.raises(AssertionError, match=r"must be an integer, got the string .*old.*no more answers"):
        answers.check()


def test_a_dialogue() -> None:
    server = Server("s")

    @server.tool
    async def meet(ctx: Context) -> str:
        name = await ctx.ask("Your name?", str)
        return f"{name}: {'yes' if await ctx.confirm('Sure?') else 'no'}"

    async def main() -> None:
        answers = Answers("Ada", ("Sure", True))
        async with Client(server, on_elicit=answers) as client:
            assert (await client.call_tool("meet")).text == "Ada: yes"
        answers.check()
        assert [asked.message for asked in answers.asked] == ["Your name?", "Sure?"]

    run(main())
