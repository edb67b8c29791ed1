"""Scheduling of processors alone, a whole log at once: FCFS, EASY and conservative backfilling. Pure.

Jobs are rows of int64 arrays, sorted by submit time: `submit`, `run`, `estimate` (seconds, 1 <= run <= estimate)
and `procs` (1 to `total`). The rules are those of the published studies of the Parallel Workloads Archive: at one
second submissions come before ends, ends come in the order of the starts, each event gets a pass of its own, and a
running job's processors count as free from its *estimated* end. Both kernels fill `start` and `promised` (seconds; all of `start` is -1 at first):
the start a job was promised when it first got a reservation, which no later decision may exceed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FCFS, EASY, EASY_SJBF = 0, 1, 2
"""Disciplines of `replay_queue`: in order only; backfill in queue order; backfill by estimate, ties in queue order."""
NEVER = 1 << 62

OPTIONS = {"nogil": True, "cache": True}


@njit(**OPTIONS)
def insert(keys, jobs, count, key, job):
    """Insert into the arrays, which hold `count` sorted by key; behind those with the same key."""
    place = count
    while place > 0 and keys[place - 1] > key:
        keys[place], jobs[place] = keys[place - 1], jobs[place - 1]
        place -= 1
    keys[place], jobs[place] = key, job


@njit(**OPTIONS)
def remove(keys, jobs, count, job):
    """Take `job` out of the arrays, which hold `count`."""
    place = 0
    while jobs[place] != job:
        place += 1
    for index in range(place, count - 1):
        keys[index], jobs[index] = keys[index + 1], jobs[index + 1]


@njit(**OPTIONS)
def begin(job, now, run, estimate, end_at, end_job, expect_at, expect_job, running):
    """Add a starting job to the running ones, by its actual and by its estimated end."""
    insert(end_at, end_job, running, now + run[job], job)
    insert(expect_at, expect_job, running, now + estimate[job], job)


@njit(**OPTIONS)
def shadow_of(need, free, now, expect_at, expect_job, running, procs):
    """(when `need` processors will be free by estimate, how many are left over then). Too few are free now."""
    for index in range(running):
        if expect_at[index] > now:
            free += procs[expect_job[index]]
            if free >= need and (index + 1 == running or expect_at[index + 1] > expect_at[index]):
                return expect_at[index], free - need
    return NEVER, 0


@njit(**OPTIONS)
def replay_queue(submit, run, estimate, procs, total, discipline, start, promised):
    """Fill `start` and `promised` by FCFS, EASY or EASY-SJBF. Only the first waiting job has a reservation."""
    count = submit.shape[0]
    end_at, end_job = np.zeros(count, np.int64), np.zeros(count, np.int64)
    expect_at, expect_job = np.zeros(count, np.int64), np.zeros(count, np.int64)
    queue_key, queue = np.zeros(count, np.int64), np.zeros(count, np.int64)
    running, waiting, arrived, head, used = 0, 0, 0, 0, 0
    while arrived < count or running > 0:
        if arrived < count and (running == 0 or submit[arrived] <= end_at[0]):
            now = submit[arrived]
            if discipline != FCFS:
                insert(queue_key, queue, waiting, estimate[arrived] if discipline == EASY_SJBF else 0, arrived)
                waiting += 1
            arrived += 1
        else:
            now, ended = end_at[0], end_job[0]
            remove(end_at, end_job, running, ended)
            remove(expect_at, expect_job, running, ended)
            running -= 1
            used -= procs[ended]
        free = total - used
        for index in range(running):
            if expect_at[index] > now:
                break
            free += procs[expect_job[index]]
        while head < arrived and (start[head] >= 0 or procs[head] <= free):
            if start[head] < 0:
                start[head] = now
                if promised[head] < 0:
                    promised[head] = now
                begin(head, now, run, estimate, end_at, end_job, expect_at, expect_job, running)
                running += 1
                used += procs[head]
                free -= procs[head]
            head += 1
        if head == arrived or (discipline == FCFS and promised[head] >= 0):
            continue
        shadow, extra = shadow_of(procs[head], free, now, expect_at, expect_job, running, procs)
        if promised[head] < 0:
            promised[head] = shadow
        kept = 0
        for place in range(waiting):
            job = queue[place]
            if start[job] >= 0:
                continue
            late = now + estimate[job] > shadow
            if job == head or procs[job] > free or (late and procs[job] > extra):
                queue_key[kept], queue[kept] = queue_key[place], job
                kept += 1
                continue
            start[job] = promised[job] = now
            begin(job, now, run, estimate, end_at, end_job, expect_at, expect_job, running)
            running += 1
            used += procs[job]
            free -= procs[job]
            if late:
                extra -= procs[job]
        waiting = kept


@njit(**OPTIONS)
def cut(at, free, count, when):
    """Make `when` (not before the first) a boundary of the profile; (its index, boundaries now)."""
    index = count
    while at[index - 1] > when:
        index -= 1
    if at[index - 1] == when:
        return index - 1, count
    for place in range(count, index, -1):
        at[place], free[place] = at[place - 1], free[place - 1]
    at[index], free[index] = when, free[index - 1]
    return index, count + 1


@njit(**OPTIONS)
def join(at, free, count, index):
    """Drop a boundary at which nothing changes; boundaries now."""
    if index == 0 or index >= count or free[index] != free[index - 1]:
        return count
    for place in range(index, count - 1):
        at[place], free[place] = at[place + 1], free[place + 1]
    return count - 1


@njit(**OPTIONS)
def add(at, free, count, since, until, procs):
    """Free `procs` more (or fewer) in the profile from `since` to before `until`; boundaries now."""
    first, count = cut(at, free, count, since)
    last, count = cut(at, free, count, until)
    for index in range(first, last):
        free[index] += procs
    count = join(at, free, count, last)
    return join(at, free, count, first)


@njit(**OPTIONS)
def earliest(at, free, count, need, length):
    """The first time from the profile's beginning on at which `need` are free for `length` seconds."""
    begin = at[0]
    for index in range(count):
        if free[index] < need:
            begin = at[index + 1]
        elif index + 1 == count or at[index + 1] >= begin + length:
            break
    return begin


@njit(**OPTIONS)
def forget(at, free, count, now):
    """Let the profile begin at `now`; boundaries left."""
    gone = 0
    while gone + 1 < count and at[gone + 1] <= now:
        gone += 1
    for index in range(gone, count):
        at[index - gone], free[index - gone] = at[index], free[index]
    at[0] = now
    return count - gone


@njit(**OPTIONS)
def replay_conservative(submit, run, estimate, procs, total, start, promised):
    """Fill `start` and `promised` by conservative backfilling: every job gets a reservation when it is submitted.

    When a job ends before its estimate, the waiting jobs are looked at in queue order and each is moved to the
    earliest start that the others' reservations leave it; none moves later.
    """
    count = submit.shape[0]
    end_at, end_job, queue = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    at, free = np.zeros(2 * count + 4, np.int64), np.zeros(2 * count + 4, np.int64)
    free[0], bounds = total, 1
    running, waiting, arrived, next_start = 0, 0, 0, NEVER
    while arrived < count or running > 0 or waiting > 0:
        next_submit = submit[arrived] if arrived < count else NEVER
        next_end = end_at[0] if running > 0 else NEVER
        now = min(next_submit, next_end, next_start)
        bounds = forget(at, free, bounds, now)
        if now == next_submit:
            job = arrived
            start[job] = promised[job] = earliest(at, free, bounds, procs[job], estimate[job])
            bounds = add(at, free, bounds, start[job], start[job] + estimate[job], -procs[job])
            queue[waiting] = job
            waiting += 1
            arrived += 1
        elif now == next_end:
            ended = end_job[0]
            remove(end_at, end_job, running, ended)
            running -= 1
            if start[ended] + estimate[ended] > now:
                bounds = add(at, free, bounds, now, start[ended] + estimate[ended], procs[ended])
                for place in range(waiting):
                    job = queue[place]
                    bounds = add(at, free, bounds, start[job], start[job] + estimate[job], procs[job])
                    start[job] = earliest(at, free, bounds, procs[job], estimate[job])
                    bounds = add(at, free, bounds, start[job], start[job] + estimate[job], -procs[job])
        kept, next_start = 0, NEVER
        for place in range(waiting):
            job = queue[place]
            if start[job] <= now:
                insert(end_at, end_job, running, now + run[job], job)
                running += 1
            else:
                queue[kept] = job
                kept += 1
                next_start = min(next_start, start[job])
        waiting = kept
