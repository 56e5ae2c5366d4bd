"""The record of a task: what the store keeps of it, and the changes that it goes through.

The store keeps a record as opaque JSON. Every change is made on a copy and written only if nobody else has written in
between, so each function here decides from what it sees, and says in which queue the task is afterwards.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from redstart.features.rules import Reader, Rule, age, at_least, text, wrong
from redstart.protocol.handshake import DIALECTS
from redstart.store.tasks import OVERDUE, StoredTask
from redstart.wire.jsonrpc import INTERNAL_ERROR, Fault, ProtocolError, encode
from redstart.wire.meta import ClientCapabilities, Implementation

Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
TERMINAL: Final = ("completed", "failed", "cancelled")
Placement: TypeAlias = tuple[str, float]
"""The queue that a task is in after a change, and the seconds until it is due there."""
YEAR: Final = 366 * 24 * 3600


class TaskLimits(Struct, frozen=True, kw_only=True):
    """How many tasks a server keeps, and for how long: `Server(tasks=TaskLimits(max_run=600))`. Times in seconds."""

    ttl: float = 300
    """How long a task is kept after its creation, where the client does not ask for a time."""
    max_ttl: float = 3600
    """The longest time that a client can ask for."""
    keep: float = 300
    """How long a finished task is kept at least."""
    poll: float = 1
    """How often a client should ask for the state of a task."""
    max_run: float = 3600
    """How long the work on a task may take, without the time in which it waits for answers."""
    per_user: int = 1000
    """How many tasks one user may have."""
    total: int = 100_000
    """How many tasks there may be."""
    concurrent: int = 16
    """How many tasks one process works on at once; 0 leaves all of them to `redstart worker`."""
    lease: float = 30
    """After how long without a sign of life of its process a task counts as lost."""
    namespace: str | None = None
    """Whose tasks these are in a store that several servers use; the name of the server if it is not given."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            rule = RULES.get(name, SPAN)
            force_setattr(self, name, rule.check(f"{name} of TaskLimits", getattr(self, name)))


def _span(least: float) -> Reader:
    def read(label: str, value: object) -> float:
        number = age(label, value)
        return number if least <= number <= YEAR else wrong(label, f"from {least:g} to {YEAR} seconds", value)

    return read


SPAN: Final = Rule(_span(0), optional=False)
RULES: Final = {
    **dict.fromkeys(("poll", "lease"), Rule(_span(0.1), optional=False)),
    **dict.fromkeys(("per_user", "total", "concurrent"), Rule(at_least(0), optional=False)),
    "namespace": Rule(text),
}
"""What the limits must be; the others are spans of time."""


class OpenQuestion(Struct, array_like=True):
    """A question that a task waits for."""

    name: str
    """The name that the handler knows it by."""
    method: str
    params: Raw


class TaskRequest(Struct, omit_defaults=True):
    """The request that began a task: what is needed to run it in another process."""

    version: str
    """The protocol revision of the client."""
    params: Raw
    capabilities: ClientCapabilities
    client_info: Implementation | UnsetType = UNSET
    principal: Any = None


class Record(Struct, omit_defaults=True):
    """The body of a stored task."""

    tool: str
    queue: str
    """Where it waits for a worker."""
    request: TaskRequest
    ttl: float
    retries: int = 0
    """How often the work is begun anew after its worker was lost."""
    status: Status = "working"
    attempt: int = 1
    message: str | UnsetType = UNSET
    open: dict[str, OpenQuestion] = {}
    """The questions without an answer, by their keys on the wire."""
    answers: dict[str, Raw] = {}
    """The answers to this round's questions, by the names that the handler knows them by."""
    used: list[str] = []
    """The keys of all questions that were asked: a key on the wire is never used twice."""
    state: Raw | UnsetType = UNSET
    """What the dialogue has recorded in earlier rounds."""
    checkpoint: Raw | UnsetType = UNSET
    progress: tuple[float, float | None, str | None] | None = None
    outcome: Raw | UnsetType = UNSET
    """The result, or the JSON-RPC error."""
    faulty: bool = False
    """Whether the outcome is an error."""
    external: bool = False
    """Whether another engine does the work, which says itself when it is done."""


_decode = msgspec.json.Decoder(Record).decode


class Task:
    """A stored task with its record."""

    __slots__ = ("_created", "record", "stored")

    def __init__(self, stored: StoredTask) -> None:
        self.load(stored)

    def load(self, stored: StoredTask) -> None:
        """Be what the store has now."""
        self.stored = stored
        self.record = _decode(stored.body)
        self._created = time.monotonic() - max(0.0, stored.read_at - stored.created)

    @property
    def id(self) -> str:
        return self.stored.id

    @property
    def ended(self) -> bool:
        return self.record.status in TERMINAL

    @property
    def age(self) -> float:
        """Seconds since its creation: until it was read by the clock of the store, and from then on by ours."""
        return time.monotonic() - self._created

    def ttl(self, limits: TaskLimits) -> float:
        """How long after its creation it is kept, when it was read: it grows while the task is worked on."""
        age = self.stored.read_at - self.stored.created
        return self.record.ttl if self.ended else max(self.record.ttl, age + limits.keep)


def token_of(task: Task) -> str:
    """The name of a task for another engine."""
    return urlsafe_b64encode(encode([task.id, task.stored.owner])).decode()


# ---------------------------------------------------------------- changes


def _kept(task: Task, limits: TaskLimits) -> Placement:
    """Nobody works on the task: it is kept to the end of its time, and at least for a while."""
    task.record.ttl = max(task.record.ttl, task.age + limits.keep)
    return OVERDUE, task.record.ttl - task.age


def finish(task: Task, limits: TaskLimits, status: Status, outcome: Raw | UnsetType, message: str = "") -> Placement:
    record = task.record
    record.status, record.outcome, record.faulty = status, outcome, False
    record.message = message or record.message
    record.open, record.answers, record.state, record.checkpoint = {}, {}, UNSET, UNSET
    return _kept(task, limits)


def complete(task: Task, limits: TaskLimits, outcome: Raw) -> Placement:
    """The tool has returned. If that is an error, a task of the handshake era has failed, a modern one is completed."""
    failed = task.record.request.version in DIALECTS and is_error(outcome)
    return finish(task, limits, "failed" if failed else "completed", outcome)


class _Erroneous(Struct):
    isError: bool | None = None


def is_error(result: Raw) -> bool:
    """Whether an encoded tool result is an error."""
    return msgspec.json.decode(result, type=_Erroneous).isError is True


def fail(task: Task, limits: TaskLimits, error: ProtocolError) -> Placement:
    placement = finish(task, limits, "failed", Raw(encode(Fault(error.code, error.message, error.data))), error.message)
    task.record.faulty = True
    return placement


def park(task: Task, limits: TaskLimits, questions: Mapping[str, Mapping[str, Any]], state: bytes) -> Placement | None:
    """The task waits for answers. A question that is asked again gets another key: keys are for one use."""
    record = task.record
    if record.state is not UNSET and bytes(record.state) == state.strip():
        return None  # it is written already, but the store could not say so
    record.status, record.state, record.open, record.answers = "input_required", Raw(state), {}, {}
    for name, question in questions.items():
        key = name if name not in record.used else f"{name}.{len(record.used) + 1}"
        record.used.append(key)
        record.open[key] = OpenQuestion(name, question["method"], Raw(question["params"]))
    return _kept(task, limits)


def answer(task: Task, limits: TaskLimits, responses: Mapping[str, Any]) -> Placement | None:
    """Take the answers to open questions, and go on when all are there. Other keys are ignored."""
    record = task.record
    for key in [key for key in responses if key in record.open]:
        record.answers[record.open.pop(key).name] = Raw(encode(responses[key]))
    if record.status != "input_required":
        return None
    if record.open:
        return _kept(task, limits)
    record.status = "working"
    return record.queue, 0.0


def lost(task: Task, limits: TaskLimits) -> Placement:
    """The worker has not given a sign of life: begin anew where that is safe."""
    record = task.record
    if record.status == "input_required":
        return fail(task, limits, ProtocolError(INTERNAL_ERROR, "Nobody answered in time."))
    if record.external:
        return fail(task, limits, ProtocolError(INTERNAL_ERROR, "The work was not finished in time."))
    if record.attempt <= record.retries:
        record.attempt += 1
        return record.queue, 0.0
    text = "The worker was lost. The work is not repeated, because it may have had effects."
    return fail(task, limits, ProtocolError(INTERNAL_ERROR, text, {"reason": "worker lost"}))
