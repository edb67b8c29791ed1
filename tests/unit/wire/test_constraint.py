"""Node feature constraints, case by case."""

from __future__ import annotations

import pytest

from flagplot_wire import constraint
from flagplot_wire.constraint import All, Counted, Either, Feature, Not, OneOf, Split
from flagplot_wire.errors import Refused

A, B, C = Feature("a"), Feature("b"), Feature("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", All(())),
        ("  ", All(())),
        ("a", A),
        ("cuda-12.4/x:y", Feature("cuda-12.4/x:y")),
        ("a&b|c", Either((All((A, B)), C))),
        ("a,b | c", Either((All((A, B)), C))),
        ("a&(b|c)", All((A, Either((B, C))))),
        ("!a&!(b|c)", All((Not(A), Not(Either((B, C)))))),
        ("[a|b]", OneOf((A, B))),
        ("[a|b&c]", OneOf((A, All((B, C))))),
        ("[a&b]", All((A, B))),
        ("[a|b]&c", All((OneOf((A, B)), C))),
        ("a*4", Counted(A, 4)),
        ("a&b*4", All((A, Counted(B, 4)))),
        ("!a*2", Counted(Not(A), 2)),
        ("(a&b)*4", Counted(All((A, B)), 4)),
        ("[a*2&b*4]", Split((Counted(A, 2), Counted(B, 4)))),
        ("[(a|b)*1&c*2]", Split((Counted(Either((A, B)), 1), Counted(C, 2)))),
    ],
)
def test_what_is_read(text: str, tree: constraint.Tree) -> None:
    assert constraint.parse(text) == tree


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("a&", "a feature is missing", 3),
        ("a||b", "a feature is missing before '|'", 3),
        ("&a", "a feature is missing before '&'", 1),
        ("a b", "'b' was not expected", 3),
        ("a)", "')' was not expected", 2),
        ("(a|b", "'(' is not closed", 1),
        ("[a|b", "'[' is not closed", 1),
        ("a*", "a whole number", 2),
        ("a*0", "a whole number", 2),
        ("a*1234567890", "a whole number", 2),
        ("a*2*3", "'*' was not expected", 4),
        ("(a*2)", "a count cannot stand in parentheses", 3),
        ("a|b*2", "cannot stand beside |", 4),
        ("[a|b]|c", "cannot stand beside |", 1),
        ("([a|b])", "brackets cannot stand in parentheses", 2),
        ("[a|[b]]", "brackets can stand only once", 4),
        ("[a|b]&[b|c]", "brackets can stand only once", 7),
        ("[a*2|b*4]", "in brackets stand", 1),
        ("[a*2&b]", "in brackets stand", 1),
        ("[a*2&b*1]&c*2", "not both", 12),
        ("![a]", "a feature is missing before '['", 2),
        ("(" * 33 + "a" + ")" * 33, "more than 32 levels", 33),
        ("!" * 33 + "a", "more than 32 levels", 33),
    ],
)
def test_what_is_refused_and_where(text: str, why: str, place: int) -> None:
    with pytest.raises(Refused) as caught:
        constraint.parse(text)
    assert caught.value.code == "bad_constraint" and caught.value.hint
    assert why in caught.value.message
    assert caught.value.message.endswith(f"(character {place})")


def test_the_length_is_capped() -> None:
    assert constraint.parse("a" * 1_024)
    with pytest.raises(Refused, match="1025 characters"):
        constraint.parse("a" * 1_025)


@pytest.mark.parametrize(
    ("text", "features", "fits"),
    [
        ("", (), True),
        ("a&b", ("a",), False),
        ("!a", ("b",), True),
        ("a&b*4", ("a",), True),
        ("a&b*4", ("b",), False),
        ("[a*2&b*4]", ("b",), True),
        ("[a*2&b*4]", ("c",), False),
        ("[a|b]", ("b",), True),
    ],
)
def test_one_node(text: str, features: tuple[str, ...], fits: bool) -> None:
    assert constraint.matches(constraint.parse(text), features) is fits


def test_groups_and_choices() -> None:
    counted = constraint.parse("c&(a|b)*4&b*2")
    assert constraint.groups(counted) == ((Either((A, B)), 4), (B, 2))
    assert not constraint.apart(counted) and constraint.choices(counted) == (counted,)
    split = constraint.parse("[a*2&b*4]&c")
    assert constraint.groups(split) == ((A, 2), (B, 4)) and constraint.apart(split)
    same = constraint.parse("[a|b]&c*2")
    assert constraint.choices(same) == (All((A, Counted(C, 2))), All((B, Counted(C, 2))))
    assert [constraint.groups(choice) for choice in constraint.choices(same)] == [((C, 2),)] * 2
    assert constraint.groups(A) == () and constraint.choices(A) == (A,)


@pytest.mark.parametrize(("text", "nodes"), [("a*4&b*2", 4), ("[a*4&b*2]", 6), ("[a|b]", 1), ("a", 1)])
def test_a_job_has_as_many_nodes_as_are_counted(text: str, nodes: int) -> None:
    assert constraint.check(text, nodes) == constraint.parse(text)
    if nodes > 1:
        with pytest.raises(Refused, match=f"counts {nodes} nodes, more than the {nodes - 1}"):
            constraint.check(text, nodes - 1)
