"""What is given wrong to a Server is refused at once, in words that say what to write."""

from __future__ import annotations

import asyncio
import enum
import json
import math
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, RegistrationError, Server
from redstart.asking.seal import KeyRing
from redstart.store.open import open_state
from redstart.transports.memory import MemoryPeer
from redstart.wire.meta import ClientCapabilities

KEY = "a key that is long enough"
NAN = math.nan


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        *(({"ask_timeout": wrong}, TypeError, "ask_timeout must be a number of seconds above 0") for wrong in
          (None, "x", True, [1])),
        *(({"ask_timeout": wrong}, ValueError, "ask_timeout must be a number of seconds above 0") for wrong in
          (0, -1, NAN, math.inf)),
        *(({"timeout": wrong}, TypeError, "timeout must be a number of seconds above 0, or None") for wrong in
          ("5", True)),
        *(({"timeout": wrong}, ValueError, "timeout must be a number of seconds above 0, or None") for wrong in
          (0, -1, NAN)),
        *(({name: wrong}, TypeError, f"{name} must be a whole number of at least") for wrong in ("8", 2.5, True)
          for name in ("threads", "processes", "max_concurrency", "max_queue", "max_result_bytes", "page_size")),
        *(({name: 0}, ValueError, f"{name} must be a whole number of at least 1") for name in
          ("threads", "processes", "max_concurrency", "max_result_bytes", "page_size")),
        ({"max_depth": 15}, ValueError, "max_depth must be a whole number of at least 16, not 15"),
        ({"max_depth": 257}, ValueError, "max_depth must be a whole number of at most 256, not 257"),
        ({"max_queue": -1}, ValueError, "max_queue must be a whole number of at least 0, not -1"),
        ({"max_queue": None}, TypeError, "max_queue must be a whole number of at least 0, not None"),
        ({"threads": None}, TypeError, "threads must be a whole number of at least 1, not None"),
    ],
)  # fmt: skip
def test_numbers(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Server("wrong", **options)
    assert words in str(caught.value)


def test_numbers_that_are_fine() -> None:
    Server("fine", ask_timeout=0.5, timeout=math.inf, threads=1, processes=1, max_concurrency=1, max_queue=0)
    Server("fine", timeout=None, processes=None, max_concurrency=None, max_result_bytes=1, page_size=1)


class Whole:
    """A number as numpy's integers are: no int, but one for `operator.index`."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Real:
    """A number as numpy's float32 is."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Three(enum.IntEnum):
    OF_THEM = 3


class Array:
    """As numpy's arrays are: it has the methods of a number, and is none."""

    def __index__(self) -> int:
        raise TypeError("only a scalar can be converted")

    def __float__(self) -> float:
        raise TypeError("only a scalar can be converted")


@pytest.mark.parametrize("seconds", [Whole(3), Real(3.0), Decimal(3), Fraction(3), Three.OF_THEM, 3, 3.0])
def test_any_real_number_is_a_number_of_seconds(seconds: Any) -> None:
    server = Server("fine", ask_timeout=seconds, timeout=seconds)
    assert server.options["ask_timeout"] == server.limits.timeout == 3
    assert type(server.options["ask_timeout"]) in (int, float)
    assert type(server.limits.timeout) in (int, float)


def test_whatever_is_an_index_is_a_whole_number() -> None:
    names = ("threads", "processes", "max_concurrency", "max_queue", "max_result_bytes", "page_size")
    three: Any = Whole(3)
    server = Server("fine", **dict.fromkeys(names, three))
    limits = server.limits
    got = (
        server.options["threads"],
        server.options["processes"],
        limits.concurrency,
        limits.queue,
        limits.result_bytes,
    )
    assert [type(one) for one in got] == [int] * 5
    assert got == (3, 3, 3, 3, 3)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        *(({"threads": wrong}, TypeError) for wrong in (Real(3.0), Decimal(3), Fraction(3), 3.0, b"3", Array())),
        *(({"ask_timeout": wrong}, TypeError) for wrong in (b"3", bytearray(b"3"), memoryview(b"3"), 3j, Array())),
        ({"threads": Whole(0)}, ValueError),
        *(({"ask_timeout": wrong}, ValueError) for wrong in (Whole(0), Real(NAN), Decimal("sNaN"), Decimal("inf"))),
        *(({"timeout": wrong}, ValueError) for wrong in (10**400, Fraction(10**400), Decimal(-1))),
        *(({"single_use": wrong}, TypeError) for wrong in ("no", 1, None, 0)),
    ],
)
def test_other_numbers_that_are_wrong(options: dict[str, Any], error: type[Exception]) -> None:
    (name,) = options
    with pytest.raises(error, match=f"{name} must be "):
        Server("wrong", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": "5"}, "timeout of work must be a number of seconds above 0"),
        ({"timeout": NAN}, "timeout of work must be a number of seconds above 0"),
        ({"concurrency": "2"}, "concurrency of work must be a whole number of at least 1"),
        ({"concurrency": 0}, "concurrency of work must be a whole number of at least 1"),
        ({"max_result_bytes": 0}, "max_result_bytes of work must be a whole number of at least 1"),
        ({"single_use": "no"}, "single_use of work must be True or False, not 'no'"),
    ],
)
def test_settings_of_a_tool(options: dict[str, Any], words: str) -> None:
    server = Server("wrong")

    def work() -> None: ...

    with pytest.raises(RegistrationError) as caught:
        server.tool(**options)(work)
    assert words in str(caught.value)
    assert __file__ in str(caught.value)
    assert not list(server.tools)


@pytest.mark.parametrize(
    ("need", "hint"),
    [
        ("elicit", 'Did you mean "elicitation"?'),
        ("elicitation.forms", 'Did you mean "elicitation.form"?'),
        ("sample", 'Did you mean "sampling"?'),
        ("sampling.tool", 'Did you mean "sampling.tools"?'),
        ("Roots", 'Did you mean "roots"?'),
        ("experimental-x", 'Did you mean "experimental"?'),
        ("has", "these are: elicitation, "),
        ("", "these are: elicitation, "),
    ],
)
def test_a_need_that_no_client_can_meet(need: Any, hint: str) -> None:
    server = Server("wrong")

    def work() -> None: ...

    with pytest.raises(RegistrationError) as caught:
        server.tool(needs=["roots", need])(work)
    assert f"{__file__}:" in str(caught.value)
    assert f": needs of work: {need!r} is not a capability of a client" in str(caught.value)
    assert hint in str(caught.value)
    assert not list(server.tools)


@pytest.mark.parametrize("kind", ["prompt", "resource"])
def test_needs_of_prompts_and_resources(kind: str) -> None:
    server = Server("wrong")

    def work() -> str:
        return ""

    decorate = server.prompt(needs=["elicit"]) if kind == "prompt" else server.resource("a:b", needs=["elicit"])
    with pytest.raises(RegistrationError, match=r'needs of work: \'elicit\' .* Did you mean "elicitation"\?'):
        decorate(work)


def test_needs_that_a_client_may_meet() -> None:
    known = [f"{name}.own/thing" for name in ("experimental", "extensions", "tasks")]
    for name in ClientCapabilities.__struct_fields__:
        assert ClientCapabilities(**{name: {}}).has(name)
        known.append(name)
    known += ["elicitation.form", "elicitation.url", "sampling.tools", "sampling.context"]
    server = Server("fine")

    @server.tool(needs=known)
    def work() -> None: ...

    @server.tool(needs="elicitation")
    def one() -> None: ...

    assert [tool.needs for tool in server.tools] == [tuple(known), ("elicitation",)]


def test_an_annotation_that_nobody_knows_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("noticed")

    @server.tool(annotations={"title": "Work", "destructivHint": True, "com.example/own": 1})
    def work() -> None: ...

    first, second = caplog.messages
    assert first.startswith(f"{__file__}:")
    assert first.endswith("annotations of work: no client knows 'destructivHint'. Did you mean \"destructiveHint\"?")
    assert second.endswith("annotations of work: no client knows 'com.example/own'")
    assert server.tools["work"].annotations == {"title": "Work", "destructivHint": True, "com.example/own": 1}


def test_annotations_that_are_known(caplog: pytest.LogCaptureFixture) -> None:
    names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    Server("fine").tool(name="work", annotations={"title": "Work", **dict.fromkeys(names, True)})(lambda: None)
    assert not caplog.messages


def test_a_tool_takes_the_numbers_that_a_server_takes() -> None:
    server = Server("fine")
    three: Any = Whole(3)
    short: Any = Decimal("0.01")

    @server.tool(timeout=short, concurrency=three, max_result_bytes=three)
    async def work() -> str:
        return "four"

    limit = server.tools.items["work"].result_limit
    assert (limit, type(limit)) == (3, int)

    @server.tool(timeout=short)
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> str:
        async with Client(server) as client:
            return (await client.call_tool("forever")).text

    assert "limit of 0.01 s" in asyncio.run(main())


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        (KEY, TypeError, "write keys=["),
        (KEY.encode(), TypeError, "write keys=["),
        ("", TypeError, "write keys=["),
        (bytearray(KEY.encode()), TypeError, "write keys=["),
        (memoryview(KEY.encode()), TypeError, "write keys=["),
        (7, TypeError, "write keys=["),
        ([KEY, None], TypeError, "a key of keys= is a str or bytes, not NoneType"),
        ([7], TypeError, "a key of keys= is a str or bytes, not int"),
        ([KEY, ""], ValueError, "a key of keys= is empty"),
        ([b" \n"], ValueError, "a key of keys= is empty"),
        ([bytearray(b" ")], ValueError, "a key of keys= is empty"),
        ([memoryview(b"")], ValueError, "a key of keys= is empty"),
        (["\ud800" * 20], ValueError, "a key of keys= is not a text"),
    ],
)
def test_keys_that_are_none(keys: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Server("bank", keys=keys)
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


def test_keys_that_are_fine() -> None:
    assert Server("bank", keys=(KEY, b"bytes are fine too")).options["keys"] == [KEY, b"bytes are fine too"]
    assert Server("bank", keys=[]).runtime.given_keys == Server("bank", keys=None).runtime.given_keys == []
    mutable = bytearray(KEY.encode())
    server = Server("bank", keys=[mutable, memoryview(b"another key, just as long")])
    mutable[:] = b"something else"
    assert server.options["keys"] == [KEY.encode(), b"another key, just as long"]
    ring = KeyRing([memoryview(KEY.encode())])  # type: ignore[list-item]
    assert ring.open(server.runtime.keys.seal(b"x", b"ada"), b"ada") == b"x"


def start(server: Server) -> None:
    async def run() -> None:
        await server.runtime.start()
        await server.runtime.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"REDSTART_KEYS": " , "}, r"REDSTART_KEYS is set, but there is no key in it"),
        ({"REDSTART_KEYS": ""}, r"REDSTART_KEYS is set, but there is no key in it"),
        ({"REDSTART_KEY_FILE": "{}/nothing"}, r"REDSTART_KEY_FILE: there is no key in {}/nothing"),
        ({"REDSTART_KEY_FILE": "{}/none"}, r"REDSTART_KEY_FILE: {}/none: No such file or directory"),
        ({"REDSTART_KEY_FILE": "{}"}, r"REDSTART_KEY_FILE: {}: Is a directory"),
        ({"REDSTART_KEY_FILE": "hunter2"}, r"REDSTART_KEY_FILE: its path, looked for in .*: No such file"),
        ({"REDSTART_KEY_FILE": ""}, r"REDSTART_KEY_FILE is set, but names no file"),
    ],
)
def test_a_source_without_keys_keeps_a_server_from_starting(
    env: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REDSTART_KEYS", "REDSTART_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "nothing").write_text("\n \n")
    server = Server("bank")
    for name, value in env.items():
        monkeypatch.setenv(name, value.replace("{}", str(tmp_path)))
    with pytest.raises(ValueError, match=words.replace("{}", str(tmp_path))) as caught:
        start(server)
    assert "openssl rand -hex 32" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    start(Server("bank", keys=[KEY]))  # the server's own keys come first: the rest is not looked at


def test_the_key_file_is_read_when_the_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDSTART_KEYS", raising=False)
    file = tmp_path / "keys"
    file.write_text(KEY)
    monkeypatch.setenv("REDSTART_KEY_FILE", str(file))
    server = Server("bank")
    start(server)
    file.unlink()  # such as a secret that is there for the start only
    other = Server("bank", keys=[KEY])
    assert other.runtime.keys.open(server.runtime.keys.seal(b"x", b"ada"), b"ada") == b"x"


# ---------------------------------------------------------------- a server that does not start

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@asynccontextmanager
async def broken(server: Server) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    raise RuntimeError("the database of hunter2 is away")
    yield


@asynccontextmanager
async def cancelled(server: Server) -> AsyncIterator[None]:
    raise asyncio.CancelledError
    yield


def request(id: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def first_answers(server: Server) -> list[Any]:
    """What a client gets that sends three requests at once, and one more after their answers."""

    async def run() -> list[Any]:
        inbox = asyncio.Queue[bytes]()
        peer = MemoryPeer(server, inbox.put_nowait)
        async with asyncio.timeout(10):
            peer.send(request(1, "initialize", CLIENT))
            peer.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            peer.send(request(2, "tools/list", {}))
            peer.send(request(3, "tools/list", {"_meta": META}))
            answers = [json.loads(await inbox.get()) for _ in range(3)]
            peer.send(request(4, "tools/list", {"_meta": META}))
            answers.append(json.loads(await inbox.get()))
            peer.send(b"{")
            assert json.loads(await inbox.get())["error"]["code"] == -32700
            await peer.close()
            assert inbox.empty()
        await server.runtime.stop()
        return answers

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lifespan": broken}, "The server did not start: the start of the server failed with RuntimeError (error id "),
        (
            {"lifespan": cancelled},
            "The server did not start: the start of the server failed with CancelledError (error id ",
        ),
        (
            {"lifespan": broken, "expose_errors": True},
            "The server did not start: RuntimeError: the database of hunter2 is away",
        ),
        ({}, "The server did not start: REDSTART_KEYS is set, but there is no key in it; unset it, or "),
    ],
)
def test_a_server_that_does_not_start_answers_every_request(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("REDSTART_KEYS", raising=False)
    if not options:
        monkeypatch.setenv("REDSTART_KEYS", "")
    answers = first_answers(Server("bank", **options))
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    for answer in answers:
        assert answer["error"]["code"] == -32603
        assert answer["error"]["message"].startswith(words)
        assert ("hunter2" in answer["error"]["message"]) is ("expose_errors" in options)
    assert "the server did not start" in caplog.text or "the start of the server failed" in caplog.text


def test_a_client_that_was_refused_can_be_served_later(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("bank")

    async def run() -> None:
        inbox = asyncio.Queue[bytes]()
        peer = MemoryPeer(server, inbox.put_nowait)
        async with asyncio.timeout(10):
            monkeypatch.setenv("REDSTART_KEYS", "")
            for _ in range(2):
                peer.send(request(1, "initialize", CLIENT))
                assert json.loads(await inbox.get())["error"]["code"] == -32603
            await server.runtime.stop()
            monkeypatch.setenv("REDSTART_KEYS", KEY)
            peer.send(request(2, "initialize", CLIENT))
            assert json.loads(await inbox.get())["result"]["serverInfo"]["name"] == "bank"
            await peer.close()
        await server.runtime.stop()

    asyncio.run(run())


@pytest.mark.parametrize("revision", ["auto", "2025-11-25", "2026-07-28"])
def test_the_reason_is_raised_to_who_opens_a_client(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(server: Server) -> None:
        async with asyncio.timeout(10), Client(server, protocol=revision):
            raise AssertionError("it is open")

    with pytest.raises(RuntimeError, match="the database of hunter2 is away"):
        asyncio.run(run(Server("bank", lifespan=broken)))
    monkeypatch.setenv("REDSTART_KEYS", "")
    with pytest.raises(ValueError, match="REDSTART_KEYS is set, but there is no key in it"):
        asyncio.run(run(Server("bank")))


@pytest.mark.parametrize(("given", "loaded"), [("", "False False"), (f", keys=[{KEY!r}]", "True False")])
def test_a_start_loads_what_is_needed_and_no_more(given: str, loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDSTART_KEYS", "REDSTART_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    source = (
        f"import asyncio, sys\nfrom redstart import Server\nserver = Server('bank'{given})\n"
        "async def run():\n    await server.runtime.start()\n    await server.runtime.stop()\n"
        "asyncio.run(run())\nprint('redstart.asking.seal' in sys.modules, 'cryptography' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == loaded


# ---------------------------------------------------------------- stores


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("rediz://ada:secret@host:6379/0", "'rediz://***@host:6379/0'"),
        ("rediz://:se/cr@et@host", "'rediz://***@host'"),
        ("postgres://host/db?user=ada&password=secret", "'postgres://host/db?…'"),
        ("redis:ada:secret@host", "'***@host'"),
        ("sqlite3:///file.db", "'sqlite3:///file.db'"),
        ("redis", "'redis'"),
    ],
)
def test_a_password_in_a_url_is_not_shown(url: str, shown: str) -> None:
    with pytest.raises(ValueError, match="known: memory://") as caught:
        open_state(url)
    assert shown in str(caught.value)
    assert not {"ada", "secret", "se/cr"} & set(str(caught.value).replace(":", " ").replace("@", " ").split())


def test_what_is_no_store_at_all() -> None:
    with pytest.raises(TypeError, match="store="):
        Server("wrong", store=Path("file.db"))  # type: ignore[arg-type]
