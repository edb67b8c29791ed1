"""What a cycle promised, for the next one: the planned starts of jobs and what they take of which nodes.

Conservative backfill keeps its promises (Mu'alem and Feitelson, 2001): a job gets a start when it is first looked at. When
something ends early each job in order gets an earlier one if there is one, else it keeps its own. A promised start gets
later only through

- a job that holds what it has for longer than planned: beyond its time limit, or without one beyond `default_time_s`;
- a node or GPU that goes down, is drained or changes;
- people: a change of the job itself, which is planned anew, of the limit of a running one, of reservations, licenses,
  partitions or the configuration;
- an urgent job: one whose priority an operator set or for which others were preempted gets its start as if nobody behind it
  had been promised any. Jobs that get in front by age, fair share, QoS or tier do not;
- a limit of a user, account or QoS that the job is over when it is looked at: limits are not planned in time;
- CPUs beside its GPUs where it insists on them (`near_gpus`): only when a job starts is it known which are free;
- a restart: promises are not journalled.

Then it is planned anew in its turn, around what is promised to those in front of it. An array's promise is that of its
next element. EASY backfill plans its first K anew in each cycle; there a promise only decides between places at the same
moment, and when its time has come a job starts in that place: so a planned start gets later only through a job in front of
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import JobSpec
from flagplotd.sched.kernel import layout as at

if TYPE_CHECKING:
    from flagplotd.sched.queue import Waiting
    from flagplotd.sched.snapshot import Snapshot

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Promises:
    """Planned starts. By job, whose place `places` tells: `specs`, `times` (epoch seconds) and, from `first` on, `parts`
    rows of `rows` (the place in `nodes`) and `gpus` (shards of each GPU)."""

    places: dict[JobNumber, int] = field(default_factory=dict)
    specs: tuple[JobSpec, ...] = ()
    times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    parts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    gpus: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 1), np.int32))
    nodes: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Promises) and all(
            bool(np.array_equal(mine, theirs)) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        )

    __hash__ = None  # type: ignore[assignment]

    def of(self, number: JobNumber) -> tuple[int, list[tuple[str, list[int]]]] | None:
        """(moment, by node the shards of each GPU) of one job; None: nothing is promised to it."""
        place = self.places.get(number)
        if place is None:
            return None
        parts = range(self.first[place], self.first[place] + self.parts[place])
        return int(self.times[place]), [(self.nodes[self.rows[part]], self.gpus[part].tolist()) for part in parts]


@dataclass(slots=True)
class Memory:
    """The promises of the last cycle. They are not journalled: after a restart all is planned anew."""

    promises: Promises = field(default_factory=Promises)


def same_request(one: JobSpec, other: JobSpec) -> bool:
    """Whether what was promised to a job still is what it asks for."""
    return one is other or (
        (one.request, one.partition, one.reservation) == (other.request, other.partition, other.reservation)
    )


def urgent(rows: Any, first: Iterable[int]) -> Any:
    """Which rows of a queue go before what is promised behind them: an operator set the priority, or room is made for it."""
    return (rows["priority"] > 0) | np.isin(rows["number"], np.array(list(first), np.int64))


def recalled(snapshot: Snapshot, promises: Promises, jobs: Any, room: int) -> tuple[Any, Any, Any]:
    """The kernel's `held` with room for `room` new ones, `kept` and `kept_gpu`. Fills `held` of `jobs`, which stand for
    the waiting ones. Forgotten are promises on nodes that are not there any more and those of jobs that changed."""
    width = snapshot.g_of.shape[1]
    now_at = {node.name: row for row, node in enumerate(snapshot.nodes)}
    new_rows = np.array([now_at.get(name, -1) for name in promises.nodes] or [-1], np.int64)
    kept = new_rows[promises.rows] if len(promises.rows) else np.zeros(0, np.int64)
    kept_gpu = np.zeros((len(kept), width), np.int32)
    lost = np.zeros(len(kept), np.bool_)
    if len(kept):
        same = min(width, promises.gpus.shape[1])
        kept_gpu[:, :same] = promises.gpus[:, :same]
        lost = (kept < 0) | promises.gpus[:, same:].any(axis=1)
    held = np.zeros(len(promises.places) + room, at.HELD)
    count = 0
    promised = np.isin(snapshot.waiting.rows["number"], np.array(list(promises.places), np.int64))
    for job in np.flatnonzero(promised).tolist():
        place = _place(snapshot, promises, snapshot.waiting[job])
        if place < 0 or lost[promises.first[place] : promises.first[place] + promises.parts[place]].any():
            continue
        one = held[count]
        one["time"], one["parts"], one["kept"], one["first"] = (
            promises.times[place], promises.parts[place], promises.first[place], -1,
        )  # fmt: skip
        jobs["held"][job] = count
        count += 1
    return held[: count + room], kept, kept_gpu


def _place(snapshot: Snapshot, promises: Promises, row: Waiting) -> int:
    place = promises.places.get(row.job.number, -1)
    if place < 0 or not same_request(promises.specs[place], row.job.spec):
        return -1
    shape = snapshot.shapes[row.shape]
    return place if shape.least <= promises.parts[place] <= shape.most else -1


def made(snapshot: Snapshot, jobs: Any, held: Any, events: Any, e_gpu: Any) -> Promises:
    """What the kernel leaves promised."""
    rows = np.flatnonzero(jobs["held"] >= 0)
    rows = rows[held["linked"][jobs["held"][rows]] > 0]
    mine = held[jobs["held"][rows]]
    parts = mine["parts"].astype(np.int64)
    first = np.cumsum(parts) - parts
    which = np.repeat(mine["first"] - 2 * first, parts) + 2 * np.arange(parts.sum())
    waiting = [snapshot.waiting[row] for row in rows.tolist()]
    return Promises(
        {one.job.number: place for place, one in enumerate(waiting)},
        tuple(one.job.spec for one in waiting),
        mine["time"].copy(), first, parts, events["row"][which], -e_gpu[which][:, : snapshot.g_of.shape[1]],
        tuple(node.name for node in snapshot.nodes),
    )  # fmt: skip
