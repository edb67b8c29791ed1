"""What associations have used: billing of allocations, charged once, and decay with a half-life. Integers only.

A running job is charged up to the state's `usage_at` by every update, and for the rest when its attempt ends.
Both follow from its start and end alone, so that neither a restart nor a replay loses or doubles anything.
A suspended job is not charged meanwhile: the usage is brought up to date when it is suspended and resumed.
"""

from __future__ import annotations

from math import isqrt, lcm

from msgspec import Struct

from flagplot_wire import events as ev
from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.alloc import Allocation
from flagplot_wire.job import Job, Used
from flagplot_wire.policy import Usage
from flagplotd.core.state import Settings, State
from flagplotd.core.stepper import Stepper

ONE = 1 << 64
"""1 in the fixed point of decay factors."""
MOST = 2**63 - 1
"""The largest integer that a frame and the store carry."""
PIECE = 10_000
"""Associations in one event: a frame must hold it."""
MILLIS = 1_000


def _roots() -> tuple[int, ...]:
    """2^(-1/2), 2^(-1/4), … in fixed point."""
    found = [isqrt(ONE * ONE // 2)]
    while len(found) < 64:
        found.append(isqrt(found[-1] * ONE))
    return tuple(found)


_ROOTS = _roots()


def decay_factor(elapsed_s: int, half_life_s: int) -> int:
    """2^(-elapsed / half-life) × `ONE`, by the binary digits of the exponent; a half-life of 0 never decays."""
    if half_life_s <= 0 or elapsed_s <= 0:
        return ONE
    whole, rest = divmod(elapsed_s, half_life_s)
    value = ONE
    for root in _ROOTS:
        rest *= 2
        if rest >= half_life_s:
            rest -= half_life_s
            value = value * root // ONE
        if not rest:
            break
    return value >> whole


class Rate(Struct, frozen=True):
    """What an allocation costs each second, as exact fractions: thousandths of weighted TRES-seconds, and
    thousandths of GPU-seconds."""

    weighted: int
    gpu: int
    per: int

    def until(self, seconds: int) -> tuple[int, int]:
        """(weighted, GPU) for the first so many seconds: differences of these add up to the whole exactly."""
        return self.weighted * seconds // self.per, self.gpu * seconds // self.per


def rate(allocation: Allocation, settings: Settings, percent: int = 100) -> Rate:
    """The billing rate; `percent` is the `usage_percent` of the job's QoS."""
    cpus = memory_mib = gpus = 0
    shards = 1
    for part in allocation.nodes:
        cpus += part.cpus
        memory_mib += part.memory_mib
        for gpu in part.gpus:
            if shards % gpu.of:
                more = lcm(shards, gpu.of)
                gpus, shards = gpus * (more // shards), more
            gpus += gpu.shards * (shards // gpu.of)
    weighted = (cpus * settings.weight_cpu * 1_024 + memory_mib * settings.weight_memory_gib) * shards
    weighted += gpus * settings.weight_gpu * 1_024
    return Rate(weighted * percent, gpus * MILLIS * 1_024 * percent, 1_024 * shards * 100)


def key_of(job: Job) -> str:
    """The association that a job is charged to; empty without an account."""
    return f"{job.user}@{job.spec.account}" if job.spec.account else ""


def charge(state: State, job: Job, until: int) -> tuple[int, int]:
    """(weighted, GPU) thousandths for what a job held up to `until` and was not charged for yet.

    Less than nothing where the job was charged beyond `until`, since its end was reported late.
    """
    allocation, start = job.status.allocation, job.status.start_time
    if allocation is None or not start:
        return 0, 0
    qos = state.qos.get(job.spec.qos)
    of = rate(allocation, state.settings, qos.usage_percent if qos else 100)
    now, before = of.until(_ran(job, until)), of.until(_ran(job, state.usage_at))
    return now[0] - before[0], now[1] - before[1]


def _ran(job: Job, until: int) -> int:
    status = job.status
    if status.suspended_at:
        until = min(until, status.suspended_at)
    return max(until - status.start_time - status.suspended_s, 0)


def charge_end(step: Stepper, job: Job, end_time: int) -> None:
    """An attempt that still holds its allocation ended: charge the rest of it.

    An end that was told late gives back what was charged beyond it (what decayed of that meanwhile is not
    taken off, so that the seconds add up).
    """
    if not key_of(job):
        return
    if _long_ago(step, step.state.usage_at):
        update(step)
    weighted, gpu = charge(step.state, job, end_time)
    if weighted or gpu:
        changed = _with(step.state, key_of(job), ONE, weighted, gpu)
        step.emit(ev.UsageUpdated(step.state.usage_at, (changed,)))


def used_by_part(job: Job, node: str, end: AttemptEnd) -> Used:
    """What a job's attempt used with the part of `node` that just ended; what one part did not measure is unknown."""
    had = job.status.used or Used()
    if end.cause in ("launch_failed", "lost"):
        return Used(None, None, None)
    allocation = job.status.allocation
    holds_gpus = any(part.gpus for part in allocation.nodes if part.node == node) if allocation is not None else False
    gpu_percent = had.gpu_percent
    if holds_gpus:
        gpu_percent = _sum(had.gpu_percent, end.gpu_percent)
    return Used(_sum(had.cpu_ms, end.cpu_ms), _sum(had.memory_peak_mib, end.memory_peak_mib), gpu_percent)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def held_before(job: Job, until: int) -> dict[str, int]:
    """What all attempts of a job have held up to `until`, as the fields of its status that keep it."""
    status = job.status
    seconds, cpus, gpus = status.held_s(until), 0, 0
    if status.allocation is not None:
        cpus, gpus = status.allocation.cpus, status.allocation.gpu_millis
    return {
        "before_cpu_s": status.before_cpu_s + cpus * seconds,
        "before_gpu_s": status.before_gpu_s + gpus * seconds // MILLIS,
    }


def update_when_due(step: Stepper) -> None:
    """Bring all usage up to now where the last update is long enough ago."""
    if _long_ago(step, step.state.used_at):
        step.state.used_at = step.now
        if _long_ago(step, step.state.usage_at):
            update(step)


def update(step: Stepper) -> None:
    """Decay all usage and charge what holds resources up to now. Says nothing while nothing changes."""
    state, charged = step.state, dict[str, tuple[int, int]]()
    for number in state.active:
        job = state.jobs[number]
        if key := key_of(job):
            weighted, gpu = charge(state, job, step.now)
            before = charged.get(key, (0, 0))
            charged[key] = before[0] + weighted, before[1] + gpu
    factor = decay_factor(step.now - state.usage_at, state.settings.usage_half_life_s)
    changed = []
    for key in sorted(state.usage.keys() | charged.keys()):
        entry = _with(state, key, factor, *charged.get(key, (0, 0)))
        if entry != state.usage.get(key):
            changed.append(entry)
    for start in range(0, len(changed), PIECE):
        step.emit(ev.UsageUpdated(step.now, tuple(changed[start : start + PIECE])))


def _long_ago(step: Stepper, at: int) -> bool:
    return not 0 <= step.now - at < step.state.settings.usage_every_s


def _with(state: State, key: str, factor: int, weighted: int, gpu: int) -> Usage:
    old = state.usage.get(key) or Usage(key, 0, 0)
    millis = (old.gpu_seconds * MILLIS + old.gpu_millis) * factor // ONE + gpu
    weighted = old.weighted * factor // ONE + weighted
    seconds, rest = divmod(min(max(millis, 0), MOST), MILLIS)
    return Usage(key, min(max(weighted, 0), MOST), seconds, rest)
