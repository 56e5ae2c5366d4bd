"""The pages that people see while they sign in. What others have written is escaped, and there are no scripts."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from redstart.auth.clients import LOOPBACK, OAuthClient
from redstart.auth.records import Wanted

_PAGE: Final = (Path(__file__).parent / "page.html").read_text("utf-8")
_QUESTION: Final = (Path(__file__).parent / "consent.html").read_text("utf-8")
_STYLE: Final = _PAGE.partition("<style>")[2].partition("</style>")[0]
_MARK: Final = re.compile(r"\{([a-z]+)\}")
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# Without form-action: browsers apply it to the redirects that answer a form too, and those go to the provider.
HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer a form would be sent with the Origin null
    (b"cache-control", b"no-store"),
]


def _filled(template: str, **given: str) -> str:
    """A template with texts in it; what looks like a mark inside of a text stays as it is."""
    return _MARK.sub(lambda mark: given[mark[1]], template)


def _page(title: str, body: str) -> bytes:
    return _filled(_PAGE, title=escape(title), body=body).encode("utf-8", "replace")


def consent(server: str, provider: str, client: OAuthClient, asked: Wanted, action: str, form: str) -> bytes:
    """Asks a person whether a client may use the server on their behalf."""
    parts, vouched = urlsplit(asked.redirect_uri), client.verified_host
    place = parts.hostname or "" if parts.scheme == "https" else f"an application for {parts.scheme}: links"
    given = {"server": server, "provider": provider, "client": client.name, "action": action, "form": form}
    given["origin"] = f"{vouched} vouches for this name" if vouched else "the application has chosen this name itself"
    given["place"] = f"this computer ({parts.hostname})" if parts.hostname in LOOPBACK else place
    given["scopes"] = "\n".join(asked.scopes) or "what everybody may use who signs in"
    escaped = {name: escape(text).replace("\n", "<br>") for name, text in given.items()}
    return _page(f"Allow {client.name} to use {server}?", _filled(_QUESTION, **escaped))


def problem(text: str) -> bytes:
    """Says what went wrong, to a person whose application cannot be told."""
    return _page("Signing in did not work", f"<p>{escape(text)}</p>")
