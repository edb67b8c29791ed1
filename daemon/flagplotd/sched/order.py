"""The order in which pending jobs are looked at: others preempted for it, reservation, partition tier, priority, submission, number."""

from __future__ import annotations

from collections.abc import Sequence

from flagplot_wire.job import Job
from flagplotd.sched.plan import Policy
from flagplotd.sched.priority import Inputs, priorities


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
            np.array([job.number not in given.first for job in jobs], np.bool_),
        )
    ).tolist()
    return found
