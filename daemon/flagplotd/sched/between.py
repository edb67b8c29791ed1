"""Between two cycles: what starts at once on a node where a job ended, or that came back (`kernel.ending` has the rule)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import first_indices
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplotd.core.limits import scopes
from flagplotd.core.needs import held_by
from flagplotd.core.state import State
from flagplotd.core.stimuli import Start
from flagplotd.sched.kernel import layout as at
from flagplotd.sched.kernel.ending import ended, index, sift
from flagplotd.sched.plan import Done, Policy, part_on

if TYPE_CHECKING:
    from flagplotd.sched.standing import Standing

MOST = 64
"""Jobs that start on one node in a pass."""
OWN = 128
"""Events of planned starts on one node."""
_HOLDS = (JobState.RUNNING, JobState.COMPLETING)


class Between:
    """The arrays that a cycle left, and what happened since its snapshot. `over` is set once something is left to a whole
    cycle: then nothing starts here any more."""

    def __init__(self, done: Done, policy: Policy, standing: Standing) -> None:
        self._standing, self._done, self._snapshot = standing, done, done.snapshot
        self.over = done.ran is None or not done.ran.all_tried or policy.backfill != "easy" or done.snapshot.preemption is not None
        self._expected, self._happened = len(done.starts), list[tuple[str, JobNumber]]()
        if not self.over:
            self._prepare(policy)

    def _prepare(self, policy: Policy) -> None:
        ran, snapshot = self._done.ran, self._snapshot
        assert ran is not None
        shapes, ints = ran.arrays.shapes, np.int64
        heads = np.zeros(max(policy.reservations, 1), ints)
        behind, following = np.zeros(len(shapes), ints), np.zeros(len(ran.jobs), np.int32)
        planned = index(ran.jobs, ran.answers, policy.reservations, heads, behind, following)
        order = np.flatnonzero(behind >= 0)
        order = order[np.argsort(behind[order], kind="stable")]
        bits = np.zeros((at.LEVELS, -(-max(len(order), 1) // 64)), np.uint64)
        sift(order, shapes, bits)
        width, nodes = snapshot.g_of.shape[1], len(snapshot.nodes)
        self._out, self._out_gpu = np.zeros((MOST, 3), ints), np.zeros((MOST, width), np.int32)
        # Where somebody waits for a node, one that comes up may be for jobs in front of those that are planned.
        self._down = bool((ran.answers["bits"] & (at.DOWN | at.IMPOSSIBLE)).any())
        self._partly = {hold.row for hold in snapshot.holds if hold.res >= 0 and not hold.shut}
        self._tight = self._tight_limits()
        self._limits = {limit.key: row for row, limit in enumerate(snapshot.limits)}
        arrays, small = ran.arrays, np.zeros(width, np.int32)
        self._arguments = (
            snapshot.e_number, ran.jobs, shapes, arrays.masks, arrays.free, arrays.nodes, arrays.g_free, arrays.cards,
            arrays.c_numa, arrays.events, arrays.e_gpu, arrays.tail, ran.when, ran.first, ran.c_first, ran.c_scope, ran.used,
            ran.most, nodes, np.zeros(2 + snapshot.c_numa.shape[1], ints), small, small.copy(), small.copy(), np.zeros(4, ints), np.zeros(1, ints),
            ran.answers, heads[:planned], behind, following, order, behind[order].copy(), bits, np.zeros(at.LEVELS, ints), np.zeros(OWN, ints),
            self._out, self._out_gpu,
        )  # fmt: skip

    def _tight_limits(self) -> set[str]:
        """The keys of limits that stop somebody, or may."""
        ran, snapshot = self._done.ran, self._snapshot
        assert ran is not None
        scopes_hit = np.unique(ran.answers["scope"][ran.answers["bits"] & at.LIMIT != 0]) // at.USED
        stopped = np.unique(snapshot.idle.rows["chain"][snapshot.idle.rows["stop"] != 0])
        rows = {*scopes_hit.tolist(), *(row for chain in stopped.tolist() for row in snapshot.chains[chain])}
        return {snapshot.limits[row].key for row in rows}

    @property
    def left(self) -> bool:
        """Whether something is left to a whole cycle, or to the time when all starts were carried out."""
        return self.over or bool(self._happened)

    def note(self, state: State, body: ev.Body) -> None:
        """An event that was applied after the snapshot."""
        match body:
            case _ if self.over:
                pass
            case ev.JobChanged(number, status, cause):
                self._note_job(state.jobs[number], status.state, cause)
            case ev.JobAdded(job):
                # An element is split off to be started; other jobs may go first of all.
                self.over = job.array_index is None
            case ev.NodeChanged(node):
                self._note_node(state, node.name)
            case ev.JobsForgotten(numbers):
                self.over = any(number in self._standing.table for number in numbers)
            case ev.UsageUpdated() | ev.StepChanged() | ev.ControllerStarted():
                pass
            case _:
                self.over = True

    def _note_job(self, job: Job, word: JobState, cause: str) -> None:
        held = self._standing.active(job.number)
        if job.is_array:
            self.over = job.spec.array is not None and job.spec.array.limit > 0 and word is JobState.PENDING
        elif cause == "started":
            self._expected -= 1
        elif held is not None and word.ended:
            self._note_end(held)
        elif held is None or word not in _HOLDS:
            self.over = True

    def _note_end(self, job: Job) -> None:
        allocation, standing = job.status.allocation, self._standing
        simple = allocation is not None and len(allocation.nodes) == 1 and not job.spec.reservation
        if not simple or job.spec.request.licenses or job.status.suspended_at or standing.watched(job):
            self.over = True
        elif allocation is not None:
            self._happened.append((allocation.nodes[0].node, job.number))

    def _note_node(self, state: State, name: str) -> None:
        row = self._standing.fresh_node(state, name)
        if row is None or self._down or not state.nodes[name].responding or state.nodes[name].drain is not None:
            self.over = True
        else:
            self._happened.append((name, JobNumber(0)))

    def starts(self, state: State, now: int) -> tuple[Start, ...]:
        """What starts for what happened up to now."""
        found: list[Start] = []
        self.over = self.over or self._standing.due(now) or bool(state.suspended or state.given_room)
        while self._happened and not self.over and not self._expected:
            name, number = self._happened.pop(0)
            found += self._pass(state, now, name, number)
            # What was found so far counts as free in the state: the next look at this node comes after it is applied.
            self._expected = len(found)
        return tuple(found)

    def _pass(self, state: State, now: int, name: str, number: JobNumber) -> list[Start]:
        standing, ran = self._standing, self._done.ran
        row = standing.fresh_node(state, name)
        if row is None or ran is None or row in self._partly or not self._give_back(state, number):
            self.over = True
            return []
        hardware, nodes = standing.hardware, ran.arrays.nodes
        assert hardware is not None
        one = nodes[row]
        one["cpu"], one["mem"], one["up"] = hardware.cpu[row], hardware.mem[row], hardware.up[row]
        ran.arrays.g_free[row], ran.arrays.c_numa[row] = hardware.gfree[row], hardware.c_numa[row]
        rows, self.over = ended(now, row, number, *self._arguments)
        found: list[Start] = []
        free = hardware.free_cpus[row]
        for place in range(rows):
            start, free = self._start(state, row, free, int(self._out[place, 0]), self._out_gpu[place].tolist(), found)
            if start is None:
                self.over = True
                break
            found.append(start)
        return found

    def _give_back(self, state: State, number: JobNumber) -> bool:
        """Count what a job gives back to its limits; False where others may wait for that."""
        job, ran = self._standing.active(number), self._done.ran
        if job is None or ran is None:
            return not number
        keys = scopes(state, job.user, job.spec)
        for key in keys:
            if key in self._limits:
                ran.used[self._limits[key], :5] -= held_by(job.spec.request)
        return self._tight.isdisjoint(keys)

    def _start(
        self, state: State, row: int, free: int, place: int, gpus: list[int], others: list[Start]
    ) -> tuple[Start | None, int]:
        snapshot = self._snapshot
        waiting = snapshot.waiting[place]
        job = state.jobs.get(waiting.job.number)
        if job is None:
            return None, free
        shape, there = snapshot.shapes[waiting.shape], None
        if job.is_array:
            before = sum(one.number == job.number for one in others)
            indices = first_indices(job.status.waiting, before + 1)
            if len(indices) <= before:
                return None, free
            there = indices[before]
        tasks = min(shape.tasks, waiting.job.spec.request.tasks or shape.tasks)
        part, free = part_on(snapshot, row, free, shape, gpus, tasks, 0)
        return Start(job.number, Allocation((part,)), there), free
