"""Writes the rules of `redstart check` into docs/check.md, each with an example of both: python scripts/rules.py"""

from __future__ import annotations

from pathlib import Path

from redstart.cli.lint.rules import RULES, LintRule

PAGE = Path(__file__).parents[1] / "docs" / "check.md"
BEGIN, END = "<!-- rules: made by scripts/rules.py -->\n", "<!-- end -->\n"
HEAD = "from redstart import Server\n\nserver = Server('shop')\n\n\n"

EXAMPLES: dict[str, tuple[str, str]] = {
    "RS101": (
        """
@server.tool
def hats() -> str:
    return ""
""",
        '''
@server.tool
def hats() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS102": (
        '''
@server.tool(annotations={"readOnlyHint": True})
def list_hats() -> str:
    """List hats."""
    return ""
''',
        '''
@server.tool(annotations={"readOnlyHint": True})
def list_hats() -> str:
    """List the hats in stock, the newest first."""
    return ""
''',
    ),
    "RS103": (
        '''
@server.tool
def order_hat(n: int) -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat(n: int) -> str:
    """Order hats.

    Args:
        n: How many of them.
    """
    return ""
''',
    ),
    "RS104": (
        '''
@server.tool
def order_hat(colour: str) -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat(colour: str) -> str:
    """Order a hat.

    Args:
        colour: Red or blue.
    """
    return ""
''',
    ),
    "RS105": (
        '''
@server.tool(name="hats.list", annotations={"readOnlyHint": True})
def list_hats() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool(name="hats_list")
def list_hats() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS106": (
        '''
@server.tool
def order_one_hat_of_the_given_colour_for_the_given_customer_now() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS107": (
        '''
@server.tool
def process() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS108": (
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""


@server.tool
def orderHat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""


@server.tool
def order_scarf() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS109": (
        """
@server.tool(description="Order a hat. " * 100)
def order_hat() -> str:
    return ""
""",
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS201": (
        '''
from dataclasses import dataclass


@dataclass
class Size:
    width: int
    height: int


@server.tool
def compare_sizes(first: Size, second: Size) -> str:
    """Tell which size is larger."""
    return ""
''',
        '''
@server.tool
def compare_sizes(first_width: int, second_width: int) -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS202": (
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string"}}, "anyOf": [{"required": ["size"]}]},
    )
)
""",
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]},
    )
)
""",
    ),
    "RS203": (
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string", "not": {"enum": ["XS"]}}}},
    )
)
""",
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string", "description": "Any but XS."}}},
    )
)
""",
    ),
    "RS204": (
        '''
from datetime import date


@server.tool
def order_hat(day: date) -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
from datetime import date


@server.tool
def order_hat(day: date) -> str:
    """Order a hat.

    Args:
        day: As 2026-12-24.
    """
    return ""
''',
    ),
    "RS205": (
        '''
from dataclasses import dataclass


@dataclass
class Box:
    label: str
    boxes: list["Box"]


@server.tool
def pack_box(outer: Box) -> str:
    """Pack all boxes."""
    return ""
''',
        '''
@server.tool
def pack_box(labels: list[str]) -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS206": (
        '''
@server.tool
def order_hats(colours: list) -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hats(colours: list[str]) -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS207": (
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"größe": {"type": "string"}}},
    )
)
""",
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string"}}},
    )
)
""",
    ),
    "RS208": (
        '''
@server.tool
def order_hat(size: int = "seven") -> str:
    """Order a hat."""
    return ""
''',
        '''
@server.tool
def order_hat(size: int = 7) -> str:
    """Order a hat."""
    return ""
''',
    ),
    "RS301": (
        """
@server.tool(description="Order a hat. " * 400)
def order_hat() -> str:
    return ""
""",
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS302": (
        """
for number in range(30):
    server.tool(name=f"order_hat_{number}", description="Order a hat. " * 250)(lambda: "")
""",
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS303": (
        """
for number in range(41):
    server.tool(name=f"order_hat_{number}", description="Order this hat.")(lambda: "")
""",
        '''
@server.tool
def order_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS304": (
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"enum": [f"size {number}" for number in range(200)]}}},
    )
)
""",
        """
from redstart import Tool

server.register(
    Tool(
        "order_hat",
        handler=lambda arguments: "",
        description="Order one hat.",
        input_schema={"type": "object", "properties": {"size": {"type": "string"}}},
    )
)
""",
    ),
    "RS401": (
        '''
@server.tool
async def order_hat() -> str:
    """Order one hat."""
    time.sleep(1)
    return ""
''',
        '''
@server.tool
async def order_hat() -> str:
    """Order one hat."""
    await asyncio.sleep(1)
    return ""
''',
    ),
    "RS402": (
        '''
@server.tool
def list_hats() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool(annotations={"readOnlyHint": True})
def list_hats() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS403": (
        '''
@server.tool
def delete_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool(annotations={"destructiveHint": True})
def delete_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS404": (
        '''
@server.tool(annotations={"readOnlyHint": True, "destructiveHint": True})
def show_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool(annotations={"readOnlyHint": True})
def show_hat() -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS501": (
        '''
@server.tool
def order_hat(key: str = "sk-4f7a9c2e1b8d") -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat(colour: str = "red") -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS502": (
        '''
@server.tool
def order_hat(api_key: str) -> str:
    """Tell what the shop sells today."""
    return ""
''',
        '''
@server.tool
def order_hat(colour: str) -> str:
    """Tell what the shop sells today."""
    return ""
''',
    ),
    "RS503": (
        '''
@server.tool
def order_hat() -> str:
    """Order a hat with sk-4f7a9c2e1b8d."""
    return ""
''',
        '''
@server.tool
def order_hat() -> str:
    """Order a hat."""
    return ""
''',
    ),
}
"""What the rule finds, and what it does not."""


def example(source: str) -> str:
    """An example as a whole file."""
    first = "import asyncio\n" if "asyncio." in source else "import time\n" if "time.sleep" in source else ""
    imports = [line for line in source.splitlines() if line.startswith(("from ", "import "))]
    rest = "\n".join(line for line in source.splitlines() if line not in imports).strip("\n") + "\n"
    return first + "".join(f"{line}\n" for line in imports) + HEAD + rest


def table() -> str:
    rows = ["| code | problem | clients | by default | `--fix` |", "|---|---|---|---|---|"]
    rows.append("| RS001 | what a client of some revision would meet | all | yes | no |")
    for rule in RULES:
        words = [", ".join(rule.clients) or "all", "yes" if rule.default else "no", "yes" if rule.fixable else "no"]
        rows.append(f"| [{rule.code}](#{rule.code.lower()}) | {rule.title} | {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def section(rule: LintRule) -> str:
    bad, good = (text.strip("\n") for text in EXAMPLES[rule.code])
    return (
        f"### {rule.code}\n\n{rule.title[0].upper() + rule.title[1:]}. {rule.why}\n\n"
        f"```py\n{bad}\n```\n\nBetter:\n\n```py\n{good}\n```\n"
    )


def page() -> str:
    """The page with the rules of now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    sections = "\n".join(map(section, RULES))
    return before + BEGIN + "\n" + table() + "\n" + sections + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
