"""Preemption: a decision of the scheduler is checked against the state of now, then victims are stopped."""

from __future__ import annotations

from copy import deepcopy

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplotd.core import suspending
from flagplotd.core.orders import StopOn
from flagplotd.core.recheck import node_cannot, not_as_asked, why_not_job
from flagplotd.core.rights import Rights, rights, why_not_victim
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import NodeUse, State
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import Planned, Preempt


def planned(step: Stepper, plan: Planned, started: set[JobNumber]) -> None:
    """What a plan says beside its starts: whom to preempt, and for whom no room is kept any more; then suspended jobs
    whose CPUs are free go on. `started` are the jobs and arrays that did."""
    state = step.state
    for number in (*plan.given_up, *sorted(started)):
        if number in state.given_room and not suspending.on_their_way(state, state.jobs[number]):
            step.change(state.jobs[number], "room is not kept", victims=(), room=())
    if plan.preempts:
        check = Check(state, step.now)
        for one in plan.preempts:
            if not check.why_not(one):
                check.take(one)
                preempt(step, check.rights, one)
    suspending.go_on(step)


class Check:
    """Whether preemptions still hold in the state of now, one after the other."""

    def __init__(self, state: State, now: int) -> None:
        self._state, self._now = state, now
        self.rights = rights(state)
        self._sharing = Sharing(state, now)
        self._use: dict[str, NodeUse] = {}

    def why_not(self, one: Preempt) -> str:
        """Why it no longer holds; empty when it does: then the job fits as soon as its victims are gone."""
        state = self._state
        if sentence := why_not_job(state, one.number, self._now, self._sharing):
            return sentence
        job = state.jobs[one.number]
        for attempt in one.victims:
            victim = state.jobs.get(attempt.number)
            if victim is None or victim.status.attempt != attempt.attempt:
                return f"job {attempt.number} is gone"
            if sentence := why_not_victim(state, self.rights, victim, self._now):
                return f"job {attempt.number}: {sentence}"
            if not self.rights.may(job, victim):
                return f"job {attempt.number} is not below it"
            if suspending.waited_for(state, victim):
                return f"job {attempt.number} makes room already"
        partition, closed = state.partitions[job.spec.partition], self._sharing.closed(job)
        use = self._without(one)
        for part in one.allocation.nodes:
            if not partition.has(part.node) or not self._sharing.open_to(job, part, closed):
                return f"{part.node}: is not open to it"
            if reason := node_cannot(state, part, use[part.node]):
                return f"{part.node}: {reason}"
        return not_as_asked(state, job, one.allocation)

    def take(self, one: Preempt) -> None:
        """Count it as done, with its room taken."""
        use = self._without(one)
        for part in one.allocation.nodes:
            held = use[part.node]
            held.cpus |= mask_of(part.cpu_ids)
            held.memory_mib += part.memory_mib
            for gpu in part.gpus:
                held.gpu_shards.extend([0] * (gpu.index + 1 - len(held.gpu_shards)))
                held.gpu_shards[gpu.index] += gpu.shards
        self._use |= use

    def _without(self, one: Preempt) -> dict[str, NodeUse]:
        """What is held on the nodes of a preemption with its victims gone."""
        victims = [self._state.jobs[attempt.number] for attempt in one.victims]
        gone = [(victim, victim.status.allocation) for victim in victims if victim.status.allocation is not None]
        names = {*one.allocation.names, *(name for _, allocation in gone for name in allocation.names)}
        use = {name: deepcopy(self._use.get(name) or self._state.use.get(name, NodeUse())) for name in sorted(names)}
        for victim, allocation in gone:
            sleeps = self.rights.mode(victim) == "suspend"
            for part in allocation.nodes:
                held = use[part.node]
                if not victim.status.suspended_at:
                    held.cpus &= ~mask_of(part.cpu_ids)
                if not sleeps:
                    held.memory_mib -= part.memory_mib
                    for gpu in part.gpus:
                        held.gpu_shards[gpu.index] -= gpu.shards
        return use


def preempt(step: Stepper, of: Rights, one: Preempt) -> None:
    """Stop or suspend the victims; their room is kept for the job until it starts."""
    job = step.state.jobs[one.number]
    numbers = dict.fromkeys((*job.status.victims, *(attempt.number for attempt in one.victims)))
    nodes = dict.fromkeys((*job.status.room, *one.allocation.names))
    job = step.change(job, "makes room", victims=tuple(numbers), room=tuple(nodes))
    message = f"preempted by job {job.display_id}"
    for attempt in one.victims:
        victim = step.state.jobs[attempt.number]
        mode = of.mode(victim)
        if mode == "suspend":
            suspending.suspend(step, victim, job.number, message)
        else:
            ending = JobState.PENDING if mode == "requeue" else JobState.PREEMPTED
            _stop(step, victim, ending, of.grace_s(victim), job, message)


def _stop(step: Stepper, victim: Job, ending: JobState, grace_s: int, job: Job, message: str) -> None:
    names = victim.status.allocation.names if victim.status.allocation is not None else []
    victim = step.change(
        victim,
        "preempted",
        state=JobState.COMPLETING,
        ending=ending,
        message=message,
        preempted_by=job.number,
        stop_by=step.now + grace_s,
    )
    for name in names:
        if name not in step.live(victim).ended:
            reason = f"PREEMPTED BY JOB {job.display_id}"
            step.order(StopOn(name, victim.number, victim.status.attempt, grace_s, reason))


def victims_words(numbers: tuple[JobNumber, ...]) -> str:
    """`preempted jobs 3, 4 to end`."""
    some = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    return f"preempted job{'s' if len(numbers) > 1 else ''} {some} to end"
