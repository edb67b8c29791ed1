"""The queue's order and filter, kept up to date job by job: 1,000 changes cost what 1,000 jobs cost. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, overload

from flagplot.client.mirror import Mirror
from flagplot.view.filters import Filter, narrowing, parse_filter, searched_text
from flagplot.view.queue import QueueSpec, order_of
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job

MANY = 2_000
"""Changes at once beyond which sorting anew is quicker than moving one by one."""
Key = tuple[Any, ...]


class Sorted:
    """Numbers by key; every key ends with the number, so that no two are equal."""

    __slots__ = ("keys", "numbers")

    def __init__(self, pairs: Iterable[tuple[Key, JobNumber]] = ()) -> None:
        ordered = sorted(pairs)
        self.keys: list[Key] = [key for key, _ in ordered]
        self.numbers: list[JobNumber] = [number for _, number in ordered]

    def add(self, key: Key, number: JobNumber) -> None:
        """Put a number in its place."""
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.numbers.insert(at, number)

    def drop(self, key: Key) -> None:
        """Take a number out."""
        at = self.at(key)
        if at >= 0:
            del self.keys[at], self.numbers[at]

    def at(self, key: Key) -> int:
        """The place of a key; -1 when it is not there."""
        at = bisect_left(self.keys, key)
        return at if at < len(self.keys) and self.keys[at] == key else -1


class Rows(Sequence[JobNumber]):
    """Live jobs, then ended ones, each part turned round where asked; a window on the listing, without a copy."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._listing.shown)

    @overload
    def __getitem__(self, index: int) -> JobNumber: ...
    @overload
    def __getitem__(self, index: slice) -> list[JobNumber]: ...
    def __getitem__(self, index: int | slice) -> JobNumber | list[JobNumber]:
        if isinstance(index, slice):
            return list(self)[index]
        left = index if index >= 0 else index + len(self)
        for part in self._listing.shown:
            if 0 <= left < len(part.numbers):
                return part.numbers[-1 - left if self._listing.spec.reverse else left]
            left -= len(part.numbers)
        raise IndexError(index)

    def __iter__(self) -> Iterator[JobNumber]:
        for part in self._listing.shown:
            yield from reversed(part.numbers) if self._listing.spec.reverse else part.numbers

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
        self.shown: tuple[Sorted, Sorted] = (Sorted(), Sorted())
        self._all: tuple[Sorted, Sorted] = self.shown
        self._at: dict[JobNumber, tuple[int, Key]] = {}
        self._seen = -1
        self._filter = Filter(())
        self._me = ""
        self._minute = 0
        self._text: dict[JobNumber, str] = {}

    def sync(self, mirror: Mirror, spec: QueueSpec, now: int) -> set[JobNumber]:
        """Take up what changed in the mirror, and what the person chose; returns the jobs that changed meanwhile, none
        where that is not known."""
        me = mirror.welcome.user if mirror.welcome else ""
        order_same = _orders_only(spec) == _orders_only(self.spec)
        touched = mirror.touched.since(self._seen)
        changed = touched if order_same else None
        minute = now // 60 if self._filter.timed else 0
        filter_same = spec.filter == self.spec.filter and me == self._me and minute == self._minute
        rest = narrowing(self.spec.filter, spec.filter) if me == self._me else None
        narrowed = parse_filter(rest, me, now) if rest is not None else None
        self.spec, self._seen = spec, mirror.touched.end
        if not filter_same:
            self._me, self._filter = me, parse_filter(spec.filter, me, now)
            self._minute = now // 60 if self._filter.timed else 0
        if changed is None or len(changed) > MANY:
            self._sort_all(mirror, known=touched == set())
            self._select_all(mirror)
            return set()
        for number in self._with_elements(mirror, changed):
            self._move(mirror, number)
        if not filter_same:
            self._select_all(mirror, narrowed)
        return changed

    def place(self, number: object) -> int:
        """The row of a number; -1 when it is not shown."""
        known = self._at.get(number)  # type: ignore[call-overload]
        if known is None:
            return -1
        part, key = known
        at: int = self.shown[part].at(key)
        if at < 0:
            return -1
        if self.spec.reverse:
            at = len(self.shown[part].numbers) - 1 - at
        return at + (len(self.shown[0].numbers) if part else 0)

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

    def _sort_all(self, mirror: Mirror, known: bool) -> None:
        pairs: tuple[list[tuple[Key, JobNumber]], list[tuple[Key, JobNumber]]] = ([], [])
        self._at.clear()
        texts, self._text = self._text if known else {}, {}
        for job in mirror.jobs.values():
            if self._listed(mirror, job):
                part, key = self._at[job.number] = self._place(mirror, job)
                self._text[job.number] = texts.get(job.number) or searched_text(job)
                pairs[part].append((key, job.number))
        self._all = (Sorted(pairs[0]), Sorted(pairs[1]))

    def _select_all(self, mirror: Mirror, narrowed: Filter | None = None) -> None:
        if self._filter.empty:
            self.shown = self._all
            return
        jobs, texts = mirror.jobs, self._text
        wanted = narrowed or self._filter
        first, second = self._all if narrowed is None else self.shown
        self.shown = (_kept(first, wanted, jobs, texts), _kept(second, wanted, jobs, texts))

    def _with_elements(self, mirror: Mirror, changed: set[JobNumber]) -> set[JobNumber]:
        """The elements that stand below an array move with it."""
        arrays = changed & self.spec.unfolded
        return changed.union(*(mirror.elements.get(number, ()) for number in arrays)) if arrays else changed

    def _move(self, mirror: Mirror, number: JobNumber) -> None:
        before = self._at.pop(number, None)
        self._text.pop(number, None)
        if before is not None:
            part, key = before
            self._all[part].drop(key)
            if self.shown is not self._all:
                self.shown[part].drop(key)
        job = mirror.jobs.get(number)
        if job is None or not self._listed(mirror, job):
            return
        part, key = self._at[number] = self._place(mirror, job)
        self._text[number] = searched_text(job)
        self._all[part].add(key, number)
        if self.shown is not self._all and self._filter.matches(job, self._text[number]):
            self.shown[part].add(key, number)


def _orders_only(spec: QueueSpec) -> QueueSpec:
    return replace(spec, filter="", reverse=False, columns=())


def _kept(whole: Sorted, wanted: Filter, jobs: dict[JobNumber, Job], texts: dict[JobNumber, str]) -> Sorted:
    """What passes a filter, in a list of its own. Flags and `compress`, for pairs of 100,000 cost most of a keystroke."""
    keys, numbers = whole.keys, whole.numbers
    for word in wanted.words:
        flags = [word in text for text in map(texts.__getitem__, numbers)]
        keys, numbers = list(compress(keys, flags)), list(compress(numbers, flags))
    for test in wanted.tests:
        flags = [test(jobs[number], texts[number]) for number in numbers]
        keys, numbers = list(compress(keys, flags)), list(compress(numbers, flags))
    part = Sorted()
    part.keys, part.numbers = list(keys), list(numbers)
    return part
