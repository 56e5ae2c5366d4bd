"""What redstart has written into the files of clients: a file of its own, so that theirs hold no marks of ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from redstart.cli.configs import files, jsonc, toml, yaml
from redstart.cli.configs.clients import CLIENTS
from redstart.cli.configs.edit import EditError, Mark

FORMATS = {"json": jsonc, "toml": toml, "yaml": yaml}


class Written(msgspec.Struct, frozen=True):
    """One edit of a file."""

    path: tuple[str, ...]
    name: str
    body: str
    comma: bool = False
    replaced: str | None = None

    @property
    def mark(self) -> Mark:
        return Mark(self.body, self.comma, self.replaced)


class Installed(msgspec.Struct, frozen=True):
    """One server in the file of one client."""

    client: str
    scope: str
    file: str
    name: str
    target: str
    edits: tuple[Written, ...]
    created: bool = False
    """Whether the file was made by us."""
    folders: tuple[str, ...] = ()
    """The folders that were made for it, the innermost first."""

    def undone(self, text: str) -> str:
        """The text of the file without what was written."""
        editor = FORMATS[CLIENTS[self.client].format]
        for edit in reversed(self.edits):
            try:
                text = editor.remove(text, edit.path, edit.name, edit.mark)
            except EditError:
                if edit.name:  # a changed question of VS Code stays where it is: it may be somebody else's now
                    raise
        return text

    def same_place(self, client: str, file: Path, name: str) -> bool:
        return (self.client, self.file, self.name) == (client, str(file), name)


def _file() -> Path:
    return files.state_folder() / "installed.json"


def load() -> list[Installed]:
    """All that is installed; EditError if the file is broken, because then nothing could be removed exactly."""
    data = files.read(_file())
    if data is None:
        return []
    try:
        return msgspec.json.decode(data, type=list[Installed])
    except msgspec.MsgspecError as error:
        raise EditError(f"{_file()}, where redstart keeps what it has installed, is broken: {error}") from None


def save(records: list[Installed]) -> None:
    before = files.read(_file())
    text = json.dumps(msgspec.to_builtins(records), indent=2, ensure_ascii=False) + "\n"
    _file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write(_file(), text.encode(), before)
    os.chmod(_file(), 0o600)
