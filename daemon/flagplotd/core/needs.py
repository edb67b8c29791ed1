"""The least that a request takes, as totals over the job: what limits are compared with."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.job import NO_LIMIT, Request

MAX_GPU_TYPES = 4
"""Different GPU types in one request."""
MAX_LICENSES = 8
"""Different licenses in one request."""
MAX_GROUPS = 8
"""Kinds of nodes that one constraint counts."""
MAX_CHOICES = 64
"""Alternatives in a constraint's brackets."""


class Needs(Struct, frozen=True):
    """Least totals of a job. `memory_mib` is 0 where the node decides it; a share of a GPU counts in `gpus` as one
    for the whole job, since it is more than none. `wall_s` is the time limit, None for none."""

    nodes: int
    cpus: int
    gpus: int
    memory_mib: int
    wall_s: int | None

    @property
    def gpu_minutes(self) -> int | None:
        """GPU minutes up to the time limit, rounded up; None where there is no end to them."""
        if not self.gpus:
            return 0
        return None if self.wall_s is None else -(-self.gpus * self.wall_s // 60)


def seats(request: Request) -> dict[str, int]:
    """How many of each license a request takes; a name given twice adds up."""
    found: dict[str, int] = {}
    for one in request.licenses:
        found[one.name] = found.get(one.name, 0) + one.count
    return found


def span(request: Request) -> tuple[int, int]:
    """The least and the most nodes of a request: tasks without a range of their own decide how many."""
    least, most = request.nodes_min, max(request.nodes_max, request.nodes_min)
    if request.tasks and request.tasks_per_node:
        least = most = max(least, -(-request.tasks // request.tasks_per_node))
    elif request.tasks and not request.tasks_per_node:
        most = least
    return least, most


def needs(request: Request) -> Needs:
    """The least totals of a request."""
    nodes, _ = span(request)
    tasks = request.tasks or nodes * max(request.tasks_per_node, 1)
    cpus = tasks * request.cpus_per_task
    if request.gpus_per_node:
        gpus = nodes * sum(gpu.count for gpu in request.gpus_per_node)
    elif request.gpus:
        gpus = sum(gpu.count for gpu in request.gpus)
    else:
        gpus = tasks * sum(gpu.count for gpu in request.gpus_per_task)
    memory = 0
    if request.mem_per_node_mib is not None:
        memory = nodes * request.mem_per_node_mib
    elif request.mem_per_cpu_mib is not None:
        memory = cpus * request.mem_per_cpu_mib
    elif request.mem_per_gpu_mib is not None:
        memory = gpus * request.mem_per_gpu_mib
    if not gpus and (request.shards or request.vram_mib):
        gpus = 1
    limit = request.time_limit_s or NO_LIMIT
    return Needs(nodes, cpus, gpus, memory, None if limit == NO_LIMIT else limit)


def held_by(request: Request) -> tuple[int, int, int, int, int]:
    """What a running job counts for, whenever it ends: itself, nodes, CPUs, GPUs, MiB."""
    least = needs(request)
    return 1, least.nodes, least.cpus, least.gpus, least.memory_mib
