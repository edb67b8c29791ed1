"""From counts to a complete allocation: which CPUs on each node, near the GPUs where that is possible."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot_wire.alloc import GpuPart, NodeAlloc
from flagplot_wire.indices import compress_indices, mask_of
from flagplot_wire.node import Node


def part_of(
    node: Node, free: int, cpus: int, memory_mib: int, shards: Sequence[int], tasks: int, first_rank: int
) -> tuple[NodeAlloc, int]:
    """One node's part, and the CPUs that are free after it. `shards` counts the shards taken of each GPU."""
    assert node.inventory is not None
    gpus = tuple(
        GpuPart(index, int(taken), node.inventory.gpus[index].shards, node.inventory.gpus[index].type,
                node.inventory.gpus[index].uuid)
        for index, taken in enumerate(shards)
        if taken
    )  # fmt: skip
    near = {node.inventory.gpus[gpu.index].numa for gpu in gpus}
    preferred = 0
    for numa in node.inventory.numa:
        if numa.index in near:
            preferred |= mask_of(numa.cpu_ids)
    chosen: list[int] = []
    for candidates in (free & preferred, free & ~preferred):
        while candidates and len(chosen) < cpus:
            lowest = candidates & -candidates
            chosen.append(lowest.bit_length() - 1)
            candidates ^= lowest
    for cpu in chosen:
        free &= ~(1 << cpu)
    return NodeAlloc(node.name, cpus, compress_indices(chosen), memory_mib, gpus, tasks, first_rank), free
