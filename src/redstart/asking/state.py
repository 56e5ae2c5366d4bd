"""What a dialogue remembers between two rounds: the record inside `requestState`, and the way in and out of it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from redstart.asking.dialogue import NOTHING, Dialogue
from redstart.asking.records import Answered, Memory, asked, handler_of
from redstart.asking.seal import EXPIRED, USED, StateTooLarge, refused
from redstart.asking.steps import Kept, Steps
from redstart.features.errors import log
from redstart.features.principal import principal_key
from redstart.protocol.call import Call
from redstart.store.shared import scoped
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, decode, encode
from redstart.wire.types import InputRequired, ReadResourceParams

if TYPE_CHECKING:
    from redstart.server.runtime import Host

_decode = msgspec.json.Decoder(Memory).decode
_sorted = msgspec.json.Encoder(order="sorted").encode
_PADDING = (b"", b"  ", b" ")
"""Blanks that make base64 of a state come out even: then it has one spelling, and nothing is left to check."""


def binding(call: Call, host: Host, params: Any) -> bytes:
    """What a state is good for: this user, this server, this method, these parameters however they are ordered."""
    server = host.server.info.name
    user = "" if call.principal is None else principal_key(call.principal)
    if type(params) is ReadResourceParams:
        return _sorted((server, call.method.name, user, params.uri))
    arguments = params.arguments
    if type(arguments) is Raw:
        arguments = decode(arguments)
    return _sorted((server, call.method.name, user, params.name, None if arguments is UNSET else arguments))


# ---------------------------------------------------------------- in


def recall(call: Call, host: Host) -> Dialogue:
    """The dialogue that a retry goes on with; whatever is wrong with what it brought is refused before any handler."""
    params = call.params
    responses = {} if params.input_responses is UNSET else params.input_responses
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object: the key of each question, its answer")
    if params.request_state is UNSET:
        return Dialogue(call, host, False, loose=NOTHING if used_once(call, host) else responses)
    bound = binding(call, host, params)
    try:
        memory = _decode(host.keys.open(params.request_state, bound))
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
        host,
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


async def spend(dialogue: Dialogue) -> None:
    """Use up the state of this round."""
    name, dialogue.once = dialogue.once, ""
    ttl = dialogue.host.server.ask_timeout + 60
    key = scoped(principal_key(dialogue.call.principal), "used", name)
    if not await dialogue.host.store.kv_set(key, b"1", ttl, nx=True, durable=True):
        raise refused(USED)


def used_once(call: Call, host: Host) -> bool:
    """Whether the states of this call are for one use: `Server(single_use=True)` or `@tool(single_use=True)`."""
    if host.server.single_use:
        return True
    if call.method.name != "tools/call":
        return False
    tool = host.server.tools.items.get(call.params.name)
    return tool is not None and tool.declared.single_use


# ---------------------------------------------------------------- out


async def settled(dialogue: Dialogue) -> InputRequired:
    """The same, once nothing is half done."""
    steps = {} if dialogue.steps is None else await _kept(dialogue.steps, dialogue.host)
    if dialogue.once:
        await spend(dialogue)
    return input_required(dialogue, steps)


def input_required(dialogue: Dialogue, steps: dict[str, Raw] | None = None) -> InputRequired:
    """The result that asks the open questions and carries what is known so far."""
    call, host = dialogue.call, dialogue.host
    if not dialogue.fresh:
        dialogue.named()  # a round that comes twice goes on as one dialogue
    opened: list[Any] = []
    requests: dict[str, Any] = {}
    for question in dialogue.open:
        opened.append(asked(question))
        requests[question.name] = {"method": question.method, "params": question.worded()}
    memory: tuple[Any, ...] = (time.time() + host.server.ask_timeout, dialogue.rounds + 1, opened)
    once = secrets.token_urlsafe(12) if used_once(call, host) else ""
    if dialogue.answers or steps or dialogue.id or once:
        memory = (*memory, list(dialogue.answers.values()), steps or {}, dialogue.id, once)
        if dialogue.steps is not None:  # a process without the store's record of a step must not repeat it
            memory += (sorted((dialogue.steps.performed | dialogue.steps.done.keys()) - (steps or {}).keys()),)
    payload = encode(memory)
    payload += _PADDING[len(payload) % 3]
    bound = dialogue.bound
    if not bound:  # to what the client sent; middleware may have made something else of it
        sent = call.method.decode(call.raw_params) if host.server.features.middleware else call.params
        bound = binding(call, host, sent)
    try:
        state = host.keys.seal(payload, bound)
    except StateTooLarge as error:
        log.error("%s: %s", handler_of(call, host), error)
        raise ProtocolError(INTERNAL_ERROR, str(error)) from None
    return InputRequired(result_type="input_required", input_requests=requests, request_state=state)


async def _kept(steps: Steps, host: Host) -> dict[str, Raw]:
    """The results of steps that go into the state. Where clients could read them there, they go to the store."""
    await steps.settled()
    if host.keys.secret:
        return {key: kept.raw for key, kept in steps.done.items()}
    await steps.keep_all()
    return {}
