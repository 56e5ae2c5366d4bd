"""The bird expert asks: alone, and over every transport and revision. What it knows is in test_birds_guide.py."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart import Client, Server
from redstart.cli.target import load
from redstart.client import ElicitRequest
from support import ROOT, free_port, serving
from warm import command

BIRDS = ROOT / "examples" / "birds"
sys.path.insert(0, str(BIRDS))

from fieldguide import GUIDE  # noqa: E402
from fieldguide.expert import OTHER, Case  # noqa: E402
from fieldguide.report import identification  # noqa: E402
from fieldguide.taxonomy import Species  # noqa: E402
from fieldguide.traits import TRAITS  # noqa: E402

FILE = str(BIRDS / "server.py")
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
ASKING = REVISIONS[2:]
MODERN = REVISIONS[-1]
BY_QUESTION = {trait.question: name for name, trait in TRAITS.items()}

WAYS_OUT = ("unknown", "decline", "cancel", "stop", OTHER)
MOVES = st.lists(st.one_of(st.integers(0, 20), st.sampled_from(WAYS_OUT)), max_size=len(TRAITS))
"""A dialogue: the number of the choice to take, or one of the ways out; at the end of the list, "I don't know"."""


def bird(name: str) -> Species:
    found = GUIDE.find(name)
    assert found is not None
    return found


# ---------------------------------------------------------------- questions


PATIENCE = 10
"""How many questions the server asks in one call; the expert itself would go on."""


def play(moves: list[Any], patience: int = PATIENCE) -> tuple[Case, int, bool]:
    """A dialogue with the expert alone: what is known at its end, how much was asked, whether it was cancelled."""
    case, asked, rest = GUIDE.case(), 0, iter(moves)
    while case.question is not None and asked < patience:
        move = next(rest, "unknown")
        if move == "cancel":
            return case, asked, True
        if move == "stop":
            break
        values = case.question.values
        chosen = values[move % len(values)] if isinstance(move, int) else OTHER if move == OTHER else None
        case, asked = case.answered(case.question.trait.name, chosen), asked + 1
    return case, asked, False


@given(MOVES)
def test_any_dialogue_ends_without_asking_twice(moves: list[Any]) -> None:
    case, asked, _ = play(moves, patience=len(TRAITS))
    names = [answer.trait.name for answer in case.answers]
    assert len(names) == len(set(names)) == asked <= len(TRAITS)
    counts = [len(GUIDE.species), *(answer.left for answer in case.answers)]
    assert all(after <= before for before, after in pairwise(counts))
    for answer, before in zip(case.answers, counts, strict=False):
        assert answer.value is not None or answer.left == before
    assert all(not case.against(one) for one in case.candidates)
    report = identification(case, asked)
    assert len(report.questions) == asked
    assert all(answer.words in report.explanation for answer, _ in case.decisive)


@given(st.sampled_from(GUIDE.species), st.data())
def test_the_truth_with_gaps_never_rules_the_bird_out(one: Species, data: st.DataObject) -> None:
    case = GUIDE.case()
    while case.question is not None:
        trait = case.question.trait.name
        case = case.answered(trait, data.draw(st.sampled_from((None, *one.traits[trait]))))
    assert one in case.candidates


def test_ways_to_end() -> None:
    nothing, asked, _ = play([], patience=len(TRAITS))
    assert nothing.candidates == GUIDE.species
    assert asked == len(TRAITS)
    assert identification(nothing, asked).outcome == "candidates"
    none, asked, _ = play([OTHER])
    assert (none.candidates, asked, identification(none).outcome) == ((), 1, "none")
    with pytest.raises(ValueError, match="before"):
        none.answered(none.answers[0].trait.name, None)


# ---------------------------------------------------------------- dialogues


class Observer:
    """Somebody who answers forms: by `moves`, or by what is true of a bird. Remembers what was asked."""

    def __init__(self, moves: list[Any] | None = None, saw: Species | None = None) -> None:
        self._rest = iter(moves or [])
        self._saw = saw
        self.asked: list[str] = []

    def __call__(self, request: ElicitRequest) -> Any:
        ((field, schema),) = request.schema["properties"].items()
        trait = BY_QUESTION[request.message.partition(" (")[0]]
        assert request.key in (None, trait)
        self.asked.append(trait)
        choices = schema.get("enum") or [one["const"] for one in schema["oneOf"]]
        titles = schema.get("enumNames") or [one["title"] for one in schema["oneOf"]]
        assert choices[-3:] == [OTHER, "unknown", "stop"]
        assert titles[:-3] == [TRAITS[trait].values[value] for value in choices[:-3]]
        if self._saw is not None:
            return {field: next(value for value in choices if value in self._saw.traits[trait])}
        move = next(self._rest, "unknown")
        if move in ("decline", "cancel"):
            return move
        return {field: choices[move % (len(choices) - 3)] if isinstance(move, int) else move}


def fresh() -> Server:
    """Another Server object: the file is loaded anew."""
    return load(FILE)


async def dialogue(target: Any, protocol: str, observer: Observer) -> Any:
    async with Client(target, protocol=protocol, on_elicit=observer) as c:
        result = await c.call_tool("identify_bird")
        assert result.is_error is False
        assert result.structured["explanation"] in result.text
        return result.structured


@settings(max_examples=20)
@given(moves=MOVES)
def test_the_same_dialogue_in_every_revision(moves: list[Any]) -> None:
    case, asked, cancelled = play(moves)
    expected = msgspec.to_builtins(identification(case, asked, cancelled=cancelled))
    names = [answer.trait.name for answer in case.answers]

    async def main() -> None:
        server = fresh()
        for protocol in ASKING:
            observer = Observer(moves)
            assert await dialogue(server, protocol, observer) == expected
            assert observer.asked[: len(names)] == names
            assert len(observer.asked) == len(set(observer.asked)) <= asked + 1

    asyncio.run(main())


CROWD = GUIDE.species[::4]


@pytest.mark.parametrize("protocol", ASKING)
def test_a_crowd_never_mixes(protocol: str) -> None:
    async def main() -> None:
        server = fresh()
        found = await asyncio.gather(*(dialogue(server, protocol, Observer(saw=one)) for one in CROWD))
        assert [one["name"] for one in found] == [one.name for one in CROWD]
        assert max(len(one["questions"]) for one in found) <= 12

    asyncio.run(main())


def over_http(port: int) -> list[str]:
    """`redstart run examples/birds/server.py --http`, as a person would type it."""
    return [str(Path(sys.executable).with_name("redstart")), "run", FILE, "--http", "--port", str(port)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with serving(over_http(port), port) as url:
        yield url


SCRIPTS: list[list[Any]] = [
    [0, 1, 2, 3, 4],
    ["unknown", "decline", 3, "decline", 2],
    [1, "cancel"],
    [2, "stop"],
    [OTHER],
]


@pytest.mark.requirement("73")
@pytest.mark.requirement("73")
@pytest.mark.parametrize("protocol", ASKING)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_over_real_transports(transport: str, protocol: str, url: str) -> None:
    target: Any = url if transport == "http" else command(FILE)

    async def main() -> None:
        for moves in SCRIPTS:
            case, asked, cancelled = play(moves)
            found = await dialogue(target, protocol, Observer(moves))
            assert found == msgspec.to_builtins(identification(case, asked, cancelled=cancelled))
        found = await asyncio.gather(*(dialogue(target, protocol, Observer(saw=one)) for one in GUIDE.species[::17]))
        assert [one["name"] for one in found] == [one.name for one in GUIDE.species[::17]]

    asyncio.run(main())


@pytest.mark.parametrize("moves", [["unknown", 3, "decline", 0, 1, 0], []])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_with_the_mcp_client(transport: str, mode: str, moves: list[Any], url: str) -> None:
    client = pytest.importorskip("mcp.client.client")
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.types import ElicitResult

    observer = Observer(moves)
    case, asked, _ = play(moves)

    async def answer(_: Any, params: Any) -> Any:
        found = observer(ElicitRequest(message=params.message, schema=params.requested_schema))
        return ElicitResult(action="decline") if found == "decline" else ElicitResult(action="accept", content=found)

    async def main() -> None:
        target: Any = url
        if transport == "stdio":
            target = stdio_client(StdioServerParameters(command=sys.executable, args=[FILE]))
        async with client.Client(target, mode=mode, elicitation_callback=answer) as c:
            result = await c.call_tool("identify_bird", {})
            assert result.structured_content == msgspec.to_builtins(identification(case, asked))

    asyncio.run(main())


async def relay(targets: list[Any], one: Species) -> Any:
    """A modern dialogue whose every round goes to the next of `targets`."""
    observer = Observer(saw=one)
    params: dict[str, Any] = {"name": "identify_bird", "arguments": {}}
    for number in range(len(TRAITS) + 1):
        async with Client(targets[number % len(targets)], protocol=MODERN, on_elicit=observer) as c:
            result = await c.request("tools/call", params)
        if result["resultType"] != "input_required":
            return result["structuredContent"], number
        ((key, asked),) = result["inputRequests"].items()
        content = observer(ElicitRequest(message=asked["params"]["message"], schema=asked["params"]["requestedSchema"]))
        params["inputResponses"] = {key: {"action": "accept", "content": content}}
        params["requestState"] = result["requestState"]
    raise AssertionError("the dialogue does not end")


@pytest.mark.parametrize("name", ["Common Redstart", "Greater Roadrunner", "Manx Shearwater"])
def test_each_round_may_reach_another_server(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("REDSTART_KEYS", "a key that both of them have got")
    found, rounds = asyncio.run(relay([fresh(), fresh()], bird(name)))
    assert rounds >= 2
    assert (found["name"], len(found["questions"])) == (name, rounds)


def test_each_round_may_reach_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDSTART_KEYS", "a key that both of them have got")
    ports = free_port(), free_port()
    with serving(over_http(ports[0]), ports[0]) as one, serving(over_http(ports[1]), ports[1]) as other:
        found, rounds = asyncio.run(relay([one, other], bird("Common Redstart")))
    assert rounds >= 2
    assert found["name"] == "Common Redstart"


# ---------------------------------------------------------------- without questions


@pytest.mark.parametrize("protocol", REVISIONS)
def test_a_model_asks_where_the_client_cannot(protocol: str) -> None:
    """Whoever only has the text of the results gets there as well, by calling again with what is known."""
    one = bird("Common Redstart")

    async def main() -> None:
        seen: dict[str, str] = {}
        async with Client(fresh(), protocol=protocol) as c:
            for _ in TRAITS:
                text = (await c.call_tool("identify_bird", {"seen": seen})).text
                if "Best to ask next" not in text:
                    break
                trait = text.partition("for `")[2].partition("`")[0]
                seen[trait] = one.traits[trait][0]
            assert "That was the Common Redstart (Phoenicurus phoenicurus)" in text

    asyncio.run(main())


def test_what_is_known_is_not_asked() -> None:
    async def main() -> None:
        observer = Observer(saw=bird("Tawny Owl"))
        async with Client(fresh(), on_elicit=observer) as c:
            result = await c.call_tool("identify_bird", {"seen": {"bill": "hooked", "active": "night"}})
            assert result.structured["name"] == "Tawny Owl"
            assert not {"bill", "active"} & set(observer.asked)
            listed = await c.call_tool("list_candidates", {"seen": {"bill": "hooked", "active": "night"}})
            assert "Tawny Owl" in [one["name"] for one in listed.structured["candidates"]]
            assert listed.structured["next_question"]["trait"] == observer.asked[0]
            wrong = await c.call_tool("list_candidates", {"seen": {"bill": "crooked"}})
            assert wrong.is_error
            assert "hooked" in wrong.text

    asyncio.run(main())
