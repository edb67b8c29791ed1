"""Promised starts from cycle to cycle: what may move them, and how far (`flagplotd.sched.promises`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.states import World

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import ArraySpec, GpuCount, Request
from flagplot_wire.policy import Account, Association, Limits, Reservation
from flagplot_wire.requests import Update
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.state import Who
from flagplotd.sched.plan import Policy
from flagplotd.sched.preempt import planned
from flagplotd.sched.promises import Memory
from flagplotd.sched.snapshot import take

PLAIN = {"weight_age": 0, "weight_fairshare": 0, "weight_partition": 0, "weight_qos": 0}
ROOT = Who("root", 0, roles=("user", "operator", "admin"))


class Remembering(World):
    """A cluster whose cycles remember what they promised."""

    memory = Memory()
    policy = Policy(backfill="conservative", **PLAIN)  # type: ignore[arg-type]

    def turn(self) -> dict[int, int]:
        """One cycle; when each job starts or started, in seconds from the beginning."""
        snapshot = take(self.state, self.now)
        snapshot.memory = self.memory
        self.do(planned(snapshot, self.policy))
        found = {}
        for number, job in self.state.jobs.items():
            known = self.state.forecasts.get(number)
            start = known.start if known is not None else job.status.start_time
            if start:
                found[int(number)] = start - 1_000_000
        return found

    def ask(self, minutes: int, cpus: int = 8, node: str = "", **more: Any) -> int:
        request = Request(
            cpus_per_task=cpus, mem_per_node_mib=10, time_limit_s=minutes * 60, nodelist=(node,) if node else ()
        )
        return self.submit(request, **more)

    def prefer(self, number: int, priority: int) -> None:
        job = self.state.jobs[JobNumber(number)]
        status = msgspec.structs.replace(job.status, priority=priority)
        apply(self.state, ev.JobChanged(job.number, status, "updated"))


@pytest.fixture
def world() -> Remembering:
    made = Remembering(nodes=1)
    made.memory = Memory()
    return made


def test_an_early_end_brings_all_forward_in_order(world: Remembering) -> None:
    first, second, third = world.ask(60), world.ask(30), world.ask(10)
    assert world.turn() == {first: 0, second: 3_600, third: 5_400}
    world.now += 600
    world.end(first)
    assert world.turn() == {first: 0, second: 600, third: 2_400}


def test_a_hole_is_for_the_first_who_fits_and_the_rest_keep_theirs(world: Remembering) -> None:
    """Half a node gets free: the wide second job keeps its start, the third takes the hole, the fourth keeps its own."""
    wide, half = world.ask(60, cpus=4), world.ask(60, cpus=4)
    second, third, fourth = world.ask(30), world.ask(30, cpus=4), world.ask(90, cpus=4)
    assert world.turn() == {wide: 0, half: 0, second: 3_600, third: 5_400, fourth: 5_400}
    world.now += 60
    world.end(half)
    assert world.turn() == {wide: 0, half: 0, second: 3_600, third: 60, fourth: 5_400}


def test_who_gets_in_front_moves_nobody_who_was_promised(world: Remembering) -> None:
    running, second = world.ask(60), world.ask(60)
    world.turn()
    ahead = world.ask(30, nice=-5, who=ROOT)
    assert world.turn() == {running: 0, second: 3_600, ahead: 7_200}


def test_a_priority_that_an_operator_set_goes_before_promises_behind_it(world: Remembering) -> None:
    running, second, third = world.ask(60), world.ask(60), world.ask(60)
    assert world.turn()[third] == 7_200
    urgent = world.ask(30)
    world.prefer(second, 900)
    world.prefer(urgent, 500)
    assert world.turn() == {running: 0, second: 3_600, urgent: 7_200, third: 9_000}
    world.end(running)
    assert world.turn() == {running: 0, second: 0, urgent: 3_600, third: 5_400}


def test_an_urgent_job_that_can_start_does(world: Remembering) -> None:
    running, second = world.ask(60, cpus=5), world.ask(60)
    assert world.turn()[second] == 3_600
    urgent = world.ask(120, cpus=3)
    world.prefer(urgent, 500)
    assert world.turn() == {running: 0, urgent: 0, second: 7_200}


def test_a_job_that_stays_too_long_moves_all_behind_it_by_so_much(world: Remembering) -> None:
    """Also when the last in order was promised to start first."""
    running, second, third, fourth = world.ask(60), world.ask(60), world.ask(60), world.ask(60)
    assert world.turn() == {running: 0, second: 3_600, third: 7_200, fourth: 10_800}
    world.now += 3_600 + 4
    assert world.turn() == {running: 0, second: 3_605, third: 7_205, fourth: 10_805}
    world.now += 1
    world.end(running)
    assert world.turn() == {running: 0, second: 3_605, third: 7_205, fourth: 10_805}


def test_a_node_that_is_lost_takes_its_promises_with_it() -> None:
    world = Remembering(nodes=2)
    world.memory = Memory()
    running, other = world.ask(60, node="n1"), world.ask(90, node="n2")
    second, third = world.ask(60), world.ask(60)
    assert world.turn() == {running: 0, other: 0, second: 3_600, third: 5_400}
    node = world.state.nodes["n1"]
    apply(world.state, ev.NodeChanged(msgspec.structs.replace(node, responding=False), "down"))
    assert world.turn() == {running: 0, other: 0, second: 5_400, third: 9_000}
    apply(world.state, ev.NodeChanged(node, "up"))
    assert world.turn() == {running: 0, other: 0, second: 3_600, third: 5_400}


def test_a_changed_job_is_planned_anew_and_who_asks_for_less_is_not_held_to_more(world: Remembering) -> None:
    running, second, third = world.ask(60), world.ask(60), world.ask(30)
    assert world.turn() == {running: 0, second: 3_600, third: 7_200}
    world.do(st.UpdateJobs(ROOT, Update((str(second),), time_limit="120")))
    assert world.turn() == {running: 0, second: 5_400, third: 3_600}


def test_who_is_over_a_limit_is_promised_nothing(world: Remembering) -> None:
    apply(world.state, ev.PolicyChanged(Account("a")))
    apply(world.state, ev.PolicyChanged(Association("ada", "a", default=True, limits=Limits(jobs=1))))
    bob = Who("bob", 1_001)
    apply(world.state, ev.PolicyChanged(Association("bob", "a", default=True)))
    running = world.ask(60, cpus=5, who=bob)
    promised = world.ask(60)
    assert world.turn() == {running: 0, promised: 3_600}
    own = world.ask(30, cpus=3)
    behind = world.ask(60, who=bob)
    assert world.turn() == {running: 0, promised: 3_600, own: 0, behind: 7_200}
    assert world.turn() == {running: 0, own: 0, behind: 3_600}


def test_a_new_memory_plans_anew(world: Remembering) -> None:
    running, second = world.ask(60), world.ask(60)
    world.turn()
    ahead = world.ask(30, nice=-5, who=ROOT)
    assert world.turn()[second] == 3_600
    world.memory = Memory()
    assert world.turn() == {running: 0, ahead: 3_600, second: 5_400}


def test_easy_backfill_lets_who_gets_in_front_go_first(world: Remembering) -> None:
    world.policy = Policy(reservations=2, **PLAIN)  # type: ignore[arg-type]
    running, second = world.ask(60), world.ask(60)
    world.turn()
    ahead = world.ask(30, nice=-5, who=ROOT)
    assert world.turn() == {running: 0, ahead: 3_600, second: 5_400}


def test_an_arrays_promise_is_that_of_its_next_element(world: Remembering) -> None:
    """So the last job, which was promised a start, gets it before the third element, which was not."""
    array = world.ask(60, array=ArraySpec("0-2"))
    last = world.ask(60)
    found = world.turn()
    assert (found[array], found[last]) == (3_600, 7_200)
    (element,) = sorted(world.state.active)
    world.now += 60
    world.end(element)
    found = world.turn()
    assert (found[array], found[last]) == (7_260, 3_660)


def test_a_gpu_that_is_reserved_twice_is_in_the_way_of_nobody_beside_it() -> None:
    """What the array is promised reaches into the two reservations, on the other GPUs; it stays there behind the wide job."""
    world = Remembering(nodes=1, gpus=3)
    world.memory = Memory()
    for name in ("one", "other"):
        reservation = Reservation(name, world.now + 2_460, world.now + 3_900, ("n1",), gpus=1, maintenance=True)
        apply(world.state, ev.PolicyChanged(reservation))
    two = Request(mem_per_node_mib=10, gpus_per_node=(GpuCount(2),), time_limit_s=600)
    array = world.submit(two, array=ArraySpec("0-2"))
    world.turn()
    wide = world.submit(msgspec.structs.replace(two, gpus_per_node=(GpuCount(3),), time_limit_s=1_200))
    assert world.turn()[wide] == 1_200
    world.now += 450
    world.end(min(world.state.active))
    found = world.turn()
    assert (found[array], found[wide]) == (2_250, 1_050)
    world.now += 150
    found = world.turn()
    assert (found[array], found[wide]) == (2_250, 1_050)
