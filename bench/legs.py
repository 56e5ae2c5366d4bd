"""The table of legs. A setup is one fresh server process; its legs run in it one after the other.

A new leg is a row here, and its bar, if it has one, a row in bars.py. The cost of one round of an `ask` beside a plain
call is in asking.py: one call takes two requests there, and the second depends on the answer to the first.
"""

from dataclasses import dataclass

from bench.messages import HANDSHAKE, MODERN

ALL = ("redstart", "mcp", "fastmcp", "typescript")
OURS = ("redstart",)


@dataclass(frozen=True)
class Leg:
    name: str
    title: str
    operation: str  # a tool, or "list"
    window: int  # requests in flight on stdio, connections over HTTP
    requests: int = 0  # exactly this many, instead of a duration
    limit: float = 600  # seconds after which a peer stops in a leg that counts requests


@dataclass(frozen=True)
class Setup:
    name: str
    transport: str
    era: str
    legs: tuple[Leg, ...]
    targets: tuple[str, ...] = ALL
    tools: int = 3
    rounds: int = 0  # 0: as many as the command line says


SPEED = (
    Setup(
        "stdio",
        "stdio",
        HANDSHAKE,
        (
            Leg("stdio-64", "stdio, async tool, 64 in flight", "add", 64),
            Leg("stdio-1", "stdio, async tool, one at a time", "add", 1),
            Leg("stdio-sync-64", "stdio, sync tool, 64 in flight", "add_sync", 64),
            Leg("stdio-echo-64", "stdio, 1 KiB echo, 64 in flight", "echo", 64),
        ),
        targets=("redstart", "redstart-asyncio", "mcp", "fastmcp", "typescript"),
    ),
    Setup(
        "stdio-modern",
        "stdio",
        MODERN,
        (
            Leg("stdio-modern-64", "stdio, async tool, 64 in flight, 2026-07-28", "add", 64),
            Leg("stdio-modern-1", "stdio, async tool, one at a time, 2026-07-28", "add", 1),
        ),
    ),
    Setup(
        "stdio-list",
        "stdio",
        HANDSHAKE,
        (Leg("list-50", "stdio, tools/list of 50, 64 in flight", "list", 64),),
        tools=50,
    ),
    Setup("http", "http", MODERN, (Leg("http-32", "HTTP, 2026-07-28, 32 connections", "add", 32),)),
    Setup(
        "http-session",
        "http",
        HANDSHAKE,
        (Leg("http-session-32", "HTTP, 2025-11-25 with a session, 32 connections", "add", 32),),
        targets=("redstart", "mcp", "mcp-sse", "fastmcp", "typescript"),
    ),
)

SCALE = tuple(
    Setup(
        f"scale-{transport}-{tools}",
        transport,
        era,
        (Leg(f"scale-{transport}-{tools}", f"{transport}, {tools:,} tool{'s' * (tools > 1)}", "add", window),),
        targets=OURS,
        tools=tools,
    )
    for transport, era, window in (("stdio", HANDSHAKE, 64), ("http", MODERN, 32))
    for tools in (1, 1000)
)

# Peers are too slow for 100,000 calls in every run: they stop at the limit, and the table says after how many.
MEMORY = tuple(
    Setup(
        f"memory-{transport}",
        transport,
        era,
        (Leg(f"memory-{transport}", f"{transport}, memory after calls", "add", window, requests=100_000, limit=limit),),
        rounds=1,
    )
    for transport, era, window, limit in (("stdio", HANDSHAKE, 64, 4), ("http", MODERN, 32, 4))
)

SOAK = Setup(
    "soak",
    "stdio",
    HANDSHAKE,
    (
        Leg("soak-warm-up", "stdio, 100,000 calls to warm up", "add", 64, requests=100_000),
        Leg("soak", "stdio, 1,000,000 calls more", "add", 64, requests=1_000_000),
    ),
    targets=OURS,
    rounds=1,
)
