"""A snapshot as it would be with some jobs started and some victims gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flagplot_wire.alloc import GpuPart
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplotd.core.stimuli import Start

if TYPE_CHECKING:
    from flagplotd.sched.preempt import Victim
    from flagplotd.sched.snapshot import Snapshot


class WhatIf:
    """Free resources that can be changed; `snapshot` has them as it was made, apart from the one it was made from."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows = {node.name: row for row, node in enumerate(snapshot.nodes)}
        self.snapshot = replace(
            snapshot,
            free_cpus=list(snapshot.free_cpus),
            cpu=snapshot.cpu.copy(),
            c_numa=snapshot.c_numa.copy(),
            mem=snapshot.mem.copy(),
            gfree=snapshot.gfree.copy(),
            jobs=snapshot.jobs.copy(),
        )

    def copy(self) -> WhatIf:
        """Another one that goes on from here."""
        return WhatIf(self.snapshot)

    def row(self, node: str) -> int | None:
        """The row of a node."""
        return self._rows.get(node)

    def start(self, starts: Iterable[Start], limits: dict[JobNumber, int]) -> None:
        """Jobs start now; `limits` are their time limits in seconds by number."""
        import numpy as np

        from flagplotd.sched.hardware import by_domain

        now = self.snapshot
        ends: list[tuple[int, int, int, int, int, list[int], list[int]]] = []
        started: dict[JobNumber, int] = {}
        for start in starts:
            started[start.number] = started.get(start.number, 0) + 1
            for part in start.allocation.nodes:
                row, gpus = self._rows[part.node], [0] * now.gfree.shape[1]
                for gpu in part.gpus:
                    gpus[gpu.index] = gpu.shards
                self._change(row, mask_of(part.cpu_ids), part.memory_mib, part.gpus, -1)
                now.jobs[row] += 1
                end = now.now + limits[start.number]
                numa = by_domain(now.nodes[row], mask_of(part.cpu_ids), part.cpus, now.e_numa.shape[1])
                ends.append((end, row, start.number, part.cpus, part.memory_mib, gpus, numa))
        if not ends:
            return
        more = [np.array([end[place] for end in ends], np.int64) for place in range(5)]
        gpus_freed, numa_freed = (np.array([end[place] for end in ends], np.int64) for place in (5, 6))
        self._set_ends(
            np.concatenate([now.e_time, more[0]]), np.concatenate([now.e_node, more[1]]),
            np.concatenate([now.e_number, more[2]]), np.concatenate([now.e_cpu, more[3]]),
            np.concatenate([now.e_mem, more[4]]), np.concatenate([now.e_gpu, gpus_freed]),
            np.concatenate([now.e_numa, numa_freed]),
        )  # fmt: skip
        now.waiting = now.waiting.without(started)

    def go(self, victims: Collection[Victim]) -> None:
        """Victims are gone, or suspended."""
        import numpy as np

        now = self.snapshot
        for victim in victims:
            for freed in victim.frees:
                row = self._rows.get(freed.node)
                if row is not None:
                    self._change(row, freed.cpus, freed.memory_mib, freed.gpus, 1)
                    now.jobs[row] -= freed.whole
        numbers = np.array([victim.job.number for victim in victims], np.int64)
        stays = ~np.isin(now.e_number, numbers)
        asleep = np.array([one.job.number for one in victims if not all(part.whole for part in one.frees)], np.int64)
        sleeps = np.isin(now.e_number, asleep)
        kept = stays | sleeps
        cpu, numa = np.where(sleeps, 0, now.e_cpu), np.where(sleeps[:, None], 0, now.e_numa)
        self._set_ends(
            now.e_time[kept],
            now.e_node[kept],
            now.e_number[kept],
            cpu[kept],
            now.e_mem[kept],
            now.e_gpu[kept],
            numa[kept],
        )

    def park(self, victims: Collection[Victim]) -> None:
        """The CPUs of suspended victims that were not taken are nobody else's."""
        for victim in victims:
            for freed in victim.frees:
                row = self._rows.get(freed.node)
                if row is not None and not freed.whole:
                    self._change(row, freed.cpus & self.snapshot.free_cpus[row], 0, (), -1)

    def _change(self, row: int, cpus: int, memory_mib: int, gpus: tuple[GpuPart, ...], sign: int) -> None:
        now = self.snapshot
        now.free_cpus[row] = now.free_cpus[row] | cpus if sign > 0 else now.free_cpus[row] & ~cpus
        now.cpu[row] += sign * cpus.bit_count()
        inventory = now.nodes[row].inventory
        for numa in inventory.numa if inventory is not None else ():
            now.c_numa[row, numa.index] = (mask_of(numa.cpu_ids) & now.free_cpus[row]).bit_count()
        now.mem[row] += sign * memory_mib
        for gpu in gpus:
            if now.g_ok[row, gpu.index]:
                now.gfree[row, gpu.index] += sign * gpu.shards

    def _set_ends(self, time: Any, node: Any, number: Any, cpu: Any, mem: Any, gpu: Any, numa: Any) -> None:
        import numpy as np

        order, now = np.lexsort((number, node, time)), self.snapshot
        now.e_time, now.e_node, now.e_number = time[order], node[order], number[order]
        now.e_cpu, now.e_mem, now.e_gpu, now.e_numa = cpu[order], mem[order], gpu[order], numa[order]
