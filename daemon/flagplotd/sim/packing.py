"""Placing pods one by one on nodes, for good: what a placement policy alone is worth."""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from flagplotd.sched.fragmentation import NEVER, Ints, Tasks, Weights, measure, price


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
