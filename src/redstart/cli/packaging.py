"""What `redstart build` makes: an MCPB bundle, the registry's server.json, a Dockerfile. Pure functions, no output.

MCPB: a zip with manifest.json (versions 0.3 and 0.4). server.json: the schema of the MCP registry.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from redstart.cli.lint.facts import ServerFacts
from redstart.cli.output import FAILED, CommandError
from redstart.wire.jsonrpc import JsonObject

LEFT_OUT: Final = ("venv", "__pycache__", "node_modules", "dist", "build", "*.pyc", "*.mcpb")
"""Names that are not packed, because it can be made again."""
PRIVATE: Final = (".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", "*tokens.json")
"""Names that are not packed, because others should not have it. Nor is anything else whose name begins with a dot."""
KEPT: Final = (".python-version",)
MOST_FILES, MOST_BYTES = 5000, 100 << 20
STAMP: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a bundle, so that the same sources give the same bytes."""
URL = re.compile(r"https?://\S+")
SEMVER = re.compile(r"\d+\.\d+\.\d+([-+][\w.+-]+)?")
REGISTRY_NAME = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
UNVERSIONED: Final = "1.0.0"
"""The version of a server that was made without one."""
SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


class BuildError(CommandError):
    """What is asked for cannot be built; the text says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text, FAILED)


class ProjectFile(NamedTuple):
    """What pyproject.toml says, where there is one."""

    folder: Path
    table: JsonObject

    @classmethod
    def around(cls, place: Path) -> ProjectFile:
        """The project that a file or a folder belongs to."""
        start = place if place.is_dir() else place.parent
        for folder in (start, *start.parents):
            if (folder / "pyproject.toml").is_file():
                try:
                    return cls(folder, tomllib.loads((folder / "pyproject.toml").read_text("utf-8")))
                except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                    raise BuildError(f"{folder / 'pyproject.toml'}: {error}") from None
        return cls(start, {})

    def get(self, key: str, default: str = "") -> str:
        value = self.table.get("project", {}).get(key, default)
        return value if isinstance(value, str) else default

    @property
    def author(self) -> JsonObject:
        authors = self.table.get("project", {}).get("authors") or [{}]
        return {key: authors[0][key] for key in ("name", "email") if key in authors[0]}

    def url(self, *names: str) -> str:
        urls = self.table.get("project", {}).get("urls", {})
        by_name = {str(name).lower(): str(url) for name, url in urls.items()}
        return next((by_name[name] for name in names if name in by_name), "")


# ---------------------------------------------------------------- MCPB

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_URL: Final = {"type": "string", "format": "uri"}


def _object(needed: Sequence[str], /, **properties: object) -> JsonObject:
    return {"type": "object", "required": list(needed), "properties": properties, "additionalProperties": False}


def manifest_schema(version: str) -> JsonObject:
    """The schema of a manifest, from the fields that MCPB documents."""
    config = _object(["command"], command=_TEXT, args=_TEXTS, env={"type": "object", "additionalProperties": _TEXT})
    kinds = ["python", "node", "binary", *(["uv"] if version == "0.4" else [])]
    question = _object(
        ["type", "title", "description"],
        type={"enum": ["string", "number", "boolean", "directory", "file"]},
        title=_TEXT,
        description=_TEXT,
        required={"type": "boolean"},
        default={},
        sensitive={"type": "boolean"},
    )
    runtimes = _object([], python=_TEXT, node=_TEXT)
    platforms = {"type": "array", "items": {"enum": ["darwin", "win32", "linux"]}}
    return _object(
        ["manifest_version", "name", "version", "description", "author", "server"],
        manifest_version={"const": version},
        name=_TEXT,
        display_name=_TEXT,
        version=_TEXT,
        description=_TEXT,
        author=_object(["name"], name=_TEXT, email=_TEXT, url=_URL),
        repository=_object(["type", "url"], type=_TEXT, url=_URL),
        homepage=_URL,
        license=_TEXT,
        keywords=_TEXTS,
        server=_object(
            ["type", "entry_point", "mcp_config"], type={"enum": kinds}, entry_point=_TEXT, mcp_config=config
        ),
        tools={"type": "array", "items": _object(["name"], name=_TEXT, description=_TEXT)},
        tools_generated={"type": "boolean"},
        prompts_generated={"type": "boolean"},
        compatibility=_object([], claude_desktop=_TEXT, platforms=platforms, runtimes=runtimes),
        user_config={"type": "object", "additionalProperties": question},
    )


def problems_of(value: object, schema: Mapping[str, object], path: str = "manifest") -> list[str]:
    """What of a document the schema does not allow: the few keywords that `manifest_schema` has."""
    kinds: dict[object, type] = {"string": str, "array": list, "object": dict, "boolean": bool}
    kind = kinds.get(schema.get("type"))
    if kind is not None and not isinstance(value, kind):
        return [f"{path} must be of type {schema['type']}"]
    if "const" in schema and value != schema["const"]:
        return [f"{path} must be {schema['const']}"]
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return [f"{path} must be one of {', '.join(allowed)}"]
    if schema.get("format") == "uri" and not URL.fullmatch(str(value)):
        return [f"{path} must be a URL"]
    found: list[str] = []
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for number, item in enumerate(value):
            found += problems_of(item, items, f"{path}[{number}]")
    if isinstance(value, dict):
        found += _problems_of_object(value, schema, path)
    return found


def _problems_of_object(value: JsonObject, schema: Mapping[str, object], path: str) -> list[str]:
    known, more, required = schema.get("properties"), schema.get("additionalProperties"), schema.get("required")
    known = known if isinstance(known, dict) else {}
    found = [f"{path}.{key} is missing" for key in (required if isinstance(required, list) else []) if key not in value]
    for key, inner in value.items():
        rule = known.get(key, more)
        if rule is False:
            found.append(f"{path}.{key} is not a field of a manifest")
        elif isinstance(rule, dict):
            found += problems_of(inner, rule, f"{path}.{key}")
    return found


def manifest(
    facts: ServerFacts, project: ProjectFile, entry: str, version: str, secrets: Sequence[str] = ()
) -> JsonObject:
    """The manifest of a bundle. 0.4 is run by uv, which installs the requirements; 0.3 by the Python of the machine."""
    number = project.get("version") or facts.version
    variables = {name: f"${{user_config.{name.lower()}}}" for name in secrets}
    target = "${__dirname}/" + entry
    if version == "0.4":
        kind = "uv"
        command = {"command": "uv", "args": ["run", "--directory", "${__dirname}", "redstart", "run", target]}
    else:
        kind, command = "python", {"command": "python3", "args": ["-m", "redstart", "run", target]}
    document: JsonObject = {
        "manifest_version": version,
        "name": project.get("name") or facts.server,
        "display_name": facts.server,
        "version": number,
        "description": project.get("description") or f"The MCP server {facts.server}.",
        "author": project.author or {"name": "unknown"},
        "homepage": project.url("homepage", "documentation"),
        "license": project.get("license"),
        "server": {
            "type": kind,
            "entry_point": entry,
            "mcp_config": {**command, **({"env": variables} if variables else {})},
        },
        "tools": [
            {"name": tool.name, **({"description": tool.description} if tool.description else {})}
            for tool in facts.of("tool")
        ],
        "compatibility": {"runtimes": {"python": project.get("requires-python", ">=3.11")}},
    }
    if url := project.url("repository", "source", "source code"):
        document["repository"] = {"type": "git", "url": url}
    document["user_config"] = {name.lower(): _question(name) for name in secrets}
    document = {key: value for key, value in document.items() if value}
    if problems := problems_of(document, manifest_schema(version)):
        raise BuildError("; ".join(problems))
    return document


def _question(name: str) -> JsonObject:
    """What the client asks for a variable that is a secret."""
    text = f"The value of {name}."
    return {"type": "string", "title": name, "description": text, "sensitive": True, "required": True}


def _is_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns)


def collected(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """The files of a folder by their path in the bundle, and those that are private; no link may lead out of it."""
    found: dict[str, bytes] = {}
    private: list[str] = []
    size = 0
    for path in sorted(folder.rglob("*")):
        *above, name = path.relative_to(folder).parts
        packed = "/".join((*above, name))
        if _is_any(above, (*LEFT_OUT, ".*", *PRIVATE)) or _is_any([name], LEFT_OUT):
            continue
        if _is_any([name], PRIVATE):
            private.append(packed)
        elif path.is_file() and (name in KEPT or not name.startswith(".")):
            found[packed] = _data(folder, path)
            size += len(found[packed])
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise BuildError(
                f"{folder} has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB; name a smaller folder"
            )
    return found, private


def _data(folder: Path, path: Path) -> bytes:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BuildError(f"{path} leads out of {folder}")
    return path.read_bytes()


def requirements(name: str, version: str) -> bytes:
    """A pyproject.toml for a bundle whose server has none."""
    text = f'[project]\nname = {json.dumps(name)}\nversion = {json.dumps(version)}\nrequires-python = ">=3.11"\n'
    return (text + 'dependencies = ["redstart"]\n').encode()


def bundle(document: JsonObject, content: Mapping[str, bytes]) -> bytes:
    """The zip: files in the order of their names, with one time, so that it can be made again to the byte."""
    data = {**content, "manifest.json": (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(data):
            entry = zipfile.ZipInfo(name, STAMP)
            entry.external_attr, entry.create_system, entry.compress_type = 0o644 << 16, 3, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data[name])
    return buffer.getvalue()


# ---------------------------------------------------------------- server.json


def server_json(facts: ServerFacts, project: ProjectFile, name: str = "", url: str = "") -> JsonObject:
    """The entry for the MCP registry; BuildError lists everything that the registry would refuse."""
    readme = project.folder / project.get("readme", "README.md")
    text = readme.read_text("utf-8") if readme.is_file() else ""
    marked = re.search(r"mcp-name:\s*(\S+)", text)
    name = name or (marked[1] if marked else "")
    version, description = project.get("version"), project.get("description")
    wrong = []
    if not name:
        wrong.append(f"its name is not known: write `mcp-name: io.github.USER/{facts.server}` into {readme.name}")
    elif not REGISTRY_NAME.fullmatch(name) or not 3 <= len(name) <= 200:
        wrong.append(f"{name} is not a name as io.github.USER/NAME: one slash, letters, digits, '.', '_' and '-'")
    elif not url and (marked is None or marked[1] != name):
        wrong.append(f"{readme.name} must contain `mcp-name: {name}`: the registry looks for it in what is published")
    if not project.get("name") and not url:
        wrong.append("pyproject.toml has no project.name, and the registry wants a published package; or give a --url")
    if not SEMVER.fullmatch(version or facts.version):
        wrong.append(f"the version {version or facts.version} is not exact, as 1.2.3")
    if version and facts.version not in (UNVERSIONED, version):
        wrong.append(f"pyproject.toml says {version}, and the server {facts.version}")
    if not 1 <= len(description) <= 100:
        wrong.append(f"project.description has {len(description)} characters; the registry takes 1 to 100")
    if wrong:
        raise BuildError("\n".join(wrong))
    document: JsonObject = {"$schema": SCHEMA, "name": name, "description": description}
    document["version"] = version or facts.version
    if repository := project.url("repository", "source", "source code"):
        document["repository"] = {"url": repository, "source": "github" if "github.com" in repository else "git"}
    if project.get("name"):
        package = {"registryType": "pypi", "identifier": project.get("name"), "version": document["version"]}
        document["packages"] = [{**package, "transport": {"type": "stdio"}}]
    if url:
        document["remotes"] = [{"type": "streamable-http", "url": url}]
    return document


def dockerignore() -> str:
    """What an image does not get of the folder: what a bundle does not get."""
    return "".join(f"**/{pattern}\n" for pattern in (*LEFT_OUT, ".*", *PRIVATE)) + "".join(f"!{one}\n" for one in KEPT)


def dockerfile(project: ProjectFile, target: str) -> str:
    """An image that serves over stdio as a user without rights; `--http` may be given as an argument."""
    install = "." if project.table else "redstart"
    return f"""FROM python:3.13-slim
RUN useradd --create-home server
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir {install}
USER server
ENTRYPOINT ["redstart", "run", {json.dumps(target)}]
"""
