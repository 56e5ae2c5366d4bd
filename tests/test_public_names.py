"""The public names: what `from redstart import …` promises, and what an import costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import redstart

# Only grows; a name that leaves is a breaking change.
NAMES = [
    "Accepted",
    "Annotations",
    "Ask",
    "Audio",
    "Cache",
    "Call",
    "Cancelled",
    "Choice",
    "Choices",
    "Client",
    "Complete",
    "Context",
    "Declined",
    "Depends",
    "Directory",
    "EmbeddedResource",
    "File",
    "Format",
    "Header",
    "Icon",
    "Image",
    "ListResult",
    "Message",
    "Next",
    "NotAPath",
    "Parameter",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptProvider",
    "PromptResult",
    "ProtocolError",
    "RegistrationError",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceProvider",
    "Result",
    "Root",
    "Sampled",
    "Server",
    "SyncContext",
    "TaskHandle",
    "TaskLimits",
    "Text",
    "Tool",
    "ToolError",
    "ToolProvider",
    "ToolResult",
    "Unanswered",
    "UrlElicitationRequired",
    "User",
    "current_context",
    "predicate",
    "prompt",
    "resource",
    "serve",
    "tool",
]
HEAVY = ("uvicorn", "httptools", "uvloop", "pydantic", "httpx2", "asyncio", "jsonschema", "jsonschema_rs", "watchfiles")


def test_the_names_are_the_promised_ones() -> None:
    assert redstart.__all__ == NAMES
    assert sorted(NAMES) == NAMES
    assert dir(redstart) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_loads_and_has_a_docstring(name: str) -> None:
    value = getattr(redstart, name)
    assert value.__doc__ or not callable(value), f"{name} says nothing about itself"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        getattr(redstart, "no_such")  # noqa: B009


def loaded_by(code: str) -> set[str]:
    check = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=20, check=True)
    return set(done.stdout.split())


def test_an_import_loads_next_to_nothing() -> None:
    assert not loaded_by("import redstart").intersection(HEAVY)


def test_a_server_loads_no_transport_and_no_heavy_package() -> None:
    loaded = loaded_by("from redstart import Server; Server('x')")
    assert not loaded.intersection(set(HEAVY) - {"asyncio"})
    assert not {name for name in loaded if name.startswith(("redstart.transports", "redstart.client"))}


def test_a_server_over_http_without_auth_loads_nothing_of_it() -> None:
    loaded = loaded_by("from redstart import Server; Server('x').asgi()")
    assert "redstart.transports.http" in loaded
    of_auth = ("redstart.auth", "redstart.access", "redstart.transports.protected", "joserfc")
    assert not {name for name in loaded if name.startswith(of_auth)}


IMPORT = """
import gc, sys, redstart
gc.collect()
{before}
enabled, frozen, collections = gc.isenabled(), gc.get_freeze_count(), []
gc.callbacks.append(lambda phase, info: collections.append(phase))
try:
    from redstart import Server
except ImportError:
    print("failed")
print({after})
"""


def imported(before: str, after: str) -> str:
    code = IMPORT.format(before=before, after=after)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True).stdout


def test_an_import_is_not_interrupted_by_garbage_collections() -> None:
    """One is allowed at its end: where objects are frozen, as immortal ones are in 3.12, the new ones stay young."""
    assert int(imported("", "collections.count('start')")) <= 1


@pytest.mark.parametrize("before", ["", "gc.disable()", "gc.freeze()", "sys.modules['msgspec'] = None"])
def test_an_import_leaves_the_garbage_collector_as_it_was(before: str) -> None:
    after = "gc.isenabled() is enabled, gc.get_freeze_count() >= frozen // 2, len(gc.get_objects()) > 5000"
    failure = "failed\n" if "msgspec" in before else ""
    assert imported(before, after) == f"{failure}True True True\n"
