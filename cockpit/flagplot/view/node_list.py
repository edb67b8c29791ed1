"""Nodes as a table, in the columns of `sinfo`, and one node's page. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.bars import (
    Piece,
    cpus_words,
    gib,
    gpu_blocks,
    gpus_words,
    load_words,
    memory_words,
)
from flagplot.view.bookings import when_words
from flagplot.view.choice import Choice
from flagplot.view.fleet import LOOKS, Fleet, NodeFact, partitions_of
from flagplot.view.fleet_filter import node_filter
from flagplot.view.queue import Column, time_used
from flagplot.view.words import clock_time, memory, moment, state_look
from flagplot_wire.hostlist import compress_hosts, natural_key
from flagplot_wire.indices import compress_indices
from flagplot_wire.job import NO_LIMIT, Job
from flagplot_wire.text import clean, fit

Cells = tuple[tuple[Piece, ...], ...]

COLUMNS: tuple[Column, ...] = (
    Column("node", "NODE", 9, 1),
    Column("state", "STATE", 12),
    Column("partition", "PARTITION", 12, from_width=120),
    Column("cpus", "CPUS", 8, right=True),
    Column("memory", "MEM GiB", 10, right=True),
    Column("gpus", "GPUS", 7, right=True),
    Column("fill", "", 8),
    Column("type", "TYPE", 8, from_width=100),
    Column("load", "LOAD", 6, right=True),
    Column("jobs", "JOBS", 4, right=True, from_width=90),
    Column("reason", "REASON", 10, 5),
)
_RANK = {look: at for at, look in enumerate(reversed(LOOKS))}
SORTS: dict[str, Callable[[NodeFact], tuple[object, ...]]] = {
    "node": lambda fact: (),
    "state": lambda fact: (_RANK[fact.look],),
    "gpus": lambda fact: (-fact.gpus_free,),
    "cpus": lambda fact: (fact.cpus_used - (fact.cpus or 0),),
    "memory": lambda fact: (fact.memory_used_mib - (fact.memory_mib or 0),),
    "load": lambda fact: (-((fact.sample.load if fact.sample else None) or 0),),
    "jobs": lambda fact: (-len(fact.jobs),),
    "type": lambda fact: (fact.gpu_type,),
    "reason": lambda fact: (not fact.reason, fact.reason),
}
"""What wants attention or is free comes first."""


@dataclass(frozen=True, slots=True)
class NodeSpec(Choice):
    """What the person chose: filter text, order, grouping, and what the map's cells show the fill of."""

    sort: str = "node"
    group: str = "switch"
    fill: str = "GPUs"

    def order_of(self, key: str) -> str:
        """The order that a column's title stands for; that of the nodes for those that have none."""
        return key if key in SORTS else "node"


def select(mirror: Mirror, fleet: Fleet, spec: NodeSpec) -> list[str]:
    """The names of the nodes to show, in order."""
    names = fleet.order
    if spec.filter:
        test = node_filter(mirror, spec.filter)
        names = [name for name in names if test(fleet.facts[name])]
    if spec.sort == "node":
        return names[::-1] if spec.reverse else list(names)
    key = SORTS[spec.sort]
    return sorted(names, key=lambda name: (key(fleet.facts[name]), natural_key(name)), reverse=spec.reverse)


def cells(mirror: Mirror, fact: NodeFact, columns: list[tuple[Column, int]]) -> Cells:
    """The cells of one node's row."""
    return tuple(_cell(mirror, fact, column.key) for column, _ in columns)


def _cell(mirror: Mirror, fact: NodeFact, key: str) -> tuple[Piece, ...]:
    look = fact.appearance
    match key:
        case "node":
            return ((fact.name, "plain"),)
        case "state":
            star = "*" if not fact.node.responding and fact.known else ""
            return ((f"{look.glyph} {look.word}{star}", look.role),)
        case "partition":
            return ((clean(",".join(partitions_of(mirror, fact.node.name))) or "-", "dim"),)
        case "cpus":
            return ((cpus_words(fact), "plain"),)
        case "memory":
            return ((memory_words(fact), "plain"),)
        case "gpus":
            return ((gpus_words(fact), "plain"),)
        case "fill":
            return tuple(gpu_blocks(fact, 8))
        case "type":
            return ((fact.gpu_type, "dim"),)
        case "load":
            return ((load_words(fact), "plain"),)
        case "jobs":
            return ((str(len(fact.jobs)), "plain"),)
    return ((fact.reason or "-", "warning" if fact.reason else "dim"),)


def until(job: Job, now: int) -> str:
    """When a job's time limit ends it: `in 2 h`; `no limit`; `over its limit`."""
    if job.time_limit_s == NO_LIMIT:
        return tr("no limit")
    end = job.limit_ends
    return moment(end, now) if end > now else tr("over its limit")


Row = tuple[str, tuple[Piece, ...]]
"""A label and pieces."""


def page(mirror: Mirror, fact: NodeFact, now: int) -> list[Row]:
    """A node's page, without its jobs: state, hardware, use, GPUs one by one, notes."""
    rows: list[Row] = _standing(mirror, fact, now)
    inventory = fact.node.inventory
    if inventory is None:
        rows.append(("", ((tr("Its agent never reported: what it has is not known."), "dim"),)))
        return rows
    cores = tr_count("{count} socket", "{count} sockets", inventory.sockets)
    each = inventory.cores // max(1, inventory.sockets)
    cores += " × " + tr_count("{count} core", "{count} cores", each)
    threads = inventory.threads_per_core
    cores += " × " + tr_count("{count} thread", "{count} threads", threads) if threads > 1 else ""
    rows.append(("CPU", ((f"{cores}  {clean(inventory.cpu_model)}".strip(), "plain"),)))
    for numa in inventory.numa if len(inventory.numa) > 1 else ():
        words = f"CPUs {clean(numa.cpu_ids)}  {memory(numa.memory_mib)}"
        gpus = [str(one.gpu.index) for one in fact.gpus if one.gpu.numa == numa.index]
        rows.append((f"NUMA {numa.index}", ((words + (f"  GPUs {','.join(gpus)}" if gpus else ""), "plain"),)))
    sample = fact.sample if fact.node.responding else None
    busy = "?" if sample is None or sample.cpu_percent is None else f"{sample.cpu_percent}%"
    really = "?" if sample is None else memory(sample.memory_used_mib)
    measured = tr("busy {part}  load {load}").format(part=busy, load=load_words(fact))
    rows.append((tr("CPUs held"), ((f"{cpus_words(fact)}  ", "plain"), (measured, "dim"))))
    held = tr("{held} of {all} GiB  ").format(held=gib(fact.memory_used_mib), all=gib(fact.memory_mib))
    rows.append((tr("memory held"), ((held, "plain"), (tr("in use {amount}").format(amount=really), "dim"))))
    for label, text in (
        (tr("switch"), inventory.switch),
        (tr("features"), ", ".join(inventory.features)),
        (tr("weight"), f"{fact.node.weight}  {tr('(jobs get the lowest first)')}" if fact.node.weight != 1 else ""),
        (tr("address"), inventory.address),
        (tr("system"), f"{inventory.os} {inventory.kernel}".strip()),
        (tr("driver"), inventory.driver),
    ):
        if text:
            rows.append((label, ((clean(text), "plain"),)))
    if sample is not None:
        rows.append((tr("measured"), ((moment(sample.time, now), "dim"),)))
    for note in inventory.notes:
        rows.append((tr("note"), ((clean(note), "warning"),)))
    return rows


def _standing(mirror: Mirror, fact: NodeFact, now: int) -> list[Row]:
    node = fact.node
    rows: list[Row] = []
    if node.inventory is not None and node.inventory.simulated:
        rows.append((tr("SIMULATED"), ((tr("its size and its GPUs are made up; its jobs are real"), "warning"),)))
    if node.drain is not None:
        when = f"{moment(node.drain.since, now)} ({clock_time(node.drain.since)})"
        rows.append((tr("drain reason"), ((clean(node.drain.reason) or "-", "warning"),)))
        rows.append((tr("drained by"), ((f"{clean(node.drain.who)}, {when}", "plain"),)))
    if node.inventory is not None:
        word = tr("connected since {when}") if node.responding else tr("lost {when}")
        agent = "  " + tr("agent {version}").format(version=clean(node.agent_version)) if node.agent_version else ""
        role = "plain" if node.responding else "bad"
        rows.append((tr("agent"), ((word.format(when=moment(node.since, now)), role), (agent, "dim"))))
    if not node.responding and node.down_reason:
        rows.append((tr("why down"), ((clean(node.down_reason), "bad"),)))
    for one in fact.reserved:
        if (when := when_words(one, now)) != "over":
            rows.append((tr("reserved"), ((f"{clean(one.name)}  {when}", "state-planned"),)))
    rows.append((tr("partitions"), ((clean(", ".join(partitions_of(mirror, node.name))) or "-", "plain"),)))
    return rows


JOB_COLUMNS: tuple[Column, ...] = (
    Column("id", "JOBID", 9),
    Column("name", "NAME", 12, 3),
    Column("user", "USER", 8),
    Column("state", "ST", 5),
    Column("time", "TIME", 10, right=True),
    Column("until", "UNTIL", 12, 1),
    Column("cpus", "CPUS", 4, right=True),
    Column("memory", "MEM GiB", 7, right=True, from_width=84),
    Column("gpus", "GPUS", 8, 1),
)


def job_cells(job: Job, fact: NodeFact, now: int, columns: list[tuple[Column, int]]) -> Cells:
    """The cells of one job on a node: what it holds there and until when."""
    return tuple((_job_cell(job, fact, column.key, now),) for column, _ in columns)


def _job_cell(job: Job, fact: NodeFact, key: str, now: int) -> Piece:
    held = job.status.allocation
    part = next((one for one in held.nodes if one.node == fact.node.name), None) if held else None
    look = state_look(job)
    match key:
        case "id":
            return job.display_id, "plain"
        case "name":
            return clean(job.spec.name), "plain"
        case "user":
            return clean(job.user), f"owner:{job.user}"
        case "state":
            return f"{look.glyph} {look.short}", look.role
        case "time":
            return time_used(job, now), "plain"
        case "until":
            return until(job, now), "plain"
        case "cpus":
            return str(part.cpus) if part else "?", "plain"
        case "memory":
            return gib(part.memory_mib) if part else "?", "plain"
    if part is None or not part.gpus:
        return "-", "dim"
    whole = compress_indices(gpu.index for gpu in part.gpus if gpu.whole)
    shares = [f"{gpu.index}: {gpu.shards}/{gpu.of}" for gpu in part.gpus if not gpu.whole]
    return ", ".join([*([whole] if whole else []), *shares]), "plain"


def affected(mirror: Mirror, names: list[str], now: int) -> list[str]:
    """The jobs on some nodes as lines: id, owner, name, where, until when; the longest last."""
    numbers = sorted({number for name in names for number in mirror.held.get(name, ())})
    return affected_by([mirror.jobs[number] for number in numbers if number in mirror.jobs], now)


def affected_by(jobs: list[Job], now: int) -> list[str]:
    """These jobs as such lines."""
    lines = []
    for job in sorted(jobs, key=lambda job: (job.time_limit_s == NO_LIMIT, job.limit_ends, job.number)):
        where = clean(compress_hosts(job.status.allocation.names)) if job.status.allocation else "-"
        lines.append(
            f"  {job.display_id:<8} {fit(clean(job.user), 10)} {fit(clean(job.spec.name), 18)} "
            f"{fit(where, 14)} {until(job, now)}"
        )
    return lines
