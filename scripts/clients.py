"""Writes the table of clients in docs/install.md from the code: python scripts/clients.py"""

from __future__ import annotations

from pathlib import Path

from redstart.cli.configs.clients import CLIENTS, OWN_FIELDS, ClientApp, Places, finished
from redstart.cli.configs.launch import Launch
from redstart.cli.configs.records import FORMATS

PAGE = Path(__file__).parents[1] / "docs" / "install.md"
BEGIN, END = "<!-- clients: made by scripts/clients.py -->\n", "<!-- end -->\n"
SERVER = Launch(
    "/home/ada/.venv/bin/python", ("-m", "redstart", "run", "/home/ada/server.py"), {"API_KEY": "${API_KEY}"}
)


def _references(client: ClientApp) -> str:
    if client.reference == OWN_FIELDS:
        return "by fields of their own"
    return f"`{client.reference.format('NAME')}`" if client.reference else "no"


def table() -> str:
    rows = ["| name | client | file (Linux) | in a project | refers to variables | URLs |", "|---|---|---|---|---|---|"]
    places = Places("linux", "~", {})
    for name, client in CLIENTS.items():
        file, project = str(client.file(places)), f"`{client.project[0]}`" if client.project else "–"
        urls = "yes" if client.http else "no"
        rows.append(f"| `{name}` | {client.title} | `{file}` | {project} | {_references(client)} | {urls} |")
    return "\n".join(rows) + "\n"


def sections() -> str:
    texts = []
    for name, client in CLIENTS.items():
        launch = SERVER if client.reference else SERVER._replace(env={"CITY": "Oslo"})
        entry = finished(name, "weather", client.entry(launch))
        snippet = FORMATS[client.format].insert("", client.path, "weather", entry).text
        for item in client.inputs(["API_KEY"]):
            snippet = FORMATS[client.format].insert(snippet, ("inputs",), "", item).text
        files = {platform: client.file(Places(platform, "~", {})) for platform in ("linux", "darwin", "win32")}
        shown = [f"`{file}` ({platform})" for platform, file in files.items()]
        where = f"`{files['linux']}`" if len(set(files.values())) == 1 else ", ".join(shown)
        texts.append(
            f"### {client.title}\n\n`redstart install server.py {name}` writes to {where}:\n\n"
            f"```{client.format}\n{snippet}```\n\nThen {client.then}.\n"
        )
    return "\n".join(texts)


def page() -> str:
    """The page with the table of now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + sections() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
