"""Follows a plan with the oracle: every start, promise and refusal of it."""

from __future__ import annotations

from support.plan_oracle import Oracle

from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job
from flagplotd.core.state import State
from flagplotd.sched.plan import Plan, Policy, plan
from flagplotd.sched.snapshot import Snapshot, take

PLAIN = Policy(weight_age=0, weight_fairshare=0, weight_partition=0, weight_qos=0)
"""Priorities are what an operator set, less nice."""


def planned(state: State, now: int, policy: Policy) -> Plan:
    """A plan from nothing, checked in full."""
    snapshot = take(state, now, policy.default_time_s)
    made = plan(snapshot, policy)
    follow(state, snapshot, policy, made)
    return made


def in_order(state: State, jobs: list[Job]) -> list[Job]:
    """The order of `PLAIN`."""

    def key(job: Job) -> tuple[bool, int, int, int, int]:
        tier = state.partitions[job.spec.partition].priority_tier
        priority = job.status.priority or max(-job.spec.nice, 0)
        return not job.spec.reservation, -tier, -priority, job.status.submit_time, job.number

    return sorted(jobs, key=key)


def follow(state: State, snapshot: Snapshot, policy: Policy, made: Plan) -> None:
    """Every start is possible and no other is; every promise is the earliest start that those in front leave."""
    oracle = Oracle(state, snapshot.now, policy.default_time_s)
    order = [row.job for row in snapshot.waiting]
    assert [job.number for job in order] == [job.number for job in in_order(state, order)]
    starts = list(made.starts)
    forecasts = {forecast.number: forecast for forecast in made.forecasts}
    limit = len(order) if policy.backfill == "conservative" else policy.reservations
    promised, kept_cores = 0, False
    for row in snapshot.waiting:
        job, left = row.job, row.count
        waited = snapshot.now - job.status.eligible_time
        strict = not 0 < job.spec.request.switches_wait_s <= waited
        while left and starts and starts[0].number == job.number:
            assert not oracle.over_limit(job), (job.number, "over a limit")
            start = starts.pop(0)
            parts = [(part.node, {gpu.index: gpu.shards for gpu in part.gpus}, mask_of(part.cpu_ids))
                     for part in start.allocation.nodes]  # fmt: skip
            oracle.start(job, parts, strict)
            left -= 1
        if not left:
            assert job.number not in forecasts
            continue
        forecast, over = forecasts[job.number], oracle.over_limit(job)
        assert forecast.reasons
        # CPUs promised beside GPUs may be in the way of any job behind.
        assert over or kept_cores or not oracle.can_start(job, snapshot.now, strict), (job.number, "could start now")
        assert over or bool(forecast.never) == (not oracle.able(job, up=False)), (job.number, forecast)
        if over or promised >= limit or not oracle.able(job, up=True):
            assert forecast.start is None, (job.number, forecast)
            continue
        promised += 1
        earliest = oracle.earliest(job, strict)
        near = job.spec.request.near_gpus
        if near and forecast.start is not None:
            # Which CPUs will be free the oracle does not know: the start is never earlier than without asking for them.
            assert earliest is not None and forecast.start >= earliest, (job.number, forecast, earliest)
        else:
            assert near or forecast.start == earliest, (job.number, forecast, earliest)
        promise = made.promises.of(job.number) if made.promises is not None else None
        assert (promise is None) == (forecast.start is None)
        if promise is not None:
            assert promise[0] == forecast.start and promise[1][0][0] == forecast.nodes[0]
            parts_then = [(name, {gpu: count for gpu, count in enumerate(gpus) if count}) for name, gpus in promise[1]]
            oracle.take(job, promise[0], parts_then, strict)
            kept_cores |= near
    assert not starts, starts
