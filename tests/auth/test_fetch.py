"""The fetcher: which addresses it goes to, what it reads from them, and how much."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from auth.support import Issuer, issuing
from redstart.auth.fetch import MAX_BYTES, Fetcher, FetchError, _tls
from redstart.transports.outgoing import is_public
from support import make_certificate, run


@pytest.fixture
def site() -> Iterator[Issuer]:
    with issuing() as site:
        yield site


def got(site: Issuer, path: str = "/doc", **options: Any) -> Any:
    return run(Fetcher([site.url]).get(site.url + path, **options))


def test_a_document(site: Issuer) -> None:
    site.serve("/doc", {"a": 1})
    assert got(site) == {"a": 1}
    assert site.headers[0]["host"] == site.url.removeprefix("http://")
    assert site.headers[0]["accept"] == "application/json"


@pytest.mark.parametrize(
    ("status", "headers", "body", "words"),
    [
        (404, {}, b"{}", "answered 404"),
        (500, {}, b"secret", "answered 500"),
        (200, {}, b"<html>secret", "is not a JSON object"),
        (200, {}, b"[1]", "is not a JSON object"),
        (200, {}, b"\xff", "is not a JSON object"),
        (200, {}, b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "is not a JSON object"),
        (200, {}, b" " * (MAX_BYTES + 1), "is larger than"),
        (200, {"content-encoding": "gzip"}, b"{}", "is compressed"),
        (302, {}, b"secret", "answered 302"),
        (304, {}, b"", "answered 304"),
        (302, {"location": "https://evil.example.com/"}, b"", "redirects to another origin"),
        (302, {"location": "//169.254.169.254/"}, b"", "redirects to another origin"),
        (302, {"location": "https://a]b/"}, b"", "cannot be reached"),
        (302, {"location": "/doc"}, b"", "redirects more than 3 times"),
    ],
)
def test_what_is_not_a_document(site: Issuer, status: int, headers: dict[str, str], body: bytes, words: str) -> None:
    site.serve("/doc", body, status, **headers)
    with pytest.raises(FetchError, match=words) as caught:
        got(site, "/doc")
    assert "secret" not in str(caught.value)


def test_a_body_in_the_smallest_parts_there_are(site: Issuer) -> None:
    """Each chunk is a turn of the loop, whatever is in it: 256 KiB of them kept others waiting for five seconds."""
    parts = b"".join(b"1\r\n \r\n" for _ in range(MAX_BYTES // 2))

    def chunked(form: bytes) -> tuple[int, dict[str, str], bytes]:
        return 200, {"transfer-encoding": "chunked", "connection": "close"}, parts + b"0\r\n\r\n"

    site.documents["/doc"] = chunked
    with pytest.raises(FetchError, match="is larger than"):
        got(site)
    site.documents["/doc"] = lambda form: (200, {"transfer-encoding": "chunked"}, b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n')
    assert got(site) == {"a": 1}


def test_a_redirect_within_the_origin(site: Issuer) -> None:
    site.serve("/doc", b"", 301, location="/there?x=1")
    site.serve("/there?x=1", {"a": 1})
    assert got(site) == {"a": 1}


def test_a_form(site: Issuer) -> None:
    forms: list[bytes] = []

    def answer(form: bytes) -> tuple[int, dict[str, str], bytes]:
        forms.append(form)
        return 200, {}, b'{"active":false}'

    site.documents["/form"] = answer
    fetcher = Fetcher([site.url])
    assert run(fetcher.post(f"{site.url}/form", {"token": "a b"})) == {"active": False}
    assert forms == [b"token=a+b"]
    site.serve("/form", b"", 307, location="/there")
    with pytest.raises(FetchError, match="redirects a POST"):
        run(fetcher.post(f"{site.url}/form", {"token": "s3cret"}))
    assert "/there" not in site.asked


@pytest.mark.parametrize("trusted", [False, True])
def test_https_is_for_a_certificate_that_is_trusted(
    trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    cert, key = make_certificate(tmp_path, "127.0.0.1")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    _tls.cache_clear()
    request.addfinalizer(_tls.cache_clear)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with issuing(context) as secure:
        secure.serve("/doc", {"a": 1})
        if trusted:
            assert got(secure) == {"a": 1}
        else:
            with pytest.raises(FetchError, match="CERTIFICATE_VERIFY_FAILED"):
                got(secure)
            assert secure.asked == []


@pytest.mark.parametrize("method", ["get", "post"])
def test_it_takes_no_longer_than_its_time(method: str, site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def slow(form: bytes) -> tuple[int, dict[str, str], bytes]:
        assert release.wait(30)
        return 200, {}, b"{}"

    site.documents["/slow"] = slow
    monkeypatch.setattr("redstart.auth.fetch.SECONDS", 0.1)
    fetcher, url = Fetcher([site.url]), site.url + "/slow"
    with pytest.raises(FetchError, match=r"did not answer within 0\.1 seconds|Timeout"):
        run(fetcher.get(url) if method == "get" else fetcher.post(url, b"{}"))
    release.set()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://192.0.2.1/", "must begin with https"),
        ("ftp://127.0.0.1/", "is not a URL that can be read"),
        ("file:///etc/passwd", "is not a URL that can be read"),
        ("https://user:secret@127.0.0.1/", "is not a URL that can be read"),
        ("https://127.0.0.1:x/", "is not a URL that can be read"),
        ("https://no-such-name.invalid/", "is not known"),
        ("https://[::1/", "is not a URL that can be read"),
        ("https://[::1]login.example.com/", "is not a URL that can be read"),
        ("https://login.example.com[::1]/", "is not a URL that can be read"),
        ("https://127.0.0.1%2f.example.com/", "is not a URL that can be read"),
        ("https://127.0.0.1\\@login.example.com/", "is not a URL that can be read"),
        ("", "is not a URL that can be read"),
    ],
)
def test_a_url_that_is_refused_from_anybody(url: str, words: str) -> None:
    with pytest.raises(FetchError, match=words):
        run(Fetcher([url]).get(url))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::1]",
     "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::1]", "224.0.0.1", "2130706433",
     "127.1", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "localhost.", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fec0::1]",
     "[::7f00:1]", "[::ffff:0:a00:1]", "[64:ff9b:1::a00:1]", "[3fff::1]", "192.0.0.192", "168.63.129.16"],
)  # fmt: skip
def test_an_address_that_is_not_public_is_only_for_the_operator(host: str) -> None:
    with pytest.raises(FetchError, match="no public address"):
        run(Fetcher(["https://login.example.com"]).get(f"https://{host}/"))


def test_another_port_is_another_origin(site: Issuer) -> None:
    with pytest.raises(FetchError, match="no public address"):
        run(Fetcher(["http://127.0.0.1:1"]).get(site.url))
    assert site.asked == []


def test_public_addresses() -> None:
    assert all(is_public(ip_address(one)) for one in ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"))


def test_a_name_that_was_looked_up_makes_room_for_others(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redstart.auth.fetch.LOOK_UPS", 3)
    site.serve("/doc", {"a": 1})

    async def main() -> None:
        peers = Fetcher([site.url])
        for _ in range(20):
            assert await peers.get(f"{site.url}/doc") == {"a": 1}  # of the operator, which needs none
            with pytest.raises(FetchError, match="no public address"):
                await peers.get("https://127.0.0.1/")

    before = threading.active_count()
    run(main())
    deadline = time.monotonic() + 20
    while threading.active_count() > before:  # each look-up has had its own thread
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_machine_without_threads_has_none_for_a_name_and_loses_no_place(
    site: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redstart.auth.fetch.LOOK_UPS", 2)

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        peers = Fetcher([site.url])
        with monkeypatch.context() as without:
            without.setattr(threading.Thread, "start", no_thread)
            for url in [*["https://127.0.0.1/"] * 3, f"{site.url}/doc"]:
                with pytest.raises(FetchError, match="cannot be reached: OSError: can't start new thread"):
                    await peers.get(url)
        with pytest.raises(FetchError, match="no public address"):
            await peers.get("https://127.0.0.1/")

    run(main())


def test_names_that_are_slow_keep_nobody_else_waiting(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a name decides how long its look-up takes, and no look-up can be ended."""
    monkeypatch.setattr("redstart.auth.fetch.LOOK_UPS", 50)
    site.serve("/jwks", {"keys": []})
    release, slow, look_up = threading.Event(), threading.Semaphore(0), socket.getaddrinfo

    def getaddrinfo(host: str, *more: Any, **options: Any) -> Any:
        if host.endswith(".slow.invalid"):
            slow.release()
            assert release.wait(30)
        return look_up(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def main() -> None:
        peers = Fetcher()
        waiting = [asyncio.create_task(peers.get(f"https://{n}.slow.invalid/client.json")) for n in range(50)]
        await asyncio.to_thread(slow.acquire)  # the default executor is free, although a look-up has begun
        with pytest.raises(FetchError, match="too many names"):
            await peers.get("https://more.slow.invalid/client.json")
        assert await Fetcher([site.url]).get(f"{site.url}/jwks") == {"keys": []}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    try:
        run(main())  # its end waits for the default executor
        assert not release.is_set()
    finally:
        release.set()
