"""A past run again through the controller's own core and scheduler, in discrete-event time. Pure."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Literal

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import compress_indices, expand_indices
from flagplot_wire.job import Job, Status
from flagplot_wire.job import State as JobState
from flagplot_wire.requests import Act
from flagplotd.core import stimuli as st
from flagplotd.core.apply import HOLDING, apply
from flagplotd.core.fairshare import Remembered
from flagplotd.core.orders import LaunchOn, Outcome, Replan, StopOn
from flagplotd.core.state import State, Who
from flagplotd.core.step import step
from flagplotd.sched.plan import Policy
from flagplotd.sched.preempt import planned, preemption
from flagplotd.sched.priority import inputs
from flagplotd.sched.promises import Memory
from flagplotd.sched.snapshot import take
from flagplotd.sim.history import Key, Moment, Past, Run, Stay, fresh, key_of

PEOPLE = Who("root", 0, 0, ("user", "operator", "admin"))
IDLE_S = 30 * 86_400
"""So long after all else has happened it is tried whether what still waits may start by the passing of time."""
Cause = Literal["exited", "timeout", "stopped", "oom"]
_FAR = 1 << 62
_ENDS, _FROM_OUTSIDE, _TICK = range(3)
_CAUSES: dict[JobState, Cause] = {
    JobState.TIMEOUT: "timeout", JobState.CANCELLED: "stopped", JobState.OUT_OF_MEMORY: "oom",
}  # fmt: skip


class Replay:
    """Runs a past on a state made from its opening; `stays` is what came of it.

    At one second jobs end, then what came from outside happens, then a cycle runs. A job runs as long as it really did.
    """

    def __init__(self, past: Past, state: State, policy: Policy) -> None:
        self.past, self.state, self.policy = past, state, policy
        self.stays: dict[Key, Stay] = {}
        self.now = past.since
        self._memory, self._promised = Remembered(), Memory()
        self._heap: list[tuple[int, int, int, int]] = []
        self._attempts: list[tuple[JobNumber, int]] = []
        self._count, self._wanted, self._last = 0, True, self.now
        self._done: dict[Key, int] = {}
        self._ran: dict[int, list[int]] = {}
        for number, index in past.stays:
            self._ran.setdefault(number, []).extend([] if index is None else [index])
        # Elements split off get numbers behind all real ones, so that they meet none.
        top = max((job.number for job in _jobs(past)), default=0)
        state.next_number = max(state.next_number, top + 1)
        self._open()
        for position, moment in enumerate(past.moments):
            self._at(moment.time, _FROM_OUTSIDE, position)

    def _open(self) -> None:
        """Forget what waits at the opening and never ran; what runs ends as it really did."""
        for number in sorted(self.state.pending):
            job = self.state.jobs[number]
            ran = self.past.stays.get(key_of(job)) or (job.is_array and self._ran.get(number))
            waiting = self._indices(job) if job.is_array else ""
            if not ran or (job.is_array and not waiting and not job.status.elements_running):
                apply(self.state, ev.JobsForgotten((number,)))
            elif job.is_array and waiting != job.status.waiting:
                status = msgspec.structs.replace(job.status, waiting=waiting)
                apply(self.state, ev.JobChanged(number, status, "counted"))
        for number in sorted(self.state.active):
            job = self.state.jobs[number]
            stay = self.past.stays.get(key_of(job))
            if stay is not None and job.status.allocation is not None and not job.is_array:
                self._began(job, job.status.start_time)
                assert stay.runs[0].end is not None
                self._ends_at(job, max(stay.runs[0].end, self.now))

    def _indices(self, job: Job) -> str:
        there = set(expand_indices(job.status.waiting)) if job.status.waiting else set()
        return compress_indices(sorted(there.intersection(self._ran.get(job.number, ()))))

    def _at(self, time: int, kind: int, what: int = 0) -> None:
        heappush(self._heap, (time, kind, self._count, what))
        self._count += 1
        if kind != _TICK:
            self._last = max(self._last, time)

    def _ends_at(self, job: Job, time: int) -> None:
        self._at(time, _ENDS, len(self._attempts))
        self._attempts.append((job.number, job.status.attempt))

    def run(self) -> dict[Key, Stay]:
        """Until nothing happens any more."""
        ticks_at = self.now
        while True:
            self._turn()
            if self.state.pending and self.now < self._last + IDLE_S:
                ticks_at = self._wake(ticks_at)
            if not self._heap:
                return self.stays
            self.now = max(self.now, self._heap[0][0])

    def _wake(self, ticked: int) -> int:
        """See to it that time passes for what waits: usage decays, begin times and reservations come."""
        boundaries = [at for one in self.state.reservations.values() for at in (one.start, one.end) if at > self.now]
        due = [self.state.due[0][0]] if self.state.due else []
        soon = min(
            self.now + self.state.settings.usage_every_s, *boundaries, *(max(at, self.now + 1) for at in due), _FAR
        )
        if not self.now < ticked <= soon:
            self._at(soon, _TICK)
            return soon
        return ticked

    def _turn(self) -> None:
        """All of this second."""
        while self._heap and self._heap[0][0] <= self.now:
            _, kind, _, what = heappop(self._heap)
            if kind == _ENDS:
                self._end(*self._attempts[what])
            elif kind == _FROM_OUTSIDE:
                self._from_outside(self.past.moments[what])
            else:
                self._wanted = True
        self.state.swept_at = self.now
        self._step(st.Tick())
        if self._wanted:
            self._cycle()

    def _cycle(self) -> None:
        # A cycle that started something is followed by another within seconds: what it planned may fit better now.
        while self.state.pending:
            snapshot = take(self.state, self.now, self.policy.default_time_s)
            snapshot.inputs = inputs(self.state, self.policy, self._memory)
            snapshot.memory = self._promised
            snapshot.preemption = preemption(self.state, self.now)
            if not self._step(planned(snapshot, self.policy)).events:
                break
        self._wanted = False

    def _step(self, stimulus: st.Stimulus) -> Outcome:
        outcome = step(self.state, stimulus, self.now)
        for order in outcome.orders:
            match order:
                case Replan():
                    self._wanted = True
                case LaunchOn(number=number, node_index=0):
                    self._start(self.state.jobs[number])
                case StopOn(node=node, number=number, attempt=attempt):
                    self._part_ended(node, AttemptEnd(number, attempt, "stopped", time=self.now))
        return outcome

    def _start(self, job: Job) -> None:
        self._began(job, self.now)
        run = self._real(key_of(job))
        assert run.end is not None
        self._ends_at(job, self.now + run.end - run.start)

    def _real(self, key: Key) -> Run:
        runs = self.past.stays[key].runs
        return runs[min(self._done.get(key, 0), len(runs) - 1)]

    def _began(self, job: Job, start: int) -> None:
        stay, status = self.stays.setdefault(key_of(job), Stay(job.user, job.spec, [])), job.status
        assert status.allocation is not None
        waited_from = min(status.eligible_time or status.submit_time, start)
        stay.runs.append(Run(waited_from, start, status.allocation))

    def _end(self, number: JobNumber, attempt: int) -> None:
        """The attempt ends as the real one did; one that was started again is requeued."""
        job = self.state.jobs.get(number)
        if job is None or job.status.attempt != attempt or job.status.state not in HOLDING:
            return
        key = key_of(job)
        real, runs = self._real(key), self.past.stays[key].runs
        self._done[key] = self._done.get(key, 0) + 1
        if self._done[key] < len(runs):
            name = str(number) if key[1] is None else f"{key[0]}_{key[1]}"
            self._step(st.ActOnJobs(PEOPLE, Act("requeue", (name,))))
            return
        code = real.exit_code or int(real.outcome is not JobState.COMPLETED)
        cause: Cause = _CAUSES.get(real.outcome, "exited")
        for node in job.status.allocation.names if job.status.allocation else ():
            self._part_ended(node, AttemptEnd(number, job.status.attempt, cause, code, time=self.now))

    def _part_ended(self, node: str, end: AttemptEnd) -> None:
        self._step(st.AttemptEnded(node, end))
        job = self.state.jobs.get(end.number)
        if job is not None and job.status.state not in HOLDING:
            self.stays[key_of(job)].runs[-1].end = self.now

    def _from_outside(self, moment: Moment) -> None:
        body, self._wanted = moment.body, True
        match body:
            case ev.JobAdded(job):
                if job.number in self._ran:
                    indices = self._indices(job) if job.is_array else ""
                    if indices or not job.is_array:
                        apply(self.state, ev.JobAdded(fresh(job, indices)))
            case ev.JobSpecChanged() | ev.JobChanged():
                self._changed(moment, body)
            case ev.PartitionChanged(partition):
                ours = self.state.partitions.get(partition.name)
                if ours is not None:
                    apply(self.state, ev.PartitionChanged(msgspec.structs.replace(ours, up=partition.up)))
            case _:
                apply(self.state, body)

    def _changed(self, moment: Moment, body: ev.JobSpecChanged | ev.JobChanged) -> None:
        """What people changed of a job: all of one that waits, the time limit of one that runs."""
        job = self._ours(moment.key)
        if job is None or job.status.state.ended:
            return
        waits = job.number in self.state.pending
        if isinstance(body, ev.JobChanged):
            given = body.status
            status: Status = msgspec.structs.replace(
                job.status, priority=given.priority, site_factor=given.site_factor, staging=given.staging
            )
            apply(self.state, ev.JobChanged(job.number, status, body.cause, body.by))
            return
        spec = body.spec
        if waits and spec.array is not None and job.spec.array is not None:
            kept = msgspec.structs.replace(spec.array, indices=job.spec.array.indices)
            spec = msgspec.structs.replace(spec, array=kept)
        elif not waits:
            limit = spec.request.time_limit_s
            request = msgspec.structs.replace(job.spec.request, time_limit_s=limit)
            spec = msgspec.structs.replace(job.spec, request=request)
        apply(self.state, ev.JobSpecChanged(job.number, spec, body.what, body.by))

    def _ours(self, key: Key | None) -> Job | None:
        if key is None:
            return None
        number = key[0] if key[1] is None else self.state.elements.get(JobNumber(key[0]), {}).get(key[1], 0)
        return self.state.jobs.get(JobNumber(number))


def _jobs(past: Past) -> list[Job]:
    there = list(past.opening.jobs.values())
    return there + [moment.body.job for moment in past.moments if isinstance(moment.body, ev.JobAdded)]
