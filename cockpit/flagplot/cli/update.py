"""`flagplot update`: change jobs."""

from __future__ import annotations

from typing import Any

import click

from flagplot.cli.common import ask, finish, json_option
from flagplot_wire.errors import Refused
from flagplot_wire.requests import Update

_KEYS = {
    "timelimit": "time_limit", "time": "time_limit", "jobname": "name", "name": "name", "partition": "partition",
    "nice": "nice", "priority": "priority", "comment": "comment", "dependency": "dependency", "starttime": "begin",
    "begin": "begin", "cpuspertask": "cpus_per_task", "minmemorynode": "memory", "mem": "memory",
    "gpuspernode": "gpus_per_node", "numnodes": "nodes", "nodes": "nodes", "arraytaskthrottle": "array_limit",
    "requeue": "requeue", "account": "account", "qos": "qos", "reservationname": "reservation",
    "reservation": "reservation", "licenses": "licenses", "sitefactor": "site_factor",
}  # fmt: skip
"""Keys of `KEY=VALUE` words, as scontrol(1) has them, in lower case."""
MOST, MAX_PRIORITY = 2**31 - 3, 2**32 - 1
"""Of any whole number, and of a priority, as scontrol(1) takes them."""
_WHOLE = {"nice", "priority", "cpus_per_task", "array_limit", "site_factor"}


@click.command("update")
@click.argument("words", nargs=-1, required=True, metavar="JOB... [KEY=VALUE]...")
@click.option("-t", "--time", "time_limit", help="Time limit.")
@click.option("-J", "--job-name", "name", help="Name.")
@click.option("-p", "--partition", help="Partition.")
@click.option("-N", "--nodes", help="Number of nodes.")
@click.option("-c", "--cpus-per-task", type=click.IntRange(1, MOST), help="CPUs for each task.")
@click.option("--mem", "memory", help="Memory on each node.")
@click.option("--gpus-per-node", help="GPUs on each node.")
@click.option("-d", "--dependency", help="Dependency; an empty one removes it.")
@click.option("-b", "--begin", help="Begin time.")
@click.option("--nice", type=click.IntRange(-MOST, MOST), help="Nice value.")
@click.option("--priority", type=click.IntRange(0, MAX_PRIORITY), help="Priority (operators).")
@click.option("--site-factor", type=click.IntRange(-MOST, MOST), help="Added to the priority (operators).")
@click.option("-A", "--account", help="Account; an empty one gives the default.")
@click.option("-q", "--qos", help="QoS; an empty one gives the default.")
@click.option("--reservation", help="Reservation; an empty one removes it.")
@click.option("-L", "--licenses", help="Licenses; an empty one removes them.")
@click.option("--array-limit", type=click.IntRange(0, MOST), help="Elements of the array that may run at once; 0: all.")
@click.option("--comment", help="Comment.")
@click.option("--requeue/--no-requeue", default=None, help="Start again when the node fails, or not.")
@json_option
@click.pass_context
def command(context: click.Context, /, words: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Change jobs; what a running job may change is its limit, name, comment and requeue."""
    jobs = tuple(word for word in words if "=" not in word)
    fields = {name: value for name, value in options.items() if value is not None}
    fields |= dict(read_pair(word) for word in words if "=" in word)
    if not jobs:
        raise Refused("usage", "no job was given", "flagplot update 41 --time 2:00:00")
    finish(ask(context, lambda calls: calls.update(Update(jobs, **fields))), as_json)


def read_pair(word: str) -> tuple[str, Any]:
    """A `KEY=VALUE` word; raises `Refused` naming an unknown key."""
    key, _, value = word.partition("=")
    name = _KEYS.get(key.lower())
    if name is None:
        raise Refused("usage", f"there is nothing called {key!r} to change", f"there are: {', '.join(sorted(_KEYS))}")
    if name in _WHOLE:
        try:
            number = int(value)
        except ValueError as wrong:
            raise Refused("usage", f"{word}: {value!r} is no whole number") from wrong
        if not -MOST <= number <= (MAX_PRIORITY if name == "priority" else MOST):
            raise Refused("usage", f"{word}: the number is out of range")
        return name, number
    if name == "requeue":
        return name, value.lower() in ("1", "yes", "true")
    return name, value
