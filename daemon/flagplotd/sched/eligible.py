"""Which pending jobs may start at all now, and why the others may not."""

from __future__ import annotations

import msgspec

from flagplot_wire.indices import count_indices
from flagplot_wire.job import Forecast, Job, Reason, Why
from flagplotd.core import dependency
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import State


def eligible(state: State, now: int, sharing: Sharing) -> tuple[list[Job], list[Forecast]]:
    """The jobs to plan, and forecasts of those that may not start whatever is free."""
    jobs: list[Job] = []
    idle: list[Forecast] = []
    for number in state.pending:
        job = state.jobs[number]
        if job.is_array and not job.status.waiting:
            continue
        reasons = not_eligible(state, job, now) + sharing.stopped(job)
        if not reasons:
            jobs.append(job)
        else:
            start = max(job.spec.begin, job.status.retry_at)
            only_time = all(reason.why in (Why.BEGIN_TIME, Why.REQUEUE_DELAY) for reason in reasons)
            idle.append(Forecast(number, tuple(reasons), start if only_time else None))
    return jobs, idle


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
