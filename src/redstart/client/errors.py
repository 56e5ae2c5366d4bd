"""The errors of a client. A timeout is the built-in `TimeoutError`.

ClientError
├── RequestError       the server answered with a JSON-RPC error
├── ConnectionClosed   the server is gone: nothing more will be answered
├── SessionExpired     the server has forgotten this session
├── HttpError          an HTTP status without a JSON-RPC body
├── SignInError         there is no token: the sign-in did not succeed
├── InvalidReply       an answer that the protocol does not allow
├── TaskCancelled      the task was cancelled, so there is no result
└── NotSupported       this server or this revision has no such thing
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from redstart.wire import jsonrpc


class ClientError(Exception):
    """Any error of the client, except `TimeoutError`.

    >>> issubclass(RequestError, ClientError)
    True
    """


class RequestError(ClientError):
    """The server answered with a JSON-RPC error.

    >>> str(RequestError(-32602, "Unknown tool: ad"))
    'Unknown tool: ad (-32602)'
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data

    def __reduce__(self) -> tuple[type[RequestError], tuple[int, str, Any]]:
        return type(self), (self.code, self.message, self.data)


class ConnectionClosed(ClientError):
    """The server is gone. Has its exit status and the last lines of its stderr, if it was a subprocess.

    >>> str(ConnectionClosed("the server ended", exit_status=1, stderr=["boom"]))
    'the server ended with exit status 1; the end of its stderr:\\n  boom'
    """

    def __init__(self, message: str, *, exit_status: int | None = None, stderr: list[str] | None = None) -> None:
        self.exit_status = exit_status
        self.stderr = stderr or []
        if exit_status is not None:
            message += f" with exit status {exit_status}"
        if self.stderr:
            message += "; the end of its stderr:\n" + "\n".join(f"  {line}" for line in self.stderr)
        super().__init__(message)


class SessionExpired(ClientError):
    """The server has forgotten this session (HTTP 404).

    >>> raise SessionExpired("the server has ended the session")
    Traceback (most recent call last):
    ...
    redstart.client.errors.SessionExpired: the server has ended the session
    """


class HttpError(ClientError):
    """An HTTP response that is not a JSON-RPC message.

    >>> HttpError("POST", "http://127.0.0.1:1/mcp", 401, "no token").status
    401
    """

    def __init__(self, method: str, url: str, status: int, body: str = "") -> None:
        self.status = status
        self.body = body
        self.request = f"{method} {url}"
        text = " ".join(body.split())
        super().__init__(f"{self.request}: HTTP {status}" + (f": {text[:200]}" if text else ""))


class SignInError(ClientError):
    """There is no token for the server: somebody declined, or an authorization server refuses.

    >>> SignInError("the token endpoint refuses: invalid_grant", code="invalid_grant").code
    'invalid_grant'
    """

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class InvalidReply(ClientError):
    """An answer that the protocol does not allow.

    >>> raise InvalidReply("tools/call: unknown resultType 'later'")
    Traceback (most recent call last):
    ...
    redstart.client.errors.InvalidReply: tools/call: unknown resultType 'later'
    """


class TaskCancelled(ClientError):
    """The task was cancelled, by this client or by somebody else.

    >>> raise TaskCancelled("the task 7 was cancelled")
    Traceback (most recent call last):
    ...
    redstart.client.errors.TaskCancelled: the task 7 was cancelled
    """


class NotSupported(ClientError):
    """This server, or the revision that it speaks, does not have what was asked for.

    >>> raise NotSupported("ping does not exist here")
    Traceback (most recent call last):
    ...
    redstart.client.errors.NotSupported: ping does not exist here
    """


def request_error(raw: msgspec.Raw) -> RequestError:
    """The exception for the `error` member of a response."""
    try:
        fault = jsonrpc.decode_fault(raw)
    except msgspec.MsgspecError:
        return RequestError(jsonrpc.INTERNAL_ERROR, f"The server sent a malformed error: {bytes(raw)[:200]!r}")
    return RequestError(fault.code, fault.message, None if fault.data is UNSET else fault.data)
