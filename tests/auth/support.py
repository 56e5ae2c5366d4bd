"""An authorization server that tests start: real HTTP on loopback, and keys that are made for the test."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

AUDIENCE = "https://mcp.example.com/mcp"
Answer = tuple[int, dict[str, str], bytes]


class Issuer:
    """Documents at paths, and what was asked for."""

    def __init__(self) -> None:
        self.documents: dict[str, Callable[[bytes], Answer]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.keys: list[Key] = [RSAKey.generate_key(2048, parameters={"kid": "one", "alg": "RS256", "use": "sig"})]
        self.url = ""

    def serve(self, path: str, document: object, status: int = 200, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.documents[path] = lambda form: (status, headers, body)

    def publish(self, metadata: str = "/.well-known/openid-configuration") -> None:
        """Serve the metadata, and whatever keys there are when they are asked for."""
        self.serve(metadata, {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})
        self.documents["/jwks"] = lambda form: (200, {}, json.dumps(self.jwks()).encode())

    def jwks(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def token(self, claims: dict[str, Any] | None = None, *, key: Key | None = None, **head: Any) -> str:
        key = key or self.keys[0]
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 600, "scope": "mcp read"}
        merged = {name: value for name, value in {**said, **(claims or {})}.items() if value is not None}
        header = {"alg": "RS256", "kid": key.kid, **head}
        header = {name: value for name, value in header.items() if value is not None}
        return jwt.encode(header, merged, key, algorithms=[header["alg"]])


def new_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", parameters={"kid": kid})


@contextmanager
def issuing(tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            form = self.rfile.read(int(self.headers.get("content-length", 0)))
            issuer.asked.append(self.path)
            issuer.headers.append({name.lower(): value for name, value in self.headers.items()})
            missing: Answer = 404, {}, b"{}"
            answer = issuer.documents.get(self.path)
            status, headers, body = answer(form) if answer is not None else missing
            self.send_response(status)
            length = {} if "transfer-encoding" in headers else {"content-length": str(len(body))}
            for name, value in {**length, **headers}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # a client may read no further than it has to
                self.end_headers()
                self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        issuer.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
