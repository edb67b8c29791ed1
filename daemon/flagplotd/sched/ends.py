"""When what active jobs hold is free again, kept from cycle to cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.node import Node
from flagplotd.sched.hardware import by_domain
from flagplotd.sched.leaving import Leaving

Ints = NDArray[np.int64]
_TIME, _NODE, _CPU, _MEM, _NUMBER, _GPU = range(6)


class Ends:
    """A row for each part of a job (time, node, CPUs, MiB, job, shards by GPU, CPUs by NUMA domain); rows are used again. A
    time of 0 is no row."""

    def __init__(self, width: int, domains: int) -> None:
        self._rows = np.zeros((64, _GPU + width + domains), np.int64)
        self._numa = _GPU + width
        self._of: dict[JobNumber, list[int]] = {}
        self._free = list(range(63, -1, -1))

    def put(self, number: JobNumber, leaving: Iterable[Leaving], index: dict[str, int], nodes: Sequence[Node]) -> None:
        """What a job gives back, in place of what was known of it; `index` are the rows of `nodes`."""
        self.drop(number)
        mine = []
        for one in leaving:
            node = index.get(one.part.node)
            if node is None:
                continue
            row = self._place()
            line = [0] * self._rows.shape[1]
            line[:_GPU] = one.end, node, one.cpus, one.part.memory_mib if one.rest else 0, number
            for held in one.part.gpus if one.rest else ():
                if _GPU + held.index < self._numa:
                    line[_GPU + held.index] = held.shards
            line[self._numa :] = by_domain(
                nodes[node], mask_of(one.part.cpu_ids), one.cpus, self._rows.shape[1] - self._numa
            )
            self._rows[row] = line
            mine.append(row)
        if mine:
            self._of[number] = mine

    def drop(self, number: JobNumber) -> None:
        """A job holds nothing any more."""
        gone = self._of.pop(number, None)
        if gone:
            self._rows[gone, _TIME] = 0
            self._free += gone

    def _place(self) -> int:
        if not self._free:
            count = len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._free = list(range(2 * count - 1, count - 1, -1))
        return self._free.pop()

    def columns(self, now: int) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
        """Times (after `now`), nodes, CPUs, MiB, shards by GPU, jobs and CPUs by NUMA domain, by time, node
        and job."""
        rows = self._rows[np.flatnonzero(self._rows[:, _TIME])]
        time = np.maximum(rows[:, _TIME], now + 1)
        order = np.lexsort((rows[:, _CPU], rows[:, _NUMBER], rows[:, _NODE], time))
        rows = rows[order]
        found = [np.ascontiguousarray(rows[:, column]) for column in (_NODE, _CPU, _MEM)]
        gpus, numa, numbers = (
            np.ascontiguousarray(some) for some in (rows[:, _GPU : self._numa], rows[:, self._numa :], rows[:, _NUMBER])
        )
        return time[order], found[0], found[1], found[2], gpus, numbers, numa
