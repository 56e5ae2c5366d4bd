"""How a prompt, a resource or a completion source fails: as a JSON-RPC error.

The text of an unexpected exception is not in it.

Tools are different: their failures are results that the model reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from redstart.features.errors import ErrorPolicy, ToolError, log
from redstart.features.results import Unencodable
from redstart.features.tools import check_needs
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

R = TypeVar("R")


async def outcome(work: Awaitable[object], finish: Callable[[object], R], errors: ErrorPolicy, what: str) -> R:
    """What `finish` makes of the handler's value; whatever goes wrong becomes a ProtocolError."""
    try:
        return finish(await work)
    except ProtocolError:
        raise
    except ToolError as error:
        raise ProtocolError(INTERNAL_ERROR, str(error)) from error
    except Unencodable as error:
        log.error("%s returned what it must not: %s", what, error)
        raise ProtocolError(INTERNAL_ERROR, f"{what} returned what it must not: {error}") from error
    except Exception as error:
        raise ProtocolError(INTERNAL_ERROR, errors.text(error, what)) from error


def require(call: Call, needs: Sequence[str]) -> None:
    """Refuse a request whose client did not declare what the handler needs."""
    try:
        check_needs(call, needs)
    except ToolError as error:
        raise ProtocolError(INTERNAL_ERROR, str(error)) from error
