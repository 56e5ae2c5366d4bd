"""The clients that `redstart install` knows: their files, the shape of an entry, and what to do afterwards.

One row per client. The files are edited even where a client has a command of its own for that: the command need not be
on the PATH (desktop programs), some of them rewrite the whole file or drop what they do not know, none shows a diff or
can be undone to the byte, and all would need a test of their own.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from redstart.cli.configs.launch import REFERENCE, Launch, LaunchError
from redstart.wire.jsonrpc import JsonObject

Shape = Callable[[Launch], JsonObject]


class Places(NamedTuple):
    """Where a platform keeps things: a value of its own, so that tests can ask for other platforms."""

    platform: str
    home: str
    env: Mapping[str, str]

    @classmethod
    def here(cls) -> Places:
        return cls(sys.platform, str(Path.home()), os.environ)

    def names(self) -> dict[str, str]:
        """What the paths of the table may name."""
        home = self.home
        roaming = self.env.get("APPDATA") or f"{home}/AppData/Roaming"
        config = self.env.get("XDG_CONFIG_HOME") or f"{home}/.config"
        support = f"{home}/Library/Application Support"
        return {
            "home": home,
            "config": config if self.platform != "win32" else f"{home}/.config",
            "data": {"darwin": support, "win32": roaming}.get(self.platform, config),
            "zed": f"{roaming}/Zed" if self.platform == "win32" else f"{config}/zed",
            "goose": f"{roaming}/Block/goose/config" if self.platform == "win32" else f"{config}/goose",
            "codex": self.env.get("CODEX_HOME") or f"{home}/.codex",
            "claude": self.env.get("CLAUDE_CONFIG_DIR") or home,
            "copilot": self.env.get("COPILOT_HOME") or f"{home}/.copilot",
        }


class ClientApp(NamedTuple):
    """A program that uses MCP servers."""

    title: str
    path: tuple[str, ...]
    """The keys that lead to its servers."""
    files: tuple[str, ...]
    """Its file for all projects: the first of these that exists, else the first."""
    stdio: Shape
    http: Shape | None
    then: str
    """What the person does next."""
    project: tuple[str, ...] = ()
    """Its file in the folder of a project."""
    format: str = "json"
    reference: str = ""
    """How it refers to a variable of its environment; `{}` is the name."""
    command: str = ""
    """The program that shows that it is installed; without one its folder does."""
    link: Callable[[str, JsonObject], tuple[str, str]] | None = None
    """The link that installs the entry, and the Markdown of a badge."""

    def file(self, places: Places, project: Path | None = None) -> Path:
        """The file of the user, or of the folder `project`."""
        found = [Path(name.format_map(places.names())) for name in self.files]
        if project is not None:
            found = [project / name for name in self.project]
        return next((file for file in found if file.exists()), found[0])

    def installed(self, places: Places) -> bool:
        """Whether the program seems to be there: its command, its file, or the folder of its file."""
        if self.command and shutil.which(self.command, path=places.env.get("PATH")):
            return True
        files = [Path(name.format_map(places.names())) for name in self.files]
        return any(file.exists() or (file.parent != Path(places.home) and file.parent.exists()) for file in files)

    def entry(self, launch: Launch, dev: bool = False) -> JsonObject:
        """The entry for a server."""
        shape = self.http if launch.url else self.stdio
        if shape is None:
            raise LaunchError(f"{self.title} takes no URLs in its file: {NO_URL}")
        written = launch if self.reference == OWN_FIELDS else _in_own_words(self, launch)
        entry = shape(written)
        if dev and not launch.url:
            entry["dev"] = {"watch": "**/*.py", "debug": {"type": "debugpy"}}
        return entry

    def inputs(self, names: list[str]) -> list[JsonObject]:
        """What the client asks the person for, if that is how it refers to a value."""
        if self.reference != "${{input:{}}}":
            return []
        return [{"type": "promptString", "id": name, "description": name, "password": True} for name in names]


NO_URL: Final = "add it under Settings, Connectors"
OWN_FIELDS: Final = "fields of their own"


def _in_own_words(client: ClientApp, launch: Launch) -> Launch:
    """The launch with references as this client writes them."""
    values = [*launch.env.values(), *launch.headers.values()]
    named = [name for value in values for name in REFERENCE.findall(value)]
    if named and not client.reference:
        raise LaunchError(
            f"{client.title} cannot refer to the variable {named[0]}; give its value, as in {named[0]}=VALUE"
        )

    def written(values: Mapping[str, str]) -> dict[str, str]:
        return {
            key: REFERENCE.sub(lambda match: client.reference.format(match[1]), value) for key, value in values.items()
        }

    return launch._replace(env=written(launch.env), headers=written(launch.headers))


# ---------------------------------------------------------------- shapes


def _filled(entry: JsonObject) -> JsonObject:
    """The entry without empty parts."""
    return {key: value for key, value in entry.items() if value not in ({}, [], "")}


def _plain(launch: Launch) -> JsonObject:
    return _filled({"command": launch.command, "args": list(launch.args), "env": dict(launch.env)})


def _typed(word: str) -> Shape:
    return lambda launch: {"type": word, **_plain(launch)}


def _url(key: str, word: str = "") -> Shape:
    return lambda launch: _filled({"type": word, key: launch.url, "headers": dict(launch.headers)})


def _with(shape: Shape, **more: object) -> Shape:
    return lambda launch: {**shape(launch), **more}


def _references(values: Mapping[str, str], where: str) -> tuple[dict[str, str], dict[str, str]]:
    """The values that are texts, and those that are nothing but a reference: key and name of the variable."""
    names = {key: match[1] for key, value in values.items() if (match := REFERENCE.fullmatch(value))}
    texts = {key: value for key, value in values.items() if key not in names}
    if mixed := next((key for key, value in texts.items() if REFERENCE.search(value)), None):
        raise LaunchError(f"{where} cannot put a variable inside of a text: {mixed} must be ${{NAME}} alone")
    return texts, names


def _own_names(values: Mapping[str, str], where: str) -> tuple[dict[str, str], list[str]]:
    texts, names = _references(values, where)
    if renamed := next((key for key, name in names.items() if key != name), None):
        raise LaunchError(f"{where} passes a variable on under its own name: write --env {names[renamed]}")
    return texts, list(names)


def _codex(launch: Launch) -> JsonObject:
    texts, names = _own_names(launch.env, "Codex")
    return _filled({"command": launch.command, "args": list(launch.args), "env_vars": names, "env": texts})


def _codex_url(launch: Launch) -> JsonObject:
    bearer = REFERENCE.fullmatch(launch.headers.get("Authorization", "").removeprefix("Bearer "))
    rest = {key: value for key, value in launch.headers.items() if not (bearer and key == "Authorization")}
    texts, names = _references(rest, "Codex")
    token = bearer[1] if bearer else ""
    return _filled({"url": launch.url, "bearer_token_env_var": token, "http_headers": texts, "env_http_headers": names})


def _goose(launch: Launch) -> JsonObject:
    texts, names = _own_names(launch.env, "Goose")
    return {"type": "stdio", "cmd": launch.command, "args": list(launch.args), "envs": texts, "env_keys": names}


def _goose_url(launch: Launch) -> JsonObject:
    _own_names(launch.headers, "Goose")
    return {"type": "streamable_http", "uri": launch.url, "headers": dict(launch.headers)}


def _opencode(launch: Launch) -> JsonObject:
    return _filled(
        {"type": "local", "command": [launch.command, *launch.args], "environment": dict(launch.env), "enabled": True}
    )


# ---------------------------------------------------------------- links


def _base64(entry: JsonObject) -> str:
    return base64.b64encode(json.dumps(entry, separators=(",", ":")).encode()).decode()


def _badge(text: str, picture: str, target: str) -> str:
    return f"[![{text}]({picture})]({target})"


def _vscode_link(name: str, entry: JsonObject) -> tuple[str, str]:
    link = "vscode:mcp/install?" + quote(json.dumps({"name": name, **entry}, separators=(",", ":")), safe="")
    picture = "https://img.shields.io/badge/VS_Code-Install-0098FF"
    return link, _badge(
        "Install in VS Code", picture, "https://insiders.vscode.dev/redirect?url=" + quote(link, safe="")
    )


def _cursor_link(name: str, entry: JsonObject) -> tuple[str, str]:
    words = urlencode({"name": name, "config": _base64(entry)})
    picture = "https://cursor.com/deeplink/mcp-install-dark.svg"
    page = f"https://cursor.com/en/install-mcp?{words}"
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{words}", _badge("Install in Cursor", picture, page)


def _lmstudio_link(name: str, entry: JsonObject) -> tuple[str, str]:
    words = urlencode({"name": name, "config": _base64(entry)})
    picture = "https://files.lmstudio.ai/deeplink/mcp-install-light.svg"
    return f"lmstudio://add_mcp?{words}", _badge(
        "Add to LM Studio", picture, f"https://lmstudio.ai/install-mcp?{words}"
    )


# ---------------------------------------------------------------- the table

SERVERS: Final = ("mcpServers",)
CODE: Final = "{data}/Code/User"
CLIENTS: Final[dict[str, ClientApp]] = {
    "claude-desktop": ClientApp(
        "Claude Desktop", SERVERS, ("{data}/Claude/claude_desktop_config.json",), _plain, None,
        "quit Claude Desktop fully and start it again",
    ),
    "claude-code": ClientApp(
        "Claude Code", SERVERS, ("{claude}/.claude.json",), _typed("stdio"), _url("url", "http"),
        "run /mcp in Claude Code, or: claude mcp list", (".mcp.json",), reference="${{{}}}", command="claude",
    ),
    "vscode": ClientApp(
        "VS Code", ("servers",), (f"{CODE}/mcp.json",), _typed("stdio"), _url("url", "http"),
        "run the command MCP: List Servers in VS Code and start it", (".vscode/mcp.json",),
        reference="${{input:{}}}", command="code", link=_vscode_link,
    ),
    "copilot": ClientApp(
        "Copilot CLI", SERVERS, ("{copilot}/mcp-config.json",), _with(_typed("local"), tools=["*"]),
        _with(_url("url", "http"), tools=["*"]), "run /mcp in copilot", (".mcp.json", ".github/mcp.json"),
        reference="${{{}}}", command="copilot",
    ),
    "cursor": ClientApp(
        "Cursor", SERVERS, ("{home}/.cursor/mcp.json",), _plain, _url("url"),
        "switch it on in Cursor under Settings, MCP", (".cursor/mcp.json",),
        reference="${{env:{}}}", command="cursor", link=_cursor_link,
    ),
    "windsurf": ClientApp(
        "Windsurf", SERVERS, ("{home}/.codeium/windsurf/mcp_config.json",), _plain, _url("serverUrl"),
        "press Refresh in the MCP panel of Windsurf", reference="${{env:{}}}", command="windsurf",
    ),
    "zed": ClientApp(
        "Zed", ("context_servers",), ("{zed}/settings.json",), _plain, _url("url"),
        "look at the Agent panel of Zed: it starts the server at once", (".zed/settings.json",), command="zed",
    ),
    "codex": ClientApp(
        "Codex", ("mcp_servers",), ("{codex}/config.toml",), _codex, _codex_url,
        "start Codex again, then run /mcp in it", (".codex/config.toml",), "toml", OWN_FIELDS, "codex",
    ),
    "gemini": ClientApp(
        "Gemini CLI", SERVERS, ("{home}/.gemini/settings.json",), _plain, _url("url", "http"),
        "run /mcp in gemini; in a folder that is not trusted it starts no server", (".gemini/settings.json",),
        reference="${{{}}}", command="gemini",
    ),
    "antigravity": ClientApp(
        "Antigravity", SERVERS,
        ("{home}/.gemini/config/mcp_config.json", "{home}/.gemini/antigravity/mcp_config.json"),
        _plain, _url("serverUrl"), "press Refresh under Manage MCP Servers in Antigravity", command="agy",
    ),
    "goose": ClientApp(
        "Goose", ("extensions",), ("{goose}/config.yaml",), _goose, _goose_url,
        "start a new session of goose", format="yaml", reference=OWN_FIELDS, command="goose",
    ),
    "opencode": ClientApp(
        "opencode", ("mcp",), ("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"), _opencode,
        _with(_url("url", "remote"), enabled=True), "run: opencode mcp list", ("opencode.json", "opencode.jsonc"),
        reference="{{env:{}}}", command="opencode",
    ),
    "lmstudio": ClientApp(
        "LM Studio", SERVERS, ("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"), _plain, _url("url"),
        "switch it on in LM Studio under Program, Install", link=_lmstudio_link,
    ),
    "kiro": ClientApp(
        "Kiro", SERVERS, ("{home}/.kiro/settings/mcp.json",), _with(_plain, disabled=False),
        _with(_url("url"), disabled=False), "look at MCP Servers in Kiro: it connects at once",
        (".kiro/settings/mcp.json",), reference="${{{}}}", command="kiro",
    ),
    "cline": ClientApp(
        "Cline", SERVERS,
        (f"{CODE}/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
        _with(_plain, disabled=False), _with(_url("url", "streamableHttp"), disabled=False),
        "look at MCP Servers in Cline",
    ),
}  # fmt: skip
"""By the name that a person types."""


def finished(client: str, name: str, entry: JsonObject) -> JsonObject:
    """The entry as it is written: Goose repeats the name inside."""
    if client != "goose":
        return entry
    kind = entry["type"]
    return {"type": kind, "name": name, **entry, "timeout": 300, "enabled": True}
