"""`redstart run`: what a person may name, what is then served, and what is said where nothing can be."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Server
from redstart.cli import main
from redstart.cli.target import TargetError, load
from redstart.client import ClientError
from support import free_port, serving

REDSTART = str(Path(sys.executable).with_name("redstart"))
ERAS = ("2025-11-25", "2026-07-28")

PLAIN = '''
"""A shop of hats."""
print("this must not reach the protocol")

def price(hat: str, size: int = 7) -> int:
    """What a hat costs."""
    print("nor this")
    return len(hat) * size

def broken(**options: int) -> int: ...

class Till:
    """The till."""
    def total(self) -> int:
        return 12

till = Till()

class Needy:
    def __init__(self, path: str) -> None: ...
'''
PROVIDER = """
import redstart

class Sums:
    def tools(self): return ["double"]
    def double(self, n: int) -> int: return 2 * n

redstart.serve("sums", Sums(), version="3.0.0")
"""

BAD_TOOL = """from redstart import Server
server = Server("bad")
@server.tool
def f(*rest: int) -> int: return 1
"""


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def names(server: Server) -> list[str]:
    return [one.name for one in server.tools]


# ---------------------------------------------------------------- targets


@pytest.mark.requirement("1")
def test_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path / "hats.py", PLAIN)
    server = load(file)
    assert (server.name, names(server)) == ("hats", ["price"])
    assert "broken is not served" in caplog.text
    assert names(load(f"{file}:till")) == names(load(f"{file}:Till")) == ["total"]
    assert load(f"{file}:Till").name == "Till"
    assert names(load(f"{file}:price")) == ["price"]
    assert names(load(f"{file}:till.total")) == ["total"]


@pytest.mark.requirement("1")
def test_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "shop" / "hats.py", PLAIN)
    write(tmp_path / "shop" / "__init__.py", "from shop.hats import price\n__all__ = ['price']\n")
    monkeypatch.chdir(tmp_path)
    server = load("shop.hats")
    assert (server.name, names(server)) == ("shop.hats", ["price"])
    assert names(load("shop.hats:till")) == ["total"]
    assert names(load("shop")) == ["price"]
    assert "mean" in names(load("statistics"))


def test_a_server_in_the_file_comes_first(tmp_path: Path) -> None:
    text = PLAIN + "from redstart import Server\nother = Server('other')\nmcp = Server('wanted')\nmcp.run()\n"
    file = write(tmp_path / "own.py", text)
    assert load(file).name == "wanted"
    assert load(f"{file}:other").name == "other"
    meant = write(tmp_path / "meant.py", text.replace("mcp", "second"))
    assert load(meant).name == "wanted"  # neither is called server: then the one that is run


@pytest.mark.requirement("5", "6")
def test_a_file_that_serves_a_provider(tmp_path: Path) -> None:
    server = load(write(tmp_path / "sums.py", PROVIDER))
    assert (server.name, server.version, names(server)) == ("sums", "3.0.0", ["double"])


def test_an_exit_behind_run_is_no_hindrance(tmp_path: Path) -> None:
    text = "import sys\nfrom redstart import Server\nserver = Server('meant')\nserver.run()\nsys.exit()\n"
    assert load(write(tmp_path / "exits.py", text)).name == "meant"


def test_a_file_with_the_name_of_a_known_module(tmp_path: Path) -> None:
    server = load(write(tmp_path / "json.py", "def price(hat: str) -> int: return len(hat)\n"))
    assert (server.name, names(server)) == ("json", ["price"])
    assert sys.modules["json"] is json


@pytest.mark.requirement("109")
def test_a_folder(tmp_path: Path) -> None:
    write(
        tmp_path / "desk" / "tools" / "add.py", "from redstart import tool\n@tool\ndef add(a: int) -> int: return a\n"
    )
    server = load(str(tmp_path / "desk"))
    assert (server.name, names(server)) == ("desk", ["add"])


@pytest.mark.parametrize(
    ("name", "text", "what", "message"),
    [
        ("a.py", "x = 1\n", "", r"a\.py has no Server, and no public function that can be served; .*a\.py:name"),
        ("b.py", "def broken(:\n", "", r"b\.py could not be loaded \(.*b\.py, line 1\): SyntaxError"),
        ("c.py", "1 / 0\n", "", r"c\.py could not be loaded \(.*c\.py, line 1\): ZeroDivisionError"),
        ("d.py", PLAIN, ":no.such", r"d\.py has no no\.such; there is Needy, Till, broken, price, till"),
        ("d2.py", PLAIN, ":til", r"d2\.py has no til; there is till"),
        ("e.py", PLAIN, ":Needy", r"e\.py:19: the class Needy needs path: make an instance"),
        ("h.py", "import no_such_library\n", "", r"(?s)h\.py, line 1\).*Install no_such_library for .*python"),
        ("i.py", "import sys\nsys.exit(0)\n", "", r"i\.py ended itself .*i\.py, line 2\); .*below `if __name__"),
        ("j.py", "class Till: ...\n", "", r"name an object: .*j\.py:Till"),
        ("k.py", BAD_TOOL, "", r"k\.py:3: f\(\), parameter \"rest\": .* Write rest: list"),
        ("f.py", "class A:\n def f(self) -> int: ...\n def __init__(self): 1 / 0\n", ":A", "ZeroDivisionError"),
        ("g.py", "class A:\n def tools(self): return ['x']\n", ":A", "A has no method x, and no tool_call"),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, name: str, text: str, what: str, message: str) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(TargetError, match=message):
        load(file + what)


@pytest.mark.parametrize("target", ["no_such_file.py", "no_such_module_at_all", "no_such_module_at_all.inner:x"])
def test_what_is_not_there(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TargetError, match="there is no"):
        load(target)
    assert main(["run", "--http", target]) == 2
    assert capsys.readouterr().err.startswith("redstart: there is no")


# ---------------------------------------------------------------- running


async def price(target: Any, era: str) -> Any:
    async with asyncio.timeout(20), Client(target, protocol=era, stderr="capture") as c:
        assert c.server_info.name == "hats"
        assert c.instructions == "A shop of hats."
        return (await c.call_tool("price", {"hat": "beret"})).data


@pytest.mark.requirement("1", "50")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("target", "tool", "arguments", "value"),
    [
        ("shop.hats", "price", {"hat": "beret"}, 35),
        ("shop.hats:Till", "total", {}, 12),
        ("shop.hats:till", "total", {}, 12),
        ("shop/hats.py:Till", "total", {}, 12),
        ("shop/sums.py", "double", {"n": 4}, 8),
        ("shop.sums:Sums", "double", {"n": 4}, 8),
        ("shop/own.py", "price", {"hat": "beret"}, 35),
        ("shop.own:server", "price", {"hat": "beret"}, 35),
    ],
)
def test_everything_that_may_be_named(
    tmp_path: Path, target: str, tool: str, arguments: Any, value: Any, era: str
) -> None:
    write(tmp_path / "shop" / "__init__.py", "print('a package may print too')\n")
    write(tmp_path / "shop" / "hats.py", PLAIN)
    write(tmp_path / "shop" / "sums.py", PROVIDER)
    write(tmp_path / "shop" / "own.py", PLAIN + "from redstart import Server\nserver = Server('own', tools=[price])\n")

    async def use() -> Any:
        command = [REDSTART, "run", target]
        async with asyncio.timeout(20), Client(command, protocol=era, cwd=tmp_path, stderr="capture") as c:
            assert [entry.name for entry in await c.list_tools()] == [tool]
            return (await c.call_tool(tool, arguments)).data

    assert asyncio.run(use()) == value


@pytest.mark.parametrize(
    ("text", "what", "said"),
    [
        ("print('noise')\n1 / 0\n", "", r"wrong\.py, line 2\): ZeroDivisionError.*Fix that line and try again"),
        ("def broken(:\n", "", r"wrong\.py, line 1\): SyntaxError"),
        (BAD_TOOL, "", r"wrong\.py:3: f\(\), parameter"),
        (PLAIN, ":Needy", r"wrong\.py:19: the class Needy needs path: make an instance"),
        (PLAIN, ":tilt", r"wrong\.py has no tilt; there is till"),
    ],
)
@pytest.mark.parametrize("http", [False, True])
def test_what_is_said_where_nothing_can_be_served(tmp_path: Path, text: str, what: str, said: str, http: bool) -> None:
    file = write(tmp_path / "wrong.py", text)
    command = [REDSTART, "run", file + what, *(["--http", "--port", "0"] if http else [])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert http or done.stdout == ""
    assert re.search(said, done.stderr, re.DOTALL)
    assert "redstart/cli" not in done.stderr


@pytest.mark.requirement("1", "8", "11")
@pytest.mark.parametrize("era", ERAS)
def test_a_plain_file_over_stdio(tmp_path: Path, era: str) -> None:
    file = write(tmp_path / "hats.py", PLAIN)
    assert asyncio.run(price([REDSTART, "run", file], era)) == 35


@pytest.mark.requirement("1", "145")
def test_a_plain_file_over_http(tmp_path: Path) -> None:
    file, port = write(tmp_path / "hats.py", PLAIN), free_port()
    with serving([REDSTART, "run", file, "--http", "--port", str(port)], port) as url:
        for era in ERAS:
            assert asyncio.run(price(url, era)) == 35


@pytest.mark.parametrize("workers", ["1", "2"])
def test_limits_are_set_on_the_command_line(tmp_path: Path, workers: str) -> None:
    file, port = write(tmp_path / "hats.py", PLAIN), free_port()
    command = [REDSTART, "run", file, "--http", "--port", str(port), "--workers", workers]
    limits = ["--set", 'tool_rate_limits={"price": "1/hour"}', "--set", "max_body_bytes=1000"]
    with serving([*command, "--store", f"sqlite:///{tmp_path / 'hats.db'}", *limits], port) as url:

        async def script() -> None:
            async with Client(url, protocol=ERAS[1]) as client:
                await client.call_tool("price", {"hat": "beret"})
                with pytest.raises(ClientError, match="1 calls of the tool price in 3600 s"):  # in whichever process
                    await client.call_tool("price", {"hat": "beret"})
                with pytest.raises(ClientError, match="larger than 1000 bytes"):
                    await client.call_tool("price", {"hat": "x" * 1000})

        asyncio.run(script())


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("max_streem=3", 'server.run() has no option "max_streem". Did you mean "max_streams"?'),
        ("max_streams=many", "max_streams must be a whole number of at least 1, not 'many'"),
        ("max_streams", "argument --set: a name, = and a value, as max_streams=20000, not max_streams"),
    ],
)
def test_what_cannot_be_set(tmp_path: Path, setting: str, said: str) -> None:
    file = write(tmp_path / "own.py", "from redstart import Server\nserver = Server('s')\n")
    done = subprocess.run(
        [REDSTART, "run", file, "--http", "--set", setting], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith(f"{said}\n")


def test_limits_are_set_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "own.py", "from redstart import Server\nserver = Server('s')\n")
    monkeypatch.setenv("REDSTART_SET", 'tool_rate_limits={"a": "1/s", "b": "2/s"}, max_streams=many')
    assert main(["run", file, "--http"]) == 2
    assert capsys.readouterr().err.endswith("max_streams must be a whole number of at least 1, not 'many'\n")


@pytest.mark.requirement("5", "8")
def test_the_end_of_the_input_is_the_end(tmp_path: Path) -> None:
    file = write(tmp_path / "hats.py", PLAIN)
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERAS[1],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    done = subprocess.run(
        [REDSTART, "run", file], input=json.dumps(message).encode() + b"\n", capture_output=True, timeout=30, check=True
    )
    assert json.loads(done.stdout)["result"]["tools"][0]["name"] == "price"
    assert b"this must not reach the protocol" in done.stderr
    assert b"broken is not served" in done.stderr


# ---------------------------------------------------------------- factories, marks and arguments

FACTORY = """from redstart import Server

def create_server(){}:
    server = Server("made")
    @server.tool
    def hello() -> str: return "hi"
    return server
"""


@pytest.mark.parametrize("annotation", ["", " -> Server", ' -> "Server"'])
def test_a_factory_is_called(tmp_path: Path, annotation: str) -> None:
    file = write(tmp_path / "fac.py", FACTORY.format(annotation))
    server = load(f"{file}:create_server")
    assert (server.name, names(server)) == ("made", ["hello"])


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (FACTORY.format(" -> Server"), "", "has no Server, but create_server() makes one: write {}:create_server"),
        (FACTORY.format("").replace("create_server()", "create_server(db)"), ":create_server",
         "create_server() needs db: what makes a server takes no arguments"),
        ("def make_app(): return 5\n", ":make_app", "make_app() returned 5, and not a Server"),
        ("async def create_server(): ...\n", ":create_server", "create_server() is async: write a plain def"),
        ("def create_server(): raise KeyError('db')\n", ":create_server", "line 1"),
    ],
)  # fmt: skip
def test_a_factory_that_cannot_be_called(tmp_path: Path, source: str, target: str, words: str) -> None:
    file = write(tmp_path / "fac.py", source)
    with pytest.raises(TargetError) as caught:
        load(file + target)
    assert words.format(file) in str(caught.value)


def test_a_function_beside_a_server_is_said_not_to_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """from redstart import Server, prompt, tool
server = Server("own")
@tool
def lost() -> int: return 1
@prompt
def greeting() -> str: return "hi"
@tool
def kept() -> int: return 1
server.register(kept)
"""
    file = write(tmp_path / "own.py", text)
    assert names(load(file)) == ["kept"]
    said = capsys.readouterr().err
    assert said == (
        f"redstart: {file}: lost, greeting are marked, but no server has them; write server.register(lost)\n"
    )


def test_arguments_of_the_script(tmp_path: Path) -> None:
    text = "import sys\nfrom redstart import Server\nsys.stderr.write(f'given {sys.argv}')\nserver = Server('s')\n"
    file = write(tmp_path / "own.py", text)
    for arguments, given in (([], []), (["--framing", "auto", "--", "--db", "x.sqlite", "--", "-v"], None)):
        done = subprocess.run(
            [REDSTART, "run", file, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        want = ["--db", "x.sqlite", "--", "-v"] if given is None else given
        assert f"given {[file, *want]}" in done.stderr


def test_an_address_for_no_admin_port_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "own.py", "from redstart import Server\nserver = Server('s')\n")
    assert main(["run", file, "--http", "--host", "0.0.0.0", "--admin-host", "0.0.0.0"]) == 2
    assert "write --admin-port beside it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--port", "9000"], ["--host", "0.0.0.0"], ["--path", "/x"], ["--allow-host", "a"], ["--drain", "1"]]
)
def test_an_option_of_http_needs_http(tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "own.py", "from redstart import Server\nserver = Server('s')\n")
    assert main(["run", file, *option]) == 2
    assert capsys.readouterr().err == f"redstart: {option[0]} is for HTTP; write --http beside it\n"
