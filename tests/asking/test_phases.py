"""The table of the phases of a dialogue: where it can go, and from where it cannot come back."""

from __future__ import annotations

from redstart.asking.dialogue import GOING_ON, NEXT, Phase, Signal


def reached(start: Phase, *without: Signal) -> set[Phase]:
    """The phases that some row of signals leads to."""
    phases = {start}
    while True:
        more = {after for (before, signal), after in NEXT.items() if before in phases and signal not in without}
        if more <= phases:
            return phases
        phases |= more


def test_a_run_can_come_to_every_phase_by_every_signal() -> None:
    assert reached(Phase.RUNNING) == set(Phase)
    assert {signal for _, signal in NEXT} == set(Signal)


def test_a_broken_dialogue_stays_broken() -> None:
    assert reached(Phase.BROKEN) == {Phase.BROKEN}


def test_only_a_restart_takes_a_result_back() -> None:
    assert reached(Phase.CONCLUDED, Signal.FAILED, Signal.RESTARTED) == {Phase.CONCLUDED}


def test_a_run_that_was_told_to_end_goes_on_only_if_it_times_out_or_is_restarted() -> None:
    for phase in (Phase.ENDING, Phase.LEAVING):
        assert not reached(phase, Signal.TIMED_OUT, Signal.RESTARTED) & set(GOING_ON)
