"""How long what a peer names may be. Params that exceed one of these are refused when they are decoded (-32602).

A name or a token is repeated in messages, kept in sessions and looked up: its length must not be the peer's choice.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MAX_ID: Final = 2**53
MAX_ID_LENGTH: Final = 256

Token: TypeAlias = Annotated[int, Meta(ge=-MAX_ID, le=MAX_ID)] | Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
"""A progress token, and the id of a request where params name it."""
Name: TypeAlias = Annotated[str, Meta(max_length=256)]
"""The name of a tool, of a prompt, or of an argument."""
Uri: TypeAlias = Annotated[str, Meta(max_length=8192)]
Cursor: TypeAlias = Annotated[str, Meta(max_length=4096)]
