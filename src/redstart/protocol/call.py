"""One request from its arrival to its answer, and the other things that may arrive.

Pure data: who runs a Call, and on which stream its messages go, is filled in by the layers above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from msgspec import Raw, Struct, UnsetType

from redstart.protocol.dialect import Session
from redstart.wire.jsonrpc import INTERNAL_ERROR, Id, ProtocolError, decode, encode, failure
from redstart.wire.meta import ClientCapabilities, Implementation, RequestMeta
from redstart.wire.types import Result

if TYPE_CHECKING:
    from redstart.protocol.dialect import Dialect
    from redstart.protocol.headers import Headers
    from redstart.protocol.link import Link
    from redstart.protocol.methods import Method


class Channel(Protocol):
    """Where messages about a call go: a pipe, or the stream of one HTTP response."""

    def send(self, data: bytes) -> None:
        """Send one message now or soon. It never blocks, and does not raise if the peer has gone."""

    async def ready(self) -> None:
        """Wait until a slow peer has read enough of what was sent."""


class CallDialogue(Protocol):
    """What other packages need of a call's dialogue: its questions to the client, and the answers."""

    @property
    def replaying(self) -> bool:
        """Whether the handler repeats what it did in an earlier round, so that its messages are not sent again."""

    ended: bool
    """Whether a question without an answer has ended this run of the handler."""

    @property
    def asking(self) -> bool:
        """Whether a question was sent and the client has not answered yet."""

    async def settle(self) -> None:
        """Wait for the steps that have begun."""

    def time_out(self) -> None:
        """The handler has used up its time: its question is not asked, and does not end the run."""

    def close(self) -> None:
        """Stop waiting for answers, and withdraw the questions that are open."""


class CallTask(Protocol):
    """What other packages need of a task that a call is run for, or may become."""

    @property
    def id(self) -> str: ...

    running: bool
    """Whether a worker runs it now; else it is a call that becomes a task when its handler says so."""

    @property
    def attempt(self) -> int:
        """1 the first time, and one more each time that a worker was lost."""

    @property
    def checkpoint(self) -> Raw | UnsetType:
        """What the handler has saved, in this attempt or an earlier one."""

    @property
    def state(self) -> Raw | UnsetType:
        """What the dialogue has recorded in earlier rounds."""

    @property
    def answers(self) -> Mapping[str, Raw]:
        """The answers to the questions of the last round."""

    async def park(self, requests: Mapping[str, Mapping[str, Any]], state: bytes) -> Result | None:
        """A question has ended the run: the result of the call, or None for the ordinary one."""

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Note how far the work is."""

    async def hand_over(self) -> str:
        """Leave the rest of the work to another engine: the token by which it finishes the task."""

    async def save(self, checkpoint: bytes) -> None:
        """Keep what the handler needs to go on after its worker was lost."""


class Batch:
    """Collects the answers of a JSON-RPC batch. Their size together is limited."""

    max_bytes: ClassVar[int] = 4 * 1024 * 1024
    __slots__ = ("_full", "_size", "open", "parts")

    def __init__(self) -> None:
        self.open = 0
        self.parts: list[bytes] = []
        self._size = 0
        self._full = False

    def check_room(self) -> None:
        """Refuse a call before it runs if the batch is full: its answer would be dropped."""
        if self._full:
            raise _too_large()

    def answer(self, raw_id: bytes, part: bytes) -> bytes | None:
        """Close one call with its answer, or with an error where the others have left no room for it."""
        if self._size and self._size + len(part) > self.max_bytes:
            self._full = True
            part = failure(raw_id, _too_large())
        self._size += len(part)
        return self.close_one(part)

    def close_one(self, part: bytes | None) -> bytes | None:
        self.open -= 1
        if part is not None:
            self.parts.append(part)
        return self.whole()

    def whole(self) -> bytes | None:
        """The answer to the batch, if every call in it is answered and there is at least one answer."""
        if not self.parts or self.open:
            return None
        pieces = [b"["]
        for part in self.parts:
            pieces += part, b","
        pieces[-1] = b"]"
        return b"".join(pieces)  # many megabytes are copied once, not once more for the brackets


def _too_large() -> ProtocolError:
    """A new exception each time, because one that is raised again keeps all its tracebacks."""
    size = Batch.max_bytes
    return ProtocolError(
        INTERNAL_ERROR, f"The answers of this batch are larger than {size} bytes; send this request by itself"
    )


class Timings(Struct, gc=False):
    """When the parts of a call began and ended, by the clock of `time.perf_counter`; 0 is not known."""

    began: float = 0.0
    checked: float = 0.0
    """Its arguments were read, and it may wait for a thread or for its turn."""
    started: float = 0.0
    """Its handler was called."""
    ended: float = 0.0
    """Its handler has returned, and its result is made and encoded from now on."""


class Call(Struct, eq=False):
    """One request. `link` forgets it when it is answered or cancelled, and then nothing more is sent for it.

    `user` is who makes it: what `auth=` returned, or None.
    """

    link: Link
    id: Id
    raw_id: bytes
    method: Method
    params: Any
    raw_params: bytes | Raw
    meta: RequestMeta | UnsetType
    dialect: Dialect
    capabilities: ClientCapabilities
    client_info: Implementation | UnsetType
    log_level: str | UnsetType
    session: Session | None = None
    headers: Headers | None = None
    batch: Batch | None = None
    channel: Channel = cast("Channel", None)
    """Where messages about the call go. This and the next ones are set by the layers above."""
    user: Any = None
    runner: object = None
    """What runs the call: it has the threads, processes and limits of the server. See `execution.executor.Runner`."""
    run: Any = None
    dialogue: CallDialogue | None = None
    task: CallTask | None = None
    progress: float | None = None
    uses: dict[str, int] | None = None
    status: int = 200
    needed_scopes: Sequence[str] = ()
    """The scopes that a token needs for it, as far as that is known: those of its tool; with the status 403 all."""
    outcome: Result | Raw | BaseException | UnsetType | None = None
    """How it ended, where somebody observes calls: UNSET until it has, and None where nobody does."""
    timings: Timings | None = None
    """Filled in while it runs, where somebody has put an object here."""
    began: float = 0.0
    """When it came, by the same clock, where somebody has noted only that."""
    trace: Callable[[], Mapping[str, str]] | None = None
    """Gives the trace context of its span, for what goes on after it: a task."""

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt in the request."""
        return getattr(self.params, "name", None)

    @property
    def uri(self) -> str | None:
        """The URI of the resource in the request."""
        return getattr(self.params, "uri", None)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a tool or prompt. They are changed by assigning others: `call.arguments = {...}`."""
        given = getattr(self.params, "arguments", None)
        if isinstance(given, Raw):
            given = decode(given)
        return MappingProxyType(given if isinstance(given, dict) else {})

    @arguments.setter
    def arguments(self, arguments: Mapping[str, Any]) -> None:
        if not hasattr(self.params, "arguments"):
            raise AttributeError(f"a request {self.method} has no arguments")
        given = dict(arguments)
        self.params.arguments = Raw(encode(given)) if self.method == "tools/call" else given

    @property
    def open(self) -> bool:
        """Whether anything may still be sent for this call."""
        return self.link.calls.get(self.id) is self

    def __repr__(self) -> str:
        return f"<Call {self.method.name} id={self.id!r}>"


class Refusal(Struct, frozen=True):
    """A message that is answered without a call: already bytes, with the status that HTTP gives it."""

    data: bytes
    status: int


class Cancel(Struct, frozen=True):
    """The peer no longer wants `call`; the link has already forgotten it."""

    call: Call
    reason: str
    data: bytes | None = None


class Pending:
    """A question to the peer that waits for its answer."""

    __slots__ = ("call", "id", "resolve")

    def __init__(self, id: str, call: Call) -> None:
        self.id = id
        self.call = call
        self.resolve: Callable[[Raw | ProtocolError], None] = _nobody_waits


class Answer(Struct, frozen=True):
    """The peer's answer to a question of ours."""

    pending: Pending
    outcome: Raw | ProtocolError


def _nobody_waits(outcome: Raw | ProtocolError) -> None:
    """The default of `Pending.resolve`, until a waiter puts its own there."""


class Elsewhere(Struct, frozen=True):
    """A message of a session that several processes serve, for a call that another one of them may run."""

    data: bytes
    question: str = ""
    """The id of the question that it answers."""


Event = Call | Refusal | Cancel | Answer | Elsewhere
