"""How long Python's `re` may need for a pattern: known from the pattern itself, when it is registered.

`re` backtracks, on the event loop, and cannot be interrupted. Of a pattern's positions (its characters and sets, as
Glushkov's automaton has them) two questions are asked. Can a loop read a text in two ways? Then the time doubles with
each character, and the pattern is refused. How many loops in a row can read the same text? Then the time grows with
that power of the length, and the length gets a limit.  Must not know: types, schemas.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LENGTHS = {2: 4096, 3: 256}  # power of the length -> the longest text; about 10 million steps each
SAMPLES = "\t\n -/09AZ_az~\x7f\xa0é٣\u2003漢😀"  # at least one of each category, beside what the pattern names
EXPANDED = 64  # a fixed count up to this is written out
MANY = 4  # a count that varies, or of something that varies, is written out up to this; a higher one is read as a loop
ENDLESS = 1 << 16  # the width of something that has a loop in it
POSITIONS = 1000
CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdigit,
    "SPACE": str.isspace,
    "WORD": lambda char: char.isalnum() or char == "_",
}


def longest(pattern: str) -> int | None:
    """The longest text that the pattern may be tried on, None for any; ValueError says why it is refused."""
    try:
        parsed: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    places = Places(parsed)
    loops = places.loops()
    if places.nested or places.twice or any(_reads_in_two_ways(loop, places) for loop in loops):
        raise ValueError("can take time that doubles with each character: a repeat within a repeat reads the same text")
    power = _power(loops, places) + (0 if _is_anchored(parsed) else 1)
    if power > max(LENGTHS):
        raise ValueError("has too many repeats in a row that can read the same text")
    return LENGTHS.get(power)


def _is_anchored(sequence: Any) -> bool:
    if not len(sequence) or sequence.state.flags & re.MULTILINE:
        return False
    op, content = sequence[0]
    name = str(op)
    if name == "AT":
        return str(content) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
    if name == "SUBPATTERN":
        return _is_anchored(content[-1])
    return name == "BRANCH" and all(_is_anchored(branch) for branch in content[1])


class Places:
    """The positions of a pattern: what each can read, and which may come next."""

    def __init__(self, parsed: Any) -> None:
        self.reads: list[frozenset[str]] = []
        self.next: list[set[int]] = []
        self.nested = False  # nothing at all can be read in two ways: a repeat of something that may be empty
        self._depth = 0  # loops around the current item
        self.twice: set[int] = set()  # places from which an inner and an outer repeat lead to the same one
        self.flags = parsed.state.flags
        named = {chr(code) for code in _codes(parsed)}
        self.alphabet = frozenset(SAMPLES) | named | {char.swapcase()[0] for char in named}
        self._sequence(parsed, set())

    def _add(self, before: set[int], reads: Iterable[str]) -> set[int]:
        if len(self.reads) >= POSITIONS:
            raise ValueError("is too long to be checked")
        self.reads.append(frozenset(reads))
        self.next.append(set())
        here = len(self.reads) - 1
        for place in before:
            self.next[place].add(here)
        return {here}

    def _sequence(self, items: Any, before: set[int]) -> tuple[set[int], bool]:
        """The places where the items may end, and whether they can read nothing at all."""
        ends, empty = before, True
        for op, content in items:
            made, skipped = self._item(str(op), content, ends)
            ends, empty = (made | ends if skipped else made), empty and skipped
        return ends, empty

    def _item(self, op: str, content: Any, before: set[int]) -> tuple[set[int], bool]:
        if op in ("AT", "FAILURE"):
            return set(), True
        if op == "BRANCH":
            made = [self._sequence(branch, before) for branch in content[1]]
            nothing = sum(empty for _, empty in made)
            self.nested = self.nested or nothing > 1
            return set().union(*(ends for ends, _ in made)), nothing > 0
        if op in ("SUBPATTERN", "ATOMIC_GROUP"):
            return self._sequence(content[-1] if op == "SUBPATTERN" else content, before)
        if op in ("ASSERT", "ASSERT_NOT"):  # a detour: what it reads is read again
            return self._sequence(content[1], before)[0], True
        if op == "GROUPREF_EXISTS":
            made = [self._sequence(branch, before) for branch in content[1:] if branch is not None]
            return set().union(*(ends for ends, _ in made)), True
        if op.endswith("_REPEAT"):
            least, most, body = content
            return self._repeat(least, most, body, before)
        if op == "GROUPREF":  # any text
            here = self._add(before, self.alphabet)
            self.next[min(here)] |= here
            return here, True
        return self._add(before, (char for char in self.alphabet if self._matches(op, content, char))), False

    def _repeat(self, least: int, most: int, body: Any, before: set[int]) -> tuple[set[int], bool]:
        low, high = body.getwidth()
        small = most <= MANY and high < ENDLESS
        written_out = most == 1 or small or (least == most <= EXPANDED and low == high)
        ends, empty = before, least == 0
        out: set[int] = set()
        for number in range(most if written_out else 1):
            ends, nothing = self._sequence(body, ends) if written_out else self._looped(body, ends)
            self.nested = self.nested or (nothing and (most > 1 or self._depth > 0))
            if not written_out or number + 1 >= least:
                out |= ends
            empty = empty or nothing
        return out, empty

    def _looped(self, body: Any, before: set[int]) -> tuple[set[int], bool]:
        first = len(self.reads)
        self._depth += 1
        ends, nothing = self._sequence(body, before)
        self._depth -= 1
        for end in ends - before:
            for begin in self._entered(body, first):
                if begin in self.next[end]:
                    self.twice.add(end)
                self.next[end].add(begin)
        return ends, nothing

    def _entered(self, body: Any, first: int) -> set[int]:
        """The places of `body`, which start at number `first`, that it can begin with."""
        probe = len(self.reads)
        self.reads.append(frozenset())
        self.next.append(set())
        self._sequence(body, {probe})
        begins = {place - probe - 1 + first for place in self.next[probe]}
        del self.reads[probe:], self.next[probe:]
        return begins

    def _matches(self, op: str, content: Any, char: str) -> bool:
        if op == "ANY":
            return char != "\n" or bool(self.flags & re.DOTALL)
        alike = {char, char.swapcase()[0]} if self.flags & re.IGNORECASE else {char}
        if op in ("LITERAL", "NOT_LITERAL"):
            return (chr(content) in alike) == (op == "LITERAL")
        negated = any(str(inner) == "NEGATE" for inner, _ in content)
        return any(_is_in(str(inner), detail, each) for inner, detail in content for each in alike) != negated

    def loops(self) -> list[set[int]]:
        """The sets of places that can be reached from each other."""
        after = [self._reached(place) for place in range(len(self.reads))]
        groups = {
            frozenset(other for other in after[place] if place in after[other])
            for place in range(len(self.reads))
            if place in after[place]
        }
        return [set(group) for group in groups]

    def _reached(self, place: int) -> set[int]:
        seen: set[int] = set()
        queue = list(self.next[place])
        while queue:
            current = queue.pop()
            if current not in seen:
                seen.add(current)
                queue += self.next[current]
        return seen


def _is_in(op: str, detail: Any, char: str) -> bool:
    if op == "LITERAL":
        return bool(ord(char) == detail)
    if op == "RANGE":
        return bool(detail[0] <= ord(char) <= detail[1])
    name = str(detail).removeprefix("CATEGORY_").removeprefix("UNI_")
    kind = CATEGORIES.get(name.removeprefix("NOT_"))
    return kind is not None and bool(kind(char)) != name.startswith("NOT_")


def _codes(items: Any) -> Iterator[int]:
    """The characters that a pattern names, and their neighbours: between two of them nothing changes."""
    for item in items:
        if not isinstance(item, tuple | list) and type(item).__name__ != "SubPattern":
            continue
        if isinstance(item, tuple) and str(item[0]) in ("LITERAL", "NOT_LITERAL", "RANGE"):
            bounds = item[1] if isinstance(item[1], tuple) else (item[1],)
            yield from (code for bound in bounds for code in (bound - 1, bound, bound + 1) if 0 <= code < 0x110000)
        else:
            yield from _codes(item)


def _reads_in_two_ways(loop: set[int], places: Places) -> bool:
    """Whether two different walks through the loop, from one place back to one place, can read the same text."""
    forward: dict[tuple[int, int], set[tuple[int, int]]] = {}
    queue = [(place, place) for place in loop]
    while queue:
        pair = queue.pop()
        if pair in forward:
            continue
        forward[pair] = {
            (left, right)
            for left in places.next[pair[0]] & loop
            for right in places.next[pair[1]] & loop
            if places.reads[left] & places.reads[right]
        }
        queue += forward[pair]
    backward: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pair, following in forward.items():
        for other in following:
            backward.setdefault(other, []).append(pair)
    queue = [(place, place) for place in loop]
    seen = set(queue)
    while queue:
        for pair in backward.get(queue.pop(), ()):
            if pair[0] != pair[1]:
                return True
            if pair not in seen:
                seen.add(pair)
                queue.append(pair)
    return False


def _power(loops: list[set[int]], places: Places) -> int:
    """The most loops in a row that can share a text."""
    chars = [frozenset().union(*(places.reads[place] for place in loop)) for loop in loops]
    known: dict[int, int] = {}

    def after(number: int) -> int:
        if number not in known:
            reached = _shared(loops[number], chars[number], places)
            others = [other for other in range(len(loops)) if other != number and loops[other] & reached]
            known[number] = 1 + max(map(after, others), default=0)
        return known[number]

    return max(map(after, range(len(loops))), default=0)


def _shared(loop: set[int], chars: frozenset[str], places: Places) -> set[int]:
    seen: set[int] = set()
    queue = list(loop)
    while queue:
        for place in places.next[queue.pop()]:
            if place not in seen and place not in loop and places.reads[place] & chars:
                seen.add(place)
                queue.append(place)
    return seen
