"""The compiled loops of a scheduling cycle. Integers only; no allocation inside the inner loops.

Array names: `n_*` by node, `s_*` by shape (jobs with the same request share one), `e_*` by end of a running
job's part on a node (sorted by time). `G` GPUs at most on a node; GPU columns beyond a node's own have `of` 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MEM_ALL = -1
"""The request wants all memory of the node."""
MEM_PART = -2
"""No memory was asked for: the job gets the part of the node's memory that its CPUs are of the node's CPUs."""
FOREVER = 315_360_000

OPTIONS = {"nogil": True, "cache": True}


@njit(**OPTIONS)
def memory_need(mem, cpu, total_mem, total_cpu):
    """MiB that a request needs on one node."""
    if mem == MEM_ALL:
        return total_mem
    if mem == MEM_PART:
        return cpu * total_mem // max(total_cpu, 1)
    return mem


@njit(**OPTIONS)
def pick_gpus(types, counts, shards, vram, share_type, gfree, gof, gtype, gvram, pick):
    """Choose GPUs of one node into `pick` (shards taken of each); False when they do not suffice."""
    width = gof.shape[0]
    for gpu in range(width):
        pick[gpu] = 0
    if shards > 0 or vram > 0:
        best, best_left, best_need = -1, 1 << 30, 0
        for gpu in range(width):
            if gof[gpu] == 0 or (share_type >= 0 and gtype[gpu] != share_type):
                continue
            need = shards
            if vram > 0:
                if gvram[gpu] <= 0:
                    continue
                need = (vram * gof[gpu] + gvram[gpu] - 1) // gvram[gpu]
            if need <= gfree[gpu] and gfree[gpu] - need < best_left:
                best, best_left, best_need = gpu, gfree[gpu] - need, need
        if best < 0:
            return False
        pick[best] = best_need
        return True
    for kind in range(types.shape[0]):
        left = counts[kind]
        for gpu in range(width):
            if left == 0:
                break
            free = gof[gpu] > 0 and gfree[gpu] == gof[gpu] and pick[gpu] == 0
            if free and (types[kind] < 0 or gtype[gpu] == types[kind]):
                pick[gpu] = gof[gpu]
                left -= 1
        if left > 0:
            return False
    return True


@njit(**OPTIONS)
def fits(need, types, counts, cpu, mem, gfree, gof, gtype, gvram, total_cpu, total_mem, jobs, pick):
    """Whether one node with `cpu`, `mem`, `gfree` left can take one part. need: cpu, mem, shards, vram, type, excl."""
    if need[5] and (jobs > 0 or cpu < total_cpu):
        return False
    if need[0] > cpu or memory_need(need[1], need[0], total_mem, total_cpu) > mem:
        return False
    return pick_gpus(types, counts, need[2], need[3], need[4], gfree, gof, gtype, gvram, pick)


@njit(**OPTIONS)
def capable(need, types, counts, allowed, up, n_cpu, n_mem, g_of, g_ok, g_type, g_vram):
    """(nodes that could hold a part when empty and up now, nodes that could if all were up)."""
    pick = np.zeros(g_of.shape[1], np.int64)
    now, ever = 0, 0
    for node in range(n_cpu.shape[0]):
        if not allowed[node]:
            continue
        if fits(need, types, counts, n_cpu[node], n_mem[node], g_of[node], g_of[node], g_type[node], g_vram[node],
                n_cpu[node], n_mem[node], 0, pick):  # fmt: skip
            ever += 1
        if up[node] and fits(need, types, counts, n_cpu[node], n_mem[node], g_ok[node], g_of[node], g_type[node],
                             g_vram[node], n_cpu[node], n_mem[node], 0, pick):  # fmt: skip
            now += 1
    return now, ever


@njit(**OPTIONS)
def choose(fit, count, want_most, n_gpus, cpu, gfree, gof, n_switch, switch_count, chosen):
    """Choose up to `want_most` of the fitting nodes (at least `count` exist): one switch first, fullest first."""
    nodes = fit.shape[0]
    switch = -1
    if want_most > 1:
        for index in range(switch_count.shape[0]):
            switch_count[index] = 0
        for node in range(nodes):
            if fit[node]:
                switch_count[n_switch[node]] += 1
        best = 1 << 60
        for index in range(switch_count.shape[0]):
            if count <= switch_count[index] < best:
                best, switch = switch_count[index], index
    taken = 0
    while taken < want_most:
        best_node, best_score = -1, 1 << 60
        for node in range(nodes):
            if fit[node] != 1 or (switch >= 0 and n_switch[node] != switch):
                continue
            free_gpus = 0
            for gpu in range(gof.shape[1]):
                if gof[node, gpu] > 0 and gfree[node, gpu] == gof[node, gpu]:
                    free_gpus += 1
            # A job without GPUs goes where there are none; others go to the node that is fullest already.
            score = (n_gpus[node] > 0) * 1_000_000_000_000 + free_gpus * 1_000_000 + cpu[node]
            if score < best_score:
                best_node, best_score = node, score
        if best_node < 0:
            break
        fit[best_node] = 2
        chosen[taken] = best_node
        taken += 1
    return taken


@njit(**OPTIONS)
def earliest(need, types, counts, allowed, least, cpu, mem, gfree, jobs, up, n_cpu, n_mem, g_of, g_type, g_vram,
             e_time, e_node, e_cpu, e_mem, e_gpu, fit):  # fmt: skip
    """The first end of a job after which `least` nodes fit; changes its copies. -1: never. Marks `fit`."""
    pick = np.zeros(g_of.shape[1], np.int64)
    found = 0
    for node in range(cpu.shape[0]):
        fit[node] = 0
        if allowed[node] and up[node] and fits(need, types, counts, cpu[node], mem[node], gfree[node], g_of[node],
                                               g_type[node], g_vram[node], n_cpu[node], n_mem[node], jobs[node],
                                               pick):  # fmt: skip
            fit[node] = 1
            found += 1
    if found >= least:
        return 0
    for event in range(e_time.shape[0]):
        node = e_node[event]
        cpu[node] += e_cpu[event]
        mem[node] += e_mem[event]
        jobs[node] -= 1
        for gpu in range(g_of.shape[1]):
            gfree[node, gpu] += e_gpu[event, gpu]
        if fit[node] == 0 and allowed[node] and up[node]:
            if fits(need, types, counts, cpu[node], mem[node], gfree[node], g_of[node], g_type[node], g_vram[node],
                    n_cpu[node], n_mem[node], jobs[node], pick):  # fmt: skip
                fit[node] = 1
                found += 1
        if found >= least:
            return e_time[event]
    return -1


@njit(**OPTIONS)
def insert_end(time, node, cpu, mem, gpu, count, t, n, c, m, g):
    """Insert an end into the sorted arrays, which hold `count` of them."""
    place = count
    while place > 0 and time[place - 1] > t:
        time[place], node[place], cpu[place], mem[place] = (
            time[place - 1],
            node[place - 1],
            cpu[place - 1],
            mem[place - 1],
        )
        gpu[place, :] = gpu[place - 1, :]
        place -= 1
    time[place], node[place], cpu[place], mem[place] = t, n, c, m
    gpu[place, :] = g


@njit(**OPTIONS)
def cycle(now, reservations, j_shape, j_count, s_need, s_types, s_counts, s_least, s_most, s_limit, s_mask, allowed,
          up, n_cpu, n_mem, n_gpus, n_switch, switches, cpu, mem, gfree, jobs, g_of, g_type, g_vram,
          e_time, e_node, e_cpu, e_mem, e_gpu, e_count,
          out_job, out_node, out_pick, out_first, j_started, j_start, j_fits, j_res_node):  # fmt: skip
    """One pass over the jobs in order: start what fits, reserve for the first blocked, backfill behind them.

    `cpu`, `mem`, `gfree`, `jobs` are what is free now and are changed. Writes one row of `out_*` for each part
    of a start; `j_started` counts starts of a job, `j_start` is its planned start (0: not planned, -1: never as
    things are), `j_fits` is 1 when it fits now but would delay a reservation. Returns the rows written.
    """
    nodes, width = g_of.shape
    x_cpu, x_mem, x_gfree = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros((nodes, width), np.int64)
    r_cpu, r_mem, r_gpu = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros((nodes, width), np.int64)
    reserved_at = np.full(nodes, 1 << 60, np.int64)
    failed = np.zeros(s_least.shape[0], np.uint8)
    fit = np.zeros(nodes, np.uint8)
    chosen = np.zeros(nodes, np.int64)
    pick = np.zeros(width, np.int64)
    both = np.zeros(width, np.int64)
    switch_count = np.zeros(switches, np.int64)
    rows, made = 0, 0
    for job in range(j_shape.shape[0]):
        shape = j_shape[job]
        need, types, counts = s_need[shape], s_types[shape], s_counts[shape]
        mine = allowed[s_mask[shape]]
        limit = s_limit[shape]
        while j_started[job] < j_count[job] and not failed[shape]:
            found, loose = 0, 0
            for node in range(nodes):
                fit[node] = 0
                if not (mine[node] and up[node]):
                    continue
                if not fits(need, types, counts, cpu[node], mem[node], gfree[node], g_of[node], g_type[node],
                            g_vram[node], n_cpu[node], n_mem[node], jobs[node], pick):  # fmt: skip
                    continue
                loose += 1
                if now + limit > reserved_at[node]:
                    for gpu in range(width):
                        both[gpu] = min(gfree[node, gpu], x_gfree[node, gpu])
                    if not fits(need, types, counts, min(cpu[node], x_cpu[node]), min(mem[node], x_mem[node]), both,
                                g_of[node], g_type[node], g_vram[node], n_cpu[node], n_mem[node], jobs[node],
                                pick):  # fmt: skip
                        continue
                fit[node] = 1
                found += 1
            if (
                found < s_least[shape]
                or rows + s_most[shape] > out_job.shape[0]
                or e_count[0] + s_most[shape] > e_time.shape[0]
            ):
                failed[shape] = 1
                if loose >= s_least[shape]:
                    j_fits[job] = 1
                break
            taken = choose(fit, s_least[shape], min(s_most[shape], found), n_gpus, cpu, gfree, g_of, n_switch,
                           switch_count, chosen)  # fmt: skip
            if taken < s_least[shape]:
                failed[shape] = 1
                break
            for part in range(taken):
                node = chosen[part]
                late = now + limit > reserved_at[node]
                for gpu in range(width):
                    both[gpu] = min(gfree[node, gpu], x_gfree[node, gpu]) if late else gfree[node, gpu]
                pick_gpus(types, counts, need[2], need[3], need[4], both, g_of[node], g_type[node], g_vram[node], pick)
                use_cpu = n_cpu[node] if need[5] else need[0]
                use_mem = memory_need(need[1], need[0], n_mem[node], n_cpu[node])
                cpu[node] -= use_cpu
                mem[node] -= use_mem
                jobs[node] += 1
                if late:
                    x_cpu[node] -= use_cpu
                    x_mem[node] -= use_mem
                out_job[rows], out_node[rows], out_first[rows] = job, node, part == 0
                for gpu in range(width):
                    out_pick[rows, gpu] = pick[gpu]
                    gfree[node, gpu] -= pick[gpu]
                    if late:
                        x_gfree[node, gpu] -= pick[gpu]
                insert_end(e_time, e_node, e_cpu, e_mem, e_gpu, e_count[0], now + limit, node, use_cpu, use_mem, pick)
                e_count[0] += 1
                rows += 1
            j_started[job] += 1
        if j_started[job] >= j_count[job] or made >= reservations:
            continue
        if j_start[job] == -1:
            continue
        made += 1
        t_cpu, t_mem, t_gfree, t_jobs = cpu - r_cpu, mem - r_mem, gfree - r_gpu, jobs.copy()
        count = e_count[0]
        start = earliest(need, types, counts, mine, s_least[shape], t_cpu, t_mem, t_gfree, t_jobs, up, n_cpu, n_mem,
                         g_of, g_type, g_vram, e_time[:count], e_node[:count], e_cpu[:count], e_mem[:count],
                         e_gpu[:count], fit)  # fmt: skip
        if start < 0:
            j_start[job] = 0
            continue
        start = max(start, now + 1)
        j_start[job] = start
        taken = choose(
            fit, s_least[shape], s_least[shape], n_gpus, t_cpu, t_gfree, g_of, n_switch, switch_count, chosen
        )
        j_res_node[job] = chosen[0]
        for part in range(taken):
            node = chosen[part]
            pick_gpus(
                types, counts, need[2], need[3], need[4], t_gfree[node], g_of[node], g_type[node], g_vram[node], pick
            )
            use_cpu = n_cpu[node] if need[5] else need[0]
            use_mem = memory_need(need[1], need[0], n_mem[node], n_cpu[node])
            r_cpu[node] += use_cpu
            r_mem[node] += use_mem
            for gpu in range(width):
                r_gpu[node, gpu] += pick[gpu]
            # What is free on this node when its first reservation begins, less all its reservations.
            if reserved_at[node] == 1 << 60 or start < reserved_at[node]:
                reserved_at[node] = start
            x_cpu[node], x_mem[node] = cpu[node] - r_cpu[node], mem[node] - r_mem[node]
            for gpu in range(width):
                x_gfree[node, gpu] = gfree[node, gpu] - r_gpu[node, gpu]
            for event in range(count):
                if e_time[event] <= reserved_at[node] and e_node[event] == node:
                    x_cpu[node] += e_cpu[event]
                    x_mem[node] += e_mem[event]
                    for gpu in range(width):
                        x_gfree[node, gpu] += e_gpu[event, gpu]
            if e_count[0] < e_time.shape[0]:
                insert_end(e_time, e_node, e_cpu, e_mem, e_gpu, e_count[0], start + limit, node, use_cpu, use_mem, pick)
                e_count[0] += 1
    return rows
