"""Which methods of a provider only say what a tool is, and which can answer for it; on every Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redstart.adopt.provider_calls import is_declaration


class Declared:
    def documented(self, n: int) -> str:  # type: ignore[empty-body]
        """What it does."""

    async def later(self, n: int) -> str:  # type: ignore[empty-body]
        """What it does."""

    def dots(self) -> int: ...  # type: ignore[empty-body]

    async def dots_later(self) -> int: ...  # type: ignore[empty-body]

    def nothing(self) -> None:
        pass


class Defined:
    def value(self) -> int:
        return 5

    async def value_later(self) -> int:
        return 5

    def raises(self) -> None:
        raise NotImplementedError

    async def raises_later(self) -> None:
        raise NotImplementedError

    def calls(self) -> None:
        print()

    async def awaits(self) -> None:
        await self.value_later()


def methods(kind: type) -> list[Any]:
    return [pytest.param(getattr(kind(), name), id=name) for name in vars(kind) if not name.startswith("_")]


@pytest.mark.requirement("57")
@pytest.mark.parametrize("method", methods(Declared))
def test_a_body_without_work_is_a_declaration(method: Callable[..., Any]) -> None:
    assert is_declaration(method)


@pytest.mark.requirement("57")
@pytest.mark.parametrize("method", methods(Defined))
def test_a_body_that_does_something_is_none(method: Callable[..., Any]) -> None:
    assert not is_declaration(method)
