"""Existing code as a server: modules, classes, objects and functions that know nothing of it."""

from __future__ import annotations

import functools
import io
import json
import logging
import statistics
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import redstart
from redstart import Prompt, RegistrationError, Resource, Server, Tool, prompt, resource, serve, tool
from support import ERAS, ROOT, ask


def module(source: str, name: str = "shop") -> ModuleType:
    """A module with this source."""
    made = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


def names(server: Server) -> list[str]:
    return [one.name for one in server.tools]


SHOP = '''
"""A shop of hats."""
from math import sqrt
from os.path import join
import json
from typing import Any

class Hat: ...

def price(hat: str, size: int = 7) -> float:
    """What a hat costs."""
    return len(hat) * size

async def stock() -> list[str]:
    return ["bowler", "beret"]

def _hidden() -> str: ...

def open_ended(**options: Any) -> None: ...

def opaque(hat: Hat) -> str: ...

def maker() -> Hat: ...

answer = 42
'''


@pytest.mark.requirement("1")
def test_a_module(caplog: pytest.LogCaptureFixture) -> None:
    server = Server.from_object(module(SHOP))
    assert names(server) == ["price", "stock"]
    assert (server.name, server.version) == ("shop", "1.0.0")
    for name, reason in [("open_ended", "**options"), ("opaque", "Hat"), ("maker", "Hat")]:
        (record,) = [r for r in caplog.records if r.getMessage().startswith(f"{name} is not served: shop.py:")]
        assert reason in record.getMessage()
        assert record.levelno == logging.WARNING
    assert len(caplog.records) == 3
    for era in ERAS:
        result = ask(server, era, "tools/call", name="price", arguments={"hat": "beret"})
        assert result["content"] == [{"type": "text", "text": "35"}]
        assert ask(server, era, "tools/call", name="stock", arguments={})["content"][0]["text"] == '["bowler","beret"]'


def test_instructions_and_options() -> None:
    server = Server.from_object(module(SHOP), "hats", include=["price"], version="2.0.0", title="Hats")
    assert (server.name, server.version, server.info.title) == ("hats", "2.0.0", "Hats")
    assert ask(server, ERAS[1], "server/discover")["instructions"] == "A shop of hats."
    own = Server.from_object(module(SHOP), include="price", instructions="Mine")
    assert ask(own, ERAS[1], "server/discover")["instructions"] == "Mine"
    with pytest.raises(TypeError, match="colour"):
        Server.from_object(module(SHOP), include="price", colour="red")  # type: ignore[call-arg]


def test_all_of_a_module_is_what_it_exports() -> None:
    exporting = module(
        "__all__ = ['average', 'own', 'LIMIT']\nfrom statistics import mean as average\nLIMIT = 1\n" + SHOP
    )
    vars(exporting)["own"] = lambda n=1: n
    assert names(Server.from_object(exporting)) == ["average", "own"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (None, ["price"], ["stock"]),
        (["price"], [], ["price"]),
        (["p*", "s*"], ["stock"], ["price"]),
        (["_hidden", "price"], [], ["price", "_hidden"]),
        (["join", "stock"], [], ["stock", "join"]),
    ],
)
def test_include_and_exclude(include: Any, exclude: Any, expected: list[str]) -> None:
    source = SHOP.replace("def _hidden() -> str: ...", "def _hidden() -> str: return ''").replace(
        "from os.path import join", "def join(a: str) -> str: return a\njoin.__module__ = 'elsewhere'"
    )
    assert names(Server.from_object(module(source), include=include, exclude=exclude)) == expected


@pytest.mark.parametrize("wrong", [{"include": ["prize"]}, {"exclude": ["prize"]}, {"include": ["x*"]}])
def test_a_name_that_names_nothing(wrong: Any) -> None:
    with pytest.raises(RegistrationError, match=r"shop has no public (prize|x\*)"):
        Server.from_object(module(SHOP), **wrong)


def test_a_module_of_the_library() -> None:
    assert "mean" in names(Server.from_object(statistics))


def test_nothing_to_serve_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert names(Server.from_object(module("x = 1"))) == []
    assert "shop has nothing that can be served" in caplog.text


# ---------------------------------------------------------------- classes and objects


class Account:
    """Money."""

    opened = 0

    def __init__(self) -> None:
        self.balance = 0
        type(self).opened += 1

    def deposit(self, amount: int) -> int:
        """Adds money."""
        self.balance += amount
        return self.balance

    @property
    def owner(self) -> str:
        raise AssertionError("a property was run")

    @functools.cached_property
    def history(self) -> list[str]:
        raise AssertionError("a cached property was run")

    @staticmethod
    def currency() -> str:
        return "CHF"

    @classmethod
    def bank(cls) -> str:
        return cls.__name__

    @functools.lru_cache  # noqa: B019 - what other people write
    def rate(self, year: int) -> float:
        return year / 1000

    def _audit(self) -> None: ...

    class Card: ...

    limit = 100


class Savings(Account, threading.Thread):
    """More money."""

    def __init__(self) -> None:
        threading.Thread.__init__(self)
        Account.__init__(self)

    def deposit(self, amount: int) -> int:
        """Adds money, and interest."""
        return super().deposit(amount + 1)

    def interest(self) -> float:
        return 0.5


METHODS = ["deposit", "currency", "bank", "rate"]


@pytest.mark.requirement("1", "50")
def test_an_instance() -> None:
    account = Account()
    server = Server.from_object(account)
    assert names(server) == METHODS
    assert server.name == "Account"
    for era in ERAS:
        ask(server, era, "tools/call", name="deposit", arguments={"amount": 5})
        assert ask(server, era, "tools/call", name="bank", arguments={})["content"][0]["text"] == "Account"
        assert ask(server, era, "tools/call", name="rate", arguments={"year": 2000})["content"][0]["text"] == "2.0"
    assert account.balance == 10


def test_inherited_methods_but_not_those_of_a_library() -> None:
    server = Server.from_object(Savings())
    assert names(server) == ["deposit", "interest", "currency", "bank", "rate"]
    assert server.tools.items["deposit"].description == "Adds money, and interest."
    assert names(Server.from_object(Savings(), include=["is_alive", "interest"])) == ["interest", "is_alive"]


def test_a_class_is_instantiated_once() -> None:
    before = Account.opened
    assert names(Server.from_object(Account)) == METHODS
    assert Account.opened == before + 1


def test_a_class_that_needs_arguments() -> None:
    @dataclass
    class Ledger:
        path: str
        pages: int = 3

        def read(self) -> str:
            return self.path

    class Shape(ABC):
        @abstractmethod
        def area(self) -> float: ...

    with pytest.raises(RegistrationError, match="the class Ledger needs path: make an instance"):
        Server.from_object(Ledger)
    with pytest.raises(RegistrationError, match="the class Shape is abstract"):
        Server.from_object(Shape)
    server = Server.from_object(Ledger("a.txt"))
    assert names(server) == ["read"]
    assert "instructions" not in ask(server, ERAS[1], "server/discover")  # the docstring is only the signature


def test_a_function() -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    server = Server.from_object(add)
    assert (server.name, names(server)) == ("add", ["add"])


# ---------------------------------------------------------------- marks


MARKED = """
from redstart import Prompt, Resource, Tool, prompt, resource, tool

@tool
def first() -> int: return 1

@tool(name="second", title="Second")
@prompt
def two() -> str: return "2"

@resource("notes://{name}")
def note(name: str) -> str: return name

def helper() -> int: return 3

third = Tool("third", handler=lambda: 3)
review = Prompt("review", messages="Review this.")
"""


@pytest.mark.requirement("34", "42", "110")
def test_who_marks_chooses() -> None:
    server = Server.from_object(module(MARKED, "marked"))
    assert names(server) == ["third", "first", "second"]
    assert [one.name for one in server.prompts] == ["review", "two"]
    assert [one.uri for one in server.templates] == ["notes://{name}"]
    assert server.tools["second"].title == "Second"
    assert "helper" in names(Server.from_object(module(MARKED, "marked"), include=["helper", "first"]))


def test_marked_methods() -> None:
    class Tools:
        @tool(name="plus")
        def add(self, a: int, b: int) -> int:
            return a + b

        def other(self) -> int:
            return 1

    server = Server.from_object(Tools)
    assert names(server) == ["plus"]
    assert ask(server, ERAS[0], "tools/call", name="plus", arguments={"a": 1, "b": 2})["content"][0]["text"] == "3"


def test_decorators_mark_and_leave_alone() -> None:
    def plain(a: int) -> int:
        return a

    assert tool(plain) is plain
    assert prompt(title="Ask")(plain) is plain
    assert resource("x://{a}")(plain) is plain
    server = Server("marks")
    server.register(plain)
    assert (names(server), len(server.prompts), len(server.templates)) == (["plain"], 1, 1)
    server.remove(plain)
    assert (names(server), len(server.prompts), len(server.templates)) == ([], 0, 0)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (lambda: tool(nmae="x")(lambda: 1), r'test_objects\.py:\d+: a tool has no option "nmae". Did you mean "name"'),  # type: ignore[call-overload]
        (lambda: tool(7), "expected a function, got 7"),  # type: ignore[call-overload]
        (
            lambda: prompt(Server),
            r"got <class '.*Server'>; to serve the methods of its objects write Server\.from_object\(Server\)",
        ),
        (lambda: resource(lambda: 1), "a resource has a URI"),  # type: ignore[arg-type]
        (lambda: resource("no uri")(lambda: 1), "is not a URI"),
        (lambda: tool(Account().deposit), "put the decorator on its function"),
    ],
)
def test_marks_that_cannot_be(mark: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        mark()


def test_a_module_with_a_provider_serves_that() -> None:
    source = (
        "class P:\n def tools(self): return ['one']\n def one(self) -> int: return 1\np = P()\ndef f() -> int: ...\n"
    )
    assert names(Server.from_object(module(source))) == ["one"]


# ---------------------------------------------------------------- serve


OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.requirement("5", "6", "7", "9")
def test_serve() -> None:
    source = (
        "import redstart\n"
        "class Sums:\n"
        "    def tools(self): return ['double']\n"
        "    def double(self, n: int) -> int: return 2 * n\n"
        "def triple(n: int) -> int: return 3 * n\n"
        "redstart.serve('my-server', Sums(), triple, version='2.0.0', framing='newline')\n"
    )
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    told = "".join(json.dumps(message) + "\n" for message in (OPENING, listing))
    done = subprocess.run(
        [sys.executable, "-c", source], input=told.encode(), capture_output=True, timeout=30, cwd=ROOT, check=True
    )
    opened, listed = map(json.loads, done.stdout.splitlines())
    assert opened["result"]["serverInfo"] == {"name": "my-server", "version": "2.0.0"}
    assert [entry["name"] for entry in listed["result"]["tools"]] == ["double", "triple"]
    assert done.stderr == b""


@pytest.mark.requirement("6")
def test_serve_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="needs an object"):
        serve("empty")
    with pytest.raises(TypeError, match="verzion"):
        serve("wrong", Account(), verzion="2", stdin=io.BytesIO())
    assert redstart.serve is serve


def test_nothing_of_this_is_loaded_unasked() -> None:
    source = (
        "import sys, redstart\n"
        "server = redstart.Server('x')\n"
        "@server.tool\n"
        "def add(a: int) -> int: return a\n"
        "found = [n for n in sys.modules if n.startswith('redstart.adopt')]\n"
        "found += [n for n in ('redstart.decorators', 'redstart.features.marks', 'watchfiles') if n in sys.modules]\n"
        "print(found)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=30, check=True)
    assert done.stdout == b"[]\n"


def test_explicit_objects_by_themselves() -> None:
    things: list[Any] = [Tool("a", handler=lambda: 1), Prompt("b", messages="B"), Resource("c://c", handler=lambda: 1)]
    servers = [Server.from_object(thing, "one") for thing in things]
    counts = [(len(one.tools), len(one.prompts), len(one.resources)) for one in servers]
    assert counts == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
