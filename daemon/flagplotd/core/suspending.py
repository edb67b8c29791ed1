"""Suspended jobs: their processes are stopped, their CPUs are for who preempted them, their memory stays theirs."""

from __future__ import annotations

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplotd.core import usage
from flagplotd.core.orders import ExtendOn, SignalOn
from flagplotd.core.state import State
from flagplotd.core.stepper import Stepper


def making_room(state: State, job: Job) -> list[Job]:
    """The victims of a job that still hold something: they end, or are suspended."""
    found = [state.jobs[number] for number in job.status.victims if number in state.active]
    return [
        victim
        for victim in found
        if victim.status.preempted_by == job.number and victim.status.state is not JobState.RUNNING
    ]


def on_their_way(state: State, job: Job) -> list[Job]:
    """The victims of a job that have not ended yet (suspended ones have made their room)."""
    return [victim for victim in making_room(state, job) if victim.status.state is JobState.COMPLETING]


def waited_for(state: State, suspended: Job) -> bool:
    """Whether the job that preempted it still waits for its room."""
    number = suspended.status.preempted_by
    return number in state.given_room and suspended.number in state.jobs[number].status.victims


def parked(state: State) -> dict[str, int]:
    """By node the CPUs, as a bit mask, that nobody else is offered: those of suspended jobs, except where all the room
    of the job that preempted them is there."""
    found: dict[str, int] = {}
    for number in state.suspended:
        job = state.jobs[number]
        if not offered(state, job) and job.status.allocation is not None:
            for part in job.status.allocation.nodes:
                found[part.node] = found.get(part.node, 0) | mask_of(part.cpu_ids)
    return found


def offered(state: State, suspended: Job) -> bool:
    """Whether its CPUs are offered, to the job that preempted it."""
    return waited_for(state, suspended) and not on_their_way(state, state.jobs[suspended.status.preempted_by])


def suspend(step: Stepper, job: Job, by: JobNumber, message: str) -> None:
    """Stop a job where it is; one that is suspended already stays so, for another."""
    usage_now(step, job)
    since = job.status.suspended_at or step.now
    job = step.change(job, "suspended", state=JobState.SUSPENDED, suspended_at=since, preempted_by=by, message=message)
    if job.status.allocation is not None:
        for node in job.status.allocation.names:
            stop_on(step, job, node)


def stop_on(step: Stepper, job: Job, node: str) -> None:
    """Have one node stop a suspended job (again), and its clock."""
    step.order(SignalOn(node, job.number, job.status.attempt, "STOP"))
    step.order(ExtendOn(node, job.number, job.status.attempt, 0))


def continue_on(step: Stepper, job: Job, node: str) -> None:
    """Have one node continue a job that was suspended, with the time that it lost."""
    limit = job.time_limit_s + job.status.suspended_s if job.time_limit_s else 0
    step.order(ExtendOn(node, job.number, job.status.attempt, limit))
    step.order(SignalOn(node, job.number, job.status.attempt, "CONT"))


def go_on(step: Stepper) -> None:
    """Resume, the first started first, what no preemptor waits for and whose CPUs are free on nodes that respond."""
    state = step.state
    for number in sorted(state.suspended, key=lambda number: (state.jobs[number].status.start_time, number)):
        job = state.jobs[number]
        if job.status.allocation is None or waited_for(state, job) or not _can_go_on(state, job):
            continue
        usage_now(step, job)
        slept = step.now - job.status.suspended_at
        job = step.change(
            job,
            "resumed",
            state=JobState.RUNNING,
            suspended_at=0,
            suspended_s=job.status.suspended_s + max(slept, 0),
            message=f"{job.status.message}, resumed",
        )
        for part in job.status.allocation.nodes if job.status.allocation is not None else ():
            continue_on(step, job, part.node)


def _can_go_on(state: State, job: Job) -> bool:
    for part in job.status.allocation.nodes if job.status.allocation is not None else ():
        node, use = state.nodes.get(part.node), state.use.get(part.node)
        if node is None or not node.responding or use is None or use.cpus & mask_of(part.cpu_ids):
            return False
    return True


def usage_now(step: Stepper, job: Job) -> None:
    """Charge what it ran so far: from now on its clock goes otherwise."""
    if usage.key_of(job):
        usage.update(step)
