"""The order in which pending jobs are looked at: others preempted for it, reservation, partition tier, priority, submission, number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flagplot_wire.job import Request
from flagplotd.core.fairshare import MILLION
from flagplotd.sched.plan import Policy
from flagplotd.sched.priority import TOP, Inputs, asked

if TYPE_CHECKING:
    from flagplotd.sched.queue import Queue


def positions(queue: Queue, requests: Sequence[Request], given: Inputs, policy: Policy, now: int) -> Any:
    """The places of `queue` in the order in which they are looked at; `requests` are those of the shapes."""
    import numpy as np

    from flagplotd.sched.kernel.sorting import places

    rows, names = queue.rows, queue.names
    tiers = [given.tiers.get(name, 1) for name in names["partition"]]
    ranks = {tier: rank for rank, tier in enumerate(sorted(set(tiers), reverse=True))}
    rank = np.array([ranks[tier] for tier in tiers], np.int64)[rows["partition"]]
    outside = np.array([not name for name in names["reservation"]], np.int64)[rows["reservation"]]
    late = ~np.isin(rows["number"], list(given.first)) if given.first else np.zeros(len(rows), np.int64)
    key = ((late * 2 + outside) * len(ranks) + rank) * (TOP + 1) + TOP - values(queue, requests, given, policy, now)
    keys = [key]
    for column in (rows["submit"], rows["number"]):
        # Mostly in this order already, which the sort, being stable, keeps.
        if (np.diff(column) < 0).any():
            keys = [rows["number"], rows["submit"], key]
    return np.lexsort(keys) if len(keys) > 1 else places(key)


def values(queue: Queue, requests: Sequence[Request], given: Inputs, policy: Policy, now: int) -> Any:
    """The priorities of the rows of `queue` at `now`: those of `priority.priorities`, all at once."""
    import numpy as np

    rows = queue.rows
    value = -rows["nice"]
    for weight, factors, column in (
        (policy.weight_partition, given.partitions, "partition"),
        (policy.weight_qos, given.qos, "qos"),
        (policy.weight_fairshare, given.fairshare, "whom"),
        (policy.weight_association, given.associations, "whom"),
    ):
        if weight and factors:
            value += _parts(weight, factors, queue.names[column])[rows[column]]
    if given.totals.nodes:
        by_shape = [asked(request, given.totals, policy) for request in requests]
        value += np.array([parts.size + parts.tres for parts in by_shape], np.int64)[rows["shape"]]
    age_max_s = max(policy.age_max_s, 1)
    age = np.where(rows["eligible"] != 0, np.clip(now - rows["eligible"], 0, age_max_s), 0)
    value += policy.weight_age * (age * MILLION // age_max_s) // MILLION
    if given.site:
        numbers, more = (np.array(column, np.int64) for column in zip(*sorted(given.site.items()), strict=True))
        place = np.minimum(np.searchsorted(numbers, rows["number"]), len(numbers) - 1)
        value += np.where(numbers[place] == rows["number"], more[place], 0)
    return np.clip(np.where(rows["priority"] > 0, rows["priority"], value), 0, TOP)


def _parts(weight: int, factors: Mapping[str, int], names: Sequence[str]) -> Any:
    import numpy as np

    return np.array([weight * factors.get(name, 0) // MILLION for name in names], np.int64)
