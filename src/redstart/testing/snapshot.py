"""What a server offers to its clients, as JSON: the content of a snapshot file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from redstart.client.client import Client
from redstart.client.requests import MAX_PAGES
from redstart.testing.changes import LISTS, Offer, compare

_METHODS: Final = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}


async def offered(client: Client) -> Offer:
    """All lists of a server, each sorted by the key of its entries, as they go over the wire."""
    found: Offer = {}
    for kind, method in _METHODS.items():
        capability = "resources" if kind == "resourceTemplates" else kind
        if capability not in client.server_capabilities:
            continue
        entries, cursor = [], None
        for _ in range(MAX_PAGES):
            page = await client.request(method, {} if cursor is None else {"cursor": cursor})
            entries += page.get(kind, [])
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        else:
            raise AssertionError(f"{method}: the list has more than {MAX_PAGES} pages")
        if entries:
            found[kind] = sorted(entries, key=lambda entry: str(entry.get(LISTS[kind])))
    return found


def check_snapshot(path: Path, now: Mapping[str, object], update: bool) -> None:
    """AssertionError if `now` differs from the file; with `update` the file is written instead."""
    text = json.dumps(now, indent=2, ensure_ascii=False) + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        raise AssertionError(f"there is no snapshot {path}; write it with: pytest --mcp-update")
    before = json.loads(path.read_text(encoding="utf-8"))
    changes = compare(before, now)
    if not changes and before == now:
        return
    breaking = [change for change in changes if change.breaks]
    head = f"{len(breaking)} of these changes break clients" if breaking else "no client is broken by this"
    lines = [f"  {'BREAKS  ' if change.breaks else '        '}{change}" for change in changes]
    body = "\n".join(lines) or "  only fields that clients do not depend on"
    raise AssertionError(
        f"what clients see is not as in {path} ({head}):\n{body}\nIf this is meant, run: pytest --mcp-update"
    )
