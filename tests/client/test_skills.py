"""Skills: what is listed is what is loaded."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

import pytest

from client.support import Request, http_server, modern
from redstart.client import Client, InvalidReply
from redstart.client.skills import front_matter
from support import run

MAIN, OTHER = "skill://pdf/SKILL.md", "skill://pdf/form.bin"
TEXT = "---\nname: pdf\ndescription: Fill forms\n---\n\nBody.\n"
BYTES = b"\x00\xff"


def entry(uri: str, data: bytes, **other: Any) -> dict[str, Any]:
    return {"uri": uri, "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data), **other}


def loaded(main: str = TEXT, listed: dict[str, Any] | None = None, uri: str | None = None) -> tuple[bytes, list[str]]:
    """A file of a skill whose SKILL.md is `main`, and the requests that it took."""
    seen: list[str] = []
    files = [entry(MAIN, main.encode(), **(listed or {})), entry(OTHER, BYTES)]
    skill = {"uri": MAIN, "frontmatter": {"name": "pdf", "description": "Fill forms"}, "resources": files}

    async def handler(request: Request) -> None:
        method, params = request.message["method"], request.message["params"]
        seen.append(method)
        content = {"text": main} if params.get("uri") == MAIN else {"blob": b64encode(BYTES).decode()}
        answers = {
            "skills/list": {"skills": [skill]},
            "resources/read": {"contents": [{"uri": params.get("uri"), **content}]},
        }
        await request.result({"resultType": "complete", **answers[method]})

    async def script() -> bytes:
        async with http_server(modern(handler)) as url, Client(url) as c:
            (found,) = await c.list_skills()
            assert (found.name, seen) == ("pdf", ["skills/list"])
            return await c.read_skill(found, uri)

    return run(script()), seen


def test_a_skill_is_read_when_it_is_asked_for() -> None:
    assert loaded() == (TEXT.encode(), ["skills/list", "resources/read"])
    assert loaded(uri=OTHER)[0] == BYTES


@pytest.mark.parametrize(
    ("main", "listed", "said"),
    [
        (TEXT, {"digest": "sha256:" + "0" * 64}, "does not have the digest"),
        (TEXT, {"digest": "md5:x"}, "a digest that cannot be checked: 'md5'"),
        (TEXT, {"size": 5}, "and not 5 as the list"),
        (TEXT.replace("Fill forms", "Steal secrets"), {}, "says something else of itself"),
        (TEXT.replace("---\n\n", "hidden: x\n---\n\n"), {}, "says something else of itself"),
        ("no front matter", {}, "has no front matter"),
        ("---\nname: [a\n---\n", {}, "cannot be read, so the skill is not loaded"),
    ],
)
def test_what_is_not_as_listed_is_not_loaded(main: str, listed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidReply, match=said):
        loaded(main, listed)


def test_a_file_that_is_not_listed() -> None:
    with pytest.raises(ValueError, match="has no file 'skill://other'"):
        loaded(uri="skill://other")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: -2.5\nc: true\nd: ~\ne:\n", {"a": 1, "b": -2.5, "c": True, "d": None, "e": None}),
        ("a: \"x: \\u00e4 # y\"\nb: 'it''s'\nc: plain, text\n", {"a": "x: ä # y", "b": "it's", "c": "plain, text"}),
        ("# a comment\na: >\n  one\n  two\nb: |-\n  one\n   two\n", {"a": "one two\n", "b": "one\n two"}),
        (
            "m:\n  author: ada\n  deep:\n    x: 1\nl:\n- a\n- 2\n",
            {"m": {"author": "ada", "deep": {"x": 1}}, "l": ["a", 2]},
        ),
    ],
)
def test_front_matter_is_read(text: str, expected: dict[str, Any]) -> None:
    assert front_matter(f"---\n{text}---\nBody", MAIN) == expected


@pytest.mark.parametrize(
    "text",
    ["a: [1]\n", "a: &x 1\n", "a: *x\n", "a: !!python/x\n", "a: 1\na: 2\n", "a: 1 # c\n", "a: 1\n  b: 2\n", "- a\n",
     '"a: 1\n', "a: 'x\n", "a: x: y\n", "just text\n", ""],
)  # fmt: skip
def test_other_yaml_is_refused_and_not_guessed(text: str) -> None:
    if text:
        with pytest.raises(InvalidReply, match="cannot be read"):
            front_matter(f"---\n{text}---\n", MAIN)
    else:
        assert front_matter("---\n---\n", MAIN) == {}
