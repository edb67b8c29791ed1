"""Why a job does not start: whether nodes could hold it at all, and what stands in the way."""

from __future__ import annotations

import numpy as np

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.counted import count_node, covered, groups_of
from flagplotd.sched.kernel.fit import holds, memory_of
from flagplotd.sched.kernel.layout import BEHIND, COUNTS, DOWN, IMPOSSIBLE, RESERVED, RESOURCES, SWITCHES
from flagplotd.sched.kernel.search import ONE


@inner
def able(shape, mask, masks, nodes, cards, run):
    """0: enough nodes of a choice could hold a part if they were empty; 1: only if all were up and sound; 2: not even
    then."""
    if shape.groups > 0:
        return _able_counted(shape, mask, masks, nodes, cards, run)
    there, up = 0, 0
    for block in range(masks.shape[1]):
        word = masks[mask, block]
        row = block << 6
        while word != 0:
            if word & 1 and _could(shape, nodes[row], cards[row], run, False):
                there += 1
                up += nodes[row].up and _could(shape, nodes[row], cards[row], run, True)
                if up >= shape.least:
                    return 0
            word >>= 1
            row += 1
    return 1 if there >= shape.least else 2


@inner
def _able_counted(shape, mask, masks, nodes, cards, run):
    there, up = 0, 0
    all_there, all_up = np.zeros(1 << shape.groups, np.int64), np.zeros(1 << shape.groups, np.int64)
    for row in range(masks.shape[1] << 6):
        if masks[mask, row >> 6] >> np.uint64(row & 63) & ONE and _could(shape, nodes[row], cards[row], run, False):
            bits = groups_of(shape, mask, masks, row)
            there += 1
            count_node(bits, all_there, 1)
            if nodes[row].up and _could(shape, nodes[row], cards[row], run, True):
                up += 1
                count_node(bits, all_up, 1)
    if up >= shape.least and covered(shape, shape.quota, all_up, shape.most):
        return 0
    return 1 if there >= shape.least and covered(shape, shape.quota, all_there, shape.most) else 2


@inner
def _could(shape, node, cards, run, sound):
    if shape.cpu > node.cpus or memory_of(shape, node) > node.mems:
        return False
    if shape.gpus == 0 and shape.shards == 0 and shape.vram == 0:
        return True
    for gpu in range(cards.shape[0]):
        run[gpu] = cards[gpu].ok if sound else cards[gpu].of
    return holds(shape, run, cards)


@inner
def ever(shape, masks, nodes, cards, run):
    """0 where nodes could hold a job, or why they cannot."""
    best = 2
    for choice in range(shape.others + 1):
        best = min(best, able(shape, shape.mask + choice * (1 + shape.groups), masks, nodes, cards, run))
    return IMPOSSIBLE if best == 2 else DOWN if best == 1 else 0


@inner
def mildest(one, other):
    """Why neither of two choices starts: one that may yet counts more than one that cannot."""
    for never in (IMPOSSIBLE, DOWN):
        if one & never:
            return other
        if other & never:
            return one
    return one | other


@inner
def why_not(shape, mask, count, made, info, masks, nodes, cards, run):
    """Why a job does not start on a choice of nodes, of which `count` fit and `info` more are promised or reserved. Before
    anything is promised, what stands in the way can only be a reservation."""
    state = able(shape, mask, masks, nodes, cards, run) if shape.groups > 0 else 0
    if state == 0 and count >= shape.least:
        return COUNTS if shape.groups > 0 else SWITCHES
    if state == 0 and count + info[0] + info[1] >= shape.least:
        return (BEHIND if info[0] > 0 and made > 0 else 0) | (RESERVED if info[1] > 0 or made == 0 else 0)
    if shape.groups == 0:
        state = able(shape, mask, masks, nodes, cards, run)
    if state == 2:
        return IMPOSSIBLE
    return DOWN if state == 1 else RESOURCES | (RESERVED if info[1] > 0 else 0)
