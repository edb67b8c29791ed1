"""The standing snapshot: after whatever happened it has the bytes of one made of nothing, and its plans are the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from support.busy import Busy
from support.states import ROOT

from flagplotd.core import stimuli as st
from flagplotd.core.fairshare import Remembered
from flagplotd.sched.forecasts import Known
from flagplotd.sched.plan import Policy
from flagplotd.sched.preempt import planned, preemption
from flagplotd.sched.priority import inputs
from flagplotd.sched.queue import Queue
from flagplotd.sched.snapshot import Snapshot, take
from flagplotd.sched.standing import Standing

POLICY = Policy(reservations=3, weight_size=1_000, weight_tres_gpu=500)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, arrays byte by byte."""
    if isinstance(one, Queue):
        return all(same(getattr(one, name), getattr(other, name)) for name in ("rows", "jobs", "why", "names"))
    if isinstance(one, np.ndarray) and one.dtype != object:
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return list(one) == list(other) if isinstance(one, np.ndarray) else bool(one == other)


def differences(one: Snapshot, other: Snapshot) -> list[tuple[str, Any, Any]]:
    """The fields in which two snapshots differ."""
    pairs = ((field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Snapshot))
    return [(name, mine, its) for name, mine, its in pairs if not same(mine, its)]


def with_policy(world: Busy, snapshot: Snapshot) -> Snapshot:
    snapshot.inputs = inputs(world.state, POLICY, Remembered())
    snapshot.preemption = preemption(world.state, snapshot.now)
    return snapshot


@settings(max_examples=40, deadline=None, print_blob=True)
@given(some.integers(0, 2**32))
def test_it_is_what_one_made_of_nothing_is(seed: int) -> None:
    standing = Standing()
    world = Busy(seed, standing.note)
    known = Known()
    for step in range(25):
        for _ in range(world.chance.randrange(4)):
            world.happens()
        if world.chance.random() < 0.3:
            continue
        standing.sync(world.state, world.now)
        mine, made = standing.snapshot(), take(world.state, world.now)
        assert not (found := differences(mine, made)), (seed, step, found)
        known.table = standing.table
        reference = planned(with_policy(world, made), POLICY)
        plan = planned(with_policy(world, mine), POLICY, known)
        assert (plan.starts, plan.preempts, plan.given_up) == (
            reference.starts, reference.preempts, reference.given_up), (seed, step)  # fmt: skip
        whole = {one.number: one for one in reference.forecasts}
        assert all(whole[one.number] == one for one in plan.forecasts), (seed, step)
        world.do(plan)
        pending = world.state.pending
        refused = {start.number for start in plan.starts} - whole.keys()
        told = {number: one for number, one in world.state.forecasts.items() if number not in refused}
        assert told == {number: one for number, one in whole.items() if number in pending}, (seed, step)


def test_what_does_not_change_is_not_said_again() -> None:
    standing = Standing()
    world = Busy(1, standing.note)
    for _ in range(30):
        world.submits()
    known = Known()
    said = []
    for _ in range(3):
        standing.sync(world.state, world.now)
        known.table = standing.table
        plan = planned(with_policy(world, standing.snapshot()), POLICY, known)
        world.do(plan)
        said.append(len(plan.forecasts))
    assert said[0] >= len(world.state.pending) and said[2] == 0, said
    world.do(st.Tick())


def test_shapes_that_nobody_asks_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flagplotd.sched.standing.SLACK", 10)
    standing = Standing()
    world = Busy(2, standing.note)
    most = 0
    for round_ in range(5):
        for _ in range(60):
            world.submits()
        standing.sync(world.state, world.now)
        assert not differences(standing.snapshot(), take(world.state, world.now)), round_
        most = max(most, len(standing.asked.shapes))
        for number in sorted(world.state.pending)[:-5]:
            world.act("cancel", str(number), who=ROOT)
    standing.sync(world.state, world.now)
    assert most > 30 and len(standing.asked.shapes) <= 20
