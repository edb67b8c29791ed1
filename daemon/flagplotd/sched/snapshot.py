"""The state as arrays, for one scheduling cycle, and `take`, which makes them of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Request
from flagplot_wire.node import Node, Partition
from flagplotd.core.state import State
from flagplotd.sched.arrays import shape_records
from flagplotd.sched.asked import Asked, Limit
from flagplotd.sched.ends import Ends
from flagplotd.sched.hardware import Hardware
from flagplotd.sched.holds import Hold
from flagplotd.sched.preempt import Preemption
from flagplotd.sched.priority import Inputs
from flagplotd.sched.promises import Memory
from flagplotd.sched.queue import NAMES, Queue, first_seen
from flagplotd.sched.shapes import Shape
from flagplotd.sched.stopped import stopped

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class Snapshot:
    """Everything a cycle needs, apart from the state. `waiting` may start now, `idle` may not whatever is free.

    By shape: `records` (as `arrays.shape_records`), `counted` (what it counts for in limits, and its
    time limit), `requests`, `s_mask` (its row of `allowed`) and `s_res` (its reservation's number, -1: none; when that opens and closes). By node: `n_*` what it
    is, `cpu`, `mem`, `gfree`, `jobs` what is free and who is there, `c_numa` free CPUs by NUMA domain. By GPU: `g_*`. By
    end of a part of a running job: `e_*`. `holds` are what else is taken and given back at known times. `chains` are
    lists of `limits`. `licenses` are those free now, `reservations` all that are to come or under way.
    """

    now: int
    nodes: list[Node]
    free_cpus: list[int]
    waiting: Queue
    idle: Queue
    shapes: Sequence[Shape]
    types: dict[str, int]
    records: Any
    counted: Ints
    requests: Sequence[Request]
    s_mask: Ints
    s_res: Ints
    allowed: Bytes
    up: Bytes
    n_cpu: Ints
    n_mem: Ints
    n_leaf: Ints
    n_block: Ints
    switch_parent: Ints
    switch_level: Ints
    cpu: Ints
    mem: Ints
    gfree: Ints
    jobs: Ints
    c_numa: Ints
    g_of: Ints
    g_ok: Ints
    g_type: Ints
    g_vram: Ints
    g_numa: Ints
    g_island: Ints
    e_time: Ints
    e_node: Ints
    e_cpu: Ints
    e_mem: Ints
    e_gpu: Ints
    e_numa: Ints
    """CPUs by NUMA domain; counted where a waiting job wants them near its GPUs."""
    e_number: Ints
    """The jobs whose ends these are."""
    holds: list[Hold]
    licenses: dict[str, int]
    limits: list[Limit]
    chains: list[tuple[int, ...]]
    reservations: list[tuple[str, int, int]] = field(default_factory=list)
    partitions: dict[str, Partition] = field(default_factory=dict)
    inputs: Inputs | None = None
    """What priorities follow from beside the jobs; without it age, tier and nice alone count."""
    preemption: Preemption | None = None
    """Whom jobs may preempt; without it nobody."""
    memory: Memory | None = None
    """What the last cycle promised; without it all is planned anew."""

    @property
    def still(self) -> bool:
        """Whether no job may start, nor will by the time alone."""
        rows = self.idle.rows
        return not len(self.waiting) and bool(((rows["still"] != 0) & (rows["stop"] == 0)).all())

    def with_shape(self, number: JobNumber, shape: Shape) -> Snapshot:
        """As this one, with one job asking for something else."""
        place = self.waiting.place(number)
        assert place is not None
        index = self.waiting[place].shape
        return replace(
            self,
            shapes=[*self.shapes, shape],
            requests=[*self.requests, self.requests[index]],
            records=np.concatenate([self.records, shape_records([shape], self.types)]),
            counted=np.vstack([self.counted, self.counted[index : index + 1]]),
            s_mask=np.append(self.s_mask, self.s_mask[index]),
            s_res=np.vstack([self.s_res, self.s_res[index : index + 1]]),
            waiting=self.waiting.changed(place, "shape", len(self.shapes)),
            idle=self.idle.take([]),
        )


def take(state: State, now: int, default_time_s: int = 3_600, extra: Job | None = None) -> Snapshot:
    """The snapshot of this moment, made of nothing; `extra` is a job that was not submitted (for estimates)."""
    from flagplotd.sched.standing import Standing

    standing = Standing(default_time_s)
    standing.sync(state, now, extra)
    return standing.snapshot()


def assemble(
    now: int, queue: Queue, asked: Asked, nodes: list[Node], hardware: Hardware, ends: Ends, holds: list[Hold],
    licenses: dict[str, int], reservations: list[tuple[str, int, int]], partitions: dict[str, Partition],
) -> Snapshot:  # fmt: skip
    """A snapshot of copies. Everything is numbered in the order in which the queue first names it, whatever was known
    before, so that the same state gives the same bytes."""
    rows = queue.rows
    shape_of, rows["shape"] = first_seen(rows["shape"], len(asked.shapes))
    chain_of, rows["chain"] = first_seen(rows["chain"], len(asked.chains))
    names = {}
    for column in NAMES:
        order, rows[column] = first_seen(rows[column], len(queue.names[column]))
        names[column] = [queue.names[column][name] for name in order.tolist()]
    limits = {name: asked.limits[name] for chain in chain_of.tolist() for name in asked.chains[chain]}
    numbers = {name: number for number, name in enumerate(limits)}
    chains = [tuple(numbers[name] for name in asked.chains[chain]) for chain in chain_of.tolist()]
    records, counted = asked.records.all[shape_of], asked.counted.all[shape_of]
    shapes = asked.shapes.all[shape_of]
    rows["stop"] = stopped(rows, counted, chains, list(limits.values()))
    queue = replace(queue, names=names)
    free = (rows["idle"] == 0) & (rows["stop"] == 0)
    allowed = asked.allowed()
    allowed, s_mask = _first_masks(allowed, asked.masks.all[shape_of], records, len(nodes))
    time, node, cpu, mem, gpu, number, numa = ends.columns(now)
    # A license that is not configured any more has no seats.
    licenses = licenses | {
        name: 0 for shape in shapes[records["licenses"] > 0] for name, _ in shape.licenses if name not in licenses
    }
    return Snapshot(
        now=now, nodes=list(nodes), free_cpus=list(hardware.free_cpus), waiting=queue.take(np.flatnonzero(free)),
        idle=queue.take(np.flatnonzero(~free)), shapes=shapes, types=dict(hardware.types),
        records=records, counted=counted, requests=asked.requests.all[shape_of],
        s_mask=s_mask, s_res=asked.reserved.all[shape_of], allowed=allowed,
        up=hardware.up.copy(), n_cpu=hardware.n_cpu.copy(), n_mem=hardware.n_mem.copy(), n_leaf=hardware.n_leaf.copy(),
        n_block=hardware.n_block.copy(), switch_parent=hardware.switch_parent.copy(),
        switch_level=hardware.switch_level.copy(), cpu=hardware.cpu.copy(), mem=hardware.mem.copy(),
        gfree=hardware.gfree.copy(), jobs=hardware.jobs.copy(), c_numa=hardware.c_numa.copy(), g_of=hardware.g_of.copy(),
        g_ok=hardware.g_ok.copy(), g_type=hardware.g_type.copy(), g_vram=hardware.g_vram.copy(),
        g_numa=hardware.g_numa.copy(), g_island=hardware.g_island.copy(), e_numa=numa, e_time=time, e_node=node, e_cpu=cpu, e_mem=mem, e_gpu=gpu, e_number=number,
        holds=list(holds), licenses=licenses, limits=[replace(limit) for limit in limits.values()],
        chains=chains or [()], reservations=list(reservations), partitions=partitions,
    )  # fmt: skip


def _first_masks(allowed: Bytes, masks: Ints, records: Any, nodes: int) -> tuple[Bytes, Ints]:
    """The rows of `allowed` that shapes use (those of a constraint's choices and groups follow one another), in the order
    in which they are first seen, and the first one of each shape."""
    order, at = first_seen(masks, len(allowed))
    if not len(order):
        return np.ones((1, nodes), np.uint8), at.astype(np.int64)
    many = np.ones(len(order), np.int64)
    many[at] = (records["others"] + 1) * (1 + records["groups"])
    starts = np.cumsum(many) - many
    return allowed[np.repeat(order - starts, many) + np.arange(many.sum())], starts[at]
