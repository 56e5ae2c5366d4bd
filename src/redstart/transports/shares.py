"""What one caller may have of a server that many use: calls and streams that run at once, and calls per time.

A caller is a user of `auth=`; where nobody is authenticated, it is the address that the request comes from. What runs
is counted in each process, and rates are counted in the store, so they hold for all processes together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from redstart.features.errors import log
from redstart.features.rules import did_you_mean
from redstart.protocol.call import Call
from redstart.store.shared import SharedState, scoped
from redstart.transports.request import HttpRequest, Rejection
from redstart.wire.jsonrpc import INTERNAL_ERROR

SOON: Final = (b"retry-after", b"1")
_RATE: Final = re.compile(r"(\d{1,9})/(s|second|m|minute|h|hour|d|day)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ADDRESS: Final = " Callers without a user are told apart by their address: behind a proxy set trusted_proxies=."


class Seats:
    """How many of one kind run at once, in all and of one caller.

    Callers are counted only while more run than one caller may have: before that none of them can have too many.
    """

    def __init__(self, kind: str, most: int, most_own: int, owner: Callable[[HttpRequest], str]) -> None:
        self._kind = kind
        self._most = most
        self._most_own = min(most_own, most)
        self._owner = owner
        self.held: dict[HttpRequest, int] = {}
        """Who has seats, and how many."""
        self.taken = 0
        self._counts: Counter[str] | None = None

    def take(self, request: HttpRequest, size: int) -> Rejection | None:
        """Seats for what a request brings, until `release`; or why there are none."""
        if self.taken + size > self._most_own and (refusal := self._refusal(request, size)) is not None:
            return refusal
        self.held[request] = size
        self.taken += size
        if self._counts is not None:
            self._counts[self._owner(request)] += size
        return None

    def release(self, request: HttpRequest) -> None:
        """The seats of a request are free again."""
        size = self.held.pop(request)
        self.taken -= size
        if self._counts is None:
            return
        if self.taken <= self._most_own // 2:  # the half: to count again is then rare
            self._counts = None
            return
        owner = self._owner(request)
        self._counts[owner] -= size
        if not self._counts[owner]:
            del self._counts[owner]

    def _refusal(self, request: HttpRequest, size: int) -> Rejection | None:
        kind, option = self._kind, f"max_{self._kind}"
        if self.taken + size > self._most:
            text = f"This server runs {self.taken} {kind}, and at most {self._most}: {_change(option)}"
            return Rejection(503, text, SOON, code=INTERNAL_ERROR)
        if self._counts is None:
            self._counts = Counter()
            for other, count in self.held.items():
                self._counts[self._owner(other)] += count
        own = self._counts[self._owner(request)]
        if own + size <= self._most_own:
            return None
        text = f"This caller runs {own} {kind}, and at most {self._most_own}: {_change(f'{option}_per_caller')}"
        return Rejection(429, text if request.user is not None else text + _ADDRESS, SOON, code=INTERNAL_ERROR)


def _change(option: str) -> str:
    return f"try again later. The operator can change this with {option}=."


class Rate(Struct, frozen=True):
    """So many calls in so many seconds; as many at once after a pause."""

    count: int
    seconds: int

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def read_rate(label: str, value: object) -> Rate:
    """The rate that a text such as `100/minute` names."""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not int(match[1]):
        raise ValueError(f'{label} must be a rate such as "100/minute" or "5/s", not {value!r:.100}')
    return Rate(int(match[1]), _SECONDS[match[2][0]])


class Rates:
    """The rates of one endpoint: of all calls of a caller, and of its calls of single tools."""

    def __init__(
        self, name: str, every: Rate | None, tools: Mapping[str, Rate], store: Callable[[], SharedState]
    ) -> None:
        self._name = name
        self._every = every
        self._tools = tools
        self._store = store

    def check_names(self, known: Collection[str]) -> None:
        """Warn of a rate for a tool that is not there: it may come later, but mostly its name is misspelled."""
        for name in self._tools.keys() - set(known):
            log.warning(
                'tool_rate_limits= limits nothing by "%s": no tool has this name now%s', name, did_you_mean(name, known)
            )

    async def refusal(self, owner: str, calls: Iterable[Call]) -> Rejection | None:
        """Count these calls; why one of them comes too soon."""
        for call in calls:
            name = call.name if call.method.name == "tools/call" else None
            own = self._tools.get(name) if name is not None else None
            buckets = ((self._every, "", "rate_limit"), (own, f"tool {name}", "tool_rate_limits"))
            for rate, bucket, option in buckets:
                if rate is None:
                    continue
                key = scoped(owner, "rate", self._name, bucket)
                allowed, wait = await self._store().take(key, rate.per_second, float(rate.count))
                if not allowed:
                    return _too_soon(rate, bucket, option, wait)
        return None


def _too_soon(rate: Rate, bucket: str, option: str, wait: float) -> Rejection:
    later = max(1, math.ceil(wait))
    what = f"calls of the {bucket}" if bucket else "calls"
    text = (
        f"This caller may make {rate.count} {what} in {rate.seconds} s: try again in {later} s. "
        f"The operator can change this with {option}=."
    )
    return Rejection(429, text, (b"retry-after", b"%d" % later), code=INTERNAL_ERROR)
