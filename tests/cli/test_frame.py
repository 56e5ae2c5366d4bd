"""What all commands share: they start quickly, say what was meant, and end with a status that programs can read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redstart.cli import COMMANDS, check, main, options
from redstart.cli.output import has_colour, table

RUN = [sys.executable, "-m", "redstart"]
SHOP = str(Path(__file__).with_name("shop.py"))


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it has printed its help."""
    program = (
        "import sys\nfrom redstart.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    command = [sys.executable, "-c", program, *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_next_to_nothing(arguments: list[str]) -> None:
    """By the number of modules, because times depend on the machine: none of the server, the client and asyncio."""
    modules = loaded(*arguments)
    ours = {name for name in modules if name.startswith("redstart")}
    of_clients = {"msgspec", "json"} if arguments[0] == "install" else {"json"}  # the help has their names
    assert {"asyncio", "msgspec", "json", "uvicorn"} & modules <= of_clients
    assert len(ours) <= 12, ours  # `redstart.server` has two numbers that the help shows
    assert not {name for name in ours if name.startswith(("redstart.server.", "redstart.client", "redstart.features"))}


def test_the_formats_of_the_help_are_those_of_the_command() -> None:
    assert set(options.FORMATS) == set(check.FORMATS)


def test_every_command_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"    {name}" in shown for name in COMMANDS)
    assert "TARGET" in shown


def test_without_a_command_help_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "usage: redstart" in heard.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "redstart: there is no command lst; did you mean list?\n"),
        (["serve", SHOP], "redstart: there is no command serve; did you mean run?\n"),
        (["init"], "redstart: there is no command init; did you mean new?\n"),
        ([SHOP], f"redstart: {SHOP} is not a command; to serve it: redstart run {SHOP}\n"),
        ([SHOP, "--http"], f"redstart: {SHOP} is not a command; to serve it: redstart run {SHOP}\n"),
        (
            ["https://a/mcp"],
            "redstart: https://a/mcp is not a command; to see what it offers: redstart list https://a/mcp\n",
        ),
        (["zzz"], "redstart: there is no command zzz; there is: "),
        (["call", SHOP, "ad", "a=1"], "redstart: there is no tool ad; did you mean add?\n"),
        (["call", SHOP, "add", "aa=1"], "redstart: there is no argument aa; did you mean a?\n"),
        (["prompt", SHOP, "reviw"], "redstart: there is no prompt reviw; did you mean review?\n"),
        (["prompt", SHOP, "review", "cod=1"], "redstart: review has no argument cod; did you mean code?\n"),
        (["list", SHOP, "ad"], "redstart: the server has no ad; did you mean add?\n"),
        (
            ["read", SHOP, "notes://{name}", "nam=x"],
            "redstart: notes://{name} has no variable nam; did you mean name?\n",
        ),
    ],
)
def test_did_you_mean(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    heard = capsys.readouterr()
    assert heard.err.startswith(said)
    assert heard.out == ""


def test_did_you_mean_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["call", "--jsno"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("unrecognized arguments: --jsno; did you mean --json?\n")


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["install", "https://example.com/mcp", "cursor", "vscode"], ["--print", "--name=hats"]),
        (["call", SHOP, "add", "a=1"], ["--json", "--timeout=20"]),
        (["list", SHOP, "add"], ["--json", "--timeout=20"]),
        (["read", SHOP, "notes://{name}", "name=x"], ["--json", "--timeout=20"]),
        (["prompt", SHOP, "review", "code=x"], ["--json", "--timeout=20"]),
        (["build", "docker", SHOP], ["--out=-", "--name=x"]),
        (["check", SHOP], ["--json", "--select=RS1"]),
    ],
)
def test_options_stand_anywhere(words: list[str], flags: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Behind the words, before them, and between any two of them."""
    heard = []
    for first, second in [(len(words), len(words)), (1, 1), (1, 2), (2, len(words)), (len(words) - 1, len(words))]:
        mixed = [*words[:first], flags[0], *words[first:second], flags[1], *words[second:]]
        status = main(mixed)
        heard.append((status, capfdbinary.readouterr().out))
    assert heard == [heard[0]] * len(heard)
    assert heard[0][1]


def test_only_help_and_version_stand_before_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version", "call"], ["--help", "call"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
    with pytest.raises(SystemExit) as caught:
        main(["--versoin", "call"])
    assert caught.value.code == 2
    assert "unrecognized arguments: --versoin; did you mean --version?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["call", SHOP, "add", "a=1"], 0, ""),
        (["call", SHOP, "fail", "text=no"], 1, "fail failed: no\n"),
        (["call", SHOP, "add"], 2, "redstart: add needs a\nusage: add a=integer [b=integer]\n"),
        (["call", SHOP], 2, "redstart: which tool? There is: add, echo, "),
        (["call", SHOP, "add", "5"], 2, "redstart: 5 is not an argument: write name=value\n"),
        (["list", "no_such_file.py"], 2, "redstart: there is no file "),
        (["list", "http://127.0.0.1:1/mcp"], 3, "redstart: POST http://127.0.0.1:1/mcp failed: "),
        (["list", "--", sys.executable, "-c", "raise SystemExit(7)"], 3, "redstart: "),
        (["list", "--", "/no/such/program"], 3, "redstart: cannot start '/no/such/program': "),
        (["read", SHOP, "shop://nowhere"], 4, f"redstart: {SHOP} answered with an error: Resource not found: "),
        (["list", SHOP, "--protocol", "1999-01-01"], 2, "redstart: "),
        (["list", SHOP, "--header", "a:b"], 2, "redstart: --header is for a URL"),
    ],
)
def test_statuses(arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == status
    heard = capsys.readouterr()
    assert heard.err.startswith(said)
    assert "Traceback" not in heard.err
    assert bool(heard.out) == (status == 0)


def test_a_server_that_ends_is_started_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.py"
    file.write_text("1 / 0\n")
    assert main(["list", str(file)]) == 2  # as for `run`
    heard = capfd.readouterr().err
    assert heard.startswith(f"redstart: {file} could not be loaded ({file}, line 1): ZeroDivisionError: ")
    assert heard.endswith("\nFix that line and try again.\n")
    assert heard.count("could not be loaded") == 1
    assert main(["list", str(file), "--quiet"]) == 2
    assert capfd.readouterr().err == heard  # repeated, because it was not passed on


@pytest.mark.parametrize("words", [["list", "{}"], ["call", "{}", "add", "a=1"], ["read", "{}", "shop://hours"]])
@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_name_that_is_not_in_the_file(words: list[str], quiet: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*(word.replace("{}", f"{SHOP}:srv") for word in words), *quiet]) == 2
    assert capfd.readouterr().err == f"redstart: {SHOP} has no srv; there is server\n"


def test_a_server_that_ends_itself_with_2_was_not_mistyped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "import os\nfrom redstart import Server\nserver = Server('s')\nserver.tool(lambda: os._exit(2), name='end')\n"
    )
    assert main(["call", str(file), "end"]) == 3
    assert capfd.readouterr().err == f"redstart: {file} ended with exit status 2\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows are others")
def test_ctrl_c_has_no_traceback() -> None:
    command = [*RUN, "call", SHOP, "forever", "--log-level", "debug"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "it waits\n" in process.stderr  # reads up to this line
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said


# ---------------------------------------------------------------- colours and tables


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(
    ("env", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)]
)
def test_colours_are_for_terminals(env: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        assert has_colour(terminal) is colour
    os.close(ours)
    with open(os.devnull, "w") as file:
        assert not has_colour(file)


def test_a_table_is_wrapped() -> None:
    rows = [("short", "words " * 12), ("a name that is much too long for it", "its text")]
    lines = list(table(rows, 40))
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("  short  words words")
    assert lines[-2:] == ["  a name that is much too long for it", "         its text"]
