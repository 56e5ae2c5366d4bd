"""`redstart check`: anybody's server, seen by clients of every revision, and by rules with codes."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from redstart import ProtocolError, Server
from redstart.cli import main
from redstart.cli.lint.rules import RULES
from redstart.testing.behaviour import problems
from support import ROOT

page = runpy.run_path(str(ROOT / "scripts" / "rules.py"))
CLEAN = "nothing wrong in any revision"


def codes(path: Path, source: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The codes of what is found in a file."""
    path.write_text(source)
    status = main(["check", str(path), "--output-format", "json", *arguments])
    found = [row["code"] for row in json.loads(capsys.readouterr().out)]
    assert status == (1 if found else 0)
    return found


@pytest.mark.requirement("13")
def test_a_good_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples" / "birds" / "server.py")]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert CLEAN in said.err


@pytest.mark.requirement("13")
def test_what_is_wrong_is_said_for_each_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
from redstart import Server, ToolResult
server = Server("odd")

@server.add_middleware
async def yes(call, next):
    return ToolResult(content=[]) if call.method.name == "tools/call" else await next(call)
"""
    (tmp_path / "odd.py").write_text(source)
    assert main(["check", str(tmp_path / "odd.py")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "RS001 2026-07-28: a call of a tool that does not exist succeeds"
    assert main(["check", str(tmp_path / "odd.py"), "--ignore", "RS001"]) == 0
    assert main(["check", str(tmp_path / "none.py")]) == 2


@pytest.mark.requirement("13")
def test_a_server_that_fails_to_list_is_reported_and_the_others_go_on() -> None:
    server = Server("broken")

    @server.add_middleware
    async def broken(call: Any, next: Any) -> Any:
        if call.method.name == "tools/list" and not call.dialect.modern:
            raise ProtocolError(-32603, "the list is broken")
        return await next(call)

    found = asyncio.run(problems(server))
    assert len(found) == 4
    assert all("the list is broken" in problem for problem in found)


# ---------------------------------------------------------------- the rules


DEFAULTS = """
import enum, math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from msgspec import Meta
from pydantic import BaseModel, Field
from redstart import Depends, Parameter, Server, SyncContext, Tool

server = Server("shop")
UNSET = object()

class Colour(enum.Enum):
    RED = "red"

class Odd(enum.Enum):
    GREEN = (0, 255, 0)

class Point(NamedTuple):
    x: int = 0

@dataclass
class Hat:
    size: int = 7

class Model(BaseModel):
    n: int = 1

{}
"""
FINE = [
    "a: int = None", "a: int = ...", "a: int = UNSET", "a: float = math.inf", "a: float = 1", "a: Colour = Colour.RED",
    "a: Colour = 'red'", "a: Odd = Odd.GREEN", "a: Point = Point()", "a: Hat = Hat()", "a: Hat = {'size': 1}",
    "a: Model = Model()", "a: Model = {'n': 2}", "a: Path = Path('.')", "a: Path = '.'", "a: list[str] = ()",
    "a: set[int] = frozenset()", "a: datetime = datetime.now()", "a: int = Field(5)", "a: int = Field(default=...)",
    "a: int = Field(default_factory=int)", "a: int | str = 'x'", "a: Any = UNSET", "a: Literal['x'] = 'x'", "a='x'",
    "ctx: SyncContext = None", "a: int = Depends(lambda: 5)", "a: 'int' = 3", "a: dict[str, Hat] = {}",
]  # fmt: skip
WRONG_DEFAULTS = [
    ("a: int = 'three'", 'must be an integer, got the string "three"'),
    ("a: int = '3'", 'must be an integer, got the string "3"'),  # the function would get a text
    ("a: Annotated[int, Meta(le=9)] = 10", "must be at most 9, got 10"),
    ("a: Literal['x', 'y'] = 'z'", 'must be one of "x", "y", got "z"'),
    ("a: Colour = 'rde'", 'must be "red", got "rde"; did you mean "red"?'),
    ("a: list[int] = ['x']", 'out of the schema: "[0]" must be an integer, got the string "x"'),
    ("a: int = Field('three')", 'must be an integer, got the string "three"'),
    ("a: Annotated[int, Field(default='three')]", 'must be an integer, got the string "three"'),
]


@pytest.mark.parametrize("parameter", FINE)
def test_a_default_that_fits(parameter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = DEFAULTS.replace("{}", f"@server.tool\ndef add({parameter}) -> str: return ''")
    assert codes(tmp_path / "fits.py", source, "--select", "RS208", capsys=capsys) == []


@pytest.mark.parametrize(("parameter", "words"), WRONG_DEFAULTS)
def test_a_default_that_does_not_fit(
    parameter: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(DEFAULTS.replace("{}", f"@server.tool\ndef add({parameter}) -> str: return ''"))
    assert main(["check", str(path), "--select", "RS208"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{path}:30: RS208 tool add: the default of a does not fit, and is left out of the schema: ")
    assert words in said


def test_the_default_of_a_parameter_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "parameters=[Parameter('a', 'integer', default='three')]"
    source = DEFAULTS.replace("{}", f"server.register(Tool('add', handler=lambda a: a, {given}))")
    assert codes(tmp_path / "wrong.py", source, "--select", "RS208", capsys=capsys) == ["RS208"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_examples_of_a_rule(rule: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = (page["example"](text) for text in page["EXAMPLES"][rule.code])
    select = [] if rule.default else ["--select", rule.code]
    assert rule.code in codes(tmp_path / "bad.py", bad, *select, capsys=capsys)
    assert codes(tmp_path / "good.py", good, *select, capsys=capsys) == []


def test_every_rule_has_a_code_of_its_own_and_a_place_on_the_page() -> None:
    assert [rule.code for rule in RULES] == sorted({rule.code for rule in RULES}) == list(page["EXAMPLES"])
    assert page["PAGE"].read_text() == page["page"](), "run: python scripts/rules.py"


def test_the_line_of_a_finding_and_the_names_of_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "shop.py"
    file.write_text(page["example"](page["EXAMPLES"]["RS206"][0]))
    assert main(["check", str(file)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"{file}:6: RS206 tool order_hats: the list colours does not say what is in it")
    assert said.out.endswith("(codex, copilot, gemini, vscode)\n")
    assert said.err == "shop: 1 tool, 0 prompts, 0 resources, 1 problem\n"


def test_a_tuple_is_not_called_a_list_of_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "shop.py"
    file.write_text(page["example"](page["EXAMPLES"]["RS206"][0].replace("list)", "list[tuple[str, int]])")))
    assert main(["check", "--select", "RS206", str(file)]) == 1
    said = "the tuple colours has no items for these clients; write a dataclass, or list[…] with one type"
    assert f"RS206 tool order_hats: {said} (" in capsys.readouterr().out


def test_github_shows_it_beside_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "shop, 100%.py"
    file.write_text(page["example"](page["EXAMPLES"]["RS402"][0]))
    assert main(["check", str(file), "--output-format", "github"]) == 1
    place = str(file).replace("%", "%25").replace(",", "%2C")
    assert capsys.readouterr().out.startswith(f"::warning file={place},line=6,title=RS402::tool list_hats: say ")


TWO = """
from redstart import Server
server = Server("shop")

@server.tool
def run(n: int) -> str:
    return ""
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], ["RS101", "RS103", "RS107"]),
        (["--select", "RS10"], ["RS101", "RS103", "RS104", "RS107"]),
        (["--select", "RS104"], ["RS104"]),
        (["--select", "RS1", "--ignore", "RS101,RS107"], ["RS103", "RS104"]),
        (["--select", "RS4"], []),
    ],
)
def test_rules_are_chosen(
    arguments: list[str], found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codes(tmp_path / "shop.py", TWO, *arguments, capsys=capsys) == found


def test_only_what_matters_for_a_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = page["example"](page["EXAMPLES"]["RS203"][0])
    assert codes(tmp_path / "a.py", source, capsys=capsys) == ["RS203"]
    assert codes(tmp_path / "b.py", source, "--client", "claude,codex", capsys=capsys) == []
    assert codes(tmp_path / "c.py", source, "--client", "gemini", capsys=capsys) == ["RS203"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--select", "RS999"], "there is no rule RS999"),
        (["--ignore", "nonsense"], "there is no rule nonsense"),
        (["--client", "netscape"], "no rule is about the client netscape"),
    ],
)
def test_unknown_rules_and_clients(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "shop.py", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("# noqa: RS101, RS107", ["RS103"]),
        ("# noqa", []),
        ("# noqa: RS402", ["RS101", "RS103", "RS107"]),
        ("# type: ignore # noqa: RS103", ["RS101", "RS107"]),
    ],
)
@pytest.mark.parametrize("line", ["@server.tool", "def run(n: int) -> str:"])
def test_a_comment_takes_a_finding_back(
    comment: str, found: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TWO.replace(line, f"{line}  {comment}")
    assert codes(tmp_path / "shop.py", source, capsys=capsys) == found


# ---------------------------------------------------------------- --fix

BLOCKING = '''"""A shop."""
from __future__ import annotations

import subprocess as sp
from time import sleep
from redstart import Server
server = Server("shop")

@server.tool
async def order_hat(colour: str) -> str:
    """Order one hat."""
    sleep(0.01)
    out = sp.run(["echo", colour], capture_output=True)  # ä
    text = sp.run(["echo", "ä"], capture_output=True).stdout + sp.check_output(["echo", "b"])
    later = lambda: sp.run(["echo"])

    def inner() -> None:
        sleep(1)

    return out.stdout.decode() + text.decode()

@server.tool
def order_scarf() -> str:
    """Order one scarf."""
    sleep(0.01)
    return ""
'''


def test_blocking_calls_are_found_and_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "shop.py"
    assert codes(file, BLOCKING, capsys=capsys) == ["RS401"] * 4
    assert main(["check", str(file), "--fix"]) == 0
    said = capsys.readouterr()
    assert said.err.count("fixed ") == 4
    text = file.read_text()
    assert "annotations\n\nimport asyncio\nimport subprocess as sp\n" in text
    assert "    await asyncio.sleep(0.01)\n" in text
    assert '    out = await asyncio.to_thread(sp.run, ["echo", colour], capture_output=True)  # ä\n' in text
    assert '(await asyncio.to_thread(sp.run, ["echo", "ä"], capture_output=True)).stdout + (await' in text
    assert "later = lambda: sp.run" in text
    assert text.count("sleep(1)") == 1


def test_what_was_changed_still_works(tmp_path: Path) -> None:
    from redstart import Client
    from redstart.cli.target import load

    file = tmp_path / "changed_shop.py"
    file.write_text(BLOCKING)
    assert main(["check", str(file), "--fix"]) == 0

    async def called() -> Any:
        async with Client(load(str(file))) as client:
            result = await client.call_tool("order_hat", {"colour": "red"})
            return result.content[0]

    assert asyncio.run(called()).text == "red\nä\nb\n"
