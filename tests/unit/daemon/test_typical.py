"""What is typical of the jobs around, as the price of a placement takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.states import World

from flagplot_wire.job import GpuCount, Request
from flagplotd.sched.arrays import arrays_of
from flagplotd.sched.kernel.price import TASKS, WHOLE
from flagplotd.sched.snapshot import take
from flagplotd.sched.typical import KEY, MOST_WEIGHT, typical_of


def gpus(count: int, cpus: int = 1, kind: str = "", **more: Any) -> Request:
    return Request(
        cpus_per_task=cpus, mem_per_node_mib=1, gpus_per_node=(GpuCount(count, kind),), time_limit_s=60, **more
    )


def typical(world: World, starts: dict[int, int] | None = None) -> Any:
    """The record of a world's jobs; `starts` gives a job, by its place in the queue, another number of starts."""
    snapshot = take(world.state, world.now)
    arrays = arrays_of(snapshot, 0)
    counts = np.zeros(len(arrays.shapes), np.int64)
    for place, row in enumerate(snapshot.waiting):
        counts[row.shape] += (starts or {}).get(place, row.count)
    running = (snapshot.e_cpu, snapshot.e_gpu, snapshot.e_node)
    return typical_of(arrays.shapes, counts, arrays.masks, arrays.nodes, arrays.cards, running)[0]


def tasks(found: Any) -> list[tuple[int, ...]]:
    return [tuple(int(found[name][place]) for name in (*KEY, "weight")) for place in range(int(found["tasks"]))]


def test_waiting_and_running_jobs_count_once_for_each_node() -> None:
    world = World(nodes=3)
    world.submit(gpus(2, 3, nodes_min=2, nodes_max=2))
    world.submit(Request(cpus_per_task=2, mem_per_node_mib=1, shards=3, time_limit_s=60))
    world.cycle()
    for _ in range(4):
        world.submit(gpus(2, 3, kind="a100"))
    world.submit(Request(mem_per_node_mib=1, vram_mib=500, time_limit_s=60))
    world.submit(Request(cpus_per_task=8, mem_per_node_mib=1, time_limit_s=60))
    found = typical(world)
    assert tasks(found) == [
        (3, 2, 0, 0, 0, -1, 4),
        (3, 2, -1, 0, 0, -1, 2),
        (1, 0, -1, 0, 500, -1, 1),
        (2, 0, -1, 3, 0, -1, 1),
    ]
    assert (found["total"], found["cpus"], found["parts"]) == (9, 8, 2 * WHOLE)


def test_what_may_not_use_all_nodes_keeps_its_mask() -> None:
    world = World(nodes=2)
    world.submit(gpus(1, nodelist=("n2",)))
    world.submit(gpus(1))
    masks = {task[KEY.index("mask")] for task in tasks(typical(world))}
    assert len(masks) == 2 and -1 in masks


def test_many_jobs_of_many_kinds_stay_within_bounds() -> None:
    world = World(nodes=1, cpus=64)
    for cpus in range(1, TASKS + 9):
        world.submit(gpus(1, cpus))
    found = typical(world, {0: 1_000_000_000, 1: 500_000_000})
    kinds = tasks(found)
    assert len(kinds) == TASKS and [task[0] for task in kinds[:3]] == [1, 2, 3]
    assert abs(kinds[0][-1] - 2 * kinds[1][-1]) <= 1 and MOST_WEIGHT - 2 <= found["total"] <= MOST_WEIGHT + TASKS


def test_without_jobs_or_gpus_there_is_nothing_typical() -> None:
    world = World(nodes=1, gpus=0)
    assert (typical(world)["tasks"], typical(world)["total"]) == (0, 1)
    world.submit(Request(mem_per_node_mib=1))
    assert (typical(world)["tasks"], typical(world)["total"]) == (0, 1)
