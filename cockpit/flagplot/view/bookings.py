"""Which nodes reservations hold, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from flagplot.client.mirror import Mirror
from flagplot.view.words import about, moment
from flagplot_wire.policy import Reservation
from flagplot_wire.text import clean

MOST = 1_000
"""Occurrences of a repeating reservation that are looked at, at most."""


def by_node(mirror: Mirror) -> dict[str, tuple[Reservation, ...]]:
    """The reservations of each node that has any, by their start."""
    found: dict[str, list[Reservation]] = {}
    for one in sorted(mirror.reservations.values(), key=lambda one: (one.start, one.name)):
        for name in one.covered(mirror.nodes, mirror.partitions):
            found.setdefault(name, []).append(one)
    return {name: tuple(some) for name, some in found.items()}


def occurrences(one: Reservation, start: int, end: int) -> list[tuple[int, int]]:
    """Its times (start, end) that overlap a span."""
    if not one.repeat_s:
        return [(one.start, one.end)] if one.start < end and start < one.end else []
    first = max(0, (start - one.end) // one.repeat_s + 1)
    times = ((one.start + k * one.repeat_s, one.end + k * one.repeat_s) for k in range(first, first + MOST))
    found = []
    for at, until in times:
        if at >= end:
            break
        found.append((at, until))
    return found


def active(one: Reservation, now: int) -> bool:
    """True while it holds its nodes."""
    return bool(occurrences(one, now, now + 1))


def next_change(mirror: Mirror, now: int) -> int:
    """When the next one begins or ends, epoch seconds; far away without any."""
    bounds = [1 << 62]
    for one in mirror.reservations.values():
        for at, until in occurrences(one, now, max(one.end, now) + one.repeat_s + 1)[:2]:
            bounds += [time for time in (at, until) if time > now]
    return min(bounds)


def holder(some: Iterable[Reservation], now: int) -> Reservation | None:
    """The one that holds a whole node now, maintenance before the others; None where none does."""
    found = [one for one in some if one.cores is None and one.gpus is None and active(one, now)]
    return next((one for one in found if one.maintenance), found[0] if found else None)


def when_words(one: Reservation, now: int, zone: tzinfo | None = None) -> str:
    """`until in 2 h`, or `in 3 h for 2 h`; `over`."""
    times = occurrences(one, now, max(now, one.end) + one.repeat_s + 1)
    if not times:
        return "over"
    start, end = times[0]
    return f"until {moment(end, now, zone)}" if start <= now else f"{moment(start, now, zone)} for {about(end - start)}"


def whom_words(one: Reservation) -> str:
    """Whose jobs may use it: names, or that it is nobody's."""
    names = [*one.users, *(f"account {account}" for account in one.accounts)]
    return clean(", ".join(names)) or ("maintenance" if one.maintenance else "nobody")
