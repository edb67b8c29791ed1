"""The snapshot that stands: kept from cycle to cycle by what events touched, so that a cycle copies and walks nothing.

`note` marks what an event may change; `sync` makes the rows of that again from the state; `snapshot` gives the same bytes as
one that was made of nothing (`snapshot.take`). A row follows from the state alone, so that an event that marks too much
costs time and nothing else. `note` and `sync` run on the event loop, `snapshot` in any thread while no `sync` runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from flagplot_wire import events as ev
from flagplot_wire.hostlist import natural_key
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job, Reason
from flagplot_wire.node import Node
from flagplot_wire.policy import Reservation
from flagplotd.core import suspending
from flagplotd.core.apply import due_at
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import NodeUse, State
from flagplotd.sched.asked import Asked
from flagplotd.sched.eligible import again_at, in_its_room, not_eligible, starts_allowed, still
from flagplotd.sched.ends import Ends
from flagplotd.sched.hardware import Hardware
from flagplotd.sched.holds import holds_of
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.leaving import leaving
from flagplotd.sched.snapshot import Snapshot, assemble
from flagplotd.sched.table import Table
from flagplotd.sched.watching import Watching

SLACK = 1_024
"""Shapes or chains that nobody asks for any more are dropped where they are more than the others and so many."""
Line = tuple[tuple[Any, ...], Job, tuple[Reason, ...]]


@dataclass(slots=True)
class Marks:
    """What events touched since the last `sync`: jobs, nodes, names of partitions and reservations; `forgotten` where jobs
    were, `policy` where limits may be others, `all` where everything is to be made again."""

    jobs: set[JobNumber] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    reservations: set[str] = field(default_factory=set)
    forgotten: bool = False
    policy: bool = False
    all: bool = False


class Standing:
    """See the module; `default_time_s` is taken for jobs without a time limit. `touched` are the pending jobs whose rows
    the last `sync` made."""

    def __init__(self, default_time_s: int = 3_600) -> None:
        self._default_time_s = default_time_s
        self._state: State | None = None
        self._now = 0
        self._marks = Marks()
        self._extra: Line | None = None
        self._anew()

    def _anew(self) -> None:
        self.table, self.asked, self._watching = Table(), Asked(), Watching()
        self.nodes: list[Node] = []
        self._index: dict[str, int] = {}
        self.hardware: Hardware | None = None
        self.ends = Ends(1, 1)
        self._active: dict[JobNumber, Job] = {}
        self._asleep: set[JobNumber] = set()
        self._licensed: set[JobNumber] = set()
        self._parked: dict[str, int] = {}
        self._again: list[tuple[int, JobNumber]] = []

    def note(self, body: ev.Body) -> None:
        """An event was applied to the state."""
        marks = self._marks
        match body:
            case ev.JobChanged(number) | ev.JobSpecChanged(number):
                marks.jobs.add(number)
            case ev.JobAdded(job):
                marks.jobs.add(job.number)
            case ev.JobsForgotten(numbers):
                marks.jobs.update(numbers)
                marks.forgotten = True
            case ev.NodeChanged(node):
                marks.nodes.add(node.name)
            case ev.NodeRemoved(name):
                marks.nodes.add(name)
            case ev.PartitionChanged(partition):
                marks.partitions.add(partition.name)
            case ev.PartitionRemoved(name):
                marks.partitions.add(name)
            case ev.PolicyChanged(record):
                self._note_record(record.key if isinstance(record, Reservation) else "")
            case ev.PolicyRemoved(kind, key):
                self._note_record(key if kind == "reservation" else "")

    def _note_record(self, reservation: str) -> None:
        if reservation:
            self._marks.reservations.add(reservation)
        else:
            self._marks.policy = True

    def sync(self, state: State, now: int, extra: Job | None = None) -> None:
        """Bring everything up to `now`; `extra` is a job that was not submitted, in the next `snapshot` alone."""
        marks, self._marks = self._marks, Marks()
        if state is not self._state or now < self._now or marks.all:
            self._anew()
            marks = Marks(set(state.pending | state.active), all=True)
        self._state, self._now = state, now
        sharing = Sharing(state, now)
        anew = marks.all or self._nodes_differ(state, marks.nodes)
        if anew:
            self._take_nodes(state)
            marks.jobs.update(state.active)
        places = anew or bool(marks.partitions or marks.reservations)
        # A partition may have another QoS, and with it other limits.
        policy = marks.all or marks.policy or bool(marks.partitions)
        assert self.hardware is not None
        self.asked.look(state, self.nodes, self.hardware.types, sharing, anew=places, policy=policy)
        self._look_at_jobs(state, now, marks, sharing)
        self._look_at_nodes(state, marks.nodes)
        self._extra = None if extra is None else self._line(state, extra, now, sharing)
        self._sharing_of(state, now, sharing)

    def _sharing_of(self, state: State, now: int, sharing: Sharing) -> None:
        self.licenses = sharing.licenses
        licensed = [state.jobs[number] for number in sorted(self._licensed)]
        self.holds = holds_of(
            state, now, self.nodes, self._index, self.licenses, sharing, licensed, self._default_time_s
        )
        self.reservations = [(one.name, one.start, one.end) for one in state.reservations.values()]
        self.partitions = dict(state.partitions)

    def active(self, number: JobNumber) -> Job | None:
        """A job that held something at the last `sync`, as it was."""
        return self._active.get(number)

    @property
    def next_due(self) -> int:
        """The first moment at which time alone may change what is said of a pending job."""
        return self._again[0][0] if self._again else NEVER

    def node(self, name: str) -> Node | None:
        """A node as it was at the last `sync`."""
        row = self._index.get(name)
        return None if row is None else self.nodes[row]

    def watched(self, job: Job) -> bool:
        """Whether what pending jobs wait for may be this job."""
        return bool(self._watching.dependants) and any(True for _ in self._watching.by(job))

    def fresh_node(self, state: State, name: str) -> int | None:
        """Bring the arrays of one node up to date; its row (None: it is not as it was at the last `sync`)."""
        row, node = self._index.get(name), state.nodes.get(name)
        if row is None or node is None or node.inventory != self.nodes[row].inventory or self.hardware is None:
            return None
        self.hardware.fill(row, node, state.use.get(name, NodeUse()), self._parked.get(name, 0))
        return row

    def _nodes_differ(self, state: State, names: set[str]) -> bool:
        for name in names:
            node, row = state.nodes.get(name), self._index.get(name)
            if node is None or node.inventory is None:
                if row is not None:
                    return True
            elif row is None or _kind(node) != _kind(self.nodes[row]):
                return True
        return False

    def _take_nodes(self, state: State) -> None:
        known = (node for node in state.nodes.values() if node.inventory is not None)
        self.nodes = sorted(known, key=lambda node: natural_key(node.name))
        self._index = {node.name: row for row, node in enumerate(self.nodes)}
        self.hardware = Hardware(state, self.nodes)
        self._parked = suspending.parked(state)
        self.ends = Ends(self.hardware.width, self.hardware.c_numa.shape[1])

    def _look_at_nodes(self, state: State, names: set[str]) -> None:
        """Make the rows of these nodes again, and of those on which suspended jobs keep CPUs."""
        assert self.hardware is not None
        parked = suspending.parked(state)
        for name in names.union(parked, self._parked):
            row = self._index.get(name)
            if row is not None:
                self.nodes[row] = state.nodes[name]
                self.hardware.fill(row, state.nodes[name], state.use.get(name, NodeUse()), parked.get(name, 0))
        self._parked = parked

    def _look_at_jobs(self, state: State, now: int, marks: Marks, sharing: Sharing) -> None:
        numbers, table = marks.jobs, self.table
        numbers.update(self._asleep)
        while self._again and self._again[0][0] <= now:
            numbers.add(heappop(self._again)[1])
        if marks.forgotten:
            numbers.update(self._watching.dependants)
        if not marks.all:
            numbers.update(table.named("partition", marks.partitions))
            numbers.update(table.named("reservation", marks.reservations))
            numbers.update(self._watchers(state, numbers))
        lines = []
        for number in numbers:
            job, old = state.jobs.get(number), table.job(number)
            if old is not None:
                self._watching.drop(old)
            self._hold(state, number, job, now, marks.nodes)
            if job is None or number not in state.pending or (job.is_array and not job.status.waiting):
                table.drop(number)
                continue
            self._watching.put(job)
            lines.append(self._line(state, job, now, sharing))
        table.put(lines)
        self._compact()

    def _watchers(self, state: State, numbers: set[JobNumber]) -> set[JobNumber]:
        found = set[JobNumber]()
        for number in numbers:
            # A job that has another name now was waited for under the old one.
            for job in (state.jobs.get(number), self.table.job(number) or self._active.get(number)):
                if job is not None:
                    found.update(self._watching.by(job))
        return found

    def _hold(self, state: State, number: JobNumber, job: Job | None, now: int, nodes: set[str]) -> None:
        """What a job holds now, on which nodes it held or holds something, into `nodes`."""
        old = self._active.pop(number, None)
        if old is not None and old.status.allocation is not None:
            nodes.update(old.status.allocation.names)
        for kept in (self._asleep, self._licensed):
            kept.discard(number)
        if job is None or number not in state.active or job.status.allocation is None:
            self.ends.drop(number)
            return
        self._active[number] = job
        nodes.update(job.status.allocation.names)
        self.ends.put(number, leaving(state, job, now, self._default_time_s), self._index, self.nodes)
        if job.status.suspended_at:
            self._asleep.add(number)
        if job.spec.request.licenses:
            self._licensed.add(number)

    def _line(self, state: State, job: Job, now: int, sharing: Sharing) -> Line:
        spec, status, name = job.spec, job.status, self.table.name
        why = (*not_eligible(state, job, now), *sharing.outside(job))
        again = again_at(state, job, now, why)
        if again:
            heappush(self._again, (again, job.number))
        waited = now - status.eligible_time
        waived = bool(spec.request.switches and 0 < spec.request.switches_wait_s <= waited)
        row = (
            job.number, status.submit_time, status.eligible_time, status.priority, spec.nice, due_at(job), 0,
            self.asked.shape(state, in_its_room(job), waived), starts_allowed(job), self.asked.chain(state, job, sharing),
            name("partition", spec.partition), name("qos", spec.qos), name("whom", f"{job.user}@{spec.account}"),
            name("reservation", spec.reservation), bool(why), still(why),
        )  # fmt: skip
        return row, job, why

    def _compact(self) -> None:
        asked, count = self.asked, 2 * len(self.table) + SLACK
        if len(asked.shapes) <= count and len(asked.chains) <= count:
            return
        rows = self.table.rows[self.table.slots()]
        shapes, chains = asked.compact(set(rows["shape"].tolist()), set(rows["chain"].tolist()))
        self.table.renumber("shape", shapes)
        self.table.renumber("chain", chains)

    def snapshot(self) -> Snapshot:
        """The snapshot as of the last `sync`; what it has is its own."""
        assert self.hardware is not None
        queue = self.table.queue()
        if self._extra is not None:
            queue = queue.also(*self._extra)
        return assemble(
            self._now, queue, self.asked, self.nodes, self.hardware, self.ends, self.holds,
            self.licenses, self.reservations, self.partitions,
        )  # fmt: skip


def _kind(node: Node) -> tuple[object, ...]:
    """What of a node decides which jobs may use it, and how the arrays by node and GPU look."""
    inventory = node.inventory
    assert inventory is not None
    types, numa = [gpu.type for gpu in inventory.gpus], [one.index for one in inventory.numa]
    return types, numa, inventory.features, inventory.switch
