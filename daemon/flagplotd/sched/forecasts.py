"""From a plan's figures to what people are told of each pending job: all that is in its way, and when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Reason, Why
from flagplot_wire.text import counted
from flagplotd.core.sharing import RESOURCES as COUNTERS
from flagplotd.core.sharing import reason_of

if TYPE_CHECKING:
    from flagplotd.sched.snapshot import Snapshot, Waiting

MANY = 1_000
"""Jobs in front beyond which they are not counted any more."""
_IN_USE = Reason(Why.RESOURCES, "what it asks for is in use")
_DOWN = Reason(Why.NODES_DOWN, "the nodes that could run it are down or drained")
_SCATTERED = Reason(Why.RESOURCES, "the nodes that are free do not hang together as it asks")
_COUNTED = Reason(Why.RESOURCES, "too few of the nodes that are free are those that its constraint counts")
_DELAYS = Reason(Why.PRIORITY, "it would delay a job in front of it")
NEVER = "no node known now can ever hold it"


def forecasts_of(snapshot: Snapshot, answers: Any, used: list[list[int]]) -> list[Forecast]:
    """A forecast for every waiting job that did not start whole; `answers` are the cycle's, in the jobs' order;
    `used` is what of each limit is used with the starts of this plan."""
    found: list[Forecast] = []
    front: dict[str, list[JobNumber]] = {}
    words = _Words(snapshot, used)
    columns = zip(*(answers[name].tolist() for name in ("started", "start", "node", "bits", "scope")), strict=True)
    for waiting, (started, start, node, bits, scope) in zip(snapshot.waiting, columns, strict=True):
        if started >= waiting.count:
            continue
        job = waiting.job
        ahead = front.setdefault(job.spec.partition, [])
        reasons = list(words.of(waiting, bits, scope))
        if ahead:
            reasons.append(words.behind(job.spec.partition, ahead))
        ahead.append(job.number)
        where = (snapshot.nodes[node].name,) if start else ()
        never = NEVER if bits & words.impossible else ""
        found.append(Forecast(job.number, tuple(reasons) or (_DELAYS,), start or None, where, never))
    return found


class _Words:
    """Reasons, each made once."""

    def __init__(self, snapshot: Snapshot, used: list[list[int]]) -> None:
        from flagplotd.sched.kernel import layout

        self._snapshot, self._used, self._at = snapshot, used, layout
        self.impossible = layout.IMPOSSIBLE
        self._known: dict[tuple[int, int, int, str], tuple[Reason, ...]] = {}
        self._behind: dict[tuple[str, int], Reason] = {}

    def of(self, waiting: Waiting, bits: int, scope: int) -> tuple[Reason, ...]:
        """All that a job meets, but for those in front of it."""
        key = (waiting.shape, bits, scope, waiting.job.spec.reservation)
        if key not in self._known:
            self._known[key] = tuple(self._reasons(waiting, bits, scope))
        return self._known[key]

    def _reasons(self, waiting: Waiting, bits: int, scope: int) -> Iterator[Reason]:
        at, snapshot = self._at, self._snapshot
        if bits & at.IMPOSSIBLE:
            yield Reason(Why.RESOURCES, NEVER)
        if bits & at.DOWN:
            yield _DOWN
        if bits & at.LIMIT and scope >= 0:
            row, place = divmod(scope, len(COUNTERS))
            limit = snapshot.limits[row]
            yield reason_of(limit.words, limit.key, place, self._used[row], limit.most[place])
        if bits & at.LICENSE:
            yield self._licenses(waiting)
        if bits & at.TIMES:
            yield Reason(Why.RESERVATION, f"reservation {waiting.job.spec.reservation} has not begun")
        if bits & at.RESERVED:
            yield Reason(Why.RESERVED, f"it would run into a reservation: {self._reservations(waiting)}")
        if bits & at.SWITCHES:
            yield _SCATTERED
        if bits & at.COUNTS:
            yield _COUNTED
        if bits & at.RESOURCES:
            yield _IN_USE

    def _licenses(self, waiting: Waiting) -> Reason:
        have, asked = self._snapshot.licenses, self._snapshot.shapes[waiting.shape].licenses
        short = [name for name, count in asked if have.get(name, 0) < count] or [name for name, _ in asked]
        text = ", ".join(f"{name} ({max(have.get(name, 0), 0)} free)" for name in short)
        return Reason(Why.LICENSES, f"licenses are in use: {text}")

    def _reservations(self, waiting: Waiting) -> str:
        now, own = self._snapshot.now, waiting.job.spec.reservation
        until = now + self._snapshot.shapes[waiting.shape].limit
        return ", ".join(
            sorted(
                name for name, start, end in self._snapshot.reservations if name != own and start < until and end > now
            )
        )

    def behind(self, partition: str, ahead: list[JobNumber]) -> Reason:
        """How many of its partition are in front of a job, and the first of them."""
        count = min(len(ahead), MANY + 1)
        key = (partition, count)
        if key not in self._behind:
            many = f"more than {MANY} jobs" if count > MANY else counted(count, "job")
            text = f"{many} {'is' if count == 1 else 'are'} in front of it"
            self._behind[key] = Reason(Why.PRIORITY, text, tuple(ahead[:10]))
        return self._behind[key]
