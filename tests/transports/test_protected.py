"""An endpoint with `auth=`: where a token may be, the challenges, and the metadata that says where tokens come from."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from redstart import Server, User
from redstart.auth import BearerTokens, TokenVerifier
from support import run
from transports.support import Http

LOGIN = "https://login.example.com"
TOKENS = {"good": User("ada", issuer=LOGIN, scopes="mcp"), "weak": User("bob", issuer=LOGIN)}
GOOD = {"authorization": "Bearer good"}
WELL_KNOWN = "/.well-known/oauth-protected-resource"


def serving(scopes: str = "mcp", root_path: str = "", **options: Any) -> Http:
    auth = TokenVerifier(TOKENS.get, authorization_servers=[LOGIN], scopes=scopes)
    return Http(Server("guarded", auth=auth).asgi(**options), root_path=root_path)


def fields(challenge: str) -> dict[str, str]:
    """The fields of a challenge of the scheme Bearer."""
    scheme, _, rest = challenge.partition(" ")
    assert scheme == "Bearer"
    return {name: json.loads(value) for name, _, value in (part.partition("=") for part in rest.split(", ") if part)}


METADATA = f"http://localhost:8000{WELL_KNOWN}/mcp"


@pytest.mark.requirement("T106")
@pytest.mark.parametrize(
    ("headers", "query", "status", "said"),
    [
        ({}, b"", 401, {}),
        ({"authorization": "Basic eDp5"}, b"", 401, {}),
        ({"authorization": "Bearer bad"}, b"", 401, {"error": "invalid_token"}),
        ({"authorization": "Bearer weak"}, b"", 403, {"error": "insufficient_scope"}),
        ({"authorization": "Bearer good one"}, b"", 400, {"error": "invalid_request"}),
        ({"authorization": "Bearer g\xf6\xf6d"}, b"", 400, {"error": "invalid_request"}),
        ({"authorization": "Bearer " + "x" * 16385}, b"", 400, {"error": "invalid_request"}),
        ({}, b"access_token=good", 400, {"error": "invalid_request"}),
        (GOOD, b"x=1&access_token=good", 400, {"error": "invalid_request"}),
    ],
    ids=str,
)
def test_a_challenge_says_what_is_wrong_and_what_is_needed(
    headers: dict[str, str], query: bytes, status: int, said: dict[str, str]
) -> None:
    async def test() -> None:
        response = await serving().modern(1, "server/discover", headers=headers, query=query)
        assert response.status == status
        expected = {**said, "scope": "mcp", "resource_metadata": METADATA}
        assert fields(response.headers["www-authenticate"]) == expected
        assert "good" not in response.body.decode()

    run(test())


@pytest.mark.parametrize("claims", [None, ["admin"], "admin"], ids=repr)
def test_the_claims_of_an_applications_own_user_are_its_own(claims: Any) -> None:
    async def test() -> None:
        user = SimpleNamespace(id="ada", claims=claims)
        app = Server("guarded", auth=lambda token: user).asgi()
        assert (await Http(app).modern(1, "server/discover", headers=GOOD)).status == 200

    run(test())


def test_a_good_token_is_let_in_without_a_challenge() -> None:
    async def test() -> None:
        response = await serving().modern(1, "server/discover", headers=GOOD)
        assert response.status == 200
        assert "www-authenticate" not in response.headers

    run(test())


@pytest.mark.parametrize(
    "path",
    [
        "/mcp/oauth/token",
        "/oauth/authorize",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/mcp",
        WELL_KNOWN + "/other",
        WELL_KNOWN + "x",
        "/other",
    ],
)
def test_a_server_that_gives_out_no_tokens_has_nothing_there(path: str) -> None:
    async def test() -> None:
        for method in ("GET", "POST"):
            assert (await serving().send(b"x=1", method=method, path=path)).status == 404

    run(test())


@pytest.mark.requirement("T106")
@pytest.mark.parametrize("path", [WELL_KNOWN, WELL_KNOWN + "/mcp", WELL_KNOWN + "/mcp/"])
def test_the_metadata_is_public(path: str) -> None:
    async def test() -> None:
        http = serving(allowed_origins=["https://app.example.com"])
        response = await http.send(method="GET", path=path, headers={"origin": "https://app.example.com"})
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        assert response.headers["access-control-allow-origin"] == "https://app.example.com"
        assert response.json() == {
            "resource": "http://localhost:8000/mcp",
            "authorization_servers": [LOGIN],
            "bearer_methods_supported": ["header"],
            "resource_name": "guarded",
            "scopes_supported": ["mcp"],
        }
        without = await http.send(method="HEAD", path=path)
        assert without.status == 200
        assert without.headers["vary"] == "Origin"  # or a cache would give this one, which no page may read, to pages
        refused = await http.send(method="POST", path=path)
        assert refused.status == 405
        assert refused.headers["allow"] == "GET, HEAD"
        assert (await http.send(method="GET", path=path, headers={"host": "evil.com"})).status == 421

    run(test())


@pytest.mark.parametrize(
    ("options", "resource", "metadata"),
    [
        ({"public_url": "https://MCP.example.com"}, "https://mcp.example.com/mcp", f"{WELL_KNOWN}/mcp"),
        ({"public_url": "https://mcp.example.com/"}, "https://mcp.example.com/mcp", f"{WELL_KNOWN}/mcp"),
        ({"public_url": "https://mcp.example.com/team/x"}, "https://mcp.example.com/team/x", f"{WELL_KNOWN}/team/x"),
        (
            {"public_url": "https://u:p@mcp.example.com", "path": "/tools"},
            "https://mcp.example.com/tools",
            f"{WELL_KNOWN}/tools",
        ),
    ],
)
def test_the_public_url_is_the_name_of_the_resource(options: dict[str, Any], resource: str, metadata: str) -> None:
    async def test() -> None:
        http = serving(**options)
        path = options.get("path", "/mcp")
        response = await http.modern(1, "server/discover", path=path)
        assert fields(response.headers["www-authenticate"])["resource_metadata"] == f"https://mcp.example.com{metadata}"
        response = await http.send(method="GET", path=metadata)
        assert response.json()["resource"] == resource

    run(test())


def test_an_endpoint_that_is_mounted_serves_its_metadata_below_its_own_path() -> None:
    async def test() -> None:
        http = serving(root_path="/tools/mcp")
        response = await http.modern(1, "server/discover", path="/tools/mcp/")
        url = fields(response.headers["www-authenticate"])["resource_metadata"]
        assert url == f"http://localhost:8000/tools/mcp{WELL_KNOWN}"
        response = await http.send(method="GET", path=url.removeprefix("http://localhost:8000"))
        assert response.json()["resource"] == "http://localhost:8000/tools/mcp"

    run(test())


@pytest.mark.parametrize(
    ("root", "path"),
    [('/a", error="b', "/a%22,%20error=%22b"), ("/a\r\nb: c", "/a%0D%0Ab:%20c"), ("/ü@x", "/%C3%BC@x")],
)
def test_where_it_is_mounted_may_be_what_the_client_has_written(root: str, path: str) -> None:
    """As a route with a variable has it: `Mount("/{tenant}", server.asgi())`."""

    async def test() -> None:
        http = serving(root_path=root)
        response = await http.modern(1, "server/discover", path=f"{root}/")
        url = f"http://localhost:8000{path}{WELL_KNOWN}"
        assert fields(response.headers["www-authenticate"]) == {"scope": "mcp", "resource_metadata": url}
        response = await http.send(method="GET", path=root + WELL_KNOWN)
        assert response.json()["resource"] == f"http://localhost:8000{path}"

    run(test())


def test_a_host_that_cannot_be_a_host_is_not_repeated() -> None:
    async def test() -> None:
        http = serving(allowed_hosts=["*"])
        response = await http.modern(1, "server/discover", headers={"host": 'x", error="y'})
        assert fields(response.headers["www-authenticate"]) == {"scope": "mcp"}

    run(test())


def test_without_an_authorization_server_there_is_no_metadata() -> None:
    async def test() -> None:
        http = Http(Server("guarded", auth=BearerTokens({"s3cret": "ada"})).asgi())
        response = await http.modern(1, "server/discover")
        assert (response.status, response.headers["www-authenticate"]) == (401, "Bearer")
        assert (await http.send(method="GET", path=WELL_KNOWN)).status == 404

    run(test())


def test_a_route_of_the_application_comes_first() -> None:
    async def test() -> None:
        auth = TokenVerifier(TOKENS.get, authorization_servers=[LOGIN])
        server = Server("guarded", auth=auth)
        server.route(WELL_KNOWN)(lambda: {"mine": True})
        http = Http(server.asgi())
        assert (await http.send(method="GET", path=WELL_KNOWN)).json() == {"mine": True}
        assert (await http.send(method="GET", path=WELL_KNOWN + "/mcp")).json()["resource_name"] == "guarded"

    run(test())


def test_a_page_finds_its_way_from_the_challenge_to_the_metadata() -> None:
    """What a client in a browser does: each step must be readable for a page of an allowed site, and for no other."""
    site = {"origin": "https://app.example.com"}
    asks = {"access-control-request-method": "GET", "access-control-request-headers": "mcp-protocol-version"}

    async def test() -> None:
        http = serving(allowed_origins=[site["origin"]])
        refused = await http.modern(1, "server/discover", headers=site)
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == site["origin"]
        assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]
        path = fields(refused.headers["www-authenticate"])["resource_metadata"].removeprefix("http://localhost:8000")
        allowed = await http.send(method="OPTIONS", path=path, headers={**site, **asks})
        assert (allowed.status, allowed.headers["access-control-allow-headers"]) == (200, "mcp-protocol-version")
        found = await http.send(method="GET", path=path, headers={**site, "mcp-protocol-version": "2026-07-28"})
        assert (found.status, found.json()["authorization_servers"]) == (200, [LOGIN])
        assert found.headers["access-control-allow-origin"] == site["origin"]
        for method in ("GET", "OPTIONS"):
            other = await http.send(method=method, path=path, headers={"origin": "https://evil.example", **asks})
            assert other.status == 403
            assert "access-control-allow-origin" not in other.headers

    run(test())
