"""Order, family, species: each says only how it differs from what it belongs to; the nearest definition wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

from fieldguide.traits import TRAITS

Traits = Mapping[str, tuple[str, ...]]


class Given(TypedDict, total=False):
    """The traits of a taxon as they are written: one value, or several with spaces between them, any of them true."""

    size: str
    colour: str
    underparts: str
    head: str
    wings: str
    bill: str
    bill_colour: str
    feet: str
    tail: str
    flight: str
    food: str
    voice: str
    habitat: str
    region: str
    active: str


@dataclass(frozen=True)
class Taxon:
    """A group of birds, or one species if it has a note and no members."""

    name: str
    scientific: str
    traits: Traits
    members: tuple[Taxon, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Species:
    """A species with all its traits, its own and the inherited ones."""

    name: str
    scientific: str
    note: str
    order: Taxon
    family: Taxon
    traits: Traits

    @property
    def slug(self) -> str:
        """The name as a part of a URI: `great-tit`."""
        return slug(self.name)


def group(name: str, scientific: str, *members: Taxon, **given: Unpack[Given]) -> Taxon:
    """The class, an order or a family."""
    return Taxon(name, scientific, _read(name, given), members)


def species(name: str, scientific: str, note: str, **given: Unpack[Given]) -> Taxon:
    """A species; `note` is what a friend beside you would say."""
    return Taxon(name, scientific, _read(name, given), note=note)


def slug(name: str) -> str:
    """A name in lower case with hyphens: "Wilson's Snipe" becomes `wilsons-snipe`."""
    return "-".join(name.casefold().replace("'", "").replace("’", "").split())


def leaves(root: Taxon) -> Iterator[Species]:
    """Every species below the class `root`, with what it inherits."""
    for order in root.members:
        for family in order.members:
            for leaf in family.members:
                traits = {**root.traits, **order.traits, **family.traits, **leaf.traits}
                missing = [name for name in TRAITS if name not in traits]
                if missing:
                    raise ValueError(f"{leaf.name}: nobody says its {', '.join(missing)}")
                yield Species(leaf.name, leaf.scientific, leaf.note, order, family, traits)


def _read(name: str, given: Given) -> Traits:
    traits: dict[str, tuple[str, ...]] = {}
    for trait, words in given.items():
        values = tuple(str(words).split())
        unknown = [value for value in values if value not in TRAITS[trait].values]
        if unknown or not values:
            raise ValueError(f"{name}: {trait} cannot be {' '.join(unknown) or 'empty'}")
        traits[trait] = values
    return traits
