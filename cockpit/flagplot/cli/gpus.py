"""`flagplot gpus`: every GPU, its shards and who holds them."""

from __future__ import annotations

import click

from flagplot.cli.common import ask, json_option
from flagplot.output.json import gpu_objects, print_json
from flagplot.output.table import amount, table
from flagplot_wire.text import clean

HEADER = ("NODE", "GPU", "TYPE", "STATE", "SHARDS", "UTIL", "VRAM", "HOLDERS")


@click.command("gpus")
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--free", is_flag=True, help="Only GPUs that nobody holds.")
@json_option
@click.pass_context
def command(context: click.Context, names: tuple[str, ...], free: bool, as_json: bool) -> None:
    """List GPUs: which card is free, and who holds the rest."""
    reply = ask(context, lambda calls: calls.nodes(names))
    found = [gpu for view in reply.nodes for gpu in gpu_objects(view) if not free or gpu["state"] == "free"]
    if as_json:
        print_json(found)
        return
    if not found:
        print("no GPUs" if not free else "no free GPUs")
        return
    rows = []
    for gpu in found:
        holders = [f"{one['display_id']} {one['user']}" for one in gpu["holders"]]
        used, total = gpu["memory_used_mib"], gpu["memory_total_mib"]
        outsiders = [
            f"! {one['user'] or '?'} pid {one['pid']} {amount(one['memory_mib'])} MiB {one['command']}"
            for one in gpu["outsiders"]
        ]
        words = ", ".join([*(holders or [gpu["fault"]] * bool(gpu["fault"])), *outsiders])
        rows.append(
            [
                gpu["node"], str(gpu["index"]), gpu["type"], gpu["state"] + (" idle" if gpu["idle"] else ""),
                f"{gpu['shards_used']}/{gpu['shards']}",
                amount(gpu["utilisation"], "%"), f"{amount(used)}/{amount(total)} MiB", clean(words) or "-",
            ]
        )  # fmt: skip
    print(table(HEADER, rows, right=(1, 4, 5, 6)))
