"""Which pending jobs may start at all now, and why the others may not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, Reason, Why
from flagplotd.core import dependency
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import State

STILL = frozenset(
    {
        Why.HELD_USER,
        Why.HELD_ADMIN,
        Why.DEPENDENCY,
        Why.DEPENDENCY_NEVER,
        Why.ARRAY_LIMIT,
        Why.PARTITION_DOWN,
    }
)
"""Reasons that only an event takes away. Jobs that wait for these alone need no cycle until something happens."""
TIME = frozenset({Why.BEGIN_TIME, Why.REQUEUE_DELAY})
"""Reasons that pass at a moment known beforehand."""


def still(reasons: Iterable[Reason]) -> bool:
    """Whether time alone changes nothing."""
    return all(reason.why in STILL for reason in reasons)


def again_at(state: State, job: Job, now: int, reasons: Iterable[Reason]) -> int:
    """The first moment after `now` at which time alone may change what is said of a job here (0: none)."""
    request, times = job.spec.request, [job.spec.begin, job.status.retry_at]
    if request.switches and request.switches_wait_s:
        times.append(job.status.eligible_time + request.switches_wait_s)
    reservation = state.reservations.get(job.spec.reservation)
    if reservation is not None and job.time_limit_s:
        times.append(reservation.end - job.time_limit_s + 1)
    if any(reason.why is Why.DEPENDENCY for reason in reasons) and job.spec.dependency is not None:
        # How long after a start one waits is looked at again and again: nobody tells when that is over.
        times += [now + 1 for term in job.spec.dependency.terms if term.kind == "after"]
    return min((time for time in times if time > now), default=0)


def not_eligible(state: State, job: Job, now: int) -> list[Reason]:
    """All reasons, apart from resources and priority, why a pending job may not start now."""
    reasons: list[Reason] = []
    if job.spec.hold:
        by_admin = job.spec.hold == "admin"
        text = job.status.message if by_admin and job.status.message else "held until it is released"
        reasons.append(Reason(Why.HELD_ADMIN if by_admin else Why.HELD_USER, text))
    if job.status.staging:
        reasons.append(Reason(Why.STAGE_IN, f"its files are not here yet (flagplot stage {job.number} sends them)"))
    if job.spec.begin > now:
        reasons.append(Reason(Why.BEGIN_TIME, "its begin time has not come"))
    if job.status.retry_at > now:
        reasons.append(Reason(Why.REQUEUE_DELAY, job.status.message))
    verdict, jobs = dependency.check(state, job, now)
    if verdict == "wait":
        reasons.append(Reason(Why.DEPENDENCY, "waits for other jobs", jobs[:10]))
    elif verdict == "never":
        reasons.append(Reason(Why.DEPENDENCY_NEVER, "a job it depends on did not end as wanted", jobs[:10]))
    array = state.jobs.get(job.array_number) if job.array_index is not None else job
    if array is not None and array.spec.array is not None and array.spec.array.limit:
        limit = array.spec.array.limit
        if array.status.elements_running >= limit:
            reasons.append(Reason(Why.ARRAY_LIMIT, f"{limit} elements of the array run, its limit"))
    partition = state.partitions.get(job.spec.partition)
    if partition is not None and not partition.up:
        reasons.append(Reason(Why.PARTITION_DOWN, f"partition {partition.name} is down"))
    return reasons


def in_its_room(job: Job) -> Job:
    """A job that others are preempted for, kept to the nodes that they leave: so it takes no room made for another."""
    if not job.status.room:
        return job
    request = msgspec.structs.replace(job.spec.request, nodelist=job.status.room)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, request=request))


def why_waiting(state: State, job: Job, now: int) -> list[Reason]:
    """As `not_eligible`, with limits and a reservation that is over."""
    return not_eligible(state, job, now) + Sharing(state, now).stopped(job)


def starts_allowed(job: Job) -> int:
    """Starts of a job's record allowed at once: more than one for arrays."""
    if job.spec.array is None:
        return 1
    left = count_indices(job.status.waiting)
    limit = job.spec.array.limit
    return min(left, limit - job.status.elements_running) if limit else left
