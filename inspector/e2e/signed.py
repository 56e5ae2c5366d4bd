"""A server that wants a sign-in, and the authorization server for it: one page with one link."""

from __future__ import annotations

import secrets

from redstart import Context, Server
from redstart.transports.routes import Request

TOKEN = secrets.token_urlsafe()
server = Server("signed", auth=lambda token: {"sub": "ada"} if token == TOKEN else None)


@server.tool
async def whoami(ctx: Context) -> str:
    """Say who calls."""
    return str(ctx.user["sub"])


@server.route("/.well-known/oauth-authorization-server")
def metadata(request: Request) -> dict[str, object]:
    here = f"http://{request.headers['host']}"
    return {
        "issuer": here,
        "authorization_endpoint": f"{here}/authorize",
        "token_endpoint": f"{here}/token",
        "registration_endpoint": f"{here}/register",
        "code_challenge_methods_supported": ["S256"],
    }


@server.route("/register", methods=["POST"])
def register() -> dict[str, object]:
    return {"client_id": "page"}


@server.route("/authorize")
def authorize(request: Request) -> tuple[int, dict[str, str], str]:
    back = f"{request.query['redirect_uri']}?code=1&state={request.query['state']}"
    asks = f"{request.query['client_id']} asks for {request.query.get('scope', 'nothing')}"
    page = f'<!doctype html><title>Sign in</title><p>{asks}</p><a href="{back}">I am Ada</a>'
    return 200, {"Content-Type": "text/html"}, page


@server.route("/token", methods=["POST"])
def token() -> dict[str, object]:
    return {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 600}
