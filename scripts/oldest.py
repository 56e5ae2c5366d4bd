"""Print the lowest versions that pyproject.toml allows, as constraints for pip: `make test-oldest` installs them.

    python scripts/oldest.py test > constraints.txt

It reads the dependencies of the package, of all its extras, and of the dependency groups that are named. Packages that
these depend on themselves stay at the version that pip chooses.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^]]*])?(?P<bounds>[^;]*)(?P<marker>;.*)?")
LOWER = re.compile(r"(?:>=|==|~=)\s*([\w.]+)")


def constraint(requirement: str) -> str | None:
    """`"uvicorn>=0.34,<1"` as `"uvicorn==0.34"`; None for the package's own extras.

    >>> constraint("redis[hiredis]>=8.0.1,!=8.1.0; sys_platform != 'win32'")
    "redis==8.0.1; sys_platform != 'win32'"
    """
    parts = REQUIREMENT.fullmatch(requirement)
    assert parts is not None, requirement
    if parts["name"] == "redstart":
        return None
    lower = LOWER.search(parts["bounds"])
    if lower is None:
        raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound")
    return f"{parts['name']}=={lower[1]}{parts['marker'] or ''}"


def requirements(pyproject: Path, groups: list[str]) -> Iterator[str]:
    """Every direct dependency of the package, of its extras and of the named groups."""
    tables = tomllib.loads(pyproject.read_text())
    yield from tables["project"]["dependencies"]
    for extra in tables["project"]["optional-dependencies"].values():
        yield from extra
    for group in groups:
        yield from (each for each in tables["dependency-groups"][group] if isinstance(each, str))


def main(groups: list[str]) -> None:
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    pins = {constraint(each) for each in requirements(pyproject, groups)}
    print("\n".join(sorted(pin for pin in pins if pin is not None)))


if __name__ == "__main__":
    main(sys.argv[1:])
