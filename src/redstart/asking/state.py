"""What a dialogue remembers between two rounds: the record inside `requestState`, and the way in and out of it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from redstart.asking.dialogue import NOTHING, Dialogue
from redstart.asking.records import Answered, Memory, asked
from redstart.asking.seal import EXPIRED, StateTooLarge, refused
from redstart.asking.steps import Kept, Steps
from redstart.features.errors import log
from redstart.features.principal import principal_key
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, decode, encode
from redstart.wire.types import InputRequired, ReadResourceParams

if TYPE_CHECKING:
    from redstart.asking.runs import Asking

_decode = msgspec.json.Decoder(Memory).decode
_sorted = msgspec.json.Encoder(order="sorted").encode
_PADDING = (b"", b"  ", b" ")
"""Blanks that make base64 of a state come out even: then it has one spelling, and nothing is left to check."""


def binding(call: Call, shared: Asking, params: Any) -> bytes:
    """What a state is good for: this user, this server, this method, these parameters however they are ordered."""
    server = shared.server_name
    user = "" if call.principal is None else principal_key(call.principal)
    if type(params) is ReadResourceParams:
        return _sorted((server, call.method.name, user, params.uri))
    arguments = params.arguments
    if type(arguments) is Raw:
        arguments = decode(arguments)
    return _sorted((server, call.method.name, user, params.name, None if arguments is UNSET else arguments))


# ---------------------------------------------------------------- in


def recall(call: Call, shared: Asking) -> Dialogue:
    """The dialogue that a retry goes on with; whatever is wrong with what it brought is refused before any handler."""
    params = call.params
    responses = {} if params.input_responses is UNSET else params.input_responses
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object: the key of each question, its answer")
    if params.request_state is UNSET:
        return Dialogue(call, shared, False, loose=NOTHING if shared.used_once(call) else responses)
    bound = binding(call, shared, params)
    try:
        memory = _decode(shared.keys.open(params.request_state, bound))
    except msgspec.DecodeError:  # of another version of this library
        raise refused() from None
    if memory.expires <= time.time():
        raise refused(EXPIRED)
    answers = {record.asked.name: record for record in memory.answers} if memory.answers else {}
    visit = None
    for question in memory.open:
        name = question.name
        if name in responses:
            record = Answered(question, responses[name])
            if question.kind == "visit":
                visit = record
            else:
                answers[name] = record
    dialogue = Dialogue(
        call,
        shared,
        live=False,
        fresh=False,
        id=memory.id,
        bound=bound,
        rounds=memory.rounds,
        answers=answers,
        unread=set(answers),
        once=memory.once,
        visit=visit,
    )
    if memory.steps or memory.performed:
        dialogue.steps = _steps_of(memory, dialogue)
    return dialogue


def _steps_of(memory: Memory, dialogue: Dialogue) -> Steps:
    """The steps that are done: their results, or where only a store has these, their keys."""
    steps = Steps(dialogue)
    steps.performed = set(memory.performed)
    steps.done = {key: Kept(raw, {}) for key, raw in memory.steps.items()}
    return steps


# ---------------------------------------------------------------- out


async def settled(dialogue: Dialogue) -> InputRequired:
    """The same, once nothing is half done."""
    steps = {} if dialogue.steps is None else await _kept(dialogue.steps, dialogue.shared)
    if dialogue.once:
        await dialogue.spend()
    return input_required(dialogue, steps)


def input_required(dialogue: Dialogue, steps: dict[str, Raw] | None = None) -> InputRequired:
    """The result that asks the open questions and carries what is known so far."""
    call, shared = dialogue.call, dialogue.shared
    if not dialogue.fresh:
        dialogue.named()  # a round that comes twice goes on as one dialogue
    opened: list[Any] = []
    requests: dict[str, Any] = {}
    for question in dialogue.open:
        opened.append(asked(question))
        requests[question.name] = {"method": question.method, "params": question.worded()}
    memory: tuple[Any, ...] = (time.time() + shared.ask_timeout, dialogue.rounds + 1, opened)
    once = secrets.token_urlsafe(12) if shared.used_once(call) else ""
    if dialogue.answers or steps or dialogue.id or once:
        memory = (*memory, list(dialogue.answers.values()), steps or {}, dialogue.id, once)
        if dialogue.steps is not None:  # a process without the store's record of a step must not repeat it
            memory += (sorted((dialogue.steps.performed | dialogue.steps.done.keys()) - (steps or {}).keys()),)
    payload = encode(memory)
    payload += _PADDING[len(payload) % 3]
    bound = dialogue.bound
    if not bound:  # to what the client sent; middleware may have made something else of it
        sent = call.method.decode(call.raw_params) if shared.behind_middleware else call.params
        bound = binding(call, shared, sent)
    try:
        state = shared.keys.seal(payload, bound)
    except StateTooLarge as error:
        log.error("%s: %s", shared.handler_of(call), error)
        raise ProtocolError(INTERNAL_ERROR, str(error)) from None
    return InputRequired(result_type="input_required", input_requests=requests, request_state=state)


async def _kept(steps: Steps, shared: Asking) -> dict[str, Raw]:
    """The results of steps that go into the state. Where clients could read them there, they go to the store."""
    await steps.settled()
    if shared.keys.secret:
        return {key: kept.raw for key, kept in steps.done.items()}
    await steps.keep_all()
    return {}
