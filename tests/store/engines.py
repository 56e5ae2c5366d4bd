"""Real engines for the tests: each is started in a directory of its own, on a port of loopback."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from support import free_port

_namespaces = count(1)


def program(name: str) -> str:
    """The path of a program of an engine. Without it the test is skipped."""
    path = shutil.which(name)
    if path is None:
        path = next((str(each) for each in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))[-1:]), None)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


class Engine:
    """A server process that can be killed, paused and started again with the data that it had."""

    scheme = ""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="redstart-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """A URL with a namespace that nobody has used before."""
        return f"{self.at}?namespace=t{os.getpid()}_{next(_namespaces)}"

    @property
    def at(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start the engine and wait until it answers."""
        until = time.monotonic() + 30
        while True:
            if self._process is None or self._process.poll() is not None:
                log = (self.directory / "log").open("ab")
                with log:
                    self._process = subprocess.Popen(
                        self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.user()
                    )
            if self.is_ready():
                return
            if time.monotonic() > until:
                raise AssertionError((self.directory / "log").read_text())
            time.sleep(0.02)

    @staticmethod
    def user() -> str | None:
        return None

    def processes(self) -> list[int]:
        assert self._process is not None
        return [self._process.pid]

    def _signal(self, number: int) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """As a crash of the engine does."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def pause(self) -> None:
        """The engine accepts connections and does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Redis(Engine):
    scheme = "redis"

    def __init__(self, fsync: str = "always", *options: str) -> None:
        super().__init__()
        self._server = program("redis-server")
        self._options = ["--appendonly", "no" if fsync == "off" else "yes", "--save", ""]
        if fsync != "off":
            self._options += ["--appendfsync", fsync]
        self._options += options

    def command(self) -> list[str]:
        where = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [self._server, *where, *self._options]

    def is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(7) == b"+PONG\r\n"
        return False


class Postgres(Engine):
    scheme = "postgresql"

    def __init__(self) -> None:
        super().__init__()
        self._server = program("postgres")
        subprocess.run(["cp", "-a", f"{self.new()}/.", str(self.directory)], check=True)

    @classmethod
    @cache
    def new(cls) -> str:
        """A directory with the data of a new engine: to make these takes a second, to copy them a moment."""
        folder = tempfile.mkdtemp(prefix="redstart-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        owner = cls.user()
        if owner is not None:
            shutil.chown(folder, owner)
        options = ["--auth=trust", "--username=redstart", "--encoding=UTF8", "--no-locale", "--no-sync"]
        command = [program("initdb"), *options, "-D", f"{folder}/data"]
        made = subprocess.run(command, capture_output=True, user=owner, cwd=folder)
        assert made.returncode == 0, made.stderr.decode()
        return folder

    @property
    def at(self) -> str:
        return f"postgresql://redstart@127.0.0.1:{self.port}/postgres"

    @staticmethod
    def user() -> str | None:
        """PostgreSQL refuses to run as root."""
        return "postgres" if os.getuid() == 0 else None

    def command(self) -> list[str]:
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=100"]
        flags = [flag for option in options for flag in ("-c", option)]
        return [self._server, "-D", str(self.directory / "data"), "-p", str(self.port), *flags]

    def processes(self) -> list[int]:
        [server] = super().processes()
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return [server, *map(int, children)]

    def is_ready(self) -> bool:
        probe = ["-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "redstart", "-d", "postgres"]
        return subprocess.run([program("pg_isready"), *probe], capture_output=True).returncode == 0


ENGINES: dict[str, type[Redis] | type[Postgres]] = {"redis": Redis, "postgresql": Postgres}


@contextmanager
def running(name: str) -> Iterator[Engine]:
    """An engine that runs, and is removed at the end."""
    engine = ENGINES[name]()
    try:
        engine.start()
        yield engine
    finally:
        engine.close()
