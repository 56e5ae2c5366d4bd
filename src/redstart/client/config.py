"""The configuration files that MCP clients share: `{"mcpServers": {"name": {"command": …} | {"url": …}}}`.

From one entry to a target and the options that it sets. `${VAR}` and `${VAR:-default}` are read from the environment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from redstart.client.options import ClientOptions
from redstart.features.rules import did_you_mean
from redstart.wire.jsonrpc import JsonMapping, JsonObject

KEYS: Final = ("mcpServers", "servers", "mcp_servers", "context_servers")
"""What clients call the table of servers, the most common name first."""

_URLS: Final = ("url", "serverUrl", "httpUrl")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def is_config(target: object) -> bool:
    """Whether `target` is a configuration: a dict, or the path of a .json file."""
    return isinstance(target, Mapping) or (
        isinstance(target, str | os.PathLike) and os.fspath(target).endswith(".json")
    )


def servers_of(target: object) -> list[str]:
    """The names of the servers that `target` configures.

    >>> servers_of({"mcpServers": {"a": {"command": "uvx"}, "b": {"url": "https://example.com/mcp"}}})
    ['a', 'b']
    """
    return list(_servers(*_read(target)))


def from_config(target: object, options: ClientOptions) -> tuple[object, ClientOptions]:
    """The URL or command of the server that `target` configures, and the options with those of its entry.

    >>> from_config({"mcpServers": {"a": {"command": "uvx", "args": ["notes"]}}}, {"server": None})[0]
    ['uvx', 'notes']
    """
    where, config = _read(target)
    servers = _servers(where, config)
    name = _chosen(where, servers, options.get("server"))
    entry = servers[name]
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: the server {name!r} must be an object, not {entry!r:.100}")
    where = f"{where}: the server {name!r}"
    entry = cast(JsonObject, _expanded(where, entry))
    return _target(where, entry), _options(where, entry, options)


def _read(target: object) -> tuple[str, JsonMapping]:
    if isinstance(target, Mapping):
        return "the configuration", target
    path = Path(cast(str, target)).expanduser()
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a configuration: it must be a JSON object")
    return str(path), config


def _servers(where: str, config: JsonMapping) -> JsonMapping:
    servers = next((config[key] for key in KEYS if isinstance(config.get(key), Mapping)), None)
    if servers is None:
        raise ValueError(f'{where} is not a configuration: it has no "mcpServers": {{"name": {{…}}}}')
    return cast(JsonMapping, servers)


def _chosen(where: str, servers: JsonMapping, wanted: str | None) -> str:
    """The name of the server to use: the one that was asked for, or the only one."""
    if wanted is not None:
        if wanted not in servers:
            hint = did_you_mean(wanted, servers) or f"; it has: {', '.join(servers) or 'none'}"
            raise ValueError(f"{where} has no server {wanted!r}{hint}")
        return wanted
    if len(servers) != 1:
        names = ", ".join(servers)
        raise ValueError(
            f"{where} has no servers" if not servers else f"{where} has several: name one with server=: {names}"
        )
    return next(iter(servers))


def _expanded(where: str, value: object) -> object:
    """`value` with the variables of its texts filled in. One that is not set and has no default is an error."""
    if isinstance(value, list):
        return [_expanded(where, item) for item in value]
    if isinstance(value, Mapping):
        return {name: _expanded(where, item) for name, item in value.items()}
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise ValueError(f"{where} needs the environment variable {match[1]}, which is not set")
        return found

    return _VARIABLE.sub(replaced, value)


def _target(where: str, entry: JsonObject) -> object:
    urls = [entry[key] for key in _URLS if key in entry]
    if urls:
        if not isinstance(urls[0], str) or not urls[0].startswith(("http://", "https://")):
            raise ValueError(f"{where} must have a URL with http:// or https://, not {urls[0]!r:.100}")
        return urls[0]
    command, args = entry.get("command"), entry.get("args", [])
    parts = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [args])]
    if not all(isinstance(part, str) and part for part in parts[:1]) or not all(isinstance(p, str) for p in parts):
        raise ValueError(f'{where} must have a "command" with "args", which are texts, or a "url"')
    return parts


def _options(where: str, entry: JsonObject, options: ClientOptions) -> ClientOptions:
    """The options with what the entry says; what the caller has said counts more."""
    made = dict(options)
    env = _texts(where, entry, "env") or _texts(where, entry, "environment")
    made["env"] = {**env, **(options.get("env") or {})} or None
    made["headers"] = {**_texts(where, entry, "headers"), **(options.get("headers") or {})} or None
    made["cwd"] = options.get("cwd") or entry.get("cwd")
    return cast(ClientOptions, made)


def _texts(where: str, entry: JsonObject, key: str) -> dict[str, str]:
    """A table of texts. Its values may be secret, so an error names the key only."""
    found = entry.get(key) or {}
    if not isinstance(found, Mapping) or not all(isinstance(value, str | int | float) for value in found.values()):
        raise ValueError(f'{where}: "{key}" must be an object whose values are texts')
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
