"""The expert: what is known so far, which birds still fit, and what to ask next. Knows nothing of MCP.

A Case never changes: an answer makes a new one. So a dialogue may be replayed, branched, or served by many processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2
from typing import Final

from fieldguide.taxonomy import Species, Taxon, leaves, slug
from fieldguide.traits import TRAITS, Trait

OTHER: Final = "other"
"""The answer "none of these": it rules out every bird that is left."""


@dataclass(frozen=True)
class Question:
    """What to ask next: a trait, and those of its values that birds still in question have."""

    trait: Trait
    values: tuple[str, ...]
    remaining: int


@dataclass(frozen=True)
class Answer:
    """One answer; `value` is None if the observer does not know. `left` counts the birds that fit afterwards."""

    trait: Trait
    value: str | None
    left: int

    @property
    def words(self) -> str:
        if self.value is None:
            return "don't know"
        return self.trait.values.get(self.value, "none of these")


class Guide:
    """All species, by name and by trait."""

    def __init__(self, root: Taxon) -> None:
        self.root = root
        self.species = tuple(leaves(root))
        self._by_slug = {key: bird for bird in self.species for key in (bird.slug, slug(bird.scientific))}

    def find(self, name: str) -> Species | None:
        """The species with this common or scientific name, in any case, with spaces or hyphens."""
        return self._by_slug.get(slug(name.replace("-", " ").replace("_", " ")))

    def case(self, seen: Mapping[str, object] | None = None) -> Case:
        """The beginning of an identification, with what is already known."""
        case = Case(self, self.species)
        for trait in TRAITS:
            if seen and seen.get(trait) is not None:
                case = case.answered(trait, str(seen[trait]))
        return case


@dataclass(frozen=True)
class Case:
    """What is known about one bird."""

    guide: Guide
    candidates: tuple[Species, ...]
    answers: tuple[Answer, ...] = ()

    def answered(self, trait: str, value: str | None) -> Case:
        """The case after an answer; None for "don't know", which rules nothing out."""
        if any(answer.trait.name == trait for answer in self.answers):
            raise ValueError(f"{trait} has been answered before")
        left = self.candidates
        if value is not None:
            left = tuple(bird for bird in left if value in bird.traits[trait])
        return replace(self, candidates=left, answers=(*self.answers, Answer(TRAITS[trait], value, len(left))))

    @cached_property
    def question(self) -> Question | None:
        """The question that leaves least to be asked afterwards; None if no question can tell more."""
        if len(self.candidates) < 2:
            return None
        known = {answer.trait.name for answer in self.answers}
        useful = [trait for name, trait in TRAITS.items() if name not in known and splits(trait, self.candidates)]
        if not useful:
            return None
        # On a tie `min` takes the first in the order of TRAITS, so that every replay asks the same.
        best = min(useful, key=lambda trait: round(doubt(trait, self.candidates), 9))
        values = tuple(v for v in best.values if any(v in bird.traits[best.name] for bird in self.candidates))
        return Question(best, values, len(self.candidates))

    @property
    def decisive(self) -> tuple[tuple[Answer, int], ...]:
        """The answers that ruled something out, each with how many birds there were before it."""
        before = [len(self.guide.species), *(answer.left for answer in self.answers)]
        return tuple((answer, n) for answer, n in zip(self.answers, before, strict=False) if answer.left < n)

    def nearest(self, limit: int = 3) -> tuple[Species, ...]:
        """The birds that contradict the fewest answers."""
        return tuple(sorted(self.guide.species, key=lambda bird: len(self.against(bird)))[:limit])

    def against(self, bird: Species) -> tuple[Answer, ...]:
        """The answers that `bird` contradicts."""
        given = (answer for answer in self.answers if answer.value is not None)
        return tuple(answer for answer in given if answer.value not in bird.traits[answer.trait.name])


def splits(trait: Trait, birds: Iterable[Species]) -> bool:
    """Whether some answer would rule out some of `birds`."""
    return len({frozenset(bird.traits[trait.name]) for bird in birds}) > 1


def doubt(trait: Trait, birds: tuple[Species, ...]) -> float:
    """How many bits are expected to be missing still, after `trait` is answered."""
    fits: dict[str, int] = {}
    chance: dict[str, float] = {}
    for bird in birds:
        values = bird.traits[trait.name]
        for value in values:
            fits[value] = fits.get(value, 0) + 1
            chance[value] = chance.get(value, 0.0) + 1 / len(values)
    return sum(chance[value] / len(birds) * log2(fits[value]) for value in fits)


def differences(a: Species, b: Species) -> tuple[Trait, ...]:
    """The traits in which no bird can be both."""
    return tuple(t for name, t in TRAITS.items() if not set(a.traits[name]) & set(b.traits[name]))
