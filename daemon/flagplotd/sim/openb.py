"""The packing experiment of FGD (USENIX ATC'23) on the openb trace: pods arrive one by one and never leave.

The list of pods is put in a random order. If it asks for less GPU than the wanted part of the cluster's, pods are drawn
from it again until one would pass that, and the whole is shuffled; if it asks for more, it is cut there. A pod
that fits nowhere is dropped. The figure is the allocated GPU over all GPU at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flagplot_wire.errors import Refused
from flagplotd.sched.fragmentation import (
    FLAGPLOT,
    Ints,
    Kinds,
    Nodes,
    Tasks,
    Weights,
    pack,
    published_steps,
    typical,
)
from flagplotd.sim.openb_csv import WHOLE, TraceNode, TracePod

TYPICAL_PERCENT = 95
"""The typical tasks are the most frequent kinds that make up this much of the list."""
FRAGMENTED_AT = 90
"""Percent of the cluster's GPU that must have arrived when the idle GPU's fragmented part is taken."""
MOST_MODELS = 60
NONE = np.zeros(0, np.int64)

POLICIES = ("flagplot", "fgd", "bestfit", "random")


@dataclass(frozen=True)
class Workload:
    """A trace as tables: nodes, kinds of pods and each pod's kind, and what a policy may know: the typical tasks."""

    nodes: Nodes
    kinds: Kinds
    kind: Ints
    tasks: Tasks
    capacity: int
    """GPU-milli of all nodes."""

    @property
    def asks(self) -> Ints:
        """GPU-milli by pod."""
        return (self.kinds.gpus * self.kinds.need)[self.kind]


class Outcome(NamedTuple):
    """Of one run: pods that came and that fitted nowhere; and after each pod, in GPU-milli, what has arrived, what is
    allocated, and the idle GPU's expected fragment."""

    pods: int
    failed: int
    capacity: int
    arrived: Ints
    allocated: Ints
    fragment: Ints

    @property
    def allocated_percent(self) -> float:
        """Allocated GPU of all GPU at the end."""
        return 100 * int(self.allocated[-1]) / self.capacity

    @property
    def fragmented_percent(self) -> float | None:
        """The part of the idle GPU that is a fragment once 90 % of the cluster's GPU has arrived; None: never was."""
        pod = int(np.searchsorted(self.arrived * 100, self.capacity * FRAGMENTED_AT))
        idle = self.capacity - int(self.allocated[pod]) if pod < self.pods else 0
        return 100 * int(self.fragment[pod]) / idle if idle else None


def workload(nodes: list[TraceNode], pods: list[TracePod]) -> Workload:
    """The tables of a trace; refuses one without GPUs or without a pod that asks for one."""
    models = sorted({node.model for node in nodes})
    if len(models) > MOST_MODELS:
        raise Refused("usage", f"the nodes have {len(models)} GPU models; at most {MOST_MODELS} can be told apart")
    if not any(node.gpus for node in nodes):
        raise Refused("usage", "no node has a GPU")
    if not any(pod.gpus for pod in pods):
        raise Refused("usage", "no pod asks for a GPU")

    def bits(spec: tuple[str, ...]) -> int:
        return sum(1 << index for index, model in enumerate(models) if not spec or model in spec)

    width = max(node.gpus for node in nodes)
    idle = np.array([[WHOLE] * node.gpus + [0] * (width - node.gpus) for node in nodes], np.int64)
    number: dict[TracePod, int] = {}
    kind = [number.setdefault(pod, len(number)) for pod in pods]
    return Workload(
        Nodes(
            np.array([node.cpu for node in nodes], np.int64),
            np.array([node.mem for node in nodes], np.int64),
            idle,
            np.array([models.index(node.model) for node in nodes], np.int64),
        ),
        Kinds(
            np.array([pod.cpu for pod in number], np.int64),
            np.array([pod.mem for pod in number], np.int64),
            np.array([pod.gpus for pod in number], np.int64),
            np.array([pod.need for pod in number], np.int64),
            np.array([bits(pod.spec) for pod in number], np.int64),
        ),
        np.array(kind, np.int64),
        typical([(cpu, gpus, need, bits(spec), count) for (cpu, gpus, need, spec), count in frequent(pods)]),
        int(idle.sum()),
    )


def frequent(pods: list[TracePod]) -> list[tuple[tuple[int, int, int, tuple[str, ...]], int]]:
    """The most frequent (cpu, gpus, need, spec) with their counts, as many as make up TYPICAL_PERCENT of the list."""
    counts = Counter((pod.cpu, pod.gpus, pod.need, pod.spec) for pod in pods)
    found = []
    covered = 0
    for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered * 100 >= TYPICAL_PERCENT * len(pods):
            break
        found.append((kind, count))
        covered += count
    return found


def arrivals(load: Workload, percent: int, rng: np.random.Generator) -> Ints:
    """The pods (indices into the list) in the order in which they come, up to `percent` of the cluster's GPU."""
    asks = load.asks
    limit = load.capacity * percent // 100
    order = rng.permutation(asks.shape[0])
    arrived = np.cumsum(asks[order])
    if arrived[-1] > limit:
        return order[: int(np.searchsorted(arrived, limit, side="right"))]
    more: list[int] = []
    total = int(arrived[-1])
    while True:
        pod = int(rng.integers(asks.shape[0]))
        total += int(asks[pod])
        if total > limit:
            return rng.permutation(np.concatenate([order, np.array(more, np.int64)]))
        more.append(pod)


def weights(policy: str, tasks: Tasks) -> Weights:
    """What `policy` prices a placement by."""
    if policy == "flagplot":
        return FLAGPLOT
    if policy == "fgd":
        return Weights(1, 0, 0, published_steps(tasks.total, WHOLE))
    return Weights(0, 0, int(policy == "bestfit"), NONE)


def simulate(load: Workload, policy: str, seed: int, percent: int = 130) -> Outcome:
    """One run. `seed` gives the order of the pods, the order of the nodes (equal prices take the first) and, for
    `random`, the places."""
    coming = arrivals(load, percent, np.random.default_rng(seed))
    if not coming.shape[0]:
        raise Refused("usage", f"the first pod passes {percent} % of the cluster's GPU already", "give more --arrivals")
    shuffled = np.random.default_rng([seed, 1]).permutation(load.nodes.cpu.shape[0])
    nodes = Nodes(*(column[shuffled] for column in load.nodes))
    draws = NONE
    if policy == "random":
        draws = np.random.default_rng([seed, 2]).integers(0, 1 << 60, coming.shape, np.int64)
    kinds = np.take(load.kind, coming)
    chosen, fragments = np.zeros_like(coming), np.zeros_like(coming)
    pack(load.tasks, weights(policy, load.tasks), nodes, load.kinds, kinds, draws, chosen, fragments)
    asks = load.asks[coming]
    placed = chosen >= 0
    return Outcome(
        int(coming.shape[0]),
        int((~placed).sum()),
        load.capacity,
        np.cumsum(asks),
        np.cumsum(asks * placed),
        fragments // load.tasks.total,
    )
