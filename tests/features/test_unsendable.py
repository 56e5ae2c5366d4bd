"""A result that no message can carry is the tool's error, for the model to read; never the request's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redstart import Message, Server, Text, ToolError, ToolResult
from support import ERAS, exchange

HALF = "caf\ud83d"


async def told(call: Any, next: Any) -> Any:
    return await next(call)


def raising() -> str:
    raise ToolError(HALF)


RETURNS: dict[str, Callable[[], Any]] = {
    "text": lambda: HALF,
    "key": lambda: {HALF: 1},
    "value": lambda: [HALF],
    "block": lambda: Text(HALF),
    "blocks": lambda: ["fine", Text(HALF)],
    "dict": lambda: {"type": "text", "text": HALF},
    "result": lambda: ToolResult(content=["fine"], structured={"a": HALF}),
    "meta": lambda: ToolResult(content=["fine"], meta={"a": HALF}),
    "error": lambda: ToolError(HALF),
    "raised": raising,
}


@pytest.mark.requirement("63")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("layers", [[], [told]], ids=["plain", "middleware"])
@pytest.mark.parametrize("debug", [False, True])
def test_half_a_character_is_an_error_of_the_tool(era: str, layers: list[Any], debug: bool) -> None:
    server = Server("half", middleware=layers, debug=debug, expose_errors=True)
    for name, handler in RETURNS.items():
        server.tool(name=name)(handler)
    server.tool(name="fine")(lambda: "fine")
    names = [*RETURNS, "fine"]
    answers = exchange(server, era, [("tools/call", {"name": name, "arguments": {}}) for name in names])
    for name, answer in zip(names, answers, strict=True):
        assert answer["result"].get("isError", False) is (name != "fine"), (name, answer)
        assert answer["result"]["content"][0]["text"], name


@pytest.mark.parametrize("era", ERAS)
def test_where_there_is_no_word_for_it_the_request_fails(era: str) -> None:
    server = Server("half")
    server.resource("half://way")(lambda: HALF)
    server.prompt(name="half")(lambda: Message("user", Text(HALF)))
    requests = [("resources/read", {"uri": "half://way"}), ("prompts/get", {"name": "half"}), ("tools/list", {})]
    *failed, fine = exchange(server, era, requests)
    assert [answer["error"]["code"] for answer in failed] == [-32603, -32603]
    assert "result" in fine
