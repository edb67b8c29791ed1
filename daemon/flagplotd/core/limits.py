"""Whose limits hold for a job, and under which keys jobs are counted against them."""

from __future__ import annotations

from flagplot_wire.indices import count_indices
from flagplot_wire.job import Job, JobSpec
from flagplot_wire.policy import ROOT, Account, Limits
from flagplotd.core.state import State

NONE = Limits()

Limited = tuple[str, str, Limits]
"""Who is limited in words, the key under which its jobs are counted, and the limits."""


def chain(state: State, account: str) -> list[str]:
    """The account and all above it, ending with the root; an account that nobody made is below the root."""
    names: list[str] = []
    while account and account not in names:
        names.append(account)
        known = state.accounts.get(account)
        account = "" if account == ROOT else known.parent if known is not None else ROOT
    return names


def account_of(state: State, name: str) -> Account | None:
    """An account's record; the root's is made up until somebody changes it."""
    return state.accounts.get(name) or (Account(ROOT, parent="") if name == ROOT else None)


def scopes(state: State, user: str, spec: JobSpec) -> list[str]:
    """The keys under which a job is counted, whether or not limits are set there (`State.submitted`).

    Association `user:ada@physics`, accounts `account:physics` up to the root, QoS `qos:high`, its users
    `qos:high:user:ada` and its accounts `qos:high:account:physics`; the same for the partition's QoS.
    """
    account = spec.account
    found = [f"user:{user}@{account}", *(f"account:{name}" for name in chain(state, account))] if account else []
    for qos in qos_of(state, spec):
        found += [f"qos:{qos}", f"qos:{qos}:user:{user}"]
        if account:
            found.append(f"qos:{qos}:account:{account}")
    return found


def qos_of(state: State, spec: JobSpec) -> list[str]:
    """The names of the job's QoS and of its partition's, without repeats."""
    partition = state.partitions.get(spec.partition)
    names = (spec.qos, partition.qos if partition is not None else "")
    return [name for name in dict.fromkeys(names) if name]


def limit_chain(state: State, user: str, spec: JobSpec) -> list[Limited]:
    """All limits that hold for a job of `user`, the nearest first; scopes without any limit are left out.

    In order: the association, its account and all above it, the QoS, each user in it, each account in it, and
    the three of the partition's QoS. The keys are among `scopes`. Empty where `enforce` is off.
    """
    if state.settings.enforce == "off":
        return []
    account, found = spec.account, list[Limited]()
    association = state.associations.get(f"{user}@{account}")
    if association is not None:
        found.append((f"user {user} in account {account}", f"user:{association.key}", association.limits))
    for name in chain(state, account):
        if name in state.accounts:
            found.append((f"account {name}", f"account:{name}", state.accounts[name].limits))
    for name in qos_of(state, spec):
        qos = state.qos.get(name)
        if qos is None:
            continue
        found.append((f"QoS {name}", f"qos:{name}", qos.limits))
        found.append((f"user {user} in QoS {name}", f"qos:{name}:user:{user}", qos.user_limits))
        if account:
            found.append((f"account {account} in QoS {name}", f"qos:{name}:account:{account}", qos.account_limits))
    return [limited for limited in found if limited[2] != NONE]


def allowed_qos(state: State, user: str, account: str) -> tuple[str, ...]:
    """The QoS that jobs of this user in this account may use: the nearest list there is; empty: all."""
    association = state.associations.get(f"{user}@{account}")
    lists = [association.qos] if association is not None else []
    lists += [state.accounts[name].qos for name in chain(state, account) if name in state.accounts]
    return next((names for names in lists if names), ())


def default_qos(state: State, user: str, account: str) -> str:
    """The QoS of a job that names none: the nearest default that is allowed, else the first allowed one."""
    allowed = allowed_qos(state, user, account)
    association = state.associations.get(f"{user}@{account}")
    defaults = [association.default_qos] if association is not None else []
    defaults += [state.accounts[name].default_qos for name in chain(state, account) if name in state.accounts]
    found = next((name for name in defaults if name and (not allowed or name in allowed)), "")
    return found or (allowed[0] if allowed else "")


def weight(job: Job) -> int:
    """How many pending and running jobs a record stands for: an array's are its waiting elements."""
    if job.status.state.ended:
        return 0
    return count_indices(job.status.waiting) if job.is_array else 1
