"""The paths of the inspector beside the endpoint: the page, the state, the events, a few actions.

Host and Origin were checked by the endpoint. What is not a static file needs the token of this process, which only the
person who started it has seen. Nothing here starts a program or names a file of the caller's choice.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import platform
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import msgspec

from redstart.inspector.events import MessageEvent, ReloadEvent
from redstart.inspector.failure import SourcePlace, place_of
from redstart.inspector.host import Host
from redstart.inspector.redaction import shown_headers
from redstart.protocol.handshake import REVISIONS
from redstart.protocol.modern import SUPPORTED
from redstart.transports.request import JSON, HeaderList, HttpRequest
from redstart.transports.stream import Writer
from redstart.wire.jsonrpc import encode

BASE: Final = "/_redstart/"
TOKEN: Final = b"x-redstart-token"
STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
    ".json": b"application/json",
    ".webmanifest": b"application/manifest+json",
}
POLICY: Final = (
    b"default-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    b"connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE: Final[HeaderList] = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
UNCACHED: Final = (b"cache-control", b"no-store")
NO_BUNDLE: Final = (
    b"<!doctype html><title>redstart</title><p>The page of the inspector is not part of this installation."
)
MAX_NUMBER: Final = 15

Facts = Callable[[], Mapping[str, object]]
Action = Callable[[HttpRequest], Awaitable[None]]


class InspectorPages:
    """What is served at `/` and below `/_redstart/`. `facts` are the parts of the state that the command knows."""

    def __init__(
        self,
        host: Host,
        *,
        mode: str,
        target: str,
        path: str = "/mcp",
        token: str | None = None,
        facts: Facts = dict,
        reload: Callable[[], Awaitable[ReloadEvent]] | None = None,
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.endpoint = ""
        """Where clients find it, once it listens."""
        self.cookie = ""
        """Set in the browser that has the token, where the endpoint asks for it."""
        self.used = asyncio.Event()
        """Set when somebody has shown the token."""
        self._host = host
        self._mode = mode
        self.target = target
        self.path = path
        self._facts = facts
        self._reload = reload
        self._started = time.time()
        self._files: dict[str, tuple[bytes, bytes]] = {}
        self.actions: dict[tuple[str, str], Action] = {
            ("GET", "state"): self._state,
            ("GET", "events"): self._events,
            ("POST", "reload"): self._reload_now,
            ("POST", "forget"): self._forget,
        }
        """By method and name below `/_redstart/`. A command may add its own."""
        self.merge: Callable[[dict[str, object]], None] = lambda state: None
        """Adds what other processes have told."""
        self.gather: Callable[[], Awaitable[None]] | None = None
        """Asks them."""

    # ------------------------------------------------------------ requests

    async def serve(self, request: HttpRequest) -> bool:
        path, method = request.path, request.scope["method"]
        if path in ("/", BASE) and method in ("GET", "HEAD"):
            if path == "/" and "/" in self._host.routes:
                return False
            await self._static(request, "index.html")
            return True
        if not path.startswith(BASE):
            return False
        name = path.removeprefix(BASE)
        if name.startswith("static/") and method in ("GET", "HEAD"):
            await self._static(request, name.removeprefix("static/"))
            return True
        action = self.actions.get((method, name))
        if action is None:
            await refuse(request, 404, f"The inspector has nothing at {method} {path[:200]}")
        elif not hmac.compare_digest(request.headers.get(TOKEN, b""), self.token.encode()):
            await refuse(request, 401, "The token is missing or wrong: open the URL that the terminal shows")
        else:
            self.used.set()
            await action(request)
        return True

    def refused(self, request: HttpRequest) -> None:
        """Show a request that no client can be told of: a wrong token, a foreign page, a session that has ended."""
        if not request.reason or request.path.startswith(BASE):
            return
        self._host.ring.add(
            MessageEvent(
                client="",
                direction="out",
                type="error",
                status=request.status,
                text=request.reason[:1000],
                method=f"{request.scope['method']} {request.path[:200]}",
                headers=shown_headers(request.headers, strict=self._host.seen.strict),
            )
        )

    # ------------------------------------------------------------ static files

    async def _static(self, request: HttpRequest, name: str) -> None:
        found = self._file(name)
        if found is None:
            missing = name == "index.html"
            status, body = (503, NO_BUNDLE) if missing else (404, b"there is no such file")
            await request.reply(status, body, [(b"content-type", TYPES[".html"]), *SAFE])
            return
        body, tag = found
        kept: HeaderList = [(b"etag", tag), (b"cache-control", b"no-cache"), *SAFE]
        if request.headers.get(b"if-none-match") == tag:
            await request.reply(304, b"", kept)
        else:
            await request.reply(200, body, [(b"content-type", TYPES[Path(name).suffix]), *kept])

    def _file(self, name: str) -> tuple[bytes, bytes] | None:
        """A file of the bundle and its tag. Only names that the folder lists are read."""
        if name not in self._files:
            names = os.listdir(STATIC) if STATIC.is_dir() else []
            if name not in names or Path(name).suffix not in TYPES:
                return None
            body = (STATIC / name).read_bytes()
            self._files[name] = body, b'"%b"' % sha256(body).hexdigest()[:16].encode()
        return self._files[name]

    # ------------------------------------------------------------ the state

    async def _state(self, request: HttpRequest) -> None:
        if self.gather is not None:
            await self.gather()
        cookie = [(b"set-cookie", self.cookie.encode())] if self.cookie else []
        await request.reply(200, encode(self.state()), [JSON, UNCACHED, *SAFE, *cookie])

    def state(self) -> dict[str, object]:
        """All that the page needs to begin."""
        host, seen = self._host, self._host.seen
        info, options = host.served.info, host.served.options
        description = host.description
        registries = {name: getattr(description, name) for name in ("tools", "prompts", "resources", "templates")}
        state: dict[str, object] = {
            "epoch": host.ring.epoch,
            "seq": host.ring.seq,
            "mode": self._mode,
            "redacted": seen.strict,
            "canReload": self._reload is not None,
            "server": {**msgspec.to_builtins(info), "instructions": options["instructions"]},
            "endpoint": self.endpoint,
            "path": self.path,
            "target": self.target,
            "protocols": [*SUPPORTED, *reversed(REVISIONS)],
            "pid": os.getpid(),
            "python": platform.python_version(),
            "redstart": _version(),
            "platform": sys.platform,
            "started": self._started,
            "workers": 1,
            "reload": None,
            "places": {
                name: {key: place for key, item in registry.items.items() if (place := _place(item.declared))}
                for name, registry in registries.items()
            },
            "clients": [msgspec.to_builtins(record) for record in seen.clients],
            "calls": [
                seen.event(tracked, "waiting" if tracked.waits else "running") for tracked in seen.running.values()
            ],
            "tools": {name: tally.shown() for name, tally in seen.tallies.items()},
            "install": [],
            "findings": [],
            "upstream": None,
            **self._facts(),
        }
        self.merge(state)
        return state

    # ------------------------------------------------------------ the events

    async def _events(self, request: HttpRequest) -> None:
        query = parse_qs(request.scope.get("query_string", b"").decode("latin-1"))
        since = query.get("since", [""])[0]
        if since and not (since.isascii() and since.isdigit() and len(since) <= MAX_NUMBER):
            await refuse(request, 400, "since= is the number of an event")
            return
        ring, writer = self._host.ring, Writer(request, [UNCACHED])
        reader = ring.follow(int(since) if since else None, writer.push, writer.close)
        try:
            await writer.until_gone()
        finally:
            ring.leave(reader)

    # ------------------------------------------------------------ actions

    async def _reload_now(self, request: HttpRequest) -> None:
        if self._reload is None:
            await refuse(request, 409, "Nothing is reloaded here: only redstart dev does that")
            return
        await request.reply(200, encode(await self._reload()), [JSON, UNCACHED, *SAFE])

    async def _forget(self, request: HttpRequest) -> None:
        seen = self._host.seen
        self._host.ring.forget()
        seen.tallies.clear()
        seen.clients.forget_gone()
        await request.reply(204, b"", [UNCACHED, *SAFE])


async def refuse(request: HttpRequest, status: int, text: str) -> None:
    """Say what is wrong with a request of the page."""
    await request.reply(status, encode({"error": text}), [JSON, UNCACHED, *SAFE])


def _place(declared: object) -> SourcePlace | None:
    """Where something is declared."""
    file, _, line = str(getattr(declared, "place", "")).rpartition(":")
    return place_of(file, int(line)) if line.isdigit() else None


def _version() -> str:
    from redstart import __version__

    return __version__
