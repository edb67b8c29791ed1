"""Whether a job may start now as far as limits, licenses and reservations of the cluster decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flagplot_wire.alloc import NodeAlloc
from flagplot_wire.job import Job, Reason, Request, Why
from flagplot_wire.policy import Limits
from flagplot_wire.units import format_memory
from flagplotd.core.admission import impossible
from flagplotd.core.limits import Limited, chain, limit_chain, scopes
from flagplotd.core.needs import held_by, needs, seats
from flagplotd.core.reservations import covered, whole
from flagplotd.core.state import State

RESOURCES = ("jobs", "nodes", "cpus", "gpus", "memory_mib", "gpu_minutes")
"""The limits on all running jobs together, in the order of `_counted`."""
_ASSOCIATION = (Why.ASSOC_JOBS, Why.ASSOC_NODES, Why.ASSOC_CPUS, Why.ASSOC_GPUS, Why.ASSOC_MEMORY, Why.ASSOC_GPU_MINUTES)  # fmt: skip
_QOS = (Why.QOS_JOBS, Why.QOS_NODES, Why.QOS_CPUS, Why.QOS_GPUS, Why.QOS_MEMORY, Why.QOS_GPU_MINUTES)
_UNITS = ("running jobs", "nodes", "CPUs", "GPUs", "", "GPU minutes")
ENDLESS = 1 << 40
"""GPU minutes of a job without a time limit."""


def totals_of(request: Request, left_s: int | None = None) -> list[int]:
    """What a job counts for; `left_s` is what is left of a running job's time."""
    least = needs(request)
    if left_s is not None:
        minutes = -(-least.gpus * left_s // 60)
    else:
        minutes = ENDLESS if least.gpu_minutes is None else least.gpu_minutes
    return [*held_by(request), minutes]


def gpu_minutes(state: State, now: int) -> dict[str, int]:
    """By the keys of `limits.scopes`: the decayed use, and what running jobs may still use."""
    found: dict[str, int] = {}
    for key, usage in state.usage.items():
        account = key.partition("@")[2]
        for scope in (f"user:{key}", *(f"account:{name}" for name in chain(state, account))):
            found[scope] = found.get(scope, 0) + usage.gpu_seconds // 60
    for number in state.active:
        job = state.jobs[number]
        left = max(job.limit_ends - now, 0) if job.time_limit_s else 0
        if minutes := totals_of(job.spec.request, left)[5]:
            for scope in scopes(state, job.user, job.spec):
                found[scope] = found.get(scope, 0) + minutes
    return found


class Sharing:
    """The use of every limit and license at `now`, as the state counts it; see `take`."""

    def __init__(self, state: State, now: int) -> None:
        self._state, self._now = state, now
        self._chains: dict[tuple[str, str, str, str], list[Limited]] = {}
        self._covered: dict[str, set[str]] = {}
        self._said: dict[tuple[str, str, str, str, Request], list[Reason]] = {}
        self._minutes: dict[str, int] | None = None
        self._limited = state.settings.enforce != "off" and bool(state.accounts or state.associations or state.qos)

    def used(self, key: str, limits: Limits) -> list[int]:
        """What is used under a key, by `RESOURCES`; GPU minutes, which pass with time, only where they are limited."""
        held = self._state.held.get(key) or [0] * (len(RESOURCES) - 1)
        return [*held, self._minutes_of(key) if limits.gpu_minutes is not None else 0]

    def _minutes_of(self, key: str) -> int:
        if self._minutes is None:
            self._minutes = gpu_minutes(self._state, self._now)
        return self._minutes.get(key, 0)

    def take(self, job: Job) -> None:
        """A start was made, which the state counts: what is remembered here follows."""
        self._said.clear()
        if (minutes := self._minutes) is not None:
            for key in scopes(self._state, job.user, job.spec):
                minutes[key] = minutes.get(key, 0) + totals_of(job.spec.request)[5]

    def _chain(self, job: Job) -> list[Limited]:
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition)
        if key not in self._chains:
            self._chains[key] = limit_chain(self._state, job.user, job.spec)
        return self._chains[key]

    def over(self, job: Job) -> list[Reason]:
        """All limits, licenses and times of a reservation that keep the job from starting now."""
        found = self.stopped(job)
        if short := self.short(job):
            found.append(short)
        reservation = self._state.reservations.get(job.spec.reservation)
        if reservation is not None and not reservation.flex and self._now < reservation.start:
            found.append(Reason(Why.RESERVATION, f"reservation {reservation.name} has not begun"))
        return found

    def stopped(self, job: Job) -> list[Reason]:
        """As `over`, apart from what passes by itself, so that a plan can tell when."""
        return [*(self._over_limits(job) if self._limited else ()), *self.outside(job)]

    def short(self, job: Job) -> Reason | None:
        """The licenses that are not free now."""
        if not job.spec.request.licenses:
            return None
        there = self.licenses
        short = [name for name, count in seats(job.spec.request).items() if there.get(name, 0) < count]
        if not short:
            return None
        free = ", ".join(f"{name} ({max(there.get(name, 0), 0)} free)" for name in short)
        return Reason(Why.LICENSES, f"licenses are in use: {free}")

    @property
    def licenses(self) -> dict[str, int]:
        """What is free of every license; less than nothing where more is used than there is."""
        return {name: total - self._state.seats.get(name, 0) for name, total in self._state.settings.licenses}

    def in_use(self, key: str) -> list[int]:
        """What is used under a key of `limits.scopes`, by `RESOURCES`; GPU minutes in any case."""
        return self.used(key, Limits(gpu_minutes=0))

    def _over_limits(self, job: Job) -> list[Reason]:
        key = (job.user, job.spec.account, job.spec.qos, job.spec.partition, job.spec.request)
        known = self._said.get(key)
        if known is None:
            known = self._said[key] = self._compare(job)
        return list(known)

    def _compare(self, job: Job) -> list[Reason]:
        links = ((words, key, limits, self.used(key, limits)) for words, key, limits in self._chain(job))
        return over_limits(links, job.spec.request)

    def outside(self, job: Job) -> list[Reason]:
        """Why the job's reservation, over or too short for it, keeps it from starting."""
        sentence = self._outside(job) if job.spec.reservation else ""
        return [Reason(Why.RESERVATION, sentence)] if sentence else []

    def _outside(self, job: Job) -> str:
        name = job.spec.reservation
        reservation = self._state.reservations.get(name)
        if reservation is None:
            return f"reservation {name} is over"
        if reservation.flex:
            return ""
        limit = job.time_limit_s
        if not limit or max(self._now, reservation.start) + limit > reservation.end:
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

    def only_on(self, job: Job) -> set[str] | None:
        """The nodes that its own reservation binds a job to; None: it may use all."""
        own = self._state.reservations.get(job.spec.reservation)
        return None if own is None or own.flex else self.nodes_of(own.name)

    def open_to(self, job: Job, part: NodeAlloc, closed: frozenset[str]) -> bool:
        """Whether its own reservation and those that are `closed` to it let a job have this part of a node."""
        inside = self.only_on(job)
        if inside is not None and part.node not in inside:
            return False
        return not any(part.node in self.nodes_of(name) and self._shut(name, part) for name in closed)

    def _shut(self, name: str, part: NodeAlloc) -> bool:
        """Whether a reservation of somebody else has no room left beside it for a part of its node."""
        reservation, node = self._state.reservations[name], self._state.nodes[part.node]
        if whole(reservation) or node.inventory is None:
            return True
        cpus, gpus = part.cpus, {gpu.index for gpu in part.gpus}
        for held in self._held_by_others(name, part.node):
            cpus += held.cpus
            gpus |= {gpu.index for gpu in held.gpus}
        threads = max(node.inventory.threads_per_core, 1)
        if cpus + (reservation.cores or 0) * threads > node.cpus and reservation.cores:
            return True
        return bool(reservation.gpus and part.gpus) and len(gpus) + (reservation.gpus or 0) > len(node.inventory.gpus)

    def _held_by_others(self, name: str, node: str) -> Iterator[NodeAlloc]:
        """The parts of a node held by jobs outside of a reservation, once it has begun; as planned, they end in time."""
        use, start = self._state.use.get(node), self._state.reservations[name].start
        for number in sorted(use.jobs) if use is not None else ():
            job = self._state.jobs[number]
            if start > self._now and (job.status.stop_by or job.limit_ends) <= start:
                continue
            if job.spec.reservation != name and job.status.allocation is not None:
                yield from (part for part in job.status.allocation.nodes if part.node == node)


def over_limits(chain: Iterable[tuple[str, str, Limits, list[int]]], request: Request) -> list[Reason]:
    """The limits of a chain (whose in words, key, the limits, what is used by `RESOURCES`) that a start would exceed."""
    found: list[Reason] = []
    counted = totals_of(request)
    for words, key, limits, used in chain:
        if sentence := impossible(limits, needs(request), words):
            found.append(Reason(Why.QOS_JOB if key.startswith("qos:") else Why.ASSOC_JOB, sentence))
            continue
        for place, name in enumerate(RESOURCES):
            most = getattr(limits, name)
            if most is not None and counted[place] and used[place] + counted[place] > most:
                found.append(reason_of(words, key, place, used, most))
    return found


def reason_of(words: str, key: str, place: int, used: list[int], most: int) -> Reason:
    """A limit that is reached, in Slurm's word and in a sentence."""
    kinds = _QOS if key.startswith("qos:") else _ASSOCIATION
    return Reason(kinds[place], _words(words, place, used, most))


def _words(words: str, place: int, used: list[int], most: int) -> str:
    if RESOURCES[place] == "memory_mib":
        return f"{words}: {format_memory(used[place])} of at most {format_memory(most)} of memory are in use"
    return f"{words}: {used[place]} of at most {most} {_UNITS[place]} are in use"
