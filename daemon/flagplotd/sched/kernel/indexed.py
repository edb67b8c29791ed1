"""What a cycle left, put in order for `ending`: who is planned, and by shape who else waits."""

from __future__ import annotations

import numpy as np
from numba import njit

from flagplotd.sched.kernel.compiler import OPTIONS
from flagplotd.sched.kernel.layout import (
    AT_CPU,
    AT_MEM,
    CPU_LEVELS,
    DOWN,
    GPU_LEVELS,
    IMPOSSIBLE,
    MEM_LEVELS,
    MEM_UNIT,
)
from flagplotd.sched.kernel.search import ONE, levels_of
from flagplotd.sched.kernel.timeline import log2

HEAD = np.dtype(
    [(name, np.int64) for name in ("time", "job")]
    + [(name, np.int32) for name in ("node", "mask", "choices", "step", "gpus", "cpu", "part", "blind")]
)
"""A planned job (`job` -1: it has started): its start and its first node, its masks as of `SHAPE`, its rows of `when`; `blind`
where those do not bound it."""


@njit(**OPTIONS)
def index(jobs, answers, shapes, reservations, levels, heads, behind, following):
    """After a cycle: the jobs that were planned into `heads` (returns how many), by shape the first other one that waits into
    `behind` and by job the next of its shape into `following` (-1: none)."""
    planned = 0
    behind[:] = -1
    following[:] = -1
    for job in range(jobs.shape[0]):
        answer, shape = answers[job], shapes[jobs[job].shape]
        if answer.started < jobs[job].count and planned < reservations and answer.scope < 0:
            if answer.bits & (DOWN | IMPOSSIBLE) == 0:
                head = heads[planned]
                levels_of(shape, levels)
                head.time, head.job, head.node = answer.start, job, answer.node
                head.mask, head.choices, head.step = shape.mask, shape.others + 1, shape.groups + 1
                head.gpus, head.cpu, head.part, head.blind = levels[0], levels[1], levels[2], shape.res >= 0
                planned += 1
    at = planned - 1
    for job in range(jobs.shape[0] - 1, -1, -1):
        if at >= 0 and heads[at].job == job:
            at -= 1
        elif answers[job].started < jobs[job].count:
            following[job] = behind[jobs[job].shape]
            behind[jobs[job].shape] = job
    return planned


@njit(**OPTIONS)
def sift(order, shapes, bits):
    """Fill `bits`: by level (as of `free`) the shapes, by their place in `order`, which a node of that level may hold."""
    for place in range(order.shape[0]):
        shape = shapes[order[place]]
        bit = ONE << np.uint64(place & 63)
        cpu = log2(max(shape.cpu, 1), CPU_LEVELS)
        mem = log2(shape.mem // MEM_UNIT, MEM_LEVELS) if shape.mem >= MEM_UNIT else 0
        for level in range(min(shape.gpus, GPU_LEVELS - 1), GPU_LEVELS):
            bits[level, place >> 6] |= bit
        for level in range(cpu, CPU_LEVELS):
            bits[AT_CPU + level, place >> 6] |= bit
        for level in range(mem, MEM_LEVELS):
            bits[AT_MEM + level, place >> 6] |= bit
