"""GPU fragmentation (FGD): how much idle GPU the typical tasks could not use, and what a placement adds to it.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC'23. For one task, a node's *fragment* is all of its idle GPU if the task cannot run there (or asks for no
GPU), else the idle GPU of those of its GPUs that are too small. Its *stranded* GPU, which is ours, also counts what
copies of the task would leave idle once the node's CPUs or the GPUs' remainders are used up. A node's fragmentation
is the sum over the typical tasks, each times its weight. Integers only: CPU in any unit, GPU in parts of which
`capacity` are a whole GPU (milli, or shards), fragmentation in weight x parts.

`pack` places pods one by one by that score. It is here and not beside the simulator because the compiler's cache looks
at a kernel's own file only: kernels that call each other across files would go stale.
"""
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NEVER = 1 << 62
"""The price of a placement that is not possible."""
FIT_UNIT = 1_000
"""Best fit counts the part of the largest node's CPU and GPU that is left idle, each in 1/1,000, and halves the sum."""


class Tasks(NamedTuple):
    """The typical tasks, one a row: CPU, number of GPUs, parts of each, models that may serve (bit m: model m), weight;
    `total` weight. Only `total` counts those that ask for no GPU: the tables leave them out."""

    cpu: Ints
    gpus: Ints
    need: Ints
    models: Ints
    weight: Ints
    total: int


class Nodes(NamedTuple):
    """What is free, by node: CPU, memory, GPU (`idle[node, gpu]` in parts, 0 where there is none); its GPU model."""

    cpu: Ints
    mem: Ints
    idle: NDArray[np.int64]
    model: Ints


class Kinds(NamedTuple):
    """Requests, each kind of pod once: CPU, memory, number of GPUs, parts of each, models that may serve (bits)."""

    cpu: Ints
    mem: Ints
    gpus: Ints
    need: Ints
    models: Ints


class Weights(NamedTuple):
    """What a placement is priced by: weights of the change of `fragment` and of `stranded` GPU, in parts of a GPU,
    and of best `fit`. `steps`, if any, are changes of the fragment between which prices do not differ.
    """

    fragment: int
    stranded: int
    fit: int
    steps: Ints


FLAGPLOT = Weights(fragment=19, stranded=1, fit=200, steps=np.zeros(0, np.int64))
"""Our setting: `fit` counts as much as 200 / (19 + 1) = 10 parts of fragment at most. Chosen on workloads of the openb
trace and on mixes drawn from it, see benchmarks/openb.py."""


def typical(tasks: Sequence[tuple[int, int, int, int, int]]) -> Tasks:
    """The tables of tasks given as (cpu, gpus, need, models, weight)."""
    rows = np.array([task for task in tasks if task[1] > 0], np.int64).reshape(-1, 5)
    cpu, gpus, need, models, weight = (np.ascontiguousarray(rows[:, column]) for column in range(5))
    return Tasks(cpu, gpus, need, models, weight, sum(task[4] for task in tasks))


def published_steps(total: int, capacity: int) -> Ints:
    """The steps of FGD as published: floor(100 x sigmoid(- change in GPUs)) for tasks of `total` weight.

    The rounding matters: without it the policy allocates about one percent less of the openb cluster.
    """
    bounds = [-capacity * total * math.log(score / (100 - score)) for score in range(99, 0, -1)]
    return np.array([math.floor(bound) for bound in bounds], np.int64)


@njit(nogil=True, cache=True)
def measure(tasks: Tasks, model: int, cpu: int, idle: Ints) -> tuple[int, int]:
    """(fragment, stranded) of a node, in weight x parts, with `cpu` and the parts `idle` by GPU free.

    Divided by `tasks.total` they are what a task drawn from the typical ones is expected to find.
    """
    parts = 0
    for gpu in range(idle.shape[0]):
        parts += idle[gpu]
    usable, filled = 0, 0
    for task in range(tasks.cpu.shape[0]):
        if tasks.cpu[task] > cpu or not tasks.models[task] >> model & 1:
            continue
        need, count, big, copies = tasks.need[task], 0, 0, 0
        for gpu in range(idle.shape[0]):
            if idle[gpu] >= need:
                count += 1
                big += idle[gpu]
                copies += idle[gpu] // need
        if count < tasks.gpus[task]:
            continue
        copies //= tasks.gpus[task]
        if tasks.cpu[task] > 0:
            copies = min(copies, cpu // tasks.cpu[task])
        usable += tasks.weight[task] * big
        filled += tasks.weight[task] * copies * tasks.gpus[task] * need
    return tasks.total * parts - usable, tasks.total * parts - filled


@njit(nogil=True, cache=True)
def take(idle: Ints, gpus: int, need: int, pick: Ints) -> bool:
    """Mark in `pick` the `gpus` GPUs that hold `need` parts each, the fullest first; False when they are too few."""
    for gpu in range(idle.shape[0]):
        pick[gpu] = 0
    for _ in range(gpus):
        best = -1
        for gpu in range(idle.shape[0]):
            if not pick[gpu] and idle[gpu] >= need and (best < 0 or idle[gpu] < idle[best]):
                best = gpu
        if best < 0:
            return False
        pick[best] = 1
    return True


@njit(nogil=True, cache=True)
def change(tasks: Tasks, weights: Weights, model: int, cpu: int, idle: Ints, need: int, pick: Ints,
           before: tuple[int, int]) -> int:  # fmt: skip
    """The weighted change from `before` when the GPUs in `pick` give `need` parts each; `cpu` is what is left then."""
    for gpu in range(idle.shape[0]):
        idle[gpu] -= need * pick[gpu]
    fragment, stranded = measure(tasks, model, cpu, idle)
    for gpu in range(idle.shape[0]):
        idle[gpu] += need * pick[gpu]
    more = fragment - before[0]
    if weights.steps.shape[0] > 0:
        more = int(np.searchsorted(weights.steps, more))
    return weights.fragment * more + weights.stranded * (stranded - before[1])


@njit(nogil=True, cache=True)
def price(tasks: Tasks, weights: Weights, model: int, cpu: int, idle: Ints, gpus: int, need: int,
          before: tuple[int, int], largest: Ints, pick: Ints) -> int:  # fmt: skip
    """The least price of a task on a node, its GPUs marked in `pick`; NEVER when there are too few.

    `cpu` is what the task leaves, `before` what `measure` said of the node, `largest` the CPU and the parts of the
    largest node. Of GPUs with the same price the fullest is taken, then the lowest.
    """
    if not take(idle, gpus, need, pick):
        return NEVER
    parts = int(idle.sum()) - gpus * need
    fit = (FIT_UNIT * cpu // largest[0] + FIT_UNIT * parts // largest[1]) // 2
    base = weights.fit * tasks.total * fit
    if weights.fragment == 0 and weights.stranded == 0:
        return base
    least = change(tasks, weights, model, cpu, idle, need, pick, before)
    if gpus == 1:
        best = 0
        while not pick[best]:
            best += 1
        fullest = idle[best]
        pick[best] = 0
        for gpu in range(idle.shape[0]):
            if idle[gpu] <= fullest or (gpu > 0 and idle[gpu] == idle[gpu - 1]):
                continue
            pick[gpu] = 1
            more = change(tasks, weights, model, cpu, idle, need, pick, before)
            pick[gpu] = 0
            if more < least or (more == least and idle[gpu] < idle[best]):
                least, best = more, gpu
        pick[best] = 1
    return base + FIT_UNIT * least


@njit(nogil=True, cache=True)
def price_on(tasks: Tasks, weights: Weights, nodes: Nodes, kinds: Kinds, now: Ints, largest: Ints, kind: int,
             node: int, pick: Ints) -> int:  # fmt: skip
    """The least price of a pod of `kind` on `node`, its GPUs marked in `pick`; NEVER when it does not fit."""
    cpu = nodes.cpu[node] - kinds.cpu[kind]
    if cpu < 0 or nodes.mem[node] < kinds.mem[kind]:
        return NEVER
    model = nodes.model[node]
    if kinds.gpus[kind] > 0 and not kinds.models[kind] >> model & 1:
        return NEVER
    before = (now[node, 0], now[node, 1])
    return price(
        tasks, weights, model, cpu, nodes.idle[node], kinds.gpus[kind], kinds.need[kind], before, largest, pick
    )


@njit(nogil=True, cache=True)
def any_node(prices: Ints, draw: int) -> int:
    """The node that `draw` (0 or more) hits among those where the pod fits; -1: it fits nowhere."""
    fitting = 0
    for node in range(prices.shape[0]):
        fitting += prices[node] != NEVER
    left = draw % max(fitting, 1)
    for node in range(prices.shape[0]):
        if prices[node] != NEVER:
            if left == 0:
                return node
            left -= 1
    return -1


@njit(nogil=True, cache=True)
def any_gpu(idle: Ints, need: int, draw: int, pick: Ints) -> None:
    """Mark in `pick` the GPU that `draw` hits among those with `need` parts; at least one has them."""
    fitting = 0
    for gpu in range(idle.shape[0]):
        pick[gpu] = 0
        fitting += idle[gpu] >= need
    left = draw % fitting
    for gpu in range(idle.shape[0]):
        if idle[gpu] >= need:
            pick[gpu] = left == 0
            left -= 1


@njit(nogil=True, cache=True)
def pack(tasks: Tasks, weights: Weights, nodes: Nodes, kinds: Kinds, pods: Ints, draws: Ints, chosen: Ints,
         fragments: Ints) -> None:  # fmt: skip
    """Place each pod (`pods`: its kind) where its price is least, or drop it. Equal prices: the lowest node.

    Changes `nodes`; fills `chosen` (the node, or -1) and `fragments` (of all nodes after each pod). With `draws`
    (a large number for each pod) they decide instead of the price. A price is computed again only when its node has
    changed since: `changed[node]` and `known[kind]` count pods.
    """
    count = nodes.cpu.shape[0]
    pick = np.zeros(nodes.idle.shape[1], np.int64)
    prices = np.full((kinds.cpu.shape[0], count), NEVER, np.int64)
    changed, known = np.zeros(count, np.int64), np.full(kinds.cpu.shape[0], -1, np.int64)
    largest = np.array([max(nodes.cpu.max(), 1), max(nodes.idle.sum(axis=1).max(), 1)])
    now = np.zeros((count, 2), np.int64)
    whole = 0
    for node in range(count):
        now[node] = measure(tasks, nodes.model[node], nodes.cpu[node], nodes.idle[node])
        whole += now[node, 0]
    for pod in range(pods.shape[0]):
        kind = pods[pod]
        best = -1
        for node in range(count):
            if changed[node] > known[kind]:
                prices[kind, node] = price_on(tasks, weights, nodes, kinds, now, largest, kind, node, pick)
            if prices[kind, node] < NEVER and (best < 0 or prices[kind, node] < prices[kind, best]):
                best = node
        known[kind] = pod
        if draws.shape[0] > 0:
            best = any_node(prices[kind], draws[pod])
        chosen[pod] = best
        if best >= 0:
            price_on(tasks, weights, nodes, kinds, now, largest, kind, best, pick)
            if draws.shape[0] > 0 and kinds.gpus[kind] == 1:
                any_gpu(nodes.idle[best], kinds.need[kind], draws[pod] >> 20, pick)
            nodes.cpu[best] -= kinds.cpu[kind]
            nodes.mem[best] -= kinds.mem[kind]
            for gpu in range(pick.shape[0]):
                nodes.idle[best, gpu] -= pick[gpu] * kinds.need[kind]
            whole -= now[best, 0]
            now[best] = measure(tasks, nodes.model[best], nodes.cpu[best], nodes.idle[best])
            whole += now[best, 0]
            changed[best] = pod + 1
        fragments[pod] = whole
