"""Which nodes differ from the others in kernel, system, driver, libraries or agent. Pure.

Most of the nodes that are compared are the reference. Kernel, system and agent are compared among all nodes; driver and
libraries among those with GPUs and those without apart, since the ones need what the others lack.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from flagplot_wire.hostlist import natural_key
from flagplot_wire.node import Node


class Drift(Struct, frozen=True):
    """`agreeing` of the `compared` nodes have the `reference` (None: they lack the thing), the others are `differing`.

    `group` is `all`, `gpu` or `cpu`: who was compared. `differing` are (value or None, nodes), the most frequent first.
    """

    what: str
    group: str
    reference: str | None
    agreeing: int
    compared: int
    differing: tuple[tuple[str | None, tuple[str, ...]], ...]


def drift_of(nodes: Iterable[Node]) -> list[Drift]:
    """Everything in which nodes differ. Nodes that never reported are left out; what a node cannot tell is not compared."""
    known = sorted((node for node in nodes if node.inventory is not None), key=lambda node: natural_key(node.name))
    found = [_compare(what, "all", values) for what, values in _common(known).items()]
    for group in ("gpu", "cpu"):
        members = [node for node in known if bool(node.inventory and node.inventory.gpus) is (group == "gpu")]
        found += [_compare(what, group, values) for what, values in _own(members).items()]
    return [one for one in found if one is not None]


def _common(nodes: list[Node]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {"kernel": {}, "os": {}, "agent": {}}
    for node in nodes:
        assert node.inventory is not None
        told = {"kernel": node.inventory.kernel, "os": node.inventory.os, "agent": node.agent_version}
        for what, value in told.items():
            if value:
                found[what][node.name] = value
    return found


def _own(nodes: list[Node]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    telling = {
        node.name: dict(node.inventory.libraries) for node in nodes if node.inventory and node.inventory.libraries
    }
    drivers: dict[str, str | None] = {
        node.name: node.inventory.driver or None for node in nodes if node.inventory and node.inventory.gpus
    }
    if drivers:
        found["driver"] = drivers
    for library in sorted({name for libraries in telling.values() for name in libraries}):
        found[library] = {name: libraries.get(library) for name, libraries in telling.items()}
    return found


def _compare(what: str, group: str, values: dict[str, str | None]) -> Drift | None:
    by_value: dict[str | None, list[str]] = {}
    for name, value in values.items():
        by_value.setdefault(value, []).append(name)
    if len(by_value) < 2:
        return None
    # Sorting is stable: among as many, the value of the first node in natural order.
    (reference, agreeing), *others = sorted(by_value.items(), key=lambda item: -len(item[1]))
    return Drift(
        what, group, reference, len(agreeing), len(values), tuple((value, tuple(names)) for value, names in others)
    )
