"""Clients of servers that are processes of their own: on pipes, where each can be killed, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from typing import Any, Self

import httpx2

from redstart.wire.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from support import DEADLINE, MODERN, opening

EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
TERMINAL = ("completed", "failed", "cancelled")


class Client:
    """A client of one revision that sends one request after the other."""

    def __init__(self, revision: str = MODERN, extension: bool = True) -> None:
        self.revision = revision
        self.modern = revision == MODERN
        self.capabilities: dict[str, Any] = {"elicitation": {}} | (EXTENSION if extension and self.modern else {})
        self._last = 0

    def message(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._last += 1
        full = dict(params)
        if self.modern:
            full["_meta"] = {PROTOCOL_VERSION: self.revision, CLIENT_CAPABILITIES: self.capabilities}
        return {"jsonrpc": "2.0", "id": self._last, "method": method, "params": full}

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; an error fails the test."""
        answer = await self.request(method, **params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", name=name, arguments=arguments)

    async def start(self, tool: str, **arguments: Any) -> str:
        """The id of the task that a call becomes."""
        if self.modern:
            result = await self.tool(tool, **arguments)
        else:
            result = (await self.result("tools/call", name=tool, arguments=arguments, task={}))["task"]
        id: str = result["taskId"]
        return id

    async def get(self, task: str) -> dict[str, Any]:
        return await self.result("tasks/get", taskId=task)


async def ended(client: Client, task: str, *wanted: str) -> dict[str, Any]:
    """The task when it has ended, or is in one of these states; a client polls."""
    async with asyncio.timeout(DEADLINE):
        while True:
            state = await client.get(task)
            if state["status"] in (wanted or TERMINAL):
                return state
            await asyncio.sleep(0.02)


class Pipe(Client):
    """A client that has started its server."""

    process: Process

    def __init__(
        self, command: Sequence[str], revision: str = MODERN, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(revision)
        self._command = command
        self._environment = os.environ | (environment or {})

    async def __aenter__(self) -> Self:
        self.process = await create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, env=self._environment)
        if not self.modern:
            await self.result("initialize", **opening(self.revision, self.capabilities))
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    async def kill(self) -> None:
        """As a crash does."""
        self.process.kill()
        await self.process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        message = self.message(method, params)
        self._send(message)
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the server has ended"
                answer: dict[str, Any] = json.loads(line)
                if answer.get("id") == message["id"] and "method" not in answer:
                    return answer


class Http(Client):
    """A client of a server on a port of this host, on one connection."""

    def __init__(self, port: int, extension: bool = True) -> None:
        super().__init__(extension=extension)
        self._url = f"http://127.0.0.1:{port}/mcp"
        self._client = httpx2.AsyncClient(timeout=DEADLINE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Mcp-Method": method,
            "MCP-Protocol-Version": self.revision,
        }
        name = params.get("name") or params.get("taskId")
        if name:
            headers["Mcp-Name"] = name
        response = await self._client.post(self._url, json=self.message(method, params), headers=headers)
        text = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            text = [line for line in text.splitlines() if line.startswith("data: ")][-1].removeprefix("data: ")
        answer: dict[str, Any] = json.loads(text)
        return answer
