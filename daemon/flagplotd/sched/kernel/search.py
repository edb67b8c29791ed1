"""Which nodes a job starts on now, and when and where it could start at the earliest."""

from __future__ import annotations

import numpy as np

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.fit import cpus_of, fits, near_enough, pick
from flagplotd.sched.kernel.gang import choose
from flagplotd.sched.kernel.layout import (
    AT_CPU,
    AT_MEM,
    AT_PART,
    CPU_LEVELS,
    GPU_LEVELS,
    MEM_LEVELS,
    MEM_UNIT,
    NEVER,
    PART_LEVELS,
)
from flagplotd.sched.kernel.price import alike, price
from flagplotd.sched.kernel.timeline import cores_in, earliest_on, log2, near_at, window

ONE = np.uint64(1)
ENOUGH, PRICED = 8, 32
"""Nodes of one tier that are looked at, and nodes that are priced, for one job."""
TRIES = 64
"""Moments tried for a gang whose nodes must hang together before it is left without a planned start."""


@inner
def fits_now(shape, row, now, nodes, g_free, cards, c_numa, events, e_gpu, room, room_gpu, run):
    """0: a part does not fit on the node; 1: it does; 2: it would delay a planned start; 3: a reservation is near."""
    node = nodes[row]
    room[0], room[1] = node.cpu, node.mem
    if not fits(shape, node, room, g_free[row], cards[row]):
        return 0
    if node.takes > 0:
        if not window(nodes, g_free, events, e_gpu, row, now, now + shape.limit, shape.res, room, room_gpu, run):
            return 3
        if not fits(shape, node, room, room_gpu, cards[row]):
            return 2
    near = shape.near and shape.gpus + shape.shards + shape.vram > 0
    if near or node.takes_cores > 0:
        for gpu in range(room_gpu.shape[0] if node.takes == 0 else 0):
            room_gpu[gpu] = g_free[row, gpu]
        cores = room[2:]
        cores_in(nodes, c_numa, events, e_gpu, row, now, now + shape.limit, shape.res, room_gpu.shape[0], cores)
        pick(shape, room_gpu, cards[row], cores if near else c_numa[row], run)
        if near and not near_enough(shape, run, cards[row], cores):
            return 0
        if node.takes_cores > 0 and not _leaves_cores(cpus_of(shape, node), run, cards[row], c_numa[row], cores):
            return 2
    return 1


@inner
def _leaves_cores(cpu, gpus, cards, free, cores):
    """Whether CPUs that are taken of those `free` by NUMA domain, first beside the chosen GPUs, are among the `cores` that
    stay free: they are not promised to a job that wants them near its GPUs."""
    left = cpu
    for near in (True, False):
        for domain in range(cores.shape[0]):
            used = False
            for gpu in range(gpus.shape[0]):
                used |= gpus[gpu] > 0 and cards[gpu].numa == domain
            if used == near:
                some = min(left, free[domain])
                left -= some
                if some > cores[domain]:
                    return False
    return True


@inner
def scan(
    shape, mask, now, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu, run, found, info
):
    """All nodes of a choice on which a part fits now, in their order, into `found`; returns how many.

    `info` counts the nodes that fit but for a planned start (0) or a reservation (1).
    """
    count = 0
    info[0], info[1] = 0, 0
    levels_of(shape, levels)
    for block in range(masks.shape[1]):
        word = masks[mask, block] & free[levels[0], block] & free[levels[1], block] & free[levels[3], block]
        row = block << 6
        while word != 0:
            if word & ONE and nodes[row].cpu >= shape.cpu:
                answer = fits_now(shape, row, now, nodes, g_free, cards, c_numa, events, e_gpu, room, room_gpu, run)
                if answer >= 2:
                    info[answer - 2] += 1
                elif answer == 1:
                    found[count] = row
                    count += 1
            word >>= ONE
            row += 1
    return count


@inner
def best_node(shape, now, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu, run, info,
              typical):  # fmt: skip
    """The node on which a job on one node starts now (-1: none): of the lightest, the one of the least price, of equal ones
    the first. Looked at are the first `ENOUGH` of each tier until `PRICED` had different prices; tiers go from nodes with
    little free to those with much, by shared GPUs, then by whole ones."""
    info[0], info[1] = 0, 0
    levels_of(shape, levels)
    share = shape.shards > 0 or shape.vram > 0
    if not _any(shape, masks, free, levels, 1 if share else levels[0]) and not (
        share and _any(shape, masks, free, levels, levels[2])
    ):
        return -1
    weight = 0
    while weight < NEVER:
        best, least, priced, following = -1, NEVER, 0, NEVER
        tier = levels[2] if shape.shards > 0 or shape.vram > 0 else levels[0]
        while tier >= 0 and priced < PRICED:
            seen, last, above = 0, -1, _above(tier)
            for block in range(masks.shape[1]):
                word = masks[shape.mask, block] & free[tier, block] & free[levels[1], block] & free[levels[3], block]
                if above >= 0:
                    word &= ~free[above, block]
                row = block << 6
                while word != 0 and seen < ENOUGH:
                    if word & ONE and nodes[row].cpu >= shape.cpu:
                        answer = 0
                        if nodes[row].weight > weight:
                            following = min(following, nodes[row].weight)
                        elif nodes[row].weight == weight:
                            answer = fits_now(
                                shape, row, now, nodes, g_free, cards, c_numa, events, e_gpu, room, room_gpu, run
                            )
                        if answer >= 2:
                            info[answer - 2] += 1
                        elif answer == 1:
                            seen += 1
                            if last < 0 or not alike(typical, row, last, masks, nodes, g_free, cards):
                                priced += 1
                                last = row
                                there = room_gpu if nodes[row].takes > 0 else g_free[row]
                                cost = price(
                                    typical, shape, row, masks, nodes[row], g_free[row], there, cards[row], run
                                )
                                if cost < least:
                                    best, least = row, cost
                    word >>= ONE
                    row += 1
                if seen >= ENOUGH:
                    break
            # Shares go on to whole GPUs when no shared one has room.
            tier = above if above >= 0 else (1 if tier >= AT_PART else -1)
        if best >= 0:
            return best
        weight = following
    return -1


@inner
def _any(shape, masks, free, levels, tier):
    """Whether any node has at least what a tier and the other bounds ask."""
    for block in range(masks.shape[1]):
        word = masks[shape.mask, block] & free[tier, block] & free[levels[1], block] & free[levels[3], block]
        if word != 0:
            return True
    return False


@inner
def _above(tier):
    """The next tier of its kind (-1: it is the last)."""
    last = tier == GPU_LEVELS - 1 or tier == AT_PART + PART_LEVELS - 1
    return -1 if last else tier + 1


@inner
def levels_of(shape, levels):
    """The rows of `free` and `when` that bound a shape from below: GPUs, CPUs, shares and memory."""
    levels[0] = min(shape.gpus, GPU_LEVELS - 1)
    levels[1] = AT_CPU + log2(max(shape.cpu, 1), CPU_LEVELS)
    levels[2], levels[3] = levels[1], levels[1]
    if shape.shards > 0 or shape.vram > 0:
        levels[2] = AT_PART + log2(max(shape.shards, 1), PART_LEVELS)
    if shape.mem >= MEM_UNIT:
        levels[3] = AT_MEM + log2(shape.mem // MEM_UNIT, MEM_LEVELS)


@inner
def bound(shape, table, column, levels):
    """The latest of a column's bounds for a shape."""
    return max(table[levels[0], column], table[levels[1], column], table[levels[2], column])


@inner
def first_start(shape, mask, least, start, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, first, levels, room, room_gpu, run,
                times):  # fmt: skip
    """The moment from `start` on before which fewer than `least` nodes of a mask fit a part, and the node that fits it first."""
    levels_of(shape, levels)
    held, best, blind = 0, -1, shape.res >= 0
    for block in range(masks.shape[1]):
        word = masks[mask, block]
        if held == least and not blind and max(start, bound(shape, first, block, levels)) >= times[0]:
            continue
        row = block << 6
        while word != 0:
            if word & ONE and nodes[row].up:
                time = start if blind else max(start, bound(shape, when, row, levels))
                if time < NEVER and (held < least or time < times[0]):
                    before = times[0] if held == least else NEVER
                    time = earliest_on(
                        shape, nodes, g_free, cards, c_numa, events, e_gpu, row, time, before, room, room_gpu, run
                    )
                    if time < NEVER and (held < least or time < times[0]):
                        held = _keep(times, held, least, time)
                        best = row
            word >>= ONE
            row += 1
    if held < least:
        return NEVER, -1
    return times[0], best


@inner
def _keep(times, held, least, time):
    """Keep the `least` smallest moments as a heap, the latest of them first; returns how many are held."""
    if held < least:
        at = held
        while at > 0 and times[(at - 1) >> 1] < time:
            times[at] = times[(at - 1) >> 1]
            at = (at - 1) >> 1
        times[at] = time
        return held + 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= held:
            break
        if child + 1 < held and times[child + 1] > times[child]:
            child += 1
        if times[child] <= time:
            break
        times[at] = times[child]
        at = child
    times[at] = time
    return held


@inner
def fitting_at(
    shape,
    mask,
    time,
    masks,
    nodes,
    g_free,
    cards,
    c_numa,
    events,
    e_gpu,
    when,
    first,
    levels,
    room,
    room_gpu,
    run,
    found,
):
    """The nodes of a choice on which a part fits from `time` for its whole limit, in their order; returns how many."""
    levels_of(shape, levels)
    count, blind = 0, shape.res >= 0
    for block in range(masks.shape[1]):
        word = masks[mask, block]
        if not blind and bound(shape, first, block, levels) > time:
            continue
        row = block << 6
        while word != 0:
            if word & ONE and nodes[row].up and (blind or bound(shape, when, row, levels) <= time):
                fine = window(
                    nodes, g_free, events, e_gpu, row, time, time + shape.limit, shape.res, room, room_gpu, run
                )
                fine = fine and fits(shape, nodes[row], room, room_gpu, cards[row])
                if fine and shape.near:
                    fine = near_at(shape, nodes, cards, c_numa, events, e_gpu, row, time, time + shape.limit, room, room_gpu,
                                   run)  # fmt: skip
                if fine:
                    found[count] = row
                    count += 1
            word >>= ONE
            row += 1
    return count


@inner
def seats_from(shape, start, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
    """The earliest moment from `start` on at which all licenses of a job are free for its whole limit."""
    time = start
    moved = True
    while moved:
        moved = False
        for index in range(shape.licenses):
            row, seats = licenses + shape.license[index], shape.seats[index]
            at = nodes[row].head
            while True:
                open_ = window(
                    nodes, g_free, events, e_gpu, row, time, time + shape.limit, shape.res, room, room_gpu, run
                )
                if open_ and room[0] >= seats:
                    break
                while at >= 0 and (events[at].time <= time or events[at].sign < 0):
                    at = events[at].next
                if at < 0:
                    return NEVER
                time, moved = events[at].time, True
    return time


@inner
def when_and_where(shape, now, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, first, switches, levels, room, room_gpu, run,
                   times, found, tally, chosen, licenses):  # fmt: skip
    """The earliest start of a job after `now` and its nodes into `chosen`: (moment, how many). NEVER: none is known.
    Of several choices of nodes the first that starts earliest is taken."""
    best, last, soonest, taken = -1, -1, NEVER, 0
    # After the last choice the best one is looked at again, where another came after it.
    for turn in range(shape.others + 2):
        choice = turn if turn <= shape.others else best
        if choice == last:
            break
        mask, start, time, count = shape.mask + choice * (1 + shape.groups), max(now + 1, shape.opens), NEVER, 0
        for _ in range(TRIES):
            moment, row, free = start, -1, start
            for group in range(-1, shape.groups):
                least = shape.least if group < 0 else shape.quota[group]
                free, node = first_start(shape, mask + 1 + group, least, free, masks, nodes, g_free, cards, c_numa, events,
                                         e_gpu, when, first, levels, room, room_gpu, run, times)  # fmt: skip
                if free >= NEVER:
                    break
                if group < 0:
                    moment, row = free, node
            if free < NEVER and shape.licenses > 0:
                free = seats_from(shape, free, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run)
            if free >= NEVER or free + shape.limit > shape.closes:
                break
            if free > moment:
                start = free
                continue
            if shape.least == 1 and shape.groups == 0 and nodes[row].weight == 0:
                time, count, chosen[0] = moment, 1, row
                break
            fit = fitting_at(shape, mask, moment, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, first, levels,
                             room, room_gpu, run, found)  # fmt: skip
            if fit >= shape.least:
                count = choose(shape, mask, shape.least, masks, found, fit, nodes, switches, tally, chosen)
            if count >= shape.least:
                time = moment
                break
            start = _next_release(mask, moment, masks, nodes, events)
            if start >= NEVER:
                break
        if time < NEVER:
            last = choice
        if time < soonest:
            best, soonest, taken = choice, time, count
    return soonest, taken


@inner
def _next_release(mask, time, masks, nodes, events):
    """The first moment after `time` at which something is given back on a node of a choice."""
    following = NEVER
    for block in range(masks.shape[1]):
        word = masks[mask, block]
        row = block << 6
        while word != 0:
            if word & ONE:
                at = nodes[row].head
                while at >= 0 and (events[at].time <= time or events[at].sign < 0):
                    at = events[at].next
                if at >= 0:
                    following = min(following, events[at].time)
            word >>= ONE
            row += 1
    return following
