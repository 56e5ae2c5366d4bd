"""The vocabulary: what can be asked about a bird, and the few answers that there are.

Adults in breeding plumage are meant, and the male where the sexes differ much and only he is easily known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypedDict


@dataclass(frozen=True)
class Trait:
    """One thing to look at: the question for the observer, and each value with the words for it."""

    name: str
    question: str
    values: dict[str, str]

    def __post_init__(self) -> None:
        if not all(value.isidentifier() for value in self.values):
            raise ValueError(f"{self.name}: each value is one word, for taxa list several in one string")


TRAITS: Final = {
    trait.name: trait
    for trait in (
        Trait(
            "size",
            "How big was it?",
            {
                "tiny": "Tiny: a wren or smaller",
                "small": "Small: about a sparrow",
                "medium": "Medium: a thrush to a dove",
                "large": "Large: a crow or a duck",
                "huge": "Very large: a goose or more",
            },
        ),
        Trait(
            "colour",
            "Which colour struck you first?",
            {
                "black": "Black or nearly black",
                "white": "White",
                "pied": "Black and white",
                "grey": "Grey",
                "brown": "Brown",
                "blue": "Blue",
                "green": "Green",
                "yellow": "Yellow",
                "red": "Red, orange or pink",
            },
        ),
        Trait(
            "underparts",
            "What were the breast and belly like?",
            {
                "white": "White or pale",
                "grey": "Grey",
                "brown": "Brown or buff",
                "dark": "Black or very dark",
                "blue": "Blue or green",
                "red": "Red, orange or pink",
                "yellow": "Yellow",
                "spotted": "Spotted or streaked",
                "barred": "Barred across",
            },
        ),
        Trait(
            "head",
            "What was special about the head?",
            {
                "plain": "Nothing much",
                "crest": "A crest, plumes or ear tufts",
                "cap": "A dark cap or hood",
                "stripe": "A stripe or dark mask at the eye",
                "cheek": "A pale or bright cheek or face",
                "throat": "A throat or bib of another colour",
                "red": "A red or orange patch",
                "pale": "A white or pale head on a darker body",
                "gloss": "A glossy green, blue or purple head",
                "skin": "Bare skin, a knob, a shield or wattles",
            },
        ),
        Trait(
            "wings",
            "What was special about the wings?",
            {
                "plain": "Nothing much",
                "bars": "White or pale bars or patches",
                "bright": "A patch of bright colour",
                "tips": "Black tips",
                "spots": "Spots or fine scribbles all over",
            },
        ),
        Trait(
            "bill",
            "What shape was the bill?",
            {
                "cone": "Short and thick, for seeds",
                "thin": "Short and thin, for insects",
                "stout": "Strong, straight and all-purpose",
                "hooked": "Hooked",
                "flat": "Broad and flat, a duck's",
                "dagger": "A long straight dagger",
                "probe": "Long and slender, straight or curved",
                "chisel": "A chisel, for wood",
                "gape": "Tiny, with a wide mouth",
                "odd": "Something odd: a pouch, a spoon, a bend, bright and deep",
            },
        ),
        Trait(
            "bill_colour",
            "What colour was the bill?",
            {
                "dark": "Black or dark",
                "yellow": "Yellow or orange",
                "red": "Red or pink",
                "pale": "Pale: grey, bluish, white or horn",
            },
        ),
        Trait(
            "feet",
            "What were its legs and feet like?",
            {
                "perching": "Ordinary, for perching on twigs",
                "walking": "Sturdy, for walking and running",
                "wading": "Long, for wading",
                "swimming": "Webbed or lobed, for swimming",
                "talons": "With strong, curved claws",
                "climbing": "For clinging to trunks",
                "hidden": "So short that I saw none",
            },
        ),
        Trait(
            "tail",
            "What was the tail like?",
            {
                "ordinary": "Nothing special",
                "short": "Very short",
                "long": "Long",
                "forked": "Forked",
                "wedge": "Wedge-shaped or pointed",
                "fan": "Broad, a fan",
                "stiff": "Stiff, pressed against the trunk",
                "cocked": "Held up, or always moving",
            },
        ),
        Trait(
            "flight",
            "How did it fly?",
            {
                "direct": "Straight and fast",
                "slow": "With slow, deep wingbeats",
                "soaring": "Circling, with hardly a wingbeat",
                "gliding": "On stiff wings, low over the waves",
                "hovering": "Standing still in the air",
                "bounding": "Up and down in waves",
                "agile": "Darting and turning",
                "short": "Only a short flutter, or not at all",
            },
        ),
        Trait(
            "food",
            "What was it after?",
            {
                "seeds": "Seeds, nuts, buds or berries",
                "insects": "Insects on leaves, bark or the ground",
                "airborne": "Insects in flight",
                "worms": "Worms and grubs in soil or mud",
                "fish": "Fish and other water animals",
                "meat": "Birds, mammals or reptiles",
                "carrion": "Carrion and scraps",
                "plants": "Grass and water plants",
                "nectar": "Nectar",
            },
        ),
        Trait(
            "voice",
            "What did it sound like?",
            {
                "song": "A melodious song",
                "phrase": "A few notes, over and over",
                "harsh": "Harsh: a caw, scream or croak",
                "honk": "A honk, trumpet or quack",
                "coo": "A coo, hoot or boom",
                "whistle": "A whistle, pipe or mew",
                "trill": "A trill, rattle, chatter or churr",
                "drum": "Drumming, or ringing laughter",
                "silent": "Hardly a sound",
            },
        ),
        Trait(
            "habitat",
            "What kind of place was it?",
            {
                "town": "Town, park or garden",
                "wood": "Woodland",
                "open": "Fields, heath or grassland",
                "wild": "Mountain, moor, tundra or desert",
                "water": "Lake, river or marsh",
                "sea": "Sea or shore",
            },
        ),
        Trait("region", "Where were you?", {"europe": "Europe", "america": "North America"}),
        Trait("active", "When was it about?", {"day": "By day", "night": "At dusk or by night"}),
    )
}


class Seen(TypedDict, total=False):
    """What an observer already knows; the same words as above, for the schema of the tools and for type checkers."""

    size: Literal["tiny", "small", "medium", "large", "huge"]
    colour: Literal["black", "white", "pied", "grey", "brown", "blue", "green", "yellow", "red"]
    underparts: Literal["white", "grey", "brown", "dark", "blue", "red", "yellow", "spotted", "barred"]
    head: Literal["plain", "crest", "cap", "stripe", "cheek", "throat", "red", "pale", "gloss", "skin"]
    wings: Literal["plain", "bars", "bright", "tips", "spots"]
    bill: Literal["cone", "thin", "stout", "hooked", "flat", "dagger", "probe", "chisel", "gape", "odd"]
    bill_colour: Literal["dark", "yellow", "red", "pale"]
    feet: Literal["perching", "walking", "wading", "swimming", "talons", "climbing", "hidden"]
    tail: Literal["ordinary", "short", "long", "forked", "wedge", "fan", "stiff", "cocked"]
    flight: Literal["direct", "slow", "soaring", "gliding", "hovering", "bounding", "agile", "short"]
    food: Literal["seeds", "insects", "airborne", "worms", "fish", "meat", "carrion", "plants", "nectar"]
    voice: Literal["song", "phrase", "harsh", "honk", "coo", "whistle", "trill", "drum", "silent"]
    habitat: Literal["town", "wood", "open", "wild", "water", "sea"]
    region: Literal["europe", "america"]
    active: Literal["day", "night"]
