"""A store with a large cluster in it, written as events by the controller's own writer."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.events import Body, Event, JobAdded, NodeChanged, PartitionChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import GpuCount, Job, JobSpec, Request, State, Status
from flagplot_wire.node import Gpu, Inventory, Node, Partition
from flagplotd.core.state import Settings
from flagplotd.store import Batch, Store

USERS = 200


def node(index: int, now: int) -> Node:
    """A node of 96 cores and 8 GPUs."""
    gpus = tuple(Gpu(card, f"GPU-{index}-{card}", "h100", vram_mib=81_559, numa=card // 4) for card in range(8))
    inventory = Inventory(f"b{index}", 2, 48, 1, "0-95", 1_031_000, gpus=gpus, switch=f"s{index // 32}", simulated=True)
    return Node(f"gpu{index:05}", inventory, True, now)


def job(number: int, on: int, now: int) -> Job:
    """Running on node `on`, or held by its user where that is 0."""
    cards = 1 << number % 4
    request = Request(cpus_per_task=8, mem_per_node_mib=64_000, time_limit_s=86_400, gpus_per_node=(GpuCount(cards),))
    spec = JobSpec(
        f"train-{number % 977}",
        f"/home/user{number % USERS}",
        request,
        partition="main",
        hold="" if on else "user",
    )
    status = Status(submit_time=now - 100_000 + number)
    if on:
        gpus = tuple(GpuPart(card, 8, 8, "h100", f"GPU-{on - 1}-{card}") for card in range(cards))
        held = Allocation((NodeAlloc(f"gpu{on - 1:05}", 8, "0-7", 64_000, gpus),))
        status = Status(State.RUNNING, 1, submit_time=now - 90_000, start_time=now - 9_000 - number, allocation=held)
    return Job(JobNumber(number), f"user{number % USERS}", 1_000 + number % USERS, spec, status)


def fill(folder: Path, jobs: int, nodes: int) -> None:
    """A tenth of the jobs runs (the last numbers), the others wait, held; jobs are numbered from 1."""
    now = int(time.time())
    store = Store(folder)
    store.load(Settings())
    running = min(jobs // 10, nodes)
    bodies: list[Body] = [PartitionChanged(Partition("main", all_nodes=True, default=True))]
    bodies += [NodeChanged(node(index, now), "registered") for index in range(nodes)]
    first = jobs - running
    for number in range(1, jobs + 1):
        bodies.append(JobAdded(job(number, number - first if number > first else 0, now)))
    batch = Batch()
    for seq, body in enumerate(bodies, 1):
        batch.add(Event(seq, now, body), {})
    asyncio.run(store.commit(batch))
    store.close()
