"""Which test shows which requirement: item -> tests, for every numbered item.

A test names its items with `@pytest.mark.requirement("74", "T46")`. The script fails where an item of a range that is
done has no test, and where a test names an item that does not exist; other gaps wait for what they belong to.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent.parent / "tests"


class Range(NamedTuple):
    """Items that one piece of work answers for."""

    name: str
    first: str
    last: int
    owner: str
    done: bool

    def items(self) -> list[str]:
        letter = self.first.rstrip("0123456789")
        return [f"{letter}{number}" for number in range(int(self.first[len(letter) :]), self.last + 1)]


RANGES = (
    Range("server, lifecycle, transport", "1", 13, "applications", True),
    Range("methods", "14", 25, "applications", True),
    Range("capabilities", "26", 32, "applications", True),
    Range("capability of tasks", "33", 33, "tasks", True),
    Range("declaring tools", "34", 49, "applications", True),
    Range("dispatch and results", "50", 65, "applications", True),
    Range("elicitation", "66", 73, "asking", True),
    Range("prompts", "74", 84, "applications", True),
    Range("resources", "85", 92, "applications", True),
    Range("explicit tools", "93", 121, "applications", True),
    Range("tasks", "122", 146, "tasks", True),
    Range("outputs, failure, many solutions", "K1", 7, "applications", True),
    Range("facts: framing and lifecycle", "T1", 11, "applications", True),
    Range("facts: capabilities", "T12", 16, "applications", True),
    Range("facts: capability of tasks", "T17", 17, "tasks", True),
    Range("facts: tools", "T18", 39, "applications", True),
    Range("facts: elicitation", "T40", 45, "asking", True),
    Range("facts: prompts and resources", "T46", 55, "applications", True),
    Range("facts: completion", "T56", 61, "applications", True),
    Range("facts: progress and logging", "T62", 66, "applications", True),
    Range("facts: tasks", "T67", 87, "tasks", True),
    Range("facts: rounds of input", "T88", 93, "asking", True),
    Range("facts: HTTP", "T94", 100, "applications", True),
    Range("facts: subscriptions", "T101", 105, "applications", True),
    Range("facts: authorization", "T106", 109, "authorization", True),
    Range("facts: directory", "T110", 110, "applications", True),
)


def marked(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(item, name of the test) for each marker in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                for item in _items(decorator):
                    yield item, node.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("pytest.param"):
            for keyword in node.keywords:
                for call in ast.walk(keyword.value) if keyword.arg == "marks" else ():
                    for item in _items(call):
                        yield item, "parameter"
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            for call in ast.walk(node.value):
                for item in _items(call):
                    yield item, "module"


def _items(node: ast.AST) -> list[str]:
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.requirement")):
        return []
    return [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]


def collect() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("*.py")):
        for item, name in marked(ast.parse(path.read_text())):
            place = f"{path.relative_to(TESTS.parent)}::{name}"
            if place not in found[item]:
                found[item].append(place)
    return found


def main() -> int:
    found = collect()
    known = {item for part in RANGES for item in part.items()}
    gaps = 0
    for part in RANGES:
        print(f"\n{part.name} ({part.first}-{part.items()[-1]})")
        for item in part.items():
            tests = found.get(item)
            if tests:
                more = f" (+{len(tests) - 2} more)" if len(tests) > 2 else ""
                print(f"  {item:>5}  {', '.join(tests[:2])}{more}")
            elif part.done:
                gaps += 1
                print(f"  {item:>5}  NO TEST")
            else:
                print(f"  {item:>5}  waits for {part.owner}")
    strange = sorted(item for item in set(found) - known if not item.startswith("R"))  # R: bars of reliability
    if strange:
        print(f"\nno such items: {', '.join(strange)}")
    shown = sum(item in found for item in known)
    print(f"\n{shown} of {len(known)} items have tests, {gaps} gaps where there must be none")
    return 1 if gaps or strange else 0


if __name__ == "__main__":
    sys.exit(main())
