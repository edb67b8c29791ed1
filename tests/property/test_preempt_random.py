"""Random clusters: victims against every possible set, and what must hold whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.preempt_kit import Preempting, asks
from support.preempt_oracle import fewest, may_go

from flagplot_wire.job import GpuCount, Request
from flagplotd.sched.plan import Policy
from flagplotd.sched.preempt import decide
from flagplotd.sched.snapshot import Snapshot
from flagplotd.sched.victims import Choice, Cost, total

SETTINGS = settings(
    max_examples=150, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip


def requests(nodes: int) -> some.SearchStrategy[Request]:
    """Of CPUs, memory, GPUs, shares and gangs of up to so many nodes."""

    def made(cpus: int, mem: int, gpu: int, share: int, count: int, limit: int) -> Request:
        whole = (GpuCount(gpu),) if gpu else ()
        return asks(
            cpus, mem, limit * 60, gpus_per_node=whole, shards=0 if gpu else share, nodes_min=count, nodes_max=count
        )

    return some.builds(
        made, some.integers(1, 8), some.integers(1, 5_000), some.sampled_from((0, 0, 1, 2)),
        some.sampled_from((0, 0, 3, 8)), some.integers(1, nodes), some.integers(1, 90),
    )  # fmt: skip


@some.composite
def worlds(draw: Any) -> Preempting:
    """A cluster on which jobs of QoS low and of none run, begun at different times."""
    nodes = draw(some.integers(1, 6))
    mode = draw(some.sampled_from(("cancel", "requeue", "suspend")))
    world = Preempting(nodes=nodes, mode=mode, exempt_s=draw(some.sampled_from((0, 0, 30))))
    for request in draw(some.lists(requests(min(nodes, 2)), max_size=8)):
        number = world.submit(request, qos=draw(some.sampled_from(("low", "low", "low", ""))))
        world.whole_cycle()
        if world.word(number) == "PENDING":
            world.act("cancel", str(number))
        world.now += draw(some.integers(0, 20))
    return world


@SETTINGS
@given(worlds(), some.data())
def test_victims_are_the_fewest_and_the_youngest(world: Preempting, data: Any) -> None:
    exempt_s, asleep = world.state.settings.preempt_exempt_s, world.state.settings.preempt_mode == "suspend"
    request = data.draw(requests(len(world.state.nodes)))
    if data.draw(some.integers(0, 5)) == 0:
        request = msgspec.structs.replace(request, exclusive=True)
    high = world.high(request)
    best = fewest(world.state, request, world.now, exempt_s, asleep)
    before = dict(world.state.jobs)
    made = world.whole_cycle()
    started = [start.number for start in made.starts]
    if best is None:
        assert not made.preempts and not started, "never in vain"
        return
    if best[0] == 0:
        assert started == [high] and not made.preempts
        return
    (one,) = made.preempts
    gone = [before[victim.number] for victim in one.victims]
    assert all(may_go(job, world.now, exempt_s) for job in gone), "rights are kept"
    assert (len(gone), sum(world.now - job.status.start_time for job in gone)) == best
    assert world.state.given_room == {high}
    assert not world.whole_cycle().preempts or not any(world.word(job.number) == "COMPLETING" for job in gone), (
        "a job that is being given room takes no more"
    )
    world.leave(*(job.number for job in gone if world.word(job.number) == "COMPLETING"))
    world.whole_cycle()
    assert world.word(high) == "RUNNING", "never in vain"


@SETTINGS
@given(worlds(), some.data())
def test_several_preemptors_all_start_when_their_victims_are_gone(world: Preempting, data: Any) -> None:
    nodes = len(world.state.nodes)
    highs = [world.high(request) for request in data.draw(some.lists(requests(nodes), min_size=1, max_size=4))]
    others = [world.submit(request) for request in data.draw(some.lists(requests(nodes), max_size=2))]
    made = world.whole_cycle()
    served = {one.number for one in made.preempts}
    assert served <= set(highs) and not served & set(others)
    victims = [victim.number for one in made.preempts for victim in one.victims]
    assert len(victims) == len(set(victims)), "nobody is preempted twice"
    late = world.high(data.draw(requests(nodes)))
    for number in data.draw(some.permutations(victims)):
        if world.word(number) == "COMPLETING":
            world.leave(number)
            world.now += data.draw(some.integers(0, 3))
            world.whole_cycle()
    world.whole_cycle()
    for number in served:
        assert world.word(number) == "RUNNING", "the room went to others"
    for number in sorted(world.state.active):
        if world.word(number) == "RUNNING" and number != late:
            for node in world.status(number).allocation.names:  # type: ignore[union-attr]
                if number in world.state.active:
                    world.end(number, node=node)
            world.whole_cycle()
    for _ in range(20):
        for number in sorted(world.state.active):
            if world.word(number) != "SUSPENDED":
                world.leave(number)
        world.whole_cycle()
    assert not world.state.suspended, "what was suspended goes on"


def renamed(snapshot: Snapshot) -> Snapshot:
    """The same cluster with its nodes called and ordered otherwise."""
    count = len(snapshot.nodes)
    names = {node.name: f"m{count - row}" for row, node in enumerate(snapshot.nodes)}
    back = list(range(count))[::-1]
    by_node = {
        name: getattr(snapshot, name)[back]
        for name in ("up", "n_cpu", "n_mem", "n_leaf", "n_block", "cpu", "mem", "gfree", "jobs", "c_numa", "g_of",
                     "g_ok", "g_type", "g_vram", "g_numa")
    }  # fmt: skip
    given = snapshot.preemption
    assert given is not None
    victims = tuple(
        msgspec.structs.replace(
            one, frees=tuple(msgspec.structs.replace(freed, node=names[freed.node]) for freed in one.frees)
        )
        for one in given.victims
    )
    return replace(
        snapshot,
        nodes=[msgspec.structs.replace(snapshot.nodes[row], name=names[snapshot.nodes[row].name]) for row in back],
        free_cpus=[snapshot.free_cpus[row] for row in back],
        allowed=snapshot.allowed[:, back],
        e_node=count - 1 - snapshot.e_node,
        preemption=msgspec.structs.replace(given, victims=victims),
        **by_node,
    )


@SETTINGS
@given(worlds(), some.data())
def test_the_names_of_nodes_decide_nothing(world: Preempting, data: Any) -> None:
    world.high(data.draw(requests(len(world.state.nodes))))
    first = decide(world.snapshot(), (), Policy())
    again = decide(renamed(world.snapshot()), (), Policy())
    assert [one.victims for one in first.preempts] == [one.victims for one in again.preempts]


@settings(max_examples=150, deadline=None, print_blob=True)
@given(some.data())
def test_many_victims_that_span_nodes_leave_no_spare_one(data: Any) -> None:
    """Beyond what is compared exactly: what is chosen suffices, and without any of it it would not."""
    nodes = data.draw(some.integers(3, 8))
    width = data.draw(some.integers(1, 6))
    on = data.draw(some.lists(some.sets(some.integers(0, nodes - 1), min_size=1, max_size=3), min_size=13, max_size=24))
    costs = [
        Cost(1, data.draw(some.integers(0, 3)), data.draw(some.integers(0, 9)), (place,)) for place in range(len(on))
    ]
    need = data.draw(some.integers(1, nodes))

    def fits(node: int, gone: frozenset[int]) -> bool:
        return len(gone) >= min(width, sum(node in where for where in on)) > 0

    found = Choice(range(nodes), need, costs, on, fits).fewest()
    if found is None:
        assert sum(any(node in where for where in on) for node in range(nodes)) < need
        return

    def enough(gone: frozenset[int]) -> bool:
        return sum(fits(node, frozenset(p for p in gone if node in on[p])) for node in range(nodes)) >= need

    assert enough(found) and not any(enough(found - {place}) for place in found)
    assert total(costs[place] for place in found).count == len(found)
