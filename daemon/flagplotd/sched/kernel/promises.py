"""Planned starts: parts of nodes and seats of licenses that are taken from a time on, kept from one cycle to the next."""

from __future__ import annotations

import numpy as np

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.kernel.fit import cpus_of, memory_of, pick, take_cores
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.kernel.search import ONE
from flagplotd.sched.kernel.timeline import bound_node, cores_in, fill_event, link, unlink, window


@inner
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


@inner
def _fill(job, one, part, row, time, shape, nodes, events, e_gpu, gpus):
    cpu, mem, event = cpus_of(shape, nodes[row]), memory_of(shape, nodes[row]), one.first + 2 * part
    fill_event(events, e_gpu, row, event, time, -1, cpu, mem, gpus, -1, job)
    fill_event(events, e_gpu, row, event + 1, time + shape.limit, 1, cpu, mem, gpus, -1, job)


@inner
def _fill_seats(job, one, time, shape, events, e_gpu, gpus, licenses):
    gpus[:] = 0
    for index in range(shape.licenses):
        row, seats, event = licenses + shape.license[index], shape.seats[index], one.first + 2 * (one.parts + index)
        fill_event(events, e_gpu, row, event, time, -1, seats, 0, gpus, -1, job)
        fill_event(events, e_gpu, row, event + 1, time + shape.limit, 1, seats, 0, gpus, -1, job)


@inner
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


@inner
def promise(job, one, time, now, shape, taken, nodes, g_free, cards, c_numa, events, e_gpu, tail, when, first, room, room_gpu,
            run, gpus, chosen, licenses):  # fmt: skip
    """Keep the chosen nodes' parts for a job from `time` on, in place of what it was promised before."""
    if one.first < 0 or one.parts < taken:
        one.first = tail[0]
        tail[0] += 2 * (taken + shape.licenses)
    one.parts = taken
    for part in range(taken):
        row = chosen[part]
        end = time + shape.limit
        window(nodes, g_free, events, e_gpu, row, time, end, shape.res, room, room_gpu, run)
        near = shape.near and shape.gpus + shape.shards + shape.vram > 0
        cores = room[2:] if near else c_numa[row]
        if near:
            cores_in(nodes, c_numa, events, e_gpu, row, time, end, shape.res, gpus.shape[0], cores)
        pick(shape, room_gpu, cards[row], cores, gpus)
        _fill(job, one, part, row, time, shape, nodes, events, e_gpu, gpus)
        if near:
            event, domains = one.first + 2 * part, e_gpu.shape[1] - gpus.shape[0]
            take_cores(cpus_of(shape, nodes[row]), gpus, cards[row], cores, e_gpu[event, gpus.shape[0] :], -1)
            for domain in range(domains):
                e_gpu[event + 1, gpus.shape[0] + domain] = -e_gpu[event, gpus.shape[0] + domain]
    _fill_seats(job, one, time, shape, events, e_gpu, gpus, licenses)
    put_in(one, time, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run)


@inner
def put_in(one, time, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run):
    """Put a promise into the timelines, from `time` on."""
    one.time, one.linked = time, 1
    for event in range(one.first, one.first + 2 * (one.parts + shape.licenses), 2):
        events[event].time, events[event + 1].time = time, time + shape.limit
        link(nodes, events, events[event].row, event)
        link(nodes, events, events[event].row, event + 1)
    _count_cores(one, nodes, events, e_gpu, g_free.shape[1], 1)
    _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run)


@inner
def take_out(one, now, shape, nodes, g_free, cards, events, e_gpu, when, first, run):
    """Take a promise out of the timelines; it can be put in again."""
    one.linked = 0
    for event in range(one.first, one.first + 2 * (one.parts + shape.licenses)):
        unlink(nodes, events, event)
    _count_cores(one, nodes, events, e_gpu, g_free.shape[1], -1)
    _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run)


@inner
def _count_cores(one, nodes, events, e_gpu, width, step):
    """Count a promise that takes CPUs near GPUs among those of its nodes."""
    for event in range(one.first, one.first + 2 * one.parts, 2):
        for column in range(width, e_gpu.shape[1]):
            if e_gpu[event, column] != 0:
                nodes[events[event].row].takes_cores += step
                break


@inner
def _bound(one, now, nodes, g_free, cards, events, e_gpu, when, first, run):
    for part in range(one.parts):
        bound_node(nodes, g_free, cards, events, e_gpu, events[one.first + 2 * part].row, now, when, first, run)


@inner
def _in_one_choice(one, shape, masks, events):
    """Whether all nodes of a promise still are in the same one of the choices that the constraint leaves."""
    for choice in range(shape.others + 1):
        mask, inside = shape.mask + choice * (1 + shape.groups), 0
        for part in range(one.parts):
            row = events[one.first + 2 * part].row
            inside += (masks[mask, row >> 6] >> np.uint64(row & 63)) & ONE != 0
        if inside == one.parts:
            return True
    return False


@inner
def part_there(event, time, end, res, nodes, g_free, events, e_gpu, room, room_gpu, run):
    """Whether what an event takes, which is not in its node's timeline, is free there from `time` to `end`."""
    if not window(nodes, g_free, events, e_gpu, events[event].row, time, end, res, room, room_gpu, run):
        return False
    if room[0] < -events[event].cpu or room[1] < -events[event].mem:
        return False
    there = True
    for gpu in range(room_gpu.shape[0]):
        # Others may be taken twice, by reservations that overlap.
        there &= e_gpu[event, gpu] >= 0 or room_gpu[gpu] >= -e_gpu[event, gpu]
    return there


@inner
def can_keep(one, time, shape, masks, nodes, g_free, events, e_gpu, licenses, room, room_gpu, run):
    """Whether a promise that is not in the timelines can be had where it was made, from `time` on. Which CPUs near GPUs will
    be free is not kept: such a promise is always made anew."""
    end = time + shape.limit
    if shape.near or time < shape.opens or end > shape.closes or not _in_one_choice(one, shape, masks, events):
        return False
    for part in range(one.parts):
        event = one.first + 2 * part
        if not nodes[events[event].row].up:
            return False
        if not part_there(event, time, end, shape.res, nodes, g_free, events, e_gpu, room, room_gpu, run):
            return False
    for index in range(shape.licenses):
        row = licenses + shape.license[index]
        if not window(nodes, g_free, events, e_gpu, row, time, end, shape.res, room, room_gpu, run):
            return False
        if room[0] < shape.seats[index]:
            return False
    return True
