"""Which pending jobs are stopped by limits, whatever is free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flagplotd.core.sharing import RESOURCES
from flagplotd.sched.asked import Limit

Ints = NDArray[np.int64]
PLACES = len(RESOURCES) + 1
"""The counters of a limit, and the time limit of each job."""
_NONE = 1 << 60
DETAILED = 8
"""Limits of a chain that have bits of their own."""
IMPOSSIBLE, LONG = 1 << len(RESOURCES), 1 << 62
"""Of each limit's `PLACES` bits that which says that the job alone is too large for it; the bit of longer chains."""


def stopped(rows: Any, counted: Ints, chains: list[tuple[int, ...]], limits: list[Limit]) -> Ints:
    """By row 0, or the limits that stop it as bits: `PLACES` for each of its chain. Rows of one chain and one such figure
    are stopped for the same reasons, apart from what `IMPOSSIBLE` and `LONG` say of their shapes."""
    found = np.zeros(len(rows), np.int64)
    if not limits or not len(rows):
        return found
    room, cap = _rooms(limits)
    lengths = np.array([len(links) for links in chains])
    # Short chains end with a limit that nobody meets.
    table = np.full((len(chains), lengths.max()), len(limits), np.int64)
    for row, links in enumerate(chains):
        table[row, : len(links)] = links
    least = np.minimum(room, cap)[table].min(axis=1)
    # Most chains are far from all of their limits.
    near = np.flatnonzero((counted.max(axis=0) > least).any(axis=1)[rows["chain"]])
    over = near[(counted[rows["shape"][near]] > least[rows["chain"][near]]).any(axis=1)]
    need, chain = counted[rows["shape"][over]], rows["chain"][over]
    bits = np.where(lengths[chain] > DETAILED, LONG, 0)
    weights = 1 << np.arange(len(RESOURCES))
    for place in range(min(table.shape[1], DETAILED)):
        link = table[chain, place]
        alone = (need > cap[link]).any(axis=1)
        group = ((need > room[link])[:, :-1] * weights).sum(axis=1)
        bits |= np.where(alone, IMPOSSIBLE, group) << PLACES * place
    found[over] = bits
    return found


def _rooms(limits: list[Limit]) -> tuple[Ints, Ints]:
    """By limit, and of none, what may be used on top of what is and the most that one job may ask for."""
    room = np.full((len(limits) + 1, PLACES), _NONE, np.int64)
    cap = room.copy()
    for row, one in enumerate(limits):
        for place, (used, most) in enumerate(zip(one.used, one.most, strict=True)):
            if most >= 0:
                room[row, place] = max(most - used, 0)
                cap[row, place] = most if place or not most else _NONE
        each = (one.limits.job_nodes, one.limits.job_cpus, one.limits.job_gpus)
        for place, value in enumerate(each, 1):
            cap[row, place] = min(cap[row, place], _NONE if value is None else value)
        if one.limits.job_wall_s is not None:
            cap[row, -1] = one.limits.job_wall_s
    return room, cap
