"""`flagplot nodes`: nodes, in sinfo's words."""

from __future__ import annotations

import click

from flagplot.cli.common import ask, json_option
from flagplot.output.table import amount, table
from flagplot.view.drift import Drift, drift_of
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.node import Node
from flagplot_wire.replies import NodeView
from flagplot_wire.text import counted
from flagplot_wire.units import format_memory

DRIFT = ("WHAT", "AMONG", "NODES", "HAVE", "REFERENCE")
AMONG = {"all": "all nodes", "gpu": "nodes with GPUs", "cpu": "nodes without GPUs"}
HEADER = ("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "JOBS", "PARTITIONS", "REASON")


@click.command("nodes")
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--drift", is_flag=True, help="Which nodes differ from most in kernel, system, driver or libraries.")
@json_option
@click.pass_context
def command(context: click.Context, names: tuple[str, ...], drift: bool, as_json: bool) -> None:
    """List nodes (all, or a host list) with what is used of what they have."""
    reply = ask(context, lambda calls: calls.nodes(names))
    if drift:
        show_drift([view.node for view in reply.nodes], as_json)
        return
    if as_json:
        from flagplot.output.json import node_object, print_json

        print_json([node_object(view) for view in reply.nodes])
        return
    print(table(HEADER, [row_of(view) for view in reply.nodes], right=(2, 3, 4, 5)))


def show_drift(nodes: list[Node], as_json: bool) -> None:
    """Print in what nodes differ."""
    found = drift_of(nodes)
    if as_json:
        from flagplot.output.json import drift_object, print_json

        print_json([drift_object(one) for one in found])
        return
    silent = [node.name for node in nodes if node.inventory is None]
    if found:
        print(table(DRIFT, [row for one in found for row in drift_rows(one)]))
    else:
        print(f"nothing differs among {counted(len(nodes) - len(silent), 'node')}")
    if silent:
        print(f"not compared, since they never reported: {compress_hosts(silent)}")


def drift_rows(drift: Drift) -> list[list[str]]:
    """A row for each value that differs."""
    reference = f"{drift.reference or 'none'} ({drift.agreeing} of {drift.compared})"
    return [
        [drift.what, AMONG[drift.group], compress_hosts(names), value or "none", reference]
        for value, names in drift.differing
    ]


def row_of(view: NodeView) -> list[str]:
    """One node's cells; `?` where the node never reported."""
    node, inventory = view.node, view.node.inventory
    cpus = f"{sum(held.cpus for held in view.held)}/{amount(node.cpus if inventory else None)}"
    used = format_memory(sum(held.memory_mib for held in view.held))
    memory = f"{used}/{format_memory(inventory.memory_mib) if inventory else '?'}"
    cards = len({index for held in view.held for index, _ in held.gpus})
    gpus = f"{cards}/{len(inventory.gpus)}" if inventory and inventory.gpus else ("-" if inventory else "?")
    reason = f"{node.drain.words} ({node.drain.who})" if node.drain else node.down_reason
    state = view.state + ("*" if not node.responding and inventory else "")
    return [node.name, state, cpus, memory, gpus, str(len(view.held)), ",".join(view.partitions), reason]
