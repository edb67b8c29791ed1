"""Where and when the plan puts jobs: switches, blocks, neighbours, NUMA, reservations, licenses and limits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.states import World, inventory

from flagplot_wire import events as ev
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Forecast, GpuCount, LicenseCount, Request, Why
from flagplot_wire.node import Gpu, NumaNode, Partition
from flagplot_wire.policy import Account, Limits, Qos, Reservation
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.recheck import why_not
from flagplotd.core.state import Settings, Switch, Who
from flagplotd.sched.plan import Policy, plan
from flagplotd.sched.snapshot import take

BOB = Who("bob", 1001)
TREE = (
    Switch("top", switches=("left", "right")),
    Switch("left", ("n1", "n2", "n3")),
    Switch("right", ("n4", "n5", "n6", "n7")),
)


def ask(nodes: int = 1, cpus: int = 8, minutes: int = 60, **more: Any) -> Request:
    more.setdefault("mem_per_node_mib", 100)
    return Request(nodes_min=nodes, nodes_max=nodes, cpus_per_task=cpus, time_limit_s=minutes * 60, **more)


def names(world: World, number: int) -> list[str]:
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    return allocation.names if allocation is not None else []


def start(world: World, request: Request, **fields: Any) -> list[str]:
    """Submit, run a cycle, and tell the nodes (none: it waits)."""
    number = world.submit(request, **fields)
    world.cycle()
    return names(world, number)


def forecast(world: World, number: int, policy: Policy | None = None) -> Forecast:
    made = plan(take(world.state, world.now), policy or Policy())
    return next(one for one in made.forecasts if one.number == number)


def reserve(world: World, **fields: Any) -> None:
    apply(world.state, ev.PolicyChanged(Reservation("course", **fields)))


def test_a_gang_takes_the_leaf_that_fits_best() -> None:
    world = World(nodes=7, settings=Settings(switches=TREE))
    assert start(world, ask(3)) == ["n1", "n2", "n3"]
    assert start(world, ask(2)) == ["n4", "n5"]


def test_a_gang_over_leaves_takes_the_fewest() -> None:
    world = World(nodes=7, settings=Settings(switches=TREE))
    assert start(world, ask(1, nodelist=("n5",))) == ["n5"]
    assert start(world, ask(4)) == ["n1", "n2", "n3", "n4"]


def test_a_most_of_switches_waits_and_is_given_up_after_its_time() -> None:
    world = World(nodes=7, settings=Settings(switches=TREE))
    for node in ("n1", "n4"):
        world.submit(ask(1, nodelist=(node,)))
    world.cycle()
    number = world.submit(ask(4, switches=1, switches_wait_s=600))
    world.cycle()
    told = forecast(world, number)
    assert told.start == world.now + 3_600
    assert told.reasons[0].text == "the nodes that are free do not hang together as it asks"
    world.now += 600
    world.cycle()
    assert len(names(world, number)) == 4


def test_a_gang_stays_in_one_block() -> None:
    blocks = (Switch("b1", ("n1", "n3", "n5"), block=True), Switch("b2", ("n2", "n4", "n6", "n7"), block=True))
    world = World(nodes=7, settings=Settings(switches=blocks))
    assert start(world, ask(3)) == ["n1", "n3", "n5"]
    assert start(world, ask(3)) == ["n2", "n4", "n6"]


def test_neighbours_follow_one_another() -> None:
    world = World(nodes=7)
    assert start(world, ask(1, nodelist=("n3",))) == ["n3"]
    number = world.submit(ask(3, contiguous=True))
    world.cycle()
    assert names(world, number) == ["n4", "n5", "n6"]
    late = world.submit(ask(3, contiguous=True))
    world.cycle()
    assert names(world, late) == []
    assert forecast(world, late).start == world.now + 3_600


def two_sockets(world: World) -> None:
    """GPU 0 beside CPUs 0-3, GPU 1 beside 4-7."""
    node = world.state.nodes["n1"]
    assert node.inventory is not None
    gpus = tuple(msgspec.structs.replace(gpu, numa=gpu.index) for gpu in node.inventory.gpus)
    numa = (NumaNode(0, "0-3", 4_000), NumaNode(1, "4-7", 4_000))
    inventory = msgspec.structs.replace(node.inventory, gpus=gpus, numa=numa)
    apply(world.state, ev.NodeChanged(msgspec.structs.replace(node, inventory=inventory), "hardware"))


def test_the_gpu_with_free_cpus_beside_it_is_chosen() -> None:
    world = World(nodes=1)
    two_sockets(world)
    start(world, ask(cpus=3))
    number = world.submit(ask(cpus=4, gpus_per_node=(GpuCount(1),)))
    world.cycle()
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None
    assert ([gpu.index for gpu in allocation.nodes[0].gpus], allocation.nodes[0].cpu_ids) == ([1], "4-7")


@pytest.mark.parametrize("strict", [False, True])
def test_strictly_near_waits_where_a_best_effort_starts(strict: bool) -> None:
    world = World(nodes=1)
    two_sockets(world)
    start(world, ask(cpus=3))
    request = ask(cpus=5, gpus_per_node=(GpuCount(1),), near_gpus=strict)
    assert start(world, request) == ([] if strict else ["n1"])


def with_features(world: World, **features: str) -> None:
    """Give nodes other features; `n1="a,b"`."""
    for name, words in features.items():
        hardware = msgspec.structs.replace(inventory(), features=tuple(words.split(",")))
        world.do(st.InventoryChanged(name, hardware))


def test_all_nodes_are_of_one_alternative() -> None:
    world = World(nodes=5)
    with_features(world, n1="r1", n2="r2", n3="r1", n4="r2", n5="r2")
    assert start(world, ask(3, constraint="[r1|r2]")) == ["n2", "n4", "n5"]
    number = world.submit(ask(3, constraint="[r1|r2]"))
    world.cycle()
    told = forecast(world, number)
    assert (names(world, number), told.start, told.nodes) == ([], world.now + 3_600, ("n2",))


def test_a_job_of_one_node_is_on_one_that_is_all_that_is_counted() -> None:
    world = World(nodes=2)
    with_features(world, n1="a", n2="a,b")
    assert start(world, ask(constraint="a*1&b*1")) == ["n2"]


def test_what_a_constraint_counts_is_told_while_it_waits_and_when_it_never_comes() -> None:
    world = World(nodes=3)
    with_features(world, n1="a", n2="a", n3="b")
    assert start(world, ask(nodelist=("n3",))) == ["n3"]
    waits = world.submit(ask(2, constraint="[a*1&b*1]"))
    never = world.submit(ask(3, constraint="a*1&b*2"))
    world.cycle()
    assert forecast(world, waits).start == world.now + 3_600
    assert forecast(world, waits).reasons[0].text.startswith("too few of the nodes that are free are those")
    assert forecast(world, never).never and forecast(world, never).start is None


def test_a_start_is_dropped_when_features_went() -> None:
    world = World(nodes=2)
    with_features(world, n1="a", n2="b")
    number = world.submit(ask(2, constraint="[a*1&b*1]"))
    (planned,) = plan(take(world.state, world.now), Policy()).starts
    with_features(world, n2="c")
    assert why_not(world.state, planned, world.now) == "the nodes are not as [a*1&b*1] asks"
    world.cycle_one(planned)
    assert world.word(number) == "PENDING"


def weighted(nodes: int = 4, switches: tuple[Switch, ...] = (), **weights: int) -> World:
    return World(nodes=nodes, settings=Settings(node_weights=tuple(weights.items()), switches=switches))


def test_one_node_is_the_lightest_before_the_fullest() -> None:
    world = weighted(n1=5, n2=3, n4=3)
    assert start(world, ask(cpus=2, nodelist=("n1",))) == ["n1"], "what it asks for comes first"
    assert [start(world, ask(cpus=4)) for _ in range(5)] == [["n3"], ["n3"], ["n2"], ["n2"], ["n4"]]


def test_a_gang_takes_the_lightest_that_suffice_whatever_joins_them() -> None:
    tree = (Switch("top", switches=("l", "r")), Switch("l", ("n1", "n2")), Switch("r", ("n3", "n4")))
    assert start(weighted(switches=tree, n1=2), ask(2)) == ["n3", "n4"]
    assert start(weighted(switches=tree, n1=2, n3=2), ask(2)) == ["n2", "n4"]
    assert start(weighted(switches=tree, n1=2, n3=2), ask(2, switches=1)) == ["n1", "n2"]
    assert start(weighted(n2=7), ask(2, contiguous=True)) == ["n3", "n4"]


def test_a_planned_start_is_on_the_lightest_of_the_first_moment() -> None:
    world = weighted(nodes=3, n1=9, n2=2, n3=4)
    for _ in range(3):
        start(world, ask())
    one, two = world.submit(ask()), world.submit(ask(2))
    world.cycle()
    assert forecast(world, one).nodes == ("n2",)
    assert (forecast(world, two).nodes, forecast(world, two).start) == (("n1",), world.now + 3_600)


def test_weights_stay_with_a_node_that_is_removed_and_comes_again() -> None:
    world = weighted(nodes=1, n1=6)
    apply(world.state, ev.NodeRemoved("n1", "root"))
    world.do(st.AgentJoined("n1", inventory(), "0"))
    assert world.state.nodes["n1"].weight == 6
    world.state.settings = Settings()
    world.do(st.Boot(Epoch(2), "0", (Partition("main", all_nodes=True, default=True),)))
    assert world.state.nodes["n1"].weight == 1


def linked(world: World, numa: list[int], *islands: tuple[int, ...]) -> None:
    """Give n1 GPUs on these NUMA domains, those of an island joined by links."""
    joined = {gpu: tuple(other for other in island if other != gpu) for island in islands for gpu in island}
    gpus = tuple(Gpu(place, f"G{place}", "a100", numa=at, links=joined.get(place, ())) for place, at in enumerate(numa))
    nodes = (NumaNode(0, "0-3", 4_000), NumaNode(1, "4-7", 4_000))
    world.do(st.InventoryChanged("n1", msgspec.structs.replace(inventory(), gpus=gpus, numa=nodes)))


def cards(world: World, count: int, **more: Any) -> list[int]:
    number = world.submit(ask(cpus=1, gpus_per_node=(GpuCount(count),), **more))
    world.cycle()
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None
    return [gpu.index for gpu in allocation.nodes[0].gpus]


def test_gpus_joined_by_links_go_together_and_one_alone_breaks_the_smallest_island() -> None:
    world = World(nodes=1)
    linked(world, [0, 0, 0, 0, 1, 1, 1, 1], (0, 2), (1, 3), (4, 6), (5, 7))
    assert cards(world, 1) == [0]
    assert cards(world, 1) == [2], "not one of an unbroken pair"
    assert cards(world, 2) == [1, 3], "the domain that is left has a pair"
    assert cards(world, 3) == [4, 5, 6], "a pair, and one more"


def test_links_join_more_than_a_numa_domain_does() -> None:
    world = World(nodes=1)
    linked(world, [0, 0, 1, 1], (0, 2), (1, 3))
    assert cards(world, 2) == [0, 2]
    world = World(nodes=1)
    linked(world, [0, 0, 1, 1])
    assert cards(world, 2) == [0, 1]


def test_a_pair_beside_free_cpus_is_chosen() -> None:
    world = World(nodes=1)
    linked(world, [0, 0, 1, 1], (0, 1), (2, 3))
    start(world, ask(cpus=4))
    assert cards(world, 2) == [2, 3]


def test_a_strictly_near_share_is_of_a_gpu_that_has_cpus_beside_it() -> None:
    world = World(nodes=1)
    linked(world, [0, 1])
    start(world, ask(cpus=1, shards=4))
    start(world, ask(cpus=3))
    number = world.submit(ask(cpus=2, shards=2, near_gpus=True))
    world.cycle()
    allocation = world.state.jobs[JobNumber(number)].status.allocation
    assert allocation is not None
    assert ([gpu.index for gpu in allocation.nodes[0].gpus], allocation.nodes[0].cpu_ids) == ([1], "4-5")


def test_a_job_starts_when_its_reservation_does() -> None:
    world = World(nodes=2)
    reserve(world, start=world.now + 600, end=world.now + 6_000, nodes=("n2",), users=("ada",))
    number = world.submit(ask(minutes=30), reservation="course")
    world.cycle()
    told = forecast(world, number)
    assert (names(world, number), told.start, told.nodes) == ([], world.now + 600, ("n2",))
    assert [reason.why for reason in told.reasons] == [Why.RESERVATION]
    world.now += 600
    world.cycle()
    assert names(world, number) == ["n2"]


def test_others_start_beside_a_reservation_only_if_they_end_before() -> None:
    world = World(nodes=1)
    reserve(world, start=world.now + 1_800, end=world.now + 3_600, nodes=("n1",), users=("bob",))
    long = world.submit(ask(cpus=4, minutes=60))
    world.cycle()
    told = forecast(world, long)
    assert (names(world, long), told.start) == ([], world.now + 3_600)
    assert told.reasons[0].why is Why.RESERVED and "course" in told.reasons[0].text
    assert start(world, ask(cpus=4, minutes=30)) == ["n1"]


def test_part_of_a_node_is_reserved_and_the_rest_is_used() -> None:
    world = World(nodes=1)
    reserve(world, start=world.now, end=world.now + 36_000, nodes=("n1",), cores=4, gpus=1, users=("bob",))
    assert start(world, ask(cpus=4, gpus_per_node=(GpuCount(1),))) == ["n1"]
    blocked = world.submit(ask(cpus=1))
    world.cycle()
    assert (names(world, blocked), forecast(world, blocked).start) == ([], world.now + 3_600)
    assert start(world, ask(cpus=4, gpus_per_node=(GpuCount(1),)), who=BOB, reservation="course") == ["n1"]


def test_what_members_hold_of_a_part_counts_as_the_reserved() -> None:
    world = World(nodes=1)
    reserve(world, start=world.now, end=world.now + 36_000, nodes=("n1",), cores=4, users=("bob",))
    assert start(world, ask(cpus=4), who=BOB, reservation="course") == ["n1"]
    assert start(world, ask(cpus=4)) == ["n1"]


def test_licenses_are_planned_like_nodes() -> None:
    world = World(nodes=3, settings=Settings(licenses=(("matlab", 2),)))
    assert start(world, ask(minutes=20, licenses=(LicenseCount("matlab", 2),))) == ["n1"]
    number = world.submit(ask(licenses=(LicenseCount("matlab"),)))
    world.cycle()
    told = forecast(world, number)
    assert (told.start, [reason.why for reason in told.reasons]) == (world.now + 1_200, [Why.LICENSES])
    assert "matlab (0 free)" in told.reasons[0].text
    assert start(world, ask()) == ["n2"], "what needs no license goes on"


def test_reserved_licenses_are_for_their_people() -> None:
    world = World(nodes=2, settings=Settings(licenses=(("matlab", 1),)))
    reserve(world, start=world.now, end=world.now + 600, licenses=(("matlab", 1),), users=("bob",))
    number = world.submit(ask(licenses=(LicenseCount("matlab"),)))
    world.cycle()
    assert (names(world, number), forecast(world, number).start) == ([], world.now + 600)


def test_a_limit_is_counted_within_one_plan() -> None:
    world = World(nodes=3)
    apply(world.state, ev.PolicyChanged(Account("physics", limits=Limits(jobs=1))))
    apply(world.state, ev.PolicyChanged(Qos("normal")))
    numbers = [world.submit(ask(), account="physics") for _ in range(3)]
    made = plan(take(world.state, world.now), Policy())
    assert [one.number for one in made.starts] == numbers[:1]
    told = next(one for one in made.forecasts if one.number == numbers[1])
    assert told.reasons[0].why is Why.ASSOC_JOBS and told.start is None
    assert told.reasons[0].text == "account physics: 1 of at most 1 running jobs are in use"


def test_conservative_backfill_delays_no_blocked_job() -> None:
    world = World(nodes=2)
    start(world, ask(1, minutes=10))
    wide = world.submit(ask(2, minutes=10))
    behind = world.submit(ask(2, minutes=10))
    long = world.submit(ask(1, minutes=25))
    for policy, starts in ((Policy(reservations=1), []), (Policy(backfill="conservative"), [])):
        made = plan(take(world.state, world.now), policy)
        assert [one.number for one in made.starts] == starts
    promised = [forecast(world, number, Policy(backfill="conservative")).start for number in (wide, behind, long)]
    assert promised == [world.now + 600, world.now + 1_200, world.now + 1_800]


def test_a_license_that_is_no_longer_configured_has_no_seats() -> None:
    world = World(nodes=1, settings=Settings(licenses=(("matlab", 1),)))
    number = world.submit(ask(licenses=(LicenseCount("matlab"),)))
    world.state.settings = Settings()
    world.cycle()
    told = forecast(world, number)
    assert (names(world, number), told.start, [reason.why for reason in told.reasons]) == ([], None, [Why.LICENSES])


def test_a_license_named_twice_adds_up() -> None:
    world = World(nodes=1, settings=Settings(licenses=(("matlab", 3),)))
    assert start(world, ask(cpus=1, licenses=(LicenseCount("matlab"), LicenseCount("matlab")))) == ["n1"]
    assert start(world, ask(cpus=1, licenses=(LicenseCount("matlab"), LicenseCount("matlab")))) == []


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ask(gpus_per_node=tuple(GpuCount(1, kind) for kind in "abcde")), "at most 4 types of GPUs"),
        (ask(licenses=tuple(LicenseCount(f"l{number}") for number in range(9))), "at most 8 different licenses"),
    ],
)
def test_more_kinds_than_a_plan_can_hold_are_refused(request_: Request, words: str) -> None:
    licenses = tuple((f"l{number}", 1) for number in range(9))
    reply = World(nodes=1, settings=Settings(licenses=licenses)).try_submit(request_)
    assert words in getattr(reply, "message", ""), reply
