"""Plans on small clusters, through the real core; every start is re-checked and every invariant holds."""

from __future__ import annotations

import msgspec
from support.states import ADA, World, inventory

from flagplot_wire.job import GpuCount, Request
from flagplot_wire.node import Gpu, Inventory
from flagplotd.core import stimuli as st
from flagplotd.sched.explain import estimate, explain, never_fits
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take


def gpus(count: int, kind: str = "", **more: object) -> Request:
    return Request(mem_per_node_mib=10, gpus_per_node=(GpuCount(count, kind),), time_limit_s=3_600, **more)  # type: ignore[arg-type]


def shards(count: int) -> Request:
    return Request(mem_per_node_mib=10, shards=count, time_limit_s=3_600)


def held(world: World, number: int) -> list[tuple[int, int]]:
    allocation = world.state.jobs[number].status.allocation  # type: ignore[index]
    assert allocation is not None
    return [(gpu.index, gpu.shards) for part in allocation.nodes for gpu in part.gpus]


def test_a_s1_shards_share_one_gpu_and_whole_gpus_wait() -> None:
    world = World(nodes=1, gpus=2)
    three, five = world.submit(shards(3)), world.submit(shards(5))
    assert world.cycle() == [three, five]
    assert held(world, three) == [(0, 3)] and held(world, five) == [(0, 5)]
    other = world.submit(shards(1))
    whole = world.submit(gpus(1))
    assert world.cycle() == [other]
    assert world.word(whole) == "PENDING"
    assert "no node" in never_fits(world.state, world.state.jobs[three].spec.__class__("x", "/", shards(9)))  # type: ignore[index]


def test_a_o2_all_memory_waits_for_an_empty_node() -> None:
    world = World(nodes=1)
    first = world.submit(Request(mem_per_node_mib=100))
    everything = world.submit(Request(mem_per_node_mib=0))
    assert world.cycle() == [first]
    world.end(first)
    assert world.cycle() == [everything]
    allocation = world.state.jobs[everything].status.allocation  # type: ignore[index]
    assert allocation is not None and allocation.memory_mib == 8_000


def test_vram_is_rounded_up_to_shards() -> None:
    world = World(nodes=1, gpus=1)
    number = world.submit(Request(mem_per_node_mib=10, vram_mib=1_001))
    world.cycle()
    assert held(world, number) == [(0, 2)]


def test_types_are_honoured_and_unknown_ones_named() -> None:
    world = World(nodes=0)
    world.do(st.AgentJoined("a", inventory(kind="a100"), "0"))
    world.do(st.AgentJoined("b", inventory(kind="l40s"), "0"))
    number = world.submit(gpus(2, "l40s"))
    world.cycle()
    assert world.state.jobs[number].status.allocation.names == ["b"]  # type: ignore[index, union-attr]
    sentence = never_fits(world.state, msgspec.structs.replace(world.state.jobs[number].spec, request=gpus(1, "h100")))  # type: ignore[index]
    assert "h100" in sentence and "a100, l40s" in sentence


def test_gangs_start_everywhere_or_nowhere_on_one_switch() -> None:
    world = World(nodes=0)
    for name, switch in (("a", "s1"), ("b", "s2"), ("c", "s2"), ("d", "s1")):
        world.do(st.AgentJoined(name, msgspec.structs.replace(inventory(), switch=switch), "0"))
    blocker = world.submit(gpus(2, nodelist=("a",)))
    world.cycle()
    pair = world.submit(gpus(2, nodes_min=2, nodes_max=2))
    four = world.submit(gpus(2, nodes_min=4, nodes_max=4))
    assert world.cycle() == [pair]
    assert world.state.jobs[pair].status.allocation.names == ["b", "c"]  # type: ignore[index, union-attr]
    assert world.word(four) == "PENDING" and world.word(blocker) == "RUNNING"


def test_backfill_never_delays_the_first_blocked_job() -> None:
    world = World(nodes=1, gpus=2)
    running = world.submit(gpus(1))
    world.cycle()
    head = world.submit(gpus(2))
    long_one = world.submit(msgspec.structs.replace(gpus(1), time_limit_s=7_200))
    short = world.submit(msgspec.structs.replace(gpus(1), time_limit_s=1_800))
    assert world.cycle() == [short]
    forecast = world.state.forecasts[head]  # type: ignore[index]
    assert forecast.start == world.now + 3_600 and forecast.nodes == ("n1",)
    behind = world.state.forecasts[long_one]  # type: ignore[index]
    assert any(reason.why == "Priority" and head in reason.jobs for reason in behind.reasons)
    world.end(running)
    world.end(short)
    assert world.cycle() == [head]


def test_drained_nodes_and_faulty_gpus_get_nothing() -> None:
    world = World(nodes=1, gpus=2)
    hardware = world.state.nodes["n1"].inventory
    assert hardware is not None
    broken = tuple(msgspec.structs.replace(gpu, fault="lost") if gpu.index == 0 else gpu for gpu in hardware.gpus)
    world.do(st.InventoryChanged("n1", msgspec.structs.replace(hardware, gpus=broken)))
    one, two = world.submit(gpus(1)), world.submit(gpus(2))
    assert world.cycle() == [one]
    assert held(world, one) == [(1, 8)]
    assert world.state.forecasts[two].reasons[0].why == "ReqNodeNotAvail"  # type: ignore[index]


def test_cpus_are_taken_near_the_gpu() -> None:
    world = World(nodes=0)
    cards = tuple(Gpu(index, f"g{index}", "a100", numa=index) for index in range(2))
    two = Inventory("b", 2, 8, 1, "0-7", 1_000, gpus=cards)
    from flagplot_wire.node import NumaNode

    numa = (NumaNode(0, "0-3", 500), NumaNode(1, "4-7", 500))
    world.do(st.AgentJoined("n", msgspec.structs.replace(two, numa=numa), "0"))
    world.submit(msgspec.structs.replace(gpus(1), cpus_per_task=2))
    second = world.submit(msgspec.structs.replace(gpus(1), cpus_per_task=2))
    world.cycle()
    assert world.state.jobs[second].status.allocation.nodes[0].cpu_ids == "4-5"  # type: ignore[index, union-attr]


def test_explain_and_estimate_give_now_later_never_and_hints() -> None:
    world = World(nodes=1, gpus=2)
    spec = world.state.jobs[world.submit(gpus(1))].spec  # type: ignore[index]
    world.cycle()
    policy = Policy()
    now = estimate(world.state, msgspec.structs.replace(spec, request=gpus(1)), ADA, policy, world.now)
    assert now.start == world.now and now.nodes == ("n1",)
    later = estimate(world.state, msgspec.structs.replace(spec, request=gpus(2)), ADA, policy, world.now)
    assert later.start == world.now + 3_600 and later.hints == ("starts now with 1 GPU instead of 2",)
    blocked = world.submit(gpus(2))
    world.cycle()
    assert explain(world.state, blocked, policy, world.now).start == world.now + 3_600  # type: ignore[arg-type]
    assert "has 2 GPUs (3 asked)" in never_fits(world.state, msgspec.structs.replace(spec, request=gpus(3)))


def test_a_plan_is_deterministic() -> None:
    world = World(nodes=3)
    for index in range(12):
        world.submit(gpus(1 + index % 2))
    snapshot = take(world.state, world.now)
    assert plan(snapshot, Policy()) == plan(snapshot, Policy()) == plan(take(world.state, world.now), Policy())
