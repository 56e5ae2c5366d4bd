"""The house rules that a program can check: who imports whom, no I/O in the protocol, sizes, calls per request.

The lists of exceptions may only shrink: an entry that is no longer needed fails the test too.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from redstart import Accepted, Context, Server
from redstart.protocol.framing import Framer
from redstart.transports.memory import MemoryPeer
from redstart.transports.stdio import StdioPeer
from support import free_port

SRC = Path(__file__).parents[1] / "src" / "redstart"
FILES = sorted(path for path in SRC.rglob("*.py") if "__pycache__" not in path.parts)

# The rooms of the core, from the inside to the outside: a room may look into those before it, and into itself.
# `schema` and `store` know no more than `wire`. The rooms at the edge look inwards only.
CORE = (
    "wire",
    "schema",
    "store",
    "protocol",
    "features",
    "execution",
    "asking",
    "tasks",
    "adopt",
    "observe",
    "access",
    "server",
    "transports",
)
INWARDS = set(CORE)
ROOMS: dict[str, set[str]] = {
    **{room: set(CORE[:place]) for place, room in enumerate(CORE)},
    "schema": set(),
    "store": {"wire"},
    "protocol": {"wire"},
    "auth": INWARDS,
    "client": INWARDS,
    "testing": INWARDS | {"client"},
    "inspector": INWARDS | {"client"},
    "cli": INWARDS | {"client", "testing", "auth", "inspector"},
}
# `Server.run`, `Server.asgi` and `Client(server)` are the public API: they load what is above them when called.
UPWARDS: set[tuple[str, str]] = {
    ("server/server.py", "transports"),
}
# Code lines per package, without blanks, comments and docstrings. A package that outgrows its number asks for a reason:
# write it beside the new one.
BUDGET: dict[str, int] = {
    "": 355,  # with reaper.py, the process that outlives a server; imports that pause the garbage collector
    "wire": 460,  # the check of the shapes that applications make, and the shapes of tasks; classes that are a str
    "schema": 3246,  # one type engine for all; the kinds of functions, their annotations and defaults; broken decoders
    "protocol": 1240,  # the walk over x-mcp-header annotations, for both sides; what is remembered of `_meta`
    "store": 1205,  # four engines behind one contract, two of which may be away; with tasks/ at most 2,200
    "features": 3402,  # what processes tell each other; scopes; log messages; why a server does not start; ranges
    "execution": 1212,  # visible=, which needs the contexts; the Runner of calls; threads that wait, or cannot be had
    "asking": 2009,  # what a task records of its dialogue; answers say how they are read
    "tasks": 996,  # two task protocols over one record; leases, retries, checkpoints
    "adopt": 755,  # objects, directories and providers; their files are watched, until the interpreter ends
    "observe": 290,  # metrics and traces of calls, and what shows calls to them
    "access": 161,  # `auth=`: its contract, its time limit, what is wrong with tokens; the local user of stdio
    "server": 1393,  # Server, its contexts, dispatch and the running of calls; at most 1,400
    "transports": 4263,  # sessions of several processes; TLS, proxies; shares; what logs tell; calls left by no failure
    "auth": 1500,  # with OAuthProxy, an authorization server; at most 1,500
    "client": 3988,  # who gets no answer, and why; bounds of what servers send; configurations; OAuth, shared; tasks
    "testing": 1260,  # the pytest plug-in and its words, changes that break clients, replay; the behavioural suite
    "cli": 6094,  # fifteen clients and editors of their files; lint rules; commands that use a server; options
    "inspector": 1915,  # what is seen of a server; the page; the Host, which swaps servers, and reloading; the relay
}
LONG_FUNCTIONS: set[str] = set()
# Lower these when they can be lower. A cycle counts the imports inside of functions and under TYPE_CHECKING too.
MAX_CYCLE, MAX_ANY, SAME_CLASS_NAMES, MAX_PARAMETERS = 3, 562, 0, 12
MAX_MODULES = 50  # loaded by a hello server on stdio
MAX_FUNCTION = 40
# Of one warm tools/call: functions of ours that are called, and files that they are in.
MEMORY_CALLS, PIPE_CALLS, PIPE_FILES, HTTP_CALLS, SOCKET_CALLS, HTTP_FILES = 21, 25, 10, 34, 47, 12
QUESTION_CALLS, QUESTION_FILES = 40, 14
REVISIONS = re.compile(r"2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28")
DIALECTS = {"protocol/handshake.py", "protocol/modern.py"}
NO_IO = ("wire", "protocol", "schema")
IO_MODULES = {
    "asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "selectors", "signal", "socket", "ssl",
    "subprocess", "tempfile", "threading", "time", "urllib.request", "datetime.now",
}  # fmt: skip
IO_CALLS = {"open", "print", "input"}
IO_EXCEPTIONS: set[tuple[str, str]] = set()
VERSIONS_ELSEWHERE: set[str] = set()


def name(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def room(path: Path) -> str:
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports: at the top, inside of functions, and under TYPE_CHECKING."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def upward(path: Path) -> set[tuple[str, str]]:
    here = room(path)
    if here not in ROOMS:
        return set()
    found = set()
    for module in imports(path):
        parts = module.split(".")
        if parts[0] != "redstart" or len(parts) < 2 or not (SRC / parts[1]).is_dir():
            continue
        if parts[1] != here and parts[1] not in ROOMS[here]:
            found.add((name(path), parts[1]))
    return found


def test_imports_point_one_way() -> None:
    assert set().union(*(upward(path) for path in FILES)) == UPWARDS


def modules() -> dict[str, Path]:
    names = {}
    for path in FILES:
        parts = ["redstart", *path.relative_to(SRC).with_suffix("").parts]
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def cycles() -> list[list[str]]:
    """The groups of modules that import each other, by way of whatever others."""
    known = modules()
    targets: dict[str, set[str]] = {}
    for module, path in known.items():
        named = set(imports(path))
        parents = {name.rpartition(".")[0] for name in named if name in known}
        targets[module] = {name for name in named if name in known and name != module} - (parents - {module})
    reached: dict[str, set[str]] = {}
    for module in known:
        seen, queue = set(), list(targets[module])
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                queue += targets[name]
        reached[module] = seen
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in known
        if module in reached[module]
    }
    return sorted((list(group) for group in groups), key=len, reverse=True)


def test_import_cycles_are_small() -> None:
    found = cycles()
    assert len(found[0]) <= MAX_CYCLE, "\n".join(found[0])


def test_a_class_name_means_one_thing() -> None:
    count: Counter[str] = Counter()
    for path in FILES:
        count.update(node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))
    found = sorted(name for name, times in count.items() if times > 1)
    assert len(found) <= SAME_CLASS_NAMES, found


def test_any_is_rare() -> None:
    count: Counter[str] = Counter()
    for path in FILES:
        count[name(path)] += sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree(path)))
    assert sum(count.values()) <= MAX_ANY, count.most_common(20)


def test_functions_have_few_parameters() -> None:
    found = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                width = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)
                if width > MAX_PARAMETERS:
                    found.append(f"{name(path)}:{node.name} has {width}")
    assert found == []


def test_every_room_is_known() -> None:
    assert {room(path) for path in FILES if room(path)} <= set(ROOMS)


def test_no_io_and_no_await_in_the_inner_rooms() -> None:
    found = set()
    for path in FILES:
        if room(path) not in NO_IO:
            continue
        found |= {(name(path), module) for module in imports(path) if module in IO_MODULES}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
                found.add((name(path), "await"))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
                found.add((name(path), node.func.id))
    assert found == IO_EXCEPTIONS


def test_a_version_is_named_in_the_two_dialects_only() -> None:
    """In code: a docstring or a comment may point to the page of the spec that says so."""
    found = set()
    for path in FILES:
        documentation = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                documentation.add(node.value)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and node not in documentation and REVISIONS.search(str(node.value)):
                found.add(name(path))
    assert found - DIALECTS == VERSIONS_ELSEWHERE
    assert found >= DIALECTS


def code_lines(path: Path) -> int:
    """The lines with code on them: no blanks, comments and docstrings."""
    text = path.read_text()
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_packages_stay_within_their_budget() -> None:
    sizes: Counter[str] = Counter()
    for path in FILES:
        sizes[room(path)] += code_lines(path)
    assert sizes.keys() == BUDGET.keys()
    assert {name: size for name, size in sizes.items() if size > BUDGET[name]} == {}


def test_functions_are_short() -> None:
    """Counted without the signature and the docstring: a long list of options is no long function."""
    found = set()
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > MAX_FUNCTION:
                    found.add(f"{name(path)}:{node.name}")
    assert found == LONG_FUNCTIONS


# ---------------------------------------------------------------- the start of a server

HELLO = """
import asyncio, msgspec, sys, uvloop
given = set(sys.modules)

from redstart import Server

server = Server("hello")

@server.tool
def hello(name: str) -> str:
    return f"Hello {name}"

server.run()
sys.stderr.write(" ".join(sorted(set(sys.modules) - given)))
"""


def test_a_hello_server_loads_few_modules() -> None:
    """Modules of ours, and none of the standard library beyond those that asyncio, msgspec and uvloop load."""
    requests = line(1, "initialize", INITIALIZE) + line(2, "tools/call", '{"name":"hello","arguments":{"name":"Ada"}}')
    done = subprocess.run([sys.executable, "-c", HELLO], input=requests, capture_output=True, timeout=60, check=True)
    assert b"Hello Ada" in done.stdout
    loaded = done.stderr.decode().split()
    ours = [module for module in loaded if module.partition(".")[0] == "redstart"]
    assert len(ours) <= MAX_MODULES, f"{len(ours)} modules:\n" + "\n".join(ours)
    assert [module for module in ours if module.split(".")[1:2] in (["tasks"], ["store"], ["asking"])] == []
    assert [module for module in loaded if module.partition(".")[0] in sys.stdlib_module_names] == []


# ---------------------------------------------------------------- the path of a call

META = (
    '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}'
)
PARAMS = {
    "handshake": '{"name":"add","arguments":{"a":1,"b":2}}',
    "modern": f'{{"name":"add","arguments":{{"a":1,"b":2}},"_meta":{META}}}',
}
INITIALIZE = '{"protocolVersion":"2025-11-25","capabilities":{}}'


def line(id: int, method: str, params: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (id, method.encode(), params.encode())


def adding() -> Server:
    server = Server("calls", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@contextmanager
def noting(calls: list[str]) -> Iterator[None]:
    """Note the functions of ours that are called meanwhile, by this thread."""

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SRC)):
            calls.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}")

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def check_path(calls: list[str], most: int, most_files: int) -> None:
    files = {call.partition(".")[0] for call in calls}
    assert "link.Link.receive" in calls
    assert len(calls) <= most, f"{len(calls)} calls:\n" + "\n".join(calls)
    assert len(files) <= QUESTION_FILES, f"{len(files)} files: {sorted(files)}"


def calls_of_a_warm_call(era: str, connect: Callable[[Server], tuple[Any, Callable[[bytes], None]]]) -> list[str]:
    """The functions of ours that one of many equal calls goes through, until its answer is out."""
    calls: list[str] = []

    async def test() -> None:
        server = adding()
        await server.runtime.start()
        peer, feed = connect(server)
        feed(line(0, "initialize", INITIALIZE))
        for id in range(1, 20):
            calls.clear()
            with noting(calls):
                feed(line(id, "tools/call", PARAMS[era]))
                for _ in range(3):
                    await asyncio.sleep(0)
            assert not peer.link.calls
        await server.runtime.stop()

    asyncio.run(test())
    return calls


@pytest.mark.parametrize("era", PARAMS)
def test_a_warm_call_costs_few_calls(era: str) -> None:
    """From the bytes of one message to the bytes of its answer."""
    answers: list[bytes] = []

    def connect(server: Server) -> tuple[Any, Callable[[bytes], None]]:
        peer = MemoryPeer(server, answers.append)
        return peer, peer.send

    calls = calls_of_a_warm_call(era, connect)
    assert sum(b'"text":"3"' in answer for answer in answers) == 19
    check_path(calls, MEMORY_CALLS, PIPE_FILES)


@pytest.mark.parametrize("era", PARAMS)
def test_a_warm_call_on_a_pipe_costs_few_calls(era: str) -> None:
    """The same, and the way from and to a pipe: framing, and one write for what goes out together."""
    reader, writer = os.pipe()

    def connect(server: Server) -> tuple[Any, Callable[[bytes], None]]:
        peer = StdioPeer(server, Framer(), writer)
        return peer, peer.feed

    try:
        calls = calls_of_a_warm_call(era, connect)
        assert os.read(reader, 1 << 16).count(b'"text":"3"') == 19
    finally:
        os.close(reader)
        os.close(writer)
    check_path(calls, PIPE_CALLS, PIPE_FILES)


HEADERS = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "add",
    "content-length": str(len(line(1, "tools/call", PARAMS["modern"]))),
}


def test_a_warm_call_over_http_costs_few_calls() -> None:
    """As an ASGI application, whichever server reads the requests."""
    calls: list[str] = []
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "root_path": "",
        "client": ("127.0.0.1", 1),
    }
    scope["headers"] = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": line(1, "tools/call", PARAMS["modern"])}

    async def send(message: Any) -> None:
        sent.append(message)

    async def test() -> None:
        server = adding()
        app = server.asgi()
        for _ in range(20):
            calls.clear()
            with noting(calls):
                await app(scope, receive, send)
            assert b'"text":"3"' in sent[-1]["body"]
        await server.runtime.stop()

    asyncio.run(test())
    check_path(calls, HTTP_CALLS, HTTP_FILES)


def test_a_warm_call_on_a_socket_costs_few_calls() -> None:
    """The same, and the way from and to a socket that the server reads itself."""
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = b"POST /mcp HTTP/1.1\r\n%b\r\n%b" % (head.encode(), line(1, "tools/call", PARAMS["modern"]))
    warm: list[list[str]] = []

    async def test() -> None:
        port = free_port()
        serving = asyncio.create_task(adding().run_async("http", port=port))
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        for _ in range(20):
            calls: list[str] = []
            with noting(calls):
                writer.write(request)
                size = (await reader.readuntil(b"\r\n\r\n")).partition(b"content-length: ")[2].partition(b"\r\n")[0]
                assert b'"text":"3"' in await reader.readexactly(int(size))
            warm.append(calls)
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(test())
    check_path(min(warm, key=len), SOCKET_CALLS, HTTP_FILES)  # in some of them the server has swept its connections


# ---------------------------------------------------------------- the path of a question

CAPABILITIES = '{"elicitation":{}}'
ANSWER = '{"action":"accept","content":{"answer":2}}'


def calls_of_a_warm_question(era: str) -> list[list[str]]:
    """The functions of ours that one of many equal questions goes through: until it is out, and from the answer on."""
    server = Server("calls", version="1")

    @server.tool
    async def add(a: int, b: int, ctx: Context) -> int:
        answer = await ctx.elicit("How many more?", int)
        return a + b + answer.data if isinstance(answer, Accepted) else 0

    legs: list[list[str]] = []
    sent: list[bytes] = []

    async def feed(peer: MemoryPeer, data: bytes) -> None:
        legs.append([])
        with noting(legs[-1]):
            peer.send(data)
            for _ in range(4):
                await asyncio.sleep(0)

    async def test() -> None:
        await server.runtime.start()
        peer = MemoryPeer(server, sent.append)
        peer.send(line(0, "initialize", INITIALIZE.replace("{}", CAPABILITIES)))
        peer.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        await asyncio.sleep(0)
        params = PARAMS[era].replace('Capabilities":{}', f'Capabilities":{CAPABILITIES}')
        for id in range(1, 20):
            legs.clear()
            await feed(peer, line(id, "tools/call", params))
            asked = json.loads(sent[-1])
            if era == "handshake":
                await feed(peer, b'{"jsonrpc":"2.0","id":"%b","result":%b}' % (asked["id"].encode(), ANSWER.encode()))
            else:
                state = asked["result"]["requestState"]
                retry = f'{params[:-1]},"requestState":"{state}","inputResponses":{{"q1":{ANSWER}}}}}'
                await feed(peer, line(100 + id, "tools/call", retry))
            assert not peer.link.calls
        await server.runtime.stop()

    asyncio.run(test())
    assert sum(b'"text":"5"' in data for data in sent) == 19
    return legs


@pytest.mark.parametrize("era", PARAMS)
def test_a_warm_question_costs_few_calls(era: str) -> None:
    """From the bytes of a request to those of its question, and from the bytes of the answer to those of the result."""
    for leg in calls_of_a_warm_question(era):
        files = {call.partition(".")[0] for call in leg}
        assert len(leg) <= QUESTION_CALLS, f"{len(leg)} calls:\n" + "\n".join(leg)
        assert len(files) <= QUESTION_FILES, f"{len(files)} files: {sorted(files)}"
