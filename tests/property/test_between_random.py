"""What starts between two cycles is what a whole cycle of that moment would start, and it would start nothing else there."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from support.random_clusters import PEOPLE, requests, worlds
from support.states import ADA, ROOT, World
from support.thorough import examples

from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.events import PolicyChanged
from flagplot_wire.job import ArraySpec, GpuCount, JobSpec, LicenseCount, Request
from flagplot_wire.policy import Account, Association, Limits, Reservation
from flagplot_wire.requests import DrainNodes, ResumeNodes
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.recheck import why_not
from flagplotd.core.state import Settings, Switch, Who
from flagplotd.sched.between import Between, left_by
from flagplotd.sched.kernel.layout import NEVER
from flagplotd.sched.plan import Plan, Policy, plan, run
from flagplotd.sched.promises import Memory, Promises
from flagplotd.sched.snapshot import take
from flagplotd.sched.standing import Standing

SWITCHES = (Switch("s1", ("n1", "n2")), Switch("s2", ("n3", "n4")), Switch("top", switches=("s1", "s2")))


BOB = Who("bob", 1001)


class Rig:
    """A busy cluster with a standing snapshot and what the last cycle left."""

    def __init__(self, world: World, policy: Policy, chance: Random) -> None:
        self.world, self.policy, self.chance = world, policy, chance
        self.standing, self.memory = Standing(), Memory()
        self.keys = 0
        self.between: Between | None = None

    def do(self, stimulus: st.Stimulus) -> None:
        for body in self.world.do(stimulus).events:
            self.standing.note(body)
            if self.between is not None:
                self.between.note(body)

    def submit(self, request: Request, who: Who, **fields: Any) -> None:
        self.keys += 1
        self.do(st.SubmitJob(who, JobSpec("job", "/tmp", request, **fields), f"key{self.keys}"))

    def cycle(self) -> None:
        state, now = self.world.state, self.world.now
        self.standing.sync(state, now)
        self.between = Between(self.standing, state)
        snapshot = self.standing.snapshot()
        snapshot.memory = self.memory
        done = run(snapshot, self.policy)
        self.memory = Memory(done.promises or Promises())
        self.between.follow(left_by(done, self.policy))
        self.do(st.Planned(done.starts))

    def settle(self) -> None:
        """Cycles until nothing starts any more."""
        before = -1
        while before != len(self.world.state.active):
            before = len(self.world.state.active)
            self.cycle()

    def end_one(self) -> None:
        number = self.chance.choice(sorted(self.world.state.active))
        job = self.world.state.jobs[number]
        assert job.status.allocation is not None
        end = AttemptEnd(number, job.status.attempt, "exited", 0, time=self.world.now)
        for node in job.status.allocation.names:
            self.do(st.AttemptEnded(node, end))

    def node_again(self) -> None:
        name = self.chance.choice(sorted(self.world.state.nodes))
        self.do(st.Drain(ROOT, DrainNodes((name,), "test")))
        self.settle()
        self.do(st.Resume(ROOT, ResumeNodes((name,))))

    def whole(self) -> Plan:
        """What a whole cycle of now would plan."""
        snapshot = take(self.world.state, self.world.now)
        snapshot.memory = self.memory
        return plan(snapshot, self.policy)

    def nothing_is_later(self, started: tuple[st.Start, ...], instead: Plan) -> None:
        """Whether every job that was planned, in front of the first planned one that started, has its start, or that which a
        whole cycle without the last starts gives it."""
        now, promises, whole = self.world.now, self.memory.promises, self.whole()
        starts = {one.number: one.start or NEVER for one in whole.forecasts} | {one.number: now for one in whole.starts}
        others = {one.number: one.start or NEVER for one in instead.forecasts}
        for number, place in promises.places.items():
            if any(start.number == number for start in started):
                break
            if number in self.world.state.pending and not self.world.state.jobs[number].is_array:
                planned = max(int(promises.times[place]), now + 1, others.get(number, now))
                assert starts[number] <= planned, (number, starts[number], planned)

    def check(self, at_once: int = 1) -> str:
        """Start what starts now, and compare with a whole cycle; what became of it. Where several things happened at once, or
        something was left before, that cycle may choose other nodes."""
        state, now, between = self.world.state, self.world.now, self.between
        assert between is not None
        simple, exact = not between.over, at_once == 1 and not between.partial
        starts, whole = between.starts(state, now), self.whole()
        for start in starts:
            assert why_not(state, start, now) == ""
        if exact:
            assert set(starts) <= set(whole.starts), (starts, whole.starts)
            assert between.left or starts == whole.starts, (starts, whole.starts)
        left = between.left
        self.do(st.Planned(starts, whole=False))
        # Limits are not planned in time, and what was promised to an array is for its next element then.
        if starts and not state.accounts and not any(state.jobs[start.number].is_array for start in starts):
            self.nothing_is_later(starts, whole)
        if not simple:
            return ""
        return f"{'later ' if not exact else ''}{'some' if starts and left else 'left' if left else 'all' if starts else 'none'}"


outcomes: Counter[str] = Counter()


def follow(rig: Rig, rounds: int) -> None:
    """Ends and what starts at them, with and without a whole cycle between."""
    chance = rig.chance
    for _ in range(rounds):
        if chance.random() < 0.6 or rig.between is None:
            rig.settle()
        if not rig.world.state.active:
            return
        rig.world.now += chance.choice((0, 0, 0, 1, 60, 700))
        if chance.random() < 0.15:
            rig.node_again()
            outcomes[rig.check()] += 1
            continue
        many = min(chance.choice((1, 1, 1, 2)), len(rig.world.state.active))
        for _ in range(many):
            rig.end_one()
        outcomes[rig.check(many)] += 1


def made(seed: int) -> tuple[Rig, int]:
    """Nodes of one kind, on which most is decided between two cycles; and how many rounds."""
    chance = Random(seed)
    choice, pick = chance.choice, chance.random
    world = World(choice((1, 2, 4)), Settings(licenses=(("matlab", 1),), switches=choice(((), SWITCHES))))
    rig = Rig(world, Policy(weight_age=0, reservations=choice((0, 1, 2, 5))), chance)
    if pick() < 0.4:
        apply(world.state, PolicyChanged(Account("physics", limits=Limits(gpus=choice((2, 4))))))
        apply(world.state, PolicyChanged(Association("bob", "physics", default=True)))
    if pick() < 0.3:
        start = world.now + choice((100, 2_000))
        cores = choice((None, 2))
        apply(world.state, PolicyChanged(Reservation("r", start, start + 5_000, nodes=("n1",), cores=cores)))
    for _ in range(chance.randrange(5, 30)):
        gpus, nodes = choice((0, 1, 1, 2)), choice((1, 1, 1, 1, 2))
        request = Request(
            nodes_min=nodes, nodes_max=nodes, cpus_per_task=choice((1, 2, 4, 8)), mem_per_node_mib=choice((100, 2_000, 6_000)),
            time_limit_s=choice((60, 300, 900, 3_600)), gpus_per_node=(GpuCount(gpus),) if gpus else (),
            shards=0 if gpus else choice((0, 0, 3, 6)), exclusive=pick() < 0.05, near_gpus=gpus > 0 and pick() < 0.1,
            licenses=(LicenseCount("matlab"),) if pick() < 0.05 else (),
        )  # fmt: skip
        array = ArraySpec("0-2", choice((0, 0, 2))) if pick() < 0.15 else None
        rig.submit(request, choice((ADA, BOB)), array=array, nice=choice((0, 10)))
    return rig, 8


@examples(200)
@given(some.integers(0, 2**32))
def test_starts_are_those_of_a_whole_cycle(seed: int) -> None:
    follow(*made(seed))


@examples(200)
@given(some.data(), some.booleans(), some.booleans(), some.booleans(), some.integers(0, 2**32))
def test_starts_are_those_of_a_whole_cycle_on_nodes_of_many_kinds(
    data: some.DataObject, gangs: bool, reserved: bool, shared: bool, seed: int
) -> None:
    world = data.draw(worlds(gangs=gangs, reserved=reserved, shared=shared))
    rig = Rig(world, Policy(weight_age=0, reservations=data.draw(some.sampled_from((0, 1, 2, 5)))), Random(seed))
    for request in data.draw(some.lists(requests(gangs=gangs), min_size=4, max_size=25)):
        account = rig.chance.choice(("", "a", "b")) if shared else ""
        fields = {"account": account} if account else {}
        rig.submit(
            request, rig.chance.choice(PEOPLE), partition=rig.chance.choice(("main", "main", "second")), **fields
        )
    follow(rig, 6)


def test_each_outcome_occurs() -> None:
    for seed in range(60):
        follow(*made(seed))
    assert min(outcomes[word] for word in ("all", "none", "some", "left", "later some")) > 3, outcomes
