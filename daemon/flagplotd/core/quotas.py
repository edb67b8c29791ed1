"""What limits leave to a user, of their accounts, themselves and the QoS that they may use."""

from __future__ import annotations

from flagplot_wire.accounting import Quota
from flagplot_wire.job import JobSpec
from flagplot_wire.policy import Limits
from flagplotd.core.limits import allowed_qos, limit_chain
from flagplotd.core.sharing import RESOURCES, Sharing
from flagplotd.core.state import State


def quotas(state: State, user: str, now: int) -> list[Quota]:
    """Every limit on all jobs together that holds for jobs of `user`, the nearest first, each once."""
    chains: dict[str, tuple[str, Limits]] = {}
    for account in _accounts_of(state, user):
        for qos in allowed_qos(state, user, account) or ("", *sorted(state.qos)):
            spec = JobSpec("", "/", account=account, qos=qos)
            chains.update((key, (words, limits)) for words, key, limits in limit_chain(state, user, spec))
    if not chains:
        return []
    sharing, found = Sharing(state, now), list[Quota]()
    for key, (words, limits) in chains.items():
        in_use = dict(zip(RESOURCES, sharing.in_use(key), strict=True)) | {"submitted": state.submitted.get(key, 0)}
        for name in ("gpus", "gpu_minutes", "cpus", "memory_mib", "nodes", "jobs", "submitted"):
            most = getattr(limits, name)
            if most is not None:
                found.append(Quota(words, name, in_use[name], most, key))
    return found


def _accounts_of(state: State, user: str) -> list[str]:
    """The user's accounts, the default first; none at all stands for jobs without an account."""
    default = state.default_accounts.get(user, "")
    theirs = sorted(one.account for one in state.associations.values() if one.user == user)
    return sorted(theirs, key=lambda name: name != default) or [""]
