"""Who somebody is, and what an error says of a value that is nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from redstart.features.principal import principal_key

ID = UUID(int=7)


class Django:
    """As a user object whose `name` is a method."""

    def __init__(self, username: str) -> None:
        self.username = username

    def id(self) -> str:
        return "somebody"


@pytest.mark.parametrize(
    ("user", "key"),
    [
        (None, ""),
        ("ada", "ada"),
        ({"sub": "ada", "name": "Ada"}, "ada"),
        ({"principal": "p", "subject": "s", "sub": "b"}, "p"),
        ({"id": 0}, "0"),
        ({"id": ID}, str(ID)),
        (SimpleNamespace(id=7, username="ada"), "7"),
        (SimpleNamespace(sub=None, username="ada"), "ada"),
        (SimpleNamespace(id="ada", is_authenticated=True), "ada"),
        (Django("ada"), "ada"),
    ],
)
def test_somebody(user: Any, key: str) -> None:
    assert principal_key(user) == key


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        (True, "bool True"),
        (False, "bool False"),
        ("", "str ''"),
        ({}, "dict {}"),
        ([], r"list \[\]"),
        ((), r"tuple \(\)"),
        ("  ", "This str"),
        (5, "This int"),
        (0, "This int"),
        (b"hunter2", "This bytes"),
        ([SECRET], "This list"),
        ((SECRET,), "This tuple"),
        ({"password": SECRET}, "This dict"),
        ({"id": True, "name": SECRET}, "This dict"),
        ({"sub": "", "name": SECRET}, "This dict"),
        ({"id": 1.5, "password": SECRET}, "This dict"),
        (SimpleNamespace(id="ada", is_authenticated=False, password=SECRET), "This SimpleNamespace"),
        (Django, "This type"),
    ],
)
def test_nobody_is_refused_and_no_secret_is_shown(user: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=rf"^{shown} is not a user: expected a non-empty str") as caught:
        principal_key(user)
    assert SECRET not in str(caught.value)
