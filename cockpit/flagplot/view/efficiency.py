"""How well my jobs used what they held, and what my limits leave. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot.language import later, tr, tr_count
from flagplot.view.bars import Piece, bar
from flagplot.view.queue import Column
from flagplot.view.words import memory, moment, short_span, state_words
from flagplot_wire.accounting import Efficiency, Quota
from flagplot_wire.text import clean

Cells = tuple[tuple[Piece, ...], ...]

COLUMNS: tuple[Column, ...] = (
    Column("id", "JOB", 7, 1),
    Column("name", "NAME", 9, 3),
    Column("state", "ST", 3),
    Column("ran", "RAN", 6, right=True),
    Column("cpu", "CPU", 12, 2),
    Column("memory", "MEMORY", 21, 2),
    Column("gpu", "GPU", 11, 2),
    Column("ended", "ENDED", 16, right=True, from_width=110),
)
QUOTA_COLUMNS: tuple[Column, ...] = (
    Column("whose", "WHOSE LIMIT", 22, 3),
    Column("limit", "OF", 15),
    Column("bar", "IN USE", 11, 3),
    Column("used", "USED", 8, right=True),
    Column("most", "MOST", 8, right=True),
    Column("left", "LEFT", 8, right=True),
)
LIMITS = {
    "gpus": "GPUs",
    "gpu_minutes": later("GPU minutes"),
    "cpus": "CPUs",
    "memory_mib": later("memory"),
    "nodes": later("nodes"),
    "jobs": later("running jobs"),
    "submitted": later("jobs in queue"),
}
LOW = 0.25
"""Who uses less than so much of what it held is told so by colour."""


def cpu_part(one: Efficiency) -> float | None:
    """The part of the CPU time it held that it used; None where that was not measured."""
    held = one.cpus * one.held_s * 1_000
    return None if one.cpu_ms is None or not held else one.cpu_ms / held


def memory_part(one: Efficiency) -> float | None:
    """The part of its memory that it needed at its peak."""
    return None if one.memory_peak_mib is None or not one.memory_mib else one.memory_peak_mib / one.memory_mib


def gpu_part(one: Efficiency) -> float | None:
    """The mean utilisation of its GPUs."""
    return None if one.gpu_percent is None else one.gpu_percent / 100


def cells(one: Efficiency, now: int, columns: Sequence[tuple[Column, int]]) -> Cells:
    """An ended job: what it used of what it held; `?` was not measured, `-` does not apply."""
    return tuple(_cell(one, now, column.key, width) for column, width in columns)


def _cell(one: Efficiency, now: int, key: str, width: int) -> tuple[Piece, ...]:
    match key:
        case "id":
            return ((one.display_id, "plain"),)
        case "name":
            return ((clean(one.name), "plain"),)
        case "state":
            look = state_words(one.state)
            return ((look.short, look.role),)
        case "ran":
            return ((short_span(one.held_s), "plain"),)
        case "cpu":
            return _gauge(cpu_part(one), width, _percent(cpu_part(one)), 6)
        case "memory":
            return _gauge(memory_part(one), width, f"{_short(one.memory_peak_mib)}/{_short(one.memory_mib)}", 13)
        case "gpu":
            return _gauge(gpu_part(one), width, _percent(gpu_part(one)), 6) if one.gpu_millis else (("-", "dim"),)
    return ((moment(one.end_time, now), "dim"),)


def _gauge(part: float | None, width: int, words: str, room: int) -> tuple[Piece, ...]:
    if part is None:
        return (("?", "dim"),)
    return (*bar(part, max(1, width - room), "warning" if part < LOW else "meter"), (words.rjust(room), "plain"))


def _percent(part: float | None) -> str:
    return "?" if part is None else f"{part * 100:.0f} %"


def mean_words(ended: Sequence[Efficiency]) -> list[Piece]:
    """All of them together, each weighed by what it held and how long; what was not measured is left out, and said."""
    if not ended:
        return []
    parts: list[Piece] = [
        (tr_count("{count} job used, of what it held:  ", "{count} jobs used, of what they held:  ", len(ended)), "dim")
    ]
    for word, part_of, amount in (
        ("CPU", cpu_part, "cpus"),
        ("memory", memory_part, "memory_mib"),
        ("GPU", gpu_part, "gpu_millis"),
    ):
        weighed = [(part, getattr(one, amount) * one.held_s) for one in ended if (part := part_of(one)) is not None]
        total = sum(weight for _, weight in weighed)
        mean = sum(part * weight for part, weight in weighed) / total if total else None
        role = "warning" if mean is not None and mean < LOW else "plain"
        parts += [(f"{word} ", "dim"), (f"{_percent(mean)}   ", role)]
    return parts


# what is left


def quota_cells(one: Quota, columns: Sequence[tuple[Column, int]]) -> Cells:
    """A limit: whose, of what, how full, and what is left of it."""
    return tuple(_quota_cell(one, column.key, width) for column, width in columns)


def _quota_cell(one: Quota, key: str, width: int) -> tuple[Piece, ...]:
    part = one.used / one.most if one.most else 1.0
    role = "bad" if part >= 1 else "warning" if part >= 0.8 else "good"
    match key:
        case "whose":
            return ((clean(one.whose), "plain"),)
        case "limit":
            return ((tr(LIMITS[one.limit]) if one.limit in LIMITS else clean(one.limit), "plain"),)
        case "bar":
            return (*bar(min(part, 1.0), width - 6, role), (f"{min(part * 100, 9_999):.0f} %".rjust(6), "plain"))
        case "used":
            return ((_amount(one.limit, one.used), "plain"),)
        case "most":
            return ((_amount(one.limit, one.most), "plain"),)
    left = one.most - one.used
    return ((_amount(one.limit, max(left, 0)), role),)


def quota_filter(one: Quota) -> str:
    """The filter of the queue that shows whose jobs count against a limit."""
    head, _, rest = one.scope.partition(":")
    if head == "user":
        user, _, account = rest.partition("@")
        return f"user:{user} account:{account}"
    if head == "qos" and ":" in rest:
        qos, _, whose = rest.partition(":")
        return f"qos:{qos} {whose}"
    return one.scope


def _amount(limit: str, value: int) -> str:
    if limit == "memory_mib":
        return _short(value)
    return f"{value:,}" if value < 1_000_000 else f"{value / 1_000_000:,.2f}M"


def _short(mib: int | None) -> str:
    return memory(mib).replace(" GiB", "G").replace(" MiB", "M")
