"""Whether one node's part fits into what is free, and which GPUs it takes."""

from __future__ import annotations

from flagplotd.sched.kernel.compiler import inner
from flagplotd.sched.shapes import MEM_ALL, MEM_PART

MOST_DOMAINS = 8
"""NUMA domains of a node of which all sets are compared."""


@inner
def cpus_of(shape, node):
    """CPUs that a part takes."""
    return node.cpus if shape.exclusive else shape.cpu


@inner
def memory_of(shape, node):
    """MiB that a part takes."""
    if shape.mem == MEM_ALL:
        return node.mems
    if shape.mem == MEM_PART:
        return shape.cpu * node.mems // max(node.cpus, 1)
    return shape.mem


@inner
def shards_for(asked, of, vram):
    """Shards that hold `asked` MiB on a GPU of `of` shards and `vram` MiB; more than it has where it cannot."""
    return (asked * of + vram - 1) // vram if vram > 0 else of + 1


@inner
def share_of(shape, of, vram):
    """Shards that the share is on a GPU of `of` shards and `vram` MiB; more than it has where it cannot hold it."""
    return shape.shards if shape.vram == 0 else shards_for(shape.vram, of, vram)


@inner
def best_share(shape, free, cards, domains):
    """The GPU with the least room that holds the share, on one of the NUMA `domains` (bits; -1: any). -1: none does."""
    best, left = -1, 1 << 30
    for gpu in range(cards.shape[0]):
        if cards[gpu].of == 0 or (shape.stype >= 0 and cards[gpu].kind != shape.stype):
            continue
        if domains >= 0 and not domains >> cards[gpu].numa & 1:
            continue
        rest = free[gpu] - share_of(shape, cards[gpu].of, cards[gpu].vram)
        if 0 <= rest < left:
            best, left = gpu, rest
    return best


@inner
def holds(shape, free, cards):
    """Whether GPUs with `free` shards suffice."""
    if shape.shards > 0 or shape.vram > 0:
        return best_share(shape, free, cards, -1) >= 0
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


@inner
def fits(shape, node, room, room_gpu, cards):
    """Whether a part fits into `room` (CPUs, MiB) and the shards `room_gpu`."""
    if shape.cpu > room[0] or (shape.exclusive and room[0] < node.cpus):
        return False
    if memory_of(shape, node) > room[1]:
        return False
    return (shape.gpus == 0 and shape.shards == 0 and shape.vram == 0) or holds(shape, room_gpu, cards)


@inner
def _whole(kind, free, cards, taken, domains):
    """The whole GPUs that may still be chosen, as bits, of a type (-1: any) and of some NUMA domains (bits; -1: any)."""
    bits = 0
    for gpu in range(cards.shape[0]):
        card = cards[gpu]
        if card.of > 0 and free[gpu] == card.of and taken[gpu] == 0 and (kind < 0 or card.kind == kind):
            if domains < 0 or domains >> card.numa & 1:
                bits |= 1 << gpu
    return bits


@inner
def _ones(bits):
    count = 0
    while bits > 0:
        bits &= bits - 1
        count += 1
    return count


@inner
def _group(bits, want, cpu, linked, cards, cores):
    """Of GPUs (bits) those to take first, which links join or which are of one NUMA domain: the fewest that are `want`,
    rather beside `cpu` free CPUs; else the most."""
    best, best_score = 0, -1
    for first in range(cards.shape[0]):
        if not bits >> first & 1:
            continue
        group, domains, beside = 0, 0, 0
        for gpu in range(cards.shape[0]):
            same = cards[gpu].island == cards[first].island if linked else cards[gpu].numa == cards[first].numa
            if same and bits >> gpu & 1:
                group |= 1 << gpu
                domains |= 1 << cards[gpu].numa
        for domain in range(cores.shape[0]):
            beside += cores[domain] if domains >> domain & 1 else 0
        there = _ones(group)
        score = there
        if there >= want:
            score = (2 if beside >= cpu else 1) * 1_000_000 - there
        if score > best_score:
            best, best_score = group, score
    return best


@inner
def _beside(shape, free, cards, cores, none):
    """The fewest NUMA domains, as bits, that hold all CPUs of a part and have a GPU each of those that it takes (-1: there
    are none, or it takes several types). Of a share: all domains that do alone. `none` are W zeros."""
    if shape.shards > 0 or shape.vram > 0:
        bits = 0
        for domain in range(cores.shape[0]):
            bits |= (cores[domain] >= shape.cpu) << domain
        return bits
    if shape.kinds != 1 or cores.shape[0] > MOST_DOMAINS:
        return -1
    best, best_score = -1, 1 << 40
    for bits in range(1, 1 << cores.shape[0]):
        there, many, cpus, bare = 0, 0, 0, False
        for domain in range(cores.shape[0]):
            if bits >> domain & 1:
                some = _ones(_whole(shape.kind[0], free, cards, none, 1 << domain))
                there, many, cpus, bare = there + some, many + 1, cpus + cores[domain], bare or some == 0
        if bare or cpus < shape.cpu or there < shape.gpus or many > shape.gpus:
            continue
        if (many << 10) + there < best_score:
            best, best_score = bits, (many << 10) + there
    return best


@inner
def pick(shape, free, cards, cores, taken):
    """Choose the GPUs of a part that fits: shards of each into `taken`. Several are joined by links where possible, and
    those of one NUMA domain; where they must be near its CPUs, of domains that have them."""
    taken[:] = 0
    domains = _beside(shape, free, cards, cores, taken) if shape.near else -1
    if shape.shards > 0 or shape.vram > 0:
        gpu = best_share(shape, free, cards, domains)
        if gpu < 0:
            gpu = best_share(shape, free, cards, -1)
        if gpu >= 0:
            taken[gpu] = share_of(shape, cards[gpu].of, cards[gpu].vram)
        return
    for index in range(shape.kinds):
        kind, left = shape.kind[index], shape.count[index]
        if domains >= 0:
            left -= _one_of_each(kind, free, cards, cores, taken, domains)
        there = _whole(kind, free, cards, taken, domains)
        while left > 0 and there > 0:
            some = _group(there, left, shape.cpu, True, cards, cores)
            if left == 1 or _ones(some) < left:
                some = there
            while left > 0 and some > 0:
                beside = _group(some, left, shape.cpu, False, cards, cores)
                while left > 0 and beside > 0:
                    joined = _group(beside, left, 0, True, cards, cores)
                    some, beside, there = some & ~joined, beside & ~joined, there & ~joined
                    for gpu in range(cards.shape[0]):
                        if left > 0 and joined >> gpu & 1:
                            taken[gpu] = cards[gpu].of
                            left -= 1


@inner
def pick_any(shape, free, cards, taken):
    """As `pick`, whatever joins the GPUs: how many of each type there are then is the same."""
    taken[:] = 0
    if shape.shards > 0 or shape.vram > 0:
        gpu = best_share(shape, free, cards, -1)
        if gpu >= 0:
            taken[gpu] = share_of(shape, cards[gpu].of, cards[gpu].vram)
        return
    for index in range(shape.kinds):
        left, there = shape.count[index], _whole(shape.kind[index], free, cards, taken, -1)
        for gpu in range(cards.shape[0]):
            if left > 0 and there >> gpu & 1:
                taken[gpu] = cards[gpu].of
                left -= 1


@inner
def _one_of_each(kind, free, cards, cores, taken, domains):
    """Choose a GPU of each of several domains, whose CPUs are near then; returns how many."""
    count = 0
    for domain in range(cores.shape[0]):
        if domains == 1 << domain or not domains >> domain & 1:
            continue
        joined = _group(_whole(kind, free, cards, taken, 1 << domain), 1, 0, True, cards, cores)
        for gpu in range(cards.shape[0]):
            if joined >> gpu & 1:
                taken[gpu] = cards[gpu].of
                count += 1
                break
    return count


@inner
def near_enough(shape, taken, cards, cores):
    """Whether the NUMA domains of the chosen GPUs have the part's CPUs free."""
    there = 0
    for domain in range(cores.shape[0]):
        for gpu in range(taken.shape[0]):
            if taken[gpu] > 0 and cards[gpu].numa == domain:
                there += cores[domain]
                break
    return there >= shape.cpu


@inner
def take_cores(cpu, gpus, cards, cores, taken, sign):
    """Take CPUs of `cores`, by NUMA domain, first of the domains of the chosen GPUs, as `place` does; adds `sign` times
    what is taken of each to `taken`."""
    left = cpu
    for near in (True, False):
        for domain in range(cores.shape[0]):
            used = False
            for gpu in range(gpus.shape[0]):
                used |= gpus[gpu] > 0 and cards[gpu].numa == domain
            if used == near:
                some = min(left, cores[domain])
                cores[domain] -= some
                left -= some
                if domain < taken.shape[0]:
                    taken[domain] += sign * some
