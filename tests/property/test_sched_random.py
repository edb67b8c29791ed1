"""Random clusters: the compiled plan against a plain Python oracle, and what must hold whatever happens."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.states import World

from flagplot_wire.job import GpuCount, Request
from flagplotd.core.recheck import why_not
from flagplotd.core.state import State
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take

requests = some.builds(
    lambda cpus, mem, gpu, share, nodes, limit: Request(
        nodes_min=nodes, nodes_max=nodes, cpus_per_task=cpus, mem_per_node_mib=mem, time_limit_s=limit * 60,
        gpus_per_node=(GpuCount(gpu),) if gpu else (), shards=0 if gpu else share,
    ),
    some.integers(1, 8), some.integers(0, 4_000), some.integers(0, 2), some.integers(0, 8), some.integers(1, 3),
    some.integers(1, 90),
)  # fmt: skip


def fits_now(state: State, request: Request) -> bool:
    """The oracle: enough nodes with what one part needs, looked at one by one."""
    found = 0
    for name, node in state.nodes.items():
        assert node.inventory is not None
        use = state.use[name]
        cpus = 8 - use.cpus.bit_count()
        memory = node.inventory.memory_mib - use.memory_mib
        need = request.mem_per_node_mib or node.inventory.memory_mib
        free = [8 - (use.gpu_shards[index] if index < len(use.gpu_shards) else 0) for index in range(2)]
        whole = sum(count for gpu in request.gpus_per_node for count in (gpu.count,))
        if cpus < request.cpus_per_task or memory < need or sum(left == 8 for left in free) < whole:
            continue
        if request.shards and max(free) < request.shards:
            continue
        found += 1
    return found >= request.nodes_min


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(some.lists(some.lists(requests, max_size=6), min_size=1, max_size=4), some.integers(1, 3), some.integers(0, 3))
def test_random_rounds(rounds: list[list[Request]], nodes: int, reservations: int) -> None:
    world = World(nodes=nodes)
    policy = Policy(reservations=reservations)
    for asked in rounds:
        for request in asked:
            world.submit(request)
        made = plan(take(world.state, world.now), policy)
        for start in made.starts:
            assert why_not(world.state, start, world.now) == ""
            job = world.state.jobs[start.number]
            assert len(start.allocation.nodes) == job.spec.request.nodes_min
            assert len(set(start.allocation.names)) == len(start.allocation.nodes)
            world.cycle_one(start)
        left = sorted(world.state.pending)
        assert {forecast.number for forecast in made.forecasts} >= set(left)
        assert all(forecast.reasons for forecast in made.forecasts)
        if reservations == 0:
            assert not any(fits_now(world.state, world.state.jobs[number].spec.request) for number in left)
        elif left:
            assert not fits_now(world.state, world.state.jobs[left[0]].spec.request)
        for number in sorted(world.state.active)[::2]:
            world.now += 7
            for node in world.state.jobs[number].status.allocation.names:  # type: ignore[union-attr]
                if number in world.state.active:
                    world.end(number, node=node)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(some.lists(requests, min_size=2, max_size=10), some.integers(1, 3))
def test_the_heads_start_is_never_later_than_promised(asked: list[Request], nodes: int) -> None:
    world = World(nodes=nodes)
    for request in asked:
        world.submit(request)
    world.cycle(Policy(reservations=1))
    promised: dict[int, int] = {}
    for _ in range(12):
        head = min(world.state.pending, default=None)
        if head is None:
            break
        start = world.state.forecasts[head].start
        if start is not None:
            assert start <= promised.get(head, start), (head, start, promised)
            promised[head] = start
        ends = [
            (job.status.start_time + job.time_limit_s, number)
            for number in world.state.active
            for job in (world.state.jobs[number],)
        ]
        if not ends:
            break
        # Estimates hold: everything that is due at this moment ends, not only the first.
        world.now = max(min(ends)[0], world.now)
        for due, number in ends:
            for node in world.state.jobs[number].status.allocation.names:  # type: ignore[union-attr]
                if due <= world.now and number in world.state.active:
                    world.end(number, node=node)
        world.cycle(Policy(reservations=1))
