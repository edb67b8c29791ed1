"""`flagplot nodes`: nodes, in sinfo's words."""

from __future__ import annotations

import click

from flagplot.cli.common import ask, json_option
from flagplot.output.table import amount, table
from flagplot_wire.replies import NodeView
from flagplot_wire.units import format_memory

HEADER = ("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "JOBS", "PARTITIONS", "REASON")


@click.command("nodes")
@click.argument("names", nargs=-1, metavar="[NODES]...")
@json_option
@click.pass_context
def command(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """List nodes (all, or a host list) with what is used of what they have."""
    reply = ask(context, lambda calls: calls.nodes(names))
    if as_json:
        from flagplot.output.json import node_object, print_json

        print_json([node_object(view) for view in reply.nodes])
        return
    print(table(HEADER, [row_of(view) for view in reply.nodes], right=(2, 3, 4, 5)))


def row_of(view: NodeView) -> list[str]:
    """One node's cells; `?` where the node never reported."""
    node, inventory = view.node, view.node.inventory
    cpus = f"{sum(held.cpus for held in view.held)}/{amount(node.cpus if inventory else None)}"
    used = format_memory(sum(held.memory_mib for held in view.held))
    memory = f"{used}/{format_memory(inventory.memory_mib) if inventory else '?'}"
    cards = len({index for held in view.held for index, _ in held.gpus})
    gpus = f"{cards}/{len(inventory.gpus)}" if inventory and inventory.gpus else ("-" if inventory else "?")
    reason = f"{node.drain.reason} ({node.drain.who})" if node.drain else node.down_reason
    state = view.state + ("*" if not node.responding and inventory else "")
    return [node.name, state, cpus, memory, gpus, str(len(view.held)), ",".join(view.partitions), reason]
