"""Bytes in, bytes out: what a client of a revision writes to a server, and what it reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from redstart import Server
from redstart.transports.memory import MemoryPeer

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
ERAS = (HANDSHAKE, MODERN)
Request = tuple[str, dict[str, Any]]

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def talk(server: Server, era: str, requests: Sequence[Request], principal: Any = None) -> list[dict[str, Any]]:
    """The answers to `requests`, one after the other, on one connection of a client of `era`."""

    async def alone() -> list[dict[str, Any]]:
        try:
            return await converse(server, era, requests, principal)
        finally:
            await server.runtime.stop()  # the next conversation has another loop

    return asyncio.run(alone())


async def converse(
    server: Server, era: str, requests: Sequence[Request], principal: Any = None, seconds: float = 20
) -> list[dict[str, Any]]:
    """As `talk`, inside a running loop."""
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    peer = MemoryPeer(server, inbox.put_nowait, principal)
    answers = []
    async with asyncio.timeout(seconds):
        if era != MODERN:
            opening = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            peer.send(line("initialize", opening, 0))
            answers.append(json.loads(await inbox.get()))
        for number, (method, params) in enumerate(requests, 1):
            full = {**params, "_meta": META} if era == MODERN else params
            peer.send(line(method, full, number))
            answer = json.loads(await inbox.get())
            assert answer["id"] == number, answer
            answers.append(answer)
        await peer.close()
    return answers[1:] if era != MODERN else answers


def line(method: str, params: dict[str, Any], id: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def ask(server: Server, era: str, method: str, principal: Any = None, **params: Any) -> dict[str, Any]:
    """The result of one request; an error fails the test."""
    answer = talk(server, era, [(method, params)], principal)[0]
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result


def refused(server: Server, era: str, method: str, principal: Any = None, **params: Any) -> dict[str, Any]:
    """The error of one request; a result fails the test."""
    answer = talk(server, era, [(method, params)], principal)[0]
    assert "error" in answer, answer
    error: dict[str, Any] = answer["error"]
    return error


def capabilities(server: Server, era: str) -> dict[str, Any]:
    """What the server says that it offers."""
    if era == MODERN:
        offered: dict[str, Any] = ask(server, era, "server/discover")["capabilities"]
        return offered
    return asyncio.run(_initialize(server, era))


async def _initialize(server: Server, era: str) -> dict[str, Any]:
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    peer = MemoryPeer(server, inbox.put_nowait)
    opening = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    peer.send(line("initialize", opening, 0))
    async with asyncio.timeout(20):
        offered: dict[str, Any] = json.loads(await inbox.get())["result"]["capabilities"]
        await peer.close()
        await server.runtime.stop()
    return offered
