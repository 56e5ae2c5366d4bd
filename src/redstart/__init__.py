"""redstart: make any Python application available to LLM clients as an MCP server.

The public names load on first use, so that `import redstart` costs next to nothing.
"""

from __future__ import annotations

import gc
from importlib import import_module

TYPE_CHECKING = False  # not from typing, which loads later, while the garbage collector is paused
if TYPE_CHECKING:
    from types import ModuleType

    from redstart.adopt.providers import PromptProvider, ResourceProvider, ToolProvider
    from redstart.asking.forms import Choice, Choices, Format
    from redstart.asking.questions import Accepted, Cancelled, Declined, UrlElicitationRequired
    from redstart.asking.sampling import Root, Sampled
    from redstart.client.client import Client
    from redstart.decorators import prompt, resource, tool
    from redstart.execution.dependencies import Depends
    from redstart.features.completion import Complete
    from redstart.features.errors import RegistrationError, ToolError, Unanswered
    from redstart.features.files import Directory, File
    from redstart.features.options import Cache, Parameter
    from redstart.features.param_headers import Header
    from redstart.features.predicates import Ask, Progress, predicate
    from redstart.features.principal import User
    from redstart.features.prompts import Prompt, PromptResult
    from redstart.features.resources import NotAPath, Resource
    from redstart.features.tools import Tool
    from redstart.protocol.call import Call
    from redstart.server.context import Context
    from redstart.server.middleware import Next
    from redstart.server.server import Server, serve
    from redstart.server.sync_context import SyncContext, current_context
    from redstart.tasks.handle import TaskHandle
    from redstart.tasks.record import TaskLimits
    from redstart.wire.jsonrpc import ProtocolError
    from redstart.wire.types import (
        Annotations,
        Audio,
        EmbeddedResource,
        Icon,
        Image,
        ListResult,
        Message,
        PromptArgument,
        ResourceContents,
        ResourceLink,
        Result,
        Text,
        ToolResult,
    )

__version__ = "0.1.0"

_NAMES = {
    "adopt.providers": ("PromptProvider", "ResourceProvider", "ToolProvider"),
    "asking.forms": ("Choice", "Choices", "Format"),
    "asking.questions": ("Accepted", "Cancelled", "Declined", "UrlElicitationRequired"),
    "asking.sampling": ("Root", "Sampled"),
    "client.client": ("Client",),
    "decorators": ("prompt", "resource", "tool"),
    "execution.dependencies": ("Depends",),
    "features.completion": ("Complete",),
    "features.errors": ("RegistrationError", "ToolError", "Unanswered"),
    "features.files": ("Directory", "File"),
    "features.options": ("Cache", "Parameter"),
    "features.param_headers": ("Header",),
    "features.predicates": ("Ask", "Progress", "predicate"),
    "features.principal": ("User",),
    "features.prompts": ("Prompt", "PromptResult"),
    "features.resources": ("NotAPath", "Resource"),
    "features.tools": ("Tool",),
    "protocol.call": ("Call",),
    "server.context": ("Context",),
    "server.middleware": ("Next",),
    "server.server": ("Server", "serve"),
    "server.sync_context": ("SyncContext", "current_context"),
    "tasks.handle": ("TaskHandle",),
    "tasks.record": ("TaskLimits",),
    "wire.jsonrpc": ("ProtocolError",),
    "wire.types": (
        "Annotations",
        "Audio",
        "EmbeddedResource",
        "Icon",
        "Image",
        "ListResult",
        "Message",
        "PromptArgument",
        "ResourceContents",
        "ResourceLink",
        "Result",
        "Text",
        "ToolResult",
    ),
}
"""The public names by the module that has them."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
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


def _imported(home: str) -> ModuleType:
    """Import a module of ours while the garbage collector is paused.

    What an import makes stays, and looking for garbage in it many times took a twelfth of a server's start.
    """
    if not gc.isenabled():
        return import_module(f"redstart.{home}")
    gc.disable()
    try:
        return import_module(f"redstart.{home}")
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # all objects now count as old, so that the next collection need not look through them
        gc.enable()


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'redstart' has no attribute {name!r}")
    value: object = getattr(_imported(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
