"""Where a server listens beside a port: a unix socket, TLS, a proxy in front of it. Real processes and sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import ssl
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from redstart import Server
from support import DEADLINE, MODERN, free_port, make_certificate, modern, run
from transports.support import Child, Http

SOURCE = """
import os
from redstart import Context, Server
server = Server("here")
@server.tool
def pid() -> int:
    return os.getpid()
@server.tool
async def host(ctx: Context) -> str:
    return ctx.headers["host"]
"""


def command(folder: Path, *more: str) -> list[str]:
    (folder / "here.py").write_text(SOURCE)
    return [sys.executable, "-m", "redstart", "run", str(folder / "here.py"), "--http", *more]


class UnixConnection(http.client.HTTPConnection):
    """A client of a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self._path)


def call(connection: http.client.HTTPConnection, tool: str, **headers: str) -> tuple[int, Any]:
    sent = {
        "content-type": "application/json",
        "accept": "application/json",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": tool,
        **headers,
    }
    connection.request("POST", "/mcp", modern(1, "tools/call", {"name": tool, "arguments": {}}), sent)
    response = connection.getresponse()
    body = json.loads(response.read())
    return response.status, body["result"]["content"][0]["text"] if "result" in body else body["error"]["message"]


# ---------------------------------------------------------------- a unix socket


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_a_unix_socket_is_served_and_removed_at_the_end(tmp_path: Path, loop: str) -> None:
    path = tmp_path / "here.sock"
    with Child(command=command(tmp_path, "--uds", str(path)), env={"REDSTART_LOOP": loop}) as child:
        said = child.read_until(b"\n", "stderr").decode()
        assert said == f"here is served at http://localhost/mcp on the unix socket {path}\n"
        connection = UnixConnection(str(path))
        assert call(connection, "pid") == (200, str(child.pid))
        assert call(connection, "host", host="evil.example")[0] == 421
        connection.close()
        assert child.end("SIGTERM")[0] == 0
        assert child.rest("stderr") == b""
    assert not path.exists()


def test_only_its_owner_may_connect_unless_the_umask_says_so(tmp_path: Path) -> None:
    modes = []
    for umask in (0o022, 0o007):
        path = tmp_path / f"{umask}.sock"
        with Child(command=command(tmp_path, "--uds", str(path)), umask=umask) as child:
            child.read_until(b"\n", "stderr")
            modes.append(stat.S_IMODE(os.stat(path).st_mode))
    assert modes == [0o755, 0o770]  # a client needs the right to write


def test_what_a_killed_process_has_left_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "here.sock"
    with Child(command=command(tmp_path, "--uds", str(path))) as child:
        child.read_until(b"\n", "stderr")
        with Child(command=command(tmp_path, "--uds", str(path))) as second:
            assert second.process.wait(DEADLINE) == 1
            assert b"another process listens there" in second.rest("stderr")
        child.process.kill()
        child.process.wait(DEADLINE)
    assert path.exists()
    with Child(command=command(tmp_path, "--uds", str(path))) as child:
        child.read_until(b"is served at", "stderr")
        connection = UnixConnection(str(path))
        assert call(connection, "pid")[0] == 200
        connection.close()
    precious = tmp_path / "precious"
    precious.write_text("data")
    with Child(command=command(tmp_path, "--uds", str(precious))) as child:
        assert child.process.wait(DEADLINE) == 1
        assert b"there is another file" in child.rest("stderr")
    assert precious.read_text() == "data"
    with Child(command=command(tmp_path, "--uds", str(tmp_path / ("x" * 120)))) as child:
        assert child.process.wait(DEADLINE) == 1
        assert b"cannot listen on the unix socket" in child.rest("stderr")


def test_several_processes_share_one(tmp_path: Path) -> None:
    path, store = tmp_path / "here.sock", f"sqlite:///{tmp_path / 'shared.db'}"
    words = command(tmp_path, "--uds", str(path), "--workers", "2", "--store", store)
    with Child(command=words) as child:
        for _ in range(2):
            child.read_until(b"is served at", "stderr")
        found: set[str] = set()
        deadline = time.monotonic() + DEADLINE
        connections = []
        while len(found) < 2 and time.monotonic() < deadline:
            connections.append(UnixConnection(str(path)))
            found.add(call(connections[-1], "pid")[1])
        for connection in connections:
            connection.close()
        assert len(found) == 2
        assert child.end("SIGTERM")[0] == 0
    assert not path.exists()


def test_run_async_takes_a_path_object(tmp_path: Path) -> None:
    path = tmp_path / "here.sock"

    async def test() -> None:
        server = Server("here")
        serving = asyncio.create_task(server.run_async("http", uds=path))
        while not path.exists():
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    run(test())
    assert not path.exists()


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for this host, and its key."""
    cert, key = make_certificate(tmp_path_factory.mktemp("tls"), "localhost", "127.0.0.1")
    return str(cert), str(key)


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_tls_is_served_and_a_handshake_that_never_comes_ends(tmp_path: Path, files: tuple[str, str], loop: str) -> None:
    port, (cert, key) = free_port(), files
    text = SOURCE + f'\nserver.run("http", port={port}, tls_cert="{cert}", tls_key="{key}", body_deadline=1)\n'
    (tmp_path / "secure.py").write_text(text)
    with Child(command=[sys.executable, str(tmp_path / "secure.py")], env={"REDSTART_LOOP": loop}) as child:
        assert f"https://127.0.0.1:{port}/mcp" in child.read_until(b"\n", "stderr").decode()
        silent = socket.create_connection(("127.0.0.1", port), DEADLINE)
        began = time.monotonic()
        context = ssl.create_default_context(cafile=cert)
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=DEADLINE)
        assert call(connection, "pid") == (200, str(child.pid))
        assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")
        assert silent.recv(1) == b""  # it hangs up
        assert time.monotonic() - began < 5
        silent.close()
        status, seconds = child.end("SIGTERM")  # the client keeps its connection, and is not waited for
        assert (status, seconds < 10) == (0, True)
        assert child.rest("stderr") == b""
        connection.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-key", "KEY"], "tls_key= is the key of a certificate: give tls_cert= too"),
        (["--tls-cert", "nowhere.pem"], "TLS cannot use nowhere.pem: No such file or directory"),
        (["--tls-cert", "KEY"], "tls_cert= is a PEM file of the certificate, tls_key= one of its key"),
        (["--tls-cert", "CERT", "--tls-key", "nowhere.pem"], "TLS cannot use nowhere.pem: No such file or directory"),
        (["--tls-cert", "CERT", "--tls-key", "SEALED"], "tls_key= one of its key, without a passphrase"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_files_that_cannot_be_used_are_said_before_anything_is_served(
    tmp_path: Path, files: tuple[str, str], options: list[str], said: str, workers: str
) -> None:
    sealed = tmp_path / "sealed.pem"
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key = serialization.load_pem_private_key(Path(files[1]).read_bytes(), None)
    sealed.write_bytes(key.private_bytes(pem, kind, serialization.BestAvailableEncryption(b"a word")))
    meant = {"CERT": files[0], "KEY": files[1], "SEALED": str(sealed)}
    words = [meant.get(word, word) for word in options]
    words += ["--workers", workers, "--store", f"sqlite:///{tmp_path / 'shared.db'}"]
    with Child(command=command(tmp_path, "--port", "0", *words)) as child:
        assert child.process.wait(DEADLINE) == 1  # also where several would have been started again and again
        text = child.rest("stderr").decode()
    assert said in text
    assert "Traceback" not in text
    assert "pass phrase" not in text  # nobody is asked: a service would wait for ever


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_that_this_machine_does_not_have(tmp_path: Path, host: str) -> None:
    with Child(command=command(tmp_path, "--host", host, "--allow-host", "*", "--port", "0")) as child:
        assert child.process.wait(DEADLINE) == 1
        text = child.rest("stderr").decode()
    assert text.startswith(f"cannot listen on {host}:0: ")
    assert text.endswith("Try an address of this machine, as 127.0.0.1.\n")


# ---------------------------------------------------------------- behind a proxy


def test_what_a_proxy_of_a_unix_socket_says_of_the_host_counts(tmp_path: Path) -> None:
    path = tmp_path / "here.sock"
    words = command(tmp_path, "--uds", str(path), "--public-url", "https://mcp.example.com", "--trust-proxy", "unix")
    with Child(command=words) as child:
        child.read_until(b"is served at", "stderr")
        connection = UnixConnection(str(path))
        forwarded = {"x-forwarded-host": "mcp.example.com", "x-forwarded-proto": "https"}
        for _ in range(2):  # the second time the head is known
            assert call(connection, "host", host="inner", **forwarded) == (200, "mcp.example.com")
        assert call(connection, "host", host="inner")[0] == 421
        assert call(connection, "host", host="localhost", **{"x-forwarded-host": "evil.example"})[0] == 421
        connection.close()


def test_what_another_peer_says_of_the_host_does_not() -> None:
    async def test() -> None:
        server = Server("here")
        http = Http(server.asgi(trusted_proxies=["10.0.0.0/8"], allowed_hosts=["mcp.example.com"]))
        headers = {"host": "inner", "x-forwarded-host": "mcp.example.com"}
        assert (await http.modern(1, "tools/list", headers=headers, client="192.0.2.1")).status == 421
        assert (await http.modern(1, "tools/list", headers=headers, client="10.0.0.1")).status == 200
        await server.runtime.stop()

    run(test())
