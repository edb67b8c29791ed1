"""Planned starts: parts of nodes and seats of licenses that are taken from a time on, kept from one cycle to the next."""

from __future__ import annotations

import numpy as np
from numba import njit

from flagplotd.sched.kernel.fit import INNER, cpus_of, memory_of, pick
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.kernel.search import ONE
from flagplotd.sched.kernel.timeline import bound_node, fill_event, link, unlink, window


@njit(**INNER)
def row_for(jobs, job, held, tail):
    """The row of promises of a job, a new one where it has none (-1: there is no room for more)."""
    if jobs[job].held < 0:
        if tail[1] >= held.shape[0]:
            return -1
        one = held[tail[1]]
        one.time, one.parts, one.kept, one.first, one.linked = NEVER, 0, -1, -1, 0
        jobs[job].held = tail[1]
        tail[1] += 1
    return jobs[job].held


@njit(**INNER)
def _fill(job, one, part, row, time, shape, nodes, events, e_gpu, gpus):
    cpu, mem, event = cpus_of(shape, nodes[row]), memory_of(shape, nodes[row]), one.first + 2 * part
    fill_event(events, e_gpu, row, event, time, -1, cpu, mem, gpus, -1, job)
    fill_event(events, e_gpu, row, event + 1, time + shape.limit, 1, cpu, mem, gpus, -1, job)


@njit(**INNER)
def _fill_seats(job, one, time, shape, events, e_gpu, gpus, licenses):
    gpus[:] = 0
    for index in range(shape.licenses):
        row, seats, event = licenses + shape.license[index], shape.seats[index], one.first + 2 * (one.parts + index)
        fill_event(events, e_gpu, row, event, time, -1, seats, 0, gpus, -1, job)
        fill_event(events, e_gpu, row, event + 1, time + shape.limit, 1, seats, 0, gpus, -1, job)


@njit(**INNER)
def recall(jobs, held, shapes, kept, kept_gpu, nodes, events, e_gpu, tail, gpus, licenses):
    """Fill the events of all promises that were kept; none of them is linked yet."""
    for job in range(jobs.shape[0]):
        if jobs[job].held < 0:
            continue
        one, shape = held[jobs[job].held], shapes[jobs[job].shape]
        if tail[0] + 2 * (one.parts + shape.licenses) > events.shape[0]:
            one.time, one.parts = NEVER, 0
            continue
        one.first = tail[0]
        tail[0] += 2 * (one.parts + shape.licenses)
        for part in range(one.parts):
            for gpu in range(gpus.shape[0]):
                gpus[gpu] = kept_gpu[one.kept + part, gpu]
            _fill(job, one, part, kept[one.kept + part], one.time, shape, nodes, events, e_gpu, gpus)
        _fill_seats(job, one, one.time, shape, events, e_gpu, gpus, licenses)


@njit(**INNER)
def promise(job, one, time, now, shape, taken, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, room, room_gpu,
            run, gpus, chosen, licenses):  # fmt: skip
    """Keep the chosen nodes' parts for a job from `time` on, in place of what it was promised before."""
    if one.first < 0 or one.parts < taken:
        one.first = tail[0]
        tail[0] += 2 * (taken + shape.licenses)
    one.parts = taken
    for part in range(taken):
        row = chosen[part]
        window(nodes, g_free, events, e_gpu, row, time, time + shape.limit, shape.res, room, room_gpu, run)
        pick(shape, room_gpu, cards[row], c_numa[row], gpus)
        _fill(job, one, part, row, time, shape, nodes, events, e_gpu, gpus)
    _fill_seats(job, one, time, shape, events, e_gpu, gpus, licenses)
    put_in(one, time, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run)


@njit(**INNER)
def put_in(one, time, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run):
    """Put a promise into the timelines, from `time` on."""
    one.time, one.linked = time, 1
    for event in range(one.first, one.first + 2 * (one.parts + shape.licenses), 2):
        events[event].time, events[event + 1].time = time, time + shape.limit
        link(nodes, events, events[event].row, event)
        link(nodes, events, events[event].row, event + 1)
    _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run)


@njit(**INNER)
def take_out(one, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run):
    """Take a promise out of the timelines; it can be put in again."""
    one.linked = 0
    for event in range(one.first, one.first + 2 * (one.parts + shape.licenses)):
        unlink(nodes, events, event)
    _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run)


@njit(**INNER)
def _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run):
    for part in range(one.parts):
        bound_node(nodes, g_free, cards, events, e_gpu, events[one.first + 2 * part].row, now, when, first, run)


@njit(**INNER)
def can_keep(one, time, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
    """Whether a promise that is not in the timelines can be had where it was made, from `time` on."""
    end = time + shape.limit
    if time < shape.opens or end > shape.closes:
        return False
    for part in range(one.parts):
        event = one.first + 2 * part
        row = events[event].row
        if not nodes[row].up or not (masks[shape.mask, row >> 6] >> np.uint64(row & 63)) & ONE:
            return False
        if not window(nodes, g_free, events, e_gpu, row, time, end, shape.res, room, room_gpu, run):
            return False
        if room[0] < -events[event].cpu or room[1] < -events[event].mem:
            return False
        for gpu in range(room_gpu.shape[0]):
            # Others may be taken twice, by reservations that overlap.
            if e_gpu[event, gpu] < 0 and room_gpu[gpu] < -e_gpu[event, gpu]:
                return False
    for index in range(shape.licenses):
        row = licenses + shape.license[index]
        if not window(nodes, g_free, events, e_gpu, row, time, end, shape.res, room, room_gpu, run):
            return False
        if room[0] < shape.seats[index]:
            return False
    return True
