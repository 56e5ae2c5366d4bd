"""The client that the conformance suite starts: `client.py URL`, once per scenario, which the environment names.

What a scenario asks of a client is in SCENARIOS; the others list the tools and call the first one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from redstart.client import (
    Client,
    ClientCredentials,
    ClientError,
    ElicitRequest,
    IdentityAssertion,
    JwtBearer,
    OAuth,
)

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
DOCUMENT = "https://conformance-test.local/client-metadata.json"


async def browser(url: str) -> None:
    """A person who agrees to everything: follows the redirects to the client's own page."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as http:
        (await http.get(url)).raise_for_status()


async def list_and_call(c: Client) -> None:
    """What most scenarios want to see."""
    for tool in (await c.list_tools())[:1]:
        properties = tool.input_schema.get("properties", {})
        given = {name: value for name, value in {"a": 2, "b": 3}.items() if name in properties}
        await c.call_tool(tool.name, given)


async def listen_and_call(c: Client) -> None:
    """With the stream of the session open first: a GET that comes late is taken for one that continues a call."""
    async with c.listen(tools=True):
        await list_and_call(c)


async def list_only(c: Client) -> None:
    await c.list_tools()


async def call_all(c: Client) -> None:
    """Every tool, with the arguments of the scenario, or with none."""
    given = {call["name"]: call["arguments"] for call in CONTEXT.get("toolCalls", [])}
    for tool in await c.list_tools():
        if not given or tool.name in given:
            await c.call_tool(tool.name, given.get(tool.name, {}))


async def everything(c: Client) -> None:
    """One request of each kind that has headers of its own, also of those that this revision does not have."""
    await call_all(c)
    await c.request("initialize", {})
    await c.notify("notifications/initialized")
    for resource in await c.list_resources():
        await c.read_resource(resource.uri)
    for prompt in await c.list_prompts():
        await c.get_prompt(prompt.name)


async def echo_schema(c: Client) -> None:
    schemas = {tool.name: tool.input_schema for tool in await c.list_tools()}
    await c.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def list_skills(c: Client) -> None:
    await c.list_skills()


async def load_skills(c: Client) -> None:
    """Read every file of every skill; a file that is not what the list says ends it."""
    for skill in await c.list_skills():
        for file in skill.resources:
            await c.read_skill(skill, file.uri)


def accept(request: ElicitRequest) -> dict[str, Any]:
    """Agree, and say only what has no default."""
    fields = request.schema.get("properties", {})
    return {name: True for name, field in fields.items() if field.get("type") == "boolean" and "default" not in field}


Work = Callable[[Client], Awaitable[None]]
SCENARIOS: dict[str, Work] = {
    "sse-retry": listen_and_call,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": call_all,
    "http-custom-headers": call_all,
    "http-invalid-tool-headers": call_all,
    "http-standard-headers": everything,
    "request-metadata": list_only,
    "sep-2640-client-no-prefetch": list_skills,
    **{f"sep-2640-client-verify-{part}": load_skills for part in ("digest", "size", "frontmatter")},
}


def grant() -> Any:
    """How the client gets its token, in the scenarios about authorization."""
    name = SCENARIO.removeprefix("auth/")
    if name == SCENARIO:
        return None
    if name == "client-credentials-jwt":
        key, algorithm = CONTEXT["private_key_pem"], CONTEXT.get("signing_algorithm", "ES256")
        return ClientCredentials(CONTEXT["client_id"], private_key=key, algorithm=algorithm)
    if name == "client-credentials-basic":
        return ClientCredentials(CONTEXT["client_id"], CONTEXT["client_secret"])
    if name == "wif-jwt-bearer":
        return JwtBearer(CONTEXT["client_id"], assertion=CONTEXT["valid_jwt"])
    if name == "enterprise-managed-authorization":
        assertion = IdentityAssertion(
            id_token=CONTEXT["idp_id_token"],
            token_endpoint=CONTEXT["idp_token_endpoint"],
            client_id=CONTEXT["idp_client_id"],
        )
        return JwtBearer(CONTEXT["client_id"], CONTEXT["client_secret"], assertion=assertion)
    return OAuth(
        client_id=CONTEXT.get("client_id"),
        client_secret=CONTEXT.get("client_secret"),
        client_metadata_url=DOCUMENT,
        browser=browser,
        dpop=name.startswith("dpop"),
    )


async def main(url: str) -> None:
    async with Client(
        url, protocol=VERSION, auth=grant(), on_elicit=accept, on_sample=lambda request: "4", roots=[], timeout=20
    ) as c:
        await SCENARIOS.get(SCENARIO, list_and_call)(c)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except (ClientError, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
