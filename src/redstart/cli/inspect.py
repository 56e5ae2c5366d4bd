"""`redstart inspect URL | TARGET | --config FILE | -- COMMAND`: the page of the inspector for any MCP server.

The page speaks with us, and we pass each message on: see `client/relay.py`. On loopback only.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from redstart.cli.connect import Place, connection_options, place
from redstart.cli.output import CONNECT, CommandError
from redstart.cli.terminal import Lines
from redstart.client.config import from_config, servers_of
from redstart.client.errors import ClientError
from redstart.client.oauth.grants import Attempt, Browser, OAuth
from redstart.client.oauth.receiver import open_browser
from redstart.client.oauth.tokens import TokenSet
from redstart.client.options import ClientOptions
from redstart.client.stdio import StdioTransport
from redstart.client.target import transport_for
from redstart.client.transport import Transport
from redstart.features.rules import checked
from redstart.inspector.events import LogEvent, UpstreamEvent
from redstart.inspector.page import InspectorPages, refuse
from redstart.inspector.relaying import RelayHost
from redstart.inspector.session import inspecting, listener_near
from redstart.transports.loop import run_loop
from redstart.transports.options import transport_options
from redstart.transports.request import HttpRequest

DRAIN: Final = 0.5
KEPT_LINES: Final = 200
"""The last lines of the server's stderr that the state has."""
MAX_LINE: Final = 4000
OF_ONE: Final = ("header", "env", "token", "oauth")
"""Options for a single server: a file says these for each of its own."""


def act(arguments: argparse.Namespace) -> int:
    inspection = Inspection(*_upstreams(arguments))
    if arguments.oauth:
        inspection.offer_sign_in(_say if arguments.no_open else open_browser)
    listener = listener_near(arguments.port)
    _, http = transport_options("run", "http", {"listener": listener, "drain": DRAIN})
    host = inspection.host

    async def serve() -> None:
        host.ring.listeners.append(Lines(sys.stderr, host.seen.clients).show)
        async with inspecting(host, inspection.pages, http, open_browser=not arguments.no_open) as web:
            await web

    run_loop(serve())
    return 0


def _say(url: str) -> None:
    sys.stderr.write(f"Sign in at {url}\n")


# ---------------------------------------------------------------- what is inspected


class Inspected(Struct):
    """One server that can be inspected: a URL, or a command that starts it."""

    name: str
    shown: str
    target: str | list[str]
    given: ClientOptions
    """The options of the terminal or of the file."""
    settings: dict[str, object] = {}
    """What the page has set instead."""
    wrong: str | None = None
    """Why its entry cannot be used."""
    sign_in: str | None = None
    """Where a person has to sign in, as long as that is waited for."""
    lines: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    @property
    def kind(self) -> str:
        return "http" if isinstance(self.target, str) else "stdio"

    def connect(self, heard: Callable[[str], None]) -> Transport:
        if self.wrong is not None:
            raise ClientError(self.wrong)
        if isinstance(self.target, str):
            return transport_for(self.target, cast(ClientOptions, {**self.given, **self.settings}))
        return HeardStdio(self.target, self.given, heard)


def _upstreams(arguments: argparse.Namespace) -> tuple[str, list[Inspected]]:
    """What was typed, and the servers that it means."""
    file, target = arguments.config, arguments.target
    if file is None and target is not None and target.endswith(".json") and not target.startswith("http"):
        file, target = target, None
    if file is None:
        where = place(arguments.target, arguments.passed_on)
        return where.shown, [Inspected("", where.shown, where.target, _given(arguments, where))]
    wrong = [
        f"--{name}" for name in OF_ONE if getattr(arguments, name) and (name != "token" or _typed_token(arguments))
    ]
    if target is not None or arguments.passed_on or wrong:
        given = wrong[0] if wrong else "another target"
        raise CommandError(f"{given} is for one server, and {file} has several: it says how each is reached")
    options = _options({"timeout": arguments.timeout, "stderr": "capture" if arguments.quiet else "inherit"})
    try:
        names = servers_of(file)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not names:
        raise CommandError(f"{file} has no servers")
    return file, [_configured(file, name, options) for name in names]


def _configured(file: str, name: str, options: ClientOptions) -> Inspected:
    """A server of a file. One that is wrong is shown as such: the others can be used."""
    try:
        target, given = from_config(file, cast(ClientOptions, {**options, "server": name}))
    except ValueError as error:
        return Inspected(name, name, [], options, wrong=str(error))
    target = cast(str | list[str], target)
    shown = target if isinstance(target, str) else " ".join(target)
    return Inspected(name, shown, target, cast(ClientOptions, {**given, "server": None}))


def _given(arguments: argparse.Namespace, where: Place) -> ClientOptions:
    if arguments.oauth and not isinstance(where.target, str):
        raise CommandError("--oauth is for a URL: a server that is started has nobody to sign in to")
    if arguments.oauth and _typed_token(arguments):
        raise CommandError("give either --token or --oauth: --oauth gets a token")
    return _options(connection_options(arguments, where))


def _typed_token(arguments: argparse.Namespace) -> bool:
    """Whether there is a token that does not come from the environment, where it is for servers that want one."""
    return bool(arguments.token) and arguments.token != os.environ.get("REDSTART_TOKEN")


def _options(given: dict[str, object]) -> ClientOptions:
    try:
        return checked(ClientOptions, "a Client", given, before="", also=())
    except TypeError as error:
        raise CommandError(str(error)) from None


# ---------------------------------------------------------------- the page


class SignInWanted(Struct, rename="camel", forbid_unknown_fields=True):
    """How the page wants to sign in."""

    client_id: str = ""
    client_secret: str = ""
    scopes: str = ""


class AccessWanted(Struct, forbid_unknown_fields=True):
    """What the page sets for a server behind a URL."""

    token: str = ""
    headers: dict[str, str] = {}
    oauth: SignInWanted | None = None


class Inspection:
    """One run of `redstart inspect`."""

    def __init__(self, target: str, upstreams: Sequence[Inspected]) -> None:
        self._upstreams = {one.name: one for one in upstreams}
        self._now = upstreams[0]
        try:
            if self._now.wrong is None:
                self._connect()  # a wrong target fails here, not later
        except ClientError as error:
            raise CommandError(str(error), CONNECT) from None
        except (TypeError, ValueError) as error:
            raise CommandError(str(error)) from None
        token = secrets.token_urlsafe(24)
        self.host = RelayHost(target, self._connect, token)
        self.host.use(self._now.name, self._connect)
        self.pages = InspectorPages(self.host, mode="inspect", target=target, token=token, facts=self._facts)
        self.pages.cookie = f"{self.host.cookie}; Path={self.pages.path}; HttpOnly; SameSite=Strict"
        self.pages.actions |= {("POST", "use"): self._use, ("POST", "upstream"): self._set}
        self.host.pages = self.pages

    def _connect(self) -> Transport:
        now = self._now
        return now.connect(lambda line: self._heard(now, line))

    def _heard(self, upstream: Inspected, line: str) -> None:
        upstream.lines.append(line[:MAX_LINE])
        self.host.ring.add(LogEvent(level="info", logger="stderr", text=line[:MAX_LINE], source="stderr"))

    def _facts(self) -> Mapping[str, object]:
        now = self._now
        known = {"name": now.name, "kind": now.kind, "shown": now.shown, "signIn": now.sign_in}
        state = {"open": self.host.is_open, "error": self.host.error, "revision": self.host.revision}
        servers = [{"name": one.name, "kind": one.kind, "shown": one.shown} for one in self._upstreams.values()]
        return {"upstream": {**known, **state, "log": list(now.lines)}, "servers": servers}

    # ------------------------------------------------------------ what the page asks for

    async def _use(self, request: HttpRequest) -> None:
        """Inspect another server of the file."""
        query = parse_qs(request.scope.get("query_string", b"").decode("latin-1"))
        found = self._upstreams.get(query.get("server", [""])[0])
        if found is None:
            await refuse(request, 404, "There is no such server in the file")
            return
        self._now = found
        self.host.use(found.name, self._connect)
        self.host.ring.add(UpstreamEvent(name=found.name, sign_in=found.sign_in))
        await request.reply(204, b"", [])

    async def _set(self, request: HttpRequest) -> None:
        """Reach the server with another token or other headers, or sign in to it."""
        now = self._now
        if now.kind != "http":
            await refuse(request, 409, "Tokens and headers are for a URL")
            return
        before = now.settings
        try:
            now.settings = self._settings(now, msgspec.json.decode(await request.body(), type=AccessWanted))
            self._connect()
        except (TypeError, ValueError, ClientError) as error:
            now.settings = before
            await refuse(request, 400, str(error)[:500])
            return
        self.host.use(now.name, self._connect)
        await request.reply(204, b"", [])

    def _settings(self, upstream: Inspected, wanted: AccessWanted, shown: Browser | None = None) -> dict[str, object]:
        headers = {**(upstream.given.get("headers") or {}), **wanted.headers}
        found: dict[str, object] = {}
        if wanted.token or wanted.oauth is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            found["token"] = wanted.token or None
        if wanted.oauth is not None:
            found |= {"token": None, "auth": self._sign_in(upstream, wanted.oauth, shown)}
        return {**found, "headers": headers or None}

    def offer_sign_in(self, shown: Browser) -> None:
        """As if the page had asked for it, and the terminal shows where: `--oauth`."""
        self._now.settings = self._settings(self._now, AccessWanted(oauth=SignInWanted()), shown)

    def _sign_in(self, upstream: Inspected, wanted: SignInWanted, shown: Browser | None) -> OAuth:
        def offer(url: str | None) -> None:
            upstream.sign_in = url
            self.host.ring.add(UpstreamEvent(name=upstream.name, sign_in=url))
            if url is not None and shown is not None:
                shown(url)

        return OfferedSignIn(offer, wanted)


class OfferedSignIn(OAuth):
    """A sign-in whose page the inspector offers; `offer` gets its URL, and None at the end."""

    def __init__(self, offer: Callable[[str | None], None], wanted: SignInWanted) -> None:
        super().__init__(
            client_id=wanted.client_id or None,
            client_secret=wanted.client_secret or None,
            client_name="redstart inspect",
            scopes=wanted.scopes.split(),
            browser=offer,
        )
        self._offer = offer

    async def obtain(self, attempt: Attempt) -> TokenSet:
        try:
            return await super().obtain(attempt)
        finally:
            self._offer(None)


class HeardStdio(StdioTransport):
    """A server as a process, whose stderr is shown line by line."""

    def __init__(self, command: Sequence[str], options: ClientOptions, heard: Callable[[str], None]) -> None:
        super().__init__(command, options)
        self._heard = heard
        self._rest = ""

    def _remember_stderr(self, text: str) -> None:
        super()._remember_stderr(text)
        *lines, self._rest = (self._rest + text)[-KEPT_LINES * MAX_LINE :].split("\n")
        for line in lines:
            self._heard(line)
