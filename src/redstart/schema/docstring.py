"""Docstrings of Google, NumPy and Sphinx style -> description and parameters.

A line parser without a grammar: what it does not recognise stays part of the description.
Must not know: functions, types.
"""

import re
from inspect import cleandoc

import msgspec


class Docstring(msgspec.Struct):
    """What a docstring says: `Docstring(description, params)`."""

    description: str = ""
    params: dict[str, str] = {}


# Title of a section, or name of a Sphinx field -> whether it describes parameters. The others here are dropped, because
# a model has no use for them; what is not listed is kept as text.
SECTIONS = {
    **dict.fromkeys(("args", "arguments", "parameters", "params", "other parameters"), True),
    **dict.fromkeys(("keyword args", "keyword arguments", "keyword parameters", "attributes"), True),
    **dict.fromkeys(("returns", "return", "yields", "yield"), False),
    **dict.fromkeys(("raises", "raise", "except", "exceptions", "warns"), False),
}
FIELDS = {
    **dict.fromkeys(("param", "parameter", "arg", "argument", "key", "keyword"), True),
    **dict.fromkeys(("returns", "return", "yields", "yield"), False),
    **dict.fromkeys(("raises", "raise", "except", "exception", "type", "rtype", "meta"), False),
}

# Not compiled yet: `re` does that at first use, and most docstrings need few of these.
GOOGLE_ENTRY = r"\*{0,2}(\w+)\s*(?:\([^)]*(?:\([^)]*\)[^)]*)*\))?\s*:(?:\s+(.*)|$)"
NUMPY_RULE = r"-{3,}$"
NUMPY_ENTRY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
FIELD = r":(\w+)(?:\s+([^:]*?))?\s*:(?:\s+(.*)|$)"


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring of any of the three styles.

    >>> parse_docstring("Add.\\n\\nArgs:\\n    a: First.").params
    {'a': 'First.'}
    """
    out = Docstring()
    kept: list[str] = []
    lines = cleandoc(text or "").splitlines()
    at = 0
    while at < len(lines):
        at = _numpy(lines, at, out) or _google(lines, at, out) or _field(lines, at, out) or _keep(lines, at, kept)
    out.description = "\n".join(kept).strip()
    return out


def _keep(lines: list[str], at: int, kept: list[str]) -> int:
    """Make a line part of the description, unless it is the second of several blank ones."""
    line = lines[at].rstrip()
    if line or (kept and kept[-1]):
        kept.append(line)
    return at + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _numpy(lines: list[str], at: int, out: Docstring) -> int:
    """The line after a NumPy section that starts here, or 0."""
    section = SECTIONS.get(lines[at].strip().lower())
    if section is None or at + 1 >= len(lines) or not re.match(NUMPY_RULE, lines[at + 1].strip()):
        return 0
    end = at + 2
    while end < len(lines) and not (end + 1 < len(lines) and re.match(NUMPY_RULE, lines[end + 1].strip())):
        end += 1
    body = lines[at + 2 : end]
    if section:
        _entries(body, NUMPY_ENTRY, out)
    return end


def _google(lines: list[str], at: int, out: Docstring) -> int:
    """The line after a Google section that starts here, or 0."""
    title = lines[at].strip()
    section = SECTIONS.get(title[:-1].lower()) if title.endswith(":") else None
    if section is None:
        return 0
    level = _indent(lines[at])
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > level):
        end += 1
    body = lines[at + 1 : end]
    if not any(line.strip() for line in body):
        # Entries at the level of their title are odd but common: take them up to the next blank line.
        while end < len(lines) and lines[end].strip() and re.match(GOOGLE_ENTRY, lines[end].strip()):
            end += 1
        body = lines[at + 1 : end]
    if section:
        _entries(body, GOOGLE_ENTRY, out)
    return end


def _field(lines: list[str], at: int, out: Docstring) -> int:
    """The line after a Sphinx field such as `:param int a: text`, or 0."""
    line = lines[at].strip()
    match = re.match(FIELD, line) if line.startswith(":") else None
    kind = FIELDS.get(match[1].lower()) if match else None
    if match is None or kind is None:
        return 0
    level = _indent(lines[at])
    end = at + 1
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > level:
        end += 1
    if kind and match[2]:
        text = " ".join(line.strip() for line in (match[3] or "", *lines[at + 1 : end]))
        out.params[match[2].split()[-1].lstrip("*")] = text.strip()
    return end


def _entries(body: list[str], pattern: str, out: Docstring) -> None:
    """`name: text` or NumPy's `name : type` entries, each with its deeper-indented lines."""
    level = min((_indent(line) for line in body if line.strip()), default=0)
    names: list[str] = []
    for line in body:
        match = re.match(pattern, line.strip()) if _indent(line) <= level else None
        if match is not None:
            names = [name.strip().lstrip("*") for name in match[1].split(",")]
            first = (match[2] or "") if pattern == GOOGLE_ENTRY else ""
            for name in names:
                out.params[name] = first.strip()
        elif line.strip():
            for name in names:
                out.params[name] = f"{out.params[name]} {line.strip()}".strip()
