"""Where `server.run("http")` listens: a port, or a unix socket in the file system; and the files of TLS."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

BACKLOG: Final = 2048
FURTHER: Final = 20
"""How many ports after one that is taken are tried, to name a free one."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket that listens. With `shared` others may listen on the same port, and each gets its part."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on {url_host(host)}:{port}: {_why_not(family, host, port, error)}") from None
    listener.listen(BACKLOG)
    return listener


def _why_not(family: socket.AddressFamily, host: str, port: int, error: OSError) -> str:
    """Why a port cannot be had, and which one can be."""
    if error.errno != errno.EADDRINUSE:
        how = "another port, or port 0" if error.errno == errno.EACCES else "an address of this machine, as 127.0.0.1"
        return f"{error.strerror}. Try {how}."
    for other in range(port + 1, min(port + FURTHER, 65_535) + 1):
        with socket.socket(family, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.bind((host, other))
            return f"another process listens there. Port {other} is free; port 0 always picks a free one."
    return "another process listens there. Try another port, or port 0."


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    return host in ("localhost", "::1") or host.startswith("127.")


def url_host(host: str) -> str:
    """A host as it stands in a URL, before a port."""
    return f"[{host}]" if ":" in host else host


def bind_unix(path: str) -> socket.socket:
    """A unix socket that listens at this path. Who may connect is decided by the umask, as for every new file.

    A socket that a killed process has left there is replaced, and nothing else.
    """
    if sys.platform == "win32":
        raise SystemExit("a unix socket is for Linux and macOS: name a port instead")
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on the unix socket {path}: {error.strerror or error}") from None
    listener.listen(BACKLOG)
    return listener


def _remove_stale(path: str) -> None:
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(kind):
        raise SystemExit(f"cannot listen on the unix socket {path}: there is another file")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        except OSError:
            return
    raise SystemExit(f"cannot listen on the unix socket {path}: another process listens there")


@contextmanager
def removed_at_end(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Remove the file of a unix socket at the end, if it is still the same one."""
    made = _identity(path)
    try:
        yield
    finally:
        if path is not None and made is not None and _identity(path) == made:
            os.unlink(path)


def _identity(path: str | os.PathLike[str] | None) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path or "")
        return found.st_dev, found.st_ino
    return None


def tls_context(cert: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    """What TLS needs, from the files of a certificate chain and its key; None without them."""
    if cert is None:
        if key is not None:
            raise SystemExit("tls_key= is the key of a certificate: give tls_cert= too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password="")  # nobody is asked for a passphrase
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        files = [os.fspath(file) for file in (cert, key) if file is not None]
        named = " and ".join([file for file in files if not os.access(file, os.R_OK)] or files)
        advice = "tls_cert= is a PEM file of the certificate, tls_key= one of its key, without a passphrase"
        raise SystemExit(f"TLS cannot use {named}: {getattr(error, 'strerror', None) or error}. {advice}.") from None
    return context
