"""Questions about one job: why is it pending, when would it start, could it ever, what would start it now."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import msgspec

from flagplot_wire import constraint
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Forecast, Job, JobSpec, Reason, Status, Why
from flagplot_wire.node import Gpu, Node
from flagplot_wire.units import format_limit, format_memory
from flagplotd.core.state import State, Who
from flagplotd.sched.eligible import why_waiting
from flagplotd.sched.forecasts import Known
from flagplotd.sched.hints import hints
from flagplotd.sched.plan import Policy, run
from flagplotd.sched.preempt import Decision, guarded, told
from flagplotd.sched.shapes import MEM_ALL, Shape, shape_of
from flagplotd.sched.snapshot import Snapshot, take

UNSUBMITTED = JobNumber(2**62)
"""The number that stands for a job not submitted, inside a snapshot."""


def imagined(spec: JobSpec, who: Who, now: int) -> Job:
    """A job for a snapshot's `extra`: behind all that was submitted."""
    waiting = spec.array.indices if spec.array else ""
    status = Status(submit_time=now, eligible_time=now, waiting=waiting)
    return Job(UNSUBMITTED, who.user, who.uid, msgspec.structs.replace(spec, array=None), status)


def forecast_of(snapshot: Snapshot, policy: Policy, number: JobNumber) -> Forecast:
    """The forecast of one job in a snapshot, with hints; a start at the snapshot's moment means now."""
    policy = guarded(snapshot, policy)
    done = run(snapshot, policy)
    for start in done.starts:
        if start.number == number:
            return Forecast(_public(number), (), snapshot.now, tuple(start.allocation.names))
    found = next((forecast for forecast in done.forecasts(Known(only=number)) if forecast.number == number), None)
    if found is None:
        return Forecast(_public(number))
    (found,) = told(snapshot, (found,), Decision())
    changes = () if found.never else hints(done, policy, number)
    return msgspec.structs.replace(found, number=_public(number), hints=changes)


def _public(number: JobNumber) -> JobNumber:
    return JobNumber(0) if number == UNSUBMITTED else number


def explain(state: State, number: JobNumber, policy: Policy, now: int) -> Forecast:
    """Why job `number` is pending; raises KeyError for a job that is not in the state."""
    job = state.jobs[number]
    idle = why_waiting(state, job, now)
    never = never_fits(state, job.spec)
    if idle:
        known = state.forecasts.get(number)
        return Forecast(number, tuple(idle), known.start if known else None, never=never)
    found = forecast_of(take(state, now, policy.default_time_s), policy, number)
    return msgspec.structs.replace(found, never=never) if never else found


def estimate(state: State, spec: JobSpec, who: Who, policy: Policy, now: int) -> Forecast:
    """When a job not submitted would start; its number is 0."""
    job = imagined(spec, who, now)
    if reasons := why_waiting(state, job, now):
        only_begin = all(reason.why is Why.BEGIN_TIME for reason in reasons)
        return Forecast(JobNumber(0), tuple(reasons), spec.begin if only_begin else None)
    return forecast_of(take(state, now, policy.default_time_s, extra=job), policy, UNSUBMITTED)


def never_fits(state: State, spec: JobSpec) -> str:
    """Empty, or a sentence why no node known now (down and drained ones count) can ever hold the job."""
    known = [node for node in state.nodes.values() if node.inventory is not None]
    if not known:
        return ""
    partition = state.partitions.get(spec.partition)
    inside = [node for node in known if partition is None or partition.has(node.name)]
    where = f" of partition {spec.partition}" if spec.partition else ""
    if not inside:
        return f"no node{where} has registered yet"
    request = spec.request
    shape = shape_of(request)
    if sentence := _unknown_types(known, shape):
        return sentence
    named = [node for node in inside if node.name not in request.exclude]
    named = [node for node in named if not request.nodelist or node.name in request.nodelist]
    wanted = constraint.asked(request.constraint, shape.most)
    choices = [[node for node in named if constraint.matches(one, _features(node))] for one in wanted.choices]
    fitting = max(choices, key=len)
    if not fitting:
        return f"no node{where} is left by --nodelist, --exclude and --constraint"
    able = [[node for node in nodes if not lacks(node, shape)] for nodes in choices]
    many = [nodes for nodes in able if len(nodes) >= shape.least]
    if any(constraint.suffices(wanted, [_features(node) for node in nodes], shape.most) for nodes in many):
        return ""
    if many:
        return f"too few nodes{where} that can hold a part are what the constraint {request.constraint} counts"
    if most := max(map(len, able)):
        alike = " of one kind" if len(choices) > 1 else ""
        return f"{shape.least} nodes{alike} are asked for, but only {most}{where} can hold a part: ask for at most that many"
    nearest = min(fitting, key=lambda node: (len(lacks(node, shape)), -_size(node), node.name))
    return f"no node{where} can ever hold this; the nearest, {nearest.name}, has {' and '.join(lacks(nearest, shape))}"


def _features(node: Node) -> tuple[str, ...]:
    return node.inventory.features if node.inventory is not None else ()


def _size(node: Node) -> int:
    assert node.inventory is not None
    return node.cpus + 100 * len(node.inventory.gpus)


def _unknown_types(nodes: list[Node], shape: Shape) -> str:
    there = sorted({gpu.type for node in nodes if node.inventory for gpu in node.inventory.gpus})
    wanted = [word for word, _ in shape.gpus if word] + ([shape.share_type] if shape.share_type else [])
    for word in wanted:
        if word not in there:
            have = f"there are {', '.join(there)}" if there else "no node has a GPU"
            return f"no node has a GPU of type {word}: {have}"
    return ""


def lacks(node: Node, shape: Shape) -> list[str]:
    """What an empty node has less of than the shape needs, in words; empty when it suffices."""
    assert node.inventory is not None
    found = []
    if node.cpus < shape.cpu:
        found.append(f"{node.cpus} CPUs ({shape.cpu} asked)")
    if shape.mem != MEM_ALL and node.inventory.memory_mib < shape.mem:
        found.append(f"{format_memory(node.inventory.memory_mib)} of memory ({format_memory(shape.mem)} asked)")
    cards = node.inventory.gpus
    for word, count in shape.gpus:
        have = sum(not word or gpu.type == word for gpu in cards)
        if have < count:
            found.append(f"{have} {word + ' ' if word else ''}GPUs ({count} asked)")
    total = sum(count for _, count in shape.gpus)
    if not found and total > len(cards):
        found.append(f"{len(cards)} GPUs ({total} asked)")
    if (shape.shards or shape.vram) and not any(_shares(gpu, shape) for gpu in cards):
        largest = max((gpu.shards for gpu in cards), default=0)
        asked = f"{shape.shards} shards of one GPU" if shape.shards else f"{format_memory(shape.vram)} on one GPU"
        vram = max((gpu.vram_mib or 0 for gpu in cards), default=0)
        have_words = f"{largest} shards on each GPU" if shape.shards else f"GPUs of {format_memory(vram)}"
        found.append(f"{have_words if cards else 'no GPU'} ({asked} asked)")
    if (
        shape.near
        and not found
        and (total or shape.shards or shape.vram)
        and (most := _beside(node, shape)) < shape.cpu
    ):
        found.append(f"{most} CPUs on the NUMA nodes of such GPUs ({shape.cpu} asked)")
    return found


def _beside(node: Node, shape: Shape) -> int:
    """The most CPUs on the NUMA nodes of GPUs that the shape may take, where the node is empty."""
    assert node.inventory is not None
    types = {word for word, _ in shape.gpus}
    cards = [
        gpu for gpu in node.inventory.gpus if "" in types or gpu.type in types or (not types and _shares(gpu, shape))
    ]
    cpus = {numa.index: mask_of(numa.cpu_ids).bit_count() for numa in node.inventory.numa} or {0: node.cpus}
    there = Counter(gpu.numa if gpu.numa in cpus else 0 for gpu in cards)
    total = sum(count for _, count in shape.gpus) or 1
    sets = (some for size in range(1, total + 1) for some in combinations(there, size))
    fits = (some for some in sets if sum(there[numa] for numa in some) >= total)
    return max((sum(cpus.get(numa, 0) for numa in some) for some in fits), default=0)


def _shares(gpu: Gpu, shape: Shape) -> bool:
    if shape.share_type and gpu.type != shape.share_type:
        return False
    return shape.shards <= gpu.shards if shape.shards else shape.vram <= (gpu.vram_mib or 0)


def in_words(forecast: Forecast, now: int) -> str:
    """A forecast as one sentence."""
    if forecast.never:
        return f"It can never start: {forecast.never}."
    parts = [_reason_words(reason) for reason in forecast.reasons]
    when = ""
    if forecast.start is not None:
        when = (
            "It starts now." if forecast.start <= now else f"Planned to start in {format_limit(forecast.start - now)}"
        )
        if forecast.start > now:
            when += f" on {forecast.nodes[0]}." if forecast.nodes else "."
    return " ".join(word for word in (f"Waiting: {'; '.join(parts)}." if parts else "", when) if word)


def _reason_words(reason: Reason) -> str:
    jobs = f" ({', '.join(str(number) for number in reason.jobs)})" if reason.jobs else ""
    return f"{reason.why}: {reason.text}{jobs}" if reason.text else f"{reason.why}{jobs}"
