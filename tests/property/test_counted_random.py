"""Gangs whose constraints ask something of all their nodes together: every choice of nodes, compared one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import msgspec
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as some
from support.states import World, inventory

from flagplot_wire.constraint import asked, holds, matches, parse, suffices
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Request
from flagplot_wire.replies import Failure
from flagplotd.core import stimuli as st
from flagplotd.core.state import Settings, Switch
from flagplotd.sched.explain import never_fits

Node = frozenset[str]
Groups = list[tuple[str, int]]
TREE = (
    Switch("top", switches=("left", "right")),
    Switch("left", ("n1", "n2", "n3")),
    Switch("right", ("n4", "n5", "n6")),
)
LEAVES = ({0, 1, 2}, {3, 4, 5})

features = some.sets(some.sampled_from("abc")).map(frozenset)
parts = some.sampled_from(["a", "b", "c", "(a|b)", "(b|c)", "!a", "(a&b)"])
counted = some.lists(some.tuples(parts, some.integers(1, 3)), min_size=1, max_size=3)
words = some.sampled_from(["", "", "c", "!b"])
choices = some.lists(some.sampled_from("abc"), min_size=2, max_size=3, unique=True)


def fills(nodes: list[Node], groups: Groups) -> bool:
    """Whether each group gets nodes of its own, tried one after the other."""
    if not groups:
        return True
    (part, count), rest = groups[0], groups[1:]
    able = [place for place, node in enumerate(nodes) if matches(parse(part), node)]
    return any(
        fills([node for place, node in enumerate(nodes) if place not in mine], rest)
        for mine in map(set, combinations(able, count))
    )


def suits(nodes: list[Node], base: str, ways: list[str], groups: Groups, apart: bool) -> bool:
    """The oracle: whether these are nodes that a job may have."""
    if not all(matches(parse(base), node) for node in nodes):
        return False
    if ways and not any(all(way in node for node in nodes) for way in ways):
        return False
    if not apart:
        return all(sum(matches(parse(part), node) for node in nodes) >= count for part, count in groups)
    one_of = all(any(matches(parse(part), node) for part, _ in groups) for node in nodes)
    return one_of and fills(nodes, groups)


def hangs(places: tuple[int, ...], contiguous: bool, switches: int) -> bool:
    if contiguous and places[-1] - places[0] != len(places) - 1:
        return False
    return not switches or any(set(places) <= leaf for leaf in LEAVES)


@some.composite
def constraints(draw: some.DrawFn) -> tuple[str, str, list[str], Groups, bool]:
    """A text, and what it means: of each node, of all together, of groups, apart or not."""
    base, groups, apart = draw(words), draw(counted), draw(some.booleans())
    kind = draw(some.sampled_from(["groups", "choices", "both"]))
    ways = [] if kind == "groups" else draw(choices)
    groups, apart = (groups, apart and not ways) if kind != "choices" else ([], False)
    written = "&".join(f"{part}*{count}" for part, count in groups)
    terms = [base, f"[{'|'.join(ways)}]" if ways else "", f"[{written}]" if apart else written]
    return "&".join(term for term in terms if term), base, ways, groups, apart


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(constraints(), some.lists(features, min_size=6, max_size=6), some.lists(some.integers(0, 3), min_size=6, max_size=6),
       some.integers(1, 4), some.integers(0, 3), some.sampled_from(["", "", "tree", "switch", "contiguous"]))  # fmt: skip
def test_it_starts_as_soon_as_nodes_suffice(
    asks: tuple[str, str, list[str], Groups, bool], nodes: list[Node], busy: list[int], least: int, more: int, how: str
) -> None:
    text, base, ways, groups, apart = asks
    world = World(nodes=0, settings=Settings(switches=TREE if how in ("tree", "switch") else ()))
    for place, node in enumerate(nodes):
        hardware = msgspec.structs.replace(inventory(), features=tuple(sorted(node)))
        world.do(st.AgentJoined(f"n{place + 1}", hardware, "0"))
    for place, hours in enumerate(busy):
        if hours:
            name = (f"n{place + 1}",)
            world.submit(Request(cpus_per_task=8, mem_per_node_mib=1, nodelist=name, time_limit_s=hours * 3_600))
    world.cycle()
    request = Request(
        nodes_min=least, nodes_max=least + more, cpus_per_task=8, mem_per_node_mib=1, constraint=text, time_limit_s=600,
        contiguous=how == "contiguous", switches=int(how == "switch"),
    )  # fmt: skip
    reply = world.try_submit(request)
    total = sum(count for _, count in groups)
    if isinstance(reply, Failure):
        event("refused")
        assert total > least + more
        return
    # Nodes that are counted are asked for.
    first = max(least, min(total, least + more))
    world.cycle()

    def possible(hours: int) -> bool:
        free = [place for place, until in enumerate(busy) if until <= hours]
        return any(
            hangs(chosen, how == "contiguous", int(how == "switch"))
            and suits([nodes[place] for place in chosen], base, ways, groups, apart)
            for size in range(first, least + more + 1)
            for chosen in combinations(free, size)
        )

    starts = next((hours for hours in range(4) if possible(hours)), None)
    status = world.state.jobs[JobNumber(reply.number)].status
    if starts == 0:
        event("starts now")
        assert status.allocation is not None, text
        places = [int(name[1:]) - 1 for name in status.allocation.names]
        assert first <= len(places) <= least + more
        assert suits([nodes[place] for place in places], base, ways, groups, apart), (text, places)
        assert hangs(tuple(places), how == "contiguous", int(how == "switch"))
    else:
        event("later" if starts else "never")
        assert status.allocation is None, (text, status.allocation)
        told = world.state.forecasts[JobNumber(reply.number)]
        assert told.start == (None if starts is None else world.now + starts * 3_600), (text, told)
        assert told.reasons
        if not how:
            assert bool(never_fits(world.state, world.state.jobs[JobNumber(reply.number)].spec)) is (starts is None)
            assert bool(told.never) is (starts is None)


@given(constraints(), some.lists(features, min_size=1, max_size=5))
def test_nodes_hold_what_is_asked_as_plainly_told(
    asks: tuple[str, str, list[str], Groups, bool], nodes: list[Node]
) -> None:
    text, base, ways, groups, apart = asks
    if len(nodes) > 1 and (len(groups) < 3 or sum(count for _, count in groups) <= len(nodes)):
        assert holds(asked(text, len(nodes)), nodes) is suits(nodes, base, ways, groups, apart)


@given(constraints(), some.lists(features, max_size=6), some.integers(2, 4))
def test_enough_nodes_are_those_of_which_some_suit(
    asks: tuple[str, str, list[str], Groups, bool], nodes: list[Node], most: int
) -> None:
    text, _, _, groups, apart = asks
    counts = [count for _, count in groups]
    # What the gate takes.
    if max(counts, default=most + 1) > most or (sum(counts) > most and (apart or len(counts) > 2)):
        return
    chosen = (some_ for size in range(most + 1) for some_ in combinations(nodes, size))
    plain = any(_counts(list(some_), groups, apart) for some_ in chosen)
    assert suffices(asked(text, most), nodes, most) is plain


def _counts(nodes: Iterable[Node], groups: Groups, apart: bool) -> bool:
    there = list(nodes)
    if apart:
        return fills(there, groups)
    return all(sum(matches(parse(part), node) for node in there) >= count for part, count in groups)
