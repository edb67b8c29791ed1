"""Gangs whose constraint counts nodes of several groups (`[rack1*2&rack2*4]`): which of the fitting nodes have what is
counted. They allocate a few numbers for each set of groups, which other shapes do not need."""

from __future__ import annotations

import numpy as np

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.layout import NEVER


@inner
def groups_of(shape, mask, masks, row):
    """The groups that a node is in, as bits; `mask` is the row of the choice."""
    bits = 0
    for group in range(shape.groups):
        bits |= np.int64(masks[mask + 1 + group, row >> 6] >> np.uint64(row & 63) & np.uint64(1)) << group
    return bits


@inner
def count_node(bits, cover, step):
    """Add `step` to the sets of groups that a node in the groups `bits` has a part in."""
    for some in range(1, cover.shape[0]):
        if some & bits:
            cover[some] += step


@inner
def covered(shape, quota, cover, most):
    """Whether nodes, of which `cover[some]` are in any group of the set `some`, have the `quota` of each group.

    Apart they do where every set of groups has enough nodes together (Hall, 1935). Else at most `most` nodes may be
    taken, which matters for two groups alone: more of them count no more nodes than the job has.
    """
    for some in range(1, cover.shape[0]):
        if not shape.apart and some & (some - 1):
            continue
        wanted = 0
        for group in range(shape.groups):
            if some >> group & 1:
                wanted += quota[group]
        if cover[some] < wanted:
            return False
    if shape.apart or shape.groups != 2:
        return True
    twice = min(cover[1] + cover[2] - cover[3], quota[0], quota[1])
    return quota[0] + quota[1] - twice <= most


@inner
def enough(shape, mask, masks, found, count):
    """Whether the first `count` nodes of `found` are at least `least` and have what is counted."""
    if count < shape.least:
        return False
    cover = np.zeros(1 << shape.groups, np.int64)
    for at in range(count):
        count_node(groups_of(shape, mask, masks, found[at]), cover, 1)
    return covered(shape, shape.quota, cover, shape.most)


@inner
def counted_neighbours(shape, mask, want, masks, found, count, chosen):
    """The first neighbours that have what is counted into `chosen`: as many as `want` rather than fewer, else the fewest
    that do; returns how many."""
    for turn in range(shape.most - shape.least + 1):
        size = want - turn if want - turn >= shape.least else shape.least + turn
        for first in range(count - size + 1):
            if found[first + size - 1] - found[first] != size - 1:
                continue
            if enough(shape, mask, masks, found[first : first + size], size):
                for at in range(size):
                    chosen[at] = found[first + at]
                return size
    return 0


@inner
def pick_counted(shape, mask, want, masks, found, count, nodes, chosen):
    """Choose nodes that have what is counted, and others up to `want`, from the first `count` of `found`, which are
    `enough`: the lightest and fullest first. Returns how many."""
    order, bits = np.zeros(count, np.int64), np.zeros(count, np.int64)
    placed, level = 0, -1
    while placed < count:
        following = NEVER
        for at in range(count):
            key = (nodes[found[at]].weight << 20) + nodes[found[at]].whole
            if key == level:
                order[placed], bits[at] = at, groups_of(shape, mask, masks, found[at])
                placed += 1
            elif level < key < following:
                following = key
        level = following
    used, quota = np.zeros(count, np.uint8), shape.quota.copy()
    taken = _apart(shape, order, bits, quota, used) if shape.apart else _together(shape, order, bits, quota, used)
    for at in order:
        if taken < want and not used[at]:
            used[at] = 1
            taken += 1
    place = 0
    for at in range(count):
        if used[at]:
            chosen[place] = found[at]
            place += 1
    return taken


@inner
def _apart(shape, order, bits, quota, used):
    """Use a node where those after it have what is wanted then, each in one group."""
    cover = np.zeros(1 << shape.groups, np.int64)
    for at in order:
        count_node(bits[at], cover, 1)
    taken = 0
    for at in order:
        count_node(bits[at], cover, -1)
        for group in range(shape.groups):
            if bits[at] >> group & 1 and quota[group] > 0 and not used[at]:
                quota[group] -= 1
                if covered(shape, quota, cover, 0):
                    used[at] = 1
                    taken += 1
                else:
                    quota[group] += 1
    return taken


@inner
def _together(shape, order, bits, quota, used):
    """Use the nodes first that are in most of the groups of which some are wanted."""
    taken = 0
    for many in range(shape.groups, 0, -1):
        for at in order:
            wanted = 0
            for group in range(shape.groups):
                wanted += bits[at] >> group & 1 and quota[group] > 0
            if used[at] or wanted < many:
                continue
            used[at] = 1
            taken += 1
            for group in range(shape.groups):
                if bits[at] >> group & 1:
                    quota[group] -= 1
    return taken
