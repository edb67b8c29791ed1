"""Whom to preempt by trying every set of jobs, in plain Python and without the product's arrays."""

from __future__ import annotations

from itertools import combinations

from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job, Request
from flagplotd.core.state import State


def room(state: State, request: Request, gone: frozenset[int], asleep: bool) -> bool:
    """Whether a request of one shape fits when some jobs are gone, or asleep: then their CPUs alone are free."""
    fitting = 0
    for name, node in state.nodes.items():
        assert node.inventory is not None
        cpus, memory = mask_of(node.inventory.cpu_ids), node.inventory.memory_mib
        shards = [gpu.shards for gpu in node.inventory.gpus]
        others = 0
        for job in state.jobs.values():
            if job.number not in state.active or job.status.allocation is None:
                continue
            for part in (part for part in job.status.allocation.nodes if part.node == name):
                sleeps = asleep and job.number in gone and not part.gpus
                if job.number not in gone or sleeps:
                    memory -= part.memory_mib
                    others += 1
                    for gpu in part.gpus:
                        shards[gpu.index] -= gpu.shards
                if job.number not in gone:
                    cpus &= ~mask_of(part.cpu_ids)
        whole = sum(gpu.count for gpu in request.gpus_per_node)
        full = sum(left == gpu.shards for left, gpu in zip(shards, node.inventory.gpus, strict=True))
        shared = max(shards, default=0) >= request.shards
        fitting += (
            cpus.bit_count() >= request.cpus_per_task
            and memory >= (request.mem_per_node_mib or node.inventory.memory_mib)
            and full >= whole
            and shared
            and not (request.exclusive and others)
        )
    return fitting >= request.nodes_min


def may_go(job: Job, now: int, exempt_s: int) -> bool:
    """Whether the job may be preempted, where those of QoS `low` may be."""
    return job.spec.qos == "low" and job.status.state == "RUNNING" and now - job.status.start_time >= exempt_s


def fewest(state: State, request: Request, now: int, exempt_s: int, asleep: bool) -> tuple[int, int] | None:
    """(victims, seconds that they ran together) of the best set; None where nothing makes room."""
    below = [job for number in state.active if may_go(job := state.jobs[number], now, exempt_s)]
    for count in range(len(below) + 1):
        found = [
            sum(now - job.status.start_time for job in some)
            for some in combinations(below, count)
            if room(state, request, frozenset(job.number for job in some), asleep)
        ]
        if found:
            return count, min(found)
    return None
