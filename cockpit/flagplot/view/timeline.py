"""A Gantt chart of every node: running jobs to their limits, planned starts, how full it will be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.view.bars import Piece, level
from flagplot.view.bookings import occurrences, when_words, whom_words
from flagplot.view.fleet import Fleet, NodeFact
from flagplot.view.fleet_filter import node_filter
from flagplot.view.words import moment, short_span
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import NO_LIMIT, Job, State
from flagplot_wire.policy import Reservation
from flagplot_wire.text import clean, width

SCALES = (10, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200)
"""Seconds per cell, from near to far."""
DEFAULT_SCALE = 6
JOB_BITS = 40
RESERVED = 1 << 39
"""Row keys from here on, within a node's, are those of its reservations."""
FAR = 1 << 50


@dataclass(frozen=True, slots=True)
class Window:
    """The time shown: cell 0 begins at `start`; `step` seconds a cell."""

    start: int
    step: int
    cells: int

    def cell(self, at: int) -> int:
        """The cell of a time, possibly outside of the window."""
        return (at - self.start) // self.step


def window(now: int, scale: int, shift: int, cells: int) -> Window:
    """A window that shows a fifth of past; `shift` moves it by fifths into the future."""
    step = SCALES[scale]
    start = now // step * step - step * (cells // 5) + step * shift * max(1, cells // 5)
    return Window(start, step, max(1, cells))


@dataclass(frozen=True, slots=True)
class Bar:
    """A job on a node from `start` to `end` (FAR: no limit)."""

    job: Job
    start: int
    end: int
    planned: bool


def bars_of(mirror: Mirror, fact: NodeFact, planned: dict[str, list[JobNumber]]) -> list[Bar]:
    """Running jobs of a node, then those planned on it, each by start."""
    bars = []
    for job in fact.jobs:
        limit = job.time_limit_s
        end = job.limit_ends or FAR
        bars.append(Bar(job, job.status.start_time, end, False))
    for number in planned.get(fact.node.name, ()):
        waiting, forecast = mirror.jobs.get(number), mirror.forecasts.get(number)
        if waiting is not None and forecast is not None and forecast.start and waiting.status.state == State.PENDING:
            limit = waiting.time_limit_s
            end = FAR if limit == NO_LIMIT else forecast.start + limit
            bars.append(Bar(waiting, forecast.start, end, True))
    return sorted(bars, key=lambda bar: (bar.planned, bar.start, bar.job.number))


def planned_by_node(mirror: Mirror) -> dict[str, list[JobNumber]]:
    """Node name → jobs planned on it."""
    found: dict[str, list[JobNumber]] = {}
    for number, forecast in mirror.forecasts.items():
        for name in forecast.nodes if forecast.start else ():
            found.setdefault(name, []).append(number)
    return found


def key_of(node_key: int, number: int = 0) -> int:
    """The row key of a node (number 0) or of a job on it."""
    return node_key << JOB_BITS | number


def rows(mirror: Mirror, fleet: Fleet, text: str, folded: bool, ids: dict[str, int]) -> list[int]:
    """Row keys in order: each node, below it its reservations and jobs unless `folded`.

    `ids` numbers the reservations by name; new ones get the next number.
    """
    for name in sorted(mirror.reservations):
        ids.setdefault(name, len(ids))
    test = node_filter(mirror, text)
    planned = {} if folded else planned_by_node(mirror)
    found: list[int] = []
    for name in fleet.order:
        fact = fleet.facts[name]
        if not test(fact):
            continue
        node_key = fleet.key(name)
        found.append(key_of(node_key))
        if not folded:
            found += [key_of(node_key, RESERVED + ids[one.name]) for one in fact.reserved]
            found += [key_of(node_key, bar.job.number) for bar in bars_of(mirror, fact, planned)]
    return found


def axis(view: Window, now: int, zone: tzinfo | None = None) -> str:
    """Clock times along the top, `now` where it is; the date where a day begins."""
    line = [" "] * view.cells
    every = next((step for step in NICE if step / view.step >= 10), NICE[-1])
    offset = int((datetime.fromtimestamp(view.start, UTC).astimezone(zone).utcoffset() or _ZERO).total_seconds())
    at = (view.start + offset) // every * every - offset
    end = view.start + view.step * view.cells
    here = view.cell(now)
    while at < end:
        local = datetime.fromtimestamp(at, UTC).astimezone(zone)
        text = local.strftime("%b %d") if (local.hour, local.minute) == (0, 0) else local.strftime("%H:%M")
        cell = view.cell(at)
        if not here - len(text) - 2 < cell < here + 6:
            _write(line, cell, "╵" + text)
        at += every
    _write(line, here, "▼now")
    return "".join(line)


NICE = (60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
_ZERO = timedelta()


def _write(line: list[str], at: int, text: str) -> None:
    """Into cells: the second one of a wide character is empty."""
    cells = [cell for char in text for cell in (char, *[""] * (width(char) - 1))]
    if at >= 0 and at + len(cells) <= len(line):
        line[at : at + len(cells)] = cells


def node_strip(mirror: Mirror, fact: NodeFact, view: Window, now: int) -> list[Piece]:
    """How full a node is held in each cell: GPUs (CPUs where it has none), by limits; nothing before now."""
    if not fact.known:
        return [("? " + tr("never reported"), "dim")]
    total = len(fact.gpus) or fact.cpus or 1
    change: dict[int, float] = {}
    for bar in bars_of(mirror, fact, {}):
        held = _held(bar.job, fact)
        first = max(0, view.cell(max(now, bar.start)))
        last = view.cells if bar.end == FAR else min(view.cells, max(first, view.cell(max(bar.end, now)) + 1))
        change[first] = change.get(first, 0) + held
        change[last] = change.get(last, 0) - held
    text, used = [], 0.0
    for cell in range(view.cells):
        used += change.get(cell, 0)
        text.append(" " if cell < view.cell(now) else level(used / total) if used > 0.001 else "·")
    return _with_reserved(text, fact, view, now)


def _with_reserved(text: list[str], fact: NodeFact, view: Window, now: int) -> list[Piece]:
    """The strip with the times in which the whole node is reserved: where nothing is held, and in another colour."""
    marked = [False] * view.cells
    for one in fact.reserved:
        if one.cores is None and one.gpus is None:
            for first, last in spans_of(one, view):
                for cell in range(max(first, view.cell(now), 0), last + 1):
                    marked[cell] = True
                    text[cell] = "═" if text[cell] == "·" else text[cell]
    pieces: list[Piece] = []
    for letter, reserved in zip(text, marked, strict=True):
        role = "state-planned" if reserved else "faint"
        if pieces and pieces[-1][1] == role:
            pieces[-1] = (pieces[-1][0] + letter, role)
        else:
            pieces.append((letter, role))
    return pieces


def spans_of(one: Reservation, view: Window) -> list[tuple[int, int]]:
    """The (first, last) cells of the window that it covers."""
    end = view.start + view.step * view.cells
    times = occurrences(one, view.start, end)
    return [(max(0, view.cell(at)), min(view.cells - 1, view.cell(until - 1))) for at, until in times]


def reservation_strip(one: Reservation, view: Window, now: int) -> list[Piece]:
    """Its times; where none is in the window, when the next one is."""
    here = view.cell(now)
    text = ["│" if cell == here else " " for cell in range(view.cells)]
    spans = spans_of(one, view)
    for first, last in spans:
        text[first : last + 1] = "═" * (last + 1 - first)
    if not spans and one.start > now:
        words = f"{when_words(one, now)} →"
        _write(text, view.cells - len(words), words)
    return _runs(text, "warning" if one.maintenance else "state-planned")


def reservation_label(one: Reservation) -> list[Piece]:
    """Its name in the left column, and whose it is."""
    return [(f"  ◈ {clean(one.name)} ", "plain"), (whom_words(one), "dim")]


def _held(job: Job, fact: NodeFact) -> float:
    """GPUs that a job holds on a node, shares as fractions; CPUs where the node has no GPU."""
    for part in job.status.allocation.nodes if job.status.allocation else ():
        if part.node == fact.node.name:
            return sum(gpu.shards / gpu.of for gpu in part.gpus) if fact.gpus else float(part.cpus)
    return 0.0


def job_strip(bar: Bar, view: Window, now: int) -> list[Piece]:
    """A job's bar: solid until now, lighter until its limit, hatched while only planned; `…` where it goes on."""
    owner = f"owner:{bar.job.user}"
    first, here = view.cell(bar.start), view.cell(now)
    last = view.cells if bar.end == FAR else view.cell(max(bar.end - 1, bar.start))
    text: list[str] = []
    for cell in range(view.cells):
        if first <= cell <= last:
            text.append("░" if bar.planned else "█" if cell < here else "▌" if cell == here else "▒")
        else:
            text.append("│" if cell == here else " ")
    if bar.end == FAR and first < view.cells:
        text[-1] = "→"
    if first >= view.cells:
        words = tr("planned {when} →" if bar.planned else "starts {when} →").format(when=moment(bar.start, now))
        _write(text, view.cells - width(words), words)
    return _runs(text, owner)


def _runs(text: list[str], role: str) -> list[Piece]:
    """The line with the now mark dimmed."""
    joined = "".join(text)
    if "│" not in joined:
        return [(joined, role)]
    before, _, after = joined.partition("│")
    return [(before, role), ("│", "faint"), (after, role)]


def label(bar: Bar) -> list[Piece]:
    """A job's name in the left column."""
    job = bar.job
    return [(f"  {job.display_id} ", "plain"), (clean(job.user), f"owner:{job.user}")]


def scale_words(scale: int) -> str:
    """`20m a cell`."""
    return tr("{span} a cell").format(span=short_span(SCALES[scale]))
