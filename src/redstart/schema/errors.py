"""What is wrong with a value, in a text that lets a model correct it in one try.

Knows: paths, phrases, nearest names.  Must not know: types, schemas, functions.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import eq
from typing import TypeAlias

import msgspec

SHOWN_CHARS = 60
SHOWN_PROBLEMS = 5
SHOWN_CHOICES = 20
ENOUGH = 1000  # problems of one value; after these the rest is not read
LONGEST = 128  # characters of a name that is compared with others
COMPARED = 48  # names that are compared in full
SHOWN_PATH = 300
SHOWN_REASON = 300

ValuePath: TypeAlias = "str | tuple[ValuePath, str | int]"
"""Where a value is: "" at the top, else the outer path and a key. `spelled` makes a text of it."""


class Problem(msgspec.Struct, frozen=True):
    """One bad value: `Problem("a", "must be an integer", 'the string "x"')`.

    `kind` picks the sentence: "wrong", "missing", "unknown", "twice" or "text" (`expected` is the whole sentence).
    """

    path: str
    expected: str
    got: str = ""
    hint: str = ""
    kind: str = "wrong"

    def __str__(self) -> str:
        return self.sentence("argument")

    def sentence(self, noun: str) -> str:
        subject = f'{noun.capitalize()} "{self.path}"' if self.path else f"The {noun}"
        text = SENTENCES[self.kind].format(
            subject=subject,
            noun=noun,
            path=self.path,
            expected=self.expected,
            got=f", got {self.got}" if self.got else "",
            brief=f" ({self.expected})" if self.expected else "",
        )
        if self.hint.startswith("did you mean"):
            return f"{text}; {self.hint}"
        return f"{text}. {self.hint}" if self.hint else f"{text}."


SENTENCES = {
    "wrong": "{subject} {expected}{got}",
    "missing": 'Missing required {noun} "{path}"{brief}',
    "unknown": 'Unknown {noun} "{path}"',
    "twice": "{subject} was given twice",
    "text": "{expected}",
}


class ShapeError(ValueError):
    """A value that does not fit its shape; `str()` is for the model, `.problems` for programs."""

    def __init__(self, problems: Sequence[Problem], *, noun: str = "argument", more: int = 0) -> None:
        self.problems = tuple(problems)
        self.more = more  # problems that were only counted
        self.noun = noun
        super().__init__(self.problems)

    def __str__(self) -> str:
        shown = [problem.sentence(self.noun) for problem in self.problems[:SHOWN_PROBLEMS]]
        more = len(self.problems) - len(shown) + self.more
        if more > 0:
            known = "" if more < ENOUGH - SHOWN_PROBLEMS else "at least "
            shown.append(f"And {known}{more:,} more.")
        return " ".join(shown)


def missing(path: ValuePath, brief: str) -> Problem:
    return Problem(spelled(path), brief, kind="missing")


def twice(path: ValuePath) -> Problem:
    return Problem(spelled(path), "", kind="twice")


def refused(path: ValuePath, reason: object) -> Problem:
    return Problem(spelled(path), f"is refused: {cut(str(reason))}")


def bad_key(make: Callable[..., Problem], args: tuple[object, ...]) -> Problem:
    """The problem of a key of a map, as a problem of its entry."""
    inner = make(*args)
    return Problem(inner.path, f"has a bad key: it {inner.expected}", inner.got, inner.hint)


def unknown(path: ValuePath, name: str, known: Sequence[str]) -> Problem:
    where = spelled(path)
    if not known:
        return Problem(where, "", hint="None is expected here.", kind="unknown")
    names = ", ".join(known[:SHOWN_CHOICES]) + (", …" if len(known) > SHOWN_CHOICES else "")
    near = nearest(name, known)
    hint = f'did you mean "{near}"? Known: {names}.' if near else f"Known: {names}."
    return Problem(where, "", hint=hint, kind="unknown")


def not_allowed(path: ValuePath, value: object) -> Problem:
    return Problem(spelled(path), "is not allowed here", show(value))


def wrong_type(path: ValuePath, words: str, value: object) -> Problem:
    return Problem(spelled(path), f"must be {words}", show_typed(value))


def wrong_value(path: ValuePath, words: str, value: object) -> Problem:
    return Problem(spelled(path), f"must be {words}", show(value))


def not_a_choice(path: ValuePath, words: str, value: object, choices: Sequence[object]) -> Problem:
    texts = [choice for choice in choices if isinstance(choice, str)]
    near = nearest(value, texts) if isinstance(value, str) else None
    return Problem(spelled(path), f"must be {words}", show(value), f'did you mean "{near}"?' if near else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None. All "did you mean" texts use it.

    A shared beginning counts for more than difflib gives it: "ascending" means "asc".
    """
    if len(name) > LONGEST:
        return None
    known = [candidate for candidate in known if len(candidate) <= LONGEST]
    folded = dict(zip(map(str.casefold, known), known, strict=True))
    given = name.casefold()
    near = given if given in folded else _close(given, folded)
    if near is None or len(folded) == len(known):
        return None if near is None else folded[near]
    alike = [candidate for candidate in known if candidate.casefold() == near]  # they differ in case only
    return max(alike, key=lambda candidate: sum(map(eq, candidate, name)))


def _close(given: str, names: Collection[str]) -> str | None:
    import difflib  # loaded here because only errors need it

    close = difflib.get_close_matches(given, _alike(given, names), n=1, cutoff=0.6)
    if close:
        return close[0]
    prefixed = [c for c in names if len(c) >= 3 and len(given) >= 3 and (given.startswith(c) or c.startswith(given))]
    return max(prefixed, key=len, default=None)


def _alike(given: str, names: Collection[str]) -> Collection[str]:
    """The names to compare. Of many names, only those whose beginnings or ends are near the given one in the order."""
    if len(names) <= COMPARED:
        return names
    from bisect import bisect_left

    near: dict[str, None] = {}
    for step in (1, -1):
        ordered = sorted(name[::step] for name in names)
        at = bisect_left(ordered, given[::step])
        near |= dict.fromkeys(name[::step] for name in ordered[max(0, at - COMPARED // 4) : at + COMPARED // 4])
    return near


def join(path: ValuePath, key: str | int) -> ValuePath:
    return (path, key)


def spelled(path: ValuePath) -> str:
    """The path as a text: `a[0].b`; keys and the whole are cut to what a reader can use."""
    keys: list[str | int] = []
    while not isinstance(path, str):
        path, key = path
        keys.append(key if isinstance(key, int) else cut(key, SHOWN_CHARS))
    text = cut(path, SHOWN_PATH)
    for key in reversed(keys):
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text if len(text) <= SHOWN_PATH else f"{text[: SHOWN_PATH // 2]}…{text[-SHOWN_PATH // 2 :]}"


def cut(text: str, length: int = SHOWN_REASON) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def any_word(words: Sequence[str]) -> str:
    """ "a, b or c"."""
    names = list(dict.fromkeys(words))
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def one_of(choices: Sequence[object]) -> str:
    shown = ", ".join(show(choice) for choice in choices[:SHOWN_CHOICES])
    if len(choices) == 1:
        return shown
    return f"one of {shown}" + (f", … ({len(choices)} in all)" if len(choices) > SHOWN_CHOICES else "")


def show(value: object) -> str:
    """The value as JSON, cut to about 60 characters."""
    return cut(_json(_preview(value)), SHOWN_CHARS)


TYPE_WORDS: dict[type, str] = {str: "the string ", list: "the array ", dict: "the object ", tuple: "the array "}


def show_typed(value: object) -> str:
    return TYPE_WORDS.get(type(value), "") + show(value)


def _preview(value: object, depth: int = 3) -> object:
    # A value may be megabytes: look only at as much of it as can be shown.
    if isinstance(value, str):
        return value[: SHOWN_CHARS + 1]
    if isinstance(value, list | tuple):
        return [_preview(item, depth - 1) for item in value[:SHOWN_CHOICES]] if depth else []
    if isinstance(value, dict):
        keys = list(itertools.islice(value, SHOWN_CHOICES)) if depth else []
        return {str(key)[:SHOWN_CHARS]: _preview(value[key], depth - 1) for key in keys}
    return value


def _json(value: object) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return repr(value)[: SHOWN_CHARS + 1]
    except ValueError:  # an integer that CPython does not show
        return "a number of many digits"
