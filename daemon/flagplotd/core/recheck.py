"""The second look at a planned start: does it still hold in the state of now?"""

from __future__ import annotations

from flagplot_wire import constraint
from flagplot_wire.alloc import Allocation, NodeAlloc
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import has_index, mask_of
from flagplot_wire.job import Job
from flagplotd.core import dependency
from flagplotd.core.needs import span
from flagplotd.core.sharing import Sharing
from flagplotd.core.state import NodeUse, State
from flagplotd.core.stimuli import Start


def why_not(state: State, start: Start, now: int, sharing: Sharing | None = None) -> str:
    """Why this start no longer holds; empty when it does. `sharing` has counted the starts made with it."""
    if sentence := why_not_job(state, start.number, now, sharing, start.index):
        return sentence
    job, sharing = state.jobs[start.number], sharing or Sharing(state, now)
    partition, closed = state.partitions[job.spec.partition], sharing.closed(job)
    for part in start.allocation.nodes:
        if not sharing.open_to(job, part, closed):
            return f"{part.node}: is reserved"
        if not partition.has(part.node):
            return f"{part.node}: is not in partition {partition.name}"
        reason = node_cannot(state, part, state.use.get(part.node, NodeUse())) or _parked(state, job, part)
        if reason:
            return f"{part.node}: {reason}"
    return not_as_asked(state, job, start.allocation)


def not_as_asked(state: State, job: Job, allocation: Allocation) -> str:
    """Why these nodes, which are there, are not what the constraint asks for: features may have changed since they were
    chosen. Empty where they are."""
    request = job.spec.request
    if not request.constraint:
        return ""
    inventories = [state.nodes[name].inventory for name in allocation.names]
    features = [one.features if one is not None else () for one in inventories]
    wanted = constraint.asked(request.constraint, span(request)[1])
    return "" if constraint.holds(wanted, features) else f"the nodes are not as {request.constraint} asks"


def why_not_job(
    state: State, number: JobNumber, now: int, sharing: Sharing | None = None, index: int | None = None
) -> str:
    """As `why_not`, apart from where it starts."""
    job = state.jobs.get(number)
    if job is None or number not in state.pending:
        return "the job is not pending"
    if job.spec.hold or job.status.staging or job.spec.begin > now or job.status.retry_at > now:
        return "the job may not start yet"
    partition = state.partitions.get(job.spec.partition)
    if partition is None or not partition.up:
        return "the partition is down"
    if dependency.check(state, job, now)[0] != "ok":
        return "a dependency does not hold"
    if job.spec.array is not None:
        limit = job.spec.array.limit
        if not job.status.waiting or (index is not None and not has_index(job.status.waiting, index)):
            return "the element was started or cancelled"
        if limit and job.status.elements_running >= limit:
            return "the array's limit is reached"
    elif job.array_index is not None:
        array = state.jobs.get(job.array_number)
        limit = array.spec.array.limit if array is not None and array.spec.array is not None else 0
        if array is not None and limit and array.status.elements_running >= limit:
            return "the array's limit is reached"
    sharing = sharing or Sharing(state, now)
    if over := sharing.over(job):
        return over[0].text
    return ""


def _parked(state: State, job: Job, part: NodeAlloc) -> str:
    """Why CPUs that a suspended job goes on with are not for this job. Jobs that others are preempted for share what
    room there is: one may start where another's victim was."""
    for number in () if job.status.victims else state.suspended:
        allocation = state.jobs[number].status.allocation
        for held in allocation.nodes if allocation is not None else ():
            if held.node == part.node and mask_of(held.cpu_ids) & mask_of(part.cpu_ids):
                return f"suspended job {number} goes on with these CPUs"
    return ""


def node_cannot(state: State, part: NodeAlloc, use: NodeUse) -> str:
    """Why a node in `use` has no room for a part; empty where it has."""
    node = state.nodes.get(part.node)
    if node is None or node.inventory is None or not node.responding or node.drain is not None:
        return "is not available"
    mask = mask_of(part.cpu_ids)
    if mask & use.cpus or mask & ~mask_of(node.inventory.cpu_ids):
        return "the CPUs are taken"
    if use.memory_mib + part.memory_mib > node.inventory.memory_mib:
        return "the memory is taken"
    for gpu in part.gpus:
        if gpu.index >= len(node.inventory.gpus):
            return "there is no such GPU"
        held = use.gpu_shards[gpu.index] if gpu.index < len(use.gpu_shards) else 0
        card = node.inventory.gpus[gpu.index]
        if card.fault or gpu.of != card.shards or held + gpu.shards > card.shards:
            return f"GPU {gpu.index} is taken"
    return ""
