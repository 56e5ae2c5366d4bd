"""`redstart test`: a server without a mistake passes, and each mistake is found by the check that is for it."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from redstart.cli import main
from support import NOVEMBER, REVISIONS, free_port, serving

BROKEN = [sys.executable, str(Path(__file__).with_name("broken.py"))]
SHOP = str(Path(__file__).parents[1] / "cli" / "shop.py")


def report(capsys: pytest.CaptureFixture[str], *words: str, status: int) -> dict[str, dict[str, str]]:
    """The checks that did not pass, by their text."""
    assert main(["test", "--json", *words]) == status
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) > 10
    return {row["check"]: row for row in rows if row["state"] in ("warn", "fail")}


def test_a_server_without_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(capsys, "--protocol", NOVEMBER, "--", *BROKEN, status=0) == {}


@pytest.mark.parametrize(
    ("fault", "state", "check", "found"),
    [
        ("anonymous", "warn", "the server says its name and version", "its name"),
        ("any version", "fail", "a revision that does not exist is refused, and another one offered", "1900-01-01"),
        ("pong", "fail", "ping is answered with an empty object", "pong"),
        ("any method", "fail", "a method that does not exist is -32601", "succeeds"),
        ("odd code", "fail", "a method that does not exist is -32601", "got -32000"),
        ("text ids", "fail", "ids come back as they were: texts, zero, large numbers", ""),
        ("talkative", "fail", "notifications are not answered", "was answered"),
        ("fragile", "fail", "lines that are not JSON do not end the server", "ended"),
        ("noise", "fail", "stdout holds nothing but messages", "hello from the server"),
        pytest.param(
            *("endless", "warn", "the server ends when its input ends", "five seconds"),
            marks=pytest.mark.slow("it waits these five seconds"),
        ),
        ("any cursor", "warn", "a cursor of tools that does not exist is refused", "succeeds"),
        ("twice", "fail", "tools are listed once each, in a steady order", "more than once"),
        ("unsteady", "warn", "tools are listed once each, in a steady order", "another one each time"),
        ("no name", "fail", "tools are listed once each, in a steady order", "no name"),
        ("bad name", "warn", "tools have names and descriptions that clients can use", "spaced name"),
        ("bad schema", "fail", "the schemas of tools are objects", "not of type object"),
        ("lost property", "fail", "the schemas of tools are objects", "not among its properties"),
        ("any tool", "fail", "a tool that does not exist is refused", "succeeds"),
        ("wrong code", "warn", "a tool that does not exist is refused", "got -32603"),
        ("careless", "fail", "read-only tools refuse missing arguments", "strict succeeds"),
        ("no content", "fail", "results of read-only tools fit their schemas", "no content"),
        ("no structure", "fail", "results of read-only tools fit their schemas", "no structuredContent"),
        ("wrong structure", "fail", "results of read-only tools fit their schemas", "does not fit"),
        ("no uri", "fail", "resources have addresses and names", "is not a URI"),
        ("any resource", "fail", "a resource that does not exist is refused", "succeeds"),
        ("both", "fail", "listed resources can be read", "either text or blob"),
        ("any level", "fail", "log levels are checked", "succeeds"),
    ],
)
def test_each_mistake_is_found(
    fault: str, state: str, check: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--protocol", NOVEMBER, "--timeout", "20", "--", *BROKEN, fault]
    if fault == "text ids":  # no client can use such a server
        assert main(["test", "--timeout", "2", *words[:2], *words[4:]]) == 3
        return
    wrong = report(capsys, *words, status=1 if state == "fail" else 0)
    assert wrong[check]["state"] == state
    assert found in wrong[check]["found"]


def test_our_own_server_in_every_revision(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with serving([sys.executable, "-m", "redstart", "run", SHOP, "--http", "--port", str(port)], port) as url:
        assert main(["test", url, "--all", "--strict"]) == 0
    heard = capsys.readouterr()
    assert heard.out.startswith(f"speaks {', '.join(REVISIONS)}\n")
    assert f"ok    requests from pages of other sites are refused\n      in {', '.join(REVISIONS)}; spec: " in heard.out
    assert "ok    results of read-only tools fit their schemas\n" not in heard.out  # add needs an argument
    assert f"trying {REVISIONS[0]} …\n" in heard.err
    assert "\n5 revisions, " in heard.err
    assert heard.err.endswith(" checks passed, no failure\n")


WEATHER = """
def forecast(city: str) -> str:
    'The weather of tomorrow.'
    return "sunny"
"""


def test_a_server_with_a_tool_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It answers what it does not declare with an empty list in the handshake era, and with an error since."""
    file, port = tmp_path / "weather.py", free_port()
    file.write_text(WEATHER)
    with serving([sys.executable, "-m", "redstart", "run", str(file), "--http", "--port", str(port)], port) as url:
        assert report(capsys, "--strict", url, status=0) == {}


def test_a_report_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--protocol", NOVEMBER, "--", *BROKEN, "pong"]) == 1
    heard = capsys.readouterr()
    assert heard.out.splitlines() == [
        f"speaks {NOVEMBER}",
        "fail  ping is answered with an empty object",
        "      ping is answered with {'pong': True}, and not with an empty object",
        f"      in {NOVEMBER}; spec: basic/utilities/ping",
    ]
    assert heard.err.endswith(" passed, 1 failure\n")


def test_revisions_that_are_not_spoken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--protocol", REVISIONS[0], "--", *BROKEN]) == 3
    assert "speaks none of the revisions that were tried: " in capsys.readouterr().err


class Careless(BaseHTTPRequestHandler):
    """A web server that answers whatever comes, from wherever: each rule of HTTP is broken."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            request = json.loads(body)
        except ValueError:
            request = {"id": None, "method": "ping"}
        result = {"protocolVersion": NOVEMBER, "capabilities": {}, "serverInfo": {"name": "c", "version": "1"}}
        known = {"initialize": result, "ping": {}}.get(request["method"])
        answer = {"result": known} if known is not None else {"error": {"code": -32601, "message": "no"}}
        self._reply(json.dumps({"jsonrpc": "2.0", "id": request.get("id"), **answer}).encode())

    def do_GET(self) -> None:
        self._reply(b"{}")

    def _reply(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None: ...


class Mounted(Careless):
    """The same in a framework that leads from /mcp to /mcp/."""

    def do_POST(self) -> None:
        if not self._led():
            super().do_POST()

    def do_GET(self) -> None:
        if not self._led():
            super().do_GET()

    def _led(self) -> bool:
        if self.path == "/mcp/":
            return False
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(307)
        self.send_header("Location", "/mcp/")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True


class Closed(Careless):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_error(401, "who are you?")


class Web(ThreadingHTTPServer):
    request_queue_size = 64


def test_a_server_that_lets_nobody_in(capsys: pytest.CaptureFixture[str]) -> None:
    with Web(("127.0.0.1", 0), Closed) as web:
        Thread(target=web.serve_forever, daemon=True).start()
        assert main(["test", "--protocol", NOVEMBER, f"http://127.0.0.1:{web.server_port}/mcp"]) == 3
        web.shutdown()
    said = capsys.readouterr().err
    assert "speaks none of the revisions that were tried: " in said
    assert "HTTP 401" in said


@pytest.mark.parametrize("kind", [Careless, Mounted])
def test_the_rules_of_http(kind: type[Careless], capsys: pytest.CaptureFixture[str]) -> None:
    with Web(("127.0.0.1", 0), kind) as web:
        Thread(target=web.serve_forever, daemon=True).start()
        wrong = report(capsys, "--protocol", NOVEMBER, f"http://127.0.0.1:{web.server_port}/mcp", status=1)
        web.shutdown()
    assert set(wrong) == {
        "a body that is not JSON is refused",
        "requests from pages of other sites are refused",
        "GET is a stream, or not allowed",
        "notifications are accepted with 202",
        "a header with an unknown revision is a 400",
        "a session that does not exist is a 404",
    }
