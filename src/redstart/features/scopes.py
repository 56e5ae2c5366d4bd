"""`scopes=`: what the token of a caller must allow, so that a tool, prompt or resource may be used.

`visible=` decides what is in the lists; without it they leave out what the caller may not use.
"""

from __future__ import annotations

from collections.abc import Sequence

from redstart.features.options import Declared
from redstart.features.principal import scopes_of
from redstart.features.registry import Compiled, D
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INVALID_REQUEST, ProtocolError


class InsufficientScope(ProtocolError):
    """The token of the caller does not allow the request: a client may get one that does, and try again."""

    @property
    def scopes(self) -> Sequence[str]:
        needed: Sequence[str] = self.data["requiredScopes"]
        return needed


def missing(compiled: Compiled[D] | None, call: Call) -> ProtocolError | None:
    """What the caller is told whose token does not have all scopes of a feature; None if it has them."""
    if compiled is None or scopes_of(call.user).issuperset(own := compiled.declared.scopes):
        return None
    text = f"{compiled.key[:200]} needs a token with the scopes: {' '.join(own)}"
    return InsufficientScope(INVALID_REQUEST, text, {"requiredScopes": [*dict.fromkeys((*call.needed_scopes, *own))]})


def guard(compiled: Compiled[Declared]) -> None:
    """Let only callers use it whose token has all of its scopes."""
    sees = compiled.sees

    def has_scopes(call: Call) -> bool:
        return missing(compiled, call) is None

    def admits(call: Call) -> bool:
        return has_scopes(call) and (sees is None or sees(call))

    def refusal(call: Call) -> ProtocolError | None:
        return missing(compiled, call) if sees is None or sees(call) else None

    compiled.sees, compiled.admits, compiled.refusal = sees or has_scopes, admits, refusal
