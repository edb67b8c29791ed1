"""What a running job uses over time, beside what it asked for. Pure: samples come from the mirror."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.bars import Piece, number
from flagplot.view.chart import Value, chart, squeezed
from flagplot.view.job import samples_of
from flagplot.view.words import about, memory, short_span
from flagplot_wire.alloc import Allocation
from flagplot_wire.job import Job
from flagplot_wire.telemetry import JobSample
from flagplot_wire.text import counted, width

KEPT = 2_880
"""Points: four hours of samples every five seconds."""
SIDE_BY_SIDE = 110
"""From this width on two charts stand beside each other."""
GAP = 3


@dataclass(frozen=True, slots=True)
class Point:
    """What a job used at one moment on all its nodes; None: not measured on one of them. `cpu` is in per cent of a core,
    `gpu` the mean of its GPUs in per cent, `memory` and `vram` in MiB."""

    time: int
    cpu: int | None
    memory: int | None
    gpu: int | None
    vram: int | None


@dataclass(slots=True)
class JobHistory:
    """The points of the present attempt, the oldest first, as far as somebody watched."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=KEPT))
    attempt: int = 0

    def take(self, mirror: Mirror, job: Job) -> None:
        """Take what is new in the mirror's samples."""
        if job.status.attempt != self.attempt:
            self.points.clear()
            self.attempt = job.status.attempt
        point = point_of(mirror, job)
        if point is not None and (not self.points or point.time > self.points[-1].time):
            self.points.append(point)


def point_of(mirror: Mirror, job: Job) -> Point | None:
    """What the latest samples tell of a job; None where there is none of it."""
    held, found = job.status.allocation, dict(samples_of(mirror, job))
    if held is None or not found:
        return None
    time = max(mirror.samples[name].time for name in found)
    everywhere = len(found) == len(held.nodes)

    def added(value_of: Callable[[JobSample], int | None], weight: Callable[[str], int] = lambda name: 1) -> int | None:
        values = [(value_of(one), weight(name)) for name, one in found.items() if weight(name)]
        if not everywhere or not values or any(value is None for value, _ in values):
            return None
        return sum((value or 0) * times for value, times in values)

    gpus = {part.node: len(part.gpus) for part in held.nodes}
    busy = added(lambda one: one.gpu_percent, lambda name: gpus.get(name, 0))
    return Point(
        time,
        added(lambda one: one.cpu_percent),
        added(lambda one: one.memory_mib),
        None if busy is None else busy // sum(gpus.values()),
        added(lambda one: one.gpu_memory_mib, lambda name: min(1, gpus.get(name, 0))),
    )


@dataclass(frozen=True, slots=True)
class Chart:
    """One measure: its values over time, what was asked for (None: not known), and how amounts are written."""

    title: str
    values: tuple[Value, ...]
    asked: int | None
    of: str
    words: Callable[[float], str]


def charts(history: JobHistory, mirror: Mirror, job: Job) -> list[Chart]:
    """CPU and memory, and of a job with GPUs their utilisation and VRAM."""
    held = job.status.allocation
    if held is None:
        return []
    points = history.points
    found = [
        Chart("CPU", tuple(one.cpu for one in points), held.cpus * 100, counted(held.cpus, "CPU"), _cores),
        Chart("Memory", tuple(one.memory for one in points), held.memory_mib, memory(held.memory_mib), _mib),
    ]
    gpus = sum(len(part.gpus) for part in held.nodes)
    if gpus:
        vram = vram_of(mirror, held)
        found += [
            Chart(
                "GPU",
                tuple(one.gpu for one in points),
                100,
                tr_count("100 %, mean of {count} GPU", "100 %, mean of {count} GPUs", gpus),
                _percent,
            ),
            Chart("VRAM", tuple(one.vram for one in points), vram, memory(vram), _mib),
        ]
    return found


def vram_of(mirror: Mirror, held: Allocation) -> int | None:
    """The VRAM of the GPUs and shares held, in MiB; None where a node's inventory is not known."""
    total = 0
    for part in held.nodes:
        node = mirror.nodes.get(part.node)
        known = {gpu.index: gpu.vram_mib for gpu in node.inventory.gpus} if node and node.inventory else {}
        for gpu in part.gpus:
            vram = known.get(gpu.index)
            if vram is None:
                return None
            total += vram * gpu.shards // gpu.of
    return total


def _cores(value: float) -> str:
    return number(round(value / 100, 1))


def _mib(value: float) -> str:
    return memory(int(value))


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def title_row(one: Chart) -> list[Piece]:
    """`CPU 6.4 of 8 CPUs  mean 6.1  peak 7`, the figure in a colour that warns beyond what was asked."""
    known = [value for value in one.values if value is not None]
    last = one.values[-1] if one.values else None
    over = last is not None and one.asked is not None and last > one.asked
    pieces: list[Piece] = [
        (f"{one.title} ", "header"),
        ("?" if last is None else one.words(last), "bad" if over else "bold"),
    ]
    pieces.append((f" of {one.of}", "plain"))
    if len(known) > 1:
        pieces.append((f"  mean {one.words(sum(known) / len(known))}  peak {one.words(max(known))}", "dim"))
    return pieces


def rows_of(one: Chart, columns: int, height: int) -> list[list[Piece]]:
    """The title and the chart; the line is what was asked for."""
    peak = max((value for value in one.values if value is not None), default=0)
    top = max(peak, one.asked or 0)
    return [title_row(one), *chart(squeezed(one.values, columns), columns, height, top, "meter", one.asked)]


def page(found: Sequence[Chart], columns: int, lines: int) -> list[list[Piece]]:
    """The charts in lines of at most `columns` cells: one below the other, or in pairs where there is room."""
    across = 2 if columns >= SIDE_BY_SIDE and len(found) > 1 else 1
    room = (columns - GAP * (across - 1)) // across
    down = -(-len(found) // across)
    height = max(2, min(8, (lines // down if down else 0) - 2))
    drawn = [rows_of(one, room, height) for one in found]
    # A pair is what belongs together: CPU beside GPU, memory beside VRAM.
    pairs = [drawn[at::down] for at in range(down)]
    rows: list[list[Piece]] = []
    for pair in pairs:
        if rows and height > 2:
            rows.append([])
        for lines_of_pair in zip(*pair, strict=True):
            row: list[Piece] = []
            for at, pieces in enumerate(lines_of_pair):
                row += (
                    [*pieces, (" " * (room - sum(width(text) for text, _ in pieces) + GAP), "plain")]
                    if at < len(pair) - 1
                    else pieces
                )
            rows.append(row)
    return rows


def span_words(history: JobHistory) -> str:
    """How long it was watched, and how often it is sampled."""
    points = history.points
    if len(points) < 2:
        return tr("the charts grow with every sample while this page is open")
    spacing = (points[-1].time - points[0].time) // (len(points) - 1)
    return tr("the last {span}, sampled every {spacing}").format(
        span=about(points[-1].time - points[0].time), spacing=short_span(max(1, spacing))
    )


def used_lines(job: Job) -> list[tuple[str, str]]:
    """What an ended attempt used, in words; what was not measured is `?`."""
    used, held, status = job.status.used, job.status.allocation, job.status
    if used is None or held is None:
        return []
    seconds = status.held_s(status.end_time)
    whole = held.cpus * seconds * 1_000
    cpu = "?" if used.cpu_ms is None else about(used.cpu_ms // 1_000)
    part = ""
    if used.cpu_ms is not None and whole:
        part = tr_count(", {{part}} % of {count} CPU", ", {{part}} % of {count} CPUs", held.cpus)
        part = part.format(part=100 * used.cpu_ms // whole)
    lines = [(tr("CPU time"), f"{cpu}{part} {tr('(its steps have their own)')}")]
    peak = used.memory_peak_mib
    of = "" if peak is None or not held.memory_mib else f", {100 * peak // held.memory_mib} %"
    words = tr("{amount} at its peak of {all}").format(amount=memory(peak), all=memory(held.memory_mib))
    lines.append((tr("Memory"), words + of))
    gpus = sum(len(one.gpus) for one in held.nodes)
    if gpus:
        busy = "?" if used.gpu_percent is None else f"{used.gpu_percent // gpus} %"
        words = tr_count("{{part}} busy in the mean of {count} GPU", "{{part}} busy in the mean of {count} GPUs", gpus)
        lines.append(("GPU", words.format(part=busy)))
    return lines
