"""Slurm's multifactor priority: weight × factor summed, less nice (slurm.schedmd.com/priority_multifactor.html).

Every factor is an integer from 0 to a million, so that the same cluster gives the same order everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Job, Request
from flagplot_wire.node import Node
from flagplot_wire.policy import PriorityRow
from flagplotd.core.fairshare import MILLION, Remembered
from flagplotd.core.state import State
from flagplotd.sched.plan import Policy
from flagplotd.sched.shapes import MEM_ALL, MEM_PART, shape_of

TOP = 2**32 - 1
"""The highest priority."""


class Totals(Struct, frozen=True):
    """What the whole cluster has, whatever is up or in use; `shards` of all its GPUs together."""

    nodes: int = 0
    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0
    shards: int = 0
    vram_mib: int = 0


class Inputs(Struct, frozen=True):
    """What the priorities of jobs follow from, beside the jobs: factors in millionths by name or `user@account`.

    `tiers` are the partitions' own; `site` adds to a job's priority by its number. Jobs that others were
    preempted for come `first` of all: the room is theirs.
    """

    totals: Totals = Totals()
    tiers: dict[str, int] = {}
    partitions: dict[str, int] = {}
    qos: dict[str, int] = {}
    associations: dict[str, int] = {}
    fairshare: dict[str, int] = {}
    site: dict[JobNumber, int] = {}
    first: frozenset[int] = frozenset()


class _Asked(Struct, frozen=True):
    """The weighted parts that follow from a request alone."""

    size: int = 0
    tres: int = 0


def inputs(state: State, policy: Policy, memory: Remembered) -> Inputs:
    """Taken from the state of this moment, and apart from it. What no weight asks for is left out."""
    tiers = {partition.name: partition.priority_tier for partition in state.partitions.values()}
    by_size = policy.weight_size or policy.weight_tres_cpu or policy.weight_tres_mem or policy.weight_tres_gpu
    fair = policy.weight_fairshare and state.associations
    return Inputs(
        totals=totals(state.nodes.values()) if by_size else Totals(),
        tiers=tiers,
        partitions=_of_the_highest(tiers),
        qos=_of_the_highest({qos.name: qos.priority for qos in state.qos.values()}),
        associations=_of_the_highest({key: one.priority for key, one in state.associations.items() if one.priority})
        if policy.weight_association
        else {},
        fairshare=memory.factors(state.accounts, state.associations, state.usage) if fair else {},
        first=frozenset(state.given_room),
        site=dict(state.site),
    )


def totals(nodes: Iterable[Node]) -> Totals:
    """Summed over the nodes that ever registered."""
    count = cpus = memory_mib = gpus = shards = vram_mib = 0
    for node in nodes:
        if (inventory := node.inventory) is not None:
            count += 1
            cpus += _cpus(inventory.cpu_ids)
            memory_mib += inventory.memory_mib
            gpus += len(inventory.gpus)
            for gpu in inventory.gpus:
                shards += gpu.shards
                vram_mib += gpu.vram_mib or 0
    return Totals(count, cpus, memory_mib, gpus, shards, vram_mib)


@lru_cache(4_096)
def _cpus(cpu_ids: str) -> int:
    return mask_of(cpu_ids).bit_count()


def _of_the_highest(values: Mapping[str, int]) -> dict[str, int]:
    highest = max(values.values(), default=0)
    return {name: max(value, 0) * MILLION // highest for name, value in values.items()} if highest > 0 else {}


def priorities(jobs: Sequence[Job], given: Inputs, policy: Policy, now: int) -> list[int]:
    """The priorities of these jobs at `now` (epoch seconds), in their order; what an operator set goes first."""
    fairshare = _all_weighted(policy.weight_fairshare, given.fairshare)
    associations = _all_weighted(policy.weight_association, given.associations)
    partitions = _all_weighted(policy.weight_partition, given.partitions)
    qos = _all_weighted(policy.weight_qos, given.qos)
    known: dict[Request, int] = {}
    by_whom, by_request, site = bool(fairshare or associations), bool(given.totals.nodes), given.site
    weight_age, age_max_s = policy.weight_age, max(policy.age_max_s, 1)
    found: list[int] = []
    for job in jobs:
        status, spec = job.status, job.spec
        if status.priority > 0:
            found.append(min(status.priority, TOP))
            continue
        value = partitions.get(spec.partition, 0) + qos.get(spec.qos, 0) - spec.nice
        if by_whom:
            key = f"{job.user}@{spec.account}"
            value += fairshare.get(key, 0) + associations.get(key, 0)
        if by_request:
            more = known.get(spec.request)
            if more is None:
                parts = asked(spec.request, given.totals, policy)
                more = known[spec.request] = parts.size + parts.tres
            value += more
        age = now - status.eligible_time if status.eligible_time else 0
        if age > 0:
            value += weight_age * ((age if age < age_max_s else age_max_s) * MILLION // age_max_s) // MILLION
        if site:
            value += site.get(job.number, 0)
        found.append(value if 0 <= value <= TOP else 0 if value < 0 else TOP)
    return found


def row(job: Job, given: Inputs, policy: Policy, now: int) -> PriorityRow:
    """The parts of one job's priority; `nice` is taken off. Where an operator set it, that is the total alone."""
    total = priorities((job,), given, policy, now)[0]
    spec = job.spec
    named = PriorityRow(job.number, job.display_id, job.user, spec.account, spec.partition, spec.qos, total)
    if job.status.priority > 0:
        return named
    key, size = f"{job.user}@{spec.account}", asked(spec.request, given.totals, policy)
    age_max_s = max(policy.age_max_s, 1)
    age = min(max(now - (job.status.eligible_time or now), 0), age_max_s)
    return structs.replace(
        named,
        age=_weighted(policy.weight_age, age * MILLION // age_max_s),
        fairshare=_weighted(policy.weight_fairshare, given.fairshare.get(key, 0)),
        size=size.size,
        partition_part=_weighted(policy.weight_partition, given.partitions.get(spec.partition, 0)),
        qos_part=_weighted(policy.weight_qos, given.qos.get(spec.qos, 0)),
        tres=size.tres,
        nice=spec.nice,
        site=given.site.get(job.number, 0),
        association=_weighted(policy.weight_association, given.associations.get(key, 0)),
    )


def _weighted(weight: int, factor: int) -> int:
    return weight * factor // MILLION


def _all_weighted(weight: int, factors: Mapping[str, int]) -> dict[str, int]:
    return {name: weight * factor // MILLION for name, factor in factors.items()} if weight else {}


@lru_cache(65_536)
def asked(request: Request, of: Totals, policy: Policy) -> _Asked:
    """What a request alone gives; known of the requests of a whole queue from one cycle to the next."""
    if not of.nodes:
        return _Asked()
    shape = shape_of(request)
    nodes, cpus = shape.least, shape.least * shape.cpu
    whole = 2 * of.nodes * max(of.cpus, 1)
    size = min(nodes * of.cpus + cpus * of.nodes, whole)
    if policy.favor_small:
        size = whole - size
    memory = {MEM_ALL: (nodes, of.nodes), MEM_PART: (cpus, of.cpus)}.get(
        shape.mem, (nodes * max(shape.mem, 0), of.memory_mib)
    )
    gpus = (
        _part(nodes * sum(count for _, count in shape.gpus), of.gpus)
        + _part(nodes * shape.shards, of.shards)
        + _part(nodes * shape.vram, of.vram_mib)
    )
    tres = (
        _weighted(policy.weight_tres_cpu, _part(cpus, of.cpus))
        + _weighted(policy.weight_tres_mem, _part(*memory))
        + _weighted(policy.weight_tres_gpu, min(gpus, MILLION))
    )
    return _Asked(_weighted(policy.weight_size, size * MILLION // whole), tres)


def _part(asked: int, of: int) -> int:
    """A part of a whole in millionths; more than there is counts as all."""
    return min(asked * MILLION // of, MILLION) if of > 0 else 0
