"""Constraints against plain Python: `&`, `|` and `!` are `and`, `or` and `not`."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as some

from flagplot_wire import constraint
from flagplot_wire.constraint import asked
from flagplot_wire.errors import Refused

NAMES = ("a", "b", "c", "d")
_PYTHON = {"&": " and ", ",": " and ", "|": " or ", "!": " not "}

names = some.sampled_from(NAMES)
nodes = some.sets(names).map(lambda features: tuple(sorted(features)))
signs = some.sampled_from(["&", "|", ",", " & ", "| "])
expressions = some.recursive(
    names,
    lambda inner: some.one_of(
        some.builds("!{}".format, inner.filter(lambda text: re.fullmatch(r"!*(\w|\(.*\))", text))),
        some.builds("( {})".format, inner),
        some.builds("{}{}{}".format, inner, signs, inner),
    ),
    max_leaves=12,
)
flat = some.builds(
    lambda first, more: first + "".join(sign + name for sign, name in more),
    names, some.lists(some.tuples(signs, names), max_size=8),
)  # fmt: skip


def plainly(text: str, features: tuple[str, ...]) -> bool:
    """The same read by Python's own precedence."""
    python = re.sub(r"[&,|!]", lambda sign: _PYTHON[sign[0]], text)
    return bool(eval(python.strip(), {"__builtins__": {}}, {name: name in features for name in NAMES}))


@given(expressions, nodes)
def test_matches_as_python_does(text: str, features: tuple[str, ...]) -> None:
    assert constraint.matches(constraint.parse(text), features) is plainly(text, features)


@given(flat, nodes, some.booleans())
def test_what_the_scheduler_reads_means_the_same(text: str, features: tuple[str, ...], brackets: bool) -> None:
    written = f"[{text}]" if brackets else text
    assert constraint.matches(constraint.parse(written), features) is any(
        constraint.matches(one, features) for one in asked(written, 2).choices
    )


@given(some.lists(some.tuples(expressions, some.integers(1, 999)), min_size=1, max_size=4), expressions, nodes,
       some.booleans())  # fmt: skip
def test_groups_come_back(parts: list[tuple[str, int]], rest: str, features: tuple[str, ...], split: bool) -> None:
    counted = "&".join(f"({text})*{count}" for text, count in parts)
    tree = constraint.parse(f"({rest})&" + (f"[{counted}]" if split else counted))
    found = constraint.groups(tree)
    assert [count for _, count in found] == [count for _, count in parts]
    in_groups = [constraint.matches(part, features) for part, _ in found]
    assert in_groups == [plainly(text, features) for text, _ in parts]
    assert constraint.apart(tree) is split
    assert constraint.matches(tree, features) is (plainly(rest, features) and (any(in_groups) or not split))


@given(some.lists(flat, min_size=2, max_size=4), nodes)
def test_a_choice_is_one_of_the_brackets(ways: list[str], features: tuple[str, ...]) -> None:
    alternatives = [f"({way})" for way in ways]
    tree = constraint.parse(f"[{'|'.join(alternatives)}]&!d")
    chosen = [constraint.matches(choice, features) for choice in constraint.choices(tree)]
    assert chosen == [plainly(f"{way}&!d", features) for way in alternatives]
    assert constraint.matches(tree, features) is any(chosen)


@given(some.text("ab&|!,()[]*12 ", max_size=25))
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    try:
        tree = constraint.parse(text)
    except Refused as refused:
        place = re.search(r"\(character (\d+)\)$", refused.message)
        assert place and 1 <= int(place[1]) <= len(text) + 1
    else:
        assert constraint.matches(tree, NAMES) in (True, False)
        assert all(count >= 1 for _, count in constraint.groups(tree))
