"""What a dialogue remembers between two rounds: the record inside `requestState`, and the way in and out of it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct

from redstart.features.errors import log
from redstart.features.principal import principal_key
from redstart.protocol.call import Call
from redstart.server.seal import EXPIRED, USED, StateTooLarge, refused
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, decode, encode
from redstart.wire.types import InputRequired

if TYPE_CHECKING:
    from redstart.features.ask import Question
    from redstart.server.asking import Dialogue
    from redstart.server.host import Host

SAID = 80
"""Characters of a message that are remembered, for the error that names it."""


class Asked(Struct, array_like=True):
    """A question that went out: enough to tell whether a replay asks the same."""

    name: str
    kind: str
    message: str
    digest: int
    alone: bool
    """Whether no other question was asked in the same turn, so that a replay need not wait for any."""


class Answered(Struct, array_like=True):
    """A question with the client's answer, as it came."""

    asked: Asked
    result: Any


class Memory(Struct, array_like=True):
    """The contents of a sealed state."""

    id: str
    expires: float
    once: str
    """A name for this state, if it is for one use."""
    rounds: int
    open: list[Asked]
    answers: list[Answered]
    steps: dict[str, Raw]


_decode = msgspec.json.Decoder(Memory).decode
_sorted = msgspec.json.Encoder(order="sorted").encode
_OURS = ("_meta", "inputResponses", "requestState")


def asked(question: Question) -> Asked:
    """A question as it is remembered."""
    return Asked(question.name, question.kind, question.message[:SAID], question.digest(), question.alone)


def binding(call: Call, server: str) -> bytes:
    """What a state is good for: this user, this server, this method, these parameters however they are ordered."""
    params = decode(call.raw_params)
    for name in _OURS:
        params.pop(name, None)
    return _sorted([server, call.method.name, principal_key(call.principal), params])


# ---------------------------------------------------------------- in


async def recall(dialogue: Dialogue) -> None:
    """Fill a dialogue with what the retry brought; whatever is wrong with it is refused before any handler runs."""
    call, host = dialogue.call, dialogue.host
    responses = call.params.input_responses
    if responses is UNSET:
        responses = {}
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object: the key of each question, its answer")
    if call.params.request_state is UNSET:
        if not used_once(call, host):
            dialogue.loose = responses
        return
    dialogue.bound = binding(call, host.server.name)
    memory = _decode(host.keys.open(call.params.request_state, dialogue.bound))
    left = memory.expires - time.time()
    if left <= 0:
        raise refused(EXPIRED)
    if memory.once and not await host.store.kv_set(f"used/{memory.once}", b"1", left + 60, nx=True, durable=True):
        raise refused(USED)
    dialogue.id = memory.id
    dialogue.rounds = memory.rounds
    dialogue.fresh = False
    dialogue.steps = {key: bytes(raw) for key, raw in memory.steps.items()}
    found = [Answered(asked, responses[asked.name]) for asked in memory.open if asked.name in responses]
    dialogue.answers = {record.asked.name: record for record in (*memory.answers, *found)}
    dialogue.unread = set(dialogue.answers)


def used_once(call: Call, host: Host) -> bool:
    """Whether the states of this call are for one use: `Server(single_use=True)` or `@tool(single_use=True)`."""
    if host.server.single_use:
        return True
    tool = host.server.tools.items.get(call.params.name) if call.method.name == "tools/call" else None
    return getattr(tool, "single_use", False)


# ---------------------------------------------------------------- out


async def input_required(dialogue: Dialogue) -> InputRequired:
    """The result that asks the open questions and carries what is known so far."""
    call, host = dialogue.call, dialogue.host
    ttl = host.server.ask_timeout
    secret = host.keys.secret
    if dialogue.steps and not secret:
        for key, raw in dialogue.steps.items():
            await host.store.kv_set(dialogue.step_name(key), raw, ttl + 60, durable=True)
    memory = Memory(
        id=dialogue.id,
        expires=time.time() + ttl,
        once=secrets.token_urlsafe(12) if used_once(call, host) else "",
        rounds=dialogue.rounds + 1,
        open=[asked(question) for question in dialogue.open],
        answers=list(dialogue.answers.values()),
        steps={key: Raw(raw) for key, raw in dialogue.steps.items()} if secret else {},
    )
    try:
        state = host.keys.seal(encode(memory), dialogue.bound or binding(call, host.server.name))
    except StateTooLarge as error:
        log.error("%s: %s", call.method.name, error)
        raise ProtocolError(INTERNAL_ERROR, str(error)) from None
    return InputRequired(
        result_type="input_required",
        input_requests={question.name: question.wire() for question in dialogue.open},
        request_state=state,
    )
