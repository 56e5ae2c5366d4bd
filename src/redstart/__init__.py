"""redstart: make any Python application available to LLM clients as an MCP server.

The public names load on first use, so that `import redstart` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redstart.client.client import Client
    from redstart.features.errors import RegistrationError, ToolError
    from redstart.features.registry import Cache
    from redstart.features.tools import Header, Parameter, Tool
    from redstart.server.context import Context, SyncContext
    from redstart.server.server import Server
    from redstart.wire.jsonrpc import ProtocolError
    from redstart.wire.types import (
        Annotations,
        Audio,
        EmbeddedResource,
        Icon,
        Image,
        Message,
        ResourceContents,
        ResourceLink,
        Text,
        ToolResult,
    )

__version__ = "0.1.0"

_HOMES = {
    "Annotations": "wire.types",
    "Audio": "wire.types",
    "Cache": "features.registry",
    "Client": "client.client",
    "Context": "server.context",
    "EmbeddedResource": "wire.types",
    "Header": "features.tools",
    "Icon": "wire.types",
    "Image": "wire.types",
    "Message": "wire.types",
    "Parameter": "features.tools",
    "ProtocolError": "wire.jsonrpc",
    "RegistrationError": "features.errors",
    "ResourceContents": "wire.types",
    "ResourceLink": "wire.types",
    "Server": "server.server",
    "SyncContext": "server.context",
    "Text": "wire.types",
    "Tool": "features.tools",
    "ToolError": "features.errors",
    "ToolResult": "wire.types",
}

__all__ = [
    "Annotations",
    "Audio",
    "Cache",
    "Client",
    "Context",
    "EmbeddedResource",
    "Header",
    "Icon",
    "Image",
    "Message",
    "Parameter",
    "ProtocolError",
    "RegistrationError",
    "ResourceContents",
    "ResourceLink",
    "Server",
    "SyncContext",
    "Text",
    "Tool",
    "ToolError",
    "ToolResult",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'redstart' has no attribute {name!r}")
    value = getattr(import_module(f"redstart.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
