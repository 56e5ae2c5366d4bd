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
_CODES: Final = (*range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN: Final = {code: f"\\u{code:04x}" for code in _CODES}
"""Characters that JSON need not escape, and that control a terminal, end a line, or turn the direction of text."""


def note_refusal(event: str, user: object, **said: str | int) -> None:
    """Write a line, if anybody reads them."""
    if not audit.isEnabledFor(logging.INFO):
        return
    audit.info("%s", log_line(event=event, user=user_mark(user), **said))


def log_line(**fields: object) -> str:
    """A line of JSON, with the time. What is empty is left out."""
    said = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
    return encode({name: value for name, value in said.items() if value != ""}).decode().translate(_UNSEEN)


def note_refused_call(event: str, call: Call) -> None:
    """Write a line for a call that asked for what its user may not have, or what does not exist."""
    note_refusal(event, call.user, mcp_method=call.method.name)
