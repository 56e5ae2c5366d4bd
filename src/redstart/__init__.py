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
    from redstart.features.options import Parameter
    from redstart.features.param_headers import Header
    from redstart.features.predicates import Ask, Progress, predicate
    from redstart.features.prompts import Prompt, PromptResult
    from redstart.features.registry import Cache
    from redstart.features.resources import NotAPath, Resource
    from redstart.features.tools import Tool
    from redstart.protocol.call import Call
    from redstart.server.context import Context
    from redstart.server.middleware import Next
    from redstart.server.server import Server, serve
    from redstart.server.sync_context import SyncContext, current_context
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

_HOMES = {
    "Accepted": "asking.questions",
    "Annotations": "wire.types",
    "Ask": "features.predicates",
    "Audio": "wire.types",
    "Cache": "features.registry",
    "Call": "protocol.call",
    "Cancelled": "asking.questions",
    "Choice": "asking.forms",
    "Choices": "asking.forms",
    "Client": "client.client",
    "Complete": "features.completion",
    "Context": "server.context",
    "Declined": "asking.questions",
    "Depends": "execution.dependencies",
    "Directory": "features.files",
    "EmbeddedResource": "wire.types",
    "File": "features.files",
    "Format": "asking.forms",
    "Header": "features.param_headers",
    "Icon": "wire.types",
    "Image": "wire.types",
    "ListResult": "wire.types",
    "Message": "wire.types",
    "Next": "server.middleware",
    "NotAPath": "features.resources",
    "Parameter": "features.options",
    "Progress": "features.predicates",
    "Prompt": "features.prompts",
    "PromptArgument": "wire.types",
    "PromptProvider": "adopt.providers",
    "PromptResult": "features.prompts",
    "ProtocolError": "wire.jsonrpc",
    "RegistrationError": "features.errors",
    "Resource": "features.resources",
    "ResourceContents": "wire.types",
    "ResourceLink": "wire.types",
    "ResourceProvider": "adopt.providers",
    "Result": "wire.types",
    "Root": "asking.sampling",
    "Sampled": "asking.sampling",
    "Server": "server.server",
    "SyncContext": "server.sync_context",
    "Text": "wire.types",
    "Tool": "features.tools",
    "ToolError": "features.errors",
    "ToolProvider": "adopt.providers",
    "ToolResult": "wire.types",
    "Unanswered": "features.errors",
    "UrlElicitationRequired": "asking.questions",
    "current_context": "server.sync_context",
    "predicate": "features.predicates",
    "prompt": "decorators",
    "resource": "decorators",
    "serve": "server.server",
    "tool": "decorators",
}

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
    "Text",
    "Tool",
    "ToolError",
    "ToolProvider",
    "ToolResult",
    "Unanswered",
    "UrlElicitationRequired",
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
