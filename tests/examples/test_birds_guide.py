"""What the bird expert knows and offers. How it asks is tested in test_birds.py."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, get_args, get_type_hints

import pytest

from redstart import Client
from redstart.cli.target import load
from redstart.client import RequestError
from support import ROOT

BIRDS = ROOT / "examples" / "birds"
sys.path.insert(0, str(BIRDS))

from fieldguide import GUIDE  # noqa: E402
from fieldguide.expert import Case, Guide, differences  # noqa: E402
from fieldguide.report import card, identification, vocabulary  # noqa: E402
from fieldguide.taxonomy import Given, Species, group, species  # noqa: E402
from fieldguide.traits import TRAITS, Seen  # noqa: E402


def bird(name: str) -> Species:
    found = GUIDE.find(name)
    assert found is not None
    return found


# ---------------------------------------------------------------- knowledge


def test_species_are_complete() -> None:
    assert len(GUIDE.species) >= 60
    assert len({one.slug for one in GUIDE.species}) == len({one.scientific for one in GUIDE.species})
    assert len({one.scientific for one in GUIDE.species}) == len(GUIDE.species)
    for one in GUIDE.species:
        assert re.fullmatch(r"[A-Z][a-z]+ [a-z]+", one.scientific), one.name
        assert one.note.endswith((".", "'")), one.name
        assert one.traits.keys() == TRAITS.keys(), one.name
        for name, values in one.traits.items():
            assert values, (one.name, name)
            assert set(values) <= TRAITS[name].values.keys(), (one.name, name)
            assert len(set(values)) == len(values), (one.name, name)


def test_groups_are_in_order() -> None:
    for order in GUIDE.root.members:
        assert order.scientific.endswith("iformes")
        for family in order.members:
            assert family.scientific.endswith("idae")
            assert family.members


def test_the_nearest_definition_wins() -> None:
    assert GUIDE.root.traits["feet"] == ("perching",)
    owls = bird("Snowy Owl")
    assert owls.order.traits["active"] == ("night",)
    assert owls.traits["active"] == ("day",)
    assert bird("Tawny Owl").traits["active"] == ("night",)
    assert bird("Mallard").traits["feet"] == bird("Mallard").order.traits["feet"] == ("swimming",)
    assert bird("Mallard").traits["active"] == GUIDE.root.traits["active"]


def test_mistakes_in_the_data_are_found() -> None:
    with pytest.raises(ValueError, match="size cannot be gigantic"):
        species("Roc", "Avis magna", "Carries elephants.", size="gigantic")
    lonely = group("Birds", "Aves", group("O", "Oiformes", group("F", "Fidae", species("Roc", "A b", "Big."))))
    with pytest.raises(ValueError, match="Roc: nobody says its size"):
        Guide(lonely)


def test_one_vocabulary() -> None:
    seen = {name: get_args(hint) for name, hint in get_type_hints(Seen).items()}
    assert seen == {name: tuple(trait.values) for name, trait in TRAITS.items()}
    assert list(get_type_hints(Given)) == list(TRAITS)
    assert all(f"`{value}`" in vocabulary() for trait in TRAITS.values() for value in trait.values)
    unused = {(n, v) for n, t in TRAITS.items() for v in t.values if not any(v in b.traits[n] for b in GUIDE.species)}
    assert not unused


def test_any_two_birds_can_be_told_apart() -> None:
    alike = [(a.name, b.name) for a, b in combinations(GUIDE.species, 2) if not differences(a, b)]
    assert alike == []


def test_names_are_found_in_any_dress() -> None:
    for name in ("Cooper's Hawk", "coopers hawk", "coopers-hawk", "Astur cooperii", "ASTUR_COOPERII"):
        assert GUIDE.find(name) is bird("Cooper's Hawk")
    assert GUIDE.find("Dodo") is None


# ---------------------------------------------------------------- reaching a bird


def truthful(case: Case, one: Species, asked: int = 0) -> Iterator[tuple[Case, int]]:
    """The end of every dialogue in which each answer is true of `one`."""
    if case.question is None:
        yield case, asked
        return
    trait = case.question.trait.name
    for value in one.traits[trait]:
        yield from truthful(case.answered(trait, value), one, asked + 1)


def test_every_bird_is_reached_by_every_truthful_path() -> None:
    means = []
    for one in GUIDE.species:
        ends = list(truthful(GUIDE.case(), one))
        assert all(case.candidates == (one,) for case, _ in ends), one.name
        assert max(asked for _, asked in ends) <= 12, one.name
        means.append(sum(asked for _, asked in ends) / len(ends))
    assert sum(means) / len(means) <= 7


def test_the_readme_counts_right() -> None:
    text = " ".join((BIRDS / "README.md").read_text().split())
    most = max(asked for one in GUIDE.species for _, asked in truthful(GUIDE.case(), one))
    assert f"It knows {len(GUIDE.species)} species" in text
    assert f"never more than {most}." in text


def test_near_misses() -> None:
    seen = {name: values[0] for name, values in bird("Atlantic Puffin").traits.items()} | {"region": "america"}
    assert GUIDE.case(seen).candidates == (bird("Atlantic Puffin"),)
    wrong = GUIDE.case({**seen, "bill_colour": "dark"})
    assert wrong.candidates == ()
    report = identification(wrong)
    assert (report.outcome, report.confidence) == ("none", 0)
    assert (report.candidates[0].name, report.candidates[0].contradicts) == ("Atlantic Puffin", ["bill_colour"])
    assert "Nearest: Atlantic Puffin, but its bill colour is: Red or pink" in report.explanation


# ---------------------------------------------------------------- what is offered


def offered(check: Callable[[Client], Any]) -> None:
    async def main() -> None:
        async with Client(load(str(BIRDS / "server.py"))) as c:
            await check(c)

    asyncio.run(main())


def test_comparing() -> None:
    async def check(c: Client) -> None:
        both = await c.call_tool("compare_birds", {"a": "carrion crow", "b": "Corvus brachyrhynchos"})
        assert both.structured == {
            "birds": ["Carrion Crow", "American Crow"],
            "differences": {"region": ["Europe", "North America"]},
        }
        unknown = await c.call_tool("compare_birds", {"a": "Common Redstat", "b": "Mallard"})
        assert unknown.is_error
        assert "Did you mean Common Redstart" in unknown.text
        short = await c.call_tool("compare_birds", {"a": "robin", "b": "Mallard"})
        assert short.text == "The guide has no robin. Did you mean American Robin or European Robin?"

    offered(check)


def test_tools_say_what_they_are() -> None:
    async def check(c: Client) -> None:
        tools = {tool.name: tool for tool in await c.list_tools()}
        assert tools.keys() == {"identify_bird", "list_candidates", "compare_birds"}
        for tool in tools.values():
            assert tool.title
            assert tool.icons
            assert tool.output_schema
            assert tool.annotations == {"readOnlyHint": True, "openWorldHint": False}

    offered(check)


def test_cards_and_lists() -> None:
    async def check(c: Client) -> None:
        for one in GUIDE.species:
            read = (await c.read_resource(f"birds://species/{one.slug}")).contents[0]
            assert (read.mime_type, read.text) == ("text/markdown", card(one))
        with pytest.raises(RequestError):
            await c.read_resource("birds://species/dodo")
        tree = (await c.read_resource("birds://taxonomy")).contents[0].text
        assert all(one.name in tree and one.family.scientific in tree for one in GUIDE.species)
        assert "`hooked`" in (await c.read_resource("birds://traits")).contents[0].text

    offered(check)


def test_names_complete() -> None:
    async def check(c: Client) -> None:
        assert (await c.complete("birds://species/{name}", "name", "common re")).values == ["common-redstart"]
        gulls = (await c.complete("birds://species/{name}", "name", "gull")).values
        assert gulls == ["european-herring-gull", "black-headed-gull"]
        assert (await c.complete("quiz_me", "group", "Ow")).values == ["Owls"]
        assert (await c.complete("describe_bird", "region", "")).values == ["Europe", "North America"]

    offered(check)


def test_prompts() -> None:
    async def check(c: Client) -> None:
        described = await c.get_prompt("describe_bird", {"description": "a red tail", "region": "Europe"})
        assert "a red tail I was in Europe." in described.messages[0].content.text
        quiz = await c.get_prompt("quiz_me", {"group": "Owls", "rounds": 3})
        assert [message.role for message in quiz.messages] == ["user", "assistant"]
        assert "Quiz me on 3 of these birds: Western Barn Owl" in quiz.messages[0].content.text
        assert "Mallard" not in quiz.messages[0].content.text

    offered(check)
