"""Whole HTTP requests to fuzz with: methods, paths, queries, headers, tokens, sessions and bodies, mostly right."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from .mutate import NASTY, REVISIONS, Mutator

PATHS = (
    "/mcp/", "/", "", "/sse", "/messages", "/messages/", "/healthz", "/readyz", "/hook", "/hook/", "/broken",
    "//mcp", "/mcp//",
    "/MCP", "/mcp/../mcp", "/mcp;x", "/mcp%2f", "/mcp\x00", "/..", "/../../etc/passwd", "/metrics", "/favicon.ico", "*",
    "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/", "/.well-known/oauth-protected-resource/other",
    "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/é", "/\ud800", "/" + "a" * 3000,
)  # fmt: skip
VERBS = ("GET", "GET", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH", "TRACE", "CONNECT", "post", "X", "A" * 40)
HOSTS = (
    "localhost:8000", "127.0.0.1", "[::1]:80", "[::1", "LOCALHOST", "evil.example", "localhost.evil.example", "",
    ":", "a:b",
    "localhost:99999", "localhost:١", "u@localhost", "x\", error=\"y", "é", "localhost, evil.example", "a" * 3000,
)  # fmt: skip
ORIGINS = (
    "http://localhost:3000", "https://app.example.com", "https://evil.example", "null", "", "file://",
    "http://localhost.evil",
    "https://app.example.com.evil", "javascript:alert(1)", "http://[::1", "http://127.0.0.1@evil.example", "é",
)  # fmt: skip
KINDS = (
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "text/plain",
    "",
    "application/jsonx",
    ";",
    "multipart/form-data",
)
ACCEPTS = (
    "application/json", "text/event-stream", "*/*", "", "text/*;q=0.5", "application/json;q=0",
    "q=", ',";', "*/*;q=nan",
    "application/json, text/event-stream;q=" + "9" * 400, '"' * 500, "a" * 5000,
)  # fmt: skip
SIZES = ("0", "-1", "+5", "5", "99999999999999999999999", "1e3", "x", "", "٣", "5, 5")
NAMES = (
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-param-text",
    "last-event-id",
    "x",
    "cookie",
)
OTHERS: tuple[tuple[str, str], ...] = (
    ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "[::1]:5, x, , 1.2.3.4:99999"), ("x-forwarded-host", ""),
    ("x-forwarded-proto", "\xff"), ("x-forwarded-host", "[::1"), ("x-forwarded-for", "," * 2000),
    ("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example"),
    ("forwarded", "for=_x"),
    ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization, mcp-method"),
    ("access-control-request-headers", "\x00"), ("last-event-id", "0"), ("last-event-id", "-1"),
    ("last-event-id", "9" * 400),
    ("last-event-id", "é"), ("last-event-id", "1-1"), ("expect", "100-continue"), ("upgrade", "websocket"),
    ("transfer-encoding", "chunked"), ("transfer-encoding", "gzip"), ("content-encoding", "gzip"),
    ("connection", "close"),
    ("traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"), ("cookie", "a=b; c"),
    ("x-http-method-override", "DELETE"),
)  # fmt: skip
QUERIES = (
    b"access_token=good",
    b"a=1&a=2&&=&%",
    b"session_id=x",
    b"%ff=%00",
    b"sessionId=",
    b"&" * 2000,
    b"\xff",
    b"x=" + b"y" * 3000,
)
MAX_SESSIONS = 20
MIN_SESSIONS = 3


@dataclass
class Request:
    """One request; a list of parts is a body that comes in pieces."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    parts: list[bytes]
    query: bytes = b""
    root: str = ""
    leaves: bool = False
    """Whether the client goes away before its body is complete."""
    message: bytes = field(default=b"", repr=False)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def pairs(self) -> list[tuple[bytes, bytes]]:
        """The headers as an ASGI server gives them."""
        return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in self.headers]


class Requests:
    """An endless source of requests, the same for the same seed and the same sessions."""

    def __init__(self, mutator: Mutator, tokens: list[str]) -> None:
        self.mutator = mutator
        self.random = mutator.random
        self.tokens = tokens
        self.sessions: list[dict[str, str]] = []
        """The headers of sessions that the server has opened."""
        self.events: list[str] = []
        self.streams: list[bytes] = []
        """The queries of the paths that /sse has named."""

    @property
    def needs_session(self) -> bool:
        return len(self.sessions) < MIN_SESSIONS

    def opening(self) -> Request:
        """A handshake that must be answered with a session."""
        revision = self.random.choice(REVISIONS)
        body = {"jsonrpc": "2.0", "id": "i", "method": "initialize"}
        capabilities: dict[str, Any] = {"elicitation": {}} if self.random.random() < 0.3 else {}
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "f", "version": "1"},
        }
        headers = [*self._usual(), *self._token(good=True)]
        return Request("POST", "/mcp", headers, [json.dumps({**body, "params": params}).encode()])

    def opened(self, request: Request, id: str) -> None:
        """Remember a session with the token of who has opened it."""
        kept = {name: value for name, value in request.headers if name == "authorization"}
        revision = json.loads(request.body)["params"]["protocolVersion"]
        self.sessions.append({**kept, "mcp-session-id": id, "mcp-protocol-version": revision})
        del self.sessions[:-MAX_SESSIONS]

    def ended(self, request: Request) -> None:
        """Forget the session of a request that was told so, or that has ended it."""
        id = dict(request.headers).get("mcp-session-id")
        self.sessions = [session for session in self.sessions if session["mcp-session-id"] != id]

    def next(self) -> Request:
        pick = self.random.random
        message = self.mutator.message() if pick() < 0.93 else self._garbage()
        method = "POST" if pick() < 0.8 else self.random.choice(VERBS)
        path = "/mcp" if pick() < 0.8 else self.random.choice(PATHS)
        request = Request(method, path, self._headers(message, method), [message], message=message)
        if path.startswith("/messages") and self.streams and pick() < 0.8:
            request.query = self.random.choice(self.streams)
        elif pick() < 0.05:
            request.query = self.random.choice(QUERIES)
        if pick() < 0.03:
            request.root = self.random.choice(("/app", "/mcp", "/", "/app/"))
            request.path = request.root.rstrip("/") + request.path if pick() < 0.7 else request.path
        if pick() < 0.05:
            at = self.random.randrange(len(message) + 1)
            request.parts = [message[:at], b"", message[at:]]
            request.leaves = pick() < 0.3
        return request

    # ------------------------------------------------------------ parts

    def _usual(self) -> list[tuple[str, str]]:
        accept = "application/json, text/event-stream"
        return [("host", "localhost"), ("content-type", "application/json"), ("accept", accept)]

    def _headers(self, message: bytes, method: str) -> list[tuple[str, str]]:
        pick = self.random.random
        sent = dict(self._usual())
        ours = self.mutator.headers(message)
        if (not ours or method != "POST") and self.sessions and pick() < 0.85:
            session = dict(self.random.choice(self.sessions))
            if pick() < 0.05:
                session["mcp-session-id"] = self._bend(session["mcp-session-id"])
            if self.events and method == "GET" and pick() < 0.5:
                session["last-event-id"] = self.random.choice(self.events)
            sent |= session
        else:
            sent |= ours
        if "authorization" not in sent or pick() < 0.1:
            sent |= dict(self._token())
        for name, values in (("host", HOSTS), ("origin", ORIGINS), ("content-type", KINDS), ("accept", ACCEPTS)):
            if pick() < 0.03:
                sent[name] = self.random.choice(values)
        pairs = list(sent.items())
        if pick() < 0.03:
            pairs.append(("content-length", self.random.choice(SIZES)))
        if pick() < 0.06:
            pairs.append(self.random.choice(OTHERS))
        if pick() < 0.03:
            pairs.append((self.random.choice(NAMES), _text(self.random.choice(NASTY))))
        if pick() < 0.02:
            pairs.append(self.random.choice(pairs))
        if pick() < 0.02:
            del pairs[self.random.randrange(len(pairs))]
        if pick() < 0.01:
            pairs += [(f"x-{number}", "y") for number in range(self.random.choice((50, 300)))]
        return pairs

    def _token(self, good: bool = False) -> list[tuple[str, str]]:
        if not self.tokens:
            return []
        pick = self.random.random
        token = self.random.choice(
            self.tokens if pick() < 0.9 or good else ("x", "", "a.b.c", "." * 50, "e30.e30.", "x" * 17000)
        )
        if not good and pick() < 0.2:
            token = self._bend_token(token)
        scheme = (
            "Bearer"
            if good or pick() < 0.97
            else self.random.choice(("bearer", "Basic", "", "Bearer\t", "Bearer Bearer"))
        )
        return [] if not good and pick() < 0.05 else [("authorization", f"{scheme} {token}")]

    def _bend_token(self, token: str) -> str:
        """Another token: a part of it changed as JSON, or one of its characters."""
        parts = token.split(".")
        if self.random.random() < 0.5 or len(token) < 100 or len(parts) != 3:
            return self._bend(token)
        place = self.random.randrange(2)
        value = json.loads(base64.urlsafe_b64decode(parts[place] + "=="))
        value[self.random.choice((*value, "crit", "jwk", "jku", "b64", "zip"))] = self.random.choice(
            (
                "none",
                "HS256",
                "RS256",
                "ES256",
                None,
                0,
                -1,
                1e300,
                True,
                [],
                {},
                "x" * 300,
                [["x"]],
                "\ud800",
                "../../x",
            )
        )
        parts[place] = base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
        return ".".join(parts)

    def _bend(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        return text[:at] + self.random.choice(("", "A", "=", "é", ".", "\x7f")) + text[at + self.random.randint(0, 2) :]

    def _garbage(self) -> bytes:
        match self.random.randrange(5):
            case 0:
                return b""
            case 1:
                return self.random.randbytes(self.random.randint(1, 200))
            case 2:
                return b"x" * 70_000  # more than the server takes
            case 3:
                return b"a=1&b=2"
            case _:
                return b"[" + b",".join(self.mutator.message() for _ in range(3)) + b"]"


def _text(value: Any) -> str:
    return str(value).encode("latin-1", "replace").decode("latin-1").replace("\n", " ")
