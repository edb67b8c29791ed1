"""When a scheduling cycle may be left out."""

from __future__ import annotations

import pytest
from support.states import World

from flagplot_wire.job import Reason, Why
from flagplot_wire.policy import Account, Limits
from flagplotd.core.apply import put_record
from flagplotd.core.state import Settings
from flagplotd.sched.eligible import STILL, still
from flagplotd.sched.snapshot import take


def of(*why: Why) -> list[Reason]:
    return list(map(Reason, why))


def test_jobs_that_only_an_event_frees_need_no_cycle() -> None:
    assert still([]) and still(of(Why.HELD_ADMIN, Why.DEPENDENCY))
    world = World()
    assert take(world.state, world.now).still
    held = world.submit(hold="user")
    world.submit(hold="user", dependency=None)
    assert take(world.state, world.now).still
    world.act("release", str(held))
    assert not take(world.state, world.now).still


def test_a_job_that_waits_for_a_time_or_at_a_limit_needs_cycles() -> None:
    world = World()
    world.submit(begin=world.now + 60)
    assert not take(world.state, world.now).still
    world = World(settings=Settings(refuse_impossible=False))
    put_record(world.state, Account("lab", limits=Limits(jobs=0)))
    world.submit(account="lab", hold="user")
    assert not take(world.state, world.now).still


@pytest.mark.parametrize("why", [why for why in Why if why not in STILL])
def test_what_time_alone_frees_needs_cycles(why: Why) -> None:
    assert not still(of(why)) and not still(of(Why.HELD_USER, why))
