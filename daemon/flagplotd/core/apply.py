"""The only writer of the state: applies events, live and in replay. Applying one twice changes nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappush
from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.policy import ROOT, Account, Association, Kind, Record, kind_of
from flagplot_wire.steps import Step
from flagplotd.core.limits import scopes, weight
from flagplotd.core.needs import held_by
from flagplotd.core.state import NodeUse, State

HOLDING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})
"""States in which a job holds its allocation."""


def apply(state: State, body: ev.Body) -> None:
    """Change `state` as the event says."""
    match body:
        case ev.JobAdded(job):
            put_job(state, job)
        case ev.JobChanged(number, status):
            if number in state.jobs:
                put_job(state, msgspec.structs.replace(state.jobs[number], status=status))
        case ev.JobSpecChanged(number, spec):
            if number in state.jobs:
                put_job(state, msgspec.structs.replace(state.jobs[number], spec=spec))
        case ev.JobsForgotten(numbers):
            for number in numbers:
                _forget(state, number)
        case ev.NodeChanged(node):
            state.nodes[node.name] = node
            state.use.setdefault(node.name, NodeUse())
        case ev.NodeRemoved(name):
            state.nodes.pop(name, None)
            if name in state.use and not state.use[name].jobs:
                del state.use[name]
        case ev.PartitionChanged(partition):
            old = state.partitions.get(partition.name)
            state.partitions[partition.name] = partition
            if (old.qos if old is not None else "") != partition.qos:
                _count_again(state)
        case ev.PartitionRemoved(name):
            gone = state.partitions.pop(name, None)
            if gone is not None and gone.qos:
                _count_again(state)
        case ev.PolicyChanged(record):
            put_record(state, record)
        case ev.PolicyRemoved(kind, key):
            records_of(state, kind).pop(key, None)
            if kind == "user":
                state.usage.pop(key, None)
                _not_default(state, key)
            elif kind == "account" and f"account:{key}" in state.submitted:
                _count_again(state)
        case ev.UsageUpdated(time, usage):
            state.usage_at = time
            state.usage.update((entry.key, entry) for entry in usage)
        case ev.StepChanged(record):
            put_step(state, record)
        case ev.ControllerStarted(epoch):
            state.epoch = epoch


def put_job(state: State, job: Job) -> None:
    """Store a job's record and keep what follows from it: use, pending, active, elements, counts, next number."""
    number = job.number
    before = state.jobs.get(number)
    if before is not None:
        if holds(before):
            _account(state, before, -1)
        if (before.user, before.spec.name) != (job.user, job.spec.name):
            _name(state, before, False)
        _count(state, before, -1)
    state.jobs[number] = job
    _count(state, job, 1)
    if holds(job):
        _account(state, job, 1)
    _member(state.active, number, holds(job))
    _member(state.pending, number, job.status.state is JobState.PENDING)
    _member(state.suspended, number, job.status.state is JobState.SUSPENDED)
    _member(state.given_room, number, job.status.state is JobState.PENDING and bool(job.status.victims))
    _name(state, job, number in state.active or number in state.pending)
    if job.status.state is JobState.PENDING:
        at = due_at(job)
        if at and (before is None or due_at(before) != at):
            heappush(state.due, (at, number))
    if job.status.site_factor:
        state.site[number] = job.status.site_factor
    else:
        state.site.pop(number, None)
    if job.array_index is not None:
        state.elements.setdefault(job.array_number, {})[job.array_index] = number
    state.next_number = max(state.next_number, number + 1)
    if job.status.state is not JobState.PENDING:
        state.forecasts.pop(number, None)


def put_step(state: State, step: Step) -> None:
    """Store a running step; of one that has ended only its number is kept."""
    kept = state.steps.setdefault(step.number, {})
    if step.state == "RUNNING":
        kept[step.step] = step
    else:
        kept.pop(step.step, None)
    if not kept:
        del state.steps[step.number]
    state.next_step[step.number] = max(state.next_step.get(step.number, 0), step.step + 1)


def put_record(state: State, record: Record) -> None:
    """Store an account, association, QoS or reservation."""
    records, moved = records_of(state, kind_of(record)), False
    if isinstance(record, Account) and f"account:{record.name}" in state.submitted:
        old = state.accounts.get(record.name)
        moved = (old.parent if old is not None else ROOT) != record.parent
    records[record.key] = record
    if isinstance(record, Association):
        _not_default(state, record.key)
        if record.default:
            state.default_accounts[record.user] = record.account
    if moved:
        _count_again(state)


def _not_default(state: State, key: str) -> None:
    user, _, account = key.partition("@")
    if state.default_accounts.get(user) == account:
        del state.default_accounts[user]


def records_of(state: State, kind: Kind) -> dict[str, Any]:
    """The state's records of a kind by key."""
    kinds: dict[str, dict[str, Any]] = {
        "account": state.accounts,
        "user": state.associations,
        "qos": state.qos,
        "reservation": state.reservations,
    }
    return kinds[kind]


def holds(job: Job) -> bool:
    """True when the job holds resources."""
    return job.status.allocation is not None and job.status.state in HOLDING and not job.is_array


def due_at(job: Job) -> int:
    """The first moment at which the job may start, as far as a clock alone decides (0: any)."""
    return max(job.spec.begin, job.status.retry_at)


def _name(state: State, job: Job, wanted: bool) -> None:
    key = (job.user, job.spec.name)
    numbers = state.names.setdefault(key, []) if wanted else state.names.get(key, [])
    at = bisect_left(numbers, job.number)
    there = at < len(numbers) and numbers[at] == job.number
    if wanted and not there:
        insort(numbers, job.number)
    elif there and not wanted:
        numbers.pop(at)
        if not numbers:
            del state.names[key]


def _count(state: State, job: Job, sign: int) -> None:
    if jobs := weight(job):
        _add(state, job, sign * jobs)


def _add(state: State, job: Job, jobs: int) -> None:
    for key in scopes(state, job.user, job.spec):
        left = state.submitted.get(key, 0) + jobs
        if left:
            state.submitted[key] = left
        else:
            del state.submitted[key]


def _count_again(state: State) -> None:
    """An account moved or a partition has another QoS: the keys of its jobs are others."""
    state.submitted.clear()
    state.held.clear()
    for number in state.active:
        _hold(state, state.jobs[number], 1)
    groups: dict[tuple[str, str, str, str], tuple[Job, int]] = {}
    for job in state.jobs.values():
        if jobs := weight(job):
            group = (job.user, job.spec.account, job.spec.qos, job.spec.partition)
            first, counted = groups.get(group, (job, 0))
            groups[group] = (first, counted + jobs)
    for job, jobs in groups.values():
        _add(state, job, jobs)


def _hold(state: State, job: Job, sign: int) -> None:
    """Sum what an active job counts for in limits."""
    counts = held_by(job.spec.request)
    for key in scopes(state, job.user, job.spec):
        sums = state.held.setdefault(key, [0] * len(counts))
        for place, count in enumerate(counts):
            sums[place] += sign * count
        if not sums[0]:
            del state.held[key]


def _member(numbers: set[JobNumber], number: JobNumber, wanted: bool) -> None:
    if wanted:
        numbers.add(number)
    else:
        numbers.discard(number)


def _account(state: State, job: Job, sign: int) -> None:
    assert job.status.allocation is not None
    _hold(state, job, sign)
    for wanted in job.spec.request.licenses:
        state.seats[wanted.name] = state.seats.get(wanted.name, 0) + sign * wanted.count
    for part in job.status.allocation.nodes:
        use = state.use.setdefault(part.node, NodeUse())
        mask = 0 if job.status.suspended_at else mask_of(part.cpu_ids)
        use.cpus = use.cpus | mask if sign > 0 else use.cpus & ~mask
        use.memory_mib += sign * part.memory_mib
        for gpu in part.gpus:
            use.gpu_shards.extend([0] * (gpu.index + 1 - len(use.gpu_shards)))
            use.gpu_shards[gpu.index] += sign * gpu.shards
        _member(use.jobs, job.number, sign > 0)


def _forget(state: State, number: JobNumber) -> None:
    job = state.jobs.pop(number, None)
    if job is None:
        return
    if holds(job):
        _account(state, job, -1)
    _name(state, job, False)
    _count(state, job, -1)
    state.active.discard(number)
    state.suspended.discard(number)
    state.given_room.discard(number)
    state.pending.discard(number)
    state.forecasts.pop(number, None)
    state.live.pop(number, None)
    state.site.pop(number, None)
    state.steps.pop(number, None)
    state.next_step.pop(number, None)
    state.elements.pop(number, None)
    if job.array_index is not None and job.array_number in state.elements:
        state.elements[job.array_number].pop(job.array_index, None)
