"""Whether one node's part fits into what is free, and which GPUs it takes."""

from __future__ import annotations

from numba import njit

from flagplotd.sched.shapes import MEM_ALL, MEM_PART

OPTIONS = {"nogil": True, "cache": True}
INNER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Of kernels that only kernels call: nothing is compiled to call them from Python, which takes a fifth of the time."""


@njit(**INNER)
def cpus_of(shape, node):
    """CPUs that a part takes."""
    return node.cpus if shape.exclusive else shape.cpu


@njit(**INNER)
def memory_of(shape, node):
    """MiB that a part takes."""
    if shape.mem == MEM_ALL:
        return node.mems
    if shape.mem == MEM_PART:
        return shape.cpu * node.mems // max(node.cpus, 1)
    return shape.mem


@njit(**INNER)
def shards_for(asked, of, vram):
    """Shards that hold `asked` MiB on a GPU of `of` shards and `vram` MiB; more than it has where it cannot."""
    return (asked * of + vram - 1) // vram if vram > 0 else of + 1


@njit(**INNER)
def share_of(shape, of, vram):
    """Shards that the share is on a GPU of `of` shards and `vram` MiB; more than it has where it cannot hold it."""
    return shape.shards if shape.vram == 0 else shards_for(shape.vram, of, vram)


@njit(**INNER)
def best_share(shape, free, cards):
    """The GPU with the least room that holds the share (-1: none)."""
    best, left = -1, 1 << 30
    for gpu in range(cards.shape[0]):
        if cards[gpu].of == 0 or (shape.stype >= 0 and cards[gpu].kind != shape.stype):
            continue
        rest = free[gpu] - share_of(shape, cards[gpu].of, cards[gpu].vram)
        if 0 <= rest < left:
            best, left = gpu, rest
    return best


@njit(**INNER)
def holds(shape, free, cards):
    """Whether GPUs with `free` shards suffice."""
    if shape.shards > 0 or shape.vram > 0:
        return best_share(shape, free, cards) >= 0
    spare = 0
    for gpu in range(cards.shape[0]):
        spare += cards[gpu].of > 0 and free[gpu] == cards[gpu].of
    if spare < shape.gpus:
        return False
    for index in range(shape.kinds):
        if shape.kind[index] >= 0:
            there = 0
            for gpu in range(cards.shape[0]):
                there += cards[gpu].of > 0 and free[gpu] == cards[gpu].of and cards[gpu].kind == shape.kind[index]
            if there < shape.count[index]:
                return False
    return True


@njit(**INNER)
def fits(shape, node, room, room_gpu, cards):
    """Whether a part fits into `room` (CPUs, MiB) and the shards `room_gpu`."""
    if shape.cpu > room[0] or (shape.exclusive and room[0] < node.cpus):
        return False
    if memory_of(shape, node) > room[1]:
        return False
    return (shape.gpus == 0 and shape.shards == 0 and shape.vram == 0) or holds(shape, room_gpu, cards)


@njit(**INNER)
def _domain(want, kind_wanted, cpu, free, cards, cores, taken):
    """The NUMA domain to take GPUs from next: the smallest that has all of `want`, rather with `cpu` free CPUs; else
    the one that has most."""
    best, best_score = -1, -(1 << 40)
    for domain in range(cores.shape[0]):
        there = 0
        for gpu in range(cards.shape[0]):
            if cards[gpu].of > 0 and free[gpu] == cards[gpu].of and taken[gpu] == 0 and cards[gpu].numa == domain:
                there += kind_wanted < 0 or cards[gpu].kind == kind_wanted
        if there == 0:
            continue
        score = there
        if there >= want:
            score = (2 if cores[domain] >= cpu else 1) * 1_000_000 - there
        if score > best_score:
            best, best_score = domain, score
    return best


@njit(**INNER)
def pick(shape, free, cards, cores, taken):
    """Choose the GPUs of a part that fits: shards of each into `taken`; those of one NUMA domain where possible."""
    taken[:] = 0
    if shape.shards > 0 or shape.vram > 0:
        gpu = best_share(shape, free, cards)
        if gpu >= 0:
            taken[gpu] = share_of(shape, cards[gpu].of, cards[gpu].vram)
        return
    for index in range(shape.kinds):
        left = shape.count[index]
        while left > 0:
            domain = _domain(left, shape.kind[index], shape.cpu, free, cards, cores, taken)
            before = left
            for gpu in range(cards.shape[0]):
                if left == 0:
                    break
                if (
                    cards[gpu].of == 0
                    or free[gpu] < cards[gpu].of
                    or taken[gpu] > 0
                    or (domain >= 0 and cards[gpu].numa != domain)
                ):
                    continue
                if shape.kind[index] < 0 or cards[gpu].kind == shape.kind[index]:
                    taken[gpu] = cards[gpu].of
                    left -= 1
            if left == before:
                return


@njit(**INNER)
def near_enough(shape, taken, cards, cores):
    """Whether the NUMA domains of the chosen GPUs have the part's CPUs free."""
    there = 0
    for domain in range(cores.shape[0]):
        for gpu in range(taken.shape[0]):
            if taken[gpu] > 0 and cards[gpu].numa == domain:
                there += cores[domain]
                break
    return there >= shape.cpu
