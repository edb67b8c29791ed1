"""What nodes are called, and when it is, makes no difference to a plan; the same state gives the same plan."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, note
from hypothesis import strategies as some
from support.plan_follow import PLAIN
from support.random_clusters import NODES, describe, submissions, submit, worlds
from support.same_again import renamed, shifted
from support.states import World
from support.thorough import examples

from flagplot_wire.hostlist import natural_key
from flagplotd.core.state import State
from flagplotd.sched.plan import Plan, Policy, plan
from flagplotd.sched.promises import Promises
from flagplotd.sched.snapshot import take

OTHER_NAMES = dict(zip(NODES, ("a2", "a10", "gpu-7", "gpu-011", "gpu-11b", "z"), strict=True))
LATER = 123_456_789

policies = some.one_of(
    some.integers(0, 4).map(lambda count: Policy(reservations=count)),
    some.just(msgspec.structs.replace(PLAIN, backfill="conservative")),
)
jobs = some.tuples(some.lists(submissions(), max_size=6), some.lists(submissions(gangs=True), max_size=4))


def busy(world: World, policy: Policy, asked: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> State:
    """Some jobs run, more wait."""
    note(describe(world))
    for some_jobs in asked:
        for fields in some_jobs:
            submit(world, fields)
        if some_jobs is asked[0]:
            world.cycle(policy)
            world.now += 100
    return world.state


def told(made: Plan, later: int = 0) -> list[Any]:
    """A plan in full, with moments so much earlier; shards and places of promises by job."""
    promises = made.promises or Promises()
    found = [(number, promises.of(number)) for number in promises.places]
    forecasts = [
        msgspec.structs.replace(one, start=one.start - later if one.start is not None else None)
        for one in made.forecasts
    ]
    return [made.starts, forecasts, [(number, one[0] - later, one[1]) for number, one in found if one is not None]]


@examples(150)
@given(worlds(gangs=True, reserved=True), policies, jobs)
def test_names_of_nodes_make_no_difference(world: World, policy: Policy, asked: Any) -> None:
    assert sorted(OTHER_NAMES.values(), key=natural_key) == list(OTHER_NAMES.values())
    state = busy(world, policy, asked)
    made = told(plan(take(renamed(state, OTHER_NAMES), world.now), policy))
    assert made == renamed(told(plan(take(state, world.now), policy)), OTHER_NAMES)


@examples(150)
@given(worlds(reserved=True, shared=True), policies, jobs)
def test_the_time_makes_no_difference(world: World, policy: Policy, asked: Any) -> None:
    state = busy(world, policy, asked)
    later = plan(take(shifted(state, LATER), world.now + LATER), policy)
    assert told(later, LATER) == told(plan(take(state, world.now), policy))


@examples(100)
@given(worlds(gangs=True, reserved=True, shared=True), policies, jobs)
def test_the_same_state_gives_the_same_plan(world: World, policy: Policy, asked: Any) -> None:
    state = busy(world, policy, asked)
    snapshot = take(state, world.now)
    assert plan(snapshot, policy) == plan(snapshot, policy) == plan(take(state, world.now), policy)
