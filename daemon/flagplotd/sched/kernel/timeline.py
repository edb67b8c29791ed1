"""What a node has free, now and later: events linked by node in the order of time."""

from __future__ import annotations

from numba import njit

from flagplotd.sched.kernel.compiler import OPTIONS, inner
from flagplotd.sched.kernel.fit import fits, near_enough, pick
from flagplotd.sched.kernel.layout import AT_CPU, AT_PART, BOUNDS, CPU_LEVELS, GPU_LEVELS, NEVER, PART_LEVELS


@inner
def link(nodes, events, row, event):
    """Put an event, whose record is filled, into its place on the node `row`; after those of the same time."""
    time = events[event].time
    events[event].row = row
    before, at = -1, nodes[row].head
    while at >= 0 and events[at].time <= time:
        before, at = at, events[at].next
    events[event].next = at
    if before < 0:
        nodes[row].head = event
    else:
        events[before].next = event
    if events[event].sign < 0:
        nodes[row].takes += 1


@inner
def unlink(nodes, events, event):
    """Take an event out of its node's timeline; the record stays filled."""
    row = events[event].row
    before, at = -1, nodes[row].head
    while at != event:
        before, at = at, events[at].next
    if before < 0:
        nodes[row].head = events[event].next
    else:
        events[before].next = events[event].next
    if events[event].sign < 0:
        nodes[row].takes -= 1


@njit(**OPTIONS)
def link_all(nodes, events, rows):
    """Put the first events, whose nodes are `rows`, into their places."""
    for event in range(rows.shape[0]):
        link(nodes, events, rows[event], event)


@inner
def fill_event(events, e_gpu, row, event, time, sign, cpu, mem, gpus, res, job):
    """Fill the record `event`: what is freed (sign 1) or taken (-1) at `time`."""
    one = events[event]
    one.time, one.sign, one.cpu, one.mem, one.shut = time, sign, sign * cpu, sign * mem, 0
    one.res, one.job, one.row = res, job, row
    e_gpu[event, gpus.shape[0] :] = 0
    for gpu in range(gpus.shape[0]):
        e_gpu[event, gpu] = sign * gpus[gpu]


@inner
def add_event(nodes, events, e_gpu, row, event, time, sign, cpu, mem, gpus, res, job):
    """Fill and link the record `event`."""
    fill_event(events, e_gpu, row, event, time, sign, cpu, mem, gpus, res, job)
    link(nodes, events, row, event)


@inner
def window(nodes, g_free, events, e_gpu, row, start, end, res, room, room_gpu, run):
    """The least that is free on a node from `start` to `end`, into `room` and `room_gpu`; False where it is closed.

    Jobs of the reservation `res` do not see its events. `run` is room for W numbers.
    """
    cpu, mem, shut, at = nodes[row].cpu, nodes[row].mem, 0, nodes[row].head
    width = room_gpu.shape[0]
    for gpu in range(width):
        run[gpu] = g_free[row, gpu]
    while at >= 0 and events[at].time <= start:
        if events[at].res < 0 or events[at].res != res:
            cpu, mem, shut = cpu + events[at].cpu, mem + events[at].mem, shut + events[at].shut
            for gpu in range(width):
                run[gpu] += e_gpu[at, gpu]
        at = events[at].next
    room[0], room[1] = cpu, mem
    for gpu in range(width):
        room_gpu[gpu] = run[gpu]
    if shut > 0:
        return False
    if nodes[row].takes == 0:
        return True
    while at >= 0 and events[at].time < end:
        if events[at].res < 0 or events[at].res != res:
            cpu, mem, shut = cpu + events[at].cpu, mem + events[at].mem, shut + events[at].shut
            for gpu in range(width):
                run[gpu] += e_gpu[at, gpu]
        after = events[at].next
        # Only the last of several events at one moment tells what is free then.
        if after < 0 or events[after].time > events[at].time:
            if shut > 0:
                return False
            room[0], room[1] = min(room[0], cpu), min(room[1], mem)
            for gpu in range(width):
                room_gpu[gpu] = min(room_gpu[gpu], run[gpu])
        at = after
    return True


@inner
def cores_in(nodes, c_numa, events, e_gpu, row, start, end, res, width, cores):
    """The least CPUs that are free in each NUMA domain of a node from `start` to `end`, into `cores`; `width` is W."""
    for domain in range(cores.shape[0]):
        there, at, column = c_numa[row, domain], nodes[row].head, width + domain
        while at >= 0 and events[at].time <= start:
            if events[at].res < 0 or events[at].res != res:
                there += e_gpu[at, column]
            at = events[at].next
        least = there
        while at >= 0 and events[at].time < end:
            if events[at].res < 0 or events[at].res != res:
                there += e_gpu[at, column]
            after = events[at].next
            if after < 0 or events[after].time > events[at].time:
                least = min(least, there)
            at = after
        cores[domain] = least


@inner
def near_at(shape, nodes, cards, c_numa, events, e_gpu, row, start, end, room, room_gpu, run):
    """Whether GPUs with `room_gpu` shards free have all CPUs of a part beside them from `start` to `end`. `room` has, after
    two numbers, one for each NUMA domain."""
    if shape.gpus + shape.shards + shape.vram == 0:
        return True
    cores = room[2:]
    cores_in(nodes, c_numa, events, e_gpu, row, start, end, shape.res, room_gpu.shape[0], cores)
    pick(shape, room_gpu, cards[row], cores, run)
    return near_enough(shape, run, cards[row], cores)


@inner
def earliest_on(shape, nodes, g_free, cards, c_numa, events, e_gpu, row, start, before, room, room_gpu, run):
    """The first moment from `start` on at which a part fits on a node for its whole time limit (NEVER: there is none, or
    it is not `before`)."""
    time, at = start, nodes[row].head
    while True:
        while at >= 0 and events[at].time <= time:
            at = events[at].next
        end = time + shape.limit
        if window(nodes, g_free, events, e_gpu, row, time, end, shape.res, room, room_gpu, run):
            if fits(shape, nodes[row], room, room_gpu, cards[row]) and (
                not shape.near
                or near_at(shape, nodes, cards, c_numa, events, e_gpu, row, time, end, room, room_gpu, run)
            ):
                return time
        # Nothing gets better before something is freed.
        while at >= 0 and events[at].sign < 0:
            at = events[at].next
        if at < 0 or events[at].time >= before:
            return NEVER
        time = events[at].time


@inner
def bound_node(nodes, g_free, cards, events, e_gpu, row, now, when, first, run):
    """Fill a node's column of `when`, and bring the bounds of its 64 nodes up to date."""
    bound_row(nodes, g_free, cards, events, e_gpu, row, now, when, run)
    block = row >> 6
    for level in range(BOUNDS):
        least = NEVER
        for one in range(block << 6, min((block + 1) << 6, when.shape[1])):
            least = min(least, when[level, one])
        first[level, block] = least


@inner
def bound_row(nodes, g_free, cards, events, e_gpu, row, now, when, run):
    """Fill a node's column of `when` alone."""
    for level in range(BOUNDS):
        when[level, row] = NEVER
    if nodes[row].up:
        _walk(nodes, g_free, cards, events, e_gpu, row, now, when, run)


@inner
def _walk(nodes, g_free, cards, events, e_gpu, row, now, when, run):
    cpu, shut, at, time = nodes[row].cpu, 0, nodes[row].head, now
    width = g_free.shape[1]
    for gpu in range(width):
        run[gpu] = g_free[row, gpu]
    while True:
        while at >= 0 and events[at].time <= time:
            cpu, shut = cpu + events[at].cpu, shut + events[at].shut
            for gpu in range(width):
                run[gpu] += e_gpu[at, gpu]
            at = events[at].next
        if shut <= 0:
            whole, part = 0, 0
            for gpu in range(width):
                whole += cards[row, gpu].of > 0 and run[gpu] == cards[row, gpu].of
                part = max(part, run[gpu])
            _lower(when, row, min(whole, GPU_LEVELS - 1), 0, time)
            if cpu > 0:
                _lower(when, row, AT_CPU + log2(cpu, CPU_LEVELS), AT_CPU, time)
            if part > 0:
                _lower(when, row, AT_PART + log2(part, PART_LEVELS), AT_PART, time)
        if at < 0:
            return
        time = events[at].time


@inner
def _lower(when, row, highest, lowest, time):
    """Levels are reached from below: those that already have a moment keep it."""
    for level in range(highest, lowest - 1, -1):
        if when[level, row] != NEVER:
            return
        when[level, row] = time


@inner
def log2(value, levels):
    """The level of a need: the highest power of two that is not more."""
    level = 0
    while level + 1 < levels and value >= 2 << level:
        level += 1
    return level
