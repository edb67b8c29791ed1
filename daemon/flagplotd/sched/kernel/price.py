"""What it costs to put a job of one node on a node: how much idle GPU the typical jobs could not use any more (FGD; see
`flagplotd.sched.fragmentation`, whose figures these are), and how much the node has left (best fit).

GPU is counted in parts, of which `WHOLE` are a GPU. The typical jobs are those that wait and run (`flagplotd.sched.typical`).
"""

from __future__ import annotations

import numpy as np

from flagplotd.sched.fragmentation import FIT_UNIT, FLAGPLOT
from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.fit import cpus_of, pick_any, shards_for
from flagplotd.sched.kernel.layout import INTS

TASKS = 32
"""Typical jobs at most."""
WHOLE = 1_000
FRAGMENT, STRANDED, FIT = FLAGPLOT.fragment, FLAGPLOT.stranded, FLAGPLOT.fit

TYPICAL = np.dtype(
    [(name, INTS) for name in ("tasks", "total", "cpus", "parts")]
    + [(name, INTS, (TASKS,)) for name in ("cpu", "gpus", "kind", "shards", "vram", "mask", "weight")]
)
"""What is typical: `tasks` kinds of jobs that ask for GPUs, each with its CPUs, and either whole `gpus` or `shards` or `vram`
MiB of one, of the GPU type `kind` (-1: any), the row of its mask (-1: all nodes) and its `weight`. `total` weighs those
without GPUs too. `cpus` and `parts` are those of the largest node."""


@inner
def measure(typical, row, masks, cpu, free, cards):
    """(fragment, stranded) of a node, in weight x parts, with `cpu` CPUs and the shards `free` by GPU idle."""
    parts, whole, like = 0, 0, -1
    same = True
    for gpu in range(free.shape[0]):
        of = cards[gpu].of
        if of > 0 and free[gpu] == of:
            parts += WHOLE
            whole += 1
            same = same and (like < 0 or (cards[gpu].kind == cards[like].kind and cards[gpu].vram == cards[like].vram
                                          and of == cards[like].of))  # fmt: skip
            like = gpu
        elif free[gpu] > 0:
            parts += free[gpu] * WHOLE // of
    usable, filled = 0, 0
    for task in range(typical.tasks):
        mask = typical.mask[task]
        if typical.cpu[task] > cpu or (mask >= 0 and not masks[mask, row >> 6] >> np.uint64(row & 63) & np.uint64(1)):
            continue
        weight, gpus = typical.weight[task], max(typical.gpus[task], 1)
        big, copies, inside = 0, 0, 0
        if whole > 0 and same:
            big, copies, inside = _idle(typical, task, free[like], cards[like])
            big, copies, inside = big * whole, copies * whole, inside * whole
        if typical.gpus[task] == 0 or not same:
            for gpu in range(free.shape[0]):
                if free[gpu] > 0 and (not same or free[gpu] < cards[gpu].of):
                    more = _idle(typical, task, free[gpu], cards[gpu])
                    big, copies, inside = big + more[0], copies + more[1], inside + more[2]
        if copies < gpus:
            continue
        usable += weight * big
        limit = cpu // typical.cpu[task] * gpus if typical.cpu[task] > 0 else copies
        filled += weight * (
            inside if gpus == 1 and copies <= limit else inside * min(copies // gpus * gpus, limit) // copies
        )
    return typical.total * parts - usable, typical.total * parts - filled


@inner
def _idle(typical, task, free, card):
    """What a task could use of a GPU with `free` shards: the parts that are idle there if it has room, how often it has
    room, and the parts that fills."""
    if typical.kind[task] >= 0 and card.kind != typical.kind[task]:
        return 0, 0, 0
    need = typical.shards[task]
    if typical.gpus[task] > 0:
        need = card.of
    elif typical.vram[task] > 0:
        need = shards_for(typical.vram[task], card.of, card.vram)
    if free < need:
        return 0, 0, 0
    if free == need:
        return free * WHOLE // card.of, 1, free * WHOLE // card.of
    copies = free // need
    return free * WHOLE // card.of, copies, copies * need * WHOLE // card.of


@inner
def price(typical, shape, row, masks, node, free, there, cards, taken):
    """The price of a job that fits on a node, less is better. It takes its GPUs of those that are `there` for its whole
    time; `taken` is room for W numbers."""
    before = measure(typical, row, masks, node.cpu, free, cards)
    pick_any(shape, there, cards, taken)
    cpu, parts = node.cpu - cpus_of(shape, node), 0
    for gpu in range(free.shape[0]):
        taken[gpu] = free[gpu] - taken[gpu]
        if cards[gpu].of > 0:
            parts += taken[gpu] * WHOLE // cards[gpu].of
    after = measure(typical, row, masks, cpu, taken, cards)
    fit = (FIT_UNIT * cpu // typical.cpus + FIT_UNIT * parts // typical.parts) // 2
    more = FRAGMENT * (after[0] - before[0]) + STRANDED * (after[1] - before[1])
    return FIT * typical.total * fit + FIT_UNIT * more


@inner
def alike(typical, one, other, masks, nodes, g_free, cards):
    """Whether a job costs the same on two nodes."""
    if (
        nodes[one].cpu != nodes[other].cpu
        or nodes[one].cpus != nodes[other].cpus
        or nodes[one].takes + nodes[other].takes > 0
    ):
        return False
    for gpu in range(g_free.shape[1]):
        left, right = cards[one, gpu], cards[other, gpu]
        if g_free[one, gpu] != g_free[other, gpu] or left.of != right.of or left.kind != right.kind:
            return False
        if left.vram != right.vram:
            return False
    for task in range(typical.tasks):
        mask = typical.mask[task]
        if mask >= 0 and (
            masks[mask, one >> 6] >> np.uint64(one & 63) ^ masks[mask, other >> 6] >> np.uint64(other & 63)
        ) & np.uint64(1):
            return False
    return True
