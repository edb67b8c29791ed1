"""The standing table of pending jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Reason
from flagplotd.sched.queue import NAMES, ROW, Queue

Ints = NDArray[np.int64]
SAID = np.dtype([("start", np.int64)] + [(name, np.int32) for name in ("node", "words", "front", "many")])
"""What was last said of a job, as `forecasts.py` numbers it; `words` -1: nothing yet."""


class Table:
    """`ROW`s with their jobs and the reasons why they may not start whatever is free, in places that are not used again
    before the table is packed. The names of its columns are kept for good: there are few."""

    def __init__(self) -> None:
        self.rows: Any = np.zeros(64, ROW)
        self.said: Any = np.zeros(64, SAID)
        self.jobs: Any = np.empty(64, object)
        self.why: Any = np.empty(64, object)
        self.names: dict[str, list[str]] = {name: [""] for name in NAMES}
        self._numbers: dict[str, dict[str, int]] = {name: {"": 0} for name in NAMES}
        self._slots: dict[JobNumber, int] = {}
        self._end = 0

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, number: JobNumber) -> bool:
        return number in self._slots

    def job(self, number: JobNumber) -> Job | None:
        """A job as it stands in the table."""
        slot = self._slots.get(number)
        return None if slot is None else self.jobs[slot]

    def name(self, column: str, name: str) -> int:
        """The index of a name."""
        known = self._numbers[column]
        if name not in known:
            known[name] = len(known)
            self.names[column].append(name)
        return known[name]

    def named(self, column: str, names: Iterable[str]) -> list[JobNumber]:
        """The jobs whose column has one of these names."""
        known = self._numbers[column]
        wanted = [known[name] for name in names if name in known]
        rows = self.rows[: self._end]
        found: list[JobNumber] = rows["number"][np.isin(rows[column], wanted) & (rows["number"] > 0)].tolist()
        return found

    def put(self, lines: list[tuple[tuple[Any, ...], Job, tuple[Reason, ...]]]) -> None:
        """Rows with their jobs and reasons, new ones or in place of old ones, of which nothing is said yet."""
        if not lines:
            return
        self._room_for(len(lines))
        slots = []
        for _, job, _ in lines:
            slot = self._slots.get(job.number)
            if slot is None:
                slot = self._slots[job.number] = self._end
                self._end += 1
            slots.append(slot)
        self.rows[slots] = np.array([row for row, _, _ in lines], ROW)
        self.said["words"][slots] = -1
        for slot, (_, job, why) in zip(slots, lines, strict=True):
            self.jobs[slot], self.why[slot] = job, why

    def drop(self, number: JobNumber) -> None:
        """A job waits no more."""
        slot = self._slots.pop(number, None)
        if slot is not None:
            self.rows["number"][slot] = 0
            self.jobs[slot] = self.why[slot] = None

    def forget(self, numbers: Iterable[JobNumber] | None = None) -> None:
        """Nothing was said of these jobs, or of any."""
        if numbers is None:
            self.said["words"] = -1
        else:
            self.said["words"][[self._slots[number] for number in numbers if number in self._slots]] = -1

    def slots(self) -> Ints:
        """The places in use, in the order of numbers."""
        numbers = self.rows["number"][: self._end]
        used = np.flatnonzero(numbers)
        # Nearly in order already, which this sort makes use of.
        return used[np.argsort(numbers[used], kind="stable")]

    def queue(self) -> Queue:
        """All rows in the order of numbers, copied."""
        slots = self.slots()
        if len(slots) == self._end and (np.diff(slots) > 0).all():
            # Nothing is missing and all is in order: a plain copy takes a fraction of the time.
            some = slice(self._end)
            return Queue(self.rows[some].copy(), self.jobs[some].copy(), self.why[some].copy(), self.names, slots)
        return Queue(self.rows[slots], self.jobs[slots], self.why[slots], self.names, slots)

    def renumber(self, column: str, terms: Ints) -> None:
        """An index has become another one."""
        self.rows[column] = terms[self.rows[column]]

    def _room_for(self, more: int) -> None:
        if self._end + more <= len(self.rows):
            return
        slots = self.slots()
        size = max(2 * (len(slots) + more), 64)
        for name in ("rows", "said", "jobs", "why"):
            old = getattr(self, name)
            new = np.empty(size, object) if old.dtype == object else np.zeros(size, old.dtype)
            new[: len(slots)] = old[slots]
            setattr(self, name, new)
        self._slots = {number: slot for slot, number in enumerate(self.rows["number"][: len(slots)].tolist())}
        self._end = len(slots)
