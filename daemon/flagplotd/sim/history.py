"""A cluster's own past, read from its journal: who asked for what and when, and how long it really ran. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation
from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, JobSpec
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Partition
from flagplot_wire.policy import Record
from flagplotd.core import configured
from flagplotd.core.apply import apply, put_job, put_record
from flagplotd.core.state import NodeUse, Settings, State
from flagplotd.core.stimuli import Boot

Key = tuple[int, int | None]
"""What names a job in every replay: its number, or its array's with its index."""
FOREVER = 1 << 62


class Run(Struct):
    """One attempt of a job: from when it waited, started and ended (epoch seconds), on what, and how it ended. `end` is
    None while it runs."""

    waited_from: int
    start: int
    allocation: Allocation
    end: int | None = None
    outcome: JobState = JobState.COMPLETED
    exit_code: int = 0


class Stay(Struct):
    """A job from its submission on, with its attempts in order."""

    user: str
    spec: JobSpec
    runs: list[Run]

    @property
    def wait_s(self) -> int:
        """Seconds that it waited for its attempts, together."""
        return sum(run.start - run.waited_from for run in self.runs)


class Moment(Struct, frozen=True):
    """What people or machines did at a time, whatever the scheduler decides; `key` of the job where it is about one."""

    time: int
    body: ev.Body
    key: Key | None = None


class Past(Struct):
    """What happened from `since` until the journal's end.

    `opening` is the cluster at `since`; `moments` what came from outside then, in order; `stays` all jobs that ran
    after `since` and were submitted until `until`. `never_ran` counts jobs submitted by then without a run,
    `still_running` those without an end, which count as ended with the journal.
    """

    opening: State
    moments: list[Moment]
    stays: dict[Key, Stay]
    since: int
    until: int
    never_ran: int = 0
    still_running: int = 0


def key_of(job: Job) -> Key:
    """The name of a job."""
    return (job.number, None) if job.array_index is None else (job.array_number, job.array_index)


def read(journal: Iterable[ev.Event], settings: Settings, since: int = 0, until: int = FOREVER) -> Past:
    """The past that a whole journal tells. `since` 0: from its beginning; `until` is cut to its end."""
    walk = _Walk(settings, since, until)
    last = 0
    for event in journal:
        walk.take(event)
        last = event.time
    walk.open(last)
    until = max(min(until, last), walk.since)
    stays: dict[Key, Stay] = {}
    running = 0
    for key, stay in walk.stays.items():
        kept = [run for run in stay.runs if run.end is None or run.end >= walk.since]
        if not kept or walk.submitted.get(key[0], 0) > until:
            continue
        if kept[-1].end is None:
            running += 1
            kept[-1].end = max(last, kept[-1].start)
        stays[key] = Stay(stay.user, stay.spec, kept)
    ran = Counter(number for number, _ in walk.stays)
    asked = [number for number, time in walk.submitted.items() if walk.since <= time <= until]
    never = sum(walk.sizes[number] - ran[number] for number in asked)
    assert walk.opening is not None
    return Past(walk.opening, walk.moments, stays, walk.since, until, never, running)


class _Walk:
    """Applies a journal event by event and writes down what a replay needs of it."""

    def __init__(self, settings: Settings, since: int, until: int) -> None:
        self.state = State(settings=settings)
        self.since, self.until = since, until
        self.opening: State | None = None
        self.moments: list[Moment] = []
        self.stays: dict[Key, Stay] = {}
        self.submitted: dict[int, int] = {}
        self.sizes: dict[int, int] = {}

    def open(self, time: int) -> None:
        """Keep the cluster as it is before what comes at `time`, once that is not before `since`."""
        if self.opening is None:
            self.since = self.since or time
            self.opening = copy(self.state)

    def take(self, event: ev.Event) -> None:
        """One event of the journal."""
        if event.time >= self.since:
            self.open(event.time)
        body = event.body
        before = self.state.jobs.get(body.number) if isinstance(body, ev.JobChanged) else None
        if isinstance(body, ev.JobAdded) and body.job.array_index is None:
            array = body.job.spec.array
            self.submitted[body.job.number] = event.time
            self.sizes[body.job.number] = count_indices(array.indices) if array else 1
        if isinstance(body, ev.JobChanged) and before is not None:
            self._changed(before, body, event.time)
        if self.opening is not None and (moment := self._moment(event)):
            self.moments.append(moment)
        apply(self.state, body)

    def _changed(self, before: Job, body: ev.JobChanged, time: int) -> None:
        status = body.status
        if before.is_array:
            return
        stay = self.stays.get(key_of(before))
        if status.attempt > before.status.attempt and status.allocation is not None:
            if stay is None:
                stay = self.stays[key_of(before)] = Stay(before.user, before.spec, [])
            waited_from = min(status.eligible_time or status.submit_time, status.start_time)
            stay.runs.append(Run(waited_from, status.start_time, status.allocation))
        elif (
            stay is not None and stay.runs[-1].end is None and (status.state.ended or status.state is JobState.PENDING)
        ):
            run = stay.runs[-1]
            run.end = max(status.end_time or time, run.start)
            run.outcome, run.exit_code = status.state, status.exit_code or 0

    def _moment(self, event: ev.Event) -> Moment | None:
        body = event.body
        match body:
            case ev.JobAdded(job) if job.array_index is None and event.time <= self.until:
                return Moment(event.time, body, key_of(job))
            case ev.JobSpecChanged(number, by=by) if by and number in self.state.jobs:
                return Moment(event.time, body, key_of(self.state.jobs[number]))
            case ev.JobChanged(number, cause="prioritised" | "staged") if number in self.state.jobs:
                return Moment(event.time, body, key_of(self.state.jobs[number]))
            case ev.NodeChanged() | ev.NodeRemoved() | ev.PartitionChanged():
                return Moment(event.time, body)
            case ev.PolicyChanged(by=by) | ev.PolicyRemoved(by=by) if by and _of_reservation(body):
                return Moment(event.time, body)
        return None


def _of_reservation(body: ev.PolicyChanged | ev.PolicyRemoved) -> bool:
    kind = body.kind if isinstance(body, ev.PolicyRemoved) else str(body.record.__struct_config__.tag)
    return kind == "reservation"


def copy(state: State, settings: Settings | None = None, rules: State | None = None) -> State:
    """The same cluster as a state of its own; partitions, accounts, users and QoS are those of `rules`."""
    rules = rules or state
    new = State(settings=settings or state.settings, epoch=state.epoch, usage_at=state.usage_at)
    new.nodes, new.partitions, new.usage = dict(state.nodes), dict(rules.partitions), dict(state.usage)
    for partition in rules.partitions.values():
        if partition.name in state.partitions:
            up = state.partitions[partition.name].up
            new.partitions[partition.name] = msgspec.structs.replace(partition, up=up)
    new.use = {name: NodeUse() for name in state.nodes}
    for records in (rules.accounts, rules.associations, rules.qos, state.reservations):
        for record in records.values():
            put_record(new, record)
    for job in state.jobs.values():
        put_job(new, job)
    new.next_number = max(new.next_number, state.next_number)
    return new


def fresh(job: Job, indices: str = "") -> Job:
    """A job as it was submitted; an array with these indices alone."""
    if job.spec.array is None:
        return job
    array = msgspec.structs.replace(job.spec.array, indices=indices)
    status = msgspec.structs.replace(job.status, waiting=indices)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, array=array), status=status)


def under(
    past: Past, present: State, settings: Settings, partitions: tuple[Partition, ...], records: tuple[Record, ...]
) -> State:
    """The opening under settings: the records of the `present` with those of a configuration, as a controller that
    starts with it would have them. Nodes fail as they did, by no lease. Raises `Refused` for what fits nothing."""
    state = copy(past.opening, msgspec.structs.replace(settings, lease_s=0), present)
    wanted = configured.wanted(state, Boot(state.epoch, "", partitions, (), records), past.since)
    for partition in partitions:
        apply(state, ev.PartitionChanged(partition))
    for record in wanted:
        apply(state, ev.PolicyChanged(record))
    return state
