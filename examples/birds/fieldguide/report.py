"""The expert in words: results as data, and species, comparisons and the taxonomy as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from fieldguide.expert import Answer, Case, Guide, Question, differences
from fieldguide.taxonomy import Species, Traits
from fieldguide.traits import TRAITS

SHOWN: Final = 12
"""How many candidates are listed at most."""

Outcome = Literal["identified", "candidates", "none", "cancelled"]


@dataclass(frozen=True)
class Candidate:
    """A bird that fits; with `contradicts`, one that nearly does."""

    name: str
    scientific_name: str
    uri: str
    confidence: float
    contradicts: list[str]


@dataclass(frozen=True)
class Asked:
    """A question of the dialogue, and the answer in words."""

    trait: str
    question: str
    answer: str


@dataclass(frozen=True)
class Next:
    """What would tell most now: ask the user, and call again with `seen` extended by the answer."""

    trait: str
    question: str
    choices: dict[str, str]


@dataclass(frozen=True)
class Identification:
    """What came of it. `candidate_count` may be more than are listed."""

    outcome: Outcome
    name: str | None
    scientific_name: str | None
    confidence: float
    candidate_count: int
    candidates: list[Candidate]
    explanation: str
    questions: list[Asked]
    next_question: Next | None


@dataclass(frozen=True)
class Comparison:
    """Two birds, and by trait what each is like where they cannot be confused."""

    birds: list[str]
    differences: dict[str, list[str]]


def identification(case: Case, asked: int = 0, *, cancelled: bool = False) -> Identification:
    """The result of a case whose last `asked` answers were given in the dialogue."""
    left = case.candidates
    found = left[0] if len(left) == 1 else None
    given = case.answers[len(case.answers) - asked :]
    open_question = case.question
    return Identification(
        outcome="cancelled" if cancelled else "identified" if found else "candidates" if left else "none",
        name=found.name if found else None,
        scientific_name=found.scientific if found else None,
        confidence=round(1 / len(left), 3) if left else 0.0,
        candidate_count=len(left),
        candidates=_candidates(case),
        explanation=explain(case, cancelled=cancelled),
        questions=[Asked(answer.trait.name, answer.trait.question, answer.words) for answer in given],
        next_question=_next(open_question) if open_question else None,
    )


def _candidates(case: Case) -> list[Candidate]:
    birds = case.candidates[:SHOWN] or case.nearest()
    share = round(1 / len(case.candidates), 3) if case.candidates else 0.0
    return [
        Candidate(bird.name, bird.scientific, uri(bird), share, [answer.trait.name for answer in case.against(bird)])
        for bird in birds
    ]


def _next(question: Question) -> Next:
    trait = question.trait
    return Next(trait.name, trait.question, {value: trait.values[value] for value in question.values})


def uri(bird: Species) -> str:
    """Where the card of a species is."""
    return f"birds://species/{bird.slug}"


# ---------------------------------------------------------------- explaining


def explain(case: Case, *, cancelled: bool = False) -> str:
    """Which birds are left, and which answers decided that."""
    left = case.candidates
    total = len(case.guide.species)
    steps = "".join(_step(answer, before) for answer, before in case.decisive)
    why = f"\n\nWhat decided it, out of {total} birds:\n{steps.rstrip()}" if steps else ""
    goodbye = "You ended the questions early. " if cancelled else ""
    if len(left) == 1:
        return f"{goodbye}That was the {left[0].name} ({left[0].scientific}). {left[0].note}{why}"
    if not left:
        near = "; ".join(f"{bird.name}, but {_clashes(case, bird)}" for bird in case.nearest())
        return f"{goodbye}No bird in the guide fits all of the answers. Nearest: {near}.{why}"
    names = ", ".join(bird.name for bird in left[:SHOWN])
    more = f", and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return f"{goodbye}{len(left)} birds fit: {names}{more}.{why}"


def _step(answer: Answer, before: int) -> str:
    return f"- {label(answer.trait.name)}: {answer.words} ({before} → {answer.left})\n"


def _clashes(case: Case, bird: Species) -> str:
    clashes = case.against(bird)
    return " and ".join(f"its {label(a.trait.name)} is: {words(bird, a.trait.name)}" for a in clashes)


def label(trait: str) -> str:
    """A trait's name in a sentence."""
    return trait.replace("_", " ")


def words(bird: Species, trait: str) -> str:
    """A trait of a bird in words."""
    return " / ".join(TRAITS[trait].values[value] for value in bird.traits[trait])


# ---------------------------------------------------------------- Markdown


def card(bird: Species) -> str:
    """The page of one species."""
    place = f"{bird.order.name} ({bird.order.scientific}) › {bird.family.name} ({bird.family.scientific})"
    rows = "\n".join(f"| {label(name)} | {words(bird, name)} |" for name in TRAITS)
    return f"# {bird.name}\n\n*{bird.scientific}*: {place}\n\n{bird.note}\n\n| | |\n|---|---|\n{rows}\n"


def comparison(a: Species, b: Species) -> str:
    """Two birds side by side: what tells them apart first, then the rest."""
    apart = differences(a, b)
    rest = [t for t in TRAITS.values() if t not in apart and set(a.traits[t.name]) != set(b.traits[t.name])]
    lines = [f"# {a.name} or {b.name}?", "", f"| | {a.name} | {b.name} |", "|---|---|---|"]
    lines += [f"| **{label(t.name)}** | {words(a, t.name)} | {words(b, t.name)} |" for t in apart]
    lines += [f"| {label(t.name)} | {words(a, t.name)} | {words(b, t.name)} |" for t in rest]
    return "\n".join([*lines, "", f"{a.name}: {a.note}", "", f"{b.name}: {b.note}", ""])


def tree(guide: Guide) -> str:
    """The whole taxonomy, with what each group says of its members."""
    lines = [f"# {guide.root.name} ({guide.root.scientific})", "", f"{len(guide.species)} species.", ""]
    for order in guide.root.members:
        lines.append(f"- **{order.name}** ({order.scientific}){_said(order.traits)}")
        for family in order.members:
            lines.append(f"  - {family.name} ({family.scientific}){_said(family.traits)}")
            lines += [f"    - {leaf.name} (*{leaf.scientific}*)" for leaf in family.members]
    return "\n".join(lines) + "\n"


def _said(traits: Traits) -> str:
    said = "; ".join(f"{label(name)}: {' or '.join(values)}" for name, values in traits.items())
    return f": {said}" if said else ""


def vocabulary() -> str:
    """All traits, their questions and their values."""
    lines = ["# What can be said about a bird", ""]
    for trait in TRAITS.values():
        lines.append(f"- **{trait.name}**: {trait.question}")
        lines += [f"  - `{value}`: {title}" for value, title in trait.values.items()]
    return "\n".join(lines) + "\n"
