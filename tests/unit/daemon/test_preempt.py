"""Preemption decided by the real scheduler and carried out by the real core, on small clusters."""

from __future__ import annotations

import msgspec
import pytest
from support.preempt_kit import Preempting, asks
from support.states import ROOT, inventory

from flagplot_wire.job import GpuCount, Why
from flagplot_wire.node import Partition
from flagplot_wire.requests import Update
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.orders import ExtendOn, LaunchOn, SignalOn, StopOn
from flagplotd.core.state import State
from flagplotd.sched.plan import Policy


def victims(made: st.Planned) -> list[tuple[int, list[int]]]:
    return [(one.number, [victim.number for victim in one.victims]) for one in made.preempts]


def test_a_victim_is_requeued_tells_by_whom_and_the_room_is_the_preemptors() -> None:
    world = Preempting(nodes=1)
    world.change("modify", "qos", "low", grace="90")
    low = world.low()
    high = world.high()
    world.orders.clear()
    assert victims(world.whole_cycle()) == [(high, [low])]
    status = world.status(low)
    assert (status.state, status.ending, status.message) == ("COMPLETING", "PENDING", f"preempted by job {high}")
    assert (status.preempted_by, status.stop_by) == (high, world.now + 90)
    stop = next(order for order in world.orders if isinstance(order, StopOn))
    assert (stop.number, stop.kill_wait_s, stop.reason) == (low, 90, f"PREEMPTED BY JOB {high}")
    forecast = world.state.forecasts[high]  # type: ignore[index]
    assert forecast.start == world.now + 90 and forecast.nodes == ("n1",)
    assert [(one.why, one.text, one.jobs) for one in forecast.reasons] == [
        (Why.RESOURCES, f"waits for preempted job {low} to end", (low,))
    ]
    world.now += 5
    assert victims(world.whole_cycle()) == [], "a job that is being given room takes no more victims"
    assert world.state.forecasts[high].reasons == forecast.reasons  # type: ignore[index]
    assert world.state.forecasts[high].start == status.stop_by  # type: ignore[index]
    world.leave(low)
    assert (world.word(low), world.status(low).restarts) == ("PENDING", 1)
    made = world.whole_cycle()
    assert [start.number for start in made.starts] == [high] and not world.state.given_room
    world.end(high)
    assert [start.number for start in world.whole_cycle().starts] == [low]
    assert (world.status(low).preempted_by, world.status(low).message) == (0, "")


def test_nothing_takes_the_room_while_it_is_made() -> None:
    """A gang's room is made node by node; a job of higher priority that comes meanwhile, and short and long ones that
    fit, leave it to the preemptor."""
    world = Preempting(nodes=3)
    lows = [world.low() for _ in range(3)]
    high = world.high(asks(8, nodes_min=3, nodes_max=3))
    assert victims(world.whole_cycle()) == [(high, lows)]
    world.leave(lows[0])
    later = world.submit(asks(8), qos="high", nice=-1_000_000, who=ROOT)
    long, short = world.submit(asks(1, limit=86_400)), world.submit(asks(1, limit=10))
    for policy in (Policy(reservations=0), Policy()):
        made = world.whole_cycle(policy)
        assert [start.number for start in made.starts] in ([], [short]) and not made.preempts
    world.now += 11
    for number in (short, *lows[1:]):
        if number in world.state.active:
            world.leave(number)
    assert [start.number for start in world.whole_cycle().starts] == [high]
    assert {world.word(number) for number in (later, long)} == {"PENDING"}


@pytest.mark.parametrize(
    ("constraint", "gone"), [("[r1|r2]", [4, 5]), ("[r1*1&r2*1]", [3, 5]), ("r1*2", [1, 2, 3]), ("", [4, 5])]
)
def test_victims_leave_nodes_that_are_what_the_constraint_asks(constraint: str, gone: list[int]) -> None:
    world = Preempting(nodes=4)
    for name, word in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")):
        world.do(st.InventoryChanged(name, msgspec.structs.replace(inventory(), features=(word,))))
    for cpus, name in ((4, "n1"), (4, "n1"), (8, "n2"), (8, "n3"), (8, "n4")):
        world.now += 1
        world.low(asks(cpus, nodelist=(name,)))
    high = world.high(asks(8, nodes_min=2, nodes_max=2, constraint=constraint))
    made = world.whole_cycle()
    assert victims(made) == [(high, gone)]
    for number in gone:
        world.leave(number)
    assert [start.number for start in world.whole_cycle().starts] == [high]


@pytest.mark.parametrize(
    ("own", "cluster", "requeue", "state", "ending"),
    [
        ("", "cancel", True, "COMPLETING", "PREEMPTED"),
        ("cancel", "requeue", True, "COMPLETING", "PREEMPTED"),
        ("requeue", "off", True, "COMPLETING", "PENDING"),
        ("", "requeue", False, "COMPLETING", "PREEMPTED"),
        ("suspend", "cancel", True, "SUSPENDED", None),
        ("off", "cancel", True, "RUNNING", None),
        ("", "off", True, "RUNNING", None),
    ],
)
def test_what_becomes_of_victims(own: str, cluster: str, requeue: bool, state: str, ending: str | None) -> None:
    world = Preempting(nodes=1, mode=cluster)
    world.change("modify", "qos", "low", preempt_mode=own)
    low = world.low(requeue=requeue)
    high = world.high()
    world.whole_cycle()
    assert (world.word(low), world.status(low).ending) == (state, ending)
    if state == "COMPLETING":
        world.leave(low)
        assert world.word(low) == ending
    if state != "RUNNING":
        world.whole_cycle()
        assert world.word(high) == "RUNNING"


def test_rights_by_qos_and_by_tier() -> None:
    world = Preempting(nodes=1)
    world.low()
    for qos in ("low", ""):
        world.submit(asks(8), qos=qos)
    assert not world.whole_cycle().preempts, "only a QoS that lists the victim's preempts"
    world = Preempting(nodes=1, by="partition")
    world.change("add", "partition", "night", nodes="n1", tier="5", preempt_mode="cancel")
    world.change("add", "partition", "top", nodes="n1", tier="9")
    low = world.submit(asks(8), partition="night", qos="low")
    world.whole_cycle()
    world.high(asks(8), partition="night")
    assert not world.whole_cycle().preempts, "by tier the QoS counts for nothing, and equal tiers have no right"
    top = world.submit(asks(8), partition="top")
    assert victims(world.whole_cycle()) == [(top, [low])] and world.status(low).ending == "PREEMPTED"


def test_exempt_time_counts_from_the_start() -> None:
    world = Preempting(nodes=1, exempt_s=100)
    world.low()
    world.high()
    world.now += 99
    assert not world.whole_cycle().preempts
    world.change("modify", "qos", "low", exempt="200")
    world.now += 1
    assert not world.whole_cycle().preempts, "the QoS's own goes before the cluster's"
    world.now += 100
    assert world.whole_cycle().preempts


def test_the_fewest_then_lowest_then_youngest() -> None:
    world = Preempting(nodes=3)
    world.change("add", "qos", "lower", priority="0")
    world.change("modify", "qos", "low", priority="5")
    world.change("modify", "qos", "high", preempts="low,lower")
    pair = [world.low(asks(4, nodelist=("n1",))) for _ in range(2)]
    world.now += 10
    dear = world.low(asks(8, nodelist=("n2",)))
    cheap = world.submit(asks(8, nodelist=("n3",)), qos="lower")
    world.whole_cycle()
    high = world.high()
    assert victims(world.whole_cycle()) == [(high, [cheap])], "one of a lower QoS before a dearer one and a pair"
    next_high = world.high()
    assert victims(world.whole_cycle()) == [(next_high, [dear])]
    last = world.high(asks(4))
    assert victims(world.whole_cycle()) == [(last, [pair[0]])], "equal ones by number"


def test_the_youngest_of_equals_goes() -> None:
    world = Preempting(nodes=2)
    world.low()
    world.now += 60
    young = world.low()
    world.now += 60
    high = world.high()
    assert victims(world.whole_cycle()) == [(high, [young])]


def test_gangs_need_enough_nodes_and_nothing_is_stopped_in_vain() -> None:
    world = Preempting(nodes=3)
    first = world.low()
    world.submit(asks(8))
    world.whole_cycle()
    world.high(asks(8, nodes_min=3, nodes_max=3))
    assert not world.whole_cycle().preempts, "one node is held by a job that it may not preempt"
    assert world.word(first) == "RUNNING"
    pair = world.high(asks(8, nodes_min=2, nodes_max=2))
    made = world.whole_cycle()
    assert victims(made) in ([(pair, [first])], []) and world.status(first).state != "PENDING"


def test_a_job_that_waits_for_something_else_preempts_nobody() -> None:
    world = Preempting(nodes=1)
    low = world.low()
    world.high(asks(8), hold="user")
    world.high(asks(8), begin=world.now + 100)
    world.high(asks(9))
    assert not world.whole_cycle().preempts and world.word(low) == "RUNNING"


def test_a_preemptor_behind_another_does_not_delay_it() -> None:
    world = Preempting(nodes=2)
    lows = [world.low() for _ in range(2)]
    front = world.submit(asks(8, nodes_min=2, nodes_max=2), nice=-1_000_000, who=ROOT)
    world.now += 3_000
    world.high()
    assert not world.whole_cycle().preempts, "the room would go to the job in front, or delay it"
    short = world.high(asks(8, limit=60))
    assert victims(world.whole_cycle()) == [(short, [lows[0]])], "it ends before the job in front can start"
    assert world.word(front) == "PENDING"


def test_a_decision_is_checked_against_the_state_of_now() -> None:
    world = Preempting(nodes=2)
    lows = [world.low() for _ in range(2)]
    high = world.high()
    from flagplotd.sched.preempt import planned

    made = planned(world.snapshot(), Policy())
    chosen = made.preempts[0].victims[0].number
    other = next(number for number in lows if number != chosen)
    world.end(chosen)
    world.do(made)
    assert world.word(other) == "RUNNING" and not world.state.given_room
    again = planned(world.snapshot(), Policy())
    assert [start.number for start in again.starts] == [high] and not again.preempts
    made = msgspec.structs.replace(made, preempts=(msgspec.structs.replace(made.preempts[0], number=other),))
    world.do(made)
    assert world.word(other) == "RUNNING"


def test_victims_are_the_same_after_a_restart_of_the_controller() -> None:
    world = Preempting(nodes=1)
    world.change("modify", "qos", "low", grace="100")
    low = world.low()
    high = world.high()
    world.whole_cycle()
    fresh = State(world.state.settings)
    for event in world.journal:
        apply(fresh, event)
    assert fresh.jobs == world.state.jobs and fresh.given_room == world.state.given_room == {high}
    world.state = fresh
    partition = Partition("main", all_nodes=True, default=True)
    world.do(st.Boot(world.state.epoch, "0", (partition,)))
    world.now += 40
    world.orders.clear()
    inventory = world.state.nodes["n1"].inventory
    assert inventory is not None
    world.do(st.AgentJoined("n1", inventory, "0", world.running_on("n1")))
    stop = next(order for order in world.orders if isinstance(order, StopOn))
    assert (stop.number, stop.kill_wait_s) == (low, 60), "what is left of its grace"
    world.leave(low)
    assert [start.number for start in world.whole_cycle().starts] == [high]


def test_arrays_preempt_for_each_element_that_may_start() -> None:
    world = Preempting(nodes=3)
    lows = [world.low() for _ in range(3)]
    from flagplot_wire.job import ArraySpec

    array = world.high(asks(8), array=ArraySpec("0-4", 2))
    made = world.whole_cycle()
    assert [number for number, _ in victims(made)] == [array, array]
    gone = [number for number in lows if world.word(number) == "COMPLETING"]
    assert len(gone) == 2 and world.status(array).victims == tuple(number for _, (number,) in victims(made))
    world.leave(*gone)
    assert [start.number for start in world.whole_cycle().starts] == [array, array]
    assert not world.state.given_room


def test_suspended_jobs_keep_their_memory_stop_their_clock_and_go_on_first() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low(asks(8, 5_000, limit=1_000))
    world.now += 100
    too_large = world.high(asks(2, 5_000))
    assert not world.whole_cycle().preempts, "its memory stays, so that this would not fit"
    world.act("cancel", str(too_large))
    high = world.high(asks(2, 1_000))
    waiting = world.submit(asks(6))
    world.orders.clear()
    world.whole_cycle()
    assert world.word(low) == "SUSPENDED" and world.state.use["n1"].memory_mib == 5_000
    assert [type(order) for order in world.orders if not isinstance(order, type(None))][:2] == [SignalOn, ExtendOn]
    assert (world.orders[0].signal, world.orders[1].deadline_s) == ("STOP", 0)
    made = world.whole_cycle()
    assert [start.number for start in made.starts if world.word(start.number) == "RUNNING"] == [high]
    assert world.word(waiting) == "PENDING", "the other CPUs stay those of the suspended job"
    world.now += 300
    world.whole_cycle()
    assert world.word(low) == "SUSPENDED" and world.word(waiting) == "PENDING"
    world.end(high)
    world.orders.clear()
    world.whole_cycle()
    status = world.status(low)
    assert (status.state, status.suspended_s, status.suspended_at) == ("RUNNING", 300, 0)
    assert [(type(order).__name__, getattr(order, "deadline_s", getattr(order, "signal", ""))) for order in world.orders
            if isinstance(order, ExtendOn | SignalOn)] == [("ExtendOn", 1_300), ("SignalOn", "CONT")]  # fmt: skip
    assert world.job(low).limit_ends == status.start_time + 1_300
    assert world.word(waiting) == "PENDING"
    world.end(low)
    world.whole_cycle()
    assert world.word(waiting) == "RUNNING"


def test_a_suspended_job_is_taken_again_before_it_goes_on_and_can_be_cancelled() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low()
    first = world.high(asks(8))
    world.whole_cycle()
    world.whole_cycle()
    second = world.high(asks(8))
    world.whole_cycle()
    world.end(first)
    world.whole_cycle()
    assert world.word(low) == "SUSPENDED" and world.status(low).preempted_by == second
    world.whole_cycle()
    assert world.word(second) == "RUNNING"
    world.act("cancel", str(low))
    assert world.word(low) == "COMPLETING"
    world.leave(low)
    assert world.word(low) == "CANCELLED" and world.state.use["n1"].cpus.bit_count() == 8


def test_jobs_with_gpus_are_requeued_instead_of_suspended() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low(asks(1, gpus_per_node=(GpuCount(2),)))
    world.high(asks(1, gpus_per_node=(GpuCount(1),)))
    world.whole_cycle()
    assert world.status(low).ending == "PENDING"


def test_a_suspended_job_goes_on_when_its_preemptor_is_gone_or_cannot_start() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low()
    high = world.high()
    world.whole_cycle()
    world.act("hold", str(high))
    world.whole_cycle()
    assert world.word(low) == "RUNNING" and not world.state.given_room
    world.act("release", str(high))
    world.whole_cycle()
    world.act("cancel", str(high))
    assert world.word(low) == "SUSPENDED"
    world.whole_cycle()
    assert world.word(low) == "RUNNING"


def test_a_node_that_comes_back_hears_again_what_is_suspended() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low(asks(8, limit=1_000))
    world.high()
    world.whole_cycle()
    inventory = world.state.nodes["n1"].inventory
    assert inventory is not None
    running = world.running_on("n1")
    for stimulus in (st.AgentJoined("n1", inventory, "0", running), st.Reported("n1", running)):
        world.orders.clear()
        world.do(stimulus)
        told = [(order.number, order.signal) for order in world.orders if isinstance(order, SignalOn)]
        assert told == [(low, "STOP")]
    world.whole_cycle()
    world.now += 50
    world.end(next(number for number in world.state.active if number != low))
    world.whole_cycle()
    world.orders.clear()
    world.do(st.AgentJoined("n1", inventory, "0", world.running_on("n1")))
    assert [(order.number, order.signal) for order in world.orders if isinstance(order, SignalOn)] == [(low, "CONT")]
    assert not any(isinstance(order, LaunchOn) for order in world.orders)


def test_usage_and_a_changed_limit_leave_the_suspension_out() -> None:
    world = Preempting(nodes=1, mode="suspend")
    low = world.low(asks(8, limit=1_000), account="physics")
    world.now += 100
    high = world.high()
    world.whole_cycle()
    world.whole_cycle()
    world.now += 300
    world.do(st.Tick())
    world.orders.clear()
    reply = world.do(st.UpdateJobs(ROOT, Update((str(low),), time_limit="50"))).reply
    assert reply is not None and not any(isinstance(order, ExtendOn) for order in world.orders), (
        "its clock stays stopped"
    )
    world.end(high)
    world.whole_cycle()
    assert [order.deadline_s for order in world.orders if isinstance(order, ExtendOn)] == [3_300]
    world.now += 50
    world.end(low)
    usage = world.state.usage["ada@physics"]
    half_life = world.state.settings.usage_half_life_s
    assert 0.5 ** (450 / half_life) * 150 * 8_000 <= usage.weighted <= 150 * 8_000


def test_where_nobody_waits_who_may_preempt_nobody_is_looked_at() -> None:
    world = Preempting(nodes=1)
    world.low()
    world.submit(asks(8))
    given = world.snapshot().preemption
    assert given is not None and given.victims == ()
    world.high()
    given = world.snapshot().preemption
    assert given is not None and len(given.victims) == 1
    world.change("modify", "qos", "high", preempts="")
    assert world.snapshot().preemption is None
