"""`plan`: the scheduling cycle as a function; estimates ask the same one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from flagplot_wire.alloc import Allocation, NodeAlloc
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import first_indices
from flagplot_wire.job import Forecast, Reason, Why
from flagplotd.core.stimuli import Start

if TYPE_CHECKING:
    from flagplotd.sched.forecasts import Known
    from flagplotd.sched.promises import Promises
    from flagplotd.sched.shapes import Shape
    from flagplotd.sched.snapshot import Snapshot


MOST_STARTS = 65_536
"""Parts of jobs that start in one cycle; the next one follows at once."""
MOST_PLANNED = 262_144
"""Parts of jobs that are planned ahead in one cycle."""


class Policy(Struct, frozen=True):
    """Weights and settings of the scheduler (integers; see flagplotd.toml(5))."""

    weight_age: int = 1_000
    weight_fairshare: int = 10_000
    weight_size: int = 0
    weight_partition: int = 1_000
    weight_qos: int = 10_000
    weight_association: int = 0
    weight_tres_cpu: int = 0
    weight_tres_mem: int = 0
    weight_tres_gpu: int = 0
    favor_small: bool = False
    """The size factor is 1 for the smallest job instead of for one as large as the cluster."""
    age_max_s: int = 7 * 86_400
    reservations: int = 100
    """K of EASY backfill: how many blocked jobs at the front get a start that none behind may delay."""
    backfill: Literal["easy", "conservative"] = "easy"
    """Conservative backfill gives every blocked job a start that none behind may delay, and keeps to it (`sched.promises`)."""
    default_time_s: int = 3_600
    """Taken for jobs without a time limit when planning what runs behind them."""


class Plan(Struct, frozen=True):
    """A cycle's result: what starts now, a forecast for *every* pending job looked at, and what the next cycle is to know
    of the planned starts (None: nothing is planned)."""

    starts: tuple[Start, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    examined: int = 0
    promises: Promises | None = None


class Ran(NamedTuple):
    """The kernels' arrays as a cycle left them, by the names of `kernel.cycle.cycle`'s arguments."""

    arrays: Any
    jobs: Any
    held: Any
    answers: Any
    when: Any
    first: Any
    c_first: Any
    c_scope: Any
    used: Any
    most: Any
    all_tried: bool
    """Whether there was room for all starts."""


class Done(Struct):
    """A cycle's figures: what starts, and the kernels' arrays for what waits, in order (None: there was nothing to do)."""

    snapshot: Any
    starts: tuple[Start, ...] = ()
    ran: Ran | None = None
    promises: Promises | None = None
    """What the next cycle is to know of the planned starts (None: nothing is planned)."""

    def forecasts(self, known: Known | None = None, always: Iterable[JobNumber] = ()) -> tuple[Forecast, ...]:
        """What is said of every job that waits; with what is `known` of the last cycles only what changed, and what is
        said of those that are `always` told of."""
        from flagplotd.sched.forecasts import Known, of_idle, of_waiting

        snapshot, known = self.snapshot, known or Known()
        known.tidy()
        known.forget(always)
        if self.ran is not None:
            waiting = of_waiting(snapshot, self.ran.answers, self.ran.used.tolist(), known)
        else:
            waiting = [_no_nodes(number) for number in snapshot.waiting.rows["number"].tolist()]
        return (*of_idle(snapshot, known), *waiting)


def plan(snapshot: Snapshot, policy: Policy) -> Plan:
    """Run one cycle. Pure: the snapshot's arrays are copied, so that it may be planned on again."""
    done = run(snapshot, policy)
    return Plan(done.starts, done.forecasts(), len(snapshot.waiting), done.promises)


def run(snapshot: Snapshot, policy: Policy) -> Done:
    """As `plan`, with what follows from it left to be asked for."""
    in_order(snapshot, policy)
    if not len(snapshot.waiting) or not snapshot.nodes:
        return Done(snapshot)
    out, out_gpu, ran, promises = _run(snapshot, policy)
    return Done(snapshot, tuple(_starts(snapshot, out.tolist(), out_gpu.tolist())), ran, promises)


def in_order(snapshot: Snapshot, policy: Policy) -> None:
    """Put what waits in the order in which it is looked at."""
    from flagplotd.sched.order import positions
    from flagplotd.sched.priority import Inputs

    given = snapshot.inputs or Inputs(tiers={one.name: one.priority_tier for one in snapshot.partitions.values()})
    order = positions(snapshot.waiting, snapshot.requests, given, policy, snapshot.now)
    snapshot.waiting = snapshot.waiting.take(order)


def _run(snapshot: Snapshot, policy: Policy) -> tuple[Any, Any, Ran, Promises]:
    """The kernels' answers: rows of starts, the GPUs of each, the rest, and what is promised."""
    import numpy as np

    from flagplotd.sched.arrays import arrays_of, switches_of
    from flagplotd.sched.kernel import layout
    from flagplotd.sched.kernel.cycle import cycle, prepare
    from flagplotd.sched.promises import Promises, made, recalled, urgent
    from flagplotd.sched.typical import typical_of

    ints, waiting, nodes, width = np.int64, snapshot.waiting, len(snapshot.nodes), snapshot.g_of.shape[1]
    most = int(snapshot.records["most"][waiting.rows["shape"]].max())
    seats = int(snapshot.records["licenses"][waiting.rows["shape"]].max())
    starts = min(int(waiting.rows["count"].sum()) * most, MOST_STARTS)
    firm = policy.backfill == "conservative"
    planned = len(waiting) if firm else min(policy.reservations, len(waiting))
    jobs = np.zeros(len(waiting), layout.JOB)
    for name in ("shape", "count", "chain"):
        jobs[name] = waiting.rows[name]
    jobs["held"] = -1
    if firm:
        jobs["urgent"] = urgent(waiting.rows, snapshot.inputs.first if snapshot.inputs is not None else ())
    before = snapshot.memory.promises if snapshot.memory is not None else Promises()
    held, kept, kept_gpu = recalled(snapshot, before, jobs, planned)
    promised = min(planned * (most + seats), MOST_PLANNED) + len(kept) + len(before.places) * seats + most + seats
    arrays, rows = arrays_of(snapshot, starts * (1 + seats) + most + seats + 2 * promised), most + starts
    arrays.tail[1] = len(held) - planned
    when = np.zeros((layout.BOUNDS, nodes), ints)
    first = np.zeros((layout.BOUNDS, arrays.masks.shape[1]), ints)
    run = np.zeros(width, np.int32)
    prepare(snapshot.now, nodes, arrays.nodes, arrays.free, arrays.g_free, arrays.cards, arrays.events, arrays.e_gpu, when,
            first, run)  # fmt: skip
    used = np.array([limit.used for limit in snapshot.limits], ints).reshape(-1, layout.USED)
    limits = np.array([limit.most for limit in snapshot.limits], ints).reshape(-1, layout.USED)
    c_first = np.cumsum([0, *(len(chain) for chain in snapshot.chains)])
    c_scope = np.array([scope for chain in snapshot.chains for scope in chain], ints)
    switches = switches_of(snapshot)
    by_shape = np.bincount(jobs["shape"], jobs["count"], len(arrays.shapes)).astype(ints)
    running = (snapshot.e_cpu, snapshot.e_gpu, snapshot.e_node)
    typical = typical_of(arrays.shapes, by_shape, arrays.masks, arrays.nodes[:nodes], arrays.cards, running)
    out, out_gpu = np.zeros((rows, 3), ints), np.zeros((rows, width), np.int32)
    answers = np.zeros(len(waiting), layout.ANSWER)
    written = cycle(
        snapshot.now, planned, firm, jobs, held, kept, kept_gpu, arrays.shapes, arrays.masks, arrays.free, arrays.nodes,
        arrays.g_free, arrays.cards, arrays.c_numa, arrays.events, arrays.e_gpu, arrays.tail, when, first, c_first, c_scope,
        used, limits, switches, typical[0], nodes, np.zeros(len(arrays.shapes), ints),
        np.zeros(2 + snapshot.c_numa.shape[1], ints), np.zeros(width, np.int32), run,
        np.zeros(width, np.int32), np.zeros(4, ints), np.zeros(most, ints), np.zeros(nodes, ints),
        np.zeros(len(switches) + 2 * nodes + 1, ints), np.zeros(nodes, ints), np.zeros(2, ints), out, out_gpu, answers,
    )  # fmt: skip
    ran = Ran(arrays, jobs, held, answers, when, first, c_first, c_scope, used, limits, written + most <= rows)
    return out[:written], out_gpu[:written], ran, made(snapshot, jobs, held, arrays.events, arrays.e_gpu)


def _no_nodes(number: Any) -> Forecast:
    return Forecast(number, (Reason(Why.NODES_DOWN, "no node has registered yet"),))


def _starts(snapshot: Snapshot, rows: list[list[int]], gpus: list[list[int]]) -> list[Start]:
    """From the kernel's rows (job, node, 1 for the first part) and the shards of each GPU to allocations."""
    starts: list[Start] = []
    free: dict[int, int] = {}
    indices: dict[int, list[int]] = {}
    row = 0
    while row < len(rows):
        waiting = snapshot.waiting[rows[row][0]]
        shape, parts, rank = snapshot.shapes[waiting.shape], [], 0
        tasks_left = waiting.job.spec.request.tasks or 0
        while True:
            node = rows[row][1]
            tasks = min(shape.tasks, max(tasks_left - rank, 1)) if tasks_left else shape.tasks
            there = free.get(node, snapshot.free_cpus[node])
            part, free[node] = part_on(snapshot, node, there, shape, gpus[row], tasks, rank)
            parts.append(part)
            rank += tasks
            row += 1
            if row >= len(rows) or rows[row][2]:
                break
        number = waiting.job.number
        index = None
        if waiting.job.is_array:
            if number not in indices:
                indices[number] = list(reversed(first_indices(waiting.job.status.waiting, waiting.count)))
            index = indices[number].pop()
        starts.append(Start(number, Allocation(tuple(parts)), index))
    return starts


def part_on(
    snapshot: Snapshot, node: int, free: int, shape: Shape, gpus: list[int], tasks: int, rank: int
) -> tuple[NodeAlloc, int]:
    """The part of a shape on the node of a row with the shards of each GPU and `free` CPUs (a mask); and what is free after."""
    from flagplotd.sched.place import part_of
    from flagplotd.sched.shapes import memory_on

    total, memory_mib = int(snapshot.n_cpu[node]), int(snapshot.n_mem[node])
    cpus = total if shape.exclusive else shape.cpu
    memory = memory_on(shape, total, memory_mib)
    return part_of(snapshot.nodes[node], free, cpus, memory, gpus, tasks, rank)
