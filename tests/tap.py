"""A tap on everything that a server in this process sends: each message is judged by the table of the spec's facts,
and by the types of the official `mcp` package where that is installed.

Messages pass through a Link, with the call that they belong to; the few that belong to no call are met where they are
made. What is found is collected, not raised: an exception inside the server would only become another message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from redstart.features import subscriptions
from redstart.protocol.call import Call, Event, Pending, Refusal
from redstart.protocol.headers import Headers
from redstart.protocol.link import Link
from redstart.tasks import service
from redstart.transports import http
from spec_facts import REVISIONS, facts, problems

try:
    from mcp_types import methods as official
except ImportError:
    official = None  # type: ignore[assignment]

HANDSHAKE, LATEST = REVISIONS[:-1], REVISIONS[-1]

found: list[str] = []
"""What was wrong with the messages since somebody last cleared it."""


def install() -> None:
    """Wrap the places where messages are made."""
    for name, tap in (("reply", _reply), ("fail", _fail), ("notify", _notify), ("ask", _ask)):
        setattr(Link, name, tap(getattr(Link, name)))
    Link.receive = _receive(Link.receive)  # type: ignore[method-assign]
    Link.withdraw = _withdraw(Link.withdraw)  # type: ignore[method-assign]
    listener: Any = subscriptions._Listener
    listener.tell = _tell(listener.tell)
    subscriptions.notification = _notification(subscriptions.notification)  # type: ignore[attr-defined]
    service.notification = _task_notification(service.notification)  # type: ignore[attr-defined]
    http.failure = _failure(http.failure)  # type: ignore[attr-defined]


# ---------------------------------------------------------------- where messages are made


def _reply(inner: Callable[..., bytes | None]) -> Any:
    def reply(link: Link, call: Call, result: Any) -> bytes | None:
        was_open = link.calls.get(call.id) is call
        data = inner(link, call, result)
        if was_open and call.task is None:  # what a task returns is sent later, if at all
            _judge(_own(call, data), [call.dialect.version], result_of=call.method.name)
        return data

    return reply


def _fail(inner: Callable[..., bytes | None]) -> Any:
    def fail(link: Link, call: Call, error: Any) -> bytes | None:
        was_open = link.calls.get(call.id) is call
        data = inner(link, call, error)
        if was_open:
            _judge(_own(call, data), [call.dialect.version])
        return data

    return fail


def _own(call: Call, data: bytes | None) -> bytes:
    """The answer to this call; what is sent may be a batch, now or later."""
    own = data if call.batch is None else call.batch.parts[-1]
    assert own is not None
    return own


def _notify(inner: Callable[..., bytes | None]) -> Any:
    def notify(link: Link, call: Call, method: str, params: Any) -> bytes | None:
        data = inner(link, call, method, params)
        if data is not None:
            _judge(data, [call.dialect.version])
        return data

    return notify


def _ask(inner: Callable[..., tuple[Pending, bytes] | None]) -> Any:
    def ask(link: Link, call: Call, method: str, params: Any) -> tuple[Pending, bytes] | None:
        asked = inner(link, call, method, params)
        if asked is not None:
            _judge(asked[1], [call.dialect.version])
        return asked

    return ask


def _withdraw(inner: Callable[..., bytes]) -> Any:
    def withdraw(link: Link, pending: Pending) -> bytes:
        data = inner(link, pending)
        _judge(data, [pending.call.dialect.version])
        return data

    return withdraw


def _receive(inner: Callable[..., list[Event]]) -> Any:
    def receive(link: Link, data: bytes, headers: Headers | None = None) -> list[Event]:
        events = inner(link, data, headers)
        for event in events:
            if isinstance(event, Refusal):
                _judge(event.data, [link.session.revision if link.session else LATEST])
        return events

    return receive


def _tell(inner: Callable[..., None]) -> Any:
    def tell(listener: Any, head: bytes) -> None:
        _judge(head + listener._tail, [LATEST])
        inner(listener, head)

    return tell


def _notification(inner: Callable[..., bytes]) -> Any:
    def notification(method: str, params: Any) -> bytes:
        data = inner(method, params)
        _judge(data, HANDSHAKE)
        return data

    return notification


def _task_notification(inner: Callable[..., bytes]) -> Any:
    def notification(method: str, params: Any) -> bytes:
        data = inner(method, params)
        _judge(data, [LATEST if method == "notifications/tasks" else HANDSHAKE[-1]])
        return data

    return notification


def _failure(inner: Callable[..., bytes]) -> Any:
    def failure(*arguments: Any) -> bytes:
        data = inner(*arguments)
        _judge(data, [LATEST])
        return data

    return failure


# ---------------------------------------------------------------- judging them


def _judge(data: bytes, revisions: Sequence[str], result_of: str | None = None) -> None:
    message = json.loads(data, parse_constant=_not_json)
    for part in message if isinstance(message, list) else [message]:
        for revision in revisions:
            bad = _problems(part, revision, result_of)
            unknown = _about_tasks(part, result_of)  # to the official package
            if not bad and not unknown and official is not None:
                bad = _official_problems(part, revision, result_of)
            found.extend(f"{problem}\n    {data[:2000]!r}" for problem in bad)


def _about_tasks(message: dict[str, Any], result_of: str | None) -> bool:
    """Whether a message is about tasks, which the official package does not know."""
    result = message.get("result", {})
    is_task = "task" in result or result.get("resultType") == "task"
    return is_task or "tasks" in f"{result_of} {message.get('method')}"


def _not_json(name: str) -> None:
    found.append(f"{name} is not JSON")


def _problems(message: dict[str, Any], revision: str, result_of: str | None) -> list[str]:
    known = facts(revision)
    if "error" in message:
        return problems(message, _error_kind(message, revision), revision) + _fault_problems(message["error"], revision)
    if result_of is not None:
        kind = known.results.get(result_of, "")
        bad = problems(message, "Response", revision)
        return bad + (problems(message["result"], kind, revision) if kind else [f"no {result_of} in {revision}"])
    method = message["method"]
    if method not in known.params:
        return [f"no {method} in {revision}"]
    bad = problems(message, "Request" if "id" in message else "Notification", revision)
    if "params" in message or not known.params[method].endswith("?"):
        bad += problems(message.get("params"), known.params[method].rstrip("?"), revision, "$.params")
    return bad


def _error_kind(message: dict[str, Any], revision: str) -> str:
    """JSON-RPC has null for an id that could not be read; the two latest schemas leave it out instead."""
    return "NamelessFault" if message.get("id", "") is None and revision in REVISIONS[:3] else "Fault"


def _fault_problems(fault: dict[str, Any], revision: str) -> list[str]:
    kind = facts(revision).faults.get(str(fault.get("code")))
    return problems(fault.get("data"), kind, revision, "$.error.data") if kind else []


def _official_problems(message: dict[str, Any], revision: str, result_of: str | None) -> list[str]:
    try:
        if result_of is not None and "result" in message:
            official.parse_server_result(result_of, revision, message["result"])
        elif "method" in message and "id" in message:
            official.parse_server_request(message["method"], revision, message.get("params"))
        elif "method" in message:
            official.parse_server_notification(message["method"], revision, message.get("params"))
    except (KeyError, ValueError) as error:
        return [f"mcp: {str(error)[:500]}"]
    return []
