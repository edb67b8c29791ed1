"""Preemption: whom the first blocked jobs in order take the place of, once a plan is made.

Only jobs that wait for nothing but resources are considered, each where its priority puts it: it preempts only where
the scheduler itself would start it with the victims gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from flagplot_wire import constraint
from flagplot_wire.agentlink import Attempt
from flagplot_wire.alloc import Allocation, GpuPart
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import mask_of
from flagplot_wire.job import Forecast, Job, Reason, Why
from flagplot_wire.job import State as JobState
from flagplotd.core.preempting import victims_words
from flagplotd.core.rights import Rights, possible, rights, why_not_victim
from flagplotd.core.state import NodeUse, State
from flagplotd.core.stimuli import Planned, Preempt, Start
from flagplotd.core.suspending import making_room, on_their_way, waited_for
from flagplotd.sched.shapes import memory_on
from flagplotd.sched.victims import Choice, Cost, total
from flagplotd.sched.whatif import WhatIf

if TYPE_CHECKING:
    from flagplotd.sched.forecasts import Known
    from flagplotd.sched.plan import Done, Policy
    from flagplotd.sched.queue import Waiting
    from flagplotd.sched.snapshot import Snapshot

Suits = Callable[[Collection[int]], bool]
MOST_TRIED = 16
"""Blocked jobs for which victims are looked for in one cycle."""
MOST_PREEMPTED_FOR = 64
"""Starts, of elements of arrays too, that victims are chosen for in one cycle."""
ENOUGH_ASKED = 20_000
"""After so many questions whether a node has room, what was found is carried out before more is looked for."""
MOST_CHOICES = 4
"""Choices of victims, on other nodes each, that are tried for one of them."""


class Freed(Struct, frozen=True):
    """What a node gets back; all that a victim holds there where it is `whole`. `cpus` is a bit mask."""

    node: str
    cpus: int
    memory_mib: int = 0
    gpus: tuple[GpuPart, ...] = ()
    whole: bool = False


class Victim(Struct, frozen=True):
    """A job that could be preempted now, what that would free, and when it would be gone at the latest."""

    job: Job
    frees: tuple[Freed, ...]
    cost: Cost
    gone_by: int


class Preemption(Struct, frozen=True):
    """What a cycle needs to know. `leaving` are all victims of a job some of which are still on their way out, by
    its number; `ready` are the jobs whose room is there."""

    rights: Rights
    victims: tuple[Victim, ...] = ()
    leaving: dict[JobNumber, tuple[Victim, ...]] = {}
    ready: frozenset[JobNumber] = frozenset()


class Decision(Struct, frozen=True):
    """Whom to preempt for whom; `given_up` are jobs that could not start although their room was there."""

    preempts: tuple[Preempt, ...] = ()
    given_up: tuple[JobNumber, ...] = ()
    gone_by: dict[JobNumber, int] = {}


def preemption(state: State, now: int) -> Preemption | None:
    """What of the state decides preemptions; None where nobody has a right over anybody and nothing is under way."""
    if not state.given_room and not possible(state):
        return None
    of = rights(state)
    leaving = {
        number: tuple(_victim(state, of, one, now) for one in making_room(state, state.jobs[number]))
        for number in sorted(state.given_room)
        if on_their_way(state, state.jobs[number])
    }
    # Nobody is looked at as a victim while nobody waits who has a right over anybody.
    wanted = any(of.any_right(state.jobs[number]) for number in state.pending)
    jobs = (state.jobs[number] for number in (sorted(state.active) if wanted else ()))
    return Preemption(
        of,
        tuple(_victim(state, of, job, now) for job in jobs if not _is_safe(state, of, job, now)),
        leaving,
        frozenset(state.given_room.difference(leaving)),
    )


def _is_safe(state: State, of: Rights, job: Job, now: int) -> bool:
    # The room of a suspended job that is waited for is given away already.
    return bool(why_not_victim(state, of, job, now)) or waited_for(state, job)


def _victim(state: State, of: Rights, job: Job, now: int) -> Victim:
    word, parts = job.status.state, job.status.allocation.nodes if job.status.allocation is not None else ()
    sleeps = word is JobState.SUSPENDED or (word is JobState.RUNNING and of.mode(job) == "suspend")
    frees = []
    for part in parts:
        cpus = mask_of(part.cpu_ids)
        if word is JobState.COMPLETING and job.status.suspended_at:
            cpus = 0
        elif job.status.suspended_at:
            cpus &= ~state.use.get(part.node, NodeUse()).cpus
        freed = Freed(part.node, cpus) if sleeps else Freed(part.node, cpus, part.memory_mib, part.gpus, True)
        frees.append(freed)
    # One that is suspended already loses nothing.
    cost = Cost(int(not job.status.suspended_at), of.rank(job), max(now - job.status.start_time, 0), (job.number,))
    return Victim(job, tuple(frees), cost, now if sleeps else now + of.grace_s(job))


def decide(snapshot: Snapshot, starts: tuple[Start, ...], policy: Policy) -> Decision:
    """After a plan, whose `starts` count as taken: victims for the first blocked jobs that would start without them."""
    given = snapshot.preemption
    if given is None:
        return Decision()
    started = {start.number for start in starts}
    found = _Search(snapshot, starts, policy, given).search() if given.victims else []
    preempts = tuple(one for one, _ in found)
    served = started.union(one.number for one in preempts)
    gone_by: dict[JobNumber, int] = {}
    for one, until in found:
        gone_by[one.number] = max(until, gone_by.get(one.number, 0))
    return Decision(preempts, tuple(sorted(_waits_for_nothing(given).difference(served))), gone_by)


def _waits_for_nothing(given: Preemption) -> frozenset[JobNumber]:
    """Jobs whose room is there. While others wait for theirs, one of those may have started in it first."""
    return frozenset() if given.leaving else given.ready


class _Search:
    """One cycle's search for victims. Every preemption that is found counts as done for those behind it."""

    def __init__(self, snapshot: Snapshot, starts: tuple[Start, ...], policy: Policy, given: Preemption) -> None:
        from flagplotd.sched.plan import in_order

        self._policy, self._given = policy, given
        self._limits = _limits(snapshot)
        self._now = WhatIf(snapshot)
        self._now.start(starts, self._limits)
        self._victims = list(given.victims)
        self._asked = 0
        self._known: dict[int | None, dict[tuple[int, frozenset[int]], bool]] = {}
        in_order(self._now.snapshot, policy)
        for number, victims in given.leaving.items():
            self._give(number, victims)

    def _give(self, number: JobNumber, victims: tuple[Victim, ...]) -> None:
        """The room that is being made counts as the job's own already."""
        after = self._now.copy()
        after.go(victims)
        while self._row(number, after) and (allocation := self._would_start(after.snapshot, number)) is not None:
            after.start((Start(number, allocation),), self._limits)
            self._now = after
        if self._now is after:
            after.park(victims)

    def search(self) -> list[tuple[Preempt, int]]:
        """Each preemption, and when its last victim is gone at the latest."""
        found: list[tuple[Preempt, int]] = []
        hopeless: set[tuple[int, str, str]] = set()
        for number in islice(self._blocked(), MOST_TRIED):
            while not self._is_enough(len(found)) and (row := self._row(number)) is not None:
                key = (row.shape, row.job.spec.qos, row.job.spec.partition)
                one = None if key in hopeless else self._for(row)
                if one is None:
                    hopeless.add(key)
                    break
                found.append(one)
        return found

    def _is_enough(self, found: int) -> bool:
        return found >= MOST_PREEMPTED_FOR or (found > 0 and self._asked > ENOUGH_ASKED)

    def _blocked(self) -> Iterator[JobNumber]:
        """Who waits for no victims yet and has a right over somebody, in order."""
        may = dict[tuple[str, str], bool]()
        given, victims = self._given, tuple(self._victims)
        given_room = given.ready.union(given.leaving).difference(_waits_for_nothing(given))
        for row in self._now.snapshot.waiting:
            key = (row.job.spec.qos, row.job.spec.partition)
            if key not in may:
                may[key] = any(given.rights.may(row.job, one.job) for one in victims)
            if may[key] and row.job.number not in given_room:
                yield row.job.number

    def _row(self, number: JobNumber, there: WhatIf | None = None) -> Waiting | None:
        waiting = (there or self._now).snapshot.waiting
        place = waiting.place(number)
        return None if place is None else waiting[place]

    def _for(self, row: Waiting) -> tuple[Preempt, int] | None:
        below = [one for one in self._victims if self._given.rights.may(row.job, one.job)]
        shut = frozenset[int]()
        for _ in range(MOST_CHOICES):
            chosen = self._choose(row, below, shut)
            if not chosen:
                return None
            after = self._now.copy()
            after.go(chosen)
            allocation = self._would_start(after.snapshot, row.job.number)
            if allocation is not None:
                self._victims = [one for one in self._victims if one not in chosen]
                after.start((Start(row.job.number, allocation),), self._limits)
                after.park(chosen)
                self._now = after
                for name in (*allocation.names, *(freed.node for one in chosen for freed in one.frees)):
                    self._known.pop(self._now.row(name), None)
                attempts = tuple(Attempt(one.job.number, one.job.status.attempt) for one in chosen)
                return Preempt(row.job.number, attempts, allocation), max(one.gone_by for one in chosen)
            places = (self._now.row(freed.node) for one in chosen for freed in one.frees)
            shut |= {place for place in places if place is not None}
        return None

    def _choose(self, row: Waiting, below: list[Victim], shut: frozenset[int]) -> list[Victim]:
        """The fewest victims that leave room for the job, on nodes that are not `shut`."""
        now, shape = self._now.snapshot, row.shape
        on: list[dict[int, Freed]] = []
        for one in below:
            places = ((self._now.row(part.node), part) for part in one.frees)
            on.append({place: part for place, part in places if place is not None})

        def fits(node: int, gone: frozenset[int]) -> bool:
            self._asked += 1
            known = self._known.setdefault(node, {})
            key = (shape, frozenset(below[place].job.number for place in gone))
            if key not in known:
                known[key] = has_room(now, shape, node, [on[place][node] for place in gone])
            return known[key]

        costs = [one.cost for one in below]
        found = [
            chosen
            for nodes, suits in self._choices(row, shut)
            if (chosen := Choice(nodes, now.shapes[shape].least, costs, on, fits, suits).fewest())
        ]
        best = min(found, key=lambda chosen: total(costs[place] for place in chosen), default=frozenset[int]())
        return [below[place] for place in sorted(best)]

    def _choices(self, row: Waiting, shut: frozenset[int]) -> Iterable[tuple[list[int], Suits | None]]:
        """The nodes that a job may be on, for each choice of its constraint, and which of them have what that counts."""
        import numpy as np

        now, shape = self._now.snapshot, self._now.snapshot.shapes[row.shape]
        step = 1 + len(shape.quotas)
        wanted = constraint.asked(row.job.spec.request.constraint, shape.most)

        def suits(nodes: Collection[int]) -> bool:
            inventories = [now.nodes[node].inventory for node in nodes]
            features = [one.features if one is not None else () for one in inventories]
            return constraint.suffices(wanted, features, shape.most)

        for choice in range(shape.others + 1):
            open_to = now.allowed[now.s_mask[row.shape] + choice * step] * now.up
            nodes = [int(node) for node in np.flatnonzero(open_to) if int(node) not in shut]
            yield nodes, suits if shape.quotas else None

    def _would_start(self, snapshot: Snapshot, number: JobNumber) -> Allocation | None:
        """Where the scheduler would start the job, behind those in front of it."""
        from dataclasses import replace

        from flagplotd.sched.plan import run

        place = snapshot.waiting.place(number)
        assert place is not None
        front = snapshot.waiting.take(range(place + 1)).changed(place, "count", 1)
        made = run(replace(snapshot, waiting=front), self._policy)
        return next((start.allocation for start in made.starts if start.number == number), None)


def _limits(snapshot: Snapshot) -> dict[JobNumber, int]:
    """The time limits of what waits."""
    rows = snapshot.waiting.rows
    return dict(zip(rows["number"].tolist(), snapshot.records["limit"][rows["shape"]].tolist(), strict=True))


def has_room(now: Snapshot, shape: int, node: int, freed: list[Freed]) -> bool:
    """Whether a part of a shape fits on a node with what victims free there."""
    of, total_cpu, total_mem = now.shapes[shape], int(now.n_cpu[node]), int(now.n_mem[node])
    cpu = int(now.cpu[node]) + sum(part.cpus.bit_count() for part in freed)
    mem = int(now.mem[node]) + sum(part.memory_mib for part in freed)
    jobs = int(now.jobs[node]) - sum(part.whole for part in freed)
    if of.cpu > cpu or memory_on(of, total_cpu, total_mem) > mem or (of.exclusive and (jobs or cpu < total_cpu)):
        return False
    gfree = now.gfree[node].copy()
    for part in freed:
        for gpu in part.gpus:
            if now.g_ok[node, gpu.index]:
                gfree[gpu.index] += gpu.shards
    return _gpus_suffice(now, shape, node, gfree.tolist())


def _gpus_suffice(now: Snapshot, shape: int, node: int, gfree: list[int]) -> bool:
    """Whether GPUs of a node with `gfree` shards free hold a part of a shape."""
    asked = now.records[shape]
    shards, vram, share_type = (int(asked[name]) for name in ("shards", "vram", "stype"))
    cards = list(zip(gfree, now.g_of[node].tolist(), now.g_type[node].tolist(), now.g_vram[node].tolist(), strict=True))
    if shards or vram:
        return any(
            of > 0
            and share_type in (-1, kind)
            and (-(-vram * of // has) <= free if vram and has else not vram and shards <= free)
            for free, of, kind, has in cards
        )
    whole = [kind for free, of, kind, _ in cards if 0 < of == free]
    counts, kinds = asked["count"].tolist(), asked["kind"].tolist()
    typed = all(whole.count(kind) >= count for kind, count in zip(kinds, counts, strict=True) if kind >= 0)
    return typed and len(whole) >= sum(counts)


def planned(snapshot: Snapshot, policy: Policy, known: Known | None = None) -> Planned:
    """A whole cycle: the plan, and whom to preempt for whom it leaves blocked; `known` as in `plan`.
    What is promised then is remembered."""
    from flagplotd.sched.plan import run

    policy = guarded(snapshot, policy)
    return concluded(run(snapshot, policy), policy, known)


def concluded(done: Done, policy: Policy, known: Known | None = None) -> Planned:
    """As `planned`, after the plan itself was made under a `guarded` policy."""
    snapshot = done.snapshot
    if snapshot.memory is not None and done.promises is not None:
        snapshot.memory.promises = done.promises
    decision = decide(snapshot, done.starts, policy)
    leaving = {} if snapshot.preemption is None else snapshot.preemption.leaving
    always = {*leaving, *(one.number for one in decision.preempts)}
    forecasts = told(snapshot, done.forecasts(known, always), decision)
    if known is not None:
        # Of those more is said than the figures tell.
        known.forget(always)
    return Planned(done.starts, forecasts, decision.preempts, decision.given_up, whole=known is None)


def guarded(snapshot: Snapshot, policy: Policy) -> Policy:
    """The policy with as many reservations as there are jobs that others were preempted for: those come first, so that
    nothing takes the room made so far."""
    first = len(snapshot.inputs.first) if snapshot.inputs is not None else 0
    return structs.replace(policy, reservations=max(policy.reservations, first))


def told(snapshot: Snapshot, forecasts: Iterable[Forecast], decision: Decision) -> tuple[Forecast, ...]:
    """The forecasts, where those whose room is being made say which victims they wait for."""
    given = snapshot.preemption
    if given is None:
        return tuple(forecasts)
    leaving = {number: _still_here(victims) for number, victims in given.leaving.items()}
    for one in decision.preempts:
        leaving[one.number] = (*leaving.get(one.number, ()), *(victim.number for victim in one.victims))
    nodes = {one.number: tuple(one.allocation.names) for one in decision.preempts}
    found = []
    for forecast in forecasts:
        victims = leaving.get(forecast.number)
        if victims:
            words = Reason(Why.RESOURCES, f"waits for {victims_words(victims)}", victims[:10])
            others = tuple(reason for reason in forecast.reasons if reason.why not in (Why.RESOURCES, Why.PRIORITY))
            start = decision.gone_by.get(forecast.number)
            forecast = structs.replace(
                forecast,
                reasons=(words, *others),
                start=forecast.start if start is None else max(start, snapshot.now + 1),
                nodes=nodes.get(forecast.number, forecast.nodes),
            )
        found.append(forecast)
    return tuple(found)


def _still_here(victims: tuple[Victim, ...]) -> tuple[JobNumber, ...]:
    return tuple(one.job.number for one in victims if one.job.status.state is JobState.COMPLETING)
