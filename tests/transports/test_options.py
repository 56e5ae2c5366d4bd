"""The options of `run()`, `run_async()` and `asgi()`: what is wrong is said in our words, with what to write."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest

from redstart import RegistrationError, Server
from redstart.transports.http import Endpoint
from redstart.transports.options import EndpointOptions, HttpOptions, StdioOptions
from redstart.transports.serve import serve_http
from redstart.transports.stdio import serve_stdio

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("http", {"hots": "127.0.0.1"}, "server.run() has no option 'hots': did you mean 'host'?"),
    ("http", {"zzz": 1}, "server.run() has no option 'zzz': it has: path, "),
    ("http", {"framing": "newline"}, 'framing= is an option of stdio, and this is http: write server.run("stdio", '),
    ("stdio", {"port": 9000}, 'port= is an option of http, and this is stdio: write server.run("http", port=9000)'),
    ("stdio", {"framming": "newline"}, "did you mean 'framing'?"),
    ("htttp", {}, 'transport must be "stdio" or "http", not \'htttp\''),
    ("sse", {}, 'write server.run("http", legacy_sse=True)'),
    (8000, {}, 'transport must be "stdio" or "http", not 8000'),
]


@pytest.mark.parametrize(("transport", "options", "said"), WRONG)
def test_wrong_options_are_named(transport: Any, options: dict[str, Any], said: str) -> None:
    server = Server("options")
    with Server.recorded(), pytest.raises(RegistrationError, match=re.escape(said)):  # it would serve otherwise
        server.run(transport, **options)
    said = said.replace("server.run(", "server.run_async(")
    with Server.recorded(), pytest.raises(RegistrationError, match=re.escape(said)):
        asyncio.run(server.run_async(transport, **options))


def test_an_option_without_a_transport_is_not_lost() -> None:
    server: Any = Server("options")
    with Server.recorded(), pytest.raises(RegistrationError, match=re.escape('write server.run("http", port=9000)')):
        server.run(port=9000)


def test_wrong_options_of_an_application() -> None:
    server: Any = Server("options")
    with pytest.raises(RegistrationError, match=re.escape("server.asgi() has no option 'pth': did you mean 'path'?")):
        server.asgi(pth="/tools")


@pytest.mark.parametrize("port", ["8000", 8000.5, None, True, 70000, -1])
def test_a_port_that_is_not_one(port: Any) -> None:
    with pytest.raises(SystemExit, match=re.escape(f"{port!r}: a port is a whole number from 0 to 65535")):
        Server("options").run("http", port=port)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_run_inside_of_a_loop_says_what_to_write(transport: Any) -> None:
    async def main() -> None:
        Server("options").run(transport)

    with pytest.raises(RuntimeError, match=re.escape("write await server.run_async(")):
        asyncio.run(main())


def test_the_name_that_others_use_for_http() -> None:
    server = Server("options")
    with Server.recorded() as found:
        server.run("streamable-http", port=9000)
    assert found == [server]


@pytest.mark.parametrize(
    ("kind", "functions"),
    [
        (EndpointOptions, [Endpoint.__init__]),
        (HttpOptions, [Endpoint.__init__, serve_http]),
        (StdioOptions, [serve_stdio]),
    ],
)
def test_the_options_that_type_checkers_know_are_those_that_there_are(kind: Any, functions: list[Any]) -> None:
    parameters = [p for fn in functions for p in inspect.signature(fn).parameters.values()]
    assert set(kind.__annotations__) == {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
