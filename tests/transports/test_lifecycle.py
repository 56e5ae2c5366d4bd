"""From the first message to the last: what is answered in which order, and what is left when the client has gone."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from redstart import Server
from support import initialize, message
from transports.support import Child


@pytest.mark.requirement("14", "16", "17", "18", "T3")
def test_one_stream_is_answered_in_order_and_by_its_ids() -> None:
    with Child() as child:
        child.write(
            initialize(id=1),
            message(None, "notifications/initialized"),
            message("two", "ping"),
            message(3, "tools/list"),
        )
        answers = [child.answer() for _ in range(3)]
        assert [one["id"] for one in answers] == [1, "two", 3]
        assert answers[0]["result"]["serverInfo"] == {"name": "stdio-test", "version": "1"}
        assert answers[1]["result"] == {}
        assert [tool["name"] for tool in answers[2]["result"]["tools"]][:2] == ["echo", "sync_echo"]
        assert child.end()[0] == 0
        assert child.rest() == b""


@pytest.mark.requirement("24")
def test_what_nobody_knows_is_refused_or_ignored() -> None:
    with Child() as child:
        child.write(
            initialize(id=1),
            message(2, "no/such"),
            message(None, "notifications/nobody/knows", {"a": 1}),
            message(None, "no/such"),
            b'{"jsonrpc":"2.0","id":"nobody asked","result":{}}',
            message(3, "ping"),
        )
        answers = {one["id"]: one for one in (child.answer() for _ in range(3))}
        assert answers[2]["error"]["code"] == -32601
        assert answers[3]["result"] == {}
        assert child.end()[0] == 0
        assert child.rest() == b""


@pytest.mark.requirement("12", "T11")
def test_the_end_of_a_stream_is_the_end_of_its_session() -> None:
    server = Server("twice")

    def answers(*messages: bytes) -> list[Any]:
        out = io.BytesIO()
        server.run(stdin=io.BytesIO(b"\n".join(messages)), stdout=out)
        assert not server.runtime.started
        assert not server.runtime.hub.peers
        return [json.loads(line) for line in out.getvalue().splitlines()]

    first = answers(initialize(), message(None, "notifications/initialized"), message(1, "tools/list"))
    assert [one.get("error") for one in first] == [None, None]
    (second,) = answers(message(1, "tools/list"))
    assert second["error"]["code"] == -32600  # nobody has introduced himself on this stream
