"""Random small clusters, jobs and what happens to them, for hypothesis: heterogeneous in all that scheduling looks at."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as some
from support.states import ROOT, World

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.job import ArraySpec, GpuCount, LicenseCount, Request
from flagplot_wire.node import Drain, Gpu, Inventory, NumaNode, Partition
from flagplot_wire.policy import Account, Association, Limits, Qos, Reservation
from flagplot_wire.replies import Submitted
from flagplotd.core import stimuli as st
from flagplotd.core.apply import apply
from flagplotd.core.reservations import check_free
from flagplotd.core.state import Settings, State, Switch, Who

TYPES, FEATURES = ("a100", "l40s"), ("", "a", "b")
PEOPLE = tuple(Who(name, 1_000 + number) for number, name in enumerate(("ada", "bob", "eve")))
LICENSES = (("matlab", 3), ("fluent", 1))
NODES = tuple(f"n{number}" for number in range(1, 7))
TREES: tuple[tuple[Switch, ...], ...] = (
    (),
    (Switch("top", switches=("s1", "s2")), Switch("s1", ("n1", "n3", "n5")), Switch("s2", ("n2", "n4"))),
    (Switch("x", switches=("l1", "l2")), Switch("y", switches=("l3", "l4")), Switch("l1", ("n1",)), Switch("l2", ("n2", "n5")),
     Switch("l3", ("n3",)), Switch("l4", ("n4", "n6"))),
    (Switch("b1", ("n1", "n2", "n5"), block=True), Switch("b2", ("n3", "n4"), block=True)),
    (Switch("top", switches=("s1", "s2")), Switch("s1", ("n1", "n3", "n5")), Switch("s2", ("n2", "n4", "n6")),
     Switch("b1", ("n1", "n2", "n4"), block=True), Switch("b2", ("n3", "n5", "n6"), block=True)),
)  # fmt: skip


@some.composite
def inventories(draw: some.DrawFn) -> Inventory:
    """A machine: CPUs in one or two NUMA domains (in a row or alternating), up to four GPUs of one or two types."""
    cpus = draw(some.sampled_from((2, 4, 8)))
    layout = draw(some.sampled_from(("none", "halves", "alternating")))
    half = cpus // 2
    lists = {
        "none": (), "halves": (f"0-{half - 1}", f"{half}-{cpus - 1}"),
        "alternating": (",".join(map(str, range(0, cpus, 2))), ",".join(map(str, range(1, cpus, 2)))),
    }[layout]  # fmt: skip
    threads, memory = draw(some.sampled_from((1, 1, 2))), draw(some.sampled_from((1_000, 8_000)))
    numa = tuple(NumaNode(index, ids, memory // 2) for index, ids in enumerate(lists))
    gpus = tuple(
        Gpu(index, f"GPU-{index}", kind, vram_mib=vram, numa=domain if lists else None, shards=shards, fault=fault)
        for index, (kind, vram, domain, shards, fault) in enumerate(
            draw(
                some.lists(
                    some.tuples(
                        some.sampled_from(TYPES), some.sampled_from((8_000, 4_000, None)), some.integers(0, 1),
                        some.sampled_from((8, 4)), some.sampled_from(("", "", "", "", "", "", "fell off the bus")),
                    ),
                    max_size=4,
                )
            )
        )
    )  # fmt: skip
    return Inventory(
        "b1", 1, cpus // threads, threads, f"0-{cpus - 1}", memory, numa, gpus,
        tuple(filter(None, {draw(some.sampled_from(FEATURES)), draw(some.sampled_from(FEATURES))})),
        draw(some.sampled_from(("", "s1", "s2", "s2"))),
    )  # fmt: skip


minutes = some.sampled_from((1, 10, 10, 20, 30, 50, 60)).map(lambda count: count * 60)
"""Few, so that one often ends just when another begins."""


@some.composite
def requests(draw: some.DrawFn, gangs: bool = False) -> Request:
    """Anything that a job may ask for, mostly small."""
    kind = draw(some.sampled_from(("cpu", "cpu", "gpus", "gpus", "typed", "share", "vram")))
    fields: dict[str, Any] = {}
    if kind == "gpus":
        fields["gpus_per_node"] = (GpuCount(draw(some.integers(1, 3))),)
    elif kind == "typed":
        typed = [GpuCount(draw(some.integers(1, 2)), word) for word in draw(some.lists(some.sampled_from((*TYPES, "")), min_size=1, max_size=2, unique=True))]  # fmt: skip
        fields["gpus_per_node"] = tuple(typed)
    elif kind == "share":
        fields |= {"shards": draw(some.integers(1, 8)), "share_type": draw(some.sampled_from(("", "", *TYPES)))}
    elif kind == "vram":
        fields["vram_mib"] = draw(some.integers(1, 8_000))
    nodes = draw(some.integers(1, 4)) if gangs else draw(some.sampled_from((1, 1, 1, 1, 2, 3)))
    if nodes > 1:
        fields |= {
            "switches": draw(some.sampled_from((0, 0, 1, 2))), "contiguous": draw(some.sampled_from((False, False, True))),
            "switches_wait_s": draw(some.sampled_from((0, 30))),
        }  # fmt: skip
    if draw(some.integers(0, 3)) == 0:
        fields |= draw(odd_fields)
    return Request(
        nodes_min=nodes, nodes_max=nodes + draw(some.sampled_from((0, 0, 0, 1))), cpus_per_task=draw(some.integers(1, 4)),
        mem_per_node_mib=draw(some.sampled_from((None, 0, 100, 100, 100, 3_000))), time_limit_s=draw(minutes), **fields,
    )  # fmt: skip


odd_fields = some.one_of(
    some.sampled_from(("a", "!b", "a&b", "a|b")).map(lambda text: {"constraint": text}),
    some.lists(some.sampled_from(NODES[:4]), min_size=1, max_size=3, unique=True).map(
        lambda names: {"nodelist": tuple(names)}
    ),
    some.sampled_from(NODES[:4]).map(lambda name: {"exclude": (name,)}),
    some.just({"exclusive": True}),
    some.lists(some.sampled_from(LICENSES), min_size=1, max_size=2, unique=True).map(
        lambda wanted: {"licenses": tuple(LicenseCount(name, count) for name, count in wanted)}
    ),
    some.integers(1, 2).map(lambda count: {"licenses": (LicenseCount("matlab", count),)}),
)


@some.composite
def reservations(draw: some.DrawFn, name: str, now: int) -> Reservation:
    """Whole nodes, cores, GPUs or licenses, soon or under way, once or again and again."""
    what: dict[str, Any] = draw(
        some.sampled_from(({}, {}, {"cores": 1}, {"gpus": 1}, {"cores": 2, "gpus": 2}, {"licenses": (("matlab", 2),)}))
    )
    start = now + draw(some.integers(-10, 60)) * 60
    length = draw(some.integers(5, 60)) * 60
    return Reservation(
        name, start, start + length, draw(some.lists(some.sampled_from(NODES[:4]), min_size=1, max_size=3, unique=True).map(tuple)),
        users=draw(some.sampled_from(((), ("ada",), ("ada", "bob")))), flex=draw(some.booleans()),
        repeat_s=draw(some.sampled_from((0, 0, 7_200))), maintenance=draw(some.booleans()), **what,
    )  # fmt: skip


@some.composite
def limited(draw: some.DrawFn) -> Limits:
    """Few of one or two things."""
    names = draw(
        some.lists(some.sampled_from(("jobs", "nodes", "cpus", "gpus", "memory_mib", "gpu_minutes")), max_size=2)
    )
    return Limits(**{name: draw(some.integers(0, 6)) * (200 if name == "memory_mib" else 20 if name == "gpu_minutes" else 1) for name in names})  # fmt: skip


@some.composite
def worlds(draw: some.DrawFn, gangs: bool = False, reserved: bool = False, shared: bool = False) -> World:
    """A cluster without jobs. `reserved`: with reservations; `shared`: with accounts, QoS and their limits."""
    machines = draw(some.lists(inventories(), min_size=3 if gangs else 1, max_size=6 if gangs else 4))
    tree = draw(some.sampled_from(TREES)) if gangs else ()
    there = set(NODES[: len(machines)])
    world = World(nodes=0, settings=Settings(licenses=LICENSES, switches=tree, refuse_impossible=False))
    for name, machine in zip(NODES, machines, strict=False):
        world.do(st.AgentJoined(name, machine, "0"))
        state = draw(some.sampled_from(("up", "up", "up", "up", "up", "up", "drained", "down")))
        node = world.state.nodes[name]  # type: ignore[index]
        if state == "drained":
            apply(
                world.state, ev.NodeChanged(msgspec.structs.replace(node, drain=Drain("broken", "root", 1)), "drained")
            )
        elif state == "down":
            apply(world.state, ev.NodeChanged(msgspec.structs.replace(node, responding=False), "down"))
    second = draw(some.lists(some.sampled_from(sorted(there)), max_size=2, unique=True))
    tier = draw(some.integers(1, 2))
    apply(world.state, ev.PartitionChanged(Partition("second", nodes=tuple(second), priority_tier=tier)))
    if shared:
        _share(world.state, draw)
    if reserved:
        for name in ("r1", "r2"):
            reserve(world, draw(reservations(name, world.now)))
    return world


def _share(state: State, draw: some.DrawFn) -> None:
    for account in (Account("a", limits=draw(limited())), Account("b", parent="a", limits=draw(limited()))):
        apply(state, ev.PolicyChanged(account))
    for who in PEOPLE[:2]:
        apply(state, ev.PolicyChanged(Association(who.user, "b", default=True, limits=draw(limited()))))
    apply(state, ev.PolicyChanged(Association("eve", "a", default=True)))
    apply(
        state,
        ev.PolicyChanged(Qos("q", limits=draw(limited()), user_limits=draw(limited()), account_limits=draw(limited()))),
    )


def reserve(world: World, reservation: Reservation) -> None:
    """Make a reservation if it contradicts nothing."""
    there = tuple(name for name in reservation.nodes if name in world.state.nodes)
    reservation = msgspec.structs.replace(reservation, nodes=there)
    try:
        check_free(world.state, reservation, world.now, jobs=True)
    except Refused:
        return
    apply(world.state, ev.PolicyChanged(reservation))


@some.composite
def submissions(draw: some.DrawFn, gangs: bool = False) -> dict[str, Any]:
    """What `submit` takes."""
    fields: dict[str, Any] = {"request": draw(requests(gangs)), "who": draw(some.sampled_from(PEOPLE))}
    extra = draw(some.integers(0, 9))
    if extra == 0:
        fields["array"] = ArraySpec("0-3", draw(some.sampled_from((0, 2))))
    elif extra == 1:
        fields["partition"] = "second"
    elif extra in (2, 3):
        fields["reservation"] = draw(some.sampled_from(("r1", "r2")))
    elif extra == 4:
        fields |= {"nice": -draw(some.integers(1, 3)), "who": ROOT}
    elif extra == 5:
        fields["qos"] = "q"
    return fields


def describe(world: World) -> str:
    """What a failed example needs to be understood."""
    state = world.state
    nodes = "\n".join(f"  {node}" for node in state.nodes.values())
    records = "\n".join(f"  {one}" for kind in (state.accounts, state.associations, state.qos, state.reservations) for one in kind.values())  # fmt: skip
    return f"nodes:\n{nodes}\nrecords:\n{records}\npartitions: {state.partitions}\nswitches: {state.settings.switches}"


def submit(world: World, fields: dict[str, Any]) -> int:
    """Submit; the number, or 0 where the gate refuses it."""
    reply = world.try_submit(**fields)
    return reply.number if isinstance(reply, Submitted) else 0


def mishap(world: World, kind: int) -> None:
    """Some of the time the first node drains, or its first GPU falls off the bus."""
    node = world.state.nodes[NODES[0]]  # type: ignore[index]
    if kind == 0:
        apply(world.state, ev.NodeChanged(msgspec.structs.replace(node, drain=Drain("broken", "root", 1)), "drained"))
    elif kind == 1 and node.inventory is not None and node.inventory.gpus:
        gpus = (msgspec.structs.replace(node.inventory.gpus[0], fault="fell off the bus"), *node.inventory.gpus[1:])
        machine = msgspec.structs.replace(node.inventory, gpus=gpus)
        apply(world.state, ev.NodeChanged(msgspec.structs.replace(node, inventory=machine), "hardware"))


def end(world: World, number: int) -> None:
    """All parts of a running job end."""
    job = world.state.jobs[number]  # type: ignore[index]
    for node in job.status.allocation.names if job.status.allocation is not None else ():
        if number in world.state.active:
            world.end(number, node=node)
