"""What a run gathered, and the few ways to read it: medians per leg, ratios per round, plain numbers.

A round in which the generator was too busy is void: it takes no part in any number. A leg with fewer
than half of its rounds left is void altogether.
"""

import re
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

Record = dict[str, Any]


class Void(Exception):
    """The generator, not the server, set the pace of this leg."""


class NoData(Exception):
    """The leg did not run, or failed."""


@dataclass
class Results:
    facts: dict[str, Any] = field(default_factory=dict)
    legs: dict[str, dict[str, list[Record]]] = field(default_factory=dict)  # leg -> target -> rounds
    numbers: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # probe -> target -> repetitions
    failures: list[dict[str, str]] = field(default_factory=list)

    def add_leg(self, leg: str, target: str, record: Record) -> None:
        self.legs.setdefault(leg, {}).setdefault(target, []).append(record)

    def add_number(self, probe: str, target: str, value: float) -> None:
        self.numbers.setdefault(probe, {}).setdefault(target, []).append(value)

    def add_failure(self, where: str, target: str, error: BaseException) -> None:
        text = re.sub(r"(?:/[\w.+-]+){2,}/", "…/", str(error))  # results are published: no paths of this machine
        self.failures.append({"where": where, "target": target, "error": text})

    def rounds(self, leg: str, target: str) -> list[Record]:
        """The rounds that count."""
        records = self.legs.get(leg, {}).get(target, [])
        if not records:
            raise NoData
        good = [record for record in records if not record["void"]]
        if len(good) * 2 < len(records):
            raise Void
        return good

    def typical(self, leg: str, target: str, key: str) -> float:
        return median(record[key] for record in self.rounds(leg, target))

    def least(self, leg: str, target: str, key: str) -> float:
        return min(record[key] for record in self.rounds(leg, target))

    def ratios(self, leg: str, ours: str, theirs: str) -> list[float]:
        """Requests per second of `ours` over `theirs`, round by round: both were measured within seconds."""
        other = {record["round"]: record["rate"] for record in self.rounds(leg, theirs)}
        pairs = [r["rate"] / other[r["round"]] for r in self.rounds(leg, ours) if r["round"] in other]
        if not pairs:
            raise NoData
        return pairs

    def number(self, probe: str, target: str) -> float:
        values = self.numbers.get(probe, {}).get(target)
        if not values:
            raise NoData
        return median(values)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
