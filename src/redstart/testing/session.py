"""Plays a recorded session again and says which results differ. It is written by `Client(…, record="session.jsonl")`.

Only what a client wanted is played: its requests in their order, and its answers to questions. So a session that was
recorded with one revision and transport can be played with another one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from redstart.client.client import Client
from redstart.client.errors import ClientError, RequestError
from redstart.client.handlers import ElicitRequest, SampleRequest
from redstart.wire.jsonrpc import JsonObject, decode

NOT_PLAYED: Final = ("initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel")
OF_THE_WIRE: Final = ("_meta", "resultType", "ttlMs", "cacheScope", "requestState", "nextCursor")
"""Fields that depend on the revision or the moment, and not on what the server does."""
_MOST: Final = 64 * 1024 * 1024


class Difference(NamedTuple):
    """A request whose outcome is another one than in the recording."""

    method: str
    params: JsonObject
    expected: object
    got: object

    def __str__(self) -> str:
        asked = json.dumps(self.params, ensure_ascii=False)
        return f"{self.method} {asked:.300}\n    recorded: {_short(self.expected)}\n    now:      {_short(self.got)}"


class Exchange(Struct):
    """One request of the recording, and its outcome."""

    method: str
    params: JsonObject
    outcome: JsonObject | None = None


class Recording(Struct):
    """What a session file holds: the requests, and the answers that the client gave to questions."""

    exchanges: list[Exchange]
    answers: list[tuple[str, object, JsonObject]]
    """The method of each question, its message or messages, and the result."""


async def replay(
    path: str | os.PathLike[str], target: object, *, ignore: Collection[str] = (), **options: Any
) -> list[Difference]:
    """Send the requests of a recorded session to `target`; the requests whose results differ.

    `ignore` names fields of results that differ each time, such as `"time"`; `options` are those of a Client.

    >>> async def test_session() -> None:
    ...     assert await replay("session.jsonl", server, ignore=["time"]) == []
    """
    recording = read(path)
    answers = list(recording.answers)
    left_out = {*OF_THE_WIRE, *ignore}
    options.setdefault("on_elicit", lambda request: _answer(answers, "elicitation/create", request))
    options.setdefault("on_sample", lambda request: _answer(answers, "sampling/createMessage", request))
    found = []
    async with Client(target, **options) as client:
        for exchange in recording.exchanges:
            expected = _plain(exchange.outcome, left_out)
            got = _plain(await _outcome(client, exchange), left_out)
            if got != expected:
                found.append(Difference(exchange.method, exchange.params, expected, got))
    return found


async def _outcome(client: Client, exchange: Exchange) -> JsonObject:
    try:
        # As it came, because the results of the client's own methods have lost what they do not know.
        return {"result": decode(await client._requests.result(exchange.method, exchange.params))}
    except RequestError as error:
        return {"error": {"code": error.code, "message": error.message}}
    except ClientError as error:
        return {"error": {"message": str(error)}}


def _answer(answers: list[tuple[str, object, JsonObject]], method: str, request: ElicitRequest | SampleRequest) -> Any:
    """The recorded answer to this question; to the next one of its kind if the text is another one now."""
    text = request.message if isinstance(request, ElicitRequest) else request.messages
    of_kind = [entry for entry in answers if entry[0] == method]
    chosen = next((entry for entry in of_kind if entry[1] == text), next(iter(of_kind), None))
    if chosen is None:
        raise AssertionError(f"the server asks {text!r}, and the recording has no answer left")
    answers.remove(chosen)
    return chosen[2]


def _plain(value: object, left_out: Collection[str]) -> object:
    """A value without the fields that do not count."""
    if isinstance(value, Mapping):
        return {key: _plain(inner, left_out) for key, inner in value.items() if key not in left_out}
    if isinstance(value, list):
        return [_plain(inner, left_out) for inner in value]
    return value


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 500 else f"{text[:500]} …"


# ---------------------------------------------------------------- reading a recording


def read(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file; ValueError says what is wrong with it, and in which line."""
    file = Path(path)
    if file.stat().st_size > _MOST:
        raise ValueError(f"{file} has more than {_MOST // 2**20} MiB")
    recording = Recording([], [])
    open_requests: dict[object, Exchange] = {}
    rounds: dict[object, tuple[Exchange, JsonObject]] = {}
    questions: dict[object, JsonObject] = {}
    for to, message in _messages(file):
        params = message.get("params") or {}
        if to == "server" and "method" in message and "id" in message:
            state = params.get("requestState")
            if state in rounds:  # the next round of the same request
                exchange, asked = rounds.pop(state)
                _note_answers(recording, asked, params.get("inputResponses") or {})
            else:
                own = {name: value for name, value in params.items() if name != "_meta"}
                exchange = Exchange(message["method"], own)
                if message["method"] not in NOT_PLAYED:
                    recording.exchanges.append(exchange)
            open_requests[message["id"]] = exchange
        elif to == "client" and "method" in message and "id" in message:
            questions[message["id"]] = message
        elif to == "server" and message.get("id") in questions:
            _note_answers(recording, {"": questions.pop(message["id"])}, {"": message.get("result")})
        elif to == "client" and message.get("id") in open_requests:
            exchange = open_requests.pop(message["id"])
            result = message.get("result")
            if isinstance(result, dict) and result.get("resultType") == "input_required":
                rounds[result.get("requestState")] = exchange, result.get("inputRequests") or {}
            else:
                exchange.outcome = {name: message[name] for name in ("result", "error") if name in message}
    recording.exchanges = [exchange for exchange in recording.exchanges if exchange.outcome is not None]
    return recording


def _note_answers(recording: Recording, asked: JsonObject, answers: JsonObject) -> None:
    for key, question in asked.items():
        params, answer = question.get("params") or {}, answers.get(key)
        if isinstance(answer, dict):
            text = params.get("message", params.get("messages"))
            recording.answers.append((question["method"], text, answer))


def _messages(file: Path) -> Iterator[tuple[str, JsonObject]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            to, message = entry["to"], entry["message"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{file}:{number}: not a message of a recorded session") from None
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict):
                yield to, one
