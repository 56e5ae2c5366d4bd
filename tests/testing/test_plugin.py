"""The pytest plug-in, in runs of pytest of their own, as a user has them."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SHOP = """
from redstart import Context, Server

server = Server("shop")


@server.tool
def price(item: str, count: int = 1) -> int:
    return 7 * count


@server.tool
async def greet(ctx: Context) -> str:
    return f"Hello {await ctx.ask('Your name?', str)} from {ctx.user}"
"""
INI = """
[pytest]
mcp_server = shop:server
pythonpath = .
asyncio_default_fixture_loop_scope = function
"""
QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # to load hypothesis takes longer than such a run


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP)
    pytester.makefile(".ini", pytest=INI)
    return pytester


def outcome(project: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest_subprocess(*QUICK, *options, timeout=50)


OWN = """
async def test_price(mcp_client):
    assert (await mcp_client.call_tool("price", {"item": "cup"})).data == 7
"""
ASYNCIO = f"import pytest\n\n\n@pytest.mark.asyncio{OWN}"
ANYIO = f'import pytest\n\n\n@pytest.mark.anyio\n@pytest.mark.parametrize("anyio_backend", ["asyncio"]){OWN}'


@pytest.mark.parametrize(
    ("test", "options"),
    [
        (OWN, ("-p", "no:asyncio", "-p", "no:anyio", "-o", "asyncio_default_fixture_loop_scope=")),
        (OWN, ()),
        (OWN, ("-o", "asyncio_mode=auto")),
        (ASYNCIO, ()),
        (ANYIO, ()),
    ],
    ids=["alone", "beside pytest-asyncio", "its auto mode", "its mark", "anyio"],
)
def test_async_tests_run_with_and_without_other_plug_ins(
    project: pytest.Pytester, test: str, options: tuple[str, ...]
) -> None:
    outcome(project, test, *options).assert_outcomes(passed=1)


def test_a_failing_async_test_fails(project: pytest.Pytester) -> None:
    result = outcome(project, OWN.replace("== 7", "== 8"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *assert 7 == 8"])


def test_every_transport_and_revision(project: pytest.Pytester) -> None:
    test = """
import pytest


@pytest.mark.mcp(transports=["memory", "stdio", "http"], revisions=["2024-11-05", "2026-07-28"])
async def test_price(mcp_client, mcp_protocol, mcp_transport):
    assert mcp_client.protocol_version == mcp_protocol
    assert (await mcp_client.call_tool("price", {"item": "cup"})).text == "7"
"""
    outcome(project, test).assert_outcomes(passed=6)


def test_all_means_five_revisions_and_unknown_transports_are_refused(project: pytest.Pytester) -> None:
    test = OWN.replace("async def", 'import pytest\n\n\n@pytest.mark.mcp(revisions="all")\nasync def')
    test = test.replace(".data == 7", ".is_error is False")
    outcome(project, test).assert_outcomes(passed=5)
    result = outcome(project, test.replace('revisions="all"', 'transports=["pigeon"]'))
    result.stdout.fnmatch_lines(["*transports are ('memory', 'stdio', 'http'), not [[]'pigeon']*"])
    result = outcome(project, test.replace("revisions", "revision"))
    result.stdout.fnmatch_lines(['*test_price: the mark mcp has no option "revision". Did you mean "revisions"*'])


def test_options_of_the_client_and_scripted_answers(project: pytest.Pytester) -> None:
    test = """
import pytest


@pytest.mark.mcp(user="ada")
async def test_greet(mcp_client, mcp_answers):
    mcp_answers.add("Grace")
    assert (await mcp_client.call_tool("greet")).text == "Hello Grace from ada"


async def test_left_over(mcp_client, mcp_answers):
    mcp_answers.add("Grace")


async def test_nobody_can_be_asked(mcp_client):
    assert (await mcp_client.call_tool("greet")).is_error
"""
    result = outcome(project, test)
    result.assert_outcomes(passed=2, errors=1, failed=1)
    result.stdout.fnmatch_lines(["*the server did not ask for these answers: 'Grace'"])


def test_a_server_of_a_fixture(pytester: pytest.Pytester) -> None:
    test = """
import pytest
from redstart import Server


@pytest.fixture
def mcp_server():
    server = Server("local")
    server.tool(lambda n: n, name="same", description="x")
    return server


async def test_local(mcp_client, mcp_server):
    assert [tool.name for tool in await mcp_client.list_tools()] == ["same"]


@pytest.mark.mcp(transports=["stdio"])
async def test_not_over_stdio(mcp_client):
    pass
"""
    result = outcome(pytester, test)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the Server must be a global name of a module, and not made in a fixture"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("", '*write mcp_server = "package.module:server" into [[]tool.pytest.ini_options[]]*'),
        ("shop:nothing", "*mcp_server: shop has no nothing*"),
        ("no_such.py:server", "*mcp_server: there is no file *no_such.py*"),
        ("shop:sever", "*mcp_server: shop has no sever; did you mean server?*"),
        ("shpo:server", "*mcp_server: there is no module shpo; write pythonpath*"),
        ("broken:server", "*ModuleNotFoundError: No module named 'nowhere'*"),
    ],
)
def test_a_server_that_is_not_there(project: pytest.Pytester, option: str, words: str) -> None:
    project.makepyfile(broken="import nowhere")
    result = outcome(project, OWN, "-o", f"mcp_server={option}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([words])


def test_a_file_names_the_server_too_and_a_def_test_is_refused(project: pytest.Pytester) -> None:
    outcome(project, OWN, "--mcp-server", "shop.py:server").assert_outcomes(passed=1)
    result = outcome(project, "def test_price(mcp_client):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_price: write async def, since mcp_client is awaited"])


def test_the_server_at_a_url(project: pytest.Pytester) -> None:
    from redstart import Server

    server = Server("elsewhere")
    server.tool(lambda item: 7, name="price", description="x")
    with server.serve_background(port=0) as served:
        outcome(project, OWN.replace(".data == 7", '.text == "7"'), "--mcp-url", served.url).assert_outcomes(passed=1)


def test_a_snapshot_says_what_breaks_clients(project: pytest.Pytester) -> None:
    test = "async def test_offer(mcp_client, mcp_snapshot):\n    await mcp_snapshot(mcp_client)\n"
    missing = outcome(project, test)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*there is no snapshot *test_it.test_offer.json; write it with: pytest --mcp-update"])
    outcome(project, test, "--mcp-update").assert_outcomes(passed=1)
    outcome(project, test).assert_outcomes(passed=1)
    project.makepyfile(shop=SHOP.replace("count: int = 1", "count: int"))
    changed = outcome(project, test)
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(
        ["*(1 of these changes break clients):", "*BREAKS  tool price: the argument count is required"]
    )
    outcome(project, test, "--mcp-update").assert_outcomes(passed=1)
    outcome(project, test).assert_outcomes(passed=1)
