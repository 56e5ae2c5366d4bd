"""`redstart doctor https://…`: the way to a server on the network, one step after the other."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from redstart.cli.configs.launch import Launch
from redstart.cli.installation import Report, redacted
from redstart.cli.start import StartError, Visit, visit

MOST = 1 << 16
"""How many bytes of a document are read."""
SOON = 14 * 24 * 3600
"""A certificate that ends within these seconds is a warning."""


class UrlCase:
    """What is examined, and what later steps need."""

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self.url, self.headers, self.seconds = url, headers, seconds
        self.parts = urlsplit(url)
        self.host = self.parts.hostname or ""
        self.port = self.parts.port or (443 if self.parts.scheme == "https" else 80)
        self.answer: Visit | None = None


def dns(case: UrlCase) -> Report:
    try:
        found = socket.getaddrinfo(case.host, case.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Report("fail", f"{case.host}: {error.strerror or error}", "look at the name, and at the network")
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    return Report("ok", f"{case.host} is {', '.join(addresses[:4])}")


def tcp(case: UrlCase) -> Report:
    began = time.perf_counter()
    try:
        with socket.create_connection((case.host, case.port), timeout=case.seconds):
            pass
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        advice = "is the server running, and does it listen on this address?"
        return Report("fail", f"port {case.port}: {reason}", advice)
    return Report("ok", f"port {case.port} answers after {1000 * (time.perf_counter() - began):.0f} ms")


def tls(case: UrlCase) -> Report:
    if case.parts.scheme != "https":
        local = case.host in ("localhost", "127.0.0.1", "::1")
        advice = "" if local else "tokens and data are readable on the way; serve it over https"
        return Report("ok" if local else "warn", "not used (http)", advice)
    try:
        with (
            socket.create_connection((case.host, case.port), timeout=case.seconds) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=case.host) as secure,
        ):
            certificate, version = secure.getpeercert() or {}, secure.version()
    except ssl.SSLCertVerificationError as error:
        advice = "renew the certificate, or add its issuer to the trust store of this machine"
        return Report("fail", error.verify_message, advice)
    except OSError as error:
        return Report("fail", str(error), "does this port speak TLS?")
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    if ends - time.time() < SOON:
        return Report("warn", f"{version}; the certificate ends {certificate['notAfter']}", "renew it")
    return Report("ok", f"{version}; the certificate is valid until {certificate['notAfter']}")


def metadata(case: UrlCase) -> Report:
    """The protected-resource metadata of RFC 9728, below the path first and then at the root."""
    root = "/.well-known/oauth-protected-resource"
    tried = []
    for path in dict.fromkeys((root + case.parts.path.rstrip("/"), root)):
        try:
            status, data = _get(case, path)
        except (OSError, http.client.HTTPException) as error:
            return Report("fail", f"GET {path}: {error}", "does this port speak HTTP?")
        tried.append(f"{path} is {status}")
        if status == 200:
            return _described(path, data)
    return Report("ok", f"none: {'; '.join(tried)}", "a server without OAuth has none")


def _described(path: str, data: bytes) -> Report:
    try:
        document = json.loads(data)
        servers, resource = document.get("authorization_servers") or [], document["resource"]
    except (ValueError, KeyError, AttributeError):
        return Report("fail", f"{path} is not a JSON object with `resource`", "clients cannot find where to log in")
    issuers = ", ".join(map(str, servers)) or "no authorization server"
    return Report("ok", f"{resource}; {issuers}")


def _get(case: UrlCase, path: str) -> tuple[int, bytes]:
    kind = http.client.HTTPSConnection if case.parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(case.host, case.port, timeout=case.seconds)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(MOST)
    finally:
        connection.close()


def version(case: UrlCase) -> Report:
    try:
        case.answer = answer = visit(Launch(url=case.url, headers=case.headers), case.seconds)
    except StartError as error:
        return Report("fail", redacted(error.reason), error.advice)
    if answer.authorization:
        return Report("skip", "it wants authorization before it answers")
    return Report("ok", f"{answer.name} {answer.version} speaks {answer.revision}; {answer.tools} tools")


def auth(case: UrlCase) -> Report:
    if case.answer is None or not case.answer.authorization:
        given = "accepted" if any(name.lower() == "authorization" for name in case.headers) else "not asked for"
        return Report("ok", f"a token is {given}")
    if any(name.lower() == "authorization" for name in case.headers):
        return Report("fail", "the token is refused (401)", "is it expired, and is it for this resource?")
    return Report("fail", "a token is needed (401)", "give one: --header 'Authorization: Bearer …'")


STEPS = (
    ("dns", dns, ""),
    ("tcp", tcp, "dns"),
    ("tls", tls, "tcp"),
    ("metadata", metadata, "tls"),
    ("version", version, "tls"),
    ("auth", auth, "version"),
)
"""The name of each step, the function that looks, and the step that must succeed before."""
