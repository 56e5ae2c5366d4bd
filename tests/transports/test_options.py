"""The options of `run()`, `run_async()` and `asgi()`: what is wrong is said in our words, with what to write."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from redstart import RegistrationError, Server

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("http", {"hots": "127.0.0.1"}, 'server.run() has no option "hots". Did you mean "host"?'),
    ("http", {"zzz": 1}, 'server.run() has no option "zzz"; it has: path, '),
    ("http", {"framing": "newline"}, 'framing= is an option of stdio, and this is http: write server.run("stdio", '),
    ("stdio", {"port": 9000}, 'port= is an option of http, and this is stdio: write server.run("http", port=9000)'),
    ("stdio", {"framming": "newline"}, 'Did you mean "framing"?'),
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
    with pytest.raises(RegistrationError, match=re.escape('server.asgi() has no option "pth". Did you mean "path"?')):
        server.asgi(pth="/tools")


BAD_VALUES: list[tuple[str, Any, str]] = [
    *(
        ("port", port, f"port must be a whole number from 0 to 65535, not {port!r}")
        for port in ("8000", None, True, -1)
    ),
    ("port", 70000, "port must be a whole number from 0 to 65535, not 70000"),
    ("host", 5, "host must be a text (str), not 5"),
    ("max_unsent_bytes", 0, "max_unsent_bytes must be a whole number of at least 1, not 0"),
    ("body_deadline", 0, "body_deadline must be a number of seconds above 0, not 0"),
]
BAD_VALUES_OF_ALL: list[tuple[str, Any, str]] = [
    ("path", None, "path must be a text (str), not None"),
    (
        "allowed_origins",
        "https://a.com",
        "allowed_origins must be a list of texts, not 'https://a.com'; write [\"https://",
    ),
    ("allowed_hosts", [1], "allowed_hosts must be a list of texts, not [1]"),
    (
        "public_url",
        "mcp.example.com",
        "public_url must be like https://mcp.example.com, or None, not 'mcp.example.com'",
    ),
    (
        "public_url",
        "https://mcp.example.com/mcp?tenant=a",
        "public_url must be like https://mcp.example.com, or None, not 'https://mcp.example.com/mcp?tenant=a'",
    ),
    (
        "public_url",
        "https://mcp.example.com:99999",
        "public_url must be like https://mcp.example.com, or None, not 'https://mcp.example.com:99999'",
    ),
    ("public_url", "https://[", "public_url must be like https://mcp.example.com, or None, not 'https://['"),
    ("max_body_bytes", "1 MB", "max_body_bytes must be a whole number of at least 1, not '1 MB'"),
    ("keep_alive", 0, "keep_alive must be a number of seconds above 0, not 0"),
    ("drain", -1, "drain must be a number of seconds of at least 0, not -1"),
    ("trusted_proxies", "10.0.0.1", "trusted_proxies must be a list of texts, not '10.0.0.1'; write [\"10.0.0.1\"]"),
    ("trusted_proxies", ["localhost"], "trusted_proxies= is a list such as"),
    ("allowed_hosts", ["https://a.com/x"], 'allowed_hosts: "https://a.com/x" is not a host; write "a.com"'),
    ("allowed_origins", ["a.com"], 'allowed_origins: "a.com" is not the origin of a page; write "https://a.com"'),
    (
        "allowed_origins",
        ["http://a.com:1/x"],
        'allowed_origins: "http://a.com:1/x" is not the origin of a page; write "http://a.com:1"',
    ),
    ("legacy_sse", "no", "legacy_sse must be True or False, not 'no'"),
]


@pytest.mark.parametrize(("option", "value", "said"), BAD_VALUES + BAD_VALUES_OF_ALL)
def test_a_bad_value_is_refused_with_file_and_line(option: str, value: Any, said: str) -> None:
    server, place = Server("options"), re.escape(__file__) + r":\d+: "
    with Server.recorded(), pytest.raises(RegistrationError, match=place + re.escape(said)):
        server.run("http", **{option: value})
    with Server.recorded(), pytest.raises(RegistrationError, match=place + re.escape(said)):
        asyncio.run(server.run_async("http", **{option: value}))
    if (option, value, said) in BAD_VALUES_OF_ALL:
        with pytest.raises(RegistrationError, match=place + re.escape(said)):
            server.asgi(**{option: value})


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
