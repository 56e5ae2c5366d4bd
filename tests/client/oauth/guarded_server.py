"""A server whose users sign in at a provider: `guarded_server.py PORT ISSUER`."""

import sys

from redstart import Server, SyncContext
from redstart.auth import JWT, fetch

fetch.SECONDS = 20.0  # type: ignore[misc]  # a machine that runs tests may be slow
port, issuer = int(sys.argv[1]), sys.argv[2]
server = Server("guarded", auth=JWT(issuer=issuer, audience=f"http://127.0.0.1:{port}/mcp", scopes="notes"))


@server.tool
def whoami(ctx: SyncContext) -> str:
    return str(ctx.user.subject)


@server.tool(scopes=["notes:write"])
def write(ctx: SyncContext) -> str:
    return f"written by {ctx.user.subject}"


server.run("http", port=port)
