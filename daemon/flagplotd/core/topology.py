"""The switches of the network as a tree: checked when configured, then asked for leaves and ways up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.text import clean
from flagplotd.core.keys import near
from flagplotd.core.state import Switch


class Topology(Struct, frozen=True):
    """`leaf` gives the leaf switch of each node, `parent` the switch above each (none for a top), `level` 0 for
    leaves and one more than its highest child for others. `block` holds the block of each node that is in one.
    Nodes that no switch joins are in none."""

    leaf: dict[str, str]
    parent: dict[str, str]
    level: dict[str, int]
    block: dict[str, str]

    def way_up(self, node: str) -> list[str]:
        """The switches above a node, its leaf first."""
        way, name = list[str](), self.leaf.get(node, "")
        while name:
            way.append(name)
            name = self.parent.get(name, "")
        return way

    def common(self, nodes: Sequence[str]) -> str:
        """The lowest switch that joins all these nodes; empty when none does."""
        ways = [self.way_up(node) for node in nodes]
        return next((name for name in ways[0] if all(name in way for way in ways)), "") if ways else ""


def topology(switches: Sequence[Switch], nodes: Collection[str] = ()) -> Topology:
    """The tree that these switches make; raises `Refused` where they make none.

    A switch joins nodes or switches; blocks are beside the tree. Where `nodes` are given, no other may be named.
    """
    by_name: dict[str, Switch] = {}
    for switch in switches:
        _check(switch, by_name, nodes)
        by_name[switch.name] = switch
    leaf, block, parent = dict[str, str](), dict[str, str](), dict[str, str]()
    for switch in switches:
        joined, what = (block, "block") if switch.block else (leaf, "leaf switch")
        for node in switch.nodes:
            if node in joined:
                raise _bad(f"node {node} is in two: {what} {joined[node]} and {what} {switch.name}")
            joined[node] = switch.name
        for child in switch.switches:
            _check_child(switch, child, by_name)
            if child in parent:
                raise _bad(f"switch {child} is below two others, {parent[child]} and {switch.name}")
            parent[child] = switch.name
    _check_circles(parent)
    return Topology(leaf, parent, _levels(switches), block)


def _bad(message: str, hint: str = "") -> Refused:
    return Refused("bad_topology", message, hint)


def _check(switch: Switch, known: Collection[str], nodes: Collection[str]) -> None:
    what = "block" if switch.block else "switch"
    if switch.name in known:
        raise _bad(f"two switches or blocks are called {clean(switch.name)!r}")
    if switch.nodes and switch.switches:
        raise _bad(f"{what} {switch.name} joins nodes and switches", "put a switch between it and the nodes")
    if not switch.nodes and not switch.switches:
        raise _bad(f"{what} {switch.name} joins nothing", "give nodes" if switch.block else "give nodes or switches")
    if switch.block and switch.switches:
        raise _bad(f"block {switch.name} joins switches: blocks join nodes")
    for node in switch.nodes if nodes else ():
        if node not in nodes:
            raise _bad(f"{what} {switch.name} joins node {clean(node)!r}, which is not there", near(node, nodes))


def _check_child(switch: Switch, child: str, by_name: dict[str, Switch]) -> None:
    if child not in by_name:
        trees = [one.name for one in by_name.values() if not one.block and one.name != switch.name]
        hint = near(child, trees) if trees else ""
        raise _bad(f"switch {switch.name} joins switch {clean(child)!r}, which is not there", hint)
    if by_name[child].block:
        raise _bad(f"switch {switch.name} joins block {child}: blocks are beside the tree")


def _check_circles(parent: dict[str, str]) -> None:
    fine: set[str] = set()
    for first in parent:
        way, name = list[str](), first
        while name and name not in fine:
            if name in way:
                raise _bad(f"switches go round in a circle: {' → '.join([*way[way.index(name) :], name])}")
            way.append(name)
            name = parent.get(name, "")
        fine.update(way)


def _levels(switches: Sequence[Switch]) -> dict[str, int]:
    level = {switch.name: 0 for switch in switches if not switch.block and switch.nodes}
    left = [switch for switch in switches if not switch.block and switch.switches]
    while left:
        ready = [switch for switch in left if all(child in level for child in switch.switches)]
        level |= {switch.name: 1 + max(level[child] for child in switch.switches) for switch in ready}
        left = [switch for switch in left if switch.name not in level]
    return level
