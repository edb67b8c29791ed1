"""The compiled plan against a slow, plain planner, on random heterogeneous clusters (`support.plan_oracle`).

Every start and every promised start is checked, and that there is none where the plan makes none.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, note
from hypothesis import strategies as some
from support.plan_follow import PLAIN, planned
from support.random_clusters import describe, end, mishap, submissions, submit, worlds
from support.states import World
from support.thorough import examples

from flagplotd.core import stimuli as st
from flagplotd.core.recheck import why_not
from flagplotd.core.sharing import Sharing
from flagplotd.sched.plan import Policy

Round = tuple[list[dict[str, Any]], int, list[int], int]
"""Submissions, seconds that pass after the cycle, which of the running jobs end then, and whether anything breaks."""


def rounds(gangs: bool = False) -> some.SearchStrategy[list[Round]]:
    jobs = some.lists(submissions(gangs), max_size=7)
    after = some.sampled_from((0, 1, 60, 600, 3_000))
    ends = some.lists(some.integers(0, 7), max_size=3)
    return some.lists(some.tuples(jobs, after, ends, some.integers(0, 12)), min_size=1, max_size=3)


policies = some.one_of(
    some.integers(0, 3).map(lambda count: msgspec.structs.replace(PLAIN, reservations=count)),
    some.just(msgspec.structs.replace(PLAIN, backfill="conservative")),
)


def run(world: World, policy: Policy, played: list[Round]) -> None:
    """Cycle by cycle; the core accepts every start."""
    note(describe(world))
    for jobs, after, over, kind in played:
        for fields in jobs:
            submit(world, fields)
        made = planned(world.state, world.now, policy)
        sharing = Sharing(world.state, world.now)
        for start in made.starts:
            assert why_not(world.state, start, world.now, sharing) == ""
            job = world.state.jobs[start.number]
            world.do(st.Planned((start,)))
            sharing.take(job)
        world.now += after
        running = sorted(world.state.active)
        due = [number for number in running if world.state.jobs[number].limit_ends <= world.now]
        for number in sorted({*due[1:], *(running[place] for place in over if place < len(running))}):
            end(world, number)
        mishap(world, kind)
        world.do(st.Tick())


@examples(250)
@given(worlds(), policies, rounds())
def test_nodes_of_all_kinds(world: World, policy: Policy, played: list[Round]) -> None:
    run(world, policy, played)


@examples(250)
@given(worlds(gangs=True), policies, rounds(gangs=True))
def test_gangs(world: World, policy: Policy, played: list[Round]) -> None:
    run(world, policy, played)


@examples(250)
@given(worlds(reserved=True), policies, rounds())
def test_reservations(world: World, policy: Policy, played: list[Round]) -> None:
    run(world, policy, played)


@examples(250)
@given(worlds(shared=True), policies, rounds())
def test_limits(world: World, policy: Policy, played: list[Round]) -> None:
    run(world, policy, played)
