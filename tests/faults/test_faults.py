"""A short run of every attack: memory stays bounded, a good client is served, and the server fails nowhere.

`make faults` measures times, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.attacks import ATTACKS, Client, modern_call
from faults.running import MAX_BYTES, attacked, peak, read, serving

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")


QUICK = ("undisturbed", "batches")
SLOW = pytest.mark.slow("each attack goes on for seconds")


@pytest.mark.parametrize("attack", [*QUICK, *(pytest.param(name, marks=SLOW) for name in ATTACKS if name not in QUICK)])
def test_an_attack_costs_no_more_than_its_share(attack: str) -> None:
    with serving() as (process, port, noise), Client(port) as good:
        with attacked(attack, port, 2) as attacker:
            for _ in range(50):
                assert good.ask(modern_call("echo", text="x"))[0] == 200
        assert attacker.struck > 0
        assert peak(process) < MAX_BYTES
        assert b"Traceback" not in read(noise)
