"""The queue's order and filter, kept up to date job by job: 1,000 changes cost what 1,000 jobs cost. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, overload

from flagplot.client.mirror import Mirror
from flagplot.view.filters import Entry, Filter, parse_filter
from flagplot.view.narrowing import narrowing
from flagplot.view.queue import QueueSpec, order_of
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job

MANY = 2_000
"""Changes at once beyond which sorting anew is quicker than moving one by one."""
Key = tuple[Any, ...]
_key = attrgetter("key")


class Sorted:
    """Entries by key; every key ends with the job's number, so that no two are equal."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[Entry]) -> None:
        """Of entries that are in order already."""
        self.entries = entries

    def add(self, entry: Entry) -> None:
        """Put an entry in its place."""
        insort(self.entries, entry, key=_key)

    def drop(self, key: Key) -> None:
        """Take an entry out."""
        at = self.at(key)
        if at >= 0:
            del self.entries[at]

    def at(self, key: Key) -> int:
        """The place of a key; -1 when it is not there."""
        at = bisect_left(self.entries, key, key=_key)
        return at if at < len(self.entries) and self.entries[at].key == key else -1


class Rows(Sequence[JobNumber]):
    """Live jobs, then ended ones, each part turned round where asked; a window on the listing, without a copy."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def __len__(self) -> int:
        return sum(len(part.entries) for part in self._listing.shown)

    @overload
    def __getitem__(self, index: int) -> JobNumber: ...
    @overload
    def __getitem__(self, index: slice) -> list[JobNumber]: ...
    def __getitem__(self, index: int | slice) -> JobNumber | list[JobNumber]:
        if isinstance(index, slice):
            return list(self)[index]
        left = index if index >= 0 else index + len(self)
        for part in self._listing.shown:
            if 0 <= left < len(part.entries):
                return part.entries[-1 - left if self._listing.spec.reverse else left].job.number
            left -= len(part.entries)
        raise IndexError(index)

    def __iter__(self) -> Iterator[JobNumber]:
        for part in self._listing.shown:
            for entry in reversed(part.entries) if self._listing.spec.reverse else part.entries:
                yield entry.job.number

    def __contains__(self, number: object) -> bool:
        return self._listing.place(number) >= 0

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The row of a number; raises ValueError when it is not shown."""
        at = self._listing.place(value)
        if at < 0:
            raise ValueError(value)
        return at


class Listing:
    """What a queue shows of a mirror. `rows` is always of the last `sync`."""

    def __init__(self) -> None:
        self.spec = QueueSpec()
        self.rows: Sequence[JobNumber] = Rows(self)
        self.shown: tuple[Sorted, Sorted] = (Sorted([]), Sorted([]))
        self._all: tuple[Sorted, Sorted] = self.shown
        self._at: dict[JobNumber, Entry] = {}
        self._seen = -1
        self._filter = Filter(())
        self._me = ""
        self._minute = 0

    def sync(self, mirror: Mirror, spec: QueueSpec, now: int) -> set[JobNumber]:
        """Take up what changed in the mirror, and what the person chose; returns the jobs that changed meanwhile, none
        where that is not known."""
        me = mirror.welcome.user if mirror.welcome else ""
        order_same = _orders_only(spec) == _orders_only(self.spec)
        changed = mirror.touched.since(self._seen) if order_same else None
        still_true = me == self._me and self._minute == (now // 60 if self._filter.timed else 0)
        before, self.spec, self._seen = self.spec.filter, spec, mirror.touched.end
        if refilter := not (still_true and spec.filter == before):
            self._me, self._filter = me, parse_filter(spec.filter, me, now)
            self._minute = now // 60 if self._filter.timed else 0
        if changed is None or len(changed) > MANY:
            self._sort_all(mirror)
            self._select(self._filter, self._all)
            return set()
        if refilter:
            rest = narrowing(before, spec.filter) if still_true else None
            if rest is None:
                self._select(self._filter, self._all)
            else:
                self._select(parse_filter(rest, me, now), self.shown)
        for number in self._with_elements(mirror, changed):
            self._move(mirror, number)
        return changed

    def place(self, number: object) -> int:
        """The row of a number; -1 when it is not shown."""
        entry: Entry | None = self._at.get(number)  # type: ignore[call-overload]
        at = -1 if entry is None else self.shown[entry.part].at(entry.key)
        if entry is None or at < 0:
            return -1
        if self.spec.reverse:
            at = len(self.shown[entry.part].entries) - 1 - at
        return at + (len(self.shown[0].entries) if entry.part else 0)

    def _orders(self) -> tuple[Callable[[Job], Key], Callable[[Job], Key]]:
        return order_of(self.spec.sort, False), order_of(self.spec.sort, True)

    def _listed(self, mirror: Mirror, job: Job) -> bool:
        if job.status.state.ended and not self.spec.ended:
            return False
        unfolded = self.spec.unfold or job.array_number in self.spec.unfolded
        return job.array_index is None or unfolded or job.array_number not in mirror.jobs

    def _place(self, mirror: Mirror, job: Job) -> tuple[int, Key]:
        """The part and the key of a job; elements of an array unfolded singly stand below it, by index."""
        array = mirror.jobs.get(job.array_number) if job.array_number in self.spec.unfolded else None
        if array is not None and job.array_index is not None and not self.spec.unfold:
            part, key = self._place(mirror, array)
            return part, (*key, job.array_index, job.number)
        part = int(job.status.state.ended)
        return part, self._orders()[part](job)

    def _sort_all(self, mirror: Mirror) -> None:
        parts: tuple[list[Entry], list[Entry]] = ([], [])
        known, self._at = self._at, {}
        for number, job in mirror.jobs.items():
            if self._listed(mirror, job):
                entry = known.get(number)
                if entry is None or entry.job is not job:
                    entry = Entry(job)
                entry.part, entry.key = self._place(mirror, job)
                self._at[number] = entry
                parts[entry.part].append(entry)
        for part in parts:
            part.sort(key=_key)
        self._all = (Sorted(parts[0]), Sorted(parts[1]))

    def _select(self, wanted: Filter, among: tuple[Sorted, Sorted]) -> None:
        self.shown = (
            among if wanted.empty else (Sorted(wanted.kept(among[0].entries)), Sorted(wanted.kept(among[1].entries)))
        )

    def _with_elements(self, mirror: Mirror, changed: set[JobNumber]) -> set[JobNumber]:
        """The elements that stand below an array move with it."""
        arrays = changed & self.spec.unfolded
        return changed.union(*(mirror.elements.get(number, ()) for number in arrays)) if arrays else changed

    def _move(self, mirror: Mirror, number: JobNumber) -> None:
        entry, job = self._at.get(number), mirror.jobs.get(number)
        place = self._place(mirror, job) if job is not None and self._listed(mirror, job) else None
        lists = [self._all] if self.shown is self._all else [self._all, self.shown]
        if entry is not None and place != (entry.part, entry.key):
            del self._at[number]
            for either in lists:
                either[entry.part].drop(entry.key)
            entry = None
        if job is None or place is None:
            return
        if entry is None:
            entry = self._at[number] = Entry(job)
            entry.part, entry.key = place
            self._all[entry.part].add(entry)
        else:
            entry.take(job)
        if self.shown is self._all:
            return
        part = self.shown[entry.part]
        was, now = part.at(entry.key) >= 0, self._filter.matches(entry)
        if now and not was:
            part.add(entry)
        elif was and not now:
            part.drop(entry.key)


def _orders_only(spec: QueueSpec) -> QueueSpec:
    return replace(spec, filter="", reverse=False, columns=())
