"""What random clusters brought to light (`tests/property/test_plan_oracle.py`), one plain case for each."""

from __future__ import annotations

from typing import Any

import msgspec
from support.states import World, inventory

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, GpuCount, LicenseCount, Request
from flagplot_wire.policy import Reservation
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.recheck import why_not
from flagplotd.core.state import Settings, Switch
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take


def ask(cpus: int = 8, minutes: int = 60, **more: Any) -> Request:
    more.setdefault("mem_per_node_mib", 100)
    return Request(cpus_per_task=cpus, time_limit_s=minutes * 60, **more)


def names(world: World, number: int) -> list[str]:
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    return allocation.names if allocation is not None else []


def forecast(world: World, number: int) -> Forecast:
    made = plan(take(world.state, world.now), Policy())
    return next(one for one in made.forecasts if one.number == number)


def reserve(world: World, **fields: Any) -> None:
    apply(world.state, ev.PolicyChanged(Reservation("course", **fields)))


def test_an_exclusive_job_is_not_planned_on_a_node_that_is_too_small() -> None:
    world = World(nodes=0)
    world.do(st.AgentJoined("n1", inventory(cpus=2), "0"))
    world.do(st.AgentJoined("n2", inventory(cpus=8), "0"))
    world.submit(ask(cpus=4, nodelist=("n2",)))
    world.cycle()
    number = world.submit(ask(cpus=4, exclusive=True))
    told = forecast(world, number)
    assert (told.start, told.nodes) == (world.now + 3_600, ("n2",))


def test_a_most_of_switches_is_found_below_another_switch_than_the_fullest() -> None:
    """Below x three leaves are needed for four nodes, below y two."""
    tree = (
        Switch("x", switches=("a", "b", "c")), Switch("a", ("n1", "n2")), Switch("b", ("n3",)), Switch("c", ("n4",)),
        Switch("y", switches=("d", "e", "f")), Switch("d", ("n5", "n6")), Switch("e", ("n7", "n8")), Switch("f", ("n9",)),
    )  # fmt: skip
    world = World(nodes=9, settings=Settings(switches=tree))
    number = world.submit(ask(nodes_min=4, nodes_max=4, switches=2))
    world.cycle()
    assert names(world, number) == ["n5", "n6", "n7", "n8"]


def test_a_most_of_switches_goes_before_a_block() -> None:
    tree = (
        Switch("top", switches=("a", "b")), Switch("a", ("n1", "n2")), Switch("b", ("n3", "n4")),
        Switch("block", ("n1", "n3"), block=True), Switch("more", ("n2", "n4"), block=True),
    )  # fmt: skip
    world = World(nodes=4, settings=Settings(switches=tree))
    number = world.submit(ask(nodes_min=2, nodes_max=2, switches=1))
    world.cycle()
    assert names(world, number) in (["n1", "n2"], ["n3", "n4"])


def test_what_a_reservation_that_is_over_held_is_free_at_once() -> None:
    world = World(nodes=1)
    reserve(world, start=world.now - 600, end=world.now, nodes=("n1",), cores=1)
    number = world.submit(ask())
    assert world.cycle() == [number]


def test_who_leaves_before_a_reservation_begins_does_not_stop_a_start_beside_it() -> None:
    """Four of eight CPUs are reserved in ten minutes; four are held until then, by a job that is still there."""
    world = World(nodes=1)
    world.submit(ask(cpus=4, minutes=5))
    world.cycle()
    reserve(world, start=world.now + 600, end=world.now + 1_200, nodes=("n1",), cores=4)
    world.submit(ask(cpus=4, minutes=60))
    (start,) = plan(take(world.state, world.now), Policy()).starts
    assert why_not(world.state, start, world.now) == ""


def test_the_gpus_of_a_reservation_do_not_change_with_who_leaves_before_it() -> None:
    """GPU 1 is reserved in an hour; that somebody has it for ten minutes does not move the reservation to GPU 0."""
    world = World(nodes=1)
    reserve(world, start=world.now + 3_600, end=world.now + 7_200, nodes=("n1",), gpus=1)
    short = world.submit(ask(cpus=1, minutes=10, gpus_per_node=(GpuCount(2),)))
    world.cycle()
    number = world.submit(ask(cpus=1, minutes=120, gpus_per_node=(GpuCount(1),)))
    assert forecast(world, number).start == world.now + 600
    world.end(short)
    world.cycle()
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None and [gpu.index for gpu in allocation.nodes[0].gpus] == [0]


def test_many_jobs_with_licenses_are_all_planned() -> None:
    world = World(nodes=1, settings=Settings(licenses=(("a", 1), ("b", 1))))
    request = ask(minutes=1, licenses=(LicenseCount("a"), LicenseCount("b")))
    numbers = [world.submit(request) for _ in range(60)]
    made = plan(take(world.state, world.now), Policy(backfill="conservative"))
    starts = {forecast.number: forecast.start for forecast in made.forecasts}
    assert starts == {number: world.now + 60 * place for place, number in enumerate(numbers) if place}


def test_a_gpu_that_fell_off_the_bus_is_not_free_when_its_job_ends() -> None:
    world = World(nodes=1)
    for minutes in (10, 60):
        world.submit(ask(cpus=1, minutes=minutes, gpus_per_node=(GpuCount(1),)))
    world.cycle()
    node = world.state.nodes["n1"]
    assert node.inventory is not None
    broken = (msgspec.structs.replace(node.inventory.gpus[0], fault="fell off the bus"), node.inventory.gpus[1])
    apply(world.state, ev.NodeChanged(
        msgspec.structs.replace(node, inventory=msgspec.structs.replace(node.inventory, gpus=broken)), "hardware"
    ))  # fmt: skip
    number = world.submit(ask(cpus=1, minutes=10, gpus_per_node=(GpuCount(1),)))
    assert forecast(world, number).start == world.now + 3_600


def test_nothing_is_promised_beyond_the_last_time_of_a_reservation_that_is_looked_at() -> None:
    """Half of every hour the node is closed: a job of an hour never fits, although only so many times are planned around."""
    world = World(nodes=1)
    reserve(world, start=world.now + 60, end=world.now + 1_860, nodes=("n1",), repeat_s=3_600)
    number = world.submit(ask(minutes=60))
    world.cycle()
    assert forecast(world, number).start is None
    assert forecast(world, world.submit(ask(minutes=30))).start == world.now + 1_860


def test_a_job_of_a_flexible_reservation_is_not_planned_after_its_end() -> None:
    """When the reservation is over the job can start no more."""
    world = World(nodes=1)
    world.submit(ask(minutes=60))
    world.cycle()
    reserve(world, start=world.now + 60, end=world.now + 3_600, nodes=("n1",), users=("ada",), flex=True)
    number = world.submit(ask(minutes=60), reservation="course")
    assert forecast(world, number).start is None
    reserve(world, start=world.now + 60, end=world.now + 3_601, nodes=("n1",), users=("ada",), flex=True)
    assert forecast(world, number).start == world.now + 3_600
