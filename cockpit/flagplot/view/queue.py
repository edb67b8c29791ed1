"""The queue as rows: which jobs, in which order, with what in each cell. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.view.choice import Choice
from flagplot.view.words import elapsed, gpu_words, pending_words, short_span, state_look
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.ids import JobNumber, JobRef, parse_job_ref
from flagplot_wire.job import NO_LIMIT, Job, State
from flagplot_wire.text import clean

Cell = tuple[str, str]
"""Text (cleaned) and the role that styles it; a role `owner:NAME` is that owner's colour."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `width` cells at least, `weight` of what is left over; left out below a table of `from_width`.

    With `keeps_end`, what follows a text's parentheses stays whole where the text is cut.
    """

    key: str
    title: str
    width: int
    weight: int = 0
    right: bool = False
    from_width: int = -9
    keeps_end: bool = False


ON_DEMAND = 10_000
"""No terminal is so wide: shown when chosen."""
COLUMNS: tuple[Column, ...] = (
    Column("id", "JOBID", 9),
    Column("partition", "PARTITION", 9, from_width=104),
    Column("name", "NAME", 14, 3),
    Column("user", "USER", 8),
    Column("state", "ST", 5),
    Column("time", "TIME", 10, right=True),
    Column("limit", "LIMIT", 6, right=True, from_width=92),
    Column("priority", "PRIO", 7, right=True, from_width=150),
    Column("nodes", "NODES", 5, right=True, from_width=92),
    Column("gpus", "GPUS", 7, right=True),
    Column("where", "NODELIST(REASON)", 17, 6, keeps_end=True),
    Column("account", "ACCOUNT", 10, from_width=ON_DEMAND),
    Column("qos", "QOS", 8, from_width=ON_DEMAND),
    Column("cpus", "CPUS", 5, right=True, from_width=ON_DEMAND),
    Column("age", "AGE", 6, right=True, from_width=ON_DEMAND),
)


@dataclass(frozen=True, slots=True)
class QueueSpec(Choice):
    """What the person chose: filter text, order, whether ended jobs are shown and arrays unfolded, the columns (none:
    as the width allows), and the arrays that are unfolded singly."""

    sort: str = "queue"
    ended: bool = True
    unfold: bool = False
    columns: tuple[str, ...] = ()
    unfolded: frozenset[JobNumber] = frozenset()


def columns_for(width: int, chosen: tuple[str, ...] = ()) -> list[tuple[Column, int]]:
    """The columns that a table of `width` cells shows, with their widths (one cell lies between them); of `chosen` ones
    those at the end are left out that do not fit."""
    by_key = {column.key: column for column in COLUMNS}
    shown = [by_key[key] for key in chosen] or [column for column in COLUMNS if width >= column.from_width]
    while chosen and len(shown) > 1 and sum(column.width + 1 for column in shown) + 1 > width:
        shown.pop()
    left = max(0, width - sum(column.width + 1 for column in shown) - 1)
    weights = sum(column.weight for column in shown) or 1
    ids = min(6, left // 5)
    return [
        (column, column.width + (ids if column.key == "id" else 0) + (left - ids) * column.weight // weights)
        for column in shown
    ]


def job_target(job: Job) -> str:
    """A job as commands name it: `41`, or `50_3` for an element of an array."""
    return f"{job.array_number}_{job.array_index}" if job.array_index is not None else str(job.number)


def find_job(mirror: Mirror, target: str) -> Job | None:
    """The job that a target names, elements of arrays included; raises `Refused` for what is no job id."""
    ref: JobRef = parse_job_ref(target)
    if ref.indices is not None and len(ref.indices) == 1:
        for number in mirror.elements.get(ref.number, ()):
            if mirror.jobs[number].array_index == ref.indices[0]:
                return mirror.jobs[number]
    return mirror.jobs.get(ref.number)


def elements_of(mirror: Mirror, number: JobNumber) -> list[Job]:
    """The elements that were split off an array, by index."""
    found = [mirror.jobs[element] for element in mirror.elements.get(number, ())]
    return sorted(found, key=lambda job: job.array_index or 0)


_RANK = {State.RUNNING: 0, State.COMPLETING: 0, State.SUSPENDED: 1, State.PENDING: 2}


def _queue_order(job: Job) -> tuple[int, int, int]:
    status = job.status
    rank = _RANK.get(status.state, 3)
    return rank, (-status.priority if rank == 2 else status.start_time), job.number


def _end_order(job: Job) -> tuple[int, int]:
    return -job.status.end_time, -job.number


def gpus_of(job: Job) -> int:
    """Whole GPUs held or asked for (a share counts as 1), for sorting and filters."""
    if (held := job.status.allocation) is not None:
        return sum([len(part.gpus) for part in held.nodes])
    request, total = job.spec.request, 0
    # Every job of a queue is asked; generators took three times as long.
    for one in request.gpus:
        total += one.count
    for one in request.gpus_per_node:
        total += request.nodes_min * one.count
    for one in request.gpus_per_task:
        total += max(request.tasks, 1) * one.count
    return total or int(bool(request.shards or request.vram_mib))


SORTS: dict[str, Callable[[Job], tuple[object, ...]]] = {
    "queue": _queue_order,
    "id": lambda job: (job.array_number or job.number, job.array_index or 0, job.number),
    "partition": lambda job: (job.spec.partition, job.number),
    "name": lambda job: (job.spec.name.lower(), job.number),
    "user": lambda job: (job.user, job.number),
    "state": lambda job: (_RANK.get(job.status.state, 3), job.status.state.value, job.number),
    "time": lambda job: (-(job.status.start_time or 1 << 40), job.number),
    "limit": lambda job: (job.time_limit_s or 1 << 40, job.number),
    "priority": lambda job: (-job.status.priority, job.number),
    "nodes": lambda job: (-nodes_of(job), job.number),
    "gpus": lambda job: (-gpus_of(job), job.number),
    "where": lambda job: (_where_key(job), job.number),
    "account": lambda job: (job.spec.account, job.number),
    "qos": lambda job: (job.spec.qos, job.number),
    "cpus": lambda job: (-cpus_of(job), job.number),
    "age": lambda job: (job.status.submit_time, job.number),
}
SORT_ORDER = ("queue", "id", "name", "user", "state", "time", "priority", "gpus", "nodes", "partition", "where")
"""The order in which `o` goes through them."""


def cpus_of(job: Job) -> int:
    """CPUs held or asked for."""
    held, request = job.status.allocation, job.spec.request
    return held.cpus if held is not None else request.cpus_per_task * max(1, request.tasks)


def nodes_of(job: Job) -> int:
    """Nodes held or asked for."""
    return len(job.status.allocation.nodes) if job.status.allocation else job.spec.request.nodes_min


def order_of(sort: str, ended: bool) -> Callable[[Job], tuple[Any, ...]]:
    """The key that sorts live or ended jobs; it ends with the number, so that no two are equal."""
    return _end_order if ended and sort == "queue" else SORTS.get(sort, _queue_order)


def _where_key(job: Job) -> str:
    return job.status.allocation.names[0] if job.status.allocation and job.status.allocation.nodes else "~"


def cells(mirror: Mirror, number: JobNumber, now: int, columns: list[tuple[Column, int]], fold: bool) -> list[Cell]:
    """The cells of one job's row; a job that is gone meanwhile gives an empty row."""
    job = mirror.jobs.get(number)
    if job is None:
        return [("", "dim") for _ in columns]
    ended = job.status.state.ended
    return [_cell(mirror, job, column.key, now, fold, "dim" if ended else "plain") for column, _ in columns]


def _cell(mirror: Mirror, job: Job, key: str, now: int, fold: bool, base: str) -> Cell:
    status = job.status
    match key:
        case "id":
            return job.display_id, base
        case "partition":
            return clean(job.spec.partition) or "-", base
        case "name":
            return clean(job.spec.name), base
        case "user":
            return clean(job.user), base if base == "dim" else f"owner:{job.user}"
        case "state":
            running = fold and job.is_array and status.elements_running > 0 and not status.state.ended
            look = state_look(job, State.RUNNING if running else None)
            return f"{look.glyph} {look.short}", look.role
        case "time":
            return time_used(job, now), base
        case "limit":
            return ("∞" if job.time_limit_s == NO_LIMIT else short_span(job.time_limit_s)), "dim"
        case "priority":
            return (str(status.priority) if status.state == State.PENDING else "-"), "dim"
        case "nodes":
            return str(nodes_of(job)), base
        case "gpus":
            return gpu_words(job), base
        case "account":
            return clean(job.spec.account) or "-", base
        case "qos":
            return clean(job.spec.qos) or "-", base
        case "cpus":
            return str(cpus_of(job)), base
        case "age":
            return short_span(max(0, now - status.submit_time)), "dim"
    return where(mirror, job, now, fold), base


def time_used(job: Job, now: int) -> str:
    """The run time as `squeue` writes it; `-` before the start."""
    status = job.status
    if not status.start_time:
        return "-"
    until = status.end_time if status.end_time else now
    return elapsed(max(0, until - status.start_time))


def where(mirror: Mirror, job: Job, now: int, fold: bool = True) -> str:
    """NODELIST(REASON): nodes, or in parentheses why not; for an array how its elements stand."""
    status = job.status
    if job.is_array and fold:
        return array_words(job)
    if status.state == State.PENDING:
        return pending_words(job, mirror.forecasts.get(job.number), now)
    nodes = clean(compress_hosts(status.allocation.names)) if status.allocation else ""
    if status.state.ended:
        message = clean(status.message)
        return f"{nodes} {message}".strip() if message else nodes or "-"
    return nodes or "-"


def array_words(job: Job) -> str:
    """`2 running · 16 waiting · 2 ended, 1 failed`."""
    from flagplot_wire.indices import expand_indices

    status = job.status
    waiting = len(expand_indices(status.waiting)) if status.waiting else 0
    parts = []
    if status.elements_running:
        parts.append(tr("{count} running").format(count=status.elements_running))
    if waiting:
        parts.append(tr("{count} waiting").format(count=waiting))
    if status.elements_ended:
        failed = tr(", {count} failed").format(count=status.elements_failed) if status.elements_failed else ""
        parts.append(tr("{count} ended").format(count=status.elements_ended) + failed)
    return " · ".join(parts) or "-"
