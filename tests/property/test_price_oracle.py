"""Where a job of one node goes: on a node that fits it, of the least price, against plain Python on random clusters."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.states import World

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import GpuCount, Request
from flagplot_wire.node import Gpu, Inventory
from flagplotd.core import stimuli as st
from flagplotd.sched.fragmentation import FIT_UNIT, FLAGPLOT

WHOLE = 1_000


class Card(NamedTuple):
    """A GPU: its type, MiB, shards, and those that are free."""

    kind: str
    vram: int
    of: int
    free: int


class Task(NamedTuple):
    """What a job asks for on its node."""

    cpu: int
    gpus: int = 0
    kind: str = ""
    shards: int = 0
    vram: int = 0


class Hardware(NamedTuple):
    cpus: int
    cards: tuple[Card, ...]


cards = some.builds(lambda kind, vram, of: Card(kind, vram, of, of), some.sampled_from("ab"), some.sampled_from([0, 8_000, 16_000]),
                    some.sampled_from([4, 8]))  # fmt: skip
alike = some.builds(lambda card, count: (card,) * count, cards, some.integers(0, 4))
sets = some.one_of(alike, some.lists(cards, max_size=3).map(tuple))
machines = some.tuples(some.integers(2, 12), sets).map(Hardware._make)
tasks = some.one_of(
    some.integers(1, 4).map(Task),
    some.tuples(some.integers(1, 4), some.integers(1, 3), some.sampled_from(["", "a", "b"])).map(lambda task: Task(*task)),
    some.builds(lambda cpu, kind, shards: Task(cpu, 0, kind, shards), some.integers(1, 3), some.sampled_from(["", "a"]),
                some.integers(1, 8)),
    some.builds(lambda cpu, vram: Task(cpu, vram=vram), some.integers(1, 2), some.integers(500, 9_000)),
)  # fmt: skip


def need(task: Task, card: Card) -> int:
    """Shards that a task takes of a card; more than it has where it may not have it."""
    if task.kind and card.kind != task.kind:
        return card.of + 1
    if task.gpus:
        return card.of
    if task.vram:
        return -(-task.vram * card.of // card.vram) if card.vram else card.of + 1
    return task.shards


def parts(card: Card, shards: int) -> int:
    return shards * WHOLE // card.of


def idle(typical: Counter[Task], cpu: int, node: list[Card]) -> tuple[int, int]:
    """(fragment, stranded), as told in words: what is idle where a task cannot run, and what copies of it leave."""
    everything = sum(parts(card, card.free) for card in node)
    fragment, stranded = 0, 0
    for task, weight in typical.items():
        asks = task.gpus or task.shards or task.vram
        there = [card for card in node if asks and card.free >= need(task, card)]
        copies = sum(card.free // need(task, card) for card in there)
        fragment += weight * everything
        stranded += weight * everything
        if not asks or task.cpu > cpu or copies < max(task.gpus, 1):
            continue
        fragment -= weight * sum(parts(card, card.free) for card in there)
        filled = sum(parts(card, card.free // need(task, card) * need(task, card)) for card in there)
        used = min(copies // max(task.gpus, 1), cpu // task.cpu) * max(task.gpus, 1)
        stranded -= weight * (filled * used // copies)
    return fragment, stranded


def placed(task: Task, cpu: int, node: list[Card]) -> list[Card] | None:
    """The node's cards with the task on them; None where it does not fit."""
    if task.cpu > cpu:
        return None
    fits = [place for place, card in enumerate(node) if card.free >= need(task, card)]
    if not (task.gpus or task.shards or task.vram):
        return node
    left = {place: node[place].free - need(task, node[place]) for place in fits}
    chosen = fits[: task.gpus] if task.gpus else sorted(fits, key=lambda place: left[place])[:1]
    if len(chosen) < max(task.gpus, 1):
        return None
    return [card._replace(free=left[place]) if place in chosen else card for place, card in enumerate(node)]


def price(typical: Counter[Task], task: Task, cpu: int, node: list[Card], largest: tuple[int, int]) -> int | None:
    after = placed(task, cpu, node)
    if after is None:
        return None
    had, has = idle(typical, cpu, node), idle(typical, cpu - task.cpu, after)
    left = sum(parts(card, card.free) for card in after)
    fit = (FIT_UNIT * (cpu - task.cpu) // largest[0] + FIT_UNIT * left // largest[1]) // 2
    more = FLAGPLOT.fragment * (has[0] - had[0]) + FLAGPLOT.stranded * (has[1] - had[1])
    return FLAGPLOT.fit * sum(typical.values()) * fit + FIT_UNIT * more


def request(task: Task) -> Request:
    return Request(
        cpus_per_task=task.cpu, mem_per_node_mib=1, gpus_per_node=(GpuCount(task.gpus, task.kind),) if task.gpus else (),
        shards=task.shards, vram_mib=task.vram, share_type="" if task.gpus else task.kind, time_limit_s=3_600,
    )  # fmt: skip


def cluster(machines_: list[Hardware]) -> World:
    world = World(nodes=0)
    for place, machine in enumerate(machines_):
        gpus = tuple(
            Gpu(index, f"{place}-{index}", card.kind, vram_mib=card.vram or None, shards=card.of)
            for index, card in enumerate(machine.cards)
        )
        hardware = Inventory("b", 1, machine.cpus, 1, f"0-{machine.cpus - 1}", 1_000, gpus=gpus)
        world.do(st.AgentJoined(f"n{place + 1}", hardware, "0"))
    return world


def holds(world: World, number: int) -> Task:
    """What a running job holds, which is what is known of it."""
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None
    (part,) = allocation.nodes
    whole = [gpu for gpu in part.gpus if gpu.shards == gpu.of]
    return Task(part.cpus, len(whole), "", max((gpu.shards for gpu in part.gpus if gpu.shards < gpu.of), default=0))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(some.lists(machines, min_size=2, max_size=6), some.lists(tasks, min_size=1, max_size=10))
def test_every_job_goes_where_it_costs_least(machines_: list[Hardware], asked: list[Task]) -> None:
    world, running = cluster(machines_), Counter[Task]()
    largest = max(machine.cpus for machine in machines_), max(len(machine.cards) for machine in machines_) * WHOLE or 1
    for task in asked:
        number = world.try_submit(request(task)).number  # type: ignore[union-attr]
        typical = running + Counter([task])
        prices: dict[str, int] = {}
        for place, machine in enumerate(machines_):
            use = world.state.use.get(f"n{place + 1}")
            held = [*(use.gpu_shards if use else ()), *[0] * len(machine.cards)]
            node = [card._replace(free=card.of - taken) for card, taken in zip(machine.cards, held, strict=False)]
            cost = price(typical, task, machine.cpus - (use.cpus.bit_count() if use else 0), node, largest)
            if cost is not None:
                prices[f"n{place + 1}"] = cost
        world.cycle()
        allocation = world.state.jobs[number].status.allocation
        if allocation is None:
            assert not prices
            world.act("cancel", str(number))
            continue
        (name,) = allocation.names
        assert prices[name] == min(prices.values()), (task, prices, name)
        running[holds(world, number)] += 1
