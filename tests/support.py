"""What the test packages share: messages, clients in memory, bounded runs, and servers as real processes.

A client in memory is a `Peer` (it writes and reads messages as they are) or, with `use`, our own `Client`. What only
one package needs is a thin layer above these: a user who answers questions, an ASGI driver, a socket.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from redstart import Client, Server
from redstart.transports.memory import MemoryPeer
from redstart.wire.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
DEADLINE = 20.0
SECONDS = 30.0

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
JUNE, NOVEMBER, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
REVISIONS = (*HANDSHAKES, MODERN)
ERAS = (NOVEMBER, MODERN)
ENVELOPE: dict[str, Any] = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
"""What `_meta` of every modern request holds."""


# ---------------------------------------------------------------- messages


def message(id: Any, method: str, params: Any = None) -> bytes:
    """A request, or with the id None a notification."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if id is None:
        del body["id"]
    if params is not None:
        body["params"] = params
    return json.dumps(body, ensure_ascii=False).encode()


def modern(id: Any, method: str, params: dict[str, Any] | None = None, **meta: Any) -> bytes:
    """A modern request; `meta` is added to the envelope."""
    return message(id, method, {**(params or {}), "_meta": {**ENVELOPE, **meta}})


def opening(revision: str = NOVEMBER, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
    """The params of `initialize`."""
    client = {"name": "test", "version": "1"}
    return {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": client}


def initialize(revision: str = NOVEMBER, id: Any = "init", **capabilities: Any) -> bytes:
    return message(id, "initialize", opening(revision, capabilities))


# ---------------------------------------------------------------- bounded runs


def run(
    work: Coroutine[Any, Any, T],
    *servers: Server,
    seconds: float = SECONDS,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run a test's coroutine on a loop of its own, for so long at most; the servers are stopped afterwards."""

    async def bounded() -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        finally:
            for server in servers:
                await server.runtime.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds; a bounded wait, because `run` is."""
    while not condition():
        await asyncio.sleep(0.001)  # for what another thread or process does there is no event


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward, for `run(…, loop=LeapingLoop)` and `leap`."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def leap(seconds: float) -> None:
    """Let so many seconds of the loop's clock pass at once: what was due in them is done now.

    A limit of time in a test can so be as long as a busy machine may need, and is exceeded without waiting for it.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    passed = asyncio.create_task(asyncio.sleep(seconds))
    await asyncio.sleep(0)
    loop.ahead += seconds
    await passed


# ---------------------------------------------------------------- TLS


def make_certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """A certificate for these hosts that vouches for itself, and its key."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    hosts = [x509.IPAddress(ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in names]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, paths = serialization.Encoding.PEM, (folder / "certificate.pem", folder / "key.pem")
    paths[0].write_bytes(made.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


# ---------------------------------------------------------------- clients in memory


class Peer:
    """A client of one revision that writes and reads messages as they are, and can have many requests open.

    The answer to `begin`, `request` and what is built on them goes to who waits for it. Everything else is received in
    its order with `receive`; `notices` lists the notifications.
    """

    def __init__(
        self,
        server: Server,
        revision: str = MODERN,
        *,
        capabilities: dict[str, Any] | None = None,
        principal: Any = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.revision = revision
        self.modern = revision == MODERN
        self.capabilities = capabilities or {}
        self.meta = dict(meta or {})
        if self.modern:
            self.meta |= {**ENVELOPE, CLIENT_CAPABILITIES: self.capabilities}
        self.notices: list[dict[str, Any]] = []
        self.wire = MemoryPeer(server, self._arrived, principal)
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0

    def _arrived(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" not in message and message.get("id") in self._open:
            self._open.pop(message["id"]).set_result(message)
            return
        if "id" not in message:
            self.notices.append(message)
        self._inbox.put_nowait(message)

    async def open(self) -> Self:
        """The handshake, where the revision has one."""
        if not self.modern:
            self.send({"id": "open", "method": "initialize", "params": opening(self.revision, self.capabilities)})
            self.opened = await self.receive()
            self.send({"method": "notifications/initialized"})
        return self

    def send(self, message: dict[str, Any]) -> None:
        self.wire.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def start(self, method: str, params: dict[str, Any]) -> int:
        """Send a request whose answer is received as every other message; its id."""
        self._last += 1
        meta = {"_meta": self.meta} if self.meta else {}
        self.send({"id": self._last, "method": method, "params": {**params, **meta}})
        return self._last

    async def receive(self) -> dict[str, Any]:
        return await self._inbox.get()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request, and its answer."""
        return await self._begin(method, params)[1]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A request to its end."""
        return await self.request(method, params)

    def begin(self, tool: str, **arguments: Any) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        """Call a tool; the id, and the answer that comes."""
        return self._begin("tools/call", {"name": tool, "arguments": arguments})

    def _begin(self, method: str, params: dict[str, Any]) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[self._last + 1] = answer
        return self.start(method, params), answer

    async def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool; an error fails the test."""
        answer = await self.call("tools/call", name=name, arguments=arguments)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def text(self, name: str, **arguments: Any) -> str:
        """The text of a tool's result."""
        result = await self.tool(name, **arguments)
        return "\n".join(block["text"] for block in result["content"])

    async def failure(self, name: str, **arguments: Any) -> str:
        """The text of a tool's error."""
        result = await self.tool(name, **arguments)
        assert result.get("isError") is True, result
        return "\n".join(block["text"] for block in result["content"])

    def cancel(self, id: int) -> None:
        self._open.pop(id).cancel()
        params = {"requestId": id, "_meta": self.meta}
        self.send({"method": "notifications/cancelled", "params": params})

    async def close(self) -> None:
        await self.wire.close()


def play(server: Server, script: Callable[[Peer], Awaitable[T]], token: str | None = None) -> T:
    """What `script` returns, with one modern client; the server is stopped afterwards."""

    async def main() -> T:
        peer = Peer(server, meta={} if token is None else {"progressToken": token})
        try:
            return await script(peer)
        finally:
            await peer.close()

    return run(main(), server)


def use(target: Any, era: str, script: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """What `script` returns, with our client of one era; `target` is a server, or anything that can be served."""
    server = target if isinstance(target, Server) else Server.from_object(target)

    async def main() -> Any:
        async with Client(server, protocol=era, **options) as client:
            try:
                return await script(client)
            finally:
                await server.runtime.stop()

    return run(main())


def call(target: Any, era: str, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    """The result of one call of a tool."""
    return use(target, era, lambda client: client.call_tool(name, arguments), **options)


# ---------------------------------------------------------------- requests and their answers

Request = tuple[str, dict[str, Any]]
"""A method and its params."""


def exchange(server: Server, era: str, requests: Sequence[Request], principal: Any = None) -> list[dict[str, Any]]:
    """The answers to `requests`, one after the other, on one connection of a client of `era`."""
    return run(exchanged(server, era, requests, principal), server)  # the next exchange has another loop


async def exchanged(
    server: Server, era: str, requests: Sequence[Request], principal: Any = None
) -> list[dict[str, Any]]:
    """As `exchange`, inside a running loop; a notification in between fails the test."""
    peer = await Peer(server, era, principal=principal).open()
    answers = [await peer.request(method, params) for method, params in requests]
    assert not peer.notices, peer.notices
    await peer.close()
    return answers


def ask(server: Server, era: str, method: str, principal: Any = None, **params: Any) -> dict[str, Any]:
    """The result of one request; an error fails the test."""
    answer = exchange(server, era, [(method, params)], principal)[0]
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result


def refused(server: Server, era: str, method: str, principal: Any = None, **params: Any) -> dict[str, Any]:
    """The error of one request; a result fails the test."""
    answer = exchange(server, era, [(method, params)], principal)[0]
    assert "error" in answer, answer
    error: dict[str, Any] = answer["error"]
    return error


def capabilities(server: Server, era: str) -> dict[str, Any]:
    """What the server says that it offers."""

    async def offered() -> Any:
        peer = await Peer(server, era).open()
        answer = await peer.request("server/discover", {}) if peer.modern else peer.opened
        await peer.close()
        return answer["result"]["capabilities"]

    return run(offered(), server)


# ---------------------------------------------------------------- servers as processes

_held: list[socket.socket] = []


def free_port() -> int:
    """A port for a server of this test run alone, also between the end of one server and the start of the next.

    On Linux a socket that is bound but does not listen keeps others from getting the same number, and lets a server
    have it that sets SO_REUSEADDR, as all do. It is held until the end. The option comes after `bind`, or two test runs
    could hold the same one. The numbers are below those that Linux gives to connections: one from another address of
    this machine would keep it from a server that listens on all addresses.
    """
    probe = socket.socket()
    if sys.platform != "linux":
        with probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    for port in random.SystemRandom().sample(range(16384, 32768), 100):
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _held.append(probe)
            return port
    raise AssertionError("a hundred ports, and none of them is free")


@atexit.register
def _let_go() -> None:
    for probe in _held:
        probe.close()


def launch(command: Sequence[str], port: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start a server and wait until it listens. It writes to our stderr: pytest shows that, and no pipe fills up."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        await_port(process, port)
    except BaseException:
        process.kill()
        process.wait(DEADLINE)
        raise
    return process


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[str]:
    """Run a server that listens on `port`; gives its URL once it answers, and ends it by its id."""
    process = launch(command, port, cwd=ROOT)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(DEADLINE)


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until somebody listens; a server that died has said why on stderr."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)  # there is no event for "somebody listens now"
    raise AssertionError(f"nobody listens on port {port} after {DEADLINE} s")


def node_packages(name: str, source: Path) -> tuple[str, Path]:
    """Node's own path, and the folder in which the packages of `source/package.json` are installed, once per pin,
    with the scripts of `source` beside them. One process of the tests at a time makes it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = ROOT / ".node" / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (source / "package.json").read_bytes()
    installed = folder / "installed.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_bytes() != wanted:
            (folder / "package.json").write_bytes(wanted)
            command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, timeout=300)
            installed.write_bytes(wanted)
        for script in source.glob("*.mjs"):
            copy = folder / script.name
            if not copy.exists() or copy.read_bytes() != script.read_bytes():  # another process may be reading it
                copy.write_bytes(script.read_bytes())
    return node, folder
