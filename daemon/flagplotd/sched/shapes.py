"""Requests as integers: what one node's part needs. Identical requests share one shape."""

from __future__ import annotations

from dataclasses import dataclass

from flagplot_wire import constraint
from flagplot_wire.job import GpuCount, Request
from flagplotd.core.needs import seats, span

MEM_ALL = -1
"""The request wants all memory of the node."""
MEM_PART = -2
"""No memory was asked for: the job gets the part of the node's memory that its CPUs are of the node's CPUs."""
FOREVER = 315_360_000
"""Seconds that a job without a time limit is taken to run at most: ten years."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What each of `least` to `most` nodes must give. `gpus` are (type word or "", count), typed ones first. `licenses` are
    for the whole job. The nodes are all of one of 1 + `others` kinds; `quotas` are how many of each group of nodes there
    are at least, a node counting in one only where they are `apart` (`constraint.Asked`)."""

    least: int
    most: int
    tasks: int
    cpu: int
    mem: int
    gpus: tuple[tuple[str, int], ...]
    shards: int
    vram: int
    share_type: str
    exclusive: bool
    limit: int
    near: bool = False
    switches: int = 0
    contiguous: bool = False
    licenses: tuple[tuple[str, int], ...] = ()
    others: int = 0
    quotas: tuple[int, ...] = ()
    apart: bool = False


def shape_of(request: Request) -> Shape:
    """The shape of a request; totals over the job are spread evenly over its least number of nodes."""
    least, most = span(request)
    tasks = request.tasks_per_node or (-(-request.tasks // least) if request.tasks else 1)
    wanted = constraint.asked(request.constraint, most)
    gpus: dict[str, int] = {}
    for gpu in request.gpus_per_node:
        gpus[gpu.type] = gpus.get(gpu.type, 0) + gpu.count
    if not request.gpus_per_node:
        _spread(gpus, request.gpus, least)
        if not request.gpus:
            for gpu in request.gpus_per_task:
                gpus[gpu.type] = gpus.get(gpu.type, 0) + gpu.count * tasks
    count = sum(gpus.values())
    cpu = max(tasks * request.cpus_per_task, count * request.cpus_per_gpu)
    if request.mem_per_node_mib is not None:
        mem = request.mem_per_node_mib or MEM_ALL
    elif request.mem_per_cpu_mib is not None:
        mem = request.mem_per_cpu_mib * cpu
    elif request.mem_per_gpu_mib is not None:
        mem = request.mem_per_gpu_mib * max(count, 1)
    else:
        mem = MEM_PART
    typed = tuple(sorted(gpus.items(), key=lambda pair: (not pair[0], pair[0])))
    return Shape(
        least,
        most,
        tasks,
        cpu,
        mem,
        typed,
        request.shards,
        request.vram_mib,
        request.share_type,
        request.exclusive,
        request.time_limit_s or FOREVER,
        request.near_gpus,
        request.switches,
        request.contiguous,
        tuple(seats(request).items()),
        len(wanted.choices) - 1,
        tuple(count for _, count in wanted.groups),
        wanted.apart,
    )


def memory_on(shape: Shape, cpus: int, memory_mib: int) -> int:
    """MiB that a part takes of a node with so many CPUs and so much memory."""
    if shape.mem == MEM_ALL:
        return memory_mib
    return shape.cpu * memory_mib // max(cpus, 1) if shape.mem == MEM_PART else shape.mem


def _spread(gpus: dict[str, int], total: tuple[GpuCount, ...], nodes: int) -> None:
    for gpu in total:
        gpus[gpu.type] = gpus.get(gpu.type, 0) + -(-gpu.count // nodes)
