"""Fragmentation and packing in plain Python, straight from their definitions: nothing cached, nothing compiled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

Kind = tuple[int, int, int, int, int]
"""CPU, memory, GPUs, parts of each, models (bits)."""
Typical = tuple[int, int, int, int, int]
"""CPU, GPUs, parts of each, models (bits), weight."""


@dataclass
class Host:
    """What is free on a node, and its GPU model."""

    cpu: int
    mem: int
    idle: list[int]
    model: int


def runs(task: Typical, cpu: int, idle: list[int], model: int) -> bool:
    """Whether a typical task could run there."""
    need_cpu, gpus, need, models, _ = task
    return need_cpu <= cpu and bool(models >> model & 1) and len([free for free in idle if free >= need]) >= gpus


def fragment_of(task: Typical, cpu: int, idle: list[int], model: int) -> int:
    """F_n(m) of the paper; a task without GPU can use none of it."""
    if task[1] == 0 or not runs(task, cpu, idle, model):
        return sum(idle)
    return sum(free for free in idle if free < task[2])


def stranded_of(task: Typical, cpu: int, idle: list[int], model: int) -> int:
    """What is idle still when as many copies of the task as fit have come, counting GPU parts and CPUs only."""
    need_cpu, gpus, need, _, _ = task
    if gpus == 0 or not runs(task, cpu, idle, model):
        return sum(idle)
    slots = sum(free // need for free in idle)
    copies = 0
    while slots >= gpus and cpu >= need_cpu:
        slots, cpu, copies = slots - gpus, cpu - need_cpu, copies + 1
    return sum(idle) - copies * gpus * need


def measure_of(tasks: list[Typical], cpu: int, idle: list[int], model: int) -> tuple[int, int]:
    """(fragment, stranded), weighted."""
    return (
        sum(task[4] * fragment_of(task, cpu, idle, model) for task in tasks),
        sum(task[4] * stranded_of(task, cpu, idle, model) for task in tasks),
    )


def best_on(
    host: Host, kind: Kind, tasks: list[Typical], weights: tuple[int, int, int], steps: list[int], largest: list[int]
) -> tuple[int, tuple[int, ...]] | None:
    """(price, GPUs) of the best placement of a pod on a node; None where it does not fit."""
    cpu, mem, gpus, need, models = kind
    if cpu > host.cpu or mem > host.mem or (gpus and not models >> host.model & 1):
        return None
    fitting = sorted((free, gpu) for gpu, free in enumerate(host.idle) if free >= need)
    if len(fitting) < gpus:
        return None
    ways = combinations(fitting, 1) if gpus == 1 else [tuple(fitting[:gpus])]
    before = measure_of(tasks, host.cpu, host.idle, host.model)
    found = []
    for way in ways:
        chosen = tuple(gpu for _, gpu in way)
        idle = [free - need * (gpu in chosen) for gpu, free in enumerate(host.idle)]
        now = measure_of(tasks, host.cpu - cpu, idle, host.model)
        more = now[0] - before[0]
        if steps:
            more = len([step for step in steps if step < more])
        fit = (1_000 * (host.cpu - cpu) // largest[0] + 1_000 * sum(idle) // largest[1]) // 2
        total = sum(task[4] for task in tasks)
        price = 1_000 * (weights[0] * more + weights[1] * (now[1] - before[1])) + weights[2] * total * fit
        found.append((price, [free for free, _ in way], chosen))
    price, _, chosen = min(found)
    return price, chosen


def pack_all(
    hosts: list[Host], kinds: list[Kind], pods: list[int], tasks: list[Typical], weights: tuple[int, int, int],
    steps: list[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """(node or -1, fragment of all nodes after) of each pod; every price is worked out anew. Changes `hosts`."""
    largest = [max(1, *(host.cpu for host in hosts)), max(1, *(sum(host.idle) for host in hosts))]
    chosen, fragments = [], []
    for pod in pods:
        offers = []
        for node, host in enumerate(hosts):
            best = best_on(host, kinds[pod], tasks, weights, steps, largest)
            if best is not None:
                offers.append((best[0], node, best[1]))
        if offers:
            _, node, gpus = min(offers)
            hosts[node].cpu -= kinds[pod][0]
            hosts[node].mem -= kinds[pod][1]
            for gpu in gpus:
                hosts[node].idle[gpu] -= kinds[pod][3]
        chosen.append(min(offers)[1] if offers else -1)
        fragments.append(sum(measure_of(tasks, host.cpu, host.idle, host.model)[0] for host in hosts))
    return chosen, fragments
