"""The order in which pending jobs are looked at (Slurm's multifactor plugin, integers)."""

from __future__ import annotations

from flagplot_wire.job import Job
from flagplot_wire.node import Partition
from flagplotd.sched.plan import Policy


def priority(job: Job, partition: Partition | None, policy: Policy, now: int) -> int:
    """A job's priority: what an operator set, else age, size, partition tier and nice by their weights."""
    if job.status.priority > 0:
        return job.status.priority
    age = min(max(now - (job.status.eligible_time or now), 0), policy.age_max_s)
    tier = partition.priority_tier if partition else 1
    value = policy.weight_age * age // max(policy.age_max_s, 1)
    value += policy.weight_partition * tier
    value += policy.weight_size * job.spec.request.nodes_min
    return value - job.spec.nice


def key(job: Job, partition: Partition | None, policy: Policy, now: int) -> tuple[int, int, int, int]:
    """Sort key: partition tier, priority, submit time, number."""
    tier = partition.priority_tier if partition else 1
    return (-tier, -priority(job, partition, policy, now), job.status.submit_time, job.number)
