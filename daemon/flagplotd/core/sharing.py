"""Whether a job may start now as far as limits, licenses and reservations of the cluster decide."""

from __future__ import annotations

from flagplot_wire.job import Job, Reason, Request, Why
from flagplot_wire.policy import Reservation
from flagplot_wire.units import format_memory
from flagplotd.core.admission import impossible
from flagplotd.core.limits import Limited, chain, limit_chain, scopes
from flagplotd.core.needs import needs
from flagplotd.core.reservations import covered
from flagplotd.core.state import State

RESOURCES = ("jobs", "nodes", "cpus", "gpus", "memory_mib", "gpu_minutes")
"""The limits on all running jobs together, in the order of `_counted`."""
_ASSOCIATION = (Why.ASSOC_JOBS, Why.ASSOC_NODES, Why.ASSOC_CPUS, Why.ASSOC_GPUS, Why.ASSOC_MEMORY, Why.ASSOC_GPU_MINUTES)  # fmt: skip
_QOS = (Why.QOS_JOBS, Why.QOS_NODES, Why.QOS_CPUS, Why.QOS_GPUS, Why.QOS_MEMORY, Why.QOS_GPU_MINUTES)
_UNITS = ("running jobs", "nodes", "CPUs", "GPUs", "", "GPU minutes")
ENDLESS = 1 << 40
"""GPU minutes of a job without a time limit."""


def _counted(request: Request, left_s: int | None = None) -> list[int]:
    """What a job counts for; `left_s` is what is left of a running job's time."""
    least = needs(request)
    if left_s is not None:
        minutes = -(-least.gpus * left_s // 60)
    else:
        minutes = ENDLESS if least.gpu_minutes is None else least.gpu_minutes
    return [1, least.nodes, least.cpus, least.gpus, least.memory_mib, minutes]


class Sharing:
    """The use of every limit and license at `now`; `take` counts a start on top."""

    def __init__(self, state: State, now: int) -> None:
        self._state, self._now = state, now
        self._chains: dict[tuple[str, str, str, str], list[Limited]] = {}
        self._covered: dict[str, set[str]] = {}
        self._said: dict[tuple[str, str, str, str, Request], list[Reason]] = {}
        self._used: dict[str, list[int]] = {}
        self._licenses = dict(state.settings.licenses)
        self._limited = state.settings.enforce != "off" and bool(state.accounts or state.associations or state.qos)
        if self._limited or self._licenses:
            for number in state.active:
                job = state.jobs[number]
                limit = job.time_limit_s
                left = max(job.limit_ends - now, 0) if limit else 0
                self._add(job, _counted(job.spec.request, left))
        if self._limited:
            self._past_use()

    def _past_use(self) -> None:
        for key, usage in self._state.usage.items():
            account = key.partition("@")[2]
            for scope in (f"user:{key}", *(f"account:{name}" for name in chain(self._state, account))):
                self._used.setdefault(scope, [0] * len(RESOURCES))[5] += usage.gpu_seconds // 60

    def _add(self, job: Job, counted: list[int]) -> None:
        for wanted in job.spec.request.licenses:
            if wanted.name in self._licenses:
                self._licenses[wanted.name] -= wanted.count
        if self._limited:
            for key in scopes(self._state, job.user, job.spec):
                used = self._used.setdefault(key, [0] * len(RESOURCES))
                for place, count in enumerate(counted):
                    used[place] += count

    def take(self, job: Job) -> None:
        """Count a start."""
        self._said.clear()
        self._add(job, _counted(job.spec.request))

    def _chain(self, job: Job) -> list[Limited]:
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition)
        if key not in self._chains:
            self._chains[key] = limit_chain(self._state, job.user, job.spec)
        return self._chains[key]

    def over(self, job: Job) -> list[Reason]:
        """All limits, licenses and times of a reservation that keep the job from starting now."""
        found = self._over_limits(job) if self._limited else []
        short = [one.name for one in job.spec.request.licenses if self._licenses.get(one.name, 0) < one.count]
        if short:
            free = ", ".join(f"{name} ({max(self._licenses.get(name, 0), 0)} free)" for name in short)
            found.append(Reason(Why.LICENSES, f"licenses are in use: {free}"))
        if job.spec.reservation and (sentence := self._outside(job)):
            found.append(Reason(Why.RESERVATION, sentence))
        return found

    def _over_limits(self, job: Job) -> list[Reason]:
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition, job.spec.request)
        known = self._said.get(key)
        if known is None:
            known = self._said[key] = self._compare(job)
        return list(known)

    def _compare(self, job: Job) -> list[Reason]:
        found: list[Reason] = []
        counted = _counted(job.spec.request)
        for words, key, limits in self._chain(job):
            of_qos = key.startswith("qos:")
            if sentence := impossible(limits, needs(job.spec.request), words):
                found.append(Reason(Why.QOS_JOB if of_qos else Why.ASSOC_JOB, sentence))
                continue
            used = self._used.get(key, [0] * len(RESOURCES))
            for place, name in enumerate(RESOURCES):
                most = getattr(limits, name)
                if most is not None and counted[place] and used[place] + counted[place] > most:
                    found.append(Reason((_QOS if of_qos else _ASSOCIATION)[place], _words(words, place, used, most)))
        return found

    def _outside(self, job: Job) -> str:
        name = job.spec.reservation
        reservation = self._state.reservations.get(name)
        if reservation is None:
            return f"reservation {name} is over"
        if reservation.flex:
            return ""
        if self._now < reservation.start:
            return f"reservation {name} has not begun"
        limit = job.time_limit_s
        if not limit or self._now + limit > reservation.end:
            return f"its time limit reaches beyond the end of reservation {name}"
        return ""

    def closed(self, job: Job) -> frozenset[str]:
        """The reservations that the job meets before its time limit is over, and whose nodes it may not use."""
        limit = job.time_limit_s
        end = self._now + limit if limit else 1 << 60
        return frozenset(
            one.name
            for one in self._state.reservations.values()
            if one.name != job.spec.reservation and one.start < end and one.end > self._now
        )

    def nodes_of(self, name: str) -> set[str]:
        """The nodes of a reservation."""
        if name not in self._covered:
            self._covered[name] = covered(self._state, self._state.reservations[name])
        return self._covered[name]

    def open_to(self, job: Job, node: str, closed: frozenset[str]) -> bool:
        """Whether its own reservation and those that are `closed` to it let the job use this node."""
        own: Reservation | None = self._state.reservations.get(job.spec.reservation)
        if own is not None and not own.flex and node not in self.nodes_of(own.name):
            return False
        return not any(node in self.nodes_of(name) for name in closed)


def _words(words: str, place: int, used: list[int], most: int) -> str:
    if RESOURCES[place] == "memory_mib":
        return f"{words}: {format_memory(used[place])} of at most {format_memory(most)} of memory are in use"
    return f"{words}: {used[place]} of at most {most} {_UNITS[place]} are in use"
