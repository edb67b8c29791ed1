"""Licenses, the switches of the network and the racks of the file."""

from __future__ import annotations

from typing import Any

from flagplot_wire.hostlist import expand_hosts
from flagplotd.config.tables import Tables
from flagplotd.core import values
from flagplotd.core.state import Switch
from flagplotd.core.topology import topology


def read_licenses(tables: Tables, data: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """`[licenses]`: how many there are of each."""
    table = tables.table(data, "licenses")
    for name in table:
        tables.read(f"licenses.{name}", values.name, name)
    return tuple((name, tables.integer("licenses", table, name)) for name in table)


def read_switches(tables: Tables, data: dict[str, Any], nodes: tuple[str, ...]) -> tuple[Switch, ...]:
    """Every `[[switch]]` and `[[block]]`, which must make a tree. Where `[[node]]` names nodes they join no other."""
    found = [
        _switch(tables, "switch", entry, ("name", "nodes", "switches")) for entry in tables.entries(data, "switch")
    ]
    found += [_switch(tables, "block", entry, ("name", "nodes")) for entry in tables.entries(data, "block")]
    tables.read("switch", topology, found, nodes)
    return tuple(found)


def read_racks(tables: Tables, data: dict[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every `[[rack]]`; a node stands in one at most."""
    found: dict[str, tuple[str, ...]] = {}
    standing: dict[str, str] = {}
    for entry in tables.entries(data, "rack"):
        rack = _switch(tables, "rack", entry, ("name", "nodes"))
        if rack.name in found:
            raise tables.bad("rack.name", f"two racks are called {rack.name!r}")
        for node in rack.nodes:
            if node in standing:
                raise tables.bad("rack.nodes", f"node {node} is in two: {standing[node]} and {rack.name}")
            standing[node] = rack.name
        found[rack.name] = rack.nodes
    return tuple(found.items())


def _switch(tables: Tables, where: str, entry: dict[str, Any], keys: tuple[str, ...]) -> Switch:
    tables.known(where, entry, keys)
    if not entry.get("name"):
        raise tables.bad(f"{where}.name", f"every {where} needs a name")
    return Switch(
        name=tables.parsed(where, entry, "name", values.name, ""),
        nodes=tuple(_hosts(tables, where, entry, "nodes")),
        switches=tuple(_hosts(tables, where, entry, "switches")),
        block=where == "block",
    )


def _hosts(tables: Tables, where: str, entry: dict[str, Any], key: str) -> list[str]:
    """A host list, or a list of such."""
    value = entry.get(key, [])
    texts = tables.names(where, entry, key) if isinstance(value, list) else (tables.text(where, entry, key, ""),)
    return [name for text in texts for name in tables.read(f"{where}.{key}", expand_hosts, text)]
