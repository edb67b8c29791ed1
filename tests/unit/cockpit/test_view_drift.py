"""Which nodes differ, and in what."""

from __future__ import annotations

from typing import Any

from flagplot.view.drift import Drift, drift_of
from flagplot_wire.node import Gpu, Inventory, Node

LIBRARIES = {"glibc": "2.36", "libnccl": "2.18.5"}


def node(name: str, gpus: int = 1, version: str = "1.0", **fields: Any) -> Node:
    """A node that is like the others but for `fields`."""
    cards = tuple(Gpu(index, f"GPU-{name}-{index}", "h100") for index in range(gpus))
    libraries = tuple(sorted(fields.pop("libraries", LIBRARIES).items()))
    told = {"kernel": "6.1.0-18", "os": "Debian 12", "driver": "535.1", **fields}
    return Node(name, Inventory("b", 1, 1, 1, "0", 100, gpus=cards, libraries=libraries, **told), agent_version=version)


def test_alike_nodes_do_not_differ() -> None:
    assert drift_of([]) == [] and drift_of([node("a")]) == []
    assert drift_of([node("a"), node("b"), Node("never")]) == []


def test_the_majority_is_the_reference() -> None:
    nodes = [
        node("n10", kernel="6.1.0-17"),
        node("n2"),
        node("n1"),
        node("n3", kernel="5.10"),
        node("n9", kernel="5.10"),
    ]
    assert drift_of([*nodes, node("n4")]) == [
        Drift("kernel", "all", "6.1.0-18", 3, 6, (("5.10", ("n3", "n9")), ("6.1.0-17", ("n10",))))
    ]


def test_among_as_many_the_first_node_is_the_reference() -> None:
    found = drift_of([node("n10", driver="550"), node("n2", driver="535")])
    assert found == [Drift("driver", "gpu", "535", 1, 2, (("550", ("n10",)),))]


def test_libraries_that_lack_or_differ() -> None:
    nodes = [
        node("a"), node("b"), node("c", libraries={"glibc": "2.36"}),
        node("d", libraries={"glibc": "2.36", "libnccl": "2.18.5", "libcudnn": "8.9"}),
        node("old", libraries={}),
    ]  # fmt: skip
    assert drift_of(nodes) == [
        Drift("libcudnn", "gpu", None, 3, 4, (("8.9", ("d",)),)),
        Drift("libnccl", "gpu", "2.18.5", 3, 4, ((None, ("c",)),)),
    ]


def test_nodes_without_gpus_need_no_driver() -> None:
    cpu = {"glibc": "2.36"}
    nodes = [node("g1"), node("g2"), node("c1", 0, driver="", libraries=cpu), node("c2", 0, driver="", libraries=cpu)]
    assert drift_of(nodes) == []
    nodes.append(node("c3", 0, "0.9", driver="", libraries={"glibc": "2.31"}))
    assert drift_of(nodes) == [
        Drift("agent", "all", "1.0", 4, 5, (("0.9", ("c3",)),)),
        Drift("glibc", "cpu", "2.36", 2, 3, (("2.31", ("c3",)),)),
    ]
