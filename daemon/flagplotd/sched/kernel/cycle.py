"""One pass over the pending jobs in order: start what fits, give the first blocked ones a place in time, fill in behind.

A planned start takes its part of its nodes' timelines, so that nothing behind it may delay it. EASY backfill plans the
first K blocked jobs (Mu'alem and Feitelson, 2001), conservative backfill all of them.

What was planned is a promise that the next cycle knows. In EASY it only decides between places at the same moment, and
where a job starts when its time has come, so that a start gets later through jobs in front of it alone. Conservative backfill holds promises: in the order of the jobs
each is given back, and gets an earlier start where there is one, else the one it had.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from flagplotd.sched.kernel.compiler import OPTIONS, inner
from flagplotd.sched.kernel.fit import cpus_of, memory_of, pick, take_cores
from flagplotd.sched.kernel.gang import choose
from flagplotd.sched.kernel.layout import (
    AT_CPU,
    AT_MEM,
    AT_PART,
    DOWN,
    IMPOSSIBLE,
    LEVELS,
    LICENSE,
    LIMIT,
    MEM_UNIT,
    NEVER,
    RESOURCES,
    TIMES,
    USED,
)
from flagplotd.sched.kernel.promises import can_keep, promise, put_in, recall, row_for, take_out
from flagplotd.sched.kernel.search import ONE, best_node, scan, when_and_where
from flagplotd.sched.kernel.timeline import add_event, bound_node, cores_in, window
from flagplotd.sched.kernel.why import ever, mildest, why_not

PASSES = 16
"""How often all promises are tried at the most in one cycle."""


@inner
def refresh(nodes, free, g_free, cards, row):
    """Bring what follows from what a node has free up to date."""
    whole, part = 0, 0
    for gpu in range(g_free.shape[1]):
        whole += cards[row, gpu].of > 0 and g_free[row, gpu] == cards[row, gpu].of
        if g_free[row, gpu] < cards[row, gpu].of:
            part = max(part, g_free[row, gpu])
    nodes[row].whole, nodes[row].part = whole, part
    up, cpu, mem = nodes[row].up, nodes[row].cpu, nodes[row].mem
    bit = ONE << np.uint64(row & 63)
    for level in range(LEVELS):
        if level < AT_CPU:
            there = whole >= level
        elif level < AT_PART:
            there = cpu >= 1 << (level - AT_CPU)
        elif level < AT_MEM:
            there = part >= 1 << (level - AT_PART)
        else:
            there = mem >= MEM_UNIT << (level - AT_MEM)
        if up and there:
            free[level, row >> 6] |= bit
        else:
            free[level, row >> 6] &= ~bit


@njit(**OPTIONS)
def prepare(now, count, nodes, free, g_free, cards, events, e_gpu, when, first, run):
    """Make a snapshot's arrays ready: no job ends before the next second, what is free and the bounds are known."""
    for event in range(events.shape[0]):
        if events[event].sign > 0 and events[event].shut == 0 and events[event].res < 0 and events[event].time <= now:
            events[event].time = now + 1
    first[:] = NEVER
    for row in range(count):
        refresh(nodes, free, g_free, cards, row)
        bound_node(nodes, g_free, cards, events, e_gpu, row, now, when, first, run)


@inner
def over(chain, need, c_first, c_scope, used, most):
    """The first limit, as scope × USED + counter, that a start would exceed (-1: none)."""
    for at in range(c_first[chain], c_first[chain + 1]):
        scope = c_scope[at]
        for place in range(USED):
            if most[scope, place] >= 0 and need[place] > 0 and used[scope, place] + need[place] > most[scope, place]:
                return scope * USED + place
    return -1


@inner
def seats_now(shape, now, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
    """Whether the licenses of a job are free for its whole limit."""
    for index in range(shape.licenses):
        row = licenses + shape.license[index]
        open_ = window(nodes, g_free, events, e_gpu, row, now, now + shape.limit, shape.res, room, room_gpu, run)
        if not open_ or room[0] < shape.seats[index]:
            return False
    return True


@inner
def take(job, now, shape, taken, promised, first_row, nodes, free, g_free, cards, c_numa, events, e_gpu, tail, when, first, room,
         room_gpu, run, gpus, chosen, licenses, out, out_gpu):  # fmt: skip
    """Start a job on the chosen nodes: what it takes is gone until its limit is over. `promised` is the first event of a
    promise whose GPUs it takes (-1: those that are best now). Writes a row of `out` (job, node, 1 for the first part)
    for each."""
    for part in range(taken):
        row = chosen[part]
        node = nodes[row]
        there = g_free[row]
        if node.takes > 0:
            window(nodes, g_free, events, e_gpu, row, now, now + shape.limit, shape.res, room, room_gpu, run)
            there = room_gpu
        cores = c_numa[row]
        if shape.near and node.takes > 0:
            cores = room[2:]
            cores_in(nodes, c_numa, events, e_gpu, row, now, now + shape.limit, shape.res, gpus.shape[0], cores)
        if promised >= 0:
            for gpu in range(gpus.shape[0]):
                gpus[gpu] = -e_gpu[promised + 2 * part, gpu]
        else:
            pick(shape, there, cards[row], cores, gpus)
        cpu, mem = cpus_of(shape, node), memory_of(shape, node)
        node.cpu -= cpu
        node.mem -= mem
        out[first_row + part, 0], out[first_row + part, 1], out[first_row + part, 2] = job, row, part == 0
        for gpu in range(gpus.shape[0]):
            g_free[row, gpu] -= gpus[gpu]
            out_gpu[first_row + part, gpu] = gpus[gpu]
        add_event(nodes, events, e_gpu, row, tail[0], now + shape.limit, 1, cpu, mem, gpus, -1, -1)
        take_cores(cpu, gpus, cards[row], c_numa[row], e_gpu[tail[0], gpus.shape[0] :], 1)
        tail[0] += 1
        refresh(nodes, free, g_free, cards, row)
        bound_node(nodes, g_free, cards, events, e_gpu, row, now, when, first, run)
    gpus[:] = 0
    for index in range(shape.licenses):
        row = licenses + shape.license[index]
        nodes[row].cpu -= shape.seats[index]
        add_event(nodes, events, e_gpu, row, tail[0], now + shape.limit, 1, shape.seats[index], 0, gpus, -1, -1)
        tail[0] += 1


@inner
def begin(now, shape, made, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu, run, found,
          tally, chosen, info, switches, typical, licenses):  # fmt: skip
    """The nodes of a job that can start now into `chosen`: (how many, 0) or (0, why none can)."""
    if now < shape.opens or now + shape.limit > shape.closes:
        return 0, TIMES | ever(shape, masks, nodes, cards, run)
    if not seats_now(shape, now, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
        return 0, LICENSE | ever(shape, masks, nodes, cards, run)
    why = IMPOSSIBLE
    for choice in range(shape.others + 1):
        mask, count = shape.mask + choice * (1 + shape.groups), 0
        if shape.most == 1:
            row = best_node(shape, now, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu, run,
                            info, typical)  # fmt: skip
            if row >= 0:
                chosen[0] = row
                return 1, 0
        else:
            count = scan(shape, mask, now, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu,
                         run, found, info)  # fmt: skip
        if count >= shape.least:
            taken = choose(shape, mask, shape.most, masks, found, count, nodes, switches, tally, chosen)
            if taken >= shape.least:
                return taken, 0
        why = mildest(why, why_not(shape, mask, count, made, info, masks, nodes, cards, run))
    return 0, why


@inner
def when_next(job, one, hold, now, shape, masks, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, switches, levels,
              room, room_gpu, run, times, gpus, found, tally, chosen, licenses):  # fmt: skip
    """Promise a job its earliest start; that of before, in the same place, where nothing is earlier. Returns the moment
    (NEVER: none is known). With `hold` that of before is taken untried where it can be had."""
    old = max(one.time, now if hold else now + 1)
    kept = one.time < NEVER and can_keep(
        one, old, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run
    )
    time, taken = NEVER, 0
    if not (kept and (hold or old == now + 1)):
        time, taken = when_and_where(shape, now, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, first, switches, levels,
                                     room, room_gpu, run, times, found, tally, chosen, licenses)  # fmt: skip
    if kept and old <= time:
        put_in(one, old, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run)
    elif time < NEVER and tail[0] + 2 * (taken + shape.licenses) <= events.shape[0]:
        promise(job, one, time, now, shape, taken, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, room,
                room_gpu, run, gpus, chosen, licenses)  # fmt: skip
    else:
        one.time = NEVER
    return one.time


@inner
def hold_all(now, jobs, held, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, c_first,
             c_scope, used, most, switches, typical, licenses, room, room_gpu, run, gpus, levels, times, found, tally, chosen,
             info):  # fmt: skip
    """Put all promises of before into the timelines, in the order of the jobs: one that cannot be held is made anew,
    around those in front of it. Urgent jobs get theirs as if there were none behind them."""
    for job in range(jobs.shape[0]):
        if jobs[job].held < 0 and not jobs[job].urgent:
            continue
        shape, at = shapes[jobs[job].shape], row_for(jobs, job, held, tail)
        if at < 0 or over(jobs[job].chain, shape.need, c_first, c_scope, used, most) >= 0:
            continue
        one, taken = held[at], 0
        if jobs[job].urgent:
            one.time = NEVER
            taken, _ = begin(now, shape, 0, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room, room_gpu,
                             run, found, tally, chosen, info, switches, typical, licenses)  # fmt: skip
        if taken > 0 and tail[0] + 2 * (taken + shape.licenses) <= events.shape[0]:
            promise(job, one, now, now, shape, taken, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, room,
                    room_gpu, run, gpus, chosen, licenses)  # fmt: skip
        else:
            when_next(job, one, True, now, shape, masks, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first,
                      switches, levels, room, room_gpu, run, times, gpus, found, tally, chosen, licenses)  # fmt: skip


@inner
def as_promised(one, now, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run, chosen):
    """The nodes of a promise that is due into `chosen`, so that a start at its time is not in the way of those promised
    behind it: (how many, 0 where they cannot be had or more nodes are welcome)."""
    if one.time > now or one.parts < shape.most:
        return 0
    if not can_keep(one, now, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
        return 0
    for part in range(one.parts):
        chosen[part] = events[one.first + 2 * part].row
    return one.parts


@inner
def start_job(job, rows, made, again, now, jobs, held, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when,
              first, c_first, c_scope, used, most, switches, typical, licenses, failed, room, room_gpu, run, gpus, levels, found, tally,
              chosen, info, out, out_gpu, answers):  # fmt: skip
    """Start a job, or as many elements of an array as may; (rows of `out` written by now, the limit that stops it or -1).
    With `again` it is tried although others of its shape failed."""
    kind, chain, answer, at = jobs[job].shape, jobs[job].chain, answers[job], jobs[job].held
    shape, scope = shapes[kind], -1
    while answer.started < jobs[job].count:
        scope = over(chain, shape.need, c_first, c_scope, used, most)
        if scope >= 0 or (failed[kind] != 0 and not again):
            break
        if rows + shape.most > out.shape[0] or tail[0] + shape.most + shape.licenses > events.shape[0]:
            failed[kind] = RESOURCES
            break
        taken, why, promised = 0, 0, -1
        if at >= 0 and answer.started == 0:
            taken = as_promised(
                held[at], now, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run, chosen
            )
        if taken > 0:
            promised = held[at].first
        else:
            taken, why = begin(now, shape, made, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, levels, room,
                               room_gpu, run, found, tally, chosen, info, switches, typical, licenses)  # fmt: skip
        if taken == 0:
            failed[kind] = why
            break
        take(job, now, shape, taken, promised, rows, nodes, free, g_free, cards, c_numa, events, e_gpu, tail, when, first, room,
             room_gpu, run, gpus, chosen, licenses, out, out_gpu)  # fmt: skip
        rows += taken
        answer.started += 1
        for place in range(c_first[chain], c_first[chain + 1]):
            for counter in range(USED):
                used[c_scope[place], counter] += shape.need[counter]
    return rows, scope


@njit(**OPTIONS)
def cycle(now, reservations, firm, jobs, held, kept, kept_gpu, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu,
          tail, when, first, c_first, c_scope, used, most, switches, typical, licenses, failed, room, room_gpu, run, gpus, levels,
          times, found, tally, chosen, info, out, out_gpu, answers):  # fmt: skip
    """Plan all jobs, given in their order; returns the rows of `out` written. `failed` is, by shape, 0 or why none starts
    any more in this pass. `tail` counts the events and the rows of `held`, which are promises made before to begin with.

    With `firm` no job gets a start that is later than promised before, but for what stands in front of it (`hold_all`):
    all are tried again for as long as any of them gets an earlier one, so that what that frees is used.
    """
    recall(jobs, held, shapes, kept, kept_gpu, nodes, events, e_gpu, tail, gpus, licenses)
    if firm:
        hold_all(now, jobs, held, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, c_first,
                 c_scope, used, most, switches, typical, licenses, room, room_gpu, run, gpus, levels, times, found, tally, chosen,
                 info)  # fmt: skip
    rows, moved, passes = 0, True, 0
    while moved and passes < PASSES:
        made, moved, passes = 0, False, passes + 1
        failed[:] = 0
        for job in range(jobs.shape[0]):
            kind, answer = jobs[job].shape, answers[job]
            if answer.started >= jobs[job].count:
                continue
            shape, at, linked = shapes[kind], jobs[job].held, False
            if at >= 0 and held[at].linked:
                linked = True
                take_out(held[at], now, shape, nodes, g_free, cards, events, e_gpu, when, first, run)
            scope = over(jobs[job].chain, shape.need, c_first, c_scope, used, most)
            if scope < 0 and (linked or failed[kind] == 0):
                rows, scope = start_job(
                    job, rows, made, linked, now, jobs, held, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu, tail,
                    when, first, c_first, c_scope, used, most, switches, typical, licenses, failed, room, room_gpu, run, gpus, levels,
                    found, tally, chosen, info, out, out_gpu, answers,
                )  # fmt: skip
            moved |= linked and answer.started > 0
            if at >= 0 and answer.started > 0:
                held[at].time = NEVER
            if answer.started >= jobs[job].count:
                continue
            answer.bits, answer.scope, answer.start = (LIMIT if scope >= 0 else 0) | failed[kind], scope, 0
            stuck = made >= reservations or scope >= 0 or failed[kind] & (DOWN | IMPOSSIBLE) != 0
            at = -1 if stuck else row_for(jobs, job, held, tail)
            if at < 0:
                moved |= linked
                continue
            made += 1
            before = held[at].time
            time = when_next(job, held[at], False, now, shape, masks, nodes, g_free, cards, c_numa, events, e_gpu, tail, when,
                             first, switches, levels, room, room_gpu, run, times, gpus, found, tally, chosen,
                             licenses)  # fmt: skip
            moved |= linked and time != before
            if time < NEVER:
                answer.start, answer.node = time, events[held[at].first].row
    return rows
