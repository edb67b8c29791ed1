"""GPUs with their CPUs beside them (`--gres-flags=enforce-binding`), now and planned: every set of GPUs, compared."""

from __future__ import annotations

from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.states import World

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import expand_indices
from flagplot_wire.job import GpuCount, Request
from flagplot_wire.node import Gpu, Inventory, NumaNode
from flagplotd.core import stimuli as st
from flagplotd.sched.explain import never_fits

DOMAINS = ((0, 4), (4, 8), (8, 12))
"""The CPUs of each NUMA domain, from and below."""
Part = tuple[set[int], set[int]]
"""CPUs and GPUs that are free."""

others = some.lists(some.tuples(some.integers(1, 5), some.integers(0, 2), some.integers(1, 3)), max_size=5)
"""CPUs, GPUs and hours of the jobs that run before."""


def world_of(numa: list[int]) -> World:
    """One node with a GPU on each of these NUMA domains."""
    world = World(nodes=0)
    gpus = tuple(Gpu(index, f"G{index}", "a100", numa=domain) for index, domain in enumerate(numa))
    nodes = tuple(NumaNode(index, f"{low}-{high - 1}", 1_000) for index, (low, high) in enumerate(DOMAINS))
    world.do(st.AgentJoined("n1", Inventory("b", 3, 12, 1, "0-11", 3_000, nodes, gpus), "0"))
    return world


def request(cpus: int, gpus: int, hours: int, near: bool = False) -> Request:
    counts = (GpuCount(gpus),) if gpus else ()
    return Request(
        cpus_per_task=cpus, mem_per_node_mib=1, gpus_per_node=counts, time_limit_s=hours * 3_600, near_gpus=near
    )


def beside(free: Part, numa: list[int], chosen: tuple[int, ...]) -> int:
    """Free CPUs of the domains of these GPUs."""
    return sum(any(low <= cpu < high for low, high in (DOMAINS[numa[gpu]] for gpu in chosen)) for cpu in free[0])


def held(world: World, number: int) -> Part:
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None
    (part,) = allocation.nodes
    return set(expand_indices(part.cpu_ids)), {gpu.index for gpu in part.gpus}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(some.lists(some.integers(0, 2), min_size=1, max_size=5), others, some.integers(1, 9), some.integers(1, 3))
def test_it_starts_at_the_first_moment_with_cpus_beside_its_gpus(
    numa: list[int], before: list[tuple[int, int, int]], cpus: int, gpus: int
) -> None:
    world = world_of(numa)
    running: list[tuple[int, Part]] = []
    for some_cpus, some_gpus, hours in before:
        number = world.submit(request(some_cpus, some_gpus, hours))
        world.cycle()
        if world.word(number) == "RUNNING":
            running.append((hours, held(world, number)))
        else:
            world.act("cancel", str(number))

    def free_at(hours: int) -> Part:
        used = [part for until, part in running if until > hours]
        return set(range(12)).difference(*(cpu for cpu, _ in used)), set(range(len(numa))).difference(
            *(gpu for _, gpu in used)
        )

    def possible(free: Part) -> bool:
        return any(beside(free, numa, chosen) >= cpus for chosen in combinations(sorted(free[1]), gpus))

    starts = next((hours for hours in range(4) if possible(free_at(hours))), None)
    number = world.submit(request(cpus, gpus, 1, near=True))
    world.cycle()
    if starts == 0:
        mine, cards = held(world, number)
        places = [DOMAINS[numa[gpu]] for gpu in cards]
        assert len(cards) == gpus and len(mine) == cpus
        assert all(any(low <= cpu < high for low, high in places) for cpu in mine)
    else:
        start = world.state.forecasts[JobNumber(number)].start
        assert start == (None if starts is None else world.now + starts * 3_600)
    never = never_fits(world.state, world.state.jobs[JobNumber(number)].spec)
    assert bool(never) is not possible((set(range(12)), set(range(len(numa)))))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(some.lists(some.integers(0, 2), min_size=1, max_size=4), others, some.integers(1, 4),
       some.lists(some.tuples(some.integers(1, 4), some.integers(0, 1), some.integers(1, 4)), max_size=4))  # fmt: skip
def test_none_behind_takes_the_cpus_beside_the_gpus_of_a_planned_start(
    numa: list[int], before: list[tuple[int, int, int]], cpus: int, behind: list[tuple[int, int, int]]
) -> None:
    world = world_of(numa)
    for one in before:
        world.submit(request(*one))
    world.cycle()
    head = world.submit(request(cpus, 1, 1, near=True))
    world.cycle()
    if world.word(head) == "RUNNING" or any(number < head for number in world.state.pending):
        return
    promised = world.state.forecasts[JobNumber(head)].start
    for one in behind:
        world.submit(request(*one))
    world.cycle()
    while promised is not None and world.word(head) == "PENDING":
        ends = {number: world.state.jobs[number].limit_ends for number in world.state.active}
        assert ends, "it was promised a start"
        world.now = min(ends.values())
        for number, end in ends.items():
            if end <= world.now:
                world.end(number)
        world.cycle()
        assert world.word(head) == "RUNNING" or world.now < promised
