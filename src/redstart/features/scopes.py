"""`scopes=`: what the token of a caller must allow, so that a tool, prompt or resource may be used.

`visible=` decides what is in the lists; without it they leave out what the caller may not use.
"""

from __future__ import annotations

from collections.abc import Sequence

from redstart.features.options import Declared
from redstart.features.principal import scopes_of
from redstart.features.registry import Compiled
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INVALID_REQUEST, ProtocolError


class InsufficientScope(ProtocolError):
    """The token of the caller does not allow the request: a client may get one that does, and try again."""

    @property
    def scopes(self) -> Sequence[str]:
        needed: Sequence[str] = self.data["requiredScopes"]
        return needed


def guard(compiled: Compiled[Declared], scopes: Sequence[str]) -> None:
    """Let only callers use it whose token has all of these scopes."""
    sees, key = compiled.sees, compiled.key
    text = f"{key[:200]} needs a token with the scopes: {' '.join(scopes)}"

    def has_scopes(call: Call) -> bool:
        return scopes_of(call.user).issuperset(scopes)

    def admits(call: Call) -> bool:
        return has_scopes(call) and (sees is None or sees(call))

    def refusal(call: Call) -> ProtocolError | None:
        hidden = has_scopes(call) or (sees is not None and not sees(call))
        return None if hidden else InsufficientScope(INVALID_REQUEST, text, {"requiredScopes": list(scopes)})

    compiled.sees, compiled.admits, compiled.refusal = sees or has_scopes, admits, refusal
