"""What was promised holds from cycle to cycle, and a second cycle at one moment changes nothing.

Estimates hold here: jobs end at their time limit or before it, and a cycle runs whenever something ends or is due. Nodes
stay as they are, and nobody changes jobs, priorities or reservations.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, note
from hypothesis import strategies as some
from support.plan_follow import PLAIN
from support.random_clusters import describe, end, submissions, submit, worlds
from support.states import World
from support.thorough import examples

from flagplot_wire.ids import JobNumber
from flagplot_wire.policy import Limits
from flagplotd.core import stimuli as st
from flagplotd.core.recheck import why_not
from flagplotd.core.reservations import whole
from flagplotd.core.sharing import Sharing
from flagplotd.sched.plan import Plan, Policy, plan
from flagplotd.sched.promises import Memory
from flagplotd.sched.snapshot import take

CONSERVATIVE = msgspec.structs.replace(PLAIN, backfill="conservative")
Turn = tuple[list[dict[str, Any]], int, int]
"""Submissions; how far of the way to the next known moment time goes on (in quarters); a running job that ends then."""


def turns(gangs: bool = False) -> some.SearchStrategy[list[Turn]]:
    first = some.lists(submissions(gangs), min_size=3, max_size=8)
    more = some.lists(submissions(gangs), max_size=2)
    going, ends = some.sampled_from((4, 4, 1, 2)), some.integers(0, 9)
    later = some.lists(some.tuples(more, going, ends), min_size=2, max_size=7)
    return some.tuples(some.tuples(first, going, ends), later).map(lambda both: [both[0], *both[1]])


class Cluster:
    """A world with a scheduler that remembers."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy, self.memory = world, policy, Memory()
        self.order: list[JobNumber] = []
        note(describe(world))

    def cycle(self) -> Plan:
        """One cycle, committed."""
        world = self.world
        snapshot = take(world.state, world.now, self.policy.default_time_s)
        snapshot.memory = self.memory
        made = plan(snapshot, self.policy)
        if made.promises is not None:
            self.memory.promises = made.promises
        self.order = [row.job.number for row in snapshot.waiting]
        sharing = Sharing(world.state, world.now)
        for start in made.starts:
            assert why_not(world.state, start, world.now, sharing) == ""
            sharing.take(world.state.jobs[start.number])
            world.do(st.Planned((start,)))
        world.do(st.Planned((), made.forecasts))
        return made

    def starts(self) -> dict[JobNumber, int]:
        """The promised starts, in the order of the jobs."""
        forecasts = self.world.state.forecasts
        found = {number: forecasts[number].start for number in self.order if number in forecasts}
        return {number: start for number, start in found.items() if start is not None}

    def go_on(self, quarters: int, ended: int) -> None:
        """Time passes, at most until the next job is due to end or to start; what is due ends, and one more job."""
        world, jobs = self.world, self.world.state.jobs
        running = sorted(world.state.active)
        reservations = [moment for one in world.state.reservations.values() for moment in (one.start, one.end)]
        moments = [*(jobs[number].limit_ends for number in running), *self.starts().values(), *reservations]
        ahead = [moment for moment in moments if moment > world.now]
        if ahead:
            world.now += max((min(ahead) - world.now) * quarters // 4, 1)
        due = {number for number in running if jobs[number].limit_ends <= world.now}
        early = {running[ended]} if ended < len(running) else set()
        for number in sorted(due | early):
            end(world, number)
        world.do(st.Tick())


def is_sure(world: World, number: JobNumber) -> bool:
    """Whether a promise to this job holds: no limit of somebody's use is in the way, and its place is planned in full.
    An array's is that of its next element."""
    job = world.state.jobs[number]
    return not job.is_array and not job.spec.request.near_gpus


def play_conservative(world: World, played: list[Turn]) -> None:
    cluster = Cluster(world, CONSERVATIVE)
    promised: dict[JobNumber, int] = {}
    for jobs, quarters, ended in played:
        for fields in jobs:
            submit(world, fields)
        cluster.cycle()
        starts = cluster.starts()
        for number, moment in promised.items():
            now = world.state.jobs[number].status.start_time or starts.get(number)
            assert now is not None and now <= moment, (number, moment, now, world.now, starts)
        promised = {number: start for number, start in starts.items() if is_sure(world, number)}
        cluster.go_on(quarters, ended)


@examples(200)
@given(worlds(), turns())
def test_a_promised_start_never_gets_later(world: World, played: list[Turn]) -> None:
    play_conservative(world, played)


@examples(120)
@given(worlds(gangs=True), turns(gangs=True))
def test_a_gangs_promised_start_never_gets_later(world: World, played: list[Turn]) -> None:
    play_conservative(world, played)


@examples(120)
@given(worlds(reserved=True), turns())
def test_a_promised_start_never_gets_later_for_reservations(world: World, played: list[Turn]) -> None:
    play_conservative(world, played)


def play_easy(world: World, count: int, played: list[Turn]) -> None:
    """A planned start gets later only where one in front of it got earlier or, asking for a range of nodes, takes more
    of them than it was planned on, or where somebody new got in front."""
    cluster = Cluster(world, msgspec.structs.replace(PLAIN, reservations=count))
    before: dict[JobNumber, int] = {}
    for jobs, quarters, ended in played:
        for fields in jobs:
            submit(world, fields)
        made = cluster.cycle()
        now = dict.fromkeys((start.number for start in made.starts), world.now) | cluster.starts()
        after = [(number, now[number]) for number in cluster.order if number in now]
        asked = {start.number: world.state.jobs[start.number].spec.request.nodes_min for start in made.starts}
        grown = {start.number for start in made.starts if len(start.allocation.nodes) > asked[start.number]}
        for (number, moment), (other, start) in zip(before.items(), after, strict=False):
            if other != number or start < moment or not is_sure(world, number):
                break
            assert start == moment, (number, moment, start, before, after)
            if number in grown:
                break
        before = cluster.starts()
        cluster.go_on(quarters, ended)


@examples(150)
@given(worlds(), some.integers(1, 4), turns())
def test_the_first_are_delayed_by_nobody_behind_them(world: World, count: int, played: list[Turn]) -> None:
    play_easy(world, count, played)


@examples(100)
@given(worlds(gangs=True), some.integers(1, 4), turns(gangs=True))
def test_the_first_gangs_are_delayed_by_nobody_behind_them(world: World, count: int, played: list[Turn]) -> None:
    play_easy(world, count, played)


policies = some.one_of(
    some.integers(0, 4).map(lambda count: msgspec.structs.replace(PLAIN, reservations=count)), some.just(CONSERVATIVE)
)


def only_the_next_knows(world: World, made: Plan) -> bool:
    """Whether a start may have used up a limit, which is not planned in time, or took of a part of a node that is reserved,
    of which the next cycle reserves the rest."""
    limited = any(
        scope.limits != Limits()
        for scopes in (world.state.accounts, world.state.associations)
        for scope in scopes.values()
    )
    limited |= any(
        Limits() != one for qos in world.state.qos.values() for one in (qos.limits, qos.user_limits, qos.account_limits)
    )
    reservations = (world.state.jobs[start.number].spec.reservation for start in made.starts)
    return bool(made.starts) and (
        limited or any(name and not whole(world.state.reservations[name]) for name in reservations)
    )


def play_twice(world: World, policy: Policy, played: list[Turn]) -> None:
    """So it is for every start but those that only the next cycle knows all of: there it is so once nothing starts."""
    cluster = Cluster(world, policy)
    for jobs, quarters, ended in played:
        for fields in jobs:
            submit(world, fields)
        first = cluster.cycle()
        while only_the_next_knows(world, first):
            first = cluster.cycle()
        starts = cluster.starts()
        again = cluster.cycle()
        assert again.starts == ()
        assert cluster.starts() == starts
        assert again.promises is None or again.promises.times.tolist() == first.promises.times.tolist()  # type: ignore[union-attr]
        cluster.go_on(quarters, ended)


@examples(100)
@given(worlds(shared=True), policies, turns())
def test_a_second_cycle_changes_nothing(world: World, policy: Policy, played: list[Turn]) -> None:
    play_twice(world, policy, played)


@examples(100)
@given(worlds(gangs=True), policies, turns(gangs=True))
def test_a_second_cycle_changes_nothing_for_gangs(world: World, policy: Policy, played: list[Turn]) -> None:
    play_twice(world, policy, played)


@examples(100)
@given(worlds(reserved=True), policies, turns())
def test_a_second_cycle_changes_nothing_beside_reservations(world: World, policy: Policy, played: list[Turn]) -> None:
    play_twice(world, policy, played)
