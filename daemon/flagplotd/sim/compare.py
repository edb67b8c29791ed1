"""What a past and its replays came to: waits by user and size, utilisation, fairness. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from flagplot_wire import events as ev
from flagplot_wire.indices import mask_of
from flagplot_wire.job import JobSpec
from flagplot_wire.node import Node
from flagplot_wire.policy import ROOT
from flagplotd.core.needs import needs
from flagplotd.core.state import State
from flagplotd.core.usage import rate
from flagplotd.sim.history import Key, Past, Run, Stay

SHORTEST_S = 10
"""Jobs shorter than this count as this long in the bounded slowdown."""
WHOLE = 1_000
"""Parts of a GPU."""
SIZES = ("1 CPU", "2 to 16 CPUs", "more CPUs", "part of a GPU", "1 GPU", "2 to 8 GPUs", "9 to 64 GPUs", "more GPUs")
"""Classes of jobs; those with GPUs count by GPUs alone."""


class Waits(Struct, frozen=True):
    """Waits of some jobs, in seconds: the mean, the middle one, and that which 95 of 100 do not exceed."""

    jobs: int
    mean_s: float
    median_s: float
    p95_s: int


class Figures(Struct, frozen=True):
    """One course of events. Utilisation and fairness are parts of 1, None where there is nothing to say.

    `fair_use` is Jain's index over each user's usage for its shares, `fair_waits` over the users' mean bounded
    slowdown. `unstarted` counts jobs that never started in a replay, `end` is when the last job ended.
    """

    waits: Waits
    by_user: dict[str, Waits]
    by_size: dict[str, Waits]
    cpu_utilisation: float | None
    gpu_utilisation: float | None
    fair_use: float | None
    fair_waits: float | None
    unstarted: int
    end: int


def waits(values: Sequence[int]) -> Waits:
    """The figures of these waits."""
    ordered = sorted(values)
    if not ordered:
        return Waits(0, 0.0, 0.0, 0)
    return Waits(
        len(ordered), sum(ordered) / len(ordered), float(median(ordered)), ordered[-(-95 * len(ordered) // 100) - 1]
    )


def size_of(spec: JobSpec) -> str:
    """The class of `SIZES` that a job belongs to, by the least it may get."""
    request, least = spec.request, needs(spec.request)
    if request.shards or request.vram_mib:
        return "part of a GPU"
    if least.gpus:
        return next(
            name
            for most, name in ((1, SIZES[4]), (8, SIZES[5]), (64, SIZES[6]), (1 << 62, SIZES[7]))
            if least.gpus <= most
        )
    return next(name for most, name in ((1, SIZES[0]), (16, SIZES[1]), (1 << 62, SIZES[2])) if least.cpus <= most)


def measure(past: Past, stays: Mapping[Key, Stay], rules: State) -> Figures:
    """The figures of a course of events, real or replayed, over the jobs that waited after `since`."""
    measured = {key: stay for key, stay in stays.items() if stay.runs[0].start >= past.since}
    users: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    for stay in measured.values():
        users.setdefault(stay.user, []).append(stay.wait_s)
        sizes.setdefault(size_of(stay.spec), []).append(stay.wait_s)
    runs = [run for stay in stays.values() for run in stay.runs]
    cpus, gpus = capacity(past)
    return Figures(
        waits=waits([stay.wait_s for stay in measured.values()]),
        by_user={user: waits(users[user]) for user in sorted(users)},
        by_size={size: waits(sizes[size]) for size in SIZES if size in sizes},
        cpu_utilisation=_part(sum(_lasted(run, past) * run.allocation.cpus for run in runs), cpus),
        gpu_utilisation=_part(sum(_lasted(run, past) * _gpu_parts(run) for run in runs), gpus),
        fair_use=jain(_use_for_shares(past, stays.values(), rules)),
        fair_waits=jain(_slowdowns(measured.values())),
        unstarted=len(past.stays.keys() - stays.keys()),
        end=max((run.end or 0 for run in runs), default=past.since),
    )


def jain(values: Sequence[float]) -> float | None:
    """Jain's index, (Σx)² / n Σx²: 1 where all are equal, 1/n where one has all (Jain, Chiu, Hawe 1984)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def _part(used: int, there: int) -> float | None:
    return used / there if there else None


def _lasted(run: Run, past: Past) -> int:
    return max(min(run.end or past.until, past.until) - max(run.start, past.since), 0)


def _gpu_parts(run: Run) -> int:
    return sum(gpu.shards * WHOLE // gpu.of for part in run.allocation.nodes for gpu in part.gpus)


def capacity(past: Past) -> tuple[int, int]:
    """(CPU seconds, GPU seconds in `WHOLE` parts) of the nodes that responded, from `since` to `until`."""
    nodes, at, cpus, gpus = dict(past.opening.nodes), past.since, 0, 0
    there = _sizes(nodes.values())
    for moment in past.moments:
        if not isinstance(moment.body, ev.NodeChanged | ev.NodeRemoved):
            continue
        time = min(moment.time, past.until)
        cpus, gpus, at = cpus + there[0] * (time - at), gpus + there[1] * (time - at), time
        if isinstance(moment.body, ev.NodeChanged):
            nodes[moment.body.node.name] = moment.body.node
        else:
            nodes.pop(moment.body.name, None)
        there = _sizes(nodes.values())
    return cpus + there[0] * (past.until - at), gpus + there[1] * (past.until - at)


def _sizes(nodes: Iterable[Node]) -> tuple[int, int]:
    up = [node.inventory for node in nodes if node.responding and node.inventory is not None]
    return sum(mask_of(one.cpu_ids).bit_count() for one in up), WHOLE * sum(len(one.gpus) for one in up)


def _use_for_shares(past: Past, stays: Iterable[Stay], rules: State) -> list[float]:
    """Each user's weighted usage by its part of all shares; without accounts all have the same."""
    used: dict[tuple[str, str], float] = {}
    for stay in stays:
        key = stay.user, stay.spec.account
        qos = rules.qos.get(stay.spec.qos)
        for run in stay.runs:
            cost = rate(run.allocation, rules.settings, qos.usage_percent if qos else 100)
            used[key] = used.get(key, 0.0) + cost.weighted * _lasted(run, past) / cost.per
    sums = _sums(rules)
    parts = {key: share(rules, *key, sums) for key in used}
    return [use / parts[key] for key, use in used.items() if parts[key] > 0]


def share(rules: State, user: str, account: str, sums: Mapping[str, int]) -> float:
    """A user's part of the cluster by the shares on the way down to it; 1 where shares say nothing of it."""
    one = rules.associations.get(f"{user}@{account}")
    if one is None:
        return 1.0
    part, name = max(one.shares, 0) / max(sums[account], 1), account
    while name != ROOT and name in rules.accounts:
        record = rules.accounts[name]
        part, name = part * max(record.shares, 0) / max(sums[record.parent], 1), record.parent
    return part


def _sums(rules: State) -> Mapping[str, int]:
    """The shares of all that is right below each account."""
    sums = Counter[str]()
    for one in rules.associations.values():
        sums[one.account] += max(one.shares, 0)
    for account in rules.accounts.values():
        sums[account.parent] += max(account.shares, 0)
    return sums


def _slowdowns(stays: Iterable[Stay]) -> list[float]:
    users: dict[str, list[float]] = {}
    for stay in stays:
        run = sum((one.end or one.start) - one.start for one in stay.runs)
        users.setdefault(stay.user, []).append(max(1.0, (stay.wait_s + run) / max(run, SHORTEST_S)))
    return [sum(values) / len(values) for values in users.values()]
