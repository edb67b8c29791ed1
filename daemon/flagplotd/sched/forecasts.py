"""From a plan's figures to what people are told of each pending job: all that is in its way, and when it starts.

What is said of a job is figures first (`table.SAID`); only where these are others than the last time is it put in words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Reason, Why
from flagplot_wire.text import counted
from flagplotd.core.sharing import RESOURCES as COUNTERS
from flagplotd.core.sharing import over_limits, reason_of
from flagplotd.sched.eligible import TIME

if TYPE_CHECKING:
    from flagplotd.sched.queue import Queue, Waiting
    from flagplotd.sched.shapes import Shape
    from flagplotd.sched.snapshot import Snapshot
    from flagplotd.sched.table import Table

MANY = 1_000
"""Jobs in front beyond which they are neither counted nor named any more."""
NAMED = 10
MOST_KNOWN = 100_000
"""Sentences kept from cycle to cycle."""
_IN_USE = Reason(Why.RESOURCES, "what it asks for is in use")
_DOWN = Reason(Why.NODES_DOWN, "the nodes that could run it are down or drained")
_SCATTERED = Reason(Why.RESOURCES, "the nodes that are free do not hang together as it asks")
_COUNTED = Reason(Why.RESOURCES, "too few of the nodes that are free are those that its constraint counts")
_DELAYS = Reason(Why.PRIORITY, "it would delay a job in front of it")
NEVER = "no node known now can ever hold it"
Reasons = tuple[Reason, ...]


class Known:
    """Reasons and lists of jobs in front as numbers, the same ones from cycle to cycle while `table` remembers what was
    said in them. Without one all is said, or what is to be said of one job `only`."""

    def __init__(self, table: Table | None = None, only: JobNumber | None = None) -> None:
        self.table, self._only = table, only
        self._numbers: dict[Reasons | tuple[JobNumber, ...], int] = {(): 0}
        self.all: list[Any] = [()]

    def number(self, what: Reasons | tuple[JobNumber, ...]) -> int:
        """The number of some reasons or jobs."""
        found = self._numbers.setdefault(what, len(self.all))
        if found == len(self.all):
            self.all.append(what)
        return found

    def tidy(self) -> None:
        """Forget all where it has become much: everything is said again then."""
        if len(self.all) > MOST_KNOWN:
            self._numbers, self.all = {(): 0}, [()]
            if self.table is not None:
                self.table.forget()

    def forget(self, numbers: Iterable[JobNumber]) -> None:
        """Nothing was said of these jobs."""
        if self.table is not None:
            self.table.forget(numbers)

    def anew(self, queue: Queue, said: Any) -> Any:
        """A mask of what is said of these rows for the first time; it counts as said then."""
        import numpy as np

        if self.table is None:
            return np.ones(len(queue), np.bool_) if self._only is None else queue.rows["number"] == self._only
        changed = self.table.said[queue.slots] != said
        self.table.said[queue.slots] = said
        return changed


def of_idle(snapshot: Snapshot, known: Known) -> list[Forecast]:
    """What is said of the jobs that may not start whatever is free."""
    import numpy as np

    from flagplotd.sched.stopped import IMPOSSIBLE, LONG, PLACES
    from flagplotd.sched.table import SAID

    queue, rows = snapshot.idle, snapshot.idle.rows
    said = np.zeros(len(rows), SAID)
    said["node"] = said["front"] = -1
    limited = np.flatnonzero(rows["stop"])
    alone = LONG | sum(IMPOSSIBLE << PLACES * place for place in range(8))
    some = rows[limited]
    for places, first in _alike(
        some["stop"], some["chain"].astype(np.int64), np.where(some["stop"] & alone, some["shape"].astype(np.int64), -1)
    ):
        links = (snapshot.limits[limit] for limit in snapshot.chains[some["chain"][first]])
        chain = ((one.words, one.key, one.limits, one.used) for one in links)
        reasons = tuple(over_limits(chain, snapshot.requests[some["shape"][first]]))
        said["words"][limited[places]] = known.number(reasons)
    found = []
    for place in np.flatnonzero(known.anew(queue, said)).tolist():
        reasons = (*queue.why[place], *known.all[said["words"][place]])
        passes = all(reason.why in TIME for reason in reasons)
        found.append(Forecast(queue.jobs[place].number, reasons, int(rows["due"][place]) if passes else None))
    return found


def of_waiting(snapshot: Snapshot, answers: Any, used: list[list[int]], known: Known) -> list[Forecast]:
    """What is said of the jobs that did not start whole; `answers` are the cycle's, in the jobs' order; `used` is what of
    each limit is used with the starts of this plan."""
    import numpy as np

    from flagplotd.sched.table import SAID

    left = np.flatnonzero(answers["started"] < snapshot.waiting.rows["count"])
    queue, answers = snapshot.waiting.take(left), answers[left]
    said = np.zeros(len(left), SAID)
    said["start"], said["node"] = answers["start"], np.where(answers["start"] > 0, answers["node"], -1)
    words = _Words(snapshot, queue, used)
    said["words"] = words.numbers(answers, known)
    said["many"], said["front"] = _in_front(queue, known)
    changed = known.anew(queue, said) | (answers["started"] > 0)
    impossible = answers["bits"] & words.at.IMPOSSIBLE
    found = []
    for place in np.flatnonzero(changed).tolist():
        one = said[place]
        reasons = known.all[one["words"]]
        if one["many"]:
            reasons = (*reasons, words.behind(int(one["many"]), known.all[one["front"]]))
        start = int(one["start"]) or None
        where = (snapshot.nodes[one["node"]].name,) if start else ()
        never = NEVER if impossible[place] else ""
        found.append(Forecast(queue.jobs[place].number, reasons or (_DELAYS,), start, where, never))
    return found


def _in_front(queue: Queue, known: Known) -> tuple[Any, Any]:
    """How many jobs of its partition are in front of each row, and the number of the list of the first of them."""
    import numpy as np

    many, front = np.zeros(len(queue), np.int64), np.zeros(len(queue), np.int64)
    partition = queue.rows["partition"].astype(np.int16)
    order = np.argsort(partition, kind="stable")
    bounds = np.searchsorted(partition[order], np.arange(len(queue.names["partition"]) + 1))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[first:end]
        many[mine] = np.minimum(np.arange(len(mine)), MANY + 1)
        front[mine[: MANY + 1]] = known.number(tuple(queue.rows["number"][mine[:NAMED]].tolist()))
    return many, front


def _alike(*columns: Any) -> Iterator[tuple[Any, int]]:
    """The places of rows that are alike in all columns of integers from -1 on, and one of them."""
    import numpy as np

    if not len(columns[0]):
        return
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        key = key * (int(inverse.max()) + 1) + inverse
    order = np.argsort(key, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        yield places, int(places[0])


class _Words:
    """Reasons, each made once in a cycle."""

    def __init__(self, snapshot: Snapshot, queue: Queue, used: list[list[int]]) -> None:
        from flagplotd.sched.kernel import layout

        self._snapshot, self._queue, self._used, self.at = snapshot, queue, used, layout
        self._behind: dict[tuple[int, tuple[JobNumber, ...]], Reason] = {}
        self._reserved: dict[int, set[int]] = defaultdict(set)
        """By reservation the rows of the nodes and licenses of which it takes something."""
        for hold in snapshot.holds:
            self._reserved[hold.res].add(hold.row)

    def numbers(self, answers: Any, known: Known) -> Any:
        """By row the number of all that a job meets, but for those in front of it."""
        import numpy as np

        at, rows = self.at, self._queue.rows
        bits = answers["bits"].astype(np.int64)
        # What most wait for is said in the same words of all shapes.
        own = bits & (at.LICENSE | at.RESERVED | at.TIMES | at.LIMIT) != 0
        found = np.zeros(len(rows), np.int64)
        for one in np.unique(bits[~own]).tolist():
            found[~own & (bits == one)] = known.number(tuple(self._reasons(None, one, -1)))
        some = np.flatnonzero(own)
        shape = np.where(bits[some] & (at.LICENSE | at.RESERVED), rows["shape"][some], -1)
        scope = np.where(bits[some] & at.LIMIT, answers["scope"][some], -1)
        for places, first in _alike(bits[some], shape, scope, rows["reservation"][some]):
            waiting, limit = self._queue[int(some[first])], int(scope[first])
            found[some[places]] = known.number(tuple(self._reasons(waiting, int(bits[some[first]]), limit)))
        return found

    def _reasons(self, waiting: Waiting | None, bits: int, scope: int) -> Iterator[Reason]:
        at, snapshot = self.at, self._snapshot
        if bits & at.IMPOSSIBLE:
            yield Reason(Why.RESOURCES, NEVER)
        if bits & at.DOWN:
            yield _DOWN
        if bits & at.LIMIT and scope >= 0:
            row, place = divmod(scope, len(COUNTERS))
            limit = snapshot.limits[row]
            yield reason_of(limit.words, limit.key, place, self._used[row], limit.most[place])
        if waiting is not None:
            yield from self._own(waiting, bits)
        if bits & at.SWITCHES:
            yield _SCATTERED
        if bits & at.COUNTS:
            yield _COUNTED
        if bits & at.RESOURCES:
            yield _IN_USE

    def _own(self, waiting: Waiting, bits: int) -> Iterator[Reason]:
        """What is said in other words of other shapes."""
        at = self.at
        if bits & at.LICENSE:
            yield self._licenses(waiting)
        if bits & at.TIMES:
            yield Reason(Why.RESERVATION, f"reservation {waiting.job.spec.reservation} has not begun")
        if bits & at.RESERVED:
            yield Reason(Why.RESERVED, f"it would run into a reservation: {self._reservations(waiting)}")

    def _licenses(self, waiting: Waiting) -> Reason:
        have, asked = self._snapshot.licenses, self._shape(waiting).licenses
        short = [name for name, count in asked if have.get(name, 0) < count] or [name for name, _ in asked]
        text = ", ".join(f"{name} ({max(have.get(name, 0), 0)} free)" for name in short)
        return Reason(Why.LICENSES, f"licenses are in use: {text}")

    def _reservations(self, waiting: Waiting) -> str:
        """Those to come within the job's time that take something of its nodes or licenses."""
        now, own, licensed = self._snapshot.now, waiting.job.spec.reservation, bool(self._shape(waiting).licenses)
        until, usable = now + self._shape(waiting).limit, self._usable(waiting)
        return ", ".join(
            sorted(
                name
                for number, (name, start, end) in enumerate(self._snapshot.reservations)
                if name != own and start < until and end > now
                if any(usable[row] if row < len(usable) else licensed for row in self._reserved[number])
            )
        )

    def _shape(self, waiting: Waiting) -> Shape:
        return self._snapshot.shapes[waiting.shape]

    def _usable(self, waiting: Waiting) -> Any:
        """By node whether some choice of the job has it."""
        snapshot, first = self._snapshot, int(self._snapshot.s_mask[waiting.shape])
        record = snapshot.records[waiting.shape]
        step = 1 + int(record["groups"])
        choices = snapshot.allowed[first : first + (int(record["others"]) + 1) * step : step]
        return choices.any(axis=0)

    def behind(self, many: int, front: tuple[JobNumber, ...]) -> Reason:
        """How many of its partition are in front of a job, and the first of them."""
        found = self._behind.get((many, front))
        if found is None:
            words = f"more than {MANY} jobs" if many > MANY else counted(many, "job")
            text = f"{words} {'is' if many == 1 else 'are'} in front of it"
            found = self._behind[many, front] = Reason(Why.PRIORITY, text, front[:many])
        return found
