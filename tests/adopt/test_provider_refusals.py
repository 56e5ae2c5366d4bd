"""What a provider lists but nothing can serve is refused at registration, with what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest

from redstart import RegistrationError, Server


def provider(methods: dict[str, Any]) -> Any:
    """A provider with these methods; a list stands for a method that returns it."""

    def listing(value: list[Any]) -> Any:
        return lambda self: value

    made = {name: listing(value) if isinstance(value, list) else value for name, value in methods.items()}
    return type("Some", (), made)()


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"tools": [5]}, 'a tool is "method"'),
        ({"tools": ["lost"]}, "Some has no method lost, and no tool_call"),
        ({"tools": ["a"], "tool_call": lambda self, name: name}, "write tool_call(self, name, arguments)"),
        ({"prompts": ["lost"]}, "Some has no method lost"),
        ({"prompts": [("alone",)]}, 'a prompt is ("name", "description"'),
        ({"prompts": [("name", 5)]}, 'a prompt is ("name", "description"'),
        ({"prompts": [("name", "text")]}, "Some has no prompt_get, and no method name"),
        ({"resources": ["a:b"]}, "a resource is ("),
        ({"resources": [("a:b", "name")]}, "Some has no resource_read for a:b"),
    ],
)
def test_a_list_that_cannot_be_served_is_refused(methods: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistrationError, match=re.escape(words)) as caught:
        Server.from_object(provider(methods))
    assert "test_provider_refusals.py:" in str(caught.value)
