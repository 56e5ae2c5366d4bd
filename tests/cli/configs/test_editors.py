"""The editors of JSON, TOML and YAML: one entry changes, and taking it out again gives the same bytes as before."""

from __future__ import annotations

import json
import tomllib
from types import ModuleType
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart.cli.configs import jsonc, toml, yaml
from redstart.cli.configs.edit import EditError, Mark

VALUE = {"command": "/usr/bin/python", "args": ["-m", "x"], "env": {"A": 'b"c'}}
PATH = ("mcpServers",)


def undone(editor: ModuleType, text: str, path: tuple[str, ...] = PATH, name: str = "birds") -> str:
    """The text with the entry; taking it out gives `text` again."""
    edited = editor.insert(text, path, name, VALUE)
    assert editor.remove(edited.text, path, name, edited.mark) == text
    assert editor.entries(edited.text, path)[name]
    return str(edited.text)


# ---------------------------------------------------------------- JSON

ENTRY = """{
      "command": "/usr/bin/python",
      "args": [
        "-m",
        "x"
      ],
      "env": {
        "A": "b\\"c"
      }
    }"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "mcpServers": {\n    "birds": ENTRY\n  }\n}'),
        ("{\n}\n", '{\n  "mcpServers": {\n    "birds": ENTRY\n  }\n}\n'),
        ('{\n  "mcpServers": {}\n}', '{\n  "mcpServers": {\n    "birds": ENTRY\n  }\n}'),
        (
            '{\n  // our\n  "mcpServers": {\n    "a": {} // last\n    // end\n  },\n  "b": 1\n}\n',
            '{\n  // our\n  "mcpServers": {\n    "a": {}, // last\n    "birds": ENTRY\n    // end\n  },\n  "b": 1\n}\n',
        ),
        (
            '{\n  "mcpServers": {\n    "a": {}, /* trailing */\n  },\n}\n',
            '{\n  "mcpServers": {\n    "a": {}, /* trailing */\n    "birds": ENTRY,\n  },\n}\n',
        ),
        ('{\n  "mcpServers": { /* none */ }\n}', '{\n  "mcpServers": { /* none */\n    "birds": ENTRY\n   }\n}'),
    ],
)
def test_json_in_its_own_style(before: str, after: str) -> None:
    assert undone(jsonc, before) == after.replace("ENTRY", ENTRY)


def test_json_of_one_line_stays_one_line() -> None:
    small = '{"command":"/usr/bin/python","args":["-m","x"],"env":{"A":"b\\"c"}}'
    assert undone(jsonc, '{"mcpServers":{"a":{}},"b":1}') == '{"mcpServers":{"a":{},"birds":' + small + '},"b":1}'
    assert undone(jsonc, '{"b":1}\n') == '{"b":1,"mcpServers":{"birds":' + small + "}}\n"
    assert '{"a": 1, "mcpServers": {"birds": {"command"' in undone(jsonc, '{"a": 1}')


def test_json_with_tabs_crlf_and_a_mark_of_its_encoding() -> None:
    text = '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n'
    edited = undone(jsonc, text)
    assert edited.startswith('\ufeff{\r\n\t"mcpServers": {\r\n\t\t"a": {},\r\n\t\t"birds": {\r\n\t\t\t"command": ')
    assert "\n" not in edited.replace("\r\n", "")


def test_an_empty_file_gets_the_whole_document() -> None:
    for text in ("", "\n", "\ufeff"):
        assert json.loads(undone(jsonc, text).lstrip("\ufeff")) == {"mcpServers": {"birds": VALUE}}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3),
        ("{\n  'a': 1\n}", 2),
        ('{\n  "a": tru\n}', 2),
        ('{"a": 1,, }', 1),
        ('{"a": "\n"}', 1),
        ('{"a": 1}\n{}', 2),
        ('{"a": 1', 1),
        ("{ /* }", 1),
        ("[" * 300 + "]" * 300, 1),
        ('{"a": 01}', 1),
        (",", 1),
        ("[]", 1),
        ('{\n  "mcpServers": []\n}', 2),
        ('{"mcpServers": {},\n "mcpServers": {}}', 2),
        ('{"mcpServers": {"birds": 1}}', 1),
    ],
)
def test_json_that_is_refused(text: str, line: int) -> None:
    with pytest.raises(EditError) as caught:
        jsonc.insert(text, PATH, "birds", VALUE)
    assert caught.value.line == line


def test_json_that_somebody_has_changed_since() -> None:
    edited = jsonc.insert('{"a": 1}', PATH, "birds", VALUE)
    formatted = json.dumps(json.loads(edited.text), indent=4)
    assert json.loads(jsonc.remove(formatted, PATH, "birds", edited.mark)) == {"a": 1, "mcpServers": {}}
    more = jsonc.insert(edited.text, PATH, "other", {})
    assert json.loads(jsonc.remove(more.text, PATH, "birds", edited.mark)) == {"a": 1, "mcpServers": {"other": {}}}
    with pytest.raises(EditError, match="no entry cats"):
        jsonc.remove(edited.text, PATH, "cats", edited.mark)


def test_entries_that_came_after_ours_stay() -> None:
    text = '{\n  "mcpServers": {\n    "a": {} // first\n  }\n}\n'
    ours = jsonc.insert(text, PATH, "birds", VALUE)
    more = jsonc.insert(ours.text, PATH, "cats", {})
    assert jsonc.remove(more.text, PATH, "birds", ours.mark) == text.replace("{} //", "{}, //").replace(
        "first\n", 'first\n    "cats": {}\n'
    )


def test_the_value_of_an_entry_is_replaced_in_its_place() -> None:
    text = '{\n  "mcpServers": {\n    "birds": {"old": 1}, // why\n    "b": {}\n  }\n}\n'
    edited = jsonc.replace(text, PATH, "birds", VALUE)
    assert edited.text == text.replace('{"old": 1}', ENTRY)
    assert jsonc.remove(edited.text, PATH, "birds", edited.mark) == text


def test_items_of_an_array() -> None:
    for text in ('{\n  "inputs": [\n    {"id": "a"}\n  ]\n}', '{"servers": {}}', "{}", '{"inputs": []}'):
        edited = jsonc.insert(text, ("inputs",), "", {"id": "KEY"})
        assert json.loads(edited.text)["inputs"][-1] == {"id": "KEY"}
        assert jsonc.remove(edited.text, ("inputs",), "", edited.mark) == text
    with pytest.raises(EditError, match="not a JSON array"):
        jsonc.insert('{"inputs": {}}', ("inputs",), "", {})


spaces = st.sampled_from(["", " ", "\n", "\r\n", "\t", "\n  ", " // c, {\n", "/* , } */", "\n\t// x\n\t"])
keys = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=4) | st.just("mcpServers")


@st.composite
def documents(draw: st.DrawFn, depth: int = 0) -> str:
    """JSON with comments and trailing commas anywhere; no key twice."""
    if depth > 2 or (depth and draw(st.booleans())):
        return draw(st.sampled_from(["1", '"x"', "null", "true", "-2.5e3", '"// \\" {"', "[]", "[1,\n2,]"]))
    drawn = draw(st.lists(keys, max_size=3, unique=True))
    members = []
    for name in drawn:
        inner = draw(documents(depth + 1)) if name != "mcpServers" or depth else draw(objects(depth + 1))
        members.append(draw(spaces) + json.dumps(name) + draw(spaces) + ":" + draw(spaces) + inner + draw(spaces))
    trailing = draw(st.sampled_from(["", ",", ", // d\n"])) if members else ""
    return "{" + ",".join(members) + trailing + draw(spaces) + "}"


def objects(depth: int) -> st.SearchStrategy[str]:
    return documents(depth).filter(lambda text: text.startswith("{"))


@given(documents(), keys.filter(bool), spaces)
@settings(max_examples=100)
def test_any_json_is_as_before(text: str, name: str, space: str) -> None:
    text = space + text + space
    if name in jsonc.entries(text, PATH):
        edited = jsonc.replace(text, PATH, name, VALUE)
    else:
        edited = jsonc.insert(text, PATH, name, VALUE)
    before, after = jsonc.parse(text).value, jsonc.parse(edited.text).value
    assert isinstance(before, dict)
    before.setdefault("mcpServers", {})[name] = VALUE
    assert after == before
    assert jsonc.remove(edited.text, PATH, name, edited.mark) == text


@given(documents(), keys.filter(bool))
@settings(max_examples=100)
def test_an_entry_is_found_without_knowing_what_was_written(text: str, name: str) -> None:
    if name in jsonc.entries(text, PATH):
        return
    edited = jsonc.insert(text, PATH, name, VALUE)
    left: Any = jsonc.parse(jsonc.remove(edited.text, PATH, name, Mark("changed"))).value
    expected: Any = jsonc.parse(text).value
    assert {"mcpServers": {}, **left} == {"mcpServers": {}, **expected}


# ---------------------------------------------------------------- TOML

TOML = ("mcp_servers",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "x"',
        'model = "x" # why\n',
        "\ufeffa = 1\r\n[mcp_servers.a]\r\ncommand = 'x'\r\n",
        '# top\n[mcp_servers]\n[mcp_servers.a]\ncommand = "a"\n\n[[list]]\nb = [\n  [1],\n]\n# end\n',
        'text = """\n[mcp_servers.birds]\n"""\n',
    ],
)
def test_toml(text: str) -> None:
    edited = undone(toml, text, TOML)
    assert edited.startswith(text)
    assert tomllib.loads(edited.lstrip("\ufeff"))["mcp_servers"]["birds"] == VALUE


def test_toml_reads_as_a_person_would_write_it() -> None:
    assert toml.insert("a = 1\n", TOML, "my birds", VALUE).mark.body == (
        '\n[mcp_servers."my birds"]\ncommand = "/usr/bin/python"\nargs = ["-m", "x"]\n'
        '\n[mcp_servers."my birds".env]\nA = "b\\"c"\n'
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a = 1\nb = \n", 2, "not valid TOML"),
        ('x = 1\nmcp_servers = { a = { command = "x" } }\n', 2, "inline table"),
        ("mcp_servers = 3\n", 1, "inline table or a value"),
        ("[mcp_servers.birds]\n", 0, "already"),
    ],
)
def test_toml_that_is_refused(text: str, line: int, words: str) -> None:
    with pytest.raises(EditError, match=words) as caught:
        toml.insert(text, TOML, "birds", VALUE)
    assert caught.value.line == line


def test_toml_that_somebody_has_changed_since() -> None:
    text = 'a = """\n[mcp_servers.birds]\n"""\n[mcp_servers.birds]\nx = [\n[1]]\n[mcp_servers.birds.env]\n# next\n[b]\n'
    assert toml.remove(text, TOML, "birds", Mark("?")) == 'a = """\n[mcp_servers.birds]\n"""\n# next\n[b]\n'
    with pytest.raises(EditError, match="by hand"):
        toml.remove("mcp_servers.birds.a = 1\n", TOML, "birds", Mark("?"))


def test_a_table_is_replaced_in_its_place() -> None:
    text = "[mcp_servers.birds]\ncommand = 'old'\n[mcp_servers.birds.env]\nA = '1'\n\n# b\n[b]\n"
    edited = toml.replace(text, TOML, "birds", VALUE)
    assert tomllib.loads(edited.text) == {"mcp_servers": {"birds": VALUE}, "b": {}}
    assert edited.text.endswith("\n\n# b\n[b]\n")
    assert toml.remove(edited.text, TOML, "birds", edited.mark) == text


names = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff\x7f"), min_size=1, max_size=5)
pieces = st.sampled_from(
    ["a = 1\n", "# c\n", "\n", "b = '''\n[x]\n'''\n", "[t]\n", "[mcp_servers.o]\nx=[\n[1]]\n", "\r\n", "[[l]]\n"]
)


@given(st.lists(pieces, max_size=6, unique=True), names, st.sampled_from(["", "\ufeff"]))
@settings(max_examples=100)
def test_any_toml_is_as_before(parts: list[str], name: str, bom: str) -> None:
    text = bom + "".join(parts)
    if name == "o":
        return
    edited = undone(toml, text, TOML, name)
    assert toml.entries(edited, TOML)[name] == VALUE
    assert toml.remove(edited, TOML, name, Mark("changed")).rstrip() == text.rstrip()


# ---------------------------------------------------------------- YAML

YAML = ("extensions",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GOOSE_MODEL: x",
        "a: 1\r\nextensions:\r\n  b:\r\n    cmd: x\r\n",
        "extensions:\n    b:\n        cmd: x\n    # end\n\nz: |\n  extensions:\n   text\n",
        "extensions: # none yet\nz: 1\n",
        "extensions: {}\nz: 1\n",
        "---\nextensions:\n  b: {cmd: x}\nlist:\n- 1\n- 2\n",
        "extensions:\n  b:\n    text: |+\n      kept\n\n\nz: 1\n",
        "\ufeffextensions:\n  b:\n    cmd: x",
    ],
)
def test_yaml(text: str) -> None:
    edited = undone(yaml, text, YAML)
    before, after = pyyaml.safe_load(text) or {}, pyyaml.safe_load(edited)
    assert after.pop("extensions") == {**(before.pop("extensions", None) or {}), "birds": VALUE}
    assert after == before


def test_yaml_reads_as_a_person_would_write_it() -> None:
    entry = {
        "type": "stdio",
        "cmd": "/bin/x",
        "args": ["-m"],
        "envs": {},
        "timeout": 300,
        "enabled": True,
        "word": "no",
    }
    assert yaml.insert("a: 1\n", YAML, "birds", entry).text == (
        'a: 1\nextensions:\n  birds:\n    type: stdio\n    cmd: /bin/x\n    args:\n      - "-m"\n    envs: {}\n'
        '    timeout: 300\n    enabled: true\n    word: "no"\n'
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("extensions: {a: 1}\n", 1, "not a block mapping"),
        ("a: 1\nextensions:\n\t- b\n", 3, "tab"),
        ("extensions:\n- a\n", 1, "a list"),
        ("extensions:\n  - a\n", 1, "not a block mapping"),
        ("a: 1\n---\nb: 1\n", 2, "several documents"),
        ("extensions: 3\n", 1, "not a block mapping"),
        ("extensions:\n  a: 1\nextensions:\n  b: 1\n", 3, "twice"),
        ("[1, 2]\n", 1, "only plain mappings"),
        ("extensions:\n    a: 1\n  b: 1\n", 3, "indentation"),
        ("extensions:\n  birds: {}\n", 1, "already"),
    ],
)
def test_yaml_that_is_refused(text: str, line: int, words: str) -> None:
    with pytest.raises(EditError, match=words) as caught:
        yaml.insert(text, YAML, "birds", VALUE)
    assert caught.value.line == line


def test_yaml_that_somebody_has_changed_since() -> None:
    text = "extensions:\n  a: {}\n  birds:\n    cmd: y\n\n    # in\n    b: 1\n  # next\n  c: {}\n"
    assert yaml.remove(text, YAML, "birds", Mark("?")) == "extensions:\n  a: {}\n  # next\n  c: {}\n"
    edited = yaml.replace(text, YAML, "birds", VALUE)
    assert pyyaml.safe_load(edited.text) == {"extensions": {"a": {}, "birds": VALUE, "c": {}}}
    assert yaml.remove(edited.text, YAML, "birds", edited.mark) == text


lines = st.sampled_from(
    [
        "a: 1\n",
        "# c\n",
        "\n",
        "b: |\n  extensions:\n   x\n",
        "l:\n- 1\n- {x: 2}\n",
        "d: >-\n  t\n\n  u\n",
        "q: 'it''s: #'\n",
    ]
)
block = st.sampled_from(
    [
        "",
        "extensions:\n",
        "extensions: {}\n",
        "extensions:\n  a:\n    cmd: x\n",
        "'extensions':\n    # c\n    a: {}\n\n",
    ]
)


@given(st.lists(lines, unique=True, max_size=3), block, st.lists(lines, unique=True, max_size=2), names, st.booleans())
@settings(max_examples=100)
def test_any_yaml_is_as_before(before: list[str], middle: str, after: list[str], name: str, crlf: bool) -> None:
    text = "".join(before) + middle + "".join(line for line in after if line not in before)
    text = text.replace("\n", "\r\n") if crlf else text
    if name == "a":
        return
    edited = undone(yaml, text, YAML, name)
    data, changed = pyyaml.safe_load(text) or {}, pyyaml.safe_load(edited)
    assert changed.pop("extensions") == {**(data.pop("extensions", None) or {}), name: VALUE}
    assert changed == data
