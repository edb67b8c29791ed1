"""The state of a large, nearly full cluster with a mixed queue, made of events as the controller would."""

from __future__ import annotations

import random

from flagplot_wire.alloc import Allocation, GpuPart, NodeAlloc
from flagplot_wire.events import JobAdded, NodeChanged, PartitionChanged, PolicyChanged
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import GpuCount, Job, JobSpec, Request, Status
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Gpu, Inventory, Node, NumaNode, Partition
from flagplot_wire.policy import Account, Association, Limits, Qos
from flagplotd.core.apply import apply
from flagplotd.core.state import Settings, State

NOW, GPUS, CPUS, MEMORY = 1_000_000_000, 8, 128, 1_000_000
ACCOUNTS, USERS = 50, 400


def node(index: int) -> Node:
    """A node of 128 CPUs in two NUMA domains and 8 GPUs, on a switch with 31 others."""
    gpus = tuple(Gpu(card, f"G{index}-{card}", "h100", vram_mib=80_000, numa=card // 4) for card in range(GPUS))
    numa = (NumaNode(0, "0-63", MEMORY // 2), NumaNode(1, "64-127", MEMORY // 2))
    inventory = Inventory(f"b{index}", 2, 64, 1, "0-127", MEMORY, numa, gpus, switch=f"s{index // 32}")
    return Node(f"gpu{index:06}", inventory, True, NOW)


def request(dice: random.Random, limits: int) -> Request:
    """One of several thousand different requests."""
    gpus = dice.choices((0, 1, 2, 4, 8), (10, 40, 20, 15, 15))[0]
    nodes = dice.choice((2, 4, 8)) if dice.random() < 0.1 else 1
    shards = dice.randint(1, 7) if not gpus and dice.random() < 0.3 else 0
    return Request(
        nodes_min=nodes, nodes_max=nodes, cpus_per_task=dice.choice((1, 2, 4, 8, 16)),
        mem_per_node_mib=dice.choice((4, 16, 64)) * 1_000, time_limit_s=dice.randint(1, limits) * 600,
        gpus_per_node=(GpuCount(gpus),) if gpus else (), shards=shards,
    )  # fmt: skip


def filled(jobs: int, nodes: int, seed: int = 1, free: float = 0.002, limits: int = 100) -> State:
    """A state with `jobs` pending and all nodes, of whose GPUs the part `free` is idle."""
    dice, state = random.Random(seed), State(Settings())
    apply(state, PartitionChanged(Partition("main", all_nodes=True, default=True)))
    apply(state, PolicyChanged(Qos("normal", priority=10)))
    for account in range(ACCOUNTS):
        apply(state, PolicyChanged(Account(f"a{account}", limits=Limits(gpus=nodes * GPUS))))
    for user in range(USERS):
        apply(state, PolicyChanged(Association(f"u{user}", f"a{user % ACCOUNTS}")))
    number = 1
    for index in range(nodes):
        apply(state, NodeChanged(node(index), "registered"))
        number = _run(state, dice, index, number, free)
    for place in range(jobs):
        user = dice.randrange(USERS)
        spec = JobSpec(f"job{place % 977}", "/home", request(dice, limits), "main", f"a{user % ACCOUNTS}", "normal")
        since = NOW - dice.randint(60, 600_000)
        status = Status(submit_time=since, eligible_time=since)
        apply(state, JobAdded(Job(JobNumber(number + place), f"u{user}", 1_000 + user, spec, status)))
    return state


def _run(state: State, dice: random.Random, index: int, number: int, free: float) -> int:
    """Fill a node with running jobs; returns the next number."""
    card = 0
    while card < GPUS:
        count = min(dice.choice((1, 1, 2, 4, 8)), GPUS - card)
        if dice.random() >= free:
            user = dice.randrange(USERS)
            gpus = tuple(GpuPart(one, 8, 8, "h100", f"G{index}-{one}") for one in range(card, card + count))
            cpus = f"{card * 16}-{(card + count) * 16 - 1}"
            part = NodeAlloc(f"gpu{index:06}", 16 * count, cpus, 120_000 * count, gpus)
            asked = Request(
                cpus_per_task=16 * count, mem_per_node_mib=120_000 * count, time_limit_s=dice.randint(1, 2_880) * 60,
                gpus_per_node=(GpuCount(count),),
            )  # fmt: skip
            spec = JobSpec("run", "/home", asked, "main", f"a{user % ACCOUNTS}", "normal")
            status = Status(
                JobState.RUNNING, 1, submit_time=NOW - 90_000, start_time=NOW - dice.randint(0, 60),
                allocation=Allocation((part,)),
            )  # fmt: skip
            apply(state, JobAdded(Job(JobNumber(number), f"u{user}", 1_000 + user, spec, status)))
            number += 1
        card += count
    return number
