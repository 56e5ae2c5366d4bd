"""The configurations of examples/deploy: each is checked by the program that it is for, where that is installed, and a
client of each era works through a real nginx and a real Caddy."""

from __future__ import annotations

import configparser
import http.client
import json
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import DEADLINE, ERAS, MODERN, ROOT, await_port, free_port, initialize, make_certificate, message, modern

FOLDER = ROOT / "examples" / "deploy"
PAGE = ROOT / "docs" / "deploying.md"
REDSTART = [sys.executable, "-m", "redstart"]
SITE = "mcp.example.com"
FROM = "127.0.0.9"
"""The address of the client, which the proxy has to tell."""


def installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_the_page_shows_the_files(file: Path) -> None:
    if file.is_file():
        assert f"\n{file.read_text()}```\n" in PAGE.read_text()


# ---------------------------------------------------------------- behind nginx and Caddy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for the site, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"), SITE)


class Place:
    """A proxy with the file of the example, and the server behind it."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path]) -> None:
        self.folder = folder
        self.certificate = certificate[0]
        self.port, self.behind = free_port(), free_port()
        self.configure(*certificate)

    def configure(self, cert: Path, key: Path) -> None:
        """Write the file with the places of this machine."""
        raise NotImplementedError

    def command(self, *more: str) -> list[str]:
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[Path]:
        """Both; gives the file of the access log."""
        log = self.folder / "log"
        options = ["--port", str(self.behind), "--public-url", f"https://{SITE}", "--trust-proxy", "127.0.0.1"]
        command = [*REDSTART, "run", str(FOLDER / "server.py"), "--http", "--access-log", *options]
        with log.open("w") as stderr, ended(subprocess.Popen(command, stderr=stderr)) as server:
            await_port(server, self.behind)
            with ended(subprocess.Popen(self.command())) as proxy:
                await_port(proxy, self.port)
                yield log

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.certificate))
        plain = socket.create_connection(("127.0.0.1", self.port), DEADLINE, (FROM, 0))
        return context.wrap_socket(plain, server_hostname=SITE)

    def write(self, name: str, *places: tuple[str, str]) -> None:
        text = (FOLDER / name).read_text()
        for there, here in places:
            assert text.count(there) == 1, there
            text = text.replace(there, here)
        self.file = self.folder / name
        self.file.write_text(text)


class Nginx(Place):
    def configure(self, cert: Path, key: Path) -> None:
        self.nginx, folder = installed("nginx"), self.folder
        temporary = "".join(
            f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.write(
            "nginx.conf",
            ("http {", f"http {{ access_log off; {temporary}"),
            ("listen 443", f"listen 127.0.0.1:{self.port}"),
            ("server 127.0.0.1:8000", f"server 127.0.0.1:{self.behind}"),
            (f"/etc/letsencrypt/live/{SITE}/fullchain.pem", str(cert)),
            (f"/etc/letsencrypt/live/{SITE}/privkey.pem", str(key)),
        )

    def command(self, *more: str) -> list[str]:
        settings = f"pid {self.folder}/nginx.pid; error_log stderr warn; daemon off;"
        return [self.nginx, "-p", str(self.folder), "-c", str(self.file), "-g", settings, *more]


class Caddy(Place):
    def configure(self, cert: Path, key: Path) -> None:
        self.caddy = installed("caddy")
        own = (
            f"admin off\nauto_https disable_redirects\nhttps_port {self.port}\nstorage file_system {self.folder}/store"
        )
        self.write(
            "Caddyfile",
            (f"{SITE} {{\n", f"{{\n{own}\n}}\n{SITE} {{\nbind 127.0.0.1\ntls {cert} {key}\n"),
            ("127.0.0.1:8000", f"127.0.0.1:{self.behind}"),
        )

    def command(self, *more: str) -> list[str]:
        return [self.caddy, "run", "--adapter", "caddyfile", "--config", str(self.file), *more]


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        process.kill()  # how a server stops is tested below
        process.wait(DEADLINE)


@pytest.fixture(params=[Nginx, Caddy])
def place(request: pytest.FixtureRequest, tmp_path: Path, certificate: tuple[Path, Path]) -> Place:
    made: Place = request.param(tmp_path, certificate)
    return made


def test_nginx_takes_its_file(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    done = subprocess.run(Nginx(tmp_path, certificate).command("-t"), capture_output=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr.decode()
    assert b"[warn]" not in done.stderr


class Speaker:
    """A client of one era behind the proxy."""

    def __init__(self, place: Place, revision: str) -> None:
        self.place = place
        self.revision = revision
        self.session: list[str] = []
        self.open = ExitStack()
        self.number = 0
        if revision != MODERN:
            connection = self.post(initialize(revision), [])
            head = until(connection, b"protocolVersion")
            found = re.search(rb"mcp-session-id: (\S+)", head, re.IGNORECASE)
            assert found, head
            self.session = [f"Mcp-Session-Id: {found[1].decode()}", f"MCP-Protocol-Version: {revision}"]

    def call(self, tool: str) -> ssl.SSLSocket:
        self.number += 1
        params = {"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}}
        if self.revision == MODERN:
            headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}"]
            return self.post(modern(self.number, "tools/call", params, progressToken="p"), headers)
        return self.post(message(self.number, "tools/call", params), self.session)

    def post(self, body: bytes, headers: list[str]) -> ssl.SSLSocket:
        connection = self.open.enter_context(self.place.connect())
        lines = ["POST /mcp HTTP/1.1", f"Host: {SITE}", "Content-Type: application/json", *headers]
        lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(body)}", "", ""]
        connection.sendall("\r\n".join(lines).encode() + body)
        return connection


def until(connection: ssl.SSLSocket, mark: bytes) -> bytes:
    """What comes, up to the part that has the mark."""
    found = b""
    while mark not in found:
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


@pytest.mark.parametrize("revision", ERAS)
def test_events_come_through_the_proxy_at_once(place: Place, revision: str) -> None:
    """The first event must arrive before the call can go on."""
    with place.running() as log:
        speaker = Speaker(place, revision)
        with speaker.open:
            working = speaker.call("survey")
            assert b"text/event-stream" in until(working, b"waiting for a measurement")
            until(speaker.call("measure"), b"thank you")
            until(working, b"all stations have reported")
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {line["client"] for line in lines} == {FROM}


def test_another_host_name_is_refused_behind_nginx_too(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    place = Nginx(tmp_path, certificate)
    with place.running(), place.connect() as connection:
        connection.sendall(b"GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert b" 421 " in until(connection, b"\r\n")


# ---------------------------------------------------------------- the commands of the other files


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(FOLDER / "weather.service")
    return parser


def pod() -> dict[str, Any]:
    deployment, service = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    template = deployment["spec"]["template"]
    assert (
        deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"] == service["spec"]["selector"]
    )
    assert service["spec"]["ports"][0]["targetPort"] == template["spec"]["containers"][0]["ports"][0]["name"]
    found: dict[str, Any] = template["spec"]
    return found


def commands() -> dict[str, list[str]]:
    """The command of each file, without the program."""
    last = [line for line in (FOLDER / "Dockerfile").read_text().splitlines() if line.startswith("CMD ")][-1]
    found = {
        "Dockerfile": json.loads(last.removeprefix("CMD ")),
        "kubernetes.yaml": pod()["containers"][0]["args"],
        "weather.service": shlex.split(unit()["Service"]["ExecStart"]),
    }
    return {name: [word for part in command[1:] for word in part.split("=", 1)] for name, command in found.items()}


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.mark.parametrize("name", commands())
def test_the_command_of_the_file_serves_and_stops(name: str, tmp_path: Path) -> None:
    """As it stands, apart from the places that this machine does not have, and the wait for a load balancer."""
    command = commands()[name]
    here = {"--host": "127.0.0.1", "--admin-host": "127.0.0.1", "--admin-port": "0", "--drain-delay": "0"}
    here["--uds"] = str(tmp_path / "weather.sock")
    for flag in here:
        if flag in command:
            command[command.index(flag) + 1] = here[flag]
    port = free_port()
    command += [] if "--uds" in command else ["--port", str(port)]
    command[1] = str(FOLDER / "server.py")
    process = subprocess.Popen([*REDSTART, *command], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("weather is served at" in line for line in process.stderr)
        for path in ("/healthz", "/readyz"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
            if "--uds" in command:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(here["--uds"])
            connection.request("GET", path)
            assert connection.getresponse().status == 200
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.communicate()


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = installed("systemd-analyze")
    service = unit()["Service"]
    program = service["ExecStart"].split()[0]
    text = (FOLDER / "weather.service").read_text().replace(program, sys.executable)
    (tmp_path / "weather.service").write_text(text)
    done = subprocess.run([analyze, "verify", tmp_path / "weather.service"], capture_output=True, timeout=DEADLINE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert int(service["TimeoutStopSec"]) > 30  # the drain
    assert option(commands()["weather.service"], "--uds").startswith(f"/run/{service['RuntimeDirectory']}/")


def test_caddy_takes_its_file() -> None:
    caddy = installed("caddy")
    command = [caddy, "validate", "--adapter", "caddyfile", "--config", str(FOLDER / "Caddyfile")]
    assert subprocess.run(command, timeout=DEADLINE).returncode == 0


def test_the_pod_is_probed_and_has_time_to_stop() -> None:
    spec, command = pod(), commands()["kubernetes.yaml"]
    container = spec["containers"][0]
    delay, drain = (int(option(command, name)) for name in ("--drain-delay", "--drain"))
    assert spec["terminationGracePeriodSeconds"] > delay + drain
    ready, live = (container[name] for name in ("readinessProbe", "livenessProbe"))
    assert (ready["httpGet"]["path"], live["httpGet"]["path"]) == ("/readyz", "/healthz")
    assert ready["periodSeconds"] * ready["failureThreshold"] < delay  # it is out of the service before it refuses
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == int(option(command, "--admin-port"))
    assert {ready["httpGet"]["port"], live["httpGet"]["port"]} == {"http"}
    assert {"REDSTART_STORE", "REDSTART_KEYS"} <= {variable["name"] for variable in container["env"]}
