"""Between two cycles: what starts at once on a node where a job ended, or that came back.

The rule: the plan of the last cycle stands, with its jobs in their order. A job starts on the node only where no job in front
of it could start there, or be planned there for earlier than it is, and where no start that is planned for one of those gets
later; one that was not planned itself makes none later at all. As long as nothing was left since that cycle, what starts is
what a whole cycle of the same moment would start there, on the same CPUs and GPUs; and where nothing is left to that cycle it
would start nothing else. Of several ends at once each is looked at for itself; once it is left to that cycle where a planned job
goes, none behind that job starts on any node, since their places may be its then.

`kernel.ending` tells what one node decides upon. All is left to the next whole cycle, which follows as ever, from the moment on
where only that can know:

- jobs were submitted, changed, held, released or became eligible, limits or policies were changed, a reservation began or
  ended, jobs are suspended or may preempt others, the backfill is conservative;
- what ended ran on several nodes, held licenses or a reservation, is waited for by others, started in that cycle or since, or gave
  back what a limit has stopped somebody for (of GPU minutes, where they are limited at all).

A start is checked against the state before it is made, as every other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation
from flagplot_wire.indices import first_indices
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplotd.core.limits import scopes
from flagplotd.core.needs import held_by
from flagplotd.core.state import State
from flagplotd.core.stimuli import Start
from flagplotd.sched.ending import Ending
from flagplotd.sched.kernel import layout as at
from flagplotd.sched.plan import Done, Policy, Ran, part_on

if TYPE_CHECKING:
    from flagplotd.sched.snapshot import Snapshot
    from flagplotd.sched.standing import Standing

AT_ONCE = 100
"""Nodes that are looked at before others have their turn."""
_HOLDS = (JobState.RUNNING, JobState.COMPLETING)


@dataclass(slots=True)
class Left:
    """What a cycle left. `limits` are the rows of limits by key, `tight` those that stop somebody or may, `partly` the nodes
    of which a part is reserved, `until` the next moment at which a reservation begins or ends; `wanted`: somebody waits for
    a node to come up."""

    ending: Ending
    snapshot: Snapshot
    starts: int
    limits: dict[str, int]
    tight: frozenset[str]
    partly: frozenset[int]
    until: int
    wanted: bool


def left_by(done: Done, policy: Policy) -> Left | None:
    """What a cycle under `policy` left; its arrays are changed from then on. None: all is left to the next one."""
    ran, snapshot = done.ran, done.snapshot
    if ran is None or not ran.all_tried or policy.backfill != "easy" or snapshot.preemption is not None:
        return None
    edges = (time for _, start, end in snapshot.reservations for time in (start, end))
    return Left(
        ending=Ending(ran, snapshot.e_number, policy.reservations),
        snapshot=snapshot,
        starts=len(done.starts),
        limits={limit.key: row for row, limit in enumerate(snapshot.limits)},
        tight=_tight(ran, snapshot),
        partly=frozenset(hold.row for hold in snapshot.holds if hold.res >= 0 and not hold.shut),
        until=min((time for time in edges if time > snapshot.now), default=at.NEVER),
        wanted=bool((ran.answers["bits"] & (at.DOWN | at.IMPOSSIBLE)).any()),
    )


def _tight(ran: Ran, snapshot: Snapshot) -> frozenset[str]:
    stopped = ran.answers["scope"][ran.answers["bits"] & at.LIMIT != 0] // at.USED
    chains = snapshot.idle.rows["chain"][snapshot.idle.rows["stop"] != 0]
    rows = {*_distinct(stopped), *(row for chain in _distinct(chains) for row in snapshot.chains[chain])}
    rows.update(np.flatnonzero(ran.most[:, at.USED - 1] >= 0).tolist())
    return frozenset(snapshot.limits[row].key for row in rows)


def _distinct(numbers: Any) -> list[int]:
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist() if len(numbers) else []
    return found


class Between:
    """What happened since a snapshot, which `standing` made just now of `state`. `over` is set once only a whole cycle knows
    what starts: then nothing starts here any more. Not for several threads."""

    def __init__(self, standing: Standing, state: State) -> None:
        self._standing, self._state, self._due = standing, state, standing.next_due
        self._left: Left | None = None
        self.over, self._expected = False, 0
        self._happened = dict[str, list[Job]]()
        self._returned = set[str]()

    def follow(self, left: Left | None) -> None:
        """The cycle of the snapshot is through; its starts are about to be made."""
        self._left = left
        self._expected = 0 if left is None else left.starts
        self.over = self.over or left is None

    @property
    def left(self) -> bool:
        """Whether something is left to a whole cycle, or to the time when all starts were carried out."""
        return self.over or bool(self._happened) or self.partial

    @property
    def partial(self) -> bool:
        """Whether a whole cycle may start or plan more."""
        return self._left is not None and self._left.ending.partial

    @property
    def ready(self) -> bool:
        """Whether `starts` may find something."""
        return bool(self._happened) and not self.over and not self._expected and self._left is not None

    def note(self, body: ev.Body) -> None:
        """An event that was applied to the state."""
        match body:
            case _ if self.over:
                pass
            case ev.JobChanged(number, status, cause):
                self._note_job(self._state.jobs[number], status.state, cause)
            case ev.JobAdded(job):
                # An element is split off to be started; other jobs may go first of all.
                self.over = job.array_index is None
            case ev.NodeChanged(node):
                self._note_node(node.name)
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
            # One that was found before this snapshot is not in it.
            self.over = self._left is None
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
            self._happened.setdefault(allocation.nodes[0].node, []).append(job)

    def _note_node(self, name: str) -> None:
        node, before = self._state.nodes[name], self._standing.node(name)
        if before is None or node.inventory != before.inventory or node.weight != before.weight:
            self.over = True
        elif node.responding == before.responding and node.drain == before.drain:
            pass
        elif node.responding and node.drain is None:
            self._happened.setdefault(name, [])
            self._returned.add(name)
        else:
            self.over = True

    def starts(self, state: State, now: int) -> tuple[Start, ...]:
        """What starts for what happened up to now. Looks at no more than `AT_ONCE` nodes: as long as it is `ready`
        afterwards it may be asked again."""
        found: list[Start] = []
        left = self._left
        if left is None:
            return ()
        self.over = self.over or state is not self._state or not self._snapshot_holds(state, left, now)
        # What is found counts as free in the state: the next look at its node comes after it was started.
        for name in list(islice(self._happened, AT_ONCE)):
            if self.ready:
                self._look(left, now, name, self._happened.pop(name), found)
        self._expected += len(found)
        return tuple(found)

    def _snapshot_holds(self, state: State, left: Left, now: int) -> bool:
        return now < min(self._due, left.until) and not state.suspended and not state.given_room

    def _look(self, left: Left, now: int, name: str, ended: list[Job], found: list[Start]) -> None:
        standing, ending, snapshot = self._standing, left.ending, left.snapshot
        row = standing.fresh_node(self._state, name)
        known = row is not None and row < len(snapshot.nodes) and snapshot.nodes[row].name == name
        came_back = name in self._returned
        self._returned.discard(name)
        kept = (came_back and left.wanted) or not self._give_back(left, ended)
        if row is None or not known or row in left.partly or kept:
            self.over = True
            return
        hardware, arrays = standing.hardware, ending.arrays
        assert hardware is not None
        one = arrays.nodes[row]
        one["cpu"], one["mem"], one["up"] = hardware.cpu[row], hardware.mem[row], hardware.up[row]
        arrays.g_free[row], arrays.c_numa[row] = hardware.gfree[row], hardware.c_numa[row]
        rows = ending.at(now, row, [job.number for job in ended])
        self.over = ending.over
        free = hardware.free_cpus[row]
        for place, gpus in zip(ending.out[:rows, 0].tolist(), ending.out_gpu[:rows].tolist(), strict=True):
            start, free = self._start(snapshot, row, free, place, gpus, found)
            if start is None:
                self.over = True
                return
            found.append(start)

    def _give_back(self, left: Left, ended: list[Job]) -> bool:
        """Count what jobs give back to their limits; False where others may wait for that."""
        free = True
        for job in ended:
            keys = scopes(self._state, job.user, job.spec)
            for key in keys:
                if key in left.limits:
                    left.ending.used[left.limits[key], :5] -= held_by(job.spec.request)
            free = free and left.tight.isdisjoint(keys)
        return free

    def _start(
        self, snapshot: Snapshot, row: int, free: int, place: int, gpus: list[int], found: list[Start]
    ) -> tuple[Start | None, int]:
        waiting = snapshot.waiting[place]
        job = self._state.jobs.get(waiting.job.number)
        if job is None:
            return None, free
        shape, there = snapshot.shapes[waiting.shape], None
        if job.is_array:
            before = sum(one.number == job.number for one in found)
            indices = first_indices(job.status.waiting, before + 1)
            if len(indices) <= before:
                return None, free
            there = indices[before]
        tasks = min(shape.tasks, waiting.job.spec.request.tasks or shape.tasks)
        part, free = part_on(snapshot, row, free, shape, gpus, tasks, 0)
        return Start(job.number, Allocation((part,)), there), free
