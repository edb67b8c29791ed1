"""Whether a job's account, QoS, partition, reservation, licenses and limits let it in."""

from __future__ import annotations

import msgspec

from flagplot_wire.errors import Refused
from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, JobSpec
from flagplot_wire.node import Partition
from flagplot_wire.policy import Limits
from flagplot_wire.text import clean
from flagplot_wire.units import format_limit, format_memory
from flagplotd.core.limits import (
    Limited,
    account_of,
    allowed_qos,
    chain,
    default_qos,
    limit_chain,
    scopes,
)
from flagplotd.core.needs import Needs, needs, seats
from flagplotd.core.records import find
from flagplotd.core.state import State, Who
from flagplotd.core.values import MOST

NORMAL = "normal"
"""The QoS that every database of Slurm begins with, so that scripts name it."""
ADMITTED_BY = ("account", "qos", "partition", "reservation", "request")
"""The fields of a spec that `admit` looks at."""


def admit(state: State, spec: JobSpec, who: Who, before: Job | None = None, timed: bool = True) -> JobSpec:
    """The spec with account and QoS filled in; raises `Refused` for what is not let in.

    The partition is known and the request is filled in. `before` is the job that it changes, which is counted
    already where it was. Without `timed` the time limit is not the submitter's, but the partition's: it is cut
    to the longest allowed.
    """
    partition = state.partitions[spec.partition]
    account = _account(state, spec.account, who)
    qos = _qos(state, spec.qos, account, who)
    spec = msgspec.structs.replace(spec, account=account, qos=qos)
    _check_partition(state, partition, spec, who)
    if spec.reservation:
        _check_reservation(state, spec, who)
    _check_licenses(state, spec)
    limits = limit_chain(state, who.user, spec)
    if not timed:
        spec = _cut_time_limit(spec, [limit for _, _, limit in limits])
    _check_submitted(state, spec, limits, before)
    if state.settings.refuse_impossible:
        least = needs(spec.request)
        for words, _, limit in limits:
            if sentence := impossible(limit, least, words):
                raise Refused("over_limit", sentence, "ask for less, or for a higher limit")
    return spec


def _account(state: State, name: str, who: Who) -> str:
    """The account of a job: the named one, else the user's default."""
    enforce = state.settings.enforce
    if not name:
        if enforce != "off" and who.user in state.default_accounts:
            return state.default_accounts[who.user]
        if enforce == "associations" and state.accounts:
            raise Refused("no_account", f"{who.user} is in no account", "ask an admin to add you to one")
        return ""
    if enforce == "off" or not state.accounts:
        return clean(name)
    if account_of(state, name) is None:
        find("account", name, state.accounts)
    if enforce == "associations" and f"{who.user}@{name}" not in state.associations:
        there = ", ".join(one.account for one in state.associations.values() if one.user == who.user)
        hint = f"{who.user} is in: {there}" if there else "ask an admin to add you to one"
        raise Refused("no_account", f"{who.user} is not in account {name}", hint)
    return name


def _qos(state: State, name: str, account: str, who: Who) -> str:
    """The QoS of a job: the named one where it is allowed, else the default. `NORMAL` is the default while there are
    none."""
    if not name or (name == NORMAL and not state.qos):
        return default_qos(state, who.user, account)
    if state.settings.enforce == "off":
        return clean(name)
    if not state.qos:
        hint = "leave --qos away; admins add one with: flagplot qos add NAME"
        raise Refused("not_found", f"there is no QoS {clean(name)!r}: the cluster has none", hint)
    find("QoS", name, state.qos)
    allowed = allowed_qos(state, who.user, account)
    if allowed and name not in allowed:
        whose = f"{who.user} in account {account}" if account else who.user
        raise Refused("not_permitted", f"QoS {name} is not open to {whose}", f"there are: {', '.join(allowed)}")
    return name


def _check_partition(state: State, partition: Partition, spec: JobSpec, who: Who) -> None:
    if who.operator:
        return
    accounts = partition.allow_accounts
    if accounts and not set(accounts).intersection(chain(state, spec.account)):
        whose = f"account {spec.account}" if spec.account else "jobs without an account"
        raise Refused(
            "not_permitted", f"partition {partition.name} is not open to {whose}", f"it is to: {', '.join(accounts)}"
        )
    if partition.allow_qos and spec.qos not in partition.allow_qos:
        whose = f"QoS {spec.qos}" if spec.qos else "jobs without a QoS"
        raise Refused(
            "not_permitted",
            f"partition {partition.name} is not open to {whose}",
            f"it is to: {', '.join(partition.allow_qos)}",
        )


def _check_reservation(state: State, spec: JobSpec, who: Who) -> None:
    reservation = find("reservation", spec.reservation, state.reservations)
    if not reservation.admits(who.user, spec.account):
        whose = f"{who.user} in account {spec.account}" if spec.account else who.user
        raise Refused("not_permitted", f"reservation {reservation.name} is not open to {whose}")


def _check_licenses(state: State, spec: JobSpec) -> None:
    totals = dict(state.settings.licenses)
    for one in spec.request.licenses:
        find("license", one.name, totals)
        if not 1 <= one.count <= MOST:
            raise Refused("bad_request", f"license {one.name}: a count is 1 to {MOST}")
    for name, count in seats(spec.request).items():
        if count > totals[name] and state.settings.refuse_impossible:
            raise Refused("over_limit", f"the job asks for {count} licenses {name}: the cluster has {totals[name]}")


def _cut_time_limit(spec: JobSpec, limits: list[Limits]) -> JobSpec:
    longest = min((limit.job_wall_s for limit in limits if limit.job_wall_s is not None), default=0)
    if not longest or 0 < (spec.request.time_limit_s or 0) <= longest:
        return spec
    return msgspec.structs.replace(spec, request=msgspec.structs.replace(spec.request, time_limit_s=longest))


def _check_submitted(state: State, spec: JobSpec, limits: list[Limited], before: Job | None) -> None:
    jobs = count_indices(spec.array.indices if before is None else before.status.waiting) if spec.array else 1
    counted = set(scopes(state, before.user, before.spec)) if before is not None else set()
    for words, key, limit in limits:
        there = state.submitted.get(key, 0)
        if limit.submitted is None or key in counted or there + jobs <= limit.submitted:
            continue
        more = f"{jobs} more" if jobs > 1 else "one more"
        raise Refused(
            "too_many_jobs",
            f"{words} may have {limit.submitted} jobs pending and running: there are {there}, and this is {more}",
            "wait until some have ended",
        )


def impossible(limits: Limits, least: Needs, whose: str) -> str:
    """Why no job with these needs can ever run under these limits, as a sentence; empty when one can."""
    counts = (
        ("nodes", least.nodes, limits.nodes, limits.job_nodes),
        ("CPUs", least.cpus, limits.cpus, limits.job_cpus),
        ("GPUs", least.gpus, limits.gpus, limits.job_gpus),
    )
    if limits.jobs == 0:
        return f"{whose} may run no jobs"
    for what, wanted, together, each in counts:
        most = min(limit for limit in (together, each, wanted) if limit is not None)
        if wanted > most:
            return f"the job asks for {wanted} {what}: {whose} may use at most {most}"
    if limits.memory_mib is not None and least.memory_mib > limits.memory_mib:
        memory = format_memory(least.memory_mib)
        return f"the job asks for {memory} of memory: {whose} may use at most {format_memory(limits.memory_mib)}"
    if limits.job_wall_s is not None and (least.wall_s is None or least.wall_s > limits.job_wall_s):
        asked = format_limit(least.wall_s or 0)
        return f"the job's time limit is {asked}: that of {whose} is at most {format_limit(limits.job_wall_s)}"
    minutes = least.gpu_minutes
    if limits.gpu_minutes is not None and minutes is None:
        return f"the job has no time limit: {whose} may use at most {limits.gpu_minutes} GPU minutes"
    if limits.gpu_minutes is not None and minutes is not None and minutes > limits.gpu_minutes:
        return f"the job may use {minutes} GPU minutes: {whose} may use at most {limits.gpu_minutes}"
    return ""
