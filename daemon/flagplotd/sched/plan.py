"""`plan`: the scheduling cycle as a function; estimates ask the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flagplot_wire.alloc import Allocation
from flagplot_wire.indices import first_indices
from flagplot_wire.job import Forecast, Reason, Why
from flagplot_wire.text import counted
from flagplotd.core.stimuli import Start

if TYPE_CHECKING:
    from flagplotd.sched.snapshot import Snapshot


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
    default_time_s: int = 3_600
    """Taken for jobs without a time limit when planning what runs behind them."""


class Plan(Struct, frozen=True):
    """A cycle's result: what starts now, and a forecast for *every* pending job looked at."""

    starts: tuple[Start, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    examined: int = 0


def plan(snapshot: Snapshot, policy: Policy) -> Plan:
    """Run one cycle. Pure: the snapshot's arrays are copied, so that it may be planned on again."""
    import numpy as np

    from flagplotd.sched import kernels
    from flagplotd.sched.order import positions
    from flagplotd.sched.priority import Inputs

    given = snapshot.inputs or Inputs(tiers={one.name: one.priority_tier for one in snapshot.partitions.values()})
    order = positions([row.job for row in snapshot.waiting], given, policy, snapshot.now)
    snapshot.waiting = [snapshot.waiting[place] for place in order]
    count, nodes, width = len(snapshot.waiting), len(snapshot.nodes), snapshot.g_of.shape[1]
    if count == 0 or nodes == 0:
        return Plan((), (*snapshot.idle_forecasts, *(_no_nodes(row.job.number) for row in snapshot.waiting)), count)
    ints = np.int64
    room = 4_096 + min(sum(row.count for row in snapshot.waiting), 65_536)
    ends = snapshot.e_time.shape[0]
    extra = room + policy.reservations * max(shape.least for shape in snapshot.shapes)
    e_time, e_node, e_cpu, e_mem = (_longer(array, extra) for array in
                                    (snapshot.e_time, snapshot.e_node, snapshot.e_cpu, snapshot.e_mem))  # fmt: skip
    e_gpu = np.concatenate([snapshot.e_gpu, np.zeros((extra, width), ints)])
    out_job, out_node, out_first = np.zeros(room, ints), np.zeros(room, ints), np.zeros(room, np.uint8)
    out_pick = np.zeros((room, width), ints)
    j_started, j_start, j_fits = np.zeros(count, ints), np.zeros(count, ints), np.zeros(count, np.uint8)
    shapes = snapshot.shapes
    able = _able(snapshot, snapshot.s_open)
    for row, waiting in enumerate(snapshot.waiting):
        if able[waiting.shape][0] < shapes[waiting.shape].least:
            j_start[row] = -1
    rows = kernels.cycle(
        snapshot.now, policy.reservations,
        np.array([row.shape for row in snapshot.waiting], ints),
        np.array([row.count for row in snapshot.waiting], ints),
        snapshot.need, snapshot.kinds, snapshot.counts,
        np.array([shape.least for shape in shapes], ints), np.array([shape.most for shape in shapes], ints),
        np.array([min(shape.limit, kernels.FOREVER) for shape in shapes], ints), snapshot.s_mask, snapshot.allowed,
        snapshot.up, snapshot.n_cpu, snapshot.n_mem, snapshot.n_gpus, snapshot.n_switch, snapshot.switches,
        snapshot.cpu.copy(), snapshot.mem.copy(), snapshot.gfree.copy(), snapshot.jobs.copy(),
        snapshot.g_of, snapshot.g_type, snapshot.g_vram, e_time, e_node, e_cpu, e_mem, e_gpu,
        np.array([ends], ints), out_job, out_node, out_pick, out_first, j_started, j_start, j_fits,
        (reserved_on := np.full(count, -1, ints)),
    )  # fmt: skip
    starts = _starts(snapshot, rows, out_job, out_node, out_pick, out_first)
    forecasts = _forecasts(snapshot, able, j_started, j_start, j_fits, reserved_on)
    return Plan(tuple(starts), (*snapshot.idle_forecasts, *forecasts), count)


def _longer(array: Any, extra: int) -> Any:
    import numpy as np

    return np.concatenate([array, np.zeros(extra, np.int64)])


def _no_nodes(number: Any) -> Forecast:
    return Forecast(number, (Reason(Why.NODES_DOWN, "no node has registered yet"),))


def _able(snapshot: Snapshot, masks: Any) -> list[tuple[int, int]]:
    """By shape: how many nodes could take a part if empty — of those that are up, and of all."""
    from flagplotd.sched import kernels

    found = []
    for index in range(len(snapshot.shapes)):
        now, ever = kernels.capable(
            snapshot.need[index], snapshot.kinds[index], snapshot.counts[index],
            snapshot.allowed[masks[index]], snapshot.up, snapshot.n_cpu, snapshot.n_mem, snapshot.g_of,
            snapshot.g_ok, snapshot.g_type, snapshot.g_vram,
        )  # fmt: skip
        found.append((int(now), int(ever)))
    return found


def _starts(snapshot: Snapshot, rows: int, out_job: Any, out_node: Any, out_pick: Any, out_first: Any) -> list[Start]:
    from flagplotd.sched.place import part_of
    from flagplotd.sched.shapes import MEM_ALL, MEM_PART

    starts: list[Start] = []
    free = list(snapshot.free_cpus)
    indices: dict[int, list[int]] = {}
    row = 0
    while row < rows:
        waiting = snapshot.waiting[int(out_job[row])]
        shape, parts, rank = snapshot.shapes[waiting.shape], [], 0
        tasks_left = waiting.job.spec.request.tasks or 0
        while True:
            node = int(out_node[row])
            cpus = int(snapshot.n_cpu[node]) if shape.exclusive else shape.cpu
            memory = {
                MEM_ALL: int(snapshot.n_mem[node]),
                MEM_PART: shape.cpu * int(snapshot.n_mem[node]) // max(int(snapshot.n_cpu[node]), 1),
            }.get(shape.mem, shape.mem)
            tasks = min(shape.tasks, max(tasks_left - rank, 1)) if tasks_left else shape.tasks
            part, free[node] = part_of(snapshot.nodes[node], free[node], cpus, memory, out_pick[row], tasks, rank)
            parts.append(part)
            rank += tasks
            row += 1
            if row >= rows or out_first[row]:
                break
        number = waiting.job.number
        index = None
        if waiting.job.is_array:
            if number not in indices:
                indices[number] = list(reversed(first_indices(waiting.job.status.waiting, waiting.count)))
            index = indices[number].pop()
        starts.append(Start(number, Allocation(tuple(parts)), index))
    return starts


def _forecasts(
    snapshot: Snapshot, able: list[tuple[int, int]], j_started: Any, j_start: Any, j_fits: Any, reserved_on: Any
) -> list[Forecast]:
    found: list[Forecast] = []
    blocked: dict[str, list[Any]] = {}
    outside = _able(snapshot, snapshot.s_mask) if any(snapshot.closed) else able
    for row, waiting in enumerate(snapshot.waiting):
        if int(j_started[row]) >= waiting.count:
            continue
        job, shape = waiting.job, snapshot.shapes[waiting.shape]
        front = blocked.setdefault(job.spec.partition, [])
        now_able, ever_able = able[waiting.shape]
        reasons: list[Reason] = []
        never = ""
        if now_able < shape.least:
            if ever_able >= shape.least:
                reasons.append(Reason(Why.NODES_DOWN, "the nodes that could run it are down or drained"))
            else:
                never = "no node known now can ever hold it"
                reasons.append(Reason(Why.RESOURCES, never))
        elif outside[waiting.shape][0] < shape.least:
            names = ", ".join(sorted(snapshot.closed[waiting.shape]))
            reasons.append(Reason(Why.RESERVED, f"it would run into a reservation: {names}"))
        elif not j_fits[row]:
            reasons.append(Reason(Why.RESOURCES, "what it asks for is in use"))
        if front:
            ahead = tuple(front[:10])
            reasons.append(
                Reason(
                    Why.PRIORITY,
                    f"{counted(len(front), 'job')} {'is' if len(front) == 1 else 'are'} in front of it",
                    ahead,
                )
            )
        start = int(j_start[row])
        where = (snapshot.nodes[int(reserved_on[row])].name,) if reserved_on[row] >= 0 else ()
        if not reasons:
            reasons.append(Reason(Why.PRIORITY, "it would delay a job in front of it"))
        found.append(Forecast(job.number, tuple(reasons), start if start > 0 else None, where, never))
        front.append(job.number)
    return found
