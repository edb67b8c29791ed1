"""The compiled fragmentation score and packing against plain Python, on random nodes, tasks and pods."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some
from support.packing_oracle import Host, Kind, Typical, measure_of, pack_all

from flagplotd.sched.fragmentation import FLAGPLOT, Kinds, Nodes, Weights, measure, pack, published_steps, typical

CAPACITY, WIDTH, MODELS = 8, 4, 2

parts = some.integers(1, CAPACITY)
idles = some.lists(some.sampled_from([0, 3, 5, CAPACITY, CAPACITY]), min_size=WIDTH, max_size=WIDTH)
bits = some.sampled_from([0b01, 0b10, 0b11, 0b11])


def _task(cpu: int, gpus: int, need: int, models: int, weight: int) -> Typical:
    return cpu, gpus, CAPACITY if gpus > 1 else need if gpus else 0, models, weight


def _kind(cpu: int, mem: int, gpus: int, need: int, models: int) -> Kind:
    return cpu, mem, gpus, CAPACITY if gpus > 1 else need if gpus else 0, models


tasks_ = some.lists(
    some.builds(_task, some.integers(0, 9), some.integers(0, 3), parts, bits, some.integers(1, 50)),
    min_size=1,
    max_size=8,
)
kinds_ = some.lists(
    some.builds(_kind, some.integers(0, 9), some.integers(0, 9), some.integers(0, 3), parts, bits),
    min_size=1,
    max_size=5,
)
hosts_ = some.lists(
    some.builds(Host, some.integers(0, 30), some.integers(0, 30), idles, some.integers(0, MODELS - 1)),
    min_size=1,
    max_size=6,
)
policies = some.one_of(
    some.sampled_from(["flagplot", "fgd"]),
    some.tuples(some.integers(0, 3), some.integers(0, 3), some.sampled_from([0, 0, 1, 50])),
)


def weights_of(policy: str | tuple[int, int, int], total: int) -> Weights:
    if policy == "flagplot":
        return FLAGPLOT
    if policy == "fgd":
        return Weights(1, 0, 0, published_steps(total, CAPACITY))
    fragment, stranded, fit = policy
    return Weights(int(fragment), int(stranded), int(fit), np.zeros(0, np.int64))


def column(rows: list[Kind], index: int) -> np.ndarray:
    return np.array([row[index] for row in rows], np.int64)


@settings(deadline=None)
@given(tasks_, some.integers(0, 40), idles, some.integers(0, MODELS - 1))
def test_measure(tasks: list[Typical], cpu: int, idle: list[int], model: int) -> None:
    fragment, stranded = measure(typical(tasks), model, cpu, np.array(idle, np.int64))
    assert (fragment, stranded) == measure_of(tasks, cpu, idle, model)
    assert 0 <= fragment <= stranded <= sum(idle) * sum(task[4] for task in tasks)


@settings(max_examples=400, deadline=None)
@given(hosts_, kinds_, some.lists(some.integers(0, 99), min_size=1, max_size=25), tasks_, policies)
def test_pack(
    hosts: list[Host], kinds: list[Kind], draws: list[int], tasks: list[Typical], policy: str | tuple[int, int, int]
) -> None:
    pods = [draw % len(kinds) for draw in draws]
    weights = weights_of(policy, sum(task[4] for task in tasks))
    nodes = Nodes(
        np.array([host.cpu for host in hosts], np.int64),
        np.array([host.mem for host in hosts], np.int64),
        np.array([host.idle for host in hosts], np.int64),
        np.array([host.model for host in hosts], np.int64),
    )
    chosen, fragments = np.zeros(len(pods), np.int64), np.zeros(len(pods), np.int64)
    pack(
        typical(tasks), weights, nodes, Kinds(*(column(kinds, index) for index in range(5))),
        np.array(pods, np.int64), np.zeros(0, np.int64), chosen, fragments,
    )  # fmt: skip
    plain = deepcopy(hosts)
    steps = weights.steps.tolist()
    expected = pack_all(plain, kinds, pods, tasks, (weights.fragment, weights.stranded, weights.fit), steps)
    assert (chosen.tolist(), fragments.tolist()) == expected
    assert nodes.idle.tolist() == [host.idle for host in plain]
    assert nodes.cpu.tolist() == [host.cpu for host in plain] and nodes.mem.tolist() == [host.mem for host in plain]
    assert min(nodes.cpu.min(), nodes.mem.min(), nodes.idle.min()) >= 0


@settings(max_examples=60, deadline=None)
@given(hosts_, kinds_, some.lists(some.integers(0, 1 << 59), min_size=1, max_size=25))
def test_random_places_fit(hosts: list[Host], kinds: list[Kind], draws: list[int]) -> None:
    """A pod is dropped only where it fits nowhere, nothing is oversubscribed, and what is taken is what was asked."""
    pods = np.array([draw % len(kinds) for draw in draws], np.int64)
    nodes = Nodes(
        np.array([host.cpu for host in hosts], np.int64),
        np.array([host.mem for host in hosts], np.int64),
        np.array([host.idle for host in hosts], np.int64),
        np.array([host.model for host in hosts], np.int64),
    )
    before = nodes.idle.sum()
    table = Kinds(*(column(kinds, index) for index in range(5)))
    chosen, fragments = np.zeros_like(pods), np.zeros_like(pods)
    tasks = typical([(1, 1, 1, 0b11, 1)])
    pack(tasks, weights_of((0, 0, 0), 1), nodes, table, pods, np.array(draws), chosen, fragments)
    assert min(nodes.cpu.min(), nodes.mem.min(), nodes.idle.min()) >= 0
    asked = sum(kinds[pod][2] * kinds[pod][3] for pod, node in zip(pods, chosen, strict=True) if node >= 0)
    assert before - nodes.idle.sum() == asked
    for pod, node in zip(pods.tolist(), chosen.tolist(), strict=True):
        cpu, mem, gpus, need, models = kinds[pod]
        if node >= 0 and gpus:
            assert models >> hosts[node].model & 1
        if node < 0:  # what is free only shrinks: had it fitted then, it may not fit now, but never the other way
            for left in range(len(hosts)):
                able = not gpus or models >> hosts[left].model & 1
                count = (nodes.idle[left] >= need).sum()
                assert not (able and nodes.cpu[left] >= cpu and nodes.mem[left] >= mem and count >= gpus)
