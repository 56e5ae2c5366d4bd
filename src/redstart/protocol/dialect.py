"""The contract of a dialect: check a request, encode a result, choose the code of an error.

What differs between revisions is a fact of the dialect (an attribute) or one of these methods, and
nothing else in the code base asks for a version.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.meta import ClientCapabilities, Implementation
from redstart.wire.types import Result

Structured: TypeAlias = Literal["none", "objects", "any"]
Tasks: TypeAlias = Literal["none", "requested", "extension"]
NO_CAPABILITIES: Final = ClientCapabilities()


class Session(Struct):
    """The state of a handshake peer. It is small and can be serialised. The modern era has none."""

    revision: str
    client_capabilities: ClientCapabilities
    client_info: Implementation | UnsetType = UNSET
    log_level: str | UnsetType = UNSET
    initialized: bool = False
    subscriptions: set[str] = set()
    key: str = ""


class Dialect(Protocol):
    """One revision of the protocol, as one server speaks it."""

    version: str
    modern: bool
    structured: Structured
    """Structured output: unknown, JSON objects only, or any JSON value."""
    batches: bool
    progress_messages: bool
    asks: bool
    """Whether a question goes out as a request of its own (else a result carries it)."""
    primes: bool
    """Whether an SSE stream begins with an event that only carries an id."""
    url_required: bool
    """Whether a URL elicitation may end a call as an error."""
    titled_choices: bool
    """Whether an elicitation form may have titled choices, multi-selects and defaults."""
    tasks: Tasks
    """How a request becomes a task: not at all, where the client asks for it, or where it declares the extension."""
    sampling_parts: bool
    """Whether a client says which parts of sampling it knows: tools, and the context of servers."""

    def dress(self, result: Result | Any) -> bytes:
        """The body of a response, encoded once."""

    def entry(self, listed: Any) -> Any:
        """A list entry without what this revision does not know."""

    def block(self, block: Any) -> Any:
        """A block of content without what this revision does not know, or a text in place of it."""

    def fault(self, error: ProtocolError) -> ProtocolError:
        """The error with the code of this revision."""

    def status(self, code: int) -> int:
        """The HTTP status of a fault that a handler raised."""
