"""The local copy of the cluster: made from a snapshot, kept by events, read by the views. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flagplot.client.touched import Touched
from flagplot_wire import events as ev
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, Job, State
from flagplot_wire.node import Node, NodeGroup, Partition
from flagplot_wire.policy import Reservation
from flagplot_wire.replies import (
    EventsPushed,
    ForecastsPushed,
    Progress,
    Push,
    SamplesPushed,
    SnapshotPart,
    Welcome,
)
from flagplot_wire.telemetry import NodeSample

HOLDING = frozenset({State.RUNNING, State.SUSPENDED, State.COMPLETING})


class Gap(Exception):
    """A push does not follow what the mirror has: subscribe again for a fresh snapshot."""


@dataclass(slots=True)
class Mirror:
    """Everything a view may show. `complete` is False until a whole snapshot has arrived.

    `heard` is when the controller was last heard (epoch seconds, set by the connection's shell); `connected`
    and `problem` describe the connection. `version` grows with every change, so that a view can tell in one
    comparison that nothing moved.
    """

    welcome: Welcome | None = None
    epoch: int = 0
    seq: int = -1
    complete: bool = False
    connected: bool = False
    problem: str = ""
    heard: int = 0
    version: int = 0
    progress: Progress | None = None
    jobs: dict[JobNumber, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    forecasts: dict[JobNumber, Forecast] = field(default_factory=dict)
    samples: dict[str, NodeSample] = field(default_factory=dict)
    recent: list[ev.Event] = field(default_factory=list)
    held: dict[str, set[JobNumber]] = field(default_factory=dict)
    """Node name → numbers of jobs that hold something there now (running or completing)."""
    elements: dict[JobNumber, set[JobNumber]] = field(default_factory=dict)
    """Array → numbers of the elements that were split off."""
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    """Kind (`switch`, `block`, `rack`) → node name → the group of that kind it is in, as configured."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    counts: Counter[State] = field(default_factory=Counter)
    """How many jobs are in each state."""
    touched: Touched[JobNumber] = field(default_factory=Touched)
    touched_nodes: Touched[str] = field(default_factory=Touched)
    """Nodes whose record, sample or jobs changed."""
    plans: int = 0
    """Grows with every change of the forecasts."""

    def take(self, push: Push) -> None:
        """Apply one push; raises `Gap` when events are missing before it."""
        self.version += 1
        match push:
            case SnapshotPart():
                self._take_snapshot(push)
            case EventsPushed():
                for event in push.events:
                    self._take_event(event)
            case ForecastsPushed():
                self.plans += 1
                for number in push.gone:
                    self.forecasts.pop(number, None)
                for forecast in push.forecasts:
                    self.forecasts[forecast.number] = forecast
            case SamplesPushed():
                self._put_samples(push.samples)
            case Progress():
                self.progress = None if push.total and push.done >= push.total else push

    def _take_snapshot(self, part: SnapshotPart) -> None:
        if part.first:
            tables = (self.jobs, self.nodes, self.partitions, self.forecasts, self.samples, self.held, self.elements)
            for table in (*tables, self.counts):
                table.clear()
            self.reservations.clear()
            self.touched.reset()
            self.touched_nodes.reset()
            self.recent.clear()
            self.complete = False
        if part.first or part.groups:
            self.places = _places(part.groups)
        self.reservations.update((one.name, one) for one in part.reservations)
        for job in part.jobs:
            self._put_job(job)
        self._put_nodes(part.nodes)
        self.partitions.update((partition.name, partition) for partition in part.partitions)
        self.forecasts.update((forecast.number, forecast) for forecast in part.forecasts)
        self.plans += bool(part.forecasts or part.first)
        self._put_samples(part.samples)
        self.epoch = part.epoch
        if part.first or part.last:
            self.seq = part.seq if part.first or self.seq < 0 else self.seq
        if part.last:
            self.complete = True

    def _take_event(self, event: ev.Event) -> None:
        if event.seq <= self.seq:
            return
        if event.seq != self.seq + 1:
            raise Gap(f"event {event.seq} after {self.seq}")
        self.seq = event.seq
        self.recent.append(event)
        if len(self.recent) > 2_000:
            del self.recent[:1_000]
        match event.body:
            case ev.JobAdded(job):
                self._put_job(job)
            case ev.JobChanged(number, status):
                if number in self.jobs:
                    self._put_job(_replace(self.jobs[number], status=status))
            case ev.JobSpecChanged(number, spec):
                if number in self.jobs:
                    self._put_job(_replace(self.jobs[number], spec=spec))
            case ev.JobsForgotten(numbers):
                for number in numbers:
                    self._forget(number)
            case ev.NodeChanged(node):
                self._put_nodes((node,))
            case ev.NodeRemoved(name):
                self.nodes.pop(name, None)
                self.samples.pop(name, None)
                self.touched_nodes.add(name)
            case ev.PartitionChanged(partition):
                self.partitions[partition.name] = partition
            case ev.PolicyChanged(record) if isinstance(record, Reservation):
                self.reservations[record.name] = record
            case ev.PolicyRemoved(kind="reservation", key=name):
                self.reservations.pop(name, None)
            case ev.ControllerStarted(epoch):
                self.epoch = epoch

    def _put_nodes(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.nodes[node.name] = node
            self.touched_nodes.add(node.name)

    def _put_samples(self, samples: Sequence[NodeSample]) -> None:
        for sample in samples:
            self.samples[sample.node] = sample
            self.touched_nodes.add(sample.node)

    def _forget(self, number: JobNumber) -> None:
        job = self.jobs.pop(number, None)
        self._forget_plan(number)
        if job is None:
            return
        self.counts[job.status.state] -= 1
        for name in _holds(job):
            self.held.get(name, set()).discard(number)
            self.touched_nodes.add(name)
        if job.array_index is not None:
            self.elements.get(job.array_number, set()).discard(number)
        self.touched.add(number)
        for element in self.elements.get(number, ()):
            self.touched.add(element)

    def _put_job(self, job: Job) -> None:
        before = self.jobs.get(job.number)
        if before is not None:
            self.counts[before.status.state] -= 1
            for name in _holds(before):
                self.held.get(name, set()).discard(job.number)
                self.touched_nodes.add(name)
        self.counts[job.status.state] += 1
        for name in _holds(job):
            self.held.setdefault(name, set()).add(job.number)
            self.touched_nodes.add(name)
        if job.array_index is not None:
            self.elements.setdefault(job.array_number, set()).add(job.number)
        elif before is None and job.number in self.elements:
            for element in self.elements[job.number]:
                self.touched.add(element)
        self.touched.add(job.number)
        self.jobs[job.number] = job
        if job.status.state is not State.PENDING:
            self._forget_plan(job.number)

    def _forget_plan(self, number: JobNumber) -> None:
        if self.forecasts.pop(number, None) is not None:
            self.plans += 1


def _places(groups: Iterable[NodeGroup]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for group in groups:
        found.setdefault(group.kind, {}).update(dict.fromkeys(expand_hosts(group.nodes), group.name))
    return found


def _holds(job: Job) -> Sequence[str]:
    if job.status.allocation is None:
        return ()
    if job.status.state not in HOLDING:
        return ()
    return job.status.allocation.names


def _replace(job: Job, **changes: object) -> Job:
    import msgspec

    return msgspec.structs.replace(job, **changes)
