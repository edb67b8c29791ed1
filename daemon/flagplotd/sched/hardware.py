"""Nodes as arrays: what they are, what is free on them and how the network joins them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.indices import mask_of
from flagplot_wire.node import Gpu, Node
from flagplotd.core import suspending
from flagplotd.core.state import NodeUse, State
from flagplotd.core.topology import topology

Ints = NDArray[np.int64]


_tree = lru_cache(4)(topology)


@lru_cache(4_096)
def islands(links: tuple[tuple[int, ...], ...]) -> list[int]:
    """For each GPU, of which `links` are the GPUs that it is joined with, the first of those that links join with it."""
    found = list(range(len(links)))
    for gpu, others in enumerate(links):
        for other in others:
            if 0 <= other < len(links):
                low, high = sorted((found[gpu], found[other]))
                found = [low if one == high else one for one in found]
    return found


class Hardware:
    """The arrays by node and by GPU of a `Snapshot`; `types` numbers the GPU types."""

    def __init__(self, state: State, nodes: list[Node]) -> None:
        count = len(nodes)
        inventories = [node.inventory for node in nodes if node.inventory is not None]
        cards = [inventory.gpus for inventory in inventories]
        self.width = max((len(gpus) for gpus in cards), default=0) or 1
        self.types = {name: index for index, name in enumerate(sorted({gpu.type for gpus in cards for gpu in gpus}))}
        domains = max((numa.index + 1 for inventory in inventories for numa in inventory.numa), default=1)
        self.up = np.zeros(count, np.uint8)
        self.n_cpu, self.n_mem, self.cpu, self.mem, self.jobs = (np.zeros(count, np.int64) for _ in range(5))
        self.gfree, self.g_of, self.g_ok, self.g_type, self.g_vram, self.g_numa = (
            np.zeros((count, self.width), np.int64) for _ in range(6)
        )
        self.g_numa -= 1
        self.g_island = np.zeros((count, self.width), np.int64)
        self.c_numa = np.zeros((count, max(domains, 1)), np.int64)
        self.free_cpus: list[int] = [0] * count
        kept = suspending.parked(state)
        for row, node in enumerate(nodes):
            self.fill(row, node, state.use.get(node.name, NodeUse()), kept.get(node.name, 0))
        self._join(state, nodes)

    def fill(self, row: int, node: Node, use: NodeUse, parked: int) -> None:
        """What a node of the same kind is and has free; the CPUs `parked` are for nobody."""
        inventory = node.inventory
        assert inventory is not None
        mask = mask_of(inventory.cpu_ids)
        free = mask & ~use.cpus & ~parked
        self.free_cpus[row] = free
        self.up[row] = node.responding and node.drain is None
        self.n_cpu[row], self.cpu[row] = mask.bit_count(), free.bit_count()
        self.n_mem[row], self.mem[row] = inventory.memory_mib, inventory.memory_mib - use.memory_mib
        self.jobs[row] = len(use.jobs)
        for numa in inventory.numa:
            self.c_numa[row, numa.index] = (mask_of(numa.cpu_ids) & free).bit_count()
        if not inventory.numa:
            self.c_numa[row, 0] = self.cpu[row]
        self.g_island[row, : len(inventory.gpus)] = islands(tuple(gpu.links for gpu in inventory.gpus))
        for index, gpu in enumerate(inventory.gpus):
            held = use.gpu_shards[index] if index < len(use.gpu_shards) else 0
            self._fill_gpu(row, index, gpu, held)

    def _fill_gpu(self, row: int, index: int, gpu: Gpu, held: int) -> None:
        self.g_of[row, index] = gpu.shards
        self.g_ok[row, index] = 0 if gpu.fault else gpu.shards
        self.gfree[row, index] = 0 if gpu.fault else gpu.shards - held
        self.g_type[row, index] = self.types[gpu.type]
        self.g_vram[row, index] = gpu.vram_mib or 0
        self.g_numa[row, index] = gpu.numa if gpu.numa is not None and 0 <= gpu.numa < self.c_numa.shape[1] else 0

    def _join(self, state: State, nodes: list[Node]) -> None:
        """The configured switches, or else those that the agents told of, below one that joins all."""
        tree = _tree(state.settings.switches)
        leaf = tree.leaf or {node.name: node.inventory.switch for node in nodes if node.inventory}
        names = sorted({name for name in leaf.values() if name} | set(tree.parent) | set(tree.parent.values()))
        rows, blocks = {name: row for row, name in enumerate(names)}, sorted(set(tree.block.values()))
        top = len(names)
        self.n_leaf = np.array([rows.get(leaf.get(node.name, ""), -1) for node in nodes], np.int64)
        numbers = {name: number for number, name in enumerate(blocks)}
        self.n_block = np.array([numbers.get(tree.block.get(node.name, ""), -1) for node in nodes], np.int64)
        above = [rows.get(tree.parent.get(name, ""), top) for name in names]
        levels = [tree.level.get(name, 0) for name in names]
        self.switch_parent = np.array([*above, -1] if names else [], np.int64)
        self.switch_level = np.array([*levels, max(levels) + 1] if names else [], np.int64)


def by_domain(node: Node, cpus: int, most: int, domains: int) -> list[int]:
    """How many of the CPUs `cpus` (a bit mask) are in each NUMA domain of a node, `most` in all."""
    found, numa = [0] * domains, node.inventory.numa if node.inventory is not None else ()
    for domain, mask in [(one.index, mask_of(one.cpu_ids)) for one in numa] or [(0, cpus)]:
        found[domain] = min((cpus & mask).bit_count(), most - sum(found))
    return found
