"""`list`, `call`, `read` and `prompt`: what they print, what they send, and what they say."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart.cli import main
from redstart.cli.arguments import arguments_of
from redstart.cli.output import CommandError
from support import ERAS, REVISIONS, free_port, serving
from warm import redstart

SHOP = str(Path(__file__).with_name("shop.py"))
RUN = [sys.executable, "-m", "redstart"]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def ran(*words: str, status: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(redstart(*words), capture_output=True, timeout=30, check=False, **options)
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


# ---------------------------------------------------------------- list


def test_a_list_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", SHOP]) == 0
    heard = capsys.readouterr()
    assert heard.err.startswith("shop 1.2.0, protocol 2026-07-28\nAsk for hats.\n")
    lines = heard.out.splitlines()
    assert lines[0] == "Tools"
    assert lines[1].split("  ") == [
        "",
        "add a=integer [b=integer]",
        *[""] * (len(lines[1].split("  ")) - 3),
        lines[1].split("  ")[-1],
    ]
    assert lines[1].endswith("Add two numbers.")
    assert "  review code=text [language=text]  Ask for a code review." in lines
    assert "  shop://hours  When the shop is open." in lines
    assert "  notes://{name}  One note." in lines


def test_a_part_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", SHOP, "--prompts"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Prompts"
    assert main(["list", SHOP, "--templates", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["uriTemplate"] for entry in found["resourceTemplates"]] == ["notes://{name}"]
    assert "tools" not in found


@pytest.mark.parametrize("era", REVISIONS)
def test_a_list_for_programs(era: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", SHOP, "--json", "--protocol", era]) == 0
    heard = capsys.readouterr()
    assert heard.err == ""
    found = json.loads(heard.out)
    assert found["protocolVersion"] == era
    assert found["server"]["name"] == "shop"
    assert found["tools"][0]["inputSchema"]["required"] == ["a"]


def test_one_tool_in_detail(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", SHOP, "add"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("add\n\nAdd two numbers.\n\nArguments\n  a (integer, required)   The first number.\n")
    assert "Returns\n  integer\n\nHints: readOnlyHint\n" in shown


# ---------------------------------------------------------------- call


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["a=1", "b=-2"], {"a": 1, "b": -2}),
        (['{"a": 1, "b": 5}', "b=2"], {"a": 1, "b": 2}),
        (["@file.json"], {"a": 41}),
        (["text=@file.json"], {"text": '{"a": 41}'}),
        (["text=5"], {"text": "5"}),
        (["text:=5"], {"text": 5}),
        (["text=a=b"], {"text": "a=b"}),
        (["n=1.5e3", "yes=true", "no=NO"], {"n": 1500.0, "yes": True, "no": False}),
        (["in.x=1", "in.deep.y=z"], {"in": {"x": 1, "deep": {"y": "z"}}}),
        (['in={"x": 3}'], {"in": {"x": 3}}),
        (["list=1", "list=2"], {"list": [1, 2]}),
        (["list=[1, 2]", "list=3"], {"list": [1, 2, 3]}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=7"], {"maybe": 7}),
        (["either=7"], {"either": 7}),
        (["either=seven"], {"either": "seven"}),
        (["any={\"k\": [1]}"], {"any": {"k": [1]}}),
        (["any=word"], {"any": "word"}),
        (["colour=red"], {"colour": "red"}),
        (["dot.ted=1"], {"dot.ted": 1}),
        (["data=@file.json"], {"data": base64.b64encode(b'{"a": 41}').decode()}),
    ],
)  # fmt: skip
def test_words_become_arguments(
    words: list[str], sent: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.json").write_text('{"a": 41}')
    monkeypatch.chdir(tmp_path)
    assert arguments_of(words, SCHEMA) == sent


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "integer"},
        "text": {"type": "string"},
        "n": {"type": "number"},
        "yes": {"type": "boolean"},
        "no": {"type": "boolean"},
        "in": {"$ref": "#/$defs/In"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["string", "integer"]},
        "any": {},
        "colour": {"enum": ["red", "green"]},
        "dot.ted": {"type": "integer"},
        "data": {"type": "string", "contentEncoding": "base64"},
    },
    "$defs": {
        "In": {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "deep": {"type": "object", "properties": {"y": {"type": "string"}}},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=x"], "argument a: a whole number, not 'x'"),
        (["a=1.5"], "argument a: a whole number, not '1.5'"),
        (["n=nan"], "argument n: a number, not 'nan'"),
        (["yes=maybe"], "argument yes: true or false, not 'maybe'"),
        (["colour=rde"], "argument colour: 'rde' is not one of red, green; did you mean red?"),
        (["in=5"], "argument in: a JSON object such as {…}, not '5'"),
        (["in.z=5"], "there is no argument z in in; there is: deep, x"),
        (["list=[1"], "this is not JSON"),
        (["a=1", "a=2"], "argument a is given twice"),
        (["a=1", "a.b=2"], "argument a.b: a has a value already"),
        (["{"], "this is not JSON"),
        (["text:=Oslo"], "this is not JSON (for a text write text=…): "),
        (["@nowhere.json"], "nowhere.json: No such file or directory"),
        (["text=@nowhere.txt"], "nowhere.txt: No such file or directory"),
        (["colours=red"], "there is no argument colours; did you mean colour?"),
    ],
)
def test_words_that_are_no_arguments(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        arguments_of(words, SCHEMA)
    assert str(caught.value).startswith(said)
    assert caught.value.status == 2


def test_stdin_holds_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 3}')))
    assert arguments_of(["-"], SCHEMA) == {"a": 3}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a long text")))
    assert arguments_of(["text=-"], SCHEMA) == {"text": "a long text"}


@pytest.mark.parametrize("era", ERAS)
def test_the_result_alone_is_on_stdout(era: str) -> None:
    done = ran("call", SHOP, "echo", "size.width=3", "tags=a", "tags=b", "value=x", "--protocol", era)
    assert json.loads(done.stdout) == {"value": "x", "width": 3, "tags": ["a", "b"], "bytes": 0}
    assert done.stderr == b"printed by a tool\n"


def test_progress_and_log_are_talk() -> None:
    done = ran("call", SHOP, "slow", "n=2")
    assert done.stdout == b"done\n"
    assert b"\x1b" not in done.stderr  # a line that is rewritten is for terminals
    assert b"info: log 1\n" in done.stderr.replace(b"info shop:", b"info:")
    assert b"log 1" not in ran("call", SHOP, "slow", "n=2", "--log-level", "error").stderr


def test_the_whole_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", SHOP, "add", "a=1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["content"], found["structuredContent"]) == ([{"type": "text", "text": "3"}], {"result": 3})
    assert main(["call", SHOP, "fail", "text=no", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["isError"] is True


def test_by_url_and_by_command(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with serving([*RUN, "run", SHOP, "--http", "--port", str(port)], port) as url:
        assert main(["call", url, "add", "a=40"]) == 0
        assert capsys.readouterr().out == "42\n"
        assert main(["list", f"http://127.0.0.1:{port}/other"]) == 4
        assert "the MCP endpoint is /mcp" in capsys.readouterr().err
    assert main(["call", "add", "a=40", "--", *RUN, "run", SHOP]) == 0
    assert capsys.readouterr().out == "42\n"


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", f"http://127.0.0.1:{free_port()}/mcp"]) == 3
    assert "is the server running, and are host and port right?" in capsys.readouterr().err


LOCKED = """
from redstart import Server
from redstart.auth import BearerTokens

server = Server("locked", auth=BearerTokens({"s3cret": "ada"}))
"""


def test_a_server_that_needs_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port, path = free_port(), tmp_path / "locked.py"
    path.write_text(LOCKED)
    with serving([*RUN, "run", str(path), "--http", "--port", str(port)], port) as url:
        assert main(["list", url]) == 4
        assert "Give a token with --token or REDSTART_TOKEN" in capsys.readouterr().err
        assert main(["list", url.replace("http:", "https:")]) == 3
        assert "try http:// instead of https://" in capsys.readouterr().err
        assert main(["list", url, "--token", "s3cret"]) == 0


def test_a_web_server_without_an_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    files = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    with serving(files, port) as url:
        assert main(["list", url]) == 3
    assert capsys.readouterr().err.startswith("redstart: ")


def test_words_for_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import sys\nfrom redstart import Server\nserver = Server('s')\n"
    text += "@server.tool\ndef argv() -> list[str]: return sys.argv[1:]\n"
    (tmp_path / "own.py").write_text(text)
    assert main(["call", str(tmp_path / "own.py"), "argv", "--json", "--", "--db", "x"]) == 0
    assert json.loads(capsys.readouterr().out)["structuredContent"] == {"result": ["--db", "x"]}


@pytest.mark.parametrize(("era", "status"), [("2025-11-25", 1), ("2026-07-28", 4)])
def test_sampling_is_refused_in_words(era: str, status: int) -> None:
    done = ran("call", SHOP, "sampled", "--protocol", era, status=status)
    assert b"The command line has no model" in done.stderr


# ---------------------------------------------------------------- questions without a terminal


@pytest.mark.parametrize("era", ERAS)
def test_answers_are_given(era: str) -> None:
    answers = ["--answer", "name=Ada", "--answer", "hat=bowler", "--answer", "gift=yes"]
    done = ran("call", SHOP, "order", *answers, "--protocol", era)
    assert done.stdout == b"Ada: 1 bowler gift=True price=None\n"


NOBODY = "The server asks: Which hat?\nNobody can answer here, because this is not a terminal; write --answer name=…"
HATS = ["name=Ada", "hat=beret"]


@pytest.mark.parametrize(
    ("answers", "status", "out", "said"),
    [
        (["decline"], 0, "Declined\n", ""),
        (["cancel"], 0, "Cancelled\n", ""),
        ([], 2, "Cancelled\n", f"{NOBODY} --answer hat=…\n"),
        (["name=Ada", "hat=fedora"], 2, "", "redstart: --answer hat: 'fedora' is not one of them"),
        (["name=A", "hat=beret"], 2, "", "redstart: --answer name: at least 2 characters, not 1"),
        ([*HATS, "count=10"], 2, "", "redstart: --answer count: a whole number from 1 to 9, not 10"),
        ([*HATS, "a=1"], 0, "Ada: 1 beret gift=False price=None\n", "redstart: no question asked for a\n"),
        (["name"], 2, "", "redstart: write --answer name=value, --answer decline or --answer cancel, not name\n"),
    ],
)
def test_answers(answers: list[str], status: int, out: str, said: str) -> None:
    words = [word for answer in answers for word in ("--answer", answer)]
    done = ran("call", SHOP, "order", *words, status=status, stdin=subprocess.DEVNULL)
    assert done.stdout.decode() == out
    assert done.stderr.decode().startswith(said)


# ---------------------------------------------------------------- pictures and bytes


def test_a_picture_is_saved(tmp_path: Path) -> None:
    done = ran("call", SHOP, "picture", "--save", str(tmp_path / "hat.png"))
    assert (tmp_path / "hat.png").read_bytes() == PNG
    assert done.stdout == b"here\n"
    assert b"hat.png (image/png, 264 bytes)" in done.stderr
    ran("call", SHOP, "picture", "--save", str(tmp_path / "plain"))
    assert (tmp_path / "plain.png").read_bytes() == PNG


def test_several_are_numbered(tmp_path: Path) -> None:
    ran("call", SHOP, "picture", "count=2", "--save", f"{tmp_path}/out/")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"picture-1.png": PNG, "picture-2.png": PNG, "picture-3.wav": b"RIFF\x00\x00\x00\x00WAVE"}


def test_a_picture_into_a_pipe() -> None:
    assert ran("call", SHOP, "picture", "--save", "-").stdout == PNG
    assert b"[image: image/png, 264 bytes; --save FILE keeps it]\n" in ran("call", SHOP, "picture").stderr


def test_nothing_to_save(tmp_path: Path) -> None:
    done = ran("call", SHOP, "add", "a=1", "--save", str(tmp_path / "x"))
    assert b"there is nothing to save" in done.stderr
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- read, prompt


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["shop://hours"], b"9 to 5\n"),
        (["hours"], b"9 to 5\n"),
        (["notes://todo"], b"# todo\n"),
        (["notes://{name}", "name=a b"], b"# a b\n"),
        (["shop://logo"], PNG),
    ],
)
def test_resources(words: list[str], out: bytes) -> None:
    assert ran("read", SHOP, *words).stdout == out


def test_a_resource_into_a_file(tmp_path: Path) -> None:
    done = ran("read", SHOP, "shop://logo", "-o", str(tmp_path / "logo.png"))
    assert (tmp_path / "logo.png").read_bytes() == PNG
    assert done.stdout == b""
    ran("read", SHOP, "notes://todo", "-o", f"{tmp_path}/")
    assert (tmp_path / "todo.md").read_text() == "# todo"


def test_a_resource_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", SHOP, "shop://logo", "--json"]) == 0
    (content,) = json.loads(capsys.readouterr().out)["contents"]
    assert base64.b64decode(content["blob"]) == PNG


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "redstart: which resource? There is: shop://logo, shop://hours, notes://{name}\n"),
        (["notes://{name}"], "redstart: notes://{name} needs name=…\n"),
        (["note"], "redstart: notes://{name} needs name=…\n"),
        (["shop://hours", "x=1"], "redstart: shop://hours has no variables, so x=1 has no meaning\n"),
    ],
)
def test_which_resource(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", SHOP, *words]) == 2
    assert capsys.readouterr().err == said


def test_a_prompt_is_a_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.py").write_text("x = 1")
    assert main(["prompt", SHOP, "review", f"code=@{tmp_path}/x.py"]) == 0
    assert capsys.readouterr().out == "user:\nReview this python: x = 1\n\nassistant:\nI will.\n"
    assert main(["prompt", SHOP, "review", "code=1", "--json"]) == 0
    assert [m["role"] for m in json.loads(capsys.readouterr().out)["messages"]] == ["user", "assistant"]
    assert main(["prompt", SHOP, "review"]) == 2
    assert capsys.readouterr().err == "redstart: review needs code=…\n"
