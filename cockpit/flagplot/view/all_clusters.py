"""The queues of several clusters as one list. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from flagplot.client.mirror import Mirror
from flagplot.view.listing import Key, Listing
from flagplot.view.queue import Cell, Column, QueueSpec, cells, columns_for
from flagplot.view.words import short_span
from flagplot_wire.ids import JobNumber
from flagplot_wire.text import clean, counted

STRIDE = 1 << 40
"""A row's key is the cluster's place times this, plus the job's number."""
CLUSTER = Column("cluster", "CLUSTER", 12, 1)
STALE_S = 10
"""Silence of a connected controller after which its age is told."""


@dataclass(slots=True)
class Member:
    """A cluster in the list: its name, its mirror, and its queue in order."""

    name: str
    mirror: Mirror
    listing: Listing = field(default_factory=Listing)

    def age(self, now: int) -> int | None:
        """How old what is shown of it is, in seconds; None while it is fresh. -1: it never answered."""
        if not self.mirror.heard:
            return None if self.mirror.connected else -1
        silent = max(0, now - self.mirror.heard)
        return None if self.mirror.connected and silent < STALE_S else silent


def split_filter(text: str) -> tuple[tuple[str, ...], str]:
    """The names behind `cluster:`, and the rest of a filter."""
    words = text.split()
    names = tuple(word.removeprefix("cluster:") for word in words if word.startswith("cluster:"))
    return names, " ".join(word for word in words if not word.startswith("cluster:")) if names else text


def merged(members: Sequence[Member], spec: QueueSpec, now: int) -> list[int]:
    """The keys of all rows: live jobs of all clusters in one order, then ended ones."""
    names, rest = split_filter(spec.filter)
    asked = replace(spec, filter=rest)
    rows: list[int] = []
    chosen = [(at, one) for at, one in enumerate(members) if not names or any(name in one.name for name in names)]
    for _, one in chosen:
        one.listing.sync(one.mirror, asked, now)
    for part in (0, 1):
        found = sorted(row for at, one in chosen for row in _rows(at, one, part))
        keys = [at * STRIDE + number for _, at, number in found]
        rows += reversed(keys) if spec.reverse else keys
    return rows


def _rows(at: int, member: Member, part: int) -> Iterator[tuple[Key, int, JobNumber]]:
    return ((entry.key, at, entry.job.number) for entry in member.listing.shown[part].entries)


def columns(width: int) -> list[tuple[Column, int]]:
    """The queue's columns with the cluster before them."""
    room = 12 if width < 120 else 18
    return [(CLUSTER, room), *columns_for(width - room - 1)]


def row_cells(members: Sequence[Member], key: int, now: int, shown: list[tuple[Column, int]], fold: bool) -> list[Cell]:
    """The cells of a row; of a cluster that is silent the age stands with its name, and the row is dim."""
    member = members[key // STRIDE]
    found = cells(member.mirror, JobNumber(key % STRIDE), now, shown[1:], fold)
    age = member.age(now)
    if age is None:
        return [(clean(member.name), "bold"), *found]
    return [(f"{clean(member.name)} {short_span(max(age, 0))}", "bad"), *((text, "dim") for text, _ in found)]


def state_words(member: Member, now: int) -> tuple[str, str]:
    """A cluster in a few words, with their role."""
    age, mirror = member.age(now), member.mirror
    name = clean(member.name)
    if age is None and mirror.complete:
        return f"● {name} {counted(len(mirror.jobs), 'job')}", "good"
    problem = f": {clean(mirror.problem)}" if mirror.problem else ""
    if age is None or (age < 0 and not problem):
        return f"○ {name} connecting", "warning"
    if age < 0:
        return f"✗ {name} no answer yet{problem}", "bad"
    return f"✗ {name} {short_span(age)} old{problem}", "bad"
