"""The compiled replay of processors against a plain oracle on thousands of random workloads.

The oracle itself asserts at every pass that the head job's shadow time (EASY) and every promised start
(conservative) only get earlier, so that equality carries both over to the kernels.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.profile_oracle import Job, Oracle

from flagplotd.sim.engine import POLICIES, Outcome, simulate
from flagplotd.sim.swf import Workload

TOTAL = 8
rows = some.tuples(some.integers(0, 12), some.integers(1, 9), some.integers(0, 6), some.integers(1, TOTAL))
workloads = some.lists(rows, min_size=1, max_size=12)
"""Jobs as (submit, run, how much longer the request is, processors): crowded, with many equal times."""


def workload(drawn: list[tuple[int, int, int, int]], shift: int = 0) -> Workload:
    drawn = sorted(drawn, key=lambda row: row[0])
    return Workload(
        submit=[row[0] + shift for row in drawn], run=[row[1] for row in drawn],
        requested=[row[1] + row[2] for row in drawn], procs=[row[3] for row in drawn], total=TOTAL, dropped={},
    )  # fmt: skip


def oracle(jobs: Workload, policy: str, clairvoyant: bool) -> tuple[list[int], list[int]]:
    estimates = jobs.run if clairvoyant else jobs.requested
    made = [Job(*row) for row in zip(jobs.submit, jobs.run, estimates, jobs.procs, strict=True)]
    return Oracle(made, jobs.total, policy).replay()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=1_500, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(drawn=workloads, clairvoyant=some.booleans())
def test_equals_the_oracle(policy: str, drawn: list[tuple[int, int, int, int]], clairvoyant: bool) -> None:
    jobs = workload(drawn)
    made = simulate(jobs, policy, clairvoyant)
    assert (made.start, made.promised) == oracle(jobs, policy, clairvoyant)
    sound(made)


def sound(made: Outcome) -> None:
    """What holds whatever the policy is."""
    jobs = made.jobs
    in_use: Counter[int] = Counter()
    for start, submit, run, procs in zip(made.start, jobs.submit, jobs.run, jobs.procs, strict=True):
        assert start >= submit
        for second in range(start, start + run):
            in_use[second] += procs
    assert max(in_use.values()) <= jobs.total
    assert all(start <= promised for start, promised in zip(made.start, made.promised, strict=True))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=200, deadline=None, print_blob=True)
@given(drawn=some.lists(rows, min_size=1, max_size=60), shift=some.integers(1, 2_000_000_000))
def test_larger_ones_are_sound_and_shifting_time_changes_nothing(
    policy: str, drawn: list[tuple[int, int, int, int]], shift: int
) -> None:
    made, later = simulate(workload(drawn), policy), simulate(workload(drawn, shift), policy)
    sound(made)
    assert later.start == [start + shift for start in made.start]


def test_policies_differ() -> None:
    """A gap before a blocked job: FCFS leaves it, EASY fills it in order, SJBF with the shorter of two."""
    # Two run; then the head, which needs all; behind it one of 6 s and one of 4 s, of which only one ends in time.
    drawn = [(0, 10, 0, 6), (0, 3, 0, 2), (1, 5, 0, 8), (2, 6, 0, 2), (2, 4, 0, 2)]
    starts = {policy: simulate(workload(drawn), policy).start for policy in POLICIES}
    assert starts["fcfs"] == [0, 0, 10, 15, 15]
    assert starts["easy"] == starts["conservative"] == [0, 0, 10, 3, 15]
    assert starts["easy-sjbf"] == [0, 0, 10, 15, 3]
