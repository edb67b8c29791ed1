"""What change would start a job now, and which reservations are named to it."""

from __future__ import annotations

from support.random_clusters import reserve
from support.states import World

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, GpuCount, Request
from flagplot_wire.policy import Reservation
from flagplotd.sched.explain import explain
from flagplotd.sched.plan import Policy

HOUR = 3_600


def gpus(count: int, **fields: object) -> Request:
    return Request(mem_per_node_mib=100, gpus=(GpuCount(count),), time_limit_s=HOUR, **fields)  # type: ignore[arg-type]


def why(world: World, number: int) -> Forecast:
    return explain(world.state, JobNumber(number), Policy(), world.now)


def booked(world: World, name: str, node: str, start: int) -> None:
    reserve(world, Reservation(name, start, start + 10 * HOUR, (node,), users=("root",)))


def test_of_each_kind_of_change_the_mildest_is_told() -> None:
    world = World(nodes=1, gpus=8)
    world.submit(gpus(3))
    assert world.cycle()
    blocked = world.submit(gpus(8))
    assert not world.cycle()
    assert why(world, blocked).hints == ("starts now with 5 GPUs instead of 8",)


def test_a_time_limit_that_ends_when_a_reservation_begins() -> None:
    world = World(nodes=1, gpus=2)
    booked(world, "course", "n1", world.now + 43 * 60 + 7)
    blocked = world.submit(gpus(1))
    assert not world.cycle()
    told = why(world, blocked)
    assert [str(reason.why) for reason in told.reasons] == ["ReservedForOthers"] and "course" in told.reasons[0].text
    assert told.hints == ("starts now with a time limit of 43:00",)


def test_a_time_limit_that_ends_when_one_in_front_is_planned() -> None:
    world = World(nodes=1, gpus=2)
    world.submit(gpus(1, cpus_per_task=1))
    assert world.cycle()
    world.now += 25 * 60
    world.submit(gpus(2))
    small = world.submit(gpus(1))
    assert not world.cycle()
    assert why(world, small).hints == ("starts now with a time limit of 35:00",)


def test_only_reservations_of_nodes_that_it_may_use_are_named() -> None:
    world = World(nodes=2, gpus=2)
    booked(world, "mine", "n1", world.now + 60)
    booked(world, "elsewhere", "n2", world.now + 60)
    blocked = world.submit(gpus(1, nodelist=("n1",)))
    assert not world.cycle()
    (reason,) = why(world, blocked).reasons
    assert reason.text == "it would run into a reservation: mine"
