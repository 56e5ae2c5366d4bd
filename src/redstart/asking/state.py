"""The state of a dialogue: what it has recorded, and how `requestState` carries that through the client.

Spec: /specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from redstart.asking.questions import Question
from redstart.asking.seal import EXPIRED, KeyRing, refused
from redstart.features.principal import principal_key
from redstart.protocol.call import Call, CallTask
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError, decode, encode
from redstart.wire.types import CallToolParams, GetPromptParams, ReadResourceParams

Params = CallToolParams | GetPromptParams | ReadResourceParams
"""The parameters of the requests whose handlers may ask."""

MAX_MESSAGE: Final = 80
"""Characters of a message that are recorded, for the error that names it."""
NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_PADDING: Final = (b"", b"  ", b" ")
"""Blanks that make a state a multiple of three bytes long, so that its base64 has only one spelling."""
_sorted = msgspec.json.Encoder(order="sorted").encode


class Asked(Struct, array_like=True):
    """A question that went out: enough to tell in a later round whether the handler asks the same one."""

    name: str
    kind: str
    message: str
    digest: int
    alone: bool
    """Whether it was the only question in its turn of the loop, so that a replay need not wait for others."""


class Answered(Struct, array_like=True):
    """A question with the client's answer, as it came."""

    asked: Asked
    result: object


class StepResult(Struct, array_like=True):
    """The result of a step, and the digests of the answers that were known when it was performed."""

    raw: Raw
    answers: dict[str, str]


class Sealed(Struct, array_like=True):
    """The contents of a `requestState`."""

    expires: float
    rounds: int
    open: list[Asked]
    answers: list[Answered]
    steps: dict[str, Raw]
    id: str
    once: str
    """A name for this state, if it is for one use."""
    performed: list[str]
    """The keys of steps that are done and whose results are in a store, not here."""


_decode = msgspec.json.Decoder(Sealed).decode


class Memory(Struct, eq=False):
    """What a dialogue has recorded: from the state that its client sent, and in this round."""

    state: str = ""
    """The state that came with this round."""
    bound: bytes = b""
    """The request that the states of this dialogue belong to, once that is known."""
    rounds: int = 0
    """The number of earlier rounds. In the first round no other process can serve this dialogue."""
    id: str = ""
    answers: dict[str, Answered] = {}
    unread: set[str] = set()
    """The recorded answers that the handler has not asked for yet. While there are any, the run is a replay."""
    unsealed: Mapping[str, object] = NOTHING
    """Answers that came without a state: they count for questions with a `key=` only."""
    visit: Answered | None = None
    """The answer to a URL elicitation error: what the user did about a web page. `ctx.elicit` never returns it."""
    results: dict[str, StepResult] = {}
    """The results of steps, by their keys."""
    performed: set[str] = set()
    """The keys of steps that are done and whose results are only in the store."""

    def name(self) -> str:
        """The name of this dialogue in the store: the same for all rounds with the same state."""
        if not self.id:
            known = self.state.encode()
            self.id = sha256(known).hexdigest()[:32] if known else secrets.token_urlsafe(16)
        return self.id

    def digest(self, name: str) -> str:
        """A fingerprint of a recorded answer; empty where there is none."""
        answer = self.answers.get(name)
        if answer is None:
            return ""
        result = answer.result
        if isinstance(result, dict):  # `_meta` is not part of the answer
            result = {key: value for key, value in result.items() if key != "_meta"}
        return sha256(_sorted(result)).hexdigest()[:32]

    def read_answers(self) -> dict[str, str]:
        """The digests of the answers that the handler has got in this run."""
        return {name: self.digest(name) for name in self.answers if name not in self.unread}


def asked(question: Question[object]) -> Asked:
    """A question as it is recorded."""
    return Asked(question.name, question.kind, question.message[:MAX_MESSAGE], question.digest, question.alone)


def binding(server: str, call: Call, params: Params) -> bytes:
    """The request that a state belongs to: server, method, user and parameters, in whatever order these come."""
    user = "" if call.user is None else principal_key(call.user)
    if isinstance(params, ReadResourceParams):
        return _sorted((server, call.method.name, user, params.uri))
    arguments = params.arguments
    if type(arguments) is Raw:
        arguments = decode(arguments)
    return _sorted((server, call.method.name, user, params.name, None if arguments is UNSET else arguments))


def open_state(keys: KeyRing, server: str, call: Call) -> tuple[Memory, str]:
    """What the state of a retry has recorded, and the name of that state if it is for one use.

    A state that is not valid is refused before any handler runs.
    """
    params = call.params
    responses = {} if params.input_responses is UNSET else params.input_responses
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object: the key of each question, its answer")
    if params.request_state is UNSET:
        return Memory(unsealed=responses), ""
    bound = binding(server, call, params)
    try:
        sealed = _decode(keys.open(params.request_state, bound))
    except msgspec.DecodeError:  # it was made by another version of this library
        raise refused() from None
    if sealed.expires <= time.time():
        raise refused(EXPIRED)
    memory = _recalled(sealed, responses)
    memory.state, memory.bound = params.request_state, bound
    return memory, sealed.once


def task_memory(task: CallTask) -> Memory:
    """What the dialogue of a task has recorded in earlier rounds; the steps of a task are always kept in the store."""
    if task.state is UNSET:
        return Memory(rounds=1, id=task.id)
    memory = _recalled(_decode(task.state), {name: decode(raw) for name, raw in task.answers.items()})
    memory.id = memory.id or task.id
    return memory


def _recalled(sealed: Sealed, responses: Mapping[str, object]) -> Memory:
    """The memory of a dialogue whose open questions have these answers."""
    memory = Memory(rounds=sealed.rounds, id=sealed.id)
    for record in sealed.answers:
        memory.answers[record.asked.name] = record
    for question in sealed.open:
        if question.name not in responses:
            continue
        record = Answered(question, responses[question.name])
        if question.kind == "visit":
            memory.visit = record
        else:
            memory.answers[question.name] = record
    memory.unread = set(memory.answers)
    memory.performed.update(sealed.performed)
    for key, raw in sealed.steps.items():
        memory.results[key] = StepResult(raw, {})
    return memory


def packed(
    memory: Memory, questions: Sequence[Question[object]], expires: float, secret: bool, once: bool = False
) -> bytes:
    """What a dialogue has recorded. Without `secret` it has no results of steps, because clients can read it."""
    if memory.rounds:
        memory.name()  # a round that is sent twice stays one dialogue
    steps: dict[str, Raw] = {}
    performed: list[str] = []
    if memory.results or memory.performed:
        if secret:
            steps = {key: result.raw for key, result in memory.results.items()}
        performed = sorted((memory.performed | memory.results.keys()) - steps.keys())
    contents = (
        expires,
        memory.rounds + 1,
        list(map(asked, questions)),
        list(memory.answers.values()),
        steps,
        memory.id,
        secrets.token_urlsafe(12) if once else "",
        performed,
    )
    payload = encode(contents)
    return payload + _PADDING[len(payload) % 3]


def largest_part(memory: Memory, questions: Sequence[Question[object]], secret: bool) -> str:
    """What takes most of a state that is too large, and what to do about it."""
    parts = [(len(encode(list(map(asked, questions)))), "the list of the open questions", "ask fewer of them at once")]
    for answer in memory.answers.values():
        what = f"the answer to {answer.asked.message!r}"
        parts.append((len(encode(answer.result)), what, "limit its length, or ask for it last"))
    for key, result in memory.results.items() if secret else ():
        advice = "keep it elsewhere, and return a reference to it"
        parts.append((len(result.raw), f"the result of the step {key!r}", advice))
    size, name, advice = max(parts)
    return f"The largest part is {name} ({size} bytes): {advice}"
