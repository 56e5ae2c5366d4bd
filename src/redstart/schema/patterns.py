"""How long Python's `re` may need for a pattern, computed from the pattern when it is registered.

`re` backtracks, on the event loop, and cannot be interrupted. Of a pattern's positions (its characters and sets, as
Glushkov's automaton has them) two questions are asked. Can a loop read a text in two ways? Then the time doubles with
each character, and the pattern is refused. How many loops in a row can read the same text? Then the time grows with
that power of the length, and the length gets a limit.  Must not know: types, schemas.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

LENGTHS = {2: 4096, 3: 256}  # power of the length -> the longest text; about 10 million steps each
SAMPLES = "\t\n -/09AZ_az~\x7f\xa0é٣\u2003漢😀"  # at least one of each category
EXPANDED = 64  # a fixed count up to this is written out
MANY = 4  # a count that varies, or of something that varies, is written out up to this; a higher one is read as a loop
ENDLESS = 1 << 16  # the width of something that has a loop in it
POSITIONS = 1000


def longest(pattern: str) -> int | None:
    """The longest text that the pattern may be tried on, None for any; ValueError says why it is refused."""
    try:
        parsed: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    positions = Positions(parsed)
    loops = positions.loops()
    if positions.nested or positions.twice or any(_reads_in_two_ways(loop, positions) for loop in loops):
        raise ValueError("can take time that doubles with each character: a repeat within a repeat reads the same text")
    power = _power(loops, positions) + (0 if _is_anchored(parsed) else 1)
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


class Part(NamedTuple):
    """A part of a pattern: the positions that it can begin with and end with, and whether it can read nothing."""

    first: set[int]
    last: set[int]
    empty: bool


class Positions:
    """The positions of a pattern: what each can read, and which may come next."""

    def __init__(self, parsed: Any) -> None:
        self.reads: list[frozenset[str]] = []
        self.next: list[set[int]] = []
        self.nested = False  # nothing at all can be read in two ways: a repeat of something that may be empty
        self.twice = False  # an inner and an outer repeat lead from one position to the same other one
        self._depth = 0  # the loops around the current item
        self._state = parsed.state
        self._flags = 0  # of the groups around the current item
        named = {chr(code) for code in _codes(parsed)}
        self.alphabet = frozenset(SAMPLES) | named | {char.swapcase()[0] for char in named}
        self._sequence(parsed)

    def _position(self, reads: Iterable[str]) -> Part:
        if len(self.reads) >= POSITIONS:
            raise ValueError("is too long to be checked")
        self.reads.append(frozenset(reads))
        self.next.append(set())
        here = {len(self.reads) - 1}
        return Part(here, here, False)

    def _sequence(self, items: Any) -> Part:
        return self._joined(self._item(op, content) for op, content in items)

    def _joined(self, parts: Iterable[Part]) -> Part:
        """The parts one after the other."""
        first, last, empty = set[int](), set[int](), True
        for part in parts:
            for position in last:
                self.next[position] |= part.first
            first |= part.first if empty else set()
            last = part.last | last if part.empty else part.last
            empty = empty and part.empty
        return Part(first, last, empty)

    def _either(self, branches: Iterable[Any], empty: bool = False) -> Part:
        parts = [self._sequence(branch) for branch in branches if branch is not None]
        nothing = sum(part.empty for part in parts)
        self.nested = self.nested or (nothing > 1 and not empty)
        first = set[int]().union(*(part.first for part in parts))
        return Part(first, set[int]().union(*(part.last for part in parts)), empty or nothing > 0)

    def _item(self, op: Any, content: Any) -> Part:
        name = str(op)
        if name in ("AT", "FAILURE"):
            return Part(set(), set(), True)
        if name == "BRANCH":
            return self._either(content[1])
        if name == "SUBPATTERN":
            return self._group(*content)
        if name == "ATOMIC_GROUP":
            return self._sequence(content)
        if name in ("ASSERT", "ASSERT_NOT"):  # look-around: its text is read again
            return self._sequence(content[1])._replace(empty=True)
        if name == "GROUPREF_EXISTS":
            return self._either(content[1:], empty=True)
        if name.endswith("_REPEAT"):
            return self._repeat(*content)
        if name == "GROUPREF":  # any text
            here = self._position(self.alphabet)
            self.next[min(here.first)] |= here.first
            return here._replace(empty=True)
        return self._position(self._readable(op, content))

    def _group(self, number: int | None, added: int, removed: int, body: Any) -> Part:
        before = self._flags
        self._flags |= added  # flags that are removed only reduce the matches, so they are ignored
        part = self._sequence(body)
        self._flags = before
        return part

    def _repeat(self, least: int, most: int, body: Any) -> Part:
        if most == 0:
            return Part(set(), set(), True)
        low, high = body.getwidth()
        small = most <= MANY and high < ENDLESS
        if not (most == 1 or small or (least == most <= EXPANDED and low == high)):
            part = self._loop(body)
            return part._replace(empty=least == 0 or part.empty)
        parts = [self._sequence(body) for _ in range(most)]
        nothing = any(part.empty for part in parts)
        self.nested = self.nested or (nothing and (most > 1 or self._depth > 0))
        whole = self._joined(part._replace(empty=False) for part in parts)
        last = set[int]().union(*(part.last for part in parts[max(least, 1) - 1 :]))
        return Part(whole.first, last, least == 0 or nothing)

    def _loop(self, body: Any) -> Part:
        self._depth += 1
        part = self._sequence(body)
        self._depth -= 1
        self.nested = self.nested or part.empty
        for position in part.last:
            self.twice = self.twice or bool(self.next[position] & part.first)
            self.next[position] |= part.first
        return part

    def _readable(self, op: Any, content: Any) -> Iterable[str]:
        """The characters that an item of one character matches, by `re` itself."""
        item = re._parser.SubPattern(self._state, [(op, content)])  # type: ignore[attr-defined]
        return filter(re._compiler.compile(item, self._flags).fullmatch, self.alphabet)  # type: ignore[attr-defined]

    def loops(self) -> list[set[int]]:
        """The sets of positions that can be reached from each other."""
        after = [self._reached(position) for position in range(len(self.reads))]
        groups = {
            frozenset(other for other in after[position] if position in after[other])
            for position in range(len(self.reads))
            if position in after[position]
        }
        return [set(group) for group in groups]

    def _reached(self, position: int) -> set[int]:
        seen: set[int] = set()
        queue = list(self.next[position])
        while queue:
            current = queue.pop()
            if current not in seen:
                seen.add(current)
                queue += self.next[current]
        return seen


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


def _reads_in_two_ways(loop: set[int], positions: Positions) -> bool:
    """Whether two different walks through the loop, from one position back to one position, can read the same text."""
    forward: dict[tuple[int, int], set[tuple[int, int]]] = {}
    queue = [(position, position) for position in loop]
    while queue:
        pair = queue.pop()
        if pair in forward:
            continue
        forward[pair] = {
            (left, right)
            for left in positions.next[pair[0]] & loop
            for right in positions.next[pair[1]] & loop
            if positions.reads[left] & positions.reads[right]
        }
        queue += forward[pair]
    backward: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pair, following in forward.items():
        for other in following:
            backward.setdefault(other, []).append(pair)
    queue = [(position, position) for position in loop]
    seen = set(queue)
    while queue:
        for pair in backward.get(queue.pop(), ()):
            if pair[0] != pair[1]:
                return True
            if pair not in seen:
                seen.add(pair)
                queue.append(pair)
    return False


def _power(loops: list[set[int]], positions: Positions) -> int:
    """The most loops in a row that can share a text."""
    chars = [frozenset().union(*(positions.reads[position] for position in loop)) for loop in loops]
    known: dict[int, int] = {}

    def after(number: int) -> int:
        if number not in known:
            reached = _shared(loops[number], chars[number], positions)
            others = [other for other in range(len(loops)) if other != number and loops[other] & reached]
            known[number] = 1 + max(map(after, others), default=0)
        return known[number]

    return max(map(after, range(len(loops))), default=0)


def _shared(loop: set[int], chars: frozenset[str], positions: Positions) -> set[int]:
    seen: set[int] = set()
    queue = list(loop)
    while queue:
        for position in positions.next[queue.pop()]:
            if position not in seen and position not in loop and positions.reads[position] & chars:
                seen.add(position)
                queue.append(position)
    return seen
