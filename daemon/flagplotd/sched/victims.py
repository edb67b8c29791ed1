"""The fewest victims that make room on enough nodes. Pure Python: what fits is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations
from math import comb

from msgspec import Struct

EXACT_VICTIMS = 12
"""Up to so many victims all choices are compared where some span nodes; more are chosen node by node."""
EXACT_CHOICES = 2_000
"""Up to so many choices of victims of one node are compared."""


class Cost(Struct, frozen=True, order=True):
    """What a victim, or several, are worth: fewest, then lowest ranks, then least time run, then lowest numbers."""

    count: int
    rank: int
    ran_s: int
    numbers: tuple[int, ...] = ()


def total(costs: Iterable[Cost]) -> Cost:
    """Of several victims together."""
    found = list(costs)
    return Cost(
        sum(one.count for one in found),
        sum(one.rank for one in found),
        sum(one.ran_s for one in found),
        tuple(sorted(number for one in found for number in one.numbers)),
    )


class Choice:
    """Which of `victims` (by place: their cost and the nodes they are on) must go so that `need` of `nodes` fit.

    `fits(node, gone)` tells whether a node has room when those of its victims are gone; more gone never fit less.
    `suits(nodes)`, if any, tells of nodes that fit whether they are also what is asked for; more never suit less.
    """

    def __init__(
        self,
        nodes: Collection[int],
        need: int,
        costs: Sequence[Cost],
        on: Sequence[Collection[int]],
        fits: Callable[[int, frozenset[int]], bool],
        suits: Callable[[Collection[int]], bool] | None = None,
    ) -> None:
        self._costs, self._need, self._ask, self._suits = costs, need, fits, suits
        self._known: dict[tuple[int, frozenset[int]], bool] = {}
        there: dict[int, list[int]] = {}
        for place, where in enumerate(on):
            for node in where:
                there.setdefault(node, []).append(place)
        none = frozenset[int]()
        self._free = [node for node in nodes if fits(node, none)]
        self._there = {
            node: frozenset(there[node])
            for node in nodes
            if node in there and not fits(node, none) and fits(node, frozenset(there[node]))
        }

    def fewest(self) -> frozenset[int] | None:
        """The places of the victims; none are needed where enough fits already, and None when all do not suffice."""
        if self._suffice(self._free):
            return frozenset()
        if not self._suffice([*self._free, *self._there]):
            return None
        useful = sorted({place for places in self._there.values() for place in places}, key=lambda p: self._costs[p])
        spanning = sum(len(places) for places in self._there.values()) > len(useful)
        if (spanning or self._suits) and len(useful) <= EXACT_VICTIMS:
            return self._compare(useful)
        return self._without_spare(self._node_by_node())

    def _fits(self, node: int, gone: frozenset[int]) -> bool:
        key = (node, gone & self._there[node])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(*key)
        return known

    def _enough(self, gone: frozenset[int]) -> bool:
        return self._suffice([*self._free, *(node for node in self._there if self._fits(node, gone))])

    def _suffice(self, nodes: Collection[int]) -> bool:
        return len(nodes) >= self._need and (self._suits is None or self._suits(nodes))

    def _cost(self, places: Iterable[int]) -> Cost:
        return total(self._costs[place] for place in places)

    def _compare(self, useful: list[int]) -> frozenset[int] | None:
        for size in range(1, len(useful) + 1):
            found = [gone for some in combinations(useful, size) if self._enough(gone := frozenset(some))]
            if found:
                return min(found, key=self._cost)
        return None

    def _node_by_node(self) -> frozenset[int]:
        gone = frozenset[int]()
        least = {node: self._least_on(node, gone) for node in self._there}
        while not self._enough(gone):
            left = [node for node in self._there if not self._fits(node, gone)]
            taken = min((least[node] for node in left), key=self._cost)
            gone |= taken
            for node in left:
                if not taken.isdisjoint(self._there[node]):
                    least[node] = self._least_on(node, gone)
        return gone

    def _least_on(self, node: int, gone: frozenset[int]) -> frozenset[int]:
        """The least that must go from one node beside what is gone."""
        there = sorted(self._there[node] - gone, key=lambda place: self._costs[place])
        if self._fits(node, gone):
            return frozenset()
        everything = gone | self._there[node]
        must = [place for place in there if not self._fits(node, everything - {place})]
        rest = [place for place in there if place not in must]
        for size in range(len(rest) + 1):
            if comb(len(rest), size) > EXACT_CHOICES:
                break
            found = [some for some in combinations(rest, size) if self._fits(node, gone.union(must, some))]
            if found:
                return frozenset(min(found, key=self._cost)).union(must)
        kept = frozenset(there)
        for place in reversed(there):
            if self._fits(node, gone | (kept - {place})):
                kept -= {place}
        return kept

    def _without_spare(self, gone: frozenset[int]) -> frozenset[int]:
        for place in sorted(gone, key=lambda place: self._costs[place], reverse=True):
            if self._enough(gone - {place}):
                gone -= {place}
        return gone
