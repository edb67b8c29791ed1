"""Idle holders of GPUs: pure decisions."""

from __future__ import annotations

import pytest

from flagplot_agent.idle import Holder, IdlePolicy, Idling, Key, judge_idle, parse_idle
from flagplot_wire.errors import Refused


def told(policy: IdlePolicy, *looks: tuple[int | None, ...], alone: bool = True) -> list[list[str]]:
    """What is done at each look, 10 s apart."""
    found, idling = [], dict[Key, Idling]()
    for at, use in enumerate(looks):
        actions, idling = judge_idle([Holder(1, 1, use, alone)], idling, policy, 100 + at * 10)
        found.append([f"{do} {lasts}" for do, _, lasts in actions])
    return found


def test_nobody_is_reaped_unless_asked_for() -> None:
    assert told(IdlePolicy(), *[(0,)] * 9) == [[]] * 9 and parse_idle("off") == IdlePolicy()


def test_a_warning_comes_after_half_of_the_time_and_the_end_after_all_of_it() -> None:
    assert told(parse_idle("end-after=40"), *[(0, 0)] * 5) == [[], [], ["warn 20"], [], ["end 40"]]
    assert told(parse_idle("warn-after=20"), *[(0,)] * 5) == [[], [], ["warn 20"], [], []]


def test_a_late_look_warns_and_leaves_the_end_to_the_next() -> None:
    assert told(parse_idle("end-after=10"), *[(0,)] * 3) == [[], ["warn 10"], ["end 20"]]


@pytest.mark.parametrize("busy", [(1, 0), (0, None), ()])
def test_work_on_one_gpu_or_one_not_measured_begins_the_count_anew(busy: tuple[int | None, ...]) -> None:
    assert told(parse_idle("end-after=20"), (0, 0), (0, 0), busy, (0, 0), (0, 0)) == [
        [],
        ["warn 10"],
        [],
        [],
        ["warn 10"],
    ]


def test_a_job_on_other_nodes_too_is_only_warned() -> None:
    assert told(parse_idle("end-after=20"), *[(0,)] * 4, alone=False) == [[], ["warn 10"], [], []]


def test_policies_are_read_or_refused() -> None:
    for wrong in ("", "end", "end-after=0", "end-after=5m", "kill-after=5"):
        with pytest.raises(Refused):
            parse_idle(wrong)
