"""Checks a server as clients of every revision see it, and says what is wrong.

No tool, prompt or resource of the server is called, so that a check has no side effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from redstart.client.client import Client
from redstart.client.errors import ClientError, RequestError
from redstart.protocol.handshake import REVISIONS
from redstart.protocol.modern import VERSION

if TYPE_CHECKING:
    from redstart.server.server import Server

_NOT_THERE = "redstart-check-no-such-thing"


async def problems(server: Server) -> list[str]:
    """The problems that a client of some revision would have with `server`; an empty list if there are none."""
    found: list[str] = []
    for revision in (*REVISIONS, VERSION):
        try:
            async with Client(server, protocol=revision) as client:
                found += [f"{revision}: {problem}" async for problem in _of(client)]
        except ClientError as error:
            found.append(f"{revision}: {error}")
    return found


async def _of(client: Client) -> AsyncIterator[str]:
    offered = client.server_capabilities
    for kind, key in _LISTS.items():
        if _capability(kind) not in offered:
            continue
        first, again = await getattr(client, f"list_{kind}")(), await getattr(client, f"list_{kind}")()
        keys = [getattr(entry, key) for entry in first]
        if keys != [getattr(entry, key) for entry in again]:
            yield f"{kind} are listed in another order each time"
        for name, count in Counter(keys).items():
            if count > 1:
                yield f"{name} is listed {count} times among the {kind}"
        for entry in first if kind == "tools" else ():
            if not isinstance(entry.input_schema, dict) or entry.input_schema.get("type") != "object":
                yield f"the input schema of {entry.name} is not an object"
    for method, params in _refusals(offered):
        try:
            await client.request(method, params)
            yield f"{method} of something that does not exist succeeds"
        except RequestError:
            pass


def _refusals(offered: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    wanted = [("tools/call", {"name": _NOT_THERE, "arguments": {}})]
    if "prompts" in offered:
        wanted.append(("prompts/get", {"name": _NOT_THERE}))
    if "resources" in offered:
        wanted.append(("resources/read", {"uri": f"{_NOT_THERE}:x"}))
    return wanted


def _capability(kind: str) -> str:
    return "resources" if kind.startswith("resource") else kind


_LISTS = {"tools": "name", "prompts": "name", "resources": "uri", "resource_templates": "uri_template"}
