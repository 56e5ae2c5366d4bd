"""Completion over bytes, for a client of each era."""

import enum
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Annotated, Any, Literal

import pytest

from redstart import Complete, Context, NotAPath, Prompt, RegistrationError, Resource, Server, SyncContext
from redstart.wire.types import Completion
from support import ERAS, ask, capabilities, refused

pytestmark = pytest.mark.parametrize("era", ERAS)
WORDS = ["python", "prolog", "Pascal", "ruby"]


class Tone(enum.Enum):
    KIND = "kind"
    KEEN = "keen"
    HARSH = "harsh"


def completed(
    server: Server, era: str, ref: str, argument: str, typed: str = "", filled: dict[str, str] | None = None
) -> dict[str, Any]:
    params = _params(ref, argument, typed)
    if filled is not None:
        params["context"] = {"arguments": filled}
    found: dict[str, Any] = ask(server, era, "completion/complete", **params)["completion"]
    return found


def _params(ref: str, argument: str, typed: str = "") -> dict[str, Any]:
    where = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    return {"ref": where, "argument": {"name": argument, "value": typed}}


def completing(source: Any) -> Server:
    """A server whose prompt `it` has one argument, `word`, that `source` completes."""

    def it(word: Annotated[str, Complete(source)], other: str = "") -> str:
        return word

    return Server("s", prompts=[it])


@pytest.mark.requirement("T56")
@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("", WORDS),
        ("p", ["python", "prolog"]),
        ("py", ["python"]),
        ("P", ["Pascal"]),
        ("PY", ["python"]),
        ("x", []),
    ],
)
def test_a_list_is_filtered_by_what_was_typed(era: str, typed: str, values: list[str]) -> None:
    found = completed(completing(WORDS), era, "it", "word", typed)
    assert found == {"values": values, "total": len(values), "hasMore": False}


@pytest.mark.requirement("T56")
def test_a_function_sees_the_value_and_the_other_arguments(era: str) -> None:
    async def cities(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{arguments.get('country', 'nowhere')}:{value}"]

    server = completing(cities)
    assert completed(server, era, "it", "word", "B", {"country": "ch"})["values"] == ["ch:B"]
    assert completed(server, era, "it", "word", "B", {})["values"] == ["nowhere:B"]
    assert completed(server, era, "it", "word", "B")["values"] == ["nowhere:B"]


@pytest.mark.requirement("T56")
def test_a_source_may_be_sync_and_take_a_context(era: str) -> None:
    def here(prefix: str, ctx: SyncContext[Any]) -> list[str]:
        return [ctx.protocol_version]

    async def there(prefix: str, ctx: Context[Any]) -> set[str]:
        return {ctx.protocol_version}

    assert completed(completing(here), era, "it", "word")["values"] == [era]
    assert completed(completing(there), era, "it", "word")["values"] == [era]


@pytest.mark.requirement("T57")
def test_at_most_a_hundred_values(era: str) -> None:
    many = [f"v{n:03}" for n in range(150)]
    for source in (many, lambda value: many):
        found = completed(completing(source), era, "it", "word")
        assert found == {"values": many[:100], "total": 150, "hasMore": True}
    exactly = completed(completing(many[:100]), era, "it", "word")
    assert (len(exactly["values"]), exactly["total"], exactly["hasMore"]) == (100, 100, False)


@pytest.mark.requirement("T57")
def test_a_source_without_an_end_is_cut(era: str) -> None:
    def endless(value: str) -> Iterator[str]:
        return (f"{value}{n}" for n in count())

    found = completed(completing(endless), era, "it", "word", "n")
    assert (found["values"][99], len(found["values"]), found["hasMore"]) == ("n99", 100, True)
    assert "total" not in found


@pytest.mark.requirement("T57")
def test_a_source_may_count_for_itself(era: str) -> None:
    found = completed(completing(lambda value: Completion(["a", "b"], 4000, True)), era, "it", "word")
    assert found == {"values": ["a", "b"], "total": 4000, "hasMore": True}


@pytest.mark.requirement("T56")
def test_enums_and_literals_complete_themselves(era: str) -> None:
    server = Server("s")

    @server.prompt
    def write(tone: Tone, size: Literal["short", "shorter"] | None = None, level: Literal[1, 12] = 1) -> str:
        return "x"

    assert completed(server, era, "write", "tone", "k")["values"] == ["kind", "keen"]
    assert completed(server, era, "write", "size", "short")["values"] == ["short", "shorter"]
    assert completed(server, era, "write", "level", "1")["values"] == ["1", "12"]
    assert completed(completing(Tone), era, "it", "word", "h")["values"] == ["harsh"]


@pytest.mark.requirement("T56")
def test_an_annotation_may_be_optional(era: str) -> None:
    server = Server("s")

    @server.prompt
    def write(word: Annotated[str, Complete(WORDS)] | None = None) -> str:
        return "x"

    assert completed(server, era, "write", "word", "r")["values"] == ["ruby"]


@pytest.mark.requirement("T56")
def test_template_variables_complete_by_annotation_by_decorator_and_by_uri(era: str) -> None:
    server = Server("s")

    @server.resource("notes://{name}/{part}")
    def note(name: Annotated[str, Complete(["todo", "done"])], part: str) -> str:
        return name

    @server.completion("notes://{name}/{part}", "part")
    def parts(prefix: str) -> list[str]:
        return [f"{prefix}1", f"{prefix}2"]

    assert completed(server, era, "notes://{name}/{part}", "name", "t")["values"] == ["todo"]
    assert completed(server, era, "notes://{name}/{part}", "part", "p")["values"] == ["p1", "p2"]
    assert completed(server, era, "notes://todo/x", "name", "d")["values"] == ["done"]


@pytest.mark.parametrize("typed", ["/etc/", "C:/", "../", "a/../", "\\\\server"])
def test_what_no_uri_could_hold_completes_to_nothing(era: str, typed: str) -> None:
    server, reached = Server("s"), []

    @server.resource("docs://{+path}{?page,url}")
    def doc(path: str, page: str = "", url: Annotated[str, NotAPath] = "") -> str:
        return path

    @server.completion("docs://{+path}{?page,url}", "path")
    def paths(prefix: str, others: dict[str, str]) -> list[str]:
        reached.append(prefix)
        return [f"{prefix}x"]

    assert completed(server, era, "docs://{+path}{?page,url}", "path", typed)["values"] == []
    assert completed(server, era, "docs://{+path}{?page,url}", "path", "a", {"page": typed})["values"] == []
    assert reached == []
    assert completed(server, era, "docs://{+path}{?page,url}", "path", "a/", {"url": typed})["values"] == ["a/x"]


@pytest.mark.requirement("T56")
def test_the_decorator_may_come_first_and_wins(era: str) -> None:
    server = Server("s")

    @server.completion("review", "language")
    def languages(prefix: str) -> list[str]:
        return ["from the decorator"]

    assert "completions" not in capabilities(server, era)

    @server.prompt
    def review(language: Annotated[str, Complete(WORDS)]) -> str:
        return language

    assert completed(server, era, "review", "language")["values"] == ["from the decorator"]
    assert languages("x") == ["from the decorator"]


@pytest.mark.requirement("T56")
def test_an_argument_without_a_source_completes_to_nothing(era: str) -> None:
    assert completed(completing(WORDS), era, "it", "other") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.requirement("T58")
@pytest.mark.parametrize(
    "params",
    [
        _params("its", "word"),
        _params("it", "wrd"),
        _params("gone://{x}", "x"),
        _params("gone://x", "x"),
        {"ref": {"type": "ref/tool", "name": "it"}, "argument": {"name": "word", "value": ""}},
        {"ref": {"type": "ref/prompt"}, "argument": {"name": "word", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "it"}},
        {"ref": {"type": "ref/prompt", "name": "it"}, "argument": {"name": "word", "value": 5}},
    ],
)
def test_unknown_and_malformed_references_are_refused(era: str, params: Any) -> None:
    assert refused(completing(WORDS), era, "completion/complete", **params)["code"] == -32602


@pytest.mark.requirement("T58")
def test_a_refusal_names_the_nearest(era: str) -> None:
    assert '"it"' in refused(completing(WORDS), era, "completion/complete", **_params("itt", "word"))["message"]
    assert '"word"' in refused(completing(WORDS), era, "completion/complete", **_params("it", "wrd"))["message"]


@pytest.mark.requirement("T59")
@pytest.mark.parametrize("context", [None, 5, [], {"arguments": None}, {"arguments": {"a": 1}}, {"arguments": ["a"]}])
def test_a_mistyped_context_is_refused(era: str, context: Any) -> None:
    error = refused(completing(WORDS), era, "completion/complete", **_params("it", "word"), context=context)
    assert error["code"] == -32602


@pytest.mark.requirement("T60")
@pytest.mark.parametrize("returned", ["lone", None, 5, {"a": 1}, [None], [b"x"], [["a"]]])
def test_a_source_that_returns_no_list_of_strings_is_named(era: str, returned: Any) -> None:
    def broken(value: str) -> Any:
        return returned

    error = refused(completing(broken), era, "completion/complete", **_params("it", "word"))
    assert error["code"] == -32603
    assert "broken" in error["message"]


@pytest.mark.requirement("T60")
def test_a_source_that_raises_is_named_and_its_text_is_kept_back(era: str) -> None:
    def broken(value: str) -> Any:
        raise ValueError("password 1234")

    error = refused(completing(broken), era, "completion/complete", **_params("it", "word"))
    assert error["code"] == -32603
    assert "broken" in error["message"]
    assert "ValueError" in error["message"]
    assert "1234" not in error["message"]


@pytest.mark.requirement("T61")
def test_a_completion_is_never_cached(era: str) -> None:
    result = ask(completing(WORDS), era, "completion/complete", **_params("it", "word"))
    assert not {"ttlMs", "cacheScope"} & result.keys()


@pytest.mark.requirement("32", "T56")
def test_completions_are_advertised_only_if_something_completes(era: str) -> None:
    server = Server("s", prompts=[Prompt("p", handler=lambda a: a)])
    server.register(Resource("t://{x}", handler=lambda x: x))
    assert "completions" not in capabilities(server, era)
    assert refused(server, era, "completion/complete", **_params("p", "a"))["code"] == -32601
    server.completion("t://{x}", "x")(lambda value: ["a"])
    assert "completions" in capabilities(server, era)
    assert completed(server, era, "t://{x}", "x")["values"] == ["a"]
    server.remove("t://{x}")
    assert "completions" not in capabilities(server, era)
    assert "completions" in capabilities(completing(WORDS), era)
    assert "completions" in capabilities(Server("s", capabilities=["completions"]), era)


@pytest.mark.requirement("T58")
def test_what_a_user_may_not_see_does_not_complete(era: str) -> None:
    def hidden(word: Annotated[str, Complete(WORDS)]) -> str:
        return word

    server = Server("s", prompts=[Prompt(handler=hidden, visible=lambda user: user == "ada")])
    params = _params("hidden", "word")
    assert ask(server, era, "completion/complete", "ada", **params)["completion"]["values"] == WORDS
    assert refused(server, era, "completion/complete", "bob", **params)["code"] == -32602


async def endless(typed: str) -> AsyncIterator[str]:
    yield typed


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("lone", "a list of texts, an Enum or a function"),
        (5, "a list of texts, an Enum or a function"),
        ([1, 2], "must be strings"),
        (lambda: ["a"], "not \\(\\)"),
        (lambda a, b, c: [], "not \\(a, b, c\\)"),
        (lambda *a: [], "by name"),
        (endless, "return a list instead of yielding"),
    ],
)
def test_what_cannot_complete_fails_at_once(era: str, source: Any, words: str) -> None:
    with pytest.raises(RegistrationError, match=words) as caught:
        completing(source)
    assert "test_completion.py:" in str(caught.value)


def test_a_completion_of_an_argument_that_is_not_there_fails_in_either_order(era: str) -> None:
    server = completing(WORDS)
    with pytest.raises(RegistrationError, match="no argument 'wrd'; it has word, other"):
        server.completion("it", "wrd")(lambda value: [])
    early = Server("s")
    early.completion("it", "wrd")(lambda value: [])
    with pytest.raises(RegistrationError, match="no argument 'wrd'"):
        early.register(Prompt("it", handler=lambda word: word))
