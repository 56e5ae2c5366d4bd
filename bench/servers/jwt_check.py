"""CPU µs of a JWT check whose token was checked a moment ago, as one line of JSON. The issuer is a thread."""

import asyncio
import importlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from joserfc import jwt
from joserfc.jwk import ECKey

from redstart.auth import JWT

importlib.import_module("httpx2")  # not in the five seconds that the issuer has for its answer
TIMES = 20_000
KEY = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})


class Issuer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


async def main() -> None:
    issuer = HTTPServer(("127.0.0.1", 0), Issuer)
    threading.Thread(target=issuer.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{issuer.server_port}"
    auth = JWT(issuer=url, audience="https://mcp.example.com/mcp", jwks_uri=f"{url}/keys")
    now = int(time.time())
    claims = {"iss": url, "aud": "https://mcp.example.com/mcp", "sub": "ada", "iat": now, "exp": now + 3600}
    token = jwt.encode({"alg": "ES256", "kid": "one"}, {**claims, "scope": "mcp", "client_id": "x" * 36}, KEY)
    begin = time.process_time()
    user = await auth.verify(token)
    first = time.process_time() - begin
    assert user is not None
    assert auth.remembered(token) == user
    begin = time.process_time()
    for _ in range(TIMES):
        auth.remembered(token)
    print(json.dumps({"first_us": first * 1e6, "cached_us": (time.process_time() - begin) / TIMES * 1e6}))


asyncio.run(main())
