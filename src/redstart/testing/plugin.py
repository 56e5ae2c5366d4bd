"""The pytest plug-in: `mcp_client` and its companions. pytest loads this file in every run, so it imports little.

`async def` tests that use `mcp_client` run without another plug-in; pytest-asyncio and anyio run those that are theirs.
The client and the test must live in one event loop, so for each of the three there is a fixture of its kind.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from redstart.client.client import Client
    from redstart.testing.answers import Answers

T = TypeVar("T")

TRANSPORTS = ("memory", "stdio", "http")
MARK = (
    "mcp(transports=…, revisions=…, **options): how mcp_client connects. transports is a list of memory, stdio and "
    'http; revisions is "all" or a list; the other options are those of redstart.Client.'
)
_RUNNER = pytest.StashKey[asyncio.Runner]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mcp", "MCP servers (redstart)")
    group.addoption("--mcp-server", metavar="TARGET", help="the server under test: module:name, or file.py:name")
    group.addoption("--mcp-url", metavar="URL", help="run the tests of mcp_client against the server at this URL")
    group.addoption("--mcp-update", action="store_true", help="write the snapshots anew")
    parser.addini("mcp_server", "the server under test: module:name, or file.py:name", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


# ---------------------------------------------------------------- which server, and how it is reached


@pytest.fixture(scope="session")
def mcp_server(pytestconfig: pytest.Config) -> object:
    """The server under test: what --mcp-server or the setting mcp_server names. Define your own to return a Server."""
    target = pytestconfig.getoption("--mcp-server") or pytestconfig.getini("mcp_server")
    if not target:
        raise pytest.UsageError(
            'mcp_client does not know the server: write mcp_server = "package.module:server" into '
            "[tool.pytest.ini_options], or a fixture mcp_server that returns a Server"
        )
    return _load(str(target), pytestconfig.rootpath)


def _load(target: str, root: Path) -> object:
    """The object that `module:name` or `file.py:name` means."""
    place, _, name = target.partition(":")
    if place.endswith(".py"):
        file = root / place
        spec = util.spec_from_file_location(file.stem, file)
        if not file.is_file() or spec is None or spec.loader is None:
            raise pytest.UsageError(f"mcp_server: there is no file {file}")
        module = sys.modules.get(file.stem)
        if module is None or getattr(module, "__file__", None) != str(file):
            module = util.module_from_spec(spec)
            sys.modules[file.stem] = module
            spec.loader.exec_module(module)
    else:
        module = _imported(place)
    try:
        return getattr(module, name or "server")
    except AttributeError:
        from redstart.schema.errors import nearest

        near = nearest(name or "server", vars(module))
        meant = f"; did you mean {near}?" if near else ""
        raise pytest.UsageError(f"mcp_server: {place} has no {name or 'server'}{meant}") from None


def _imported(place: str) -> ModuleType:
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # an import in the module
        raise pytest.UsageError(
            f'mcp_server: there is no module {error.name}; write pythonpath = ["."] beside it if it is in this folder, '
            "or name the file: file.py:server"
        ) from None


@pytest.fixture
def mcp_transport() -> str:
    """How mcp_client reaches the server; the mark `mcp(transports=…)` sets it."""
    return "memory"


@pytest.fixture
def mcp_protocol() -> str:
    """The protocol revision of mcp_client; the mark `mcp(revisions=…)` sets it."""
    return "auto"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("mcp")
    if mark is None or "mcp_client" not in metafunc.fixturenames:
        return
    from redstart.client.options import ClientOptions
    from redstart.features.rules import did_you_mean

    known = ("transports", "revisions", *ClientOptions.__annotations__)
    for name in mark.kwargs.keys() - {*known}:
        hint = did_you_mean(name, known)
        raise pytest.UsageError(f'{metafunc.definition.nodeid}: the mark mcp has no option "{name}"{hint}')
    if transports := mark.kwargs.get("transports"):
        if unknown := set(transports) - {*TRANSPORTS}:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: transports are {TRANSPORTS}, not {sorted(unknown)}")
        metafunc.parametrize("mcp_transport", transports)
    if revisions := mark.kwargs.get("revisions"):
        if revisions == "all":
            from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS

            revisions = (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)
        metafunc.parametrize("mcp_protocol", revisions)


# ---------------------------------------------------------------- the fixtures


@pytest.fixture
def mcp_answers() -> Iterator[Answers]:
    """The answers that mcp_client gives to the server's questions: `mcp_answers.add("Ada")`. None may be left over."""
    from redstart.testing.answers import Answers

    answers = Answers()
    yield answers
    answers.check()


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest, mcp_transport: str, mcp_protocol: str) -> Any:
    """A redstart.Client that is connected to the fixture mcp_server, for `async def` tests."""
    if not inspect.iscoroutinefunction(_function(request.node)):
        raise pytest.UsageError(f"{request.node.nodeid}: write async def, since mcp_client is awaited")
    return request.getfixturevalue(_client_fixture(request))


def _function(item: Any) -> object:
    return inspect.unwrap(item.obj)


def _client_fixture(request: pytest.FixtureRequest) -> str:
    """The fixture that opens the client in the loop that the test runs in."""
    item = request.node
    if item.get_closest_marker("anyio") and "anyio_backend" in request.fixturenames:
        return "_mcp_client_anyio"
    if item.get_closest_marker("asyncio") or type(item).__module__.startswith("pytest_asyncio"):
        return "_mcp_client_asyncio"
    return "_mcp_client_own"


def _opened(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Client]:
    """The client as the fixtures and the mark of the test want it."""
    url = request.config.getoption("--mcp-url")
    transport = request.getfixturevalue("mcp_transport")
    mark = request.node.get_closest_marker("mcp")
    options = {"protocol": request.getfixturevalue("mcp_protocol"), **(mark.kwargs if mark else {})}
    options.pop("transports", None)
    options.pop("revisions", None)
    if "mcp_answers" in request.fixturenames:
        options["on_elicit"] = request.getfixturevalue("mcp_answers")
    server = None if url else request.getfixturevalue("mcp_server")
    return _connected(url or server, "url" if url else transport, options)


@asynccontextmanager
async def _connected(server: Any, transport: str, options: dict[str, Any]) -> AsyncIterator[Client]:
    from redstart.client.client import Client
    from redstart.server.server import Server

    if transport == "http" and isinstance(server, Server):
        with server.serve_background(port=0) as served:
            async with Client(served.url, **options) as client:
                yield client
        return
    if transport == "stdio" and isinstance(server, Server):
        server = [sys.executable, "-m", "redstart", "run", _target(server)]
        options = {"cwd": Path.cwd(), "env": {"PYTHONPATH": _python_path()}, **options}
    async with Client(server, **options) as client:
        yield client


def _target(server: object) -> str:
    """`file.py:name` of a Server: a process has to find it too."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py"):
            for name, value in list(vars(module).items()):
                if value is server and re.fullmatch(r"[A-Za-z]\w*", name):
                    return f"{file}:{name}"
    raise pytest.UsageError(
        "over stdio a process loads the server, so the Server must be a global name of a module, and not made in a "
        "fixture"
    )


def _python_path() -> str:
    return os.pathsep.join(path for path in sys.path if path)


@pytest.fixture
def _mcp_client_own(request: pytest.FixtureRequest) -> Iterator[Client]:
    opened = _opened(request)
    with asyncio.Runner() as runner:
        request.node.stash[_RUNNER] = runner
        client = runner.run(_entered(opened.__aenter__()))
        try:
            yield client
        finally:
            runner.run(_entered(opened.__aexit__(None, None, None)))
            del request.node.stash[_RUNNER]


async def _entered(work: Any) -> Any:
    return await work


@pytest.fixture
async def _mcp_client_anyio(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with _opened(request) as client:
        yield client


if util.find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def _mcp_client_asyncio(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
        async with _opened(request) as client:
            yield client


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in the loop of its client, where no other plug-in does."""
    runner = pyfuncitem.stash.get(_RUNNER, None)
    test: Callable[..., Coroutine[Any, Any, None]] = pyfuncitem.obj
    if runner is None or not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    runner.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def mcp_snapshot(request: pytest.FixtureRequest) -> Callable[[Client], Coroutine[Any, Any, None]]:
    """`await mcp_snapshot(mcp_client)` compares what the server offers with a file beside the test."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.node.path.parent / "snapshots" / f"{request.node.path.stem}.{name}.json"

    async def check(client: Client) -> None:
        from redstart.testing.snapshot import check_snapshot, offered

        check_snapshot(path, await offered(client), bool(request.config.getoption("--mcp-update")))

    return check
