"""Pending jobs as rows: what the order, the kernels and the forecasts need of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Reason

ROW = np.dtype(
    [(name, np.int64) for name in ("number", "submit", "eligible", "priority", "nice", "due", "stop")]
    + [(name, np.int32) for name in ("shape", "count", "chain", "partition", "qos", "whom", "reservation")]
    + [(name, np.int32) for name in ("idle", "still")],
)
"""A pending job: its number, times of submission and since when it is eligible, the priority that an operator set (0:
none), nice value; `due` is when it may start as far as a clock decides; `stop` are the limits that stop it, as bits
(`stopped.py`). `shape` to `reservation` are indices; `count` starts are allowed at once (more than 1 for arrays). `idle`: it
may not start whatever is free; `still`: for reasons that only an event takes away."""
NAMES = ("partition", "qos", "whom", "reservation")
"""Columns that index names; `whom` is `user@account`."""

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Waiting:
    """A job that may start: its record, shape, the starts allowed at once and its chain of limits."""

    job: Job
    shape: int
    count: int
    chain: int = 0


@dataclass(slots=True)
class Queue:
    """Rows with their jobs, as a sequence of `Waiting`. `why` are the reasons of those that are idle, `names` what the columns of `NAMES` index; `slots` are the
    places of a standing table that the rows were copied from. Never changed: all methods return others."""

    rows: Any
    jobs: Any
    why: Any
    names: dict[str, list[str]]
    slots: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Waiting]:
        columns = (self.rows[name].tolist() for name in ("shape", "count", "chain"))
        return (Waiting(*row) for row in zip(self.jobs, *columns, strict=True))

    def __getitem__(self, place: int) -> Waiting:
        row = self.rows[place]
        return Waiting(self.jobs[place], int(row["shape"]), int(row["count"]), int(row["chain"]))

    def take(self, places: Any) -> Queue:
        """The rows at these places, in this order (or those where a mask is set)."""
        places = np.asarray(places, None if len(places) else np.int64)
        # Of records numpy takes rows several times as quickly as it indexes them.
        rows = self.rows[places] if places.dtype == bool else np.take(self.rows, places)
        return replace(self, rows=rows, jobs=self.jobs[places], why=self.why[places], slots=self.slots[places])

    def also(self, row: tuple[Any, ...], job: Job, why: tuple[Reason, ...]) -> Queue:
        """With one more row, which no table has."""
        rows, objects = np.append(self.rows, np.array([row], ROW)), np.empty((2, 1), object)
        objects[0, 0], objects[1, 0] = job, why
        jobs, whys = np.concatenate([self.jobs, objects[0]]), np.concatenate([self.why, objects[1]])
        return replace(self, rows=rows, jobs=jobs, why=whys, slots=np.append(self.slots, -1))

    def place(self, number: int) -> int | None:
        """The place of a job."""
        found = np.flatnonzero(self.rows["number"] == number)
        return int(found[0]) if len(found) else None

    def without(self, started: dict[JobNumber, int]) -> Queue:
        """What is left when so many starts of jobs are made."""
        rows = self.rows.copy()
        for number, count in started.items():
            rows["count"][rows["number"] == number] -= count
        return replace(self, rows=rows).take(np.flatnonzero(rows["count"] > 0))

    def changed(self, place: int, column: str, value: int) -> Queue:
        """As this one, with one figure changed."""
        rows = self.rows.copy()
        rows[column][place] = value
        return replace(self, rows=rows)


def first_seen(column: Any, count: int) -> tuple[Ints, Any]:
    """The indices of a column below `count` in the order in which they first occur, and the column in their terms, so that
    the same rows give the same bytes whatever numbers their indices had."""
    rows = len(column)
    first = np.full(count, rows, np.int64)
    first[column[::-1]] = np.arange(rows - 1, -1, -1)
    used = np.flatnonzero(first < rows)
    order = used[np.argsort(first[used], kind="stable")]
    terms = np.zeros(count, np.int32)
    terms[order] = np.arange(len(order))
    return order, terms[column]
