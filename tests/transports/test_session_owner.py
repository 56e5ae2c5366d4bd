"""A session belongs to whoever opened it: in the process that did, and in every other one with the same keys."""

from __future__ import annotations

from typing import Any

import pytest

from redstart import Context, Server
from support import message, run
from transports.support import Http

KEYS = ["a key that two processes share"]
ADA, BOB = {"authorization": "Bearer ada"}, {"authorization": "Bearer bob"}


def process() -> Http:
    """One process of a server whose users are known by their tokens."""
    server = Server("guarded", auth=lambda token: token, keys=KEYS)

    @server.tool
    async def who(ctx: Context) -> str:
        return str(ctx.user)

    return Http(server.asgi())


WHO = message(2, "tools/call", {"name": "who", "arguments": {}})


@pytest.mark.parametrize("where", ["the same process", "another process"])
def test_nobody_takes_over_the_session_of_another_user(where: str) -> None:
    async def test() -> None:
        first, second = process(), process()  # both before the session: a process knows nothing of older ones
        session = await first.open(headers=ADA)
        http = first if where == "the same process" else second
        stolen = {**session, **BOB}
        attempts: list[dict[str, Any]] = [
            {"body": WHO},
            {"method": "GET", "headers": {"accept": "text/event-stream"}},
            {"method": "DELETE"},
        ]
        for attempt in attempts:
            more = attempt.pop("headers", {})
            answer = await http.send(attempt.pop("body", b""), headers={**stolen, **more}, **attempt)
            assert answer.status == 404, (attempt, answer.status, answer.body)
        own = await http.send(WHO, headers=session)
        assert own.json()["result"]["content"][0]["text"] == "ada"
        assert (await http.send(WHO, headers=stolen)).status == 404  # also once it is in use here
        assert (await http.send(method="DELETE", headers=session)).status in (200, 202, 204)
        assert (await http.send(WHO, headers=session)).status == 404

    run(test())


def test_a_session_id_that_was_altered_is_unknown() -> None:
    async def test() -> None:
        http = process()
        session = await http.open(headers=ADA)
        id = session["mcp-session-id"]
        for other in (
            id[:-1],
            id + "A",
            id[:-1] + ("A" if id[-1] != "A" else "B"),
            ("A" if id[0] != "A" else "B") + id[1:],
            id + "=",
            "é",
            "x" * 5000,
        ):
            headers = {**session, "mcp-session-id": other}
            assert (await http.send(WHO, headers=headers)).status in (400, 404), other

    run(test())
