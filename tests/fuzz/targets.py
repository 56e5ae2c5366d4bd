"""What is fuzzed: a server in memory, its ASGI application, and a real process on two pipes.

Each target promises the same: no crash, no hang, exactly one answer to every request, and the next request works.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redstart.transports.memory import MemoryPeer

from .mutate import ANY, REVISIONS, Expected, Mutator, expected
from .server import make_server

SERVER = Path(__file__).parent / "server.py"
PING = b'{"jsonrpc":"2.0","id":"alive","method":"ping"}'
PATIENCE = 10.0


class Failure(AssertionError):
    """A promise that was not kept, with the message that shows it."""


def judge(data: bytes, wanted: Expected, answers: list[Any]) -> None:
    """Compare the answers to one message with what must follow it."""
    if not wanted.least <= len(answers) <= wanted.most:
        raise Failure(f"{len(answers)} answers instead of {wanted.least}..{wanted.most} to {data!r}: {answers}")
    for answer in answers:
        if isinstance(answer, list):
            continue
        id = answer.get("id")
        if wanted.id is not ANY and id != wanted.id and id is not None:
            raise Failure(f"the id {id!r} instead of {wanted.id!r} in the answer to {data!r}")
        if wanted.id is not ANY and wanted.id is not None and id is None:
            raise Failure(f"no id in the answer to {data!r}: {answer}")


async def in_memory(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """One message at a time, to a peer that is replaced now and then."""
    server = make_server()
    await server.runtime.start()
    inbox: list[bytes] = []
    peer = MemoryPeer(server, inbox.append)
    sent = 0
    while sent < count and go_on():
        if sent % 200 == 0:
            await peer.close()
            peer = MemoryPeer(server, inbox.append)
            if sent % 400 == 0:
                revision = mutator.random.choice(REVISIONS).encode()
                peer.send(
                    b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"%b"}}' % revision
                )
                await _quiet(peer, b"initialize")
        inbox.clear()
        data = mutator.message()
        wanted = expected(data)
        peer.send(data)
        if peer.link.calls:
            await _quiet(peer, data)
        answers = [m for m in map(json.loads, inbox) if isinstance(m, list) or "method" not in m]
        if wanted.listens and wanted.id in peer.link.calls:
            peer.send(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % _raw(wanted.id)
            )
        else:
            judge(data, wanted, answers)
        sent += 1
        if sent % 50 == 0:
            inbox.clear()
            peer.send(PING)
            await _quiet(peer, PING)
            if [json.loads(m).get("id") for m in inbox if b'"method"' not in m] != ["alive"]:
                raise Failure(f"no answer to a ping after {data!r}")
    await peer.close()
    await server.runtime.stop()
    return sent


async def _quiet(peer: MemoryPeer, data: bytes) -> None:
    """Wait until nothing but listeners is open."""
    for _ in range(100_000):
        if all(call.method.name == "subscriptions/listen" for call in peer.link.calls.values()):
            await asyncio.sleep(0)
            return
        await asyncio.sleep(0)
    raise Failure(f"no answer to {data!r}: {list(peer.link.calls.values())}")


def _raw(id: Any) -> bytes:
    return json.dumps(id).encode()


# ---------------------------------------------------------------- ASGI


async def over_asgi(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """One POST at a time; a listener is told that its client has gone."""
    app = make_server().asgi()
    sent = 0
    session: dict[str, str] = {}
    while sent < count and go_on():
        if sent % 100 == 0:
            revision = mutator.random.choice(REVISIONS)
            opened = (
                b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"%b"}}'
                % revision.encode()
            )
            status, headers, _ = await _post(app, opened, {})
            if status != 200:
                raise Failure(f"initialize was answered with {status} after {sent} messages")
            session = {"mcp-session-id": headers[b"mcp-session-id"].decode(), "mcp-protocol-version": revision}
        data = mutator.message()
        wanted = expected(data)
        headers_sent = mutator.headers(data)
        if not headers_sent and mutator.random.random() < 0.8:
            headers_sent = session
        try:
            status, headers, body = await asyncio.wait_for(_post(app, data, headers_sent), PATIENCE)
        except TimeoutError:
            raise Failure(f"no response to {data!r} with {headers_sent}") from None
        _judge_response(data, headers_sent, wanted, status, headers, body)
        sent += 1
    return sent


def _judge_response(
    data: bytes, sent: dict[str, str], wanted: Expected, status: int, headers: dict[bytes, bytes], body: bytes
) -> None:
    if status not in (200, 202, 400, 404, 406):
        raise Failure(f"status {status} for {data!r} with {sent}: {body!r}")
    if status == 202:
        if body or wanted.least:
            raise Failure(f"202 for {data!r} with {sent}: {body!r}")
        return
    events = [body]
    if headers.get(b"content-type") == b"text/event-stream":
        events = [part[6:] for part in body.split(b"\n") if part.startswith((b"data: {", b"data: ["))]
    answers: list[Any] = [m for m in map(json.loads, events) if isinstance(m, list) or "method" not in m]
    if status == 200 and b"subscriptions/acknowledged" in body:
        return  # a listener: it ends with its client
    if not answers and status == 200 and not body and wanted.cancels is ANY and not wanted.least:
        return  # a batch that cancels its only call
    if len(answers) != 1:
        raise Failure(f"{len(answers)} answers to {data!r} with {sent}: {body!r}")
    refused = (
        status in (400, 404, 406) and answers[0].get("id") is None
    )  # before the body was read: a header, a session
    if wanted.least and not refused:
        judge(data, wanted, answers)


async def _post(app: Any, body: bytes, more: dict[str, str]) -> tuple[int, dict[bytes, bytes], bytes]:
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **more,
    }
    out: list[Any] = []
    begun = asyncio.Event()
    read = False

    async def receive() -> Any:
        nonlocal read
        if not read:
            read = True
            return {"type": "http.request", "body": body, "more_body": False}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        out.append(event)
        if b"subscriptions/acknowledged" in event.get("body", b""):
            begun.set()

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers.items()],
    }
    await app(scope, receive, send)
    whole = b"".join(event.get("body", b"") for event in out[1:])
    return out[0]["status"], dict(out[0]["headers"]), whole


# ---------------------------------------------------------------- stdio

CHUNK = 200


async def over_stdio(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """A pipe full of messages at a time, then a ping; every request of it must have been answered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SERVER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=1 << 26,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    sent = 0
    try:
        first = mutator.message()
        while sent < count and go_on():
            lines, following = _lines(mutator, first)
            await _chunk(lines, process.stdin, process.stdout, sent)
            sent, first = sent + len(lines), following
        process.stdin.close()
        errors = await asyncio.wait_for(process.stderr.read(), PATIENCE)
        status = await asyncio.wait_for(process.wait(), PATIENCE)
        if status or errors:
            raise Failure(f"the process ended with {status}: {errors.decode(errors='replace')[-2000:]}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return sent


def _lines(mutator: Mutator, first: bytes) -> tuple[list[bytes], bytes]:
    """The messages of a chunk, and the one after it: an initialize begins one, because it ends the calls before it."""
    lines, following = [first], mutator.message()
    while len(lines) < CHUNK and not (b"initialize" in following or b"\\u" in following):
        lines.append(following)
        following = mutator.message()
    return lines, following


async def _chunk(messages: list[bytes], stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, number: int) -> None:
    wanted: Counter[Any] = Counter()
    exempt: set[Any] = set()
    lines, unclear = [], []
    for data in messages:
        found = expected(data)
        lines.append(data)
        if found.id is ANY:
            unclear.append(data)
        if found.listens:
            exempt.add(found.id)
            lines.append(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % _raw(found.id)
            )
        elif found.least and found.id is not ANY and found.id is not None:
            wanted[found.id] += 1
        if found.cancels is not None and isinstance(found.cancels, int | str):
            exempt.add(found.cancels)
        elif found.cancels is ANY:
            exempt |= _may_cancel(data)
    alive = f"alive-{number}"
    wanted[alive] += 1
    lines.append(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % _raw(alive))
    stdin.write(b"".join(line + b"\n" for line in lines))
    for id in exempt:
        wanted.pop(id, None)
    while +wanted:
        try:
            line = await asyncio.wait_for(stdout.readline(), PATIENCE)
        except TimeoutError:
            missing = [line for line in lines if any(_raw(id) in line for id in wanted)]
            raise Failure(f"no answer to {dict(wanted)}: {missing[:5]!r}") from None
        if not line:
            raise Failure(f"the process ended in the middle of {lines!r}")
        answer = json.loads(line)
        for one in answer if isinstance(answer, list) else [answer]:
            if "method" not in one and one.get("id") in wanted:
                wanted[one.get("id")] -= 1
    # An id that also stands in a message of unclear meaning may have been the answer to that one.
    over = {id: n for id, n in wanted.items() if n < 0 and not _stands_in(id, unclear)}
    if over:
        raise Failure(f"answered too often: {over}")


def _stands_in(id: Any, lines: list[bytes]) -> bool:
    spelled = _raw(id), json.dumps(id, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return any(form in line for form in spelled for line in lines)


def _may_cancel(data: bytes) -> set[Any]:
    """The ids that a message of unclear meaning may cancel: a batch, or one in which a key stands twice."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return set()
    params = [one.get("params") for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    ids = [one.get("requestId") for one in params if isinstance(one, dict)]
    return {id for id in ids if isinstance(id, int | str)}
