"""What a simulation came to: figures, and a page of text with small plots. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from flagplot_wire.units import format_duration
from flagplotd.sim.engine import Outcome
from flagplotd.sim.swf import DROPPED

WIDTH = 80
TAU_S = 10
"""Jobs shorter than this count as this long in the bounded slowdown, as in the published studies."""
BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
"""A cell filled by 0 to 8 eighths."""
WAITS = (
    (0, "none"), (60, "to 1 minute"), (600, "to 10 minutes"), (3_600, "to 1 hour"), (6 * 3_600, "to 6 hours"),
    (86_400, "to 1 day"), (7 * 86_400, "to 1 week"), (1 << 62, "longer"),
)  # fmt: skip
"""Classes of the histogram: the longest wait in seconds, and its words."""


class Figures(Struct, frozen=True):
    """The figures of one simulation. Times in seconds; without a job, means and maximum are 0."""

    jobs: int
    sum_wait_s: int
    mean_wait_s: float
    mean_bsld: float
    """Mean of max(1, (wait + run) / max(run, 10))."""
    max_wait_s: int
    utilisation: float | None
    """Processor seconds used, of those there were, from the first submission to the last; None where both are one."""
    dropped: int
    """Records left out, in all and by reason."""
    dropped_by: dict[str, int]


def measure(outcome: Outcome) -> Figures:
    """The figures of an outcome."""
    jobs = outcome.jobs
    count = len(jobs.submit)
    waits = [start - submit for start, submit in zip(outcome.start, jobs.submit, strict=True)]
    slowdowns = [max(1.0, (wait + run) / max(run, TAU_S)) for wait, run in zip(waits, jobs.run, strict=True)]
    utilisation = None
    if count and (span := jobs.submit[-1] - jobs.submit[0]):
        utilisation = busy(outcome, [jobs.submit[-1]])[0] / (jobs.total * span)
    return Figures(
        jobs=count,
        sum_wait_s=sum(waits),
        mean_wait_s=sum(waits) / max(count, 1),
        mean_bsld=sum(slowdowns) / max(count, 1),
        max_wait_s=max(waits, default=0),
        utilisation=utilisation,
        dropped=sum(jobs.dropped.values()),
        dropped_by=jobs.dropped,
    )


def busy(outcome: Outcome, times: Sequence[int]) -> list[int]:
    """Processor seconds used before each of the times."""
    changes = sorted(
        change
        for start, run, procs in zip(outcome.start, outcome.jobs.run, outcome.jobs.procs, strict=True)
        for change in ((start, procs), (start + run, -procs))
    )
    moments = [when for when, _ in changes]
    in_use = list(accumulate(procs for _, procs in changes))
    steps = [used * (moments[at + 1] - moments[at]) for at, used in enumerate(in_use[:-1])]
    done = [0, *accumulate(steps)]
    found = []
    for time in times:
        at = bisect_right(moments, time) - 1
        found.append(done[at] + in_use[at] * (time - moments[at]) if at >= 0 else 0)
    return found


def page(title: str, outcome: Outcome, figures: Figures, ascii_only: bool = False) -> str:
    """The figures and plots as lines of at most `WIDTH` cells."""
    used = "unknown, since all were submitted at once" if figures.utilisation is None else f"{figures.utilisation:.4%}"
    lines = [
        title,
        "",
        f"jobs                   {figures.jobs:,}",
        f"mean wait              {figures.mean_wait_s:,.2f} s ({format_duration(round(figures.mean_wait_s))})",
        f"longest wait           {figures.max_wait_s:,} s ({format_duration(figures.max_wait_s)})",
        f"sum of waits           {figures.sum_wait_s:,} s",
        f"mean bounded slowdown  {figures.mean_bsld:.6f}",
        f"utilisation            {used}",
        *(f"left out               {n:,} {DROPPED[why]}" for why, n in figures.dropped_by.items() if n),
    ]
    if figures.jobs:
        lines += ["", *timeline(outcome, ascii_only), "", *histogram(outcome, ascii_only)]
    return "\n".join(lines)


def timeline(outcome: Outcome, ascii_only: bool = False) -> list[str]:
    """A line of cells filled by the part of the processors in use, from the first submission to the last end."""
    first = outcome.jobs.submit[0]
    span = max(start + run for start, run in zip(outcome.start, outcome.jobs.run, strict=True)) - first
    cells = min(WIDTH, span)
    edges = [first + span * cell // cells for cell in range(cells + 1)]
    done = busy(outcome, edges)
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    line = ""
    for cell in range(cells):
        part = (done[cell + 1] - done[cell]) / (outcome.jobs.total * (edges[cell + 1] - edges[cell]))
        line += blocks[0 if part <= 0 else 8 if part >= 1 else max(1, min(7, round(part * 8)))]
    return [f"Processors in use over {format_duration(span)}, from the first submission to the last end", line]


def histogram(outcome: Outcome, ascii_only: bool = False) -> list[str]:
    """A bar for each class of `WAITS`, with its number of jobs and their part of all."""
    counts = [0] * len(WAITS)
    limits = [limit for limit, _ in WAITS]
    for start, submit in zip(outcome.start, outcome.jobs.submit, strict=True):
        counts[bisect_right(limits, start - submit - 1)] += 1
    total, most = sum(counts), max(counts)
    room = WIDTH - 14 - 19
    lines = ["Waits"]
    for (_, words), count in zip(WAITS, counts, strict=True):
        length = -(-count * room // most)
        bar = ("#" if ascii_only else "█") * length
        lines.append(f"{words:<14}{bar:<{room}}{count:>11,}{count / total:>7.1%}".rstrip())
    return lines
