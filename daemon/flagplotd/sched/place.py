"""From counts to a complete allocation: which CPUs on each node, near the GPUs where that is possible."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot_wire.alloc import GpuPart, NodeAlloc
from flagplot_wire.indices import list_of, lowest_of, mask_of
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
    for numa in node.inventory.numa if gpus else ():
        if numa.index in near:
            preferred |= mask_of(numa.cpu_ids)
    chosen = lowest_of(free & preferred, cpus)
    chosen |= lowest_of(free & ~preferred, cpus - chosen.bit_count())
    return NodeAlloc(node.name, cpus, list_of(chosen), memory_mib, gpus, tasks, first_rank), free & ~chosen
