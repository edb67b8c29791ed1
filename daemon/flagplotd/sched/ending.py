"""The arrays that a cycle left, on which `kernel.ending` finds what starts at a job's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flagplotd.sched.kernel import layout as at
from flagplotd.sched.kernel.ending import OVER, SOME, ended
from flagplotd.sched.kernel.indexed import HEAD, index, sift

if TYPE_CHECKING:
    from flagplotd.sched.plan import Ran

MOST = 64
"""Jobs that end, and that start, on one node at once."""
OWN = 128
"""Events of planned starts on one node."""


class Ending:
    """Takes the arrays over and changes them. `e_number` are the jobs whose ends the first events are, `reservations` the K
    of the cycle; `out` and `out_gpu` have, by start, (place of the job, node, 1) and the shards of each GPU. `partial`: a
    whole cycle may start or plan more, or otherwise; `over`: only it knows what starts now. `most_heads` is how many of the
    planned jobs may start, and more than there are while others may as well."""

    def __init__(self, ran: Ran, e_number: Any, reservations: int) -> None:
        ints, arrays = np.int64, ran.arrays
        nodes, width, shapes = ran.when.shape[1], arrays.g_free.shape[1], len(arrays.shapes)
        heads, behind = np.zeros(max(min(reservations, len(ran.jobs)), 1), HEAD), np.zeros(shapes, ints)
        following = np.zeros(len(ran.jobs), np.int32)
        planned = index(ran.jobs, ran.answers, arrays.shapes, reservations, np.zeros(4, ints), heads, behind, following)
        order = np.flatnonzero(behind >= 0)
        order = order[np.argsort(behind[order], kind="stable")]
        bits = np.zeros((at.LEVELS, -(-max(len(order), 1) // 64)), np.uint64)
        sift(order, arrays.shapes, bits)
        self.arrays, self.used = arrays, ran.used
        self.out, self.out_gpu = np.zeros((MOST, 3), ints), np.zeros((MOST, width), np.int32)
        self.partial = self.over = False
        self.most_heads = at.NEVER
        self._numbers = np.zeros(MOST, ints)
        small = np.zeros(width, np.int32)
        self._arguments = (
            e_number, ran.jobs, ran.held, arrays.shapes, arrays.masks, arrays.free, arrays.nodes, arrays.g_free, arrays.cards,
            arrays.c_numa, arrays.events, arrays.e_gpu, arrays.tail, ran.when, ran.first, ran.c_first, ran.c_scope, ran.used,
            ran.most, nodes, np.zeros(2 + arrays.c_numa.shape[1], ints), small, small.copy(), small.copy(),
            np.zeros(1, ints), ran.answers, heads[:planned], behind, following, order, behind[order].copy(), bits,
            np.zeros(at.LEVELS, ints), np.zeros(OWN, ints), self.out, self.out_gpu,
        )  # fmt: skip

    def at(self, now: int, row: int, numbers: Sequence[int]) -> int:
        """After the ends of these jobs on the node `row`, whose figures in `arrays` are those after them: how many
        rows of `out` start. Once it is `over` nothing may be asked any more."""
        count = len(numbers)
        if count > len(self._numbers):
            self.over = self.partial = True
            return 0
        self._numbers[:count] = numbers
        rows, left, self.most_heads = ended(now, row, count, self.most_heads, self._numbers, *self._arguments)
        self.partial, self.over = self.partial or left >= SOME, left >= OVER
        return int(rows)
