"""A provider of resources: the configuration, the readme and the log of an application.

redstart run examples/gallery/resources.py
"""

from __future__ import annotations

from typing import Any

from redstart import serve

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc0f01f00050001ff"
    "89993d1d0000000049454e44ae426082"
)


class Application:
    """Descriptors are plain tuples: URI, name, description, MIME type."""

    def capabilities(self) -> list[str]:
        return ["resources"]

    def tools(self) -> list[Any]:
        return []

    def resources(self) -> list[Any]:
        return [
            ("app://my-app/config", "config", "Application configuration", "application/json"),
            ("app://my-app/readme", "readme", "Application readme", "text/plain"),
            ("app://my-app/logs", "logs", "Log entries", "text/plain"),
            ("app://my-app/logo", "logo", "The logo", "image/png"),
        ]

    def resource_read(self, uri: str, arguments: dict[str, str]) -> Any:
        match uri.rpartition("/")[2]:
            case "config":
                return [(uri, "application/json", '{"name": "my-app", "version": "1.0"}')]
            case "readme":
                return "Welcome to my application."
            case "logs":
                return [(uri, "text/plain", "Log entry 1"), (uri, "text/plain", "Log entry 2")]
            case "logo":
                return [(uri, "image/png", PIXEL)]
        return NotImplemented


serve("resources", Application())
