"""A past and its replays side by side, as lines of text with small bars. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from flagplot_wire.text import fit
from flagplot_wire.units import format_duration
from flagplotd.sim.compare import Figures, Waits
from flagplotd.sim.history import Past

WIDTH = 80
HEADS = {
    "before": "really",
    "present": "replayed under the present settings",
    "after": "replayed under the other settings",
}
_NAME, _BAR = 9, 20
MOST_USERS = 20
"""Users with a line of their own: those with the most jobs."""


def page(past: Past, courses: Mapping[str, Figures], file: str, ascii_only: bool = False) -> list[str]:
    """Everything; `courses` by the keys of `HEADS`."""
    span = f"{_time(past.since)} to {_time(past.until)}"
    lines = [f"{fit(file, 40).rstrip()}: {span}, {courses['before'].waits.jobs:,} jobs that waited and ran", ""]
    lines += [f"{name:<{_NAME}}{words}" for name, words in HEADS.items()]
    if past.never_ran or past.still_running:
        left = f"left out: {past.never_ran:,} jobs that never ran"
        lines += ["", f"{left}; {past.still_running:,} still run and count as ended now"]
    lines += [
        f"{name}: {one.unstarted:,} of the jobs never start under these settings"
        for name, one in courses.items()
        if one.unstarted
    ]
    lines += ["", f"{'':<{_NAME}}{'CPUs used':>12}{'GPUs used':>12}{'fair use':>12}{'fair waits':>12}{'last end':>20}"]
    for name, one in courses.items():
        used = f"{_percent(one.cpu_utilisation):>12}{_percent(one.gpu_utilisation):>12}"
        lines.append(f"{name:<{_NAME}}{used}{_index(one.fair_use):>12}{_index(one.fair_waits):>12}{_time(one.end):>20}")
    lines += ["", *table("Waits", {name: one.waits for name, one in courses.items()}, ascii_only)]
    for size in {size: None for one in courses.values() for size in one.by_size}:
        lines += ["", *table(f"Waits: {size}", _of(courses, "by_size", size), ascii_only)]
    by_jobs = sorted(courses["before"].by_user.items(), key=lambda one: (-one[1].jobs, one[0]))
    for user, _ in by_jobs[:MOST_USERS]:
        lines += ["", *table(f"Waits: user {user}", _of(courses, "by_user", user), ascii_only)]
    if len(by_jobs) > MOST_USERS:
        lines += ["", f"{len(by_jobs) - MOST_USERS} more users: --json has them all"]
    return lines


def _of(courses: Mapping[str, Figures], field: str, key: str) -> dict[str, Waits]:
    return {name: getattr(one, field).get(key, Waits(0, 0.0, 0.0, 0)) for name, one in courses.items()}


def table(title: str, rows: Mapping[str, Waits], ascii_only: bool = False) -> list[str]:
    """Waits of each course, with a bar of the mean beside the longest mean."""
    longest = max((row.mean_s for row in rows.values()), default=0.0)
    lines = [f"{fit(title, 30)}{'jobs':>9}{'mean':>13}{'median':>13}{'p95':>13}".rstrip()]
    for name, row in rows.items():
        length = round(_BAR * row.mean_s / longest) if longest else 0
        bar = ("#" if ascii_only else "█") * (length or int(row.mean_s > 0))
        times = "".join(f"{format_duration(round(value)):>13}" for value in (row.mean_s, row.median_s, row.p95_s))
        lines.append(f"{name:<{_NAME}}{bar:<{_BAR + 1}}{row.jobs:>9,}{times}")
    return lines


def _time(moment: int) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%dT%H:%M")


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.2%}"


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
