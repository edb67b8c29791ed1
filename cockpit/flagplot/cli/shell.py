"""`flagplot shell` and `flagplot-rsh`: a shell, or a command of MPI's launcher, inside a running job."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from flagplot.cli.common import target_of
from flagplot.cli.run import carry
from flagplot.cli.terminal import window
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.steps import StepSpec

RSH_OPTIONS_WITH_VALUE = ("-l", "-p", "-i", "-o", "-F")


@click.command("shell")
@click.argument("job")
@click.option("-w", "--nodelist", "node", default="", metavar="NODE", help="On this node of the job (its first).")
@click.option("--as-owner", is_flag=True, help="Operators: enter another person's job, as that person.")
@click.option("--no-container", is_flag=True, help="Outside of the job's container.")
@click.pass_context
def command(context: click.Context, job: str, node: str, as_owner: bool, no_container: bool) -> None:
    """Open a shell inside a running job: its node, its cores, memory and GPUs, its environment, its container."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("usage", "a shell needs a terminal", "flagplot run --jobid JOB COMMAND runs a command")
    sys.exit(asyncio.run(_carried(target_of(context), job, shell_spec(node, no_container), as_owner)))


async def _carried(target: Target, job: str, spec: StepSpec, as_owner: bool = False) -> int:
    connection = await Connection.open(target)
    try:
        return await carry(connection, job, spec, as_owner=as_owner)
    finally:
        await connection.close()


def shell_spec(node: str, no_container: bool = False) -> StepSpec:
    """The login shell on a terminal of this one's size."""
    rows, columns = window()
    kept = {name: value for name, value in os.environ.items() if name in ("TERM", "COLORTERM", "LANG", "LC_ALL")}
    return StepSpec(
        "shell", (), kept, tasks=1, nodes=1, nodelist=(node,) if node else (), pty=True, rows=rows, columns=columns,
        kind="shell", no_container=no_container,
    )  # fmt: skip


@click.command("rsh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] NODE COMMAND...")
@click.pass_context
def rsh(context: click.Context, words: tuple[str, ...]) -> None:
    """Run a command on another node of this job, as rsh would: MPI's launchers call it."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in RSH_OPTIONS_WITH_VALUE and rest:
            rest.pop(0)
    job = os.environ.get("FLAGPLOT_JOB_ID", "")
    if not job:
        raise Refused("usage", "rsh works inside a job: FLAGPLOT_JOB_ID is not set", "see flagplot run")
    if len(rest) < 2:
        raise Refused("usage", "a node and a command are needed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLAGPLOT_FD")}
    spec = StepSpec(
        "rsh", ("/bin/sh", "-c", " ".join(rest[1:])), environment, os.getcwd(), tasks=1, nodelist=(rest[0],),
        kind="launcher",
    )  # fmt: skip
    sys.exit(asyncio.run(_carried(target_of(context), job, spec)))
