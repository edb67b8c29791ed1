"""What starts on a node where something has become free, on the arrays that the last cycle left.

The plan of that cycle stands, with its jobs in their order, less what started since. On the node a job starts where

- it fits now beside all that runs, and for its whole limit beside what is planned there: no planned start gets later. Where
  it is planned itself, only what is planned for jobs in front of it counts;
- no job in front of it fits there now, and none that is planned could be planned there for earlier than it is.

Just after a cycle that is what a whole cycle of the same moment would start there. Else nothing starts, and it is left to a
whole cycle, where one node does not tell: a job on several nodes, or with licenses, or whose constraint leaves choices, that
could use this node sooner; a planned job that could move here from its place, or was to start by now and has not, since what
it waits for is late; limits that stop many jobs of one shape.
From then on, on every node, none behind such a planned job starts: where it goes, they may lose their places. Once a planned
job has started, only planned ones do: a whole cycle would plan one more, which those behind may not delay.

What changed beside the node (jobs that came, changed or became eligible, limits that were reached and are not any more) is
for the caller to know.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from flagplotd.sched.kernel.compiler import OPTIONS, inner
from flagplotd.sched.kernel.cycle import over, refresh, take
from flagplotd.sched.kernel.layout import (
    AT_CPU,
    AT_MEM,
    CPU_LEVELS,
    GPU_LEVELS,
    MEM_LEVELS,
    MEM_UNIT,
    NEVER,
    USED,
)
from flagplotd.sched.kernel.promises import part_there, take_out
from flagplotd.sched.kernel.search import ONE, fits_now
from flagplotd.sched.kernel.timeline import bound_row, earliest_on, link, log2, unlink

NO, STARTS, UNKNOWN = range(3)
ALL, SOME, OVER = range(3)
"""What a pass leaves to a whole cycle: nothing; something, while the arrays are still true; everything, since they are not."""
MOST_OVER = 64
"""Jobs of one shape that are passed over for their limits."""
_BYTE = np.uint64(255)


@inner
def _clear(now, row, numbers, e_number, nodes, events):
    """Take the ends of jobs out of a node's timeline; nothing else ends before the next second. Returns whether all were
    there."""
    found, at = 0, nodes[row].head
    while at >= 0:
        after = events[at].next
        ended = False
        for number in numbers:
            ended |= at < e_number.shape[0] and e_number[at] == number
        if ended:
            found += 1
            unlink(nodes, events, at)
        elif events[at].sign > 0 and events[at].shut == 0 and events[at].res < 0 and events[at].time <= now:
            events[at].time = now + 1
        at = after
    return found == numbers.shape[0]


@inner
def _take_out(row, jobs, shapes, nodes, events, own):
    """Take what is planned on a node out of its timeline, into `own`: how many events. -1: too many, or CPUs near GPUs, which
    are planned anew in each cycle; nothing is taken out then."""
    count, at = 0, nodes[row].head
    while at >= 0:
        if events[at].job >= 0:
            if shapes[jobs[events[at].job].shape].near or count == own.shape[0]:
                return -1
            own[count] = at
            count += 1
        at = events[at].next
    for place in range(count):
        unlink(nodes, events, own[place])
    return count


@inner
def _put_back(job, shape, time, nodes, g_free, events, e_gpu, room, room_gpu, run, own, count):
    """Plan a job on the node as before; False where that is not there any more."""
    for place in range(count):
        event = own[place]
        if event >= 0 and events[event].job == job and events[event].sign < 0:
            if not part_there(
                event, time, time + shape.limit, shape.res, nodes, g_free, events, e_gpu, room, room_gpu, run
            ):
                return False
    _link_again(job, nodes, events, own, count)
    return True


@inner
def _link_again(job, nodes, events, own, count):
    """Put what is planned for a job (-1: for all) into the node's timeline again, whether or not it is there."""
    for place in range(count):
        event = own[place]
        if event >= 0 and (job < 0 or events[event].job == job):
            link(nodes, events, events[event].row, event)
            own[place] = -1


@inner
def _open_to(mask, choices, step, row, masks):
    """Whether a node is in any of the choices that a shape has."""
    found = False
    for choice in range(choices):
        found |= masks[mask + choice * step, row >> 6] >> np.uint64(row & 63) & ONE != 0
    return found


@inner
def _is_plain(shape):
    """Whether it is one node's matter alone where a part starts now."""
    return shape.most == 1 and shape.licenses == 0 and shape.others == 0 and shape.groups == 0


@inner
def _reach(head, now, row, when):
    """A moment before which a planned job does not fit on the node, and the one before which it must to be planned there."""
    soon = max(now, when[head.gpus, row], when[head.cpu, row], when[head.part, row])
    return soon, max(head.time, now + 1) if head.time > 0 else NEVER


@inner
def _passes(head, now, row, masks, when):
    """Whether it is quickly known that the node is nothing for a planned job."""
    soon, before = _reach(head, now, row, when)
    return (soon > before and head.blind == 0) or not _open_to(head.mask, head.choices, head.step, row, masks)


@inner
def _is_own(job, events, own, count):
    """Whether a job had something planned on the node that is not put back yet."""
    found = False
    for place in range(count):
        found |= own[place] >= 0 and events[own[place]].job == job
    return found


@inner
def _head(head, now, row, jobs, shapes, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, c_first, c_scope, used,
          most, room, room_gpu, run, answers, own, count, mine):  # fmt: skip
    """Whether a job that is planned (on the node: `mine`) starts there at once, or may be planned otherwise now."""
    job, time = head.job, head.time
    soon, before = _reach(head, now, row, when)
    closed = not _open_to(head.mask, head.choices, head.step, row, masks)
    shape = shapes[jobs[job].shape]
    # CPUs near GPUs are planned anew: then of nodes that are free at the same moment the first is taken.
    before += shape.near and time > 0 and row < head.node
    if not closed and (soon < before or head.blind):
        start, inside = max(now + 1, shape.opens), now >= shape.opens and now + shape.limit <= shape.closes
        fit = (
            inside and fits_now(shape, row, now, nodes, g_free, cards, c_numa, events, e_gpu, room, room_gpu, run) == 1
        )
        if not fit:
            start = earliest_on(
                shape, nodes, g_free, cards, c_numa, events, e_gpu, row, start, before, room, room_gpu, run
            )
        if fit or (start < before and start + shape.limit <= shape.closes):
            if fit and _is_plain(shape) and over(jobs[job].chain, shape.need, c_first, c_scope, used, most) < 0:
                return STARTS
            return UNKNOWN
    if mine and not _put_back(job, shape, time, nodes, g_free, events, e_gpu, room, room_gpu, run, own, count):
        return UNKNOWN
    return NO


@inner
def _until(now, row, nodes, g_free, cards, events, e_gpu, run, until):
    """By level of whole GPUs and CPUs the moment up to which a node has so much free from now on."""
    cpu, shut, at, width = nodes[row].cpu, 0, nodes[row].head, g_free.shape[1]
    until[:] = NEVER
    for gpu in range(width):
        run[gpu] = g_free[row, gpu]
    time = now
    while True:
        while at >= 0 and events[at].time <= time:
            cpu, shut = cpu + events[at].cpu, shut + events[at].shut
            for gpu in range(width):
                run[gpu] += e_gpu[at, gpu]
            at = events[at].next
        whole = 0
        for gpu in range(width):
            whole += cards[row, gpu].of > 0 and run[gpu] == cards[row, gpu].of
        for level in range(GPU_LEVELS):
            if (shut > 0 or whole < level) and until[level] == NEVER:
                until[level] = time
        for level in range(CPU_LEVELS):
            if (shut > 0 or cpu < 1 << level) and until[AT_CPU + level] == NEVER:
                until[AT_CPU + level] = time
        if at < 0:
            return
        time = events[at].time


@inner
def _behind(now, row, jobs, shapes, masks, nodes, g_free, cards, c_numa, events, e_gpu, c_first, c_scope, used, most, room,
            room_gpu, run, behind, following, order, since, bits, until):  # fmt: skip
    """The first job that is not planned and fits on the node now (-1: none), and whether that cannot be known."""
    node = nodes[row]
    best, unknown = NEVER, False
    if node.cpu < 1:
        return -1, False
    _until(now, row, nodes, g_free, cards, events, e_gpu, run, until)
    whole, cpu = min(node.whole, GPU_LEVELS - 1), AT_CPU + log2(node.cpu, CPU_LEVELS)
    mem = AT_MEM + log2(max(node.mem // MEM_UNIT, 1), MEM_LEVELS)
    for block in range(bits.shape[1]):
        word = bits[whole, block] & bits[cpu, block] & bits[mem, block]
        place = block << 6
        while word != 0:
            while word & _BYTE == 0:
                word >>= np.uint64(8)
                place += 8
            if word & ONE:
                if since[place] >= best:
                    return best, unknown
                kind = order[place]
                job, shape = behind[kind], shapes[kind]
                if 0 <= job < best and _may(shape, now, row, masks, nodes, until):
                    fit = fits_now(shape, row, now, nodes, g_free, cards, c_numa, events, e_gpu, room, room_gpu, run)
                    if fit == 1:
                        passed = 0
                        while job >= 0 and over(jobs[job].chain, shape.need, c_first, c_scope, used, most) >= 0:
                            passed += 1
                            if passed > MOST_OVER:
                                break
                            job = following[job]
                        if 0 <= job < best:
                            best = job
                            unknown = not _is_plain(shape) or passed > MOST_OVER
            word >>= ONE
            place += 1
    return (best, unknown) if best < NEVER else (-1, False)


@inner
def _may(shape, now, row, masks, nodes, until):
    """What is quickly known of whether a part starts on a node now."""
    if shape.cpu > nodes[row].cpu or not _open_to(shape.mask, shape.others + 1, shape.groups + 1, row, masks):
        return False
    end = now + shape.limit
    if now < shape.opens or end > shape.closes:
        return False
    level = AT_CPU + log2(max(shape.cpu, 1), CPU_LEVELS)
    return shape.res >= 0 or (end <= until[min(shape.gpus, GPU_LEVELS - 1)] and end <= until[level])


@njit(**OPTIONS)
def ended(now, row, ends, most_heads, numbers, e_number, jobs, held, shapes, masks, free, nodes, g_free, cards, c_numa, events, e_gpu,
          tail, when, first, c_first, c_scope, used, most, licenses, room, room_gpu, run, gpus, chosen, answers, heads, behind,
          following, order, since, bits, until, own, out, out_gpu):  # fmt: skip
    """After `ends` jobs, the first of `numbers`, ended on the node `row`, whose figures are up to date: (rows of `out`
    written, what is left to a whole cycle, how many of `heads` may start from then on). `heads`, `behind` and `following` are as `indexed.index` gave them,
    `order` and `bits` as of `sift`, `since` the first jobs of the shapes in `order`; `most_heads` is what the last call returned, and more
    than there are before one does: jobs behind the heads start only then."""
    if not _clear(now, row, numbers[:ends], e_number, nodes, events):
        return 0, OVER, 0
    refresh(nodes, free, g_free, cards, row)
    count = _take_out(row, jobs, shapes, nodes, events, own)
    bound_row(nodes, g_free, cards, events, e_gpu, row, now, when, run)
    if count < 0:
        return 0, SOME, 0
    if count == 0 and not nodes[row].up:
        return 0, ALL, most_heads
    for place in range(min(heads.shape[0], most_heads)):
        head = heads[place]
        mine = count > 0 and _is_own(head.job, events, own, count)
        late = 0 < head.time <= now
        if head.job < 0 or (not mine and not late and _passes(head, now, row, masks, when)):
            continue
        what = _head(head, now, row, jobs, shapes, masks, nodes, g_free, cards, c_numa, events, e_gpu, when, c_first,
                     c_scope, used, most, room, room_gpu, run, answers, own, count, mine)  # fmt: skip
        if what == STARTS and tail[0] < events.shape[0]:
            _give_up(head, now, jobs, held, shapes, nodes, g_free, cards, events, e_gpu, when, first, run, own, count)
            _start(head.job, 0, now, row, jobs, shapes, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when,
                   first, c_first, c_scope, used, licenses, room, room_gpu, run, gpus, chosen, answers, out,
                   out_gpu)  # fmt: skip
            array = answers[head.job].started < jobs[head.job].count
            head.job = -1
            _link_again(-1, nodes, events, own, count)
            # The next element is planned by a whole cycle alone.
            return 1, OVER if array else SOME, min(heads.shape[0], most_heads)
        if what != NO or late:
            _link_again(-1, nodes, events, own, count)
            return 0, SOME, place + 1
    if most_heads <= heads.shape[0]:
        _link_again(-1, nodes, events, own, count)
        return 0, SOME, most_heads
    rows = 0
    while True:
        job, unknown = _behind(now, row, jobs, shapes, masks, nodes, g_free, cards, c_numa, events, e_gpu, c_first, c_scope,
                               used, most, room, room_gpu, run, behind, following, order, since, bits, until)  # fmt: skip
        if job < 0:
            return rows, ALL, most_heads
        if unknown or rows == out.shape[0] or tail[0] == events.shape[0]:
            break
        _start(job, rows, now, row, jobs, shapes, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, c_first,
               c_scope, used, licenses, room, room_gpu, run, gpus, chosen, answers, out, out_gpu)  # fmt: skip
        rows += 1
        if answers[job].started >= jobs[job].count:
            _strike(job, jobs[job].shape, behind, following)
    return rows, SOME, most_heads


@inner
def _give_up(head, now, jobs, held, shapes, nodes, g_free, cards, events, e_gpu, when, first, run, own, count):
    """Forget the planned start of a job on one node."""
    mine = _is_own(head.job, events, own, count)
    for place in range(count):
        if mine and own[place] >= 0 and events[own[place]].job == head.job:
            own[place] = -1
    at = jobs[head.job].held
    if not mine and at >= 0 and held[at].linked:
        take_out(held[at], now, shapes[jobs[head.job].shape], nodes, g_free, cards, events, e_gpu, when, first, run)


@inner
def _start(job, rows, now, row, jobs, shapes, free, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, c_first,
           c_scope, used, licenses, room, room_gpu, run, gpus, chosen, answers, out, out_gpu):  # fmt: skip
    shape, chain = shapes[jobs[job].shape], jobs[job].chain
    chosen[0] = row
    take(job, now, shape, 1, -1, rows, nodes, free, g_free, cards, c_numa, events, e_gpu, tail, when, first, room, room_gpu, run,
         gpus, chosen, licenses, out, out_gpu)  # fmt: skip
    answers[job].started += 1
    for place in range(c_first[chain], c_first[chain + 1]):
        for counter in range(USED):
            used[c_scope[place], counter] += shape.need[counter]


@inner
def _strike(job, kind, behind, following):
    """A job waits no more."""
    if behind[kind] == job:
        behind[kind] = following[job]
        return
    at = behind[kind]
    while following[at] != job:
        at = following[at]
    following[at] = following[job]
