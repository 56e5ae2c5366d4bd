"""The questions of a server, answered in the terminal or by `--answer name=value`.

A form has the fields that the spec allows: texts (with formats), numbers, yes or no, one of several, several of
several. What is typed is checked at once, so that a server gets only what its schema allows.
Spec: /specification/2026-07-28/client/elicitation.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from redstart.cli.arguments import Json, Schema, ValueMismatch, missing, value_of
from redstart.cli.keyboard import Keyboard
from redstart.cli.output import CommandError, near, printable, say, styled
from redstart.wire.jsonrpc import JsonObject

if TYPE_CHECKING:
    from redstart.client import ElicitRequest

ACTIONS: Final = ("decline", "cancel")
HELP: Final = "Enter takes what is in [brackets]; Ctrl-D declines."
EMAIL: Final = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


class Choosable(NamedTuple):
    """One value of a choice, and what a person reads."""

    value: Json
    title: str


class Declines(Exception):
    """The person does not want to answer."""


class TypedAnswers:
    """Answers questions: from `--answer`, else from the person at the terminal, else not at all."""

    def __init__(self, given: Sequence[str], keyboard: Keyboard) -> None:
        self._given: dict[str, list[str]] = {}
        self._action: str | None = None
        self._keyboard = keyboard
        self._used: set[str] = set()
        self.unanswered: list[str] = []
        """The fields without an answer."""
        for word in given:
            name, mark, value = word.partition("=")
            if not mark and word in ACTIONS:
                self._action = word
            elif not mark or not name:
                raise CommandError(f"write --answer name=value, --answer decline or --answer cancel, not {word}")
            else:
                self._given.setdefault(name, []).append(value)

    async def __call__(self, request: ElicitRequest) -> Json:
        """The answer to one question, as `Client(on_elicit=…)` wants it."""
        if self._action:
            return self._action
        async with self._keyboard.lock:
            if request.mode == "url":
                return await self._page(request)
            return await self._form(request)

    def unused(self) -> list[str]:
        """The answers that no question asked for."""
        return [name for name in self._given if name not in self._used]

    # ---------------------------------------------------------------- a form

    async def _form(self, request: ElicitRequest) -> Json:
        schema = request.schema
        given = self._from_words(schema, request.key)
        fields: JsonObject = schema.get("properties", {}) if isinstance(schema.get("properties"), dict) else {}
        if self._given and not missing(given, schema):
            return given
        if not self._keyboard.is_there:
            wanted = missing(given, schema) or list(fields) or ["decline"]
            self._say_unanswered(request, wanted)
            return "cancel"
        say("\n" + styled(printable(request.message), "bold", sys.stderr))
        try:
            if not fields:
                return {} if await self._yes("Accept?", default=None) else "decline"
            say(styled(HELP, "dim", sys.stderr))
            for name, field in fields.items():
                if name not in given:
                    value = await self._field(name, field, required=name in (schema.get("required") or ()))
                    given |= {} if value is None else {name: value}
        except Declines:
            return "decline"
        return given

    def _from_words(self, schema: Schema, key: str | None) -> JsonObject:
        """The values of `--answer`. A question with one field also goes by its key."""
        found: JsonObject = {}
        fields = schema.get("properties")
        fields = fields if isinstance(fields, dict) else {}
        for name, field in fields.items():
            said = name if name in self._given or len(fields) > 1 else key or name
            if said not in self._given:
                continue
            self._used.add(said)
            try:
                found[name] = read_field(self._next(said, field), field)
            except ValueMismatch as error:
                raise CommandError(f"--answer {said}: {error}") from None
        return found

    def _next(self, name: str, field: Json) -> str:
        """A list takes all answers of a name. Another field takes the next one at each question, and keeps the last."""
        words = self._given[name]
        if isinstance(field, dict) and field.get("type") == "array":
            return ", ".join(words)
        return words.pop(0) if len(words) > 1 else words[0]

    def _say_unanswered(self, request: ElicitRequest, wanted: Sequence[str]) -> None:
        self.unanswered += wanted
        words = " ".join(f"--answer {name}=…" if name not in ACTIONS else "--answer decline" for name in wanted)
        say(printable(f"The server asks: {request.message}"))
        say(printable(f"Nobody can answer here, because this is not a terminal; write {words}"))

    async def _field(self, name: str, field: Json, *, required: bool) -> Json:
        """One field, asked for until its answer fits."""
        field = field if isinstance(field, dict) else {}
        for line in described(name, field, required):
            say(printable(line))
        prompt = "  > " if "default" not in field else f"  [{printable(shown_default(field))}] > "
        while True:
            typed = await self._keyboard.line(prompt)
            if typed is None:
                raise Declines
            if not typed.strip():
                if "default" in field:
                    return field["default"]
                if not required:
                    return None
                if field.get("type") != "string" or field.get("minLength") or choices(field):
                    say("  an answer is needed")
                    continue
            try:
                return read_field(typed.strip(), field)
            except ValueMismatch as error:
                say(styled(printable(f"  {error}"), "red", sys.stderr))

    async def _yes(self, question: str, default: bool | None) -> bool:
        while True:
            typed = await self._keyboard.line(f"{question} [y/n] > ")
            if typed is None:
                raise Declines
            answer = typed.strip().lower()
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")

    # ---------------------------------------------------------------- a page

    async def _page(self, request: ElicitRequest) -> str:
        if not self._keyboard.is_there:
            self._say_unanswered(request, ["decline"])
            return "cancel"
        say("\n" + styled(printable(request.message), "bold", sys.stderr))
        say(printable(f"  {request.url}"))
        try:
            if not await self._yes("Open this page in the browser?", default=None):
                return "decline"
        except Declines:
            return "decline"
        import webbrowser

        if not str(request.url).startswith(("https://", "http://")) or not webbrowser.open(str(request.url)):
            say("No browser could be opened: open the page by hand.")
        return "accept"


# ---------------------------------------------------------------- fields


def choices(field: Schema) -> list[Choosable]:
    """The values of a choice: `enum` (with `enumNames`), or `oneOf`/`anyOf` with titles; for a list, of its items.

    >>> choices({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]})
    [Choosable(value='r', title='Red')]
    """
    source: Json = field.get("items") if field.get("type") == "array" else field
    if not isinstance(source, Mapping):
        return []
    if isinstance(values := source.get("enum"), list):
        names = source.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return [Choosable(value, str(title)) for value, title in zip(values, titles, strict=True)]
    for word in ("oneOf", "anyOf"):
        if isinstance(listed := source.get(word), list):
            return [Choosable(one["const"], str(one.get("title", one["const"]))) for one in listed if "const" in one]
    return []


def described(name: str, field: Schema, required: bool) -> list[str]:
    """The lines above the prompt of a field."""
    title = str(field.get("title") or name)
    notes = [note for note in (rule(field), "" if required else "optional") if note]
    lines = [title + (f" ({', '.join(notes)})" if notes else "")]
    if field.get("description"):
        lines.append(f"  {field['description']}")
    for number, option in enumerate(choices(field), 1):
        lines.append(f"  {number}  {option.title}")
    return lines


def rule(field: Schema) -> str:
    """What an answer must be, as a text."""
    kind = field.get("type")
    if choices(field):
        return "numbers or values, with commas" if kind == "array" else "a number or a value"
    least, most = field.get("minimum"), field.get("maximum")
    if kind in ("integer", "number"):
        bounds = f" from {least} to {most}" if least is not None and most is not None else ""
        bounds = bounds or (f" of at least {least}" if least is not None else "")
        bounds = bounds or (f" of at most {most}" if most is not None else "")
        return ("a whole number" if kind == "integer" else "a number") + bounds
    if kind == "boolean":
        return "y or n"
    return FORMATS.get(str(field.get("format")), "")


FORMATS: Final = {
    "email": "an e-mail address",
    "uri": "a URI such as https://example.com",
    "date": "a date such as 2026-12-31",
    "date-time": "a time such as 2026-12-31T18:00:00Z",
}


def shown_default(field: Schema) -> str:
    default = field["default"]
    if isinstance(default, bool):
        return "y" if default else "n"
    return ", ".join(map(str, default)) if isinstance(default, list) else str(default)


def read_field(text: str, field: Schema) -> Json:
    """An answer as its field takes it; ValueMismatch says why not."""
    options = choices(field)
    if field.get("type") == "array":
        picked = [_pick(part.strip(), options) for part in text.split(",") if part.strip()]
        return _count(list(dict.fromkeys(picked)), field)
    if options:
        return _pick(text, options)
    value = value_of(text, field, field) if not text.startswith("@") and text != "-" else text
    return _within(value, field) if isinstance(value, str) or not isinstance(value, bool) else value


def _pick(text: str, options: Sequence[Choosable]) -> Json:
    for option in options:
        if text in (str(option.value), option.title):
            return option.value
    if text.isdecimal() and 0 < int(text[:9]) <= len(options):
        return options[int(text[:9]) - 1].value
    lowered = [
        option for option in options if text.casefold() in (str(option.value).casefold(), option.title.casefold())
    ]
    if len(lowered) == 1:
        return lowered[0].value
    hint = near(text, [str(option.value) for option in options])
    raise ValueMismatch(f"{text!r} is not one of them{hint if 'did you mean' in hint else ''}")


def _count(values: list[Json], field: Schema) -> list[Json]:
    least, most = field.get("minItems"), field.get("maxItems")
    if isinstance(least, int) and len(values) < least:
        raise ValueMismatch(f"at least {least}, not {len(values)}")
    if isinstance(most, int) and len(values) > most:
        raise ValueMismatch(f"at most {most}, not {len(values)}")
    return values


def _within(value: Json, field: Schema) -> Json:
    """The value, if it is within the bounds of its field."""
    if isinstance(value, str):
        return _text(value, field)
    least, most = field.get("minimum"), field.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        raise ValueMismatch(f"{rule(field)}, not {value}")
    return value


def _text(text: str, field: Schema) -> str:
    least, most = field.get("minLength"), field.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        raise ValueMismatch(f"at least {least} characters, not {len(text)}")
    if isinstance(most, int) and len(text) > most:
        raise ValueMismatch(f"at most {most} characters, not {len(text)}")
    kind = str(field.get("format"))
    if kind in FORMATS and not _fits(text, kind):
        raise ValueMismatch(f"{FORMATS[kind]}, not {text!r}")
    return text


def _fits(text: str, kind: str) -> bool:
    if kind in ("email", "uri"):
        return (EMAIL if kind == "email" else URI).fullmatch(text) is not None
    try:
        if kind == "date":
            datetime.date.fromisoformat(text)
            return len(text) == 10
        return datetime.datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False
