"""Annotations written as text whose names are known only inside of the function that registers, or nowhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from redstart import Server, Tool
from support import ERAS, ask, call

if TYPE_CHECKING:
    from decimal import Decimal as User

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


def test_a_completion_gets_its_context(era: str) -> None:
    from redstart import SyncContext

    server = Server("s")

    @server.prompt
    def greet(who: str) -> str:
        return who

    @server.completion("greet", "who")
    def names(prefix: str, ctx: SyncContext) -> list[str]:
        return [type(ctx).__name__]

    ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "who", "value": ""}
    assert ask(server, era, "completion/complete", ref=ref, argument=argument)["completion"]["values"] == [
        "SyncContext"
    ]


@pytest.mark.parametrize("kind", ["function", "instance", "partial"])
def test_a_handler_with_a_given_schema_gets_its_context(era: str, kind: str) -> None:
    from redstart import SyncContext

    def plain(a: int, ctx: SyncContext, fixed: str = "") -> str:
        return f"{a} {type(ctx).__name__}"

    class Instance:
        def __call__(self, a: int, ctx: SyncContext) -> str:
            return plain(a, ctx)

    handler: Any = {"function": plain, "instance": Instance(), "partial": partial(plain, fixed="x")}[kind]
    server = Server("s", tools=[Tool("add", handler=handler, input_schema=SCHEMA)])
    assert call(server, era, "add", {"a": 1}).text == "1 SyncContext"


def test_visible_gets_a_context_and_an_unknown_name_means_the_user(era: str) -> None:
    from redstart import SyncContext

    def for_all(ctx: SyncContext) -> bool:
        return type(ctx).__name__ == "SyncContext"

    def for_nobody(user: User) -> bool:
        return user is not None

    server = Server("s")
    server.register(Tool("seen", handler=lambda args: "", parameters=[], visible=for_all))
    server.register(Tool("hidden", handler=lambda args: "", parameters=[], visible=for_nobody))
    assert [tool["name"] for tool in ask(server, era, "tools/list")["tools"]] == ["seen"]
