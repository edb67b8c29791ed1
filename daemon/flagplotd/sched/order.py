"""The order in which pending jobs are looked at: reservation, partition tier, priority, submission, number."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot_wire.job import Job
from flagplot_wire.node import Partition
from flagplotd.sched.plan import Policy
from flagplotd.sched.priority import Inputs, priorities

_ALONE = Inputs()


def positions(jobs: Sequence[Job], given: Inputs, policy: Policy, now: int) -> list[int]:
    """The positions of `jobs` in the order in which they are looked at."""
    import numpy as np

    ints, tiers = np.int64, given.tiers
    specs, statuses = [job.spec for job in jobs], [job.status for job in jobs]
    found: list[int] = np.lexsort(
        (
            np.array([job.number for job in jobs], ints),
            np.array([status.submit_time for status in statuses], ints),
            -np.array(priorities(jobs, given, policy, now), ints),
            -np.array([tiers.get(spec.partition, 1) for spec in specs], ints),
            np.array([not spec.reservation for spec in specs], np.bool_),
        )
    ).tolist()
    return found


def key(
    job: Job, partition: Partition | None, policy: Policy, now: int, given: Inputs = _ALONE
) -> tuple[bool, int, int, int, int]:
    """One job's sort key, which orders as `positions` does. Without `given`, age and nice alone make the priority."""
    tier = partition.priority_tier if partition else 1
    value = priorities((job,), given, policy, now)[0]
    return (not job.spec.reservation, -tier, -value, job.status.submit_time, job.number)
