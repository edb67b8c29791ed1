"""The cluster's pulse: a few figures with their latest past, each leading to the list that it counts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flagplot.client.mirror import Mirror
from flagplot.language import tr, tr_count
from flagplot.view.bars import Piece, number
from flagplot.view.chart import Value, chart, squeezed
from flagplot.view.fleet import Fleet
from flagplot.view.words import about
from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, State
from flagplot_wire.text import clean

EVERY_S = 5
"""Between two readings."""
KEPT = 720
"""Readings: an hour."""
MINUTE = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """The cluster at one moment. None is not known; `oldest` is the job that may start and has waited longest."""

    time: int
    pending: int
    elements: int
    running: int
    gpus_held: float
    gpus: int
    busy: int | None
    measured: int
    down: int
    drained: int
    nodes: int
    starts: int
    oldest: Job | None
    cycle_us: int | None

    @property
    def oldest_s(self) -> int:
        """For how long the oldest has waited."""
        return max(0, self.time - self.oldest.status.submit_time) if self.oldest is not None else 0


def read(mirror: Mirror, fleet: Fleet, now: int, cycle_us: int | None) -> Reading:
    """Read all figures: one pass over the jobs and one over the nodes."""
    elements = starts = 0
    oldest: Job | None = None
    for job in mirror.jobs.values():
        status = job.status
        if status.state is State.PENDING:
            elements += count_indices(status.waiting) if status.waiting else 1
            free = not job.spec.hold and job.spec.begin <= now
            if free and (oldest is None or status.submit_time < oldest.status.submit_time):
                oldest = job
        elif now - MINUTE < status.start_time <= now:
            starts += 1
    facts = fleet.facts.values()
    in_use = [fact for fact in facts if fact.jobs]
    held = [gpu for fact in in_use for gpu in fact.gpus if gpu.used]
    known = [gpu.sample.utilisation for gpu in held if gpu.sample is not None and gpu.sample.utilisation is not None]
    return Reading(
        time=now,
        pending=mirror.counts[State.PENDING],
        elements=elements,
        running=mirror.counts[State.RUNNING],
        gpus_held=sum(fact.gpus_held for fact in in_use),
        gpus=sum(len(fact.gpus) for fact in facts),
        busy=sum(known) // len(known) if known else None,
        measured=len(known),
        down=sum(fact.look in ("DOWN", "UNKNOWN") for fact in facts),
        drained=sum(fact.look in ("DRAINED", "DRAINING") for fact in facts),
        nodes=len(fleet.facts),
        starts=starts,
        oldest=oldest,
        cycle_us=cycle_us,
    )


@dataclass(frozen=True, slots=True)
class Dial:
    """A figure: its name, the figure and a note as pieces, its past, and the view and filter that list what it counts."""

    name: str
    title: str
    figure: tuple[Piece, ...]
    note: str
    past: tuple[Value, ...]
    top: float
    role: str
    view: str
    filter: str


def dials(readings: Sequence[Reading]) -> list[Dial]:
    """The dials of the latest reading, with the past of all of them; none without a reading."""
    if not readings:
        return []
    now = readings[-1]
    out = now.down + now.drained
    busy = "?" if now.busy is None else f"{now.busy} %"
    cycle = "?" if now.cycle_us is None else millis_words(now.cycle_us)
    who = (
        tr("job {job} of {user}").format(job=now.oldest.display_id, user=clean(now.oldest.user))
        if now.oldest
        else tr("nothing waits for room")
    )
    arrays = tr("{count} with array elements").format(count=now.elements) if now.elements != now.pending else ""
    return [
        _dial("pending", tr("Pending"), str(now.pending), arrays, [one.pending for one in readings], "state-pending",
              "queue", "state:pd"),
        _dial("running", tr("Running"), str(now.running), tr("jobs"), [one.running for one in readings], "state-running",
              "queue", "state:r"),
        _dial("gpus", tr("GPUs in use"), number(round(now.gpus_held, 1)), tr("of {count}").format(count=now.gpus),
              [one.gpus_held for one in readings], "meter", "gpus", "held", now.gpus),
        _dial("busy", tr("GPU utilisation"), busy, tr_count("mean of {count} held GPU", "mean of {count} held GPUs", now.measured),
              [one.busy for one in readings], "meter", "gpus", "held", 100),
        _dial("nodes", tr("Nodes out of service"), f"{out}", tr("{down} down · {drained} drained · of {nodes}").format(down=now.down, drained=now.drained, nodes=now.nodes),
              [one.down + one.drained for one in readings], "bad" if now.down else "warning" if out else "good",
              "nodes", "state:drain,down,unknown"),
        _dial("starts", tr("Starts in the last minute"), str(now.starts), tr("jobs"), [one.starts for one in readings],
              "state-running", "events", "started"),
        _dial("cycle", tr("Scheduling cycle"), cycle, tr("the last one"), [one.cycle_us for one in readings], "meter",
              "queue", "state:pd"),
        _dial("oldest", tr("Oldest pending"), about(now.oldest_s) if now.oldest else "-", who,
              [one.oldest_s for one in readings], "warning" if now.oldest_s > 86_400 else "state-pending",
              "queue", f"state:pd !state:held {age_filter(now.oldest_s)}"),
    ]  # fmt: skip


def _dial(
    name: str,
    title: str,
    figure: str,
    note: str,
    past: Sequence[Value],
    role: str,
    view: str,
    text: str,
    top: float = 0,
) -> Dial:
    most = top or max((value for value in past if value is not None), default=0)
    style = "bold" if role == "meter" else role
    return Dial(name, title, ((figure, style),), note, tuple(past), most, role, view, text)


def age_filter(seconds: int) -> str:
    """The filter of jobs that are about so old or older."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"age>={seconds // size}{unit}"
    return f"age>={seconds}s"


def millis_words(microseconds: int) -> str:
    """Microseconds for reading: `0.4 ms`, `12 ms`, `1.4 s`."""
    if microseconds < 10_000:
        return f"{microseconds / 1_000:.1f} ms"
    return f"{microseconds // 1_000} ms" if microseconds < 1_000_000 else f"{microseconds / 1e6:.1f} s"


def draw(dial: Dial, columns: int, rows: int) -> list[list[Piece]]:
    """A dial in `rows` (at least 3) lines of `columns` cells: title, figure and note, its past."""
    figure: list[Piece] = [*dial.figure, (f"  {dial.note}", "dim")]
    graph = chart(squeezed(dial.past, columns), columns, rows - 2, dial.top, dial.role)
    return [[(dial.title, "header")], figure, *graph]


def span_words(readings: Sequence[Reading]) -> str:
    """How far the past reaches back: `last 12 min`."""
    if len(readings) < 2:
        return tr("from now on")
    return tr("last {span}").format(span=about(readings[-1].time - readings[0].time))


def grid(count: int, columns: int, rows: int) -> tuple[int, int, int]:
    """(dials across, cells of each, lines of each) for a screen of this size; a gap of one cell and line included."""
    across = 4 if columns >= 110 else 2 if columns >= 50 else 1
    down = -(-count // across) or 1
    return across, columns // across, max(3, min(rows // down, 14))
