"""A node as it is wired: sockets with their NUMA nodes, the CPUs and GPUs of each, and whose job is on every one. Pure.

Each job is a letter in its owner's colour. What is not known is not drawn as something else: GPUs whose NUMA node the
driver does not tell have a box of their own, and threads of a core stand below one another only where the numbers of
the CPUs tell which they are.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass

from flagplot.language import tr, tr_count
from flagplot.view.bars import FREE, Piece, unheld
from flagplot.view.fleet import GpuFact, NodeFact
from flagplot.view.node_list import until
from flagplot.view.words import memory
from flagplot_wire.errors import Refused
from flagplot_wire.indices import compress_indices, expand_indices
from flagplot_wire.job import Job, State
from flagplot_wire.node import NumaNode
from flagplot_wire.text import clean, fit, width

LETTERS = string.ascii_lowercase + string.ascii_uppercase
MORE = "#"
"""Jobs beyond the letters."""
SHARDS = 8
"""Cells of one GPU at most; a GPU with more shards is drawn in parts of so many."""
NARROWEST = 40
"""Columns of a box at least."""

Line = list[Piece]


@dataclass(frozen=True, slots=True)
class Box:
    """What is wired together: a title, rows of CPUs (a second row: the second threads of the same cores), GPUs."""

    title: str
    rows: tuple[tuple[int, ...], ...]
    gpus: tuple[GpuFact, ...]


def boxes(fact: NodeFact) -> list[Box]:
    """The NUMA nodes in order with their sockets; one box of everything where the agent tells of none."""
    inventory = fact.node.inventory
    if inventory is None:
        return []
    threads = inventory.threads_per_core
    if not inventory.numa:
        return [
            Box(
                tr_count("{count} socket", "{count} sockets", inventory.sockets),
                _rows(inventory.cpu_ids, threads),
                fact.gpus,
            )
        ]
    found = []
    for position, numa in enumerate(inventory.numa):
        here = tuple(gpu for gpu in fact.gpus if gpu.gpu.numa == numa.index)
        found.append(
            Box(_title(numa, position, len(inventory.numa), inventory.sockets), _rows(numa.cpu_ids, threads), here)
        )
    known = {numa.index for numa in inventory.numa}
    astray = tuple(gpu for gpu in fact.gpus if gpu.gpu.numa not in known)
    return [*found, Box(tr("GPUs of an unknown NUMA node"), (), astray)] if astray else found


def _title(numa: NumaNode, position: int, domains: int, sockets: int) -> str:
    words = [f"NUMA {numa.index}", memory(numa.memory_mib)]
    if sockets and domains % sockets == 0:
        words.insert(0, tr("socket {number}").format(number=position // (domains // sockets)))
    return " · ".join(words)


def _rows(cpu_ids: str, threads: int) -> tuple[tuple[int, ...], ...]:
    """The CPUs in one row, or in one row for each thread of the cores where their ranges tell."""
    ranges = [tuple(_expand(part)) for part in cpu_ids.split(",")] if cpu_ids else []
    if threads > 1 and len(ranges) == threads and len({len(part) for part in ranges}) == 1:
        return tuple(ranges)
    everything = tuple(_expand(cpu_ids))
    return (everything,) if everything else ()


def _expand(cpu_ids: str) -> list[int]:
    try:
        return expand_indices(cpu_ids) if cpu_ids else []
    except Refused:
        return []


def letters(jobs: Iterable[Job]) -> dict[int, Piece]:
    """Each job's letter with the role of its owner, in the order of their numbers."""
    ordered = sorted(jobs, key=lambda job: job.number)
    return {
        int(job.number): (LETTERS[at] if at < len(LETTERS) else MORE, f"owner:{job.user}")
        for at, job in enumerate(ordered)
    }


def draw(fact: NodeFact, columns: int, now: int) -> list[Line]:
    """The whole drawing in lines of `columns` cells: boxes, side by side where two fit, then what the letters mean."""
    found = boxes(fact)
    if not found:
        return [[(tr("Its agent never reported: how it is wired is not known."), "dim")]]
    signs = letters(fact.jobs)
    holders = _holders(fact, signs)
    abreast = 2 if columns >= 2 * NARROWEST + 1 and len(found) > 1 else 1
    wide = (columns - (abreast - 1)) // abreast
    lines: list[Line] = []
    for start in range(0, len(found), abreast):
        drawn = [_box(box, fact, signs, holders, wide) for box in found[start : start + abreast]]
        high = max(len(lines_of) for lines_of in drawn)
        drawn = [[*some[:-1], *[_inside([], wide)] * (high - len(some)), some[-1]] for some in drawn]
        lines += [_beside(row) for row in zip(*drawn, strict=True)]
    return [*lines, [], *_legend(fact, signs, now)]


def _beside(row: tuple[Line, ...]) -> Line:
    joined: Line = []
    for line in row:
        joined += ([(" ", "plain")] if joined else []) + line
    return joined


def _holders(fact: NodeFact, signs: dict[int, Piece]) -> dict[int, Piece]:
    """CPU → the sign of the job that runs on it (a suspended job holds none)."""
    found: dict[int, Piece] = {}
    for job in fact.jobs:
        if job.status.state is State.SUSPENDED:
            continue
        for part in job.status.allocation.nodes if job.status.allocation else ():
            if part.node == fact.node.name:
                found.update(dict.fromkeys(_expand(part.cpu_ids), signs[int(job.number)]))
    return found


def _box(box: Box, fact: NodeFact, signs: dict[int, Piece], holders: dict[int, Piece], wide: int) -> list[Line]:
    room = wide - 4
    lines = [_top(box.title, wide)]
    usable = set(_expand(fact.node.inventory.cpu_ids)) if fact.node.inventory else set()
    groups = max(1, (room - 4) // 9)
    for start in range(0, max((len(row) for row in box.rows), default=0), 8 * groups):
        for thread, row in enumerate(box.rows):
            some = row[start : start + 8 * groups]
            label = "CPU " if not start and not thread else "    "
            lines.append(_inside([(label, "dim"), *_cpus(some, fact, holders, usable)], wide))
    if box.rows:
        numbers = f"{compress_indices(cpu for row in box.rows for cpu in row)}"
        held = sum(cpu in holders for row in box.rows for cpu in row)
        lines.append(_inside([(fit(f"    {numbers}  {held} held", room).rstrip(), "faint")], wide))
    blocks = [_gpu(gpu, fact, signs) for gpu in box.gpus]
    per_line = max(1, (room - 4 + 2) // (max((_cells(block) for block in blocks), default=1) + 2))
    for start in range(0, len(blocks), per_line):
        line: Line = [("GPU " if not start else "    ", "dim")]
        for position, block in enumerate(blocks[start : start + per_line]):
            line += ([("  ", "plain")] if position else []) + block
        lines.append(_inside(line, wide))
    return [*lines, [("╰" + "─" * (wide - 2) + "╯", "faint")]]


def _top(title: str, wide: int) -> Line:
    words = f" {clean(title)} "[: wide - 3]
    return [("╭─", "faint"), (words, "bold"), ("─" * (wide - 3 - width(words)) + "╮", "faint")]


def _inside(line: Line, wide: int) -> Line:
    return [("│ ", "faint"), *line, (" " * max(0, wide - 4 - _cells(line)), "plain"), (" │", "faint")]


def _cells(line: Line) -> int:
    return sum(width(text) for text, _ in line)


def _cpus(some: tuple[int, ...], fact: NodeFact, holders: dict[int, Piece], usable: set[int]) -> Line:
    free = "?" if not fact.node.responding else FREE if fact.serves else "·"
    line: Line = []
    for position, cpu in enumerate(some):
        if position and position % 8 == 0:
            line.append((" ", "plain"))
        line.append(holders.get(cpu, (free, "faint") if cpu in usable else ("-", "dim")))
    return _joined(line)


def _gpu(gpu: GpuFact, fact: NodeFact, signs: dict[int, Piece]) -> Line:
    """Its number, then a cell for each shard (or so many as `SHARDS`) with the sign of its holder."""
    total = min(SHARDS, gpu.gpu.shards)
    label: Line = [(f"{gpu.gpu.index} ", "number")]
    if gpu.trouble and not gpu.shares:
        return [*label, ("!" * total, "bad")]
    cells: Line = []
    taken = 0
    for share in gpu.shares:
        taken += share.shards
        upto = min(total, max(len(cells) + 1, round(taken * total / gpu.gpu.shards)))
        cells += [signs.get(int(share.job), (MORE, "dim"))] * (upto - len(cells))
    text, role = unheld(gpu, fact)
    cells += [(text, role)] * (total - len(cells))
    return [*label, *_joined(cells), *([("!", "bad")] if gpu.trouble else [])]


def _joined(line: Line) -> Line:
    """Neighbours of one role as one piece."""
    found: Line = []
    for text, role in line:
        if found and found[-1][1] == role:
            found[-1] = (found[-1][0] + text, role)
        else:
            found.append((text, role))
    return found


def _legend(fact: NodeFact, signs: dict[int, Piece], now: int) -> list[Line]:
    jobs = sorted(fact.jobs, key=lambda job: job.number)
    if not jobs:
        return [[(tr("No job is on it."), "dim")]]
    ids = max(width(job.display_id) for job in jobs)
    users = min(12, max(width(clean(job.user)) for job in jobs))
    lines: list[Line] = []
    for job in jobs:
        part = next((one for one in job.status.allocation.nodes if one.node == fact.node.name), None) if (
            job.status.allocation) else None  # fmt: skip
        held = "?"
        if part is not None:
            words = tr_count("{count} CPU on {{ids}}", "{count} CPUs on {{ids}}", part.cpus)
            held = words.format(ids=clean(part.cpu_ids))
        if job.status.state is State.SUSPENDED:
            held = tr("suspended: no CPUs")
        gpus = f"  GPUs {compress_indices(gpu.index for gpu in part.gpus)}" if part and part.gpus else ""
        lines.append(
            [
                signs[int(job.number)],
                (f"  {fit(job.display_id, ids)}  ", "plain"),
                (fit(clean(job.user), users), f"owner:{job.user}"),
                (f"  {clean(job.spec.name)}  ", "plain"),
                (f"{held}{gpus}  {until(job, now)}", "dim"),
            ]
        )
    return [*lines, [(tr("░ free  · takes no jobs  ? not heard  - kept for the system  ! fault"), "faint")]]
