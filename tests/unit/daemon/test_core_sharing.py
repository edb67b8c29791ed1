"""Limits on running jobs, licenses and reservations hold at every start, and say so while a job waits."""

from __future__ import annotations

import pytest
from support.states import ADA, ROOT, World

from flagplot_wire.events import PolicyChanged
from flagplot_wire.job import GpuCount, LicenseCount, Request, Why
from flagplot_wire.policy import Account, Association, Limits, Reservation
from flagplotd.core.apply import apply
from flagplotd.core.state import Settings
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take

GPU = Request(gpus_per_node=(GpuCount(1),), time_limit_s=3_600)


def started(world: World) -> list[int]:
    """The jobs that a cycle really starts."""
    before = set(world.state.active)
    world.cycle()
    return sorted(world.state.active - before)


def whys(world: World, number: int) -> list[Why]:
    made = plan(take(world.state, world.now), Policy())
    return [reason.why for forecast in made.forecasts if forecast.number == number for reason in forecast.reasons]


def limited(limits: Limits, nodes: int = 2, **settings: object) -> World:
    world = World(nodes=nodes, settings=Settings(**settings))  # type: ignore[arg-type]
    for record in (Account("lab", limits=limits), Association("ada", "lab", default=True)):
        apply(world.state, PolicyChanged(record))
    return world


def test_a_group_limit_holds_within_one_cycle_and_is_the_reason_of_those_behind() -> None:
    world = limited(Limits(gpus=2))
    jobs = [world.submit(GPU) for _ in range(4)]
    assert started(world) == jobs[:2], "four GPUs are free, two may be used"
    assert Why.ASSOC_GPUS in whys(world, jobs[2])
    world.end(jobs[0])
    assert started(world) == [jobs[2]]


def test_gpu_minutes_count_what_running_jobs_may_still_use() -> None:
    world = limited(Limits(gpu_minutes=100))
    first, second = world.submit(GPU), world.submit(GPU)
    assert started(world) == [first]
    assert whys(world, second) == [Why.ASSOC_GPU_MINUTES]


def test_limits_are_off_when_configured_so() -> None:
    world = limited(Limits(jobs=1), enforce="off")
    jobs = [world.submit(account="lab") for _ in range(2)]
    assert started(world) == jobs


def test_licenses_are_never_given_twice() -> None:
    world = World(nodes=2, settings=Settings(licenses=(("matlab", 3),)))
    wants = Request(licenses=(LicenseCount("matlab", 2),), time_limit_s=60)
    first, second = world.submit(wants), world.submit(wants)
    assert started(world) == [first]
    assert whys(world, second) == [Why.LICENSES]
    world.end(first)
    assert started(world) == [second]


def test_no_job_runs_into_a_reservation_and_those_it_is_for_do() -> None:
    world = World(nodes=2)
    start = world.now + 600
    held = Reservation("course", start, start + 7_200, nodes=("n1", "n2"), users=("ada",))
    apply(world.state, PolicyChanged(held))
    short = world.submit(Request(time_limit_s=600))
    long = world.submit(Request(time_limit_s=601))
    mine = world.submit(Request(time_limit_s=3_600), reservation="course")
    assert started(world) == [short], "it ends just in time"
    assert Why.RESERVATION in whys(world, mine)
    waits = next(one for one in plan(take(world.state, world.now), Policy()).forecasts if one.number == long)
    assert (waits.reasons[0].why, waits.never) == (Why.RESERVED, ""), "it waits, it is not impossible"
    world.end(short)
    world.now = start
    assert started(world) == [mine]
    assert long in world.state.pending
    late = world.submit(Request(time_limit_s=7_201), reservation="course")
    assert whys(world, late) == [Why.RESERVATION]


def test_a_reservation_of_other_nodes_changes_nothing() -> None:
    world = World(nodes=2)
    apply(world.state, PolicyChanged(Reservation("m", world.now, world.now + 60, nodes=("n1",), maintenance=True)))
    jobs = [world.submit(Request(cpus_per_task=8, time_limit_s=30)) for _ in range(2)]
    assert started(world) == jobs[:1]
    job = world.state.jobs[jobs[0]]  # type: ignore[index]
    assert job.status.allocation is not None and job.status.allocation.names == ["n2"]


@pytest.mark.parametrize(
    ("nodes", "constraint", "switches", "words"),
    [
        (2, "a*3", 0, "counts 3 nodes, more than the 2"),
        (3, "a*2&b*1&c*1", 0, "counts 4 nodes of more than two kinds, more than the 3"),
        (9, "[" + "&".join(f"r{number}*1" for number in range(9)) + "]", 0, "counts 9 kinds of nodes, at most 8"),
        (2, "[" + "|".join(f"r{number}" for number in range(65)) + "]", 0, "65 alternatives, at most 64"),
        (2, "a*1", 2, "goes with --switches=1 alone"),
    ],
)
def test_constraints_that_no_plan_can_hold_are_refused(nodes: int, constraint: str, switches: int, words: str) -> None:
    request = Request(nodes_min=nodes, nodes_max=nodes, constraint=constraint, switches=switches)
    assert words in World(nodes=1).try_submit(request).message  # type: ignore[union-attr]


def test_a_range_of_nodes_begins_with_what_is_counted() -> None:
    world = World(nodes=1)
    number = world.submit(Request(nodes_min=1, nodes_max=5, constraint="[a*1&b*2]"))
    request = world.state.jobs[number].spec.request  # type: ignore[index]
    assert (request.nodes_min, request.nodes_max) == (3, 5)


def test_negations_work() -> None:
    world = World(nodes=1)
    assert world.submit(Request(constraint="!slow"), who=ROOT) and world.submit(Request(), who=ADA)
    assert len(started(world)) == 2


def test_cpus_per_gpu_count() -> None:
    world = World(nodes=1)
    number = world.submit(Request(gpus_per_node=(GpuCount(2),), cpus_per_gpu=3))
    world.cycle()
    allocation = world.state.jobs[number].status.allocation  # type: ignore[index]
    assert allocation is not None and allocation.cpus == 6
    assert "whole GPUs" in world.try_submit(Request(cpus_per_gpu=2)).message  # type: ignore[union-attr]
