"""`take`: the state as arrays, for one scheduling cycle. Runs on the event loop, so it only copies."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from flagplot_wire import constraint
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import natural_key
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import count_indices, mask_of
from flagplot_wire.job import Forecast, Job, Reason, Why
from flagplot_wire.node import Gpu, Node, Partition
from flagplotd.core import dependency, suspending
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import NodeUse, State
from flagplotd.sched.leaving import leaving
from flagplotd.sched.preempt import Preemption
from flagplotd.sched.priority import Inputs
from flagplotd.sched.shapes import MAX_KINDS, Shape, shape_of

FOREVER = 315_360_000
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class Waiting:
    """A job that may start: its record, shape and the starts allowed at once (more than 1 for arrays)."""

    job: Job
    shape: int
    count: int


@dataclass(slots=True)
class Snapshot:
    """Everything a cycle needs, apart from the state. By shape, `s_mask` is the row of `allowed` and `s_open` the one
    that leaves out the reservations of `closed`, which stand in the way for now. Arrays as `flagplotd.sched.kernels`
    names them."""

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
    s_mask: Ints
    s_open: Ints
    closed: list[frozenset[str]]
    allowed: Bytes
    up: Bytes
    n_cpu: Ints
    n_mem: Ints
    n_gpus: Ints
    n_switch: Ints
    switches: int
    cpu: Ints
    mem: Ints
    gfree: Ints
    jobs: Ints
    g_of: Ints
    g_ok: Ints
    g_type: Ints
    g_vram: Ints
    e_time: Ints
    e_node: Ints
    e_cpu: Ints
    e_mem: Ints
    e_gpu: Ints
    e_number: Ints
    """The jobs whose ends these are."""
    partitions: dict[str, Partition] = field(default_factory=dict)
    inputs: Inputs | None = None
    """What priorities follow from beside the jobs; without it age, tier and nice alone count."""
    preemption: Preemption | None = None
    """Whom jobs may preempt; without it nobody."""


def take(state: State, now: int, default_time_s: int = 3_600, extra: Job | None = None) -> Snapshot:
    """The snapshot of this moment; `extra` is a job that was not submitted (for estimates)."""
    nodes = sorted(
        (node for node in state.nodes.values() if node.inventory is not None), key=lambda node: natural_key(node.name)
    )
    arrays = _Nodes(state, nodes)
    sharing = Sharing(state, now)
    waiting, idle = _eligible(state, now, sharing)
    if extra is not None:
        waiting.append(extra)
    shapes: dict[tuple[object, ...], int] = {}
    shape_list: list[Shape] = []
    places = _Places(state, nodes, sharing)
    s_mask: list[int] = []
    s_open: list[int] = []
    closed_by: list[frozenset[str]] = []
    rows: list[Waiting] = []
    for job in map(in_its_room, waiting):
        request, closed = job.spec.request, sharing.closed(job)
        key = (request, job.spec.partition, job.spec.reservation, closed)
        index = shapes.get(key)
        if index is None:
            s_open.append(places.row(job, frozenset()))
            s_mask.append(places.row(job, closed))
            closed_by.append(closed)
            index = shapes[key] = len(shape_list)
            shape_list.append(shape_of(request, FOREVER))
        rows.append(Waiting(job, index, _starts_allowed(job)))
    need, kinds, counts = shape_arrays(shape_list, arrays.types)
    ends = _ends(state, nodes, now, default_time_s, arrays.width)
    return Snapshot(
        now=now, nodes=nodes, free_cpus=arrays.free_cpus, waiting=rows, idle_forecasts=idle, shapes=shape_list,
        types=arrays.types, need=need, kinds=kinds, counts=counts,
        s_mask=np.array(s_mask, np.int64), s_open=np.array(s_open, np.int64), closed=closed_by,
        allowed=places.allowed(),
        up=arrays.up, n_cpu=arrays.n_cpu, n_mem=arrays.n_mem, n_gpus=arrays.n_gpus, n_switch=arrays.n_switch,
        switches=arrays.switches, cpu=arrays.cpu, mem=arrays.mem, gfree=arrays.gfree, jobs=arrays.jobs,
        g_of=arrays.g_of, g_ok=arrays.g_ok, g_type=arrays.g_type, g_vram=arrays.g_vram,
        e_time=ends[0], e_node=ends[1], e_cpu=ends[2], e_mem=ends[3], e_gpu=ends[4], e_number=ends[5],
        partitions=dict(state.partitions),
    )  # fmt: skip


class _Nodes:
    """The arrays by node."""

    def __init__(self, state: State, nodes: list[Node]) -> None:
        count = len(nodes)
        cards = [node.inventory.gpus if node.inventory else () for node in nodes]
        self.width = max((len(gpus) for gpus in cards), default=0) or 1
        names = sorted({gpu.type for gpus in cards for gpu in gpus})
        self.types = {name: index for index, name in enumerate(names)}
        switches = sorted({node.inventory.switch if node.inventory else "" for node in nodes})
        self.switches = max(len(switches), 1)
        self.up = np.zeros(count, np.uint8)
        for name in ("n_cpu", "n_mem", "n_gpus", "n_switch", "cpu", "mem", "jobs"):
            setattr(self, name, np.zeros(count, np.int64))
        for name in ("gfree", "g_of", "g_ok", "g_type", "g_vram"):
            setattr(self, name, np.zeros((count, self.width), np.int64))
        self.free_cpus: list[int] = []
        kept = suspending.parked(state)
        for row, node in enumerate(nodes):
            self._fill(row, node, state.use.get(node.name, NodeUse()), switches, kept.get(node.name, 0))

    n_cpu: Ints
    n_mem: Ints
    n_gpus: Ints
    n_switch: Ints
    cpu: Ints
    mem: Ints
    jobs: Ints
    gfree: Ints
    g_of: Ints
    g_ok: Ints
    g_type: Ints
    g_vram: Ints

    def _fill(self, row: int, node: Node, use: NodeUse, switches: list[str], parked: int) -> None:
        inventory = node.inventory
        assert inventory is not None
        mask = mask_of(inventory.cpu_ids)
        free = mask & ~use.cpus & ~parked
        self.free_cpus.append(free)
        self.up[row] = node.responding and node.drain is None
        self.n_cpu[row], self.cpu[row] = mask.bit_count(), free.bit_count()
        self.n_mem[row], self.mem[row] = inventory.memory_mib, inventory.memory_mib - use.memory_mib
        self.n_gpus[row], self.jobs[row] = len(inventory.gpus), len(use.jobs)
        self.n_switch[row] = switches.index(inventory.switch)
        for index, gpu in enumerate(inventory.gpus):
            held = use.gpu_shards[index] if index < len(use.gpu_shards) else 0
            self._fill_gpu(row, index, gpu, held)

    def _fill_gpu(self, row: int, index: int, gpu: Gpu, held: int) -> None:
        self.g_of[row, index] = gpu.shards
        self.g_ok[row, index] = 0 if gpu.fault else gpu.shards
        self.gfree[row, index] = 0 if gpu.fault else gpu.shards - held
        self.g_type[row, index] = self.types[gpu.type]
        self.g_vram[row, index] = gpu.vram_mib or 0


def _eligible(state: State, now: int, sharing: Sharing) -> tuple[list[Job], list[Forecast]]:
    jobs: list[Job] = []
    idle: list[Forecast] = []
    for number in state.pending:
        job = state.jobs[number]
        if job.is_array and not job.status.waiting:
            continue
        reasons = not_eligible(state, job, now) + sharing.over(job)
        if not reasons:
            jobs.append(job)
        else:
            start = max(job.spec.begin, job.status.retry_at)
            only_time = all(reason.why in (Why.BEGIN_TIME, Why.REQUEUE_DELAY) for reason in reasons)
            idle.append(Forecast(number, tuple(reasons), start if only_time else None))
    return jobs, idle


def not_eligible(state: State, job: Job, now: int) -> list[Reason]:
    """All reasons, apart from resources and priority, why a pending job may not start now."""
    reasons: list[Reason] = []
    if job.spec.hold:
        by_admin = job.spec.hold == "admin"
        text = job.status.message if by_admin and job.status.message else "held until it is released"
        reasons.append(Reason(Why.HELD_ADMIN if by_admin else Why.HELD_USER, text))
    if job.spec.begin > now:
        reasons.append(Reason(Why.BEGIN_TIME, "its begin time has not come"))
    if job.status.retry_at > now:
        reasons.append(Reason(Why.REQUEUE_DELAY, job.status.message))
    verdict, jobs = dependency.check(state, job, now)
    if verdict == "wait":
        reasons.append(Reason(Why.DEPENDENCY, "waits for other jobs", jobs[:10]))
    elif verdict == "never":
        reasons.append(Reason(Why.DEPENDENCY_NEVER, "a job it depends on did not end as wanted", jobs[:10]))
    array = state.jobs.get(job.array_number) if job.array_index is not None else job
    if array is not None and array.spec.array is not None and array.spec.array.limit:
        limit = array.spec.array.limit
        if array.status.elements_running >= limit:
            reasons.append(Reason(Why.ARRAY_LIMIT, f"{limit} elements of the array run, its limit"))
    partition = state.partitions.get(job.spec.partition)
    if partition is not None and not partition.up:
        reasons.append(Reason(Why.PARTITION_DOWN, f"partition {partition.name} is down"))
    return reasons


def in_its_room(job: Job) -> Job:
    """A job that others are preempted for, kept to the nodes that they leave: so it takes no room made for another."""
    if not job.status.room:
        return job
    request = msgspec.structs.replace(job.spec.request, nodelist=job.status.room)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, request=request))


def why_waiting(state: State, job: Job, now: int) -> list[Reason]:
    """As `not_eligible`, with limits, licenses and reservations."""
    return not_eligible(state, job, now) + Sharing(state, now).over(job)


def _starts_allowed(job: Job) -> int:
    if job.spec.array is None:
        return 1
    left = count_indices(job.status.waiting)
    limit = job.spec.array.limit
    return min(left, limit - job.status.elements_running) if limit else left


class _Places:
    """Which nodes requests may use, one row for all that leave the same ones."""

    def __init__(self, state: State, nodes: list[Node], sharing: Sharing) -> None:
        self._state, self._nodes, self._sharing = state, nodes, sharing
        self._known: dict[tuple[object, ...], int] = {}
        self._rows: list[Bytes] = []

    def row(self, job: Job, closed: frozenset[str]) -> int:
        """The row of a job to which the nodes of the reservations `closed` are shut."""
        request, reservation = job.spec.request, job.spec.reservation
        key = (job.spec.partition, request.nodelist, request.exclude, request.constraint, reservation, closed)
        if key not in self._known:
            self._known[key] = len(self._rows)
            self._rows.append(self._open(job, closed))
        return self._known[key]

    def allowed(self) -> Bytes:
        """All rows, a column for each node."""
        return np.array(self._rows or [np.ones(len(self._nodes), np.uint8)], np.uint8).reshape(-1, len(self._nodes))

    def _open(self, job: Job, closed: frozenset[str]) -> Bytes:
        request, part = job.spec.request, self._state.partitions.get(job.spec.partition)
        row = np.zeros(len(self._nodes), np.uint8)
        for index, node in enumerate(self._nodes):
            inside = part is None or part.has(node.name)
            named = not request.nodelist or node.name in request.nodelist
            features = node.inventory.features if node.inventory else ()
            fits = inside and named and node.name not in request.exclude and has_features(request.constraint, features)
            row[index] = fits and self._sharing.open_to(job, node.name, closed)
        return row


def has_features(text: str, features: tuple[str, ...]) -> bool:
    """Whether a node with `features` may be among the nodes of a job with this constraint (`sbatch(1)`); one that
    cannot be read, which the gate refuses, matches none."""
    try:
        return constraint.matches(constraint.parse(text), features)
    except Refused:
        return False


def shape_arrays(shapes: list[Shape], types: dict[str, int]) -> tuple[Ints, Ints, Ints]:
    """(needs, GPU types, GPU counts) by shape."""
    need = np.zeros((max(len(shapes), 1), 6), np.int64)
    kinds = np.full((max(len(shapes), 1), MAX_KINDS), -1, np.int64)
    counts = np.zeros((max(len(shapes), 1), MAX_KINDS), np.int64)
    for row, shape in enumerate(shapes):
        # A type that no node has gets an index that none carries, so that it never fits.
        share = types.get(shape.share_type, len(types) + 1) if shape.share_type else -1
        need[row] = (shape.cpu, shape.mem, shape.shards, shape.vram, share, shape.exclusive)
        for kind, (word, count) in enumerate(shape.gpus[:MAX_KINDS]):
            kinds[row, kind] = types.get(word, len(types) + 1) if word else -1
            counts[row, kind] = count
    return need, kinds, counts


def _ends(
    state: State, nodes: list[Node], now: int, default_time_s: int, width: int
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    index = {node.name: row for row, node in enumerate(nodes)}
    parts: list[tuple[int, int, JobNumber, int, int, list[int]]] = []
    for number in state.active:
        job = state.jobs[number]
        for one in leaving(state, job, now, default_time_s):
            if one.part.node in index:
                gpu = [0] * width
                for held in one.part.gpus if one.rest else ():
                    if held.index < width:
                        gpu[held.index] = held.shards
                memory_mib = one.part.memory_mib if one.rest else 0
                parts.append((one.end, index[one.part.node], number, one.cpus, memory_mib, gpu))
    parts.sort(key=lambda part: part[:3])
    count = len(parts)
    return (
        np.array([part[0] for part in parts], np.int64),
        np.array([part[1] for part in parts], np.int64),
        np.array([part[3] for part in parts], np.int64),
        np.array([part[4] for part in parts], np.int64),
        np.array([part[5] for part in parts], np.int64).reshape(count, width),
        np.array([part[2] for part in parts], np.int64),
    )
