"""The `mcp` package's client with bearer tokens, against `redstart run --http` and an issuer that the test starts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auth.support import Issuer, issuing
from support import DEADLINE, free_port, serving

SERVER = """
from redstart import Context, Server
from redstart.auth import JWT

server = Server("notes", auth=JWT(issuer={issuer!r}, audience="http://127.0.0.1:{port}/mcp", scopes="mcp"))


@server.tool
async def whoami(ctx: Context) -> str:
    return ctx.user.subject


@server.tool(scopes="admin", visible=lambda user: True)
async def reset() -> str:
    return "reset"
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Issuer, str]]:
    port, script = free_port(), tmp_path / "notes.py"
    with issuing() as issuer:
        issuer.publish()
        script.write_text(SERVER.format(issuer=issuer.url, port=port))
        command = [sys.executable, "-m", "redstart", "run", str(script), "--http", "--port", str(port)]
        with serving(command, port) as url:
            yield issuer, url


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_mcp_client_with_tokens(served: tuple[Issuer, str], mode: str) -> None:
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    issuer, url = served

    async def call(tool: str, **claims: Any) -> str:
        token = issuer.token({"aud": url, **claims})
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=DEADLINE) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            assert [one.name for one in (await client.list_tools()).tools] == ["whoami", "reset"]
            return str((await client.call_tool(tool, {})).content[0].text)

    async def main() -> None:
        assert await call("whoami") == "ada"
        assert await call("reset", scope="mcp admin") == "reset"
        for refused, words in ((call("reset"), "scopes: admin"), (call("whoami", aud="https://other"), "")):
            with pytest.raises(BaseException) as caught:  # one error, or a group of them
                await refused
            error: BaseException = caught.value
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            assert words in str(error)

    asyncio.run(main())
    assert issuer.asked.count("/jwks") == 1
