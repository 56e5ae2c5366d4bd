"""Who sees what: rules that fail hide, rules that cannot decide are refused at once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from redstart import RegistrationError, Server, SyncContext
from support import ERAS, ask, refused

pytestmark = pytest.mark.parametrize("era", ERAS)


def serving(rule: Any) -> Server:
    server = Server("s")
    server.tool(name="guarded", visible=rule)(lambda: "x")
    return server


def names(server: Server, era: str, user: Any) -> list[str]:
    return [tool["name"] for tool in ask(server, era, "tools/list", user)["tools"]]


def by_context(ctx: SyncContext[Any]) -> bool:
    return bool(ctx.user == "ada" and ctx.protocol_version)


@pytest.mark.parametrize("rule", [lambda user: user == "ada", by_context])
def test_a_rule_sees_the_user_or_a_context(era: str, rule: Any) -> None:
    server = serving(rule)
    assert (names(server, era, "ada"), names(server, era, "bob"), names(server, era, None)) == (["guarded"], [], [])
    assert "Unknown tool" in refused(server, era, "tools/call", "bob", name="guarded", arguments={})["message"]
    assert ask(server, era, "tools/call", "ada", name="guarded", arguments={})["content"][0]["text"] == "x"


def test_a_rule_that_fails_hides(era: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "redstart"):
        assert names(serving(lambda user: user["role"] == "admin"), era, "ada") == []
    assert "visible= failed" in caplog.text


async def later(user: Any) -> bool:
    return True


def two(user: Any, other: Any) -> bool:
    return True


def none() -> bool:
    return True


@pytest.mark.parametrize("rule", [later, two, none])
def test_a_rule_that_cannot_decide_is_refused_at_once(era: str, rule: Any) -> None:
    with pytest.raises(RegistrationError, match=r"test_visible\.py:\d+.*visible= is a plain function of one parameter"):
        serving(rule)
