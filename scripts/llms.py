"""docs/llms.txt: the pages of the docs for machines, from the navigation of the site: `make reference` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def text() -> str:
    """The file as llmstxt.org describes it: a title, a summary, and lists of links."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}", ""]
    for entry in site["nav"]:
        if isinstance(entry, dict):
            for title, inside in entry.items():
                links = [f"- [{name}]({page}): {summary(page)}" for name, page in pages(title, inside)]
                lines += [f"## {title}", "", *links, ""] if isinstance(inside, list) else [*links, ""]
    return "\n".join(lines)


def pages(title: str, inside: Any) -> Iterator[tuple[str, str]]:
    """The pages below an entry of the navigation."""
    if isinstance(inside, str):
        yield title, inside
        return
    for entry in inside:
        for name, inner in entry.items():
            yield from pages(name, inner)


def summary(page: str) -> str:
    """The first sentence of a page."""
    text = (ROOT / "docs" / page).read_text()
    body = re.sub(r"^[#|][^\n]*$|<!--.*?-->|^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraph = next((part for part in body.split("\n\n") if part.strip()), "").strip().replace("\n", " ")
    return re.split(r"(?<=[.:]) ", paragraph)[0][:200]


if __name__ == "__main__":
    (ROOT / "docs" / "llms.txt").write_text(text(), encoding="utf-8")
