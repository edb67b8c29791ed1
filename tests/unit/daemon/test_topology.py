"""Switches: the tree they make, and what is no tree."""

from __future__ import annotations

import pytest

from flagplot_wire.errors import Refused
from flagplotd.core.state import Switch
from flagplotd.core.topology import topology

LEAVES = (Switch("s1", ("n1", "n2")), Switch("s2", ("n3",)))
TREE = (Switch("top", switches=("mid", "s3")), *LEAVES, Switch("mid", switches=("s1", "s2")), Switch("s3", ("n4",)))


def test_a_tree() -> None:
    found = topology((*TREE, Switch("rack", ("n1", "n3"), block=True)), ("n1", "n2", "n3", "n4", "n5"))
    assert found.leaf == {"n1": "s1", "n2": "s1", "n3": "s2", "n4": "s3"}
    assert found.parent == {"mid": "top", "s3": "top", "s1": "mid", "s2": "mid"}
    assert found.level == {"s1": 0, "s2": 0, "s3": 0, "mid": 1, "top": 2}
    assert found.block == {"n1": "rack", "n3": "rack"}
    assert found.way_up("n3") == ["s2", "mid", "top"] and found.way_up("n5") == []
    assert [found.common(nodes) for nodes in (["n1", "n2"], ["n1", "n3"], ["n2", "n4"], ["n1", "n5"], [])] == [
        "s1", "mid", "top", "", "",
    ]  # fmt: skip


def test_leaves_without_a_top_and_nothing_at_all() -> None:
    found = topology(LEAVES)
    assert (found.parent, found.common(["n1", "n3"])) == ({}, "")
    assert topology(()).leaf == {}


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ((Switch("a", switches=("b",)), Switch("b", switches=("a",))), ["circle", "b → a → b"]),
        ((Switch("a", switches=("a",)),), ["circle", "a → a"]),
        ((Switch("top", switches=("s1", "s9")), *LEAVES), ["top", "'s9'", "not there", "'s2'"]),
        ((*LEAVES, Switch("s3", ("n3",))), ["n3", "in two", "s2", "s3"]),
        ((*LEAVES, Switch("s3", ("n77",))), ["s3", "'n77'", "not there"]),
        ((*LEAVES, Switch("s1", ("n4",))), ["two", "'s1'"]),
        ((Switch("s3", ("n4",), ("s1",)), *LEAVES), ["s3", "nodes and switches"]),
        ((Switch("s3"),), ["s3", "joins nothing"]),
        ((*LEAVES, Switch("a", switches=("s1",)), Switch("b", switches=("s1",))), ["s1", "below two", "a and b"]),
        ((Switch("x", ("n1",), block=True), Switch("y", ("n1",), block=True)), ["n1", "block x and block y"]),
        ((Switch("x", ("n1",), block=True), Switch("t", switches=("x",))), ["t", "block x"]),
        ((*LEAVES, Switch("x", switches=("s1",), block=True)), ["block x", "blocks join nodes"]),
    ],
)
def test_what_is_no_tree(switches: tuple[Switch, ...], words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        topology(switches, ("n1", "n2", "n3", "n4"))
    told = f"{refused.value.message} {refused.value.hint}"
    assert all(word in told for word in words), told
