"""Which of the fitting nodes a gang takes: the lightest, neighbours, one block, the lowest switch and the fewest leaves."""

from __future__ import annotations

import numpy as np

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.counted import counted_neighbours, enough, pick_counted
from flagplotd.sched.kernel.layout import NEVER

SWITCH = np.dtype([("parent", np.int64), ("level", np.int64)])
"""A switch: the one above it (-1: none) and its level (0: a leaf)."""


@inner
def choose(shape, mask, want, masks, found, count, nodes, switches, tally, chosen):
    """Choose from `shape.least` to `want` of the `count` nodes in `found` into `chosen`, for a gang that counts groups up
    to `shape.most`; returns how many, 0 where too few hang together. The nodes are the lightest ones that suffice.

    Changes `found`. `mask` is the row of the nodes' choice. `tally` has room for the switches and twice for the nodes.
    """
    bound, heaviest = NEVER, 0
    for at in range(count):
        weight = nodes[found[at]].weight
        bound, heaviest = min(bound, weight), max(heaviest, weight)
    kept = tally[(tally.shape[0] + switches.shape[0]) // 2 :]
    some, following, several = count, NEVER, bound < heaviest
    for at in range(count if several else 0):
        kept[at] = found[at]
    while True:
        if several:
            some, following = 0, NEVER
            for at in range(count):
                weight = nodes[kept[at]].weight
                if weight <= bound:
                    found[some] = kept[at]
                    some += 1
                else:
                    following = min(following, weight)
        taken = 0
        if some >= shape.least and shape.groups > 0:
            taken = _counted(shape, mask, want, masks, found, some, nodes, switches, tally, chosen)
        elif some >= shape.least and shape.contiguous:
            taken = _neighbours(shape, want, found, some, chosen)
        elif some >= shape.least:
            if shape.switches == 0 or switches.shape[0] == 0:
                # A most of leaves goes before a block, whose nodes may be on more of them.
                some = _one_block(shape, found, some, nodes, tally)
            if switches.shape[0] == 0:
                taken = _fullest(found, some, min(want, some), nodes, chosen, 0)
            else:
                taken = _by_switch(shape, want, found, some, nodes, switches, tally, chosen)
            _sort(chosen, taken)
        if taken >= shape.least:
            return taken
        if following == NEVER:
            return 0
        bound = following


@inner
def _counted(shape, mask, want, masks, found, count, nodes, switches, tally, chosen):
    """As `choose`, of a gang that counts nodes of groups: within the smallest block and the lowest switch that do."""
    if shape.contiguous:
        return counted_neighbours(shape, mask, want, masks, found, count, chosen)
    if not enough(shape, mask, masks, found, count):
        return 0
    blocks = _count_blocks(found, count, nodes, tally)
    while True:
        best = _smallest(shape, tally, blocks)
        if best < 0:
            break
        tally[best] = 0
        kept = 0
        for at in range(count):
            if nodes[found[at]].block == best:
                chosen[kept] = found[at]
                kept += 1
        if enough(shape, mask, masks, chosen, kept):
            for at in range(kept):
                found[at] = chosen[at]
            count = kept
            break
    _count_switches(found, count, nodes, switches, tally)
    while True:
        best = _lowest(shape, switches, tally)
        if best < 0 or (shape.switches > 0 and switches[best].level > 0):
            if shape.switches > 0 and switches.shape[0] > 0:
                return 0
            break
        tally[best] = 0
        kept = 0
        for at in range(count):
            if _under(nodes[found[at]].leaf, best, switches):
                chosen[kept] = found[at]
                kept += 1
        if enough(shape, mask, masks, chosen, kept):
            for at in range(kept):
                found[at] = chosen[at]
            count = kept
            break
    return pick_counted(shape, mask, min(want, count), masks, found, count, nodes, chosen)


@inner
def _sort(chosen, taken):
    """Put the chosen nodes in the order of names, which ranks follow."""
    for at in range(1, taken):
        row, place = chosen[at], at
        while place > 0 and chosen[place - 1] > row:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = row


@inner
def _neighbours(shape, want, found, count, chosen):
    best, best_length, first = -1, NEVER, 0
    for at in range(count):
        if at > 0 and found[at] != found[at - 1] + 1:
            first = at
        if at + 1 == count or found[at + 1] != found[at] + 1:
            length = at + 1 - first
            if shape.least <= length < best_length:
                best, best_length = first, length
    if best < 0:
        return 0
    taken = min(want, best_length)
    for at in range(taken):
        chosen[at] = found[best + at]
    return taken


@inner
def _count_blocks(found, count, nodes, tally):
    """Count the nodes of each block into `tally`; returns how many blocks there are."""
    blocks = 0
    for at in range(count):
        blocks = max(blocks, nodes[found[at]].block + 1)
    tally[:blocks] = 0
    for at in range(count):
        if nodes[found[at]].block >= 0:
            tally[nodes[found[at]].block] += 1
    return blocks


@inner
def _smallest(shape, tally, blocks):
    """The block with the fewest nodes that suffice (-1: none)."""
    best, best_count = -1, NEVER
    for block in range(blocks):
        if shape.least <= tally[block] < best_count:
            best, best_count = block, tally[block]
    return best


@inner
def _one_block(shape, found, count, nodes, tally):
    """Keep only the nodes of the smallest block that suffices, if one does."""
    best = _smallest(shape, tally, _count_blocks(found, count, nodes, tally))
    if best < 0:
        return count
    kept = 0
    for at in range(count):
        if nodes[found[at]].block == best:
            found[kept] = found[at]
            kept += 1
    return kept


@inner
def _fullest(found, count, want, nodes, chosen, taken):
    """Add `want` nodes to the `taken` chosen ones, the lightest first, of them those with the fewest whole GPUs free."""
    goal, level = taken + want, 0
    while taken < goal:
        following = NEVER
        for at in range(count):
            key = (nodes[found[at]].weight << 20) + nodes[found[at]].whole
            if key == level and taken < goal:
                chosen[taken] = found[at]
                taken += 1
            elif level < key < following:
                following = key
        if following == NEVER:
            break
        level = following
    return taken


@inner
def _under(leaf, switch, switches):
    while leaf >= 0 and leaf != switch:
        leaf = switches[leaf].parent
    return leaf == switch


@inner
def _count_switches(found, count, nodes, switches, tally):
    """Count the nodes below each switch into `tally`."""
    tally[: switches.shape[0]] = 0
    for at in range(count):
        switch = nodes[found[at]].leaf
        while switch >= 0:
            tally[switch] += 1
            switch = switches[switch].parent


@inner
def _lowest(shape, switches, tally):
    """The lowest switch, of them the one with the fewest, that joins enough nodes (-1: none)."""
    best = -1
    for switch in range(switches.shape[0]):
        if tally[switch] < shape.least:
            continue
        if (
            best < 0
            or switches[switch].level < switches[best].level
            or (switches[switch].level == switches[best].level and tally[switch] < tally[best])
        ):
            best = switch
    return best


@inner
def _leaves(shape, top, switches, tally):
    """The fewest leaves below a switch that have enough nodes."""
    left, leaves = shape.least, 0
    while left > 0:
        best = -1
        for leaf in range(switches.shape[0]):
            if switches[leaf].level == 0 and tally[leaf] > 0 and _under(leaf, top, switches):
                if best < 0 or tally[leaf] > tally[best]:
                    best = leaf
        left -= tally[best]
        # Negative ones are counted already.
        tally[best] = -tally[best]
        leaves += 1
    for leaf in range(switches.shape[0]):
        tally[leaf] = abs(tally[leaf])
    return leaves


@inner
def _by_switch(shape, want, found, count, nodes, switches, tally, chosen):
    _count_switches(found, count, nodes, switches, tally)
    top = _lowest(shape, switches, tally)
    while shape.switches > 0 and top >= 0 and _leaves(shape, top, switches, tally) > shape.switches:
        tally[top] = 0
        top = _lowest(shape, switches, tally)
    if top < 0 and shape.switches > 0:
        return 0
    if top < 0:
        return _fullest(found, count, min(want, count), nodes, chosen, 0)
    taken = 0
    room = tally[switches.shape[0] :]
    while taken < shape.least:
        left, best = shape.least - taken, -1
        for leaf in range(switches.shape[0]):
            if switches[leaf].level != 0 or tally[leaf] <= 0 or not _under(leaf, top, switches):
                continue
            if best < 0:
                best = leaf
            elif tally[best] >= left:
                if left <= tally[leaf] < tally[best]:
                    best = leaf
            elif tally[leaf] > tally[best]:
                best = leaf
        if best < 0:
            return 0
        kept = 0
        for at in range(count):
            if nodes[found[at]].leaf == best:
                room[kept] = found[at]
                kept += 1
        tally[best] = 0
        taken = _fullest(room, kept, min(want - taken, kept), nodes, chosen, taken)
    return taken
