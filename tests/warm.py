"""Processes that start at once, for tests that need many of the same kind and do not test how a process starts.

`command` gives the command of a process with its own streams, directory, environment, arguments and exit status; the
signals that tell a process to end reach it. The work is done by a fork of one process that has imported what the script
imports: that is a second for the official SDK, and a third of a second for our own server. So its process id is another
one, and Python did not start with its environment. Where forks cannot be had this way, the command is the plain one.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # what starts must be quick
    from pathlib import Path

SIZE = 1 << 20
TOLD = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
_sockets: dict[tuple[str, ...], str] = {}


def command(
    script: Path | str,
    *arguments: str,
    after: Path | str | None = None,
    python: str = sys.executable,
    flags: tuple[str, ...] = (),
) -> list[str]:
    """A command for `python flags… script arguments…`; `after` is another script, whose imports are shared instead."""
    if sys.platform != "linux":
        return [python, *flags, str(script), *arguments]
    first = python, *flags, str(after or script)
    if first not in _sockets:
        _sockets[first] = _keep(first)
    return [python, "-I", "-S", __file__, _sockets[first], str(script), *arguments]


def redstart(*words: str) -> list[str]:
    """A command for `python -m redstart words…`."""
    return command(f"{os.path.dirname(__file__)}/cli/started.py", *words)


def _keep(first: tuple[str, ...]) -> str:
    """Start the process that is forked. It ends with its stdin, so also when the tests are killed."""
    import subprocess
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="warm-")
    path = f"{folder.name}/socket"
    command = [*first[:-1], __file__, path, "--keep", first[-1]]
    kept = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert kept.stdout is not None
    assert kept.stdout.readline() == b"ready\n"

    @atexit.register
    def end() -> None:
        kept.communicate()
        folder.cleanup()

    return path


def keep(path: str, script: str) -> None:
    """Import what the script imports, then fork for everybody who connects."""
    import gc
    import runpy

    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script)
    gc.freeze()  # or each fork would copy what it only looks at
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that oversee
        os.write(1, b"ready\n")
        while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
            connection = listener.accept()[0]
            if not os.fork():
                listener.close()
                oversee(connection)
            connection.close()


def oversee(connection: socket.socket) -> None:
    """Fork once more, tell how that ended, and end it when nobody wants to know."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(connection, SIZE, 3)
    child = os.fork()
    if not child:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        become(**json.loads(data))
    for stream in (0, 1, 2, *streams):
        os.close(stream)
    ending = os.pidfd_open(child)
    while ending not in select.select([ending, connection.fileno()], [], [])[0]:
        number = int(connection.recv(16) or signal.SIGKILL)
        os.kill(child, number)
        if number == signal.SIGKILL:
            break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.send(str(status).encode())
    os._exit(0)


def become(arguments: list[str], directory: str, environment: dict[str, str]) -> None:
    """Run the script as an interpreter does that was started with it."""
    import runpy

    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[0] = os.path.dirname(arguments[0])
    atexit._clear()
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


def ask(path: str, arguments: list[str]) -> int:
    """Have the work done by a fork that has our streams and gets our signals; its exit status."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)  # a signal must not be lost, whatever we do when it comes
    for number in TOLD:
        signal.signal(number, lambda number, frame: None)
    wanted = {"arguments": arguments, "directory": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(wanted).encode()], [0, 1, 2])
        for stream in (0, 1, 2):
            os.close(stream)
        while connection.fileno() not in select.select([told, connection.fileno()], [], [])[0]:
            for came in os.read(told, 16):
                try:  # noqa: SIM105  # contextlib takes time to load
                    connection.send(str(came).encode())
                except OSError:
                    pass  # it has ended, and its status is on its way
        status = int(connection.recv(16) or 1)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    if sys.argv[2] == "--keep":
        keep(sys.argv[1], sys.argv[3])
    else:
        os._exit(ask(sys.argv[1], sys.argv[2:]))
