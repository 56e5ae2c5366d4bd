"""The bird expert: it asks what tells most, and names the bird you saw. `redstart run examples/birds/server.py --http`

One loop of `ctx.elicit` is the whole dialogue, for every revision of the protocol. Where a client cannot be asked, the
result says what to ask next, and the model does it. All that is known is in the call, so no two dialogues ever mix.
"""

from __future__ import annotations

from base64 import b64encode
from difflib import get_close_matches
from typing import Annotated, Any, Final

from fieldguide import GUIDE
from fieldguide.expert import OTHER, Case, Question, differences
from fieldguide.report import Comparison, Identification, card, comparison, identification, tree, uri, vocabulary, words
from fieldguide.taxonomy import Species
from fieldguide.traits import TRAITS, Seen

from redstart import (
    Accepted,
    Cancelled,
    Complete,
    Context,
    Declined,
    Icon,
    ResourceLink,
    Server,
    Text,
    ToolError,
    ToolResult,
)

UNKNOWN: Final = "unknown"
STOP: Final = "stop"
FEW: Final = 5
"""From this many birds on, a question names those that are left."""

PATIENCE: Final = 10
"""How many questions one call asks at most. Some clients of 2026 give up after ten rounds, and so do people."""

SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#c8501e" d="M4 19c6 8 17 8 20-3l5-3-5-2c'
    '-2-5-9-5-11 0-2 4-5 6-9 8z"/><path fill="#444" d="M2 24l9-5-5-1z"/><circle cx="21" cy="12" r="1.3"/></svg>'
)
ICON: Final = Icon(f"data:image/svg+xml;base64,{b64encode(SVG.encode()).decode()}", "image/svg+xml", ["any"])
READ_ONLY: Final = {"readOnlyHint": True, "openWorldHint": False}

server = Server(
    "birds",
    version="1.0.0",
    title="Bird expert",
    description=f"Identifies {len(GUIDE.species)} birds of Europe and North America by asking about them.",
    instructions=(
        "When somebody wants to know which bird they saw, call identify_bird with what they have already told you; "
        "it asks them the rest. list_candidates answers without asking. Species are at birds://species/{name}."
    ),
    icons=[ICON],
)

# ---------------------------------------------------------------- tools


@server.tool(title="Identify a bird", annotations=READ_ONLY, icons=[ICON], return_type=Identification)
async def identify_bird(ctx: Context[Any], seen: Seen | None = None) -> ToolResult:
    """Find out which bird somebody saw, by asking them a few questions.

    Args:
        seen: What they have already said; leave out what they have not.
    """
    known = GUIDE.case(seen)
    asked = 0
    while ctx.can_elicit and asked < PATIENCE and (question := known.question) is not None:
        match await ctx.elicit(wording(question, known), choices(question), key=question.trait.name):
            case Accepted(answer) if answer == STOP:
                break
            case Accepted(answer):
                known = known.answered(question.trait.name, None if answer == UNKNOWN else answer)
            case Declined():
                known = known.answered(question.trait.name, None)
            case Cancelled():
                return told(identification(known, asked, cancelled=True))
        asked += 1
    return told(identification(known, asked))


@server.tool(title="List candidates", annotations=READ_ONLY, icons=[ICON], return_type=Identification)
def list_candidates(seen: Seen | None = None) -> ToolResult:
    """List the birds that fit a description, without asking anything; says what would be best to ask next.

    Args:
        seen: What is known about the bird.
    """
    return told(identification(GUIDE.case(seen)))


@server.tool(title="Compare two birds", annotations=READ_ONLY, icons=[ICON], return_type=Comparison)
def compare_birds(a: str, b: str) -> ToolResult:
    """Show how to tell two birds apart.

    Args:
        a: The common or scientific name of a species.
        b: The name of another.
    """
    one, other = named(a), named(b)
    apart = {trait.name: [words(one, trait.name), words(other, trait.name)] for trait in differences(one, other)}
    text = Text(comparison(one, other))
    return ToolResult(content=[text, link(one), link(other)], structured=Comparison([one.name, other.name], apart))


def wording(question: Question, known: Case) -> str:
    """The question, with how far we are."""
    if question.remaining > FEW:
        return f"{question.trait.question} ({question.remaining} birds still fit.)"
    return f"{question.trait.question} (Still possible: {', '.join(bird.name for bird in known.candidates)}.)"


def choices(question: Question) -> list[tuple[str, str]]:
    """The answers to offer: only what some remaining bird has, and the three ways out."""
    listed = [(value, question.trait.values[value]) for value in question.values]
    return [
        *listed,
        (OTHER, "None of these"),
        (UNKNOWN, "I don't know"),
        (STOP, "Stop, and show me the candidates so far"),
    ]


def told(found: Identification) -> ToolResult:
    """The result for people, with links to the cards, and the same as data."""
    listed = found.candidates if len(found.candidates) <= FEW else []
    birds = [GUIDE.find(candidate.name) for candidate in listed]
    text = found.explanation
    if (ask := found.next_question) is not None:
        options = "; ".join(f"{value} ({title})" for value, title in ask.choices.items())
        text += f"\n\nBest to ask next, for `{ask.trait}`: {ask.question} {options}"
    return ToolResult(content=[Text(text), *(link(bird) for bird in birds if bird)], structured=found)


def link(bird: Species) -> ResourceLink:
    """A link to the card of a species."""
    return ResourceLink(uri(bird), bird.slug, title=bird.name, description=bird.scientific, mime_type="text/markdown")


def named(name: str) -> Species:
    """The species of that name; an error that helps if there is none."""
    bird = GUIDE.find(name)
    if bird is None:
        known = {b.name.casefold(): b.name for b in GUIDE.species}
        typed = name.casefold()
        near = [known[one] for one in known if typed in one.split()][:3]
        near = near or [known[match] for match in get_close_matches(typed, known, n=3)]
        raise ToolError(f"The guide has no {name}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
    return bird


# ---------------------------------------------------------------- resources


def species_names(prefix: str) -> list[str]:
    """Names one of whose words begins with what was typed, those that begin with it themselves first."""
    typed = "-".join(prefix.casefold().split())
    first = [bird.slug for bird in GUIDE.species if bird.slug.startswith(typed)]
    return first + [bird.slug for bird in GUIDE.species if f"-{typed}" in bird.slug and bird.slug not in first]


@server.resource(
    "birds://species/{name}",
    mime_type="text/markdown",
    title="Species card",
    icons=[ICON],
    annotations={"priority": 0.6},
)
def species_card(name: Annotated[str, Complete(species_names)]) -> str | None:
    """One species: its place in the taxonomy, its traits, and what to look for."""
    bird = GUIDE.find(name)
    return None if bird is None else card(bird)


@server.resource("birds://taxonomy", mime_type="text/markdown", title="Taxonomy", icons=[ICON])
def taxonomy() -> str:
    """All orders, families and species of the guide."""
    return tree(GUIDE)


@server.resource("birds://traits", mime_type="text/markdown", title="Traits", icons=[ICON])
def traits() -> str:
    """All that can be asked about a bird, and all answers."""
    return vocabulary()


# ---------------------------------------------------------------- prompts

GROUPS: Final = [order.name for order in GUIDE.root.members]


@server.prompt(title="Describe a bird you saw", icons=[ICON])
def describe_bird(
    description: str,
    region: Annotated[str, Complete(list(TRAITS["region"].values.values()))] = "",
) -> str:
    """Find out which bird somebody saw, from their own words.

    Args:
        description: What it looked like, what it did, how it sounded.
        region: Where it was.
    """
    where = f" I was in {region}." if region else ""
    return (
        f"I saw a bird: {description}{where}\n\n"
        "Translate what I said, and nothing else, into the values of `seen`, call identify_bird with them, and tell me "
        "which bird it was and what gave it away. If several are left, tell me how to tell them apart next time."
    )


@server.prompt(title="Quiz me", icons=[ICON])
def quiz_me(group: Annotated[str, Complete(GROUPS)] = "", rounds: int = 5) -> list[tuple[str, str]]:
    """A quiz: the model describes a bird, clue by clue, and you guess.

    Args:
        group: An order of birds to stay with, such as Owls.
        rounds: How many birds.
    """
    within = [bird for bird in GUIDE.species if group in (bird.order.name, bird.order.scientific)]
    names = ", ".join(bird.name for bird in within or GUIDE.species)
    return [
        ("user", f"Quiz me on {rounds} of these birds: {names}."),
        (
            "assistant",
            "I shall read the card of each bird at birds://species/{name}, never say its name, and give one clue at a "
            "time, the vaguest first. You guess after each clue; fewer clues, more points. Ready for the first?",
        ),
    ]


if __name__ == "__main__":
    server.run()
