"""`take`: the state as arrays, for one scheduling cycle. Runs on the event loop, so it only copies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.hostlist import natural_key
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Forecast, Job
from flagplot_wire.node import Node, Partition
from flagplotd.core.needs import MAX_GPU_TYPES
from flagplotd.core.sharing import Sharing, totals_of
from flagplotd.core.state import State
from flagplotd.sched.eligible import eligible, in_its_room, starts_allowed
from flagplotd.sched.hardware import Hardware
from flagplotd.sched.holds import Hold, holds_of
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.leaving import leaving
from flagplotd.sched.places import Places
from flagplotd.sched.preempt import Preemption
from flagplotd.sched.priority import Inputs
from flagplotd.sched.promises import Memory
from flagplotd.sched.shapes import Shape, shape_of

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class Waiting:
    """A job that may start: its record, shape, the starts allowed at once (more than 1 for arrays) and its chain."""

    job: Job
    shape: int
    count: int
    chain: int = 0


@dataclass(slots=True)
class Limit:
    """A limit that some waiting job is under: what is used and the most, by `sharing.RESOURCES` (-1: no limit)."""

    words: str
    key: str
    used: list[int]
    most: list[int]


@dataclass(slots=True)
class Snapshot:
    """Everything a cycle needs, apart from the state.

    By shape: `need`, `kinds` and `counts` (as `shape_arrays`), `counted` (what it counts for in limits), `s_mask` (its
    row of `allowed`) and `s_res` (its reservation's number, -1: none; when that opens and closes). By node: `n_*` what it
    is, `cpu`, `mem`, `gfree`, `jobs` what is free and who is there, `c_numa` free CPUs by NUMA domain. By GPU: `g_*`. By
    end of a part of a running job: `e_*`. `holds` are what else is taken and given back at known times. `chains` are
    lists of `limits`. `licenses` are those free now, `reservations` all that are to come or under way.
    """

    now: int
    nodes: list[Node]
    free_cpus: list[int]
    waiting: list[Waiting]
    idle_forecasts: list[Forecast]
    shapes: list[Shape]
    types: dict[str, int]
    need: Ints
    kinds: Ints
    counts: Ints
    counted: Ints
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

    def with_shape(self, number: JobNumber, shape: Shape) -> Snapshot:
        """As this one, with one job asking for something else."""
        index = next(row.shape for row in self.waiting if row.job.number == number)
        shapes = [*self.shapes, shape]
        need, kinds, counts = shape_arrays(shapes, self.types)
        return replace(
            self,
            shapes=shapes,
            need=need,
            kinds=kinds,
            counts=counts,
            counted=np.vstack([self.counted, self.counted[index : index + 1]]),
            s_mask=np.append(self.s_mask, self.s_mask[index]),
            s_res=np.vstack([self.s_res, self.s_res[index : index + 1]]),
            waiting=[replace(row, shape=len(self.shapes)) if row.job.number == number else row for row in self.waiting],
            idle_forecasts=[],
        )


def take(state: State, now: int, default_time_s: int = 3_600, extra: Job | None = None) -> Snapshot:
    """The snapshot of this moment; `extra` is a job that was not submitted (for estimates)."""
    nodes = sorted(
        (node for node in state.nodes.values() if node.inventory is not None), key=lambda node: natural_key(node.name)
    )
    hardware, sharing = Hardware(state, nodes), Sharing(state, now)
    waiting, idle = eligible(state, now, sharing)
    asked = _Asked(state, now, nodes, sharing)
    rows = [asked.row(in_its_room(job)) for job in (waiting if extra is None else [*waiting, extra])]
    need, kinds, counts = shape_arrays(asked.shapes, hardware.types)
    domains = hardware.c_numa.shape[1]
    ends = _ends(state, nodes, now, default_time_s, hardware.width, domains, any(shape.near for shape in asked.shapes))
    # One that is not configured any more has no seats.
    licenses = {name: 0 for shape in asked.shapes for name, _ in shape.licenses} | sharing.licenses
    return Snapshot(
        now=now, nodes=nodes, free_cpus=hardware.free_cpus, waiting=rows, idle_forecasts=idle, shapes=asked.shapes,
        types=hardware.types, need=need, kinds=kinds, counts=counts,
        counted=np.array(asked.counted, np.int64).reshape(-1, 6), s_mask=np.array(asked.masks, np.int64),
        s_res=np.array(asked.reserved, np.int64).reshape(-1, 3), allowed=asked.places.allowed(),
        up=hardware.up, n_cpu=hardware.n_cpu, n_mem=hardware.n_mem, n_leaf=hardware.n_leaf, n_block=hardware.n_block,
        switch_parent=hardware.switch_parent, switch_level=hardware.switch_level,
        cpu=hardware.cpu, mem=hardware.mem, gfree=hardware.gfree, jobs=hardware.jobs, c_numa=hardware.c_numa,
        g_of=hardware.g_of, g_ok=hardware.g_ok, g_type=hardware.g_type, g_vram=hardware.g_vram, g_numa=hardware.g_numa,
        g_island=hardware.g_island,
        e_time=ends[0], e_node=ends[1], e_cpu=ends[2], e_mem=ends[3], e_gpu=ends[4], e_number=ends[5], e_numa=ends[6],
        holds=holds_of(state, now, nodes, licenses, sharing, default_time_s), licenses=licenses, limits=asked.limits,
        chains=asked.chains or [()], reservations=[(one.name, one.start, one.end) for one in state.reservations.values()],
        partitions=dict(state.partitions),
    )  # fmt: skip


class _Asked:
    """What the waiting jobs ask for: shapes, of which identical requests share one, and the limits they are under."""

    def __init__(self, state: State, now: int, nodes: list[Node], sharing: Sharing) -> None:
        self._state, self._now, self._sharing = state, now, sharing
        self.places = Places(state, nodes, sharing)
        self.shapes: list[Shape] = []
        self.masks: list[int] = []
        self.counted: list[list[int]] = []
        self.reserved: list[tuple[int, int, int]] = []
        self.limits: list[Limit] = []
        self.chains: list[tuple[int, ...]] = []
        self._shapes: dict[tuple[object, ...], int] = {}
        self._chains: dict[tuple[str, str, str, str], int] = {}
        self._limits: dict[str, int] = {}
        self._numbers = {name: number for number, name in enumerate(state.reservations)}

    def row(self, job: Job) -> Waiting:
        """A job with its shape and chain."""
        spec = job.spec
        request, waited = spec.request, self._now - job.status.eligible_time
        waived = bool(request.switches and 0 < request.switches_wait_s <= waited)
        key = (request, spec.partition, spec.reservation, waived)
        index = self._shapes.get(key)
        if index is None:
            index = self._shapes[key] = len(self.shapes)
            shape = shape_of(request)
            self.shapes.append(replace(shape, switches=0) if waived else shape)
            self.masks.append(self.places.row(job))
            self.counted.append(totals_of(request))
            self.reserved.append(self._reservation(spec.reservation, shape.limit))
        return Waiting(job, index, starts_allowed(job), self._chain(job))

    def _reservation(self, name: str, limit: int) -> tuple[int, int, int]:
        one = self._state.reservations.get(name)
        if one is None:
            return -1, 0, NEVER
        if not one.flex:
            return self._numbers[name], one.start, one.end
        # A job may run on after a flexible one, but when that is over it cannot start any more.
        return self._numbers[name], 0, NEVER if one.repeat_s else one.end - 1 + limit

    def _chain(self, job: Job) -> int:
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition)
        if key not in self._chains:
            places = []
            for words, name, used, most in self._sharing.chain_of(job):
                if name not in self._limits:
                    self._limits[name] = len(self.limits)
                    self.limits.append(Limit(words, name, used, most))
                places.append(self._limits[name])
            self._chains[key] = len(self.chains)
            self.chains.append(tuple(places))
        return self._chains[key]


def shape_arrays(shapes: list[Shape], types: dict[str, int]) -> tuple[Ints, Ints, Ints]:
    """(needs, GPU types, GPU counts) by shape."""
    need = np.zeros((max(len(shapes), 1), 6), np.int64)
    kinds = np.full((max(len(shapes), 1), MAX_GPU_TYPES), -1, np.int64)
    counts = np.zeros((max(len(shapes), 1), MAX_GPU_TYPES), np.int64)
    for row, shape in enumerate(shapes):
        # A type that no node has gets an index that none carries, so that it never fits.
        share = types.get(shape.share_type, len(types) + 1) if shape.share_type else -1
        need[row] = (shape.cpu, shape.mem, shape.shards, shape.vram, share, shape.exclusive)
        for kind, (word, count) in enumerate(shape.gpus):
            kinds[row, kind] = types.get(word, len(types) + 1) if word else -1
            counts[row, kind] = count
    return need, kinds, counts


def _ends(
    state: State, nodes: list[Node], now: int, default_time_s: int, width: int, domains: int, near: bool
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    index = {node.name: row for row, node in enumerate(nodes)}
    parts: list[tuple[int, int, JobNumber, int, int, list[int], list[int]]] = []
    none = [0] * domains
    for number in state.active:
        job = state.jobs[number]
        for one in leaving(state, job, now, default_time_s):
            if one.part.node in index:
                gpu = [0] * width
                for held in one.part.gpus if one.rest else ():
                    if held.index < width:
                        gpu[held.index] = held.shards
                memory_mib, row = one.part.memory_mib if one.rest else 0, index[one.part.node]
                numa = by_domain(nodes[row], mask_of(one.part.cpu_ids), one.cpus, domains) if near else none
                parts.append((one.end, row, number, one.cpus, memory_mib, gpu, numa))
    parts.sort(key=lambda part: part[:3])
    count = len(parts)
    return (
        np.array([part[0] for part in parts], np.int64),
        np.array([part[1] for part in parts], np.int64),
        np.array([part[3] for part in parts], np.int64),
        np.array([part[4] for part in parts], np.int64),
        np.array([part[5] for part in parts], np.int64).reshape(count, width),
        np.array([part[2] for part in parts], np.int64),
        np.array([part[6] for part in parts], np.int64).reshape(count, domains),
    )


def by_domain(node: Node, cpus: int, most: int, domains: int) -> list[int]:
    """How many of the CPUs `cpus` (a bit mask) are in each NUMA domain of a node, `most` in all."""
    found, numa = [0] * domains, node.inventory.numa if node.inventory is not None else ()
    for domain, mask in [(one.index, mask_of(one.cpu_ids)) for one in numa] or [(0, cpus)]:
        found[domain] = min((cpus & mask).bit_count(), most - sum(found))
    return found
