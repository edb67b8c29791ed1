"""Node feature constraints, as `--constraint` takes them (sbatch(1)): `a&b`, `a|b`, `!a`, `[a|b]`, `[a*2&b*4]`.

`!` binds tightest, then `*COUNT`, then `&` (`,` is the same), then `|`. What has no count is asked of every node.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from flagplot_wire.errors import Refused

MAX_LENGTH = 1_024
"""Characters of a constraint."""
MAX_DEPTH = 32
"""Parentheses and `!` inside one another."""
_NAME = re.compile(r"[^\s&|,!()\[\]*]+")
_COUNT = re.compile(r"\*\s*([1-9]\d{0,8})(?!\d)", re.ASCII)
_HINT = "write a100, nvlink&ssd, a|b, (a|b)&!c, [rack1|rack2], or rack1*2 for two such nodes"


@dataclass(frozen=True, slots=True)
class Feature:
    """The node has this feature."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """`!a`: the node is not so."""

    part: Tree


@dataclass(frozen=True, slots=True)
class All:
    """`a&b`: the node is all of this; without parts every node is."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """`a|b`: the node is one of these, each node its own."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """`[a|b]`: all nodes of the job are the same one of these."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """`a*4`: at least so many nodes of the job are this."""

    part: Tree
    count: int


@dataclass(frozen=True, slots=True)
class Split:
    """`[a*2&b*4]`: the job's nodes are of these groups, and a node counts in one group only."""

    parts: tuple[Counted, ...]


Tree = Feature | Not | All | Either | OneOf | Counted | Split
"""`OneOf`, `Counted` and `Split` stand at the top or in a top `All` only, the last and the first at most once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a constraint asks of a job's nodes: they all match the same one of `choices`, and of `groups` (what a node
    must be, how many are that) each has its nodes. Where the groups are `apart`, a node counts in one of them only."""

    choices: tuple[Tree, ...]
    groups: tuple[tuple[Tree, int], ...] = ()
    apart: bool = False

    @property
    def least(self) -> int:
        """The nodes that suffice for the groups where no node counts in two."""
        return sum(count for _, count in self.groups)


def parse(text: str) -> Tree:
    """Read a constraint; blank text asks for nothing. Raises `Refused` that names the character (from 1)."""
    if len(text) > MAX_LENGTH:
        raise Refused(
            "bad_constraint", f"the constraint has {len(text)} characters: it may have at most {MAX_LENGTH}", _HINT
        )
    return _Reader(text).whole() if text.strip() else All(())


def check(text: str, nodes: int) -> Tree:
    """Read a constraint of a job of at most `nodes` nodes; raises `Refused` also when it counts more of them."""
    tree = parse(text)
    counts = [count for _, count in groups(tree)]
    needed = sum(counts) if apart(tree) else max(counts, default=0)
    if needed > nodes:
        raise Refused(
            "bad_constraint",
            f"the constraint {text!r} counts {needed} nodes, more than the {nodes} of the job",
            f"ask for --nodes={needed}",
        )
    return tree


def matches(tree: Tree, features: Collection[str]) -> bool:
    """Whether a node with `features` may be among the job's nodes, whatever the others are."""
    match tree:
        case Feature(name):
            return name in features
        case Not(part):
            return not matches(part, features)
        case All(parts):
            return all(matches(part, features) for part in parts)
        case Either(parts) | OneOf(parts):
            return any(matches(part, features) for part in parts)
        case Split(parts):
            return any(matches(group.part, features) for group in parts)
        case Counted():
            return True


def groups(tree: Tree) -> tuple[tuple[Tree, int], ...]:
    """What is counted: (what a node must be, how many nodes must be that), as written. See `apart`."""
    found: list[tuple[Tree, int]] = []
    for part in _terms(tree):
        if isinstance(part, Counted):
            found.append((part.part, part.count))
        elif isinstance(part, Split):
            found += [(group.part, group.count) for group in part.parts]
    return tuple(found)


def apart(tree: Tree) -> bool:
    """Whether a node counts in one of the groups only (`[a*2&b*4]`) or in each that it fits (`a*2&b*4`)."""
    return any(isinstance(part, Split) for part in _terms(tree))


def choices(tree: Tree) -> tuple[Tree, ...]:
    """The constraints of which all nodes must match the same one: several for `[a|b]`, else the tree alone."""
    terms = _terms(tree)
    for place, part in enumerate(terms):
        if isinstance(part, OneOf):
            return tuple(_all([*terms[:place], one, *terms[place + 1 :]]) for one in part.parts)
    return (tree,)


@lru_cache(4_096)
def asked(text: str, nodes: int) -> Asked:
    """What a constraint asks of a job of at most `nodes` nodes. The only node of a job must be all that is counted. No
    node is what cannot be read, which is refused where it comes in."""
    try:
        tree = parse(text)
    except Refused:
        return Asked((Either(()),))
    if nodes == 1:
        return Asked((_all([part.part if isinstance(part, Counted) else part for part in _flat(tree)]),))
    return Asked(choices(tree), groups(tree), apart(tree))


def suffices(wanted: Asked, nodes: Sequence[Collection[str]], most: int) -> bool:
    """Whether of `nodes` (the features of each) at most `most` can be chosen that have the groups' counts."""
    patterns = [sum(matches(part, one) << place for place, (part, _) in enumerate(wanted.groups)) for one in nodes]
    counts = [count for _, count in wanted.groups]

    def missing(*some: int) -> bool:
        among = sum(1 << place for place in some)
        return sum(pattern & among > 0 for pattern in patterns) < sum(counts[place] for place in some)

    if wanted.apart:
        sizes = range(1, len(counts) + 1)
        return not any(missing(*some) for size in sizes for some in combinations(range(len(counts)), size))
    if any(missing(place) for place in range(len(counts))):
        return False
    # Of more than two the gate takes no more than the job has nodes.
    return len(counts) != 2 or sum(counts) - min(patterns.count(3), *counts) <= most


def holds(wanted: Asked, nodes: Sequence[Collection[str]]) -> bool:
    """Whether `nodes` (the features of each) are what a job may have."""
    alike = any(all(matches(choice, one) for one in nodes) for choice in wanted.choices)
    return alike and suffices(wanted, nodes, len(nodes))


def _flat(tree: Tree) -> list[Tree]:
    """The terms, with those of a split in its place."""
    return [one for part in _terms(tree) for one in (part.parts if isinstance(part, Split) else (part,))]


def _terms(tree: Tree) -> tuple[Tree, ...]:
    return tree.parts if isinstance(tree, All) else (tree,)


def _all(parts: list[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else All(tuple(parts))


class _Reader:
    """Reads from `at` on; `job_wide` are the places of counts and brackets, which ask something of the whole job."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.job_wide: list[int] = []

    def whole(self) -> Tree:
        ways = self.alternatives()
        if self.at < len(self.text):
            raise self.wrong(f"{self.text[self.at]!r} was not expected")
        if len(ways) > 1 and self.job_wide:
            raise self.wrong("counts and brackets cannot stand beside |", self.job_wide[0])
        terms = ways[0]
        if any(isinstance(term, Split) for term in terms) and any(isinstance(term, Counted) for term in terms):
            raise self.wrong("counts stand in the brackets or without them, not both", self.job_wide[-1])
        return self.either(ways)

    def alternatives(self) -> list[list[Tree]]:
        """Terms joined by `&` and `,`, such lists joined by `|`."""
        ways = [[self.term()]]
        while self.next() and self.text[self.at] in "&,|":
            sign = self.text[self.at]
            self.at += 1
            if sign == "|":
                ways.append([])
            ways[-1].append(self.term())
        return ways

    def term(self) -> Tree:
        if self.next() == "[":
            return self.brackets()
        part = self.factor()
        if self.next() != "*":
            return part
        found = _COUNT.match(self.text, self.at)
        if not found:
            raise self.wrong("after * stands a whole number of nodes, at least 1")
        if self.depth:
            raise self.wrong("a count cannot stand in parentheses")
        self.job_wide.append(self.at)
        self.at = found.end()
        return Counted(part, int(found[1]))

    def factor(self) -> Tree:
        sign = self.next()
        if sign in ("!", "("):
            start = self.at
            self.at += 1
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.wrong(f"more than {MAX_DEPTH} levels of parentheses and !", start)
            part = Not(self.factor()) if sign == "!" else self.parenthesis(start)
            self.depth -= 1
            return part
        found = _NAME.match(self.text, self.at)
        if not found:
            raise self.wrong(f"a feature is missing before {sign!r}" if sign else "a feature is missing")
        self.at = found.end()
        return Feature(found[0])

    def parenthesis(self, start: int) -> Tree:
        part = self.either(self.alternatives())
        self.close(")", start)
        return part

    def brackets(self) -> Tree:
        start = self.at
        if self.depth:
            raise self.wrong("brackets cannot stand in parentheses")
        if any(self.text[place] == "[" for place in self.job_wide):
            raise self.wrong("brackets can stand only once")
        self.job_wide.append(start)
        self.at += 1
        ways = self.alternatives()
        self.close("]", start)
        counted = [isinstance(term, Counted) for way in ways for term in way]
        if not any(counted):
            return _all(ways[0]) if len(ways) == 1 else OneOf(tuple(map(_all, ways)))
        if not all(counted) or len(ways) > 1:
            raise self.wrong("in brackets stand [a|b] without counts or [a*2&b*4] with a count for each", start)
        return Split(tuple(term for term in ways[0] if isinstance(term, Counted)))

    def either(self, ways: list[list[Tree]]) -> Tree:
        return _all(ways[0]) if len(ways) == 1 else Either(tuple(map(_all, ways)))

    def close(self, sign: str, start: int) -> None:
        if self.next() != sign:
            raise self.wrong(f"{self.text[start]!r} is not closed", start)
        self.at += 1

    def next(self) -> str:
        """The next sign that is no blank; empty at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def wrong(self, why: str, at: int | None = None) -> Refused:
        place = self.at if at is None else at
        return Refused("bad_constraint", f"{self.text!r} is no constraint: {why} (character {place + 1})", _HINT)
