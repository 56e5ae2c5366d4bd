"""The logger `redstart.audit`: one line of JSON for each refusal that the operator of a server may want to look into.

The lines have the level INFO, so that they are written only where the application has set that level. They never say a
token, a query string, an argument or an id of a session or task; a user is shown by a hash of its key.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from redstart.features.principal import user_mark
from redstart.wire.jsonrpc import encode

if TYPE_CHECKING:
    from redstart.protocol.call import Call

audit: Final = logging.getLogger("redstart.audit")


def note_refusal(event: str, user: object, **said: str | int) -> None:
    """Write a line, if anybody reads them. What is empty is left out."""
    if not audit.isEnabledFor(logging.INFO):
        return
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": event,
        "user": user_mark(user),
        **said,
    }
    audit.info("%s", encode({name: value for name, value in line.items() if value != ""}).decode())


def note_refused_call(event: str, call: Call) -> None:
    """Write a line for a call that asked for what its user may not have, or what does not exist."""
    note_refusal(event, call.user, mcp_method=call.method.name)
