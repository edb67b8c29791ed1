"""What must always be true of the state; recomputed from scratch."""

from __future__ import annotations

from collections import Counter

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import count_indices, has_index, mask_of
from flagplot_wire.job import State as JobState
from flagplotd.core.apply import holds
from flagplotd.core.limits import scopes, weight
from flagplotd.core.needs import held_by
from flagplotd.core.state import NodeUse, State


def check(state: State) -> list[str]:
    """Every violation as a sentence; an empty list when all is well."""
    return [*_use(state), *_sets(state), *_arrays(state), *_capacity(state), *_counts(state)]


def _use(state: State) -> list[str]:
    wrong: list[str] = []
    summed: dict[str, NodeUse] = {}
    for job in state.jobs.values():
        if not holds(job) or job.status.allocation is None:
            continue
        for part in job.status.allocation.nodes:
            use = summed.setdefault(part.node, NodeUse())
            mask = mask_of(part.cpu_ids)
            if use.cpus & mask and not job.status.suspended_at:
                wrong.append(f"{part.node}: CPUs {part.cpu_ids} of job {job.number} are held twice")
            if mask.bit_count() != part.cpus:
                wrong.append(f"{part.node}: job {job.number} counts {part.cpus} CPUs but lists {part.cpu_ids}")
            if not job.status.suspended_at:
                use.cpus |= mask
            use.memory_mib += part.memory_mib
            for gpu in part.gpus:
                use.gpu_shards.extend([0] * (gpu.index + 1 - len(use.gpu_shards)))
                use.gpu_shards[gpu.index] += gpu.shards
                if use.gpu_shards[gpu.index] > gpu.of:
                    wrong.append(f"{part.node}: GPU {gpu.index} holds {use.gpu_shards[gpu.index]} of {gpu.of} shards")
            use.jobs.add(job.number)
    for name in sorted({*summed, *state.use}):
        want, have = summed.get(name, NodeUse()), state.use.get(name, NodeUse())
        shards = (_trim(want.gpu_shards), _trim(have.gpu_shards))
        if (want.cpus, want.memory_mib, want.jobs) != (have.cpus, have.memory_mib, have.jobs) or shards[0] != shards[1]:
            wrong.append(f"{name}: use is {have}, the jobs say {want}")
    return wrong


def _trim(shards: list[int]) -> list[int]:
    kept = list(shards)
    while kept and kept[-1] == 0:
        kept.pop()
    return kept


def _sets(state: State) -> list[str]:
    wrong = []
    pending = {number for number, job in state.jobs.items() if job.status.state is JobState.PENDING}
    active = {number for number, job in state.jobs.items() if holds(job)}
    if pending != state.pending:
        wrong.append(f"pending differs by {sorted(pending ^ state.pending)}")
    if active != state.active:
        wrong.append(f"active differs by {sorted(active ^ state.active)}")
    suspended = {number for number, job in state.jobs.items() if job.status.state is JobState.SUSPENDED}
    given = {number for number in pending if state.jobs[number].status.victims}
    if suspended != state.suspended or given != state.given_room:
        wrong.append(
            f"suspended and given_room are {state.suspended} and {state.given_room}, not {suspended} and {given}"
        )
    names: dict[tuple[str, str], list[JobNumber]] = {}
    for number in sorted(pending | active):
        names.setdefault((state.jobs[number].user, state.jobs[number].spec.name), []).append(number)
    if names != state.names:
        wrong.append(f"names is {state.names}, the jobs say {names}")
    if state.jobs and state.next_number <= max(state.jobs):
        wrong.append(f"the next number, {state.next_number}, is taken")
    for job in state.jobs.values():
        status = job.status
        if status.state in (JobState.RUNNING, JobState.COMPLETING) and not job.is_array and status.allocation is None:
            wrong.append(f"job {job.number} is {status.state} and holds nothing")
        if status.state.ended and status.ending is not None:
            wrong.append(f"job {job.number} ended and is still ending")
        if (status.state is JobState.COMPLETING) != (status.ending is not None) and not job.is_array:
            wrong.append(f"job {job.number} is {status.state} and ending is {status.ending}")
        if status.state is JobState.SUSPENDED and not status.suspended_at:
            wrong.append(f"job {job.number} is suspended since no time")
        if status.suspended_at and status.state not in (JobState.SUSPENDED, JobState.COMPLETING):
            wrong.append(f"job {job.number} is {status.state} and stopped since {status.suspended_at}")
        if status.victims and status.state is not JobState.PENDING:
            wrong.append(f"job {job.number} is {status.state} and waits for the room of {status.victims}")
        if job.array_index is not None and state.elements.get(job.array_number, {}).get(job.array_index) != job.number:
            wrong.append(f"element {job.number} is not listed with its array {job.array_number}")
    return wrong


def _arrays(state: State) -> list[str]:
    wrong = []
    for number, elements in state.elements.items():
        array = state.jobs.get(number)
        if array is None or array.spec.array is None:
            wrong.append(f"elements of {number}, which is no array")
            continue
        jobs = [state.jobs[element] for element in elements.values()]
        counts = (
            sum(holds(job) for job in jobs),
            sum(job.status.state.ended for job in jobs),
            sum(job.status.state.ended and job.status.state is not JobState.COMPLETED for job in jobs),
        )
        status = array.status
        if counts != (status.elements_running, status.elements_ended, status.elements_failed):
            wrong.append(f"array {number} counts {status} but its elements {counts}")
        wrong += [f"element {job.number} waits too" for job in jobs if has_index(status.waiting, job.array_index or 0)]
        if status.waiting and status.state is not JobState.PENDING:
            wrong.append(f"array {number} is {status.state} with elements waiting")
        if status.state.ended and counts[1] < len(jobs):
            wrong.append(f"array {number} ended before its elements")
        if count_indices(status.waiting) + len(elements) > count_indices(array.spec.array.indices):
            wrong.append(f"array {number} has more elements than indices")
    return wrong


def _capacity(state: State) -> list[str]:
    wrong = []
    for name, use in state.use.items():
        node = state.nodes.get(name)
        if node is None or node.inventory is None:
            continue
        if use.memory_mib > node.inventory.memory_mib:
            wrong.append(f"{name}: {use.memory_mib} of {node.inventory.memory_mib} MiB are held")
        if use.cpus & ~mask_of(node.inventory.cpu_ids):
            wrong.append(f"{name}: CPUs are held that it does not have")
    return wrong


def _counts(state: State) -> list[str]:
    counted: Counter[str] = Counter()
    for job in state.jobs.values():
        if jobs := weight(job):
            counted.update(dict.fromkeys(scopes(state, job.user, job.spec), jobs))
    wrong = {key for key in {*counted, *state.submitted} if counted[key] != state.submitted.get(key, 0)}
    held: dict[str, list[int]] = {}
    seats: Counter[str] = Counter()
    for job in (state.jobs[number] for number in state.active):
        for key in scopes(state, job.user, job.spec):
            sums = held.setdefault(key, [0] * 5)
            held[key] = [one + more for one, more in zip(sums, held_by(job.spec.request), strict=True)]
        for one in job.spec.request.licenses:
            seats[one.name] += one.count
    if held != state.held or seats != Counter(state.seats):
        return [f"held are {state.held} and {state.seats}, the jobs say {held} and {dict(seats)}"]
    defaults = {one.user: one.account for one in state.associations.values() if one.default}
    if defaults != state.default_accounts or len(defaults) != sum(one.default for one in state.associations.values()):
        return [f"default accounts are {state.default_accounts}, the associations say {defaults}"]
    return [f"{key}: {state.submitted.get(key, 0)} jobs are counted, there are {counted[key]}" for key in sorted(wrong)]
