"""`flagplot down`: stop the cluster on this machine."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from flagplot.cli.up import data_dir_of
from flagplot.client import local
from flagplot_wire.errors import Refused


@click.command("down")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the cluster.")
@click.option("--demo", is_flag=True, help="The demo fleet's default folder.")
@click.option("--cancel-jobs", is_flag=True, help="Cancel all jobs first; without it running jobs go on.")
@click.pass_context
def command(context: click.Context, data_dir: Path | None, demo: bool, cancel_jobs: bool) -> None:
    """Stop the controller and the agents of this machine. Running jobs go on, unless --cancel-jobs."""
    folder = data_dir_of(context, data_dir, demo)
    processes = local.Processes(folder)
    names = processes.names()
    if not any(processes.pid(name) is not None for name in names) and local.ready_file(folder) is None:
        click.echo(f"there is no cluster running in {folder}")
        return
    processes.stop(processes.names("demo-jobs"))
    running = 0
    if local.ready_file(folder) is not None:
        running, messages = asyncio.run(_say_goodbye(folder, cancel_jobs))
        for message in messages:
            click.echo(message)
    killed = processes.stop([name for name in names if name == "controller"])
    killed += processes.stop([name for name in names if name.startswith("agent-")])
    for name in killed:
        click.echo(f"{name} did not stop by itself and was killed", err=True)
    if cancel_jobs or not running:
        click.echo("the cluster is down; no job is left running")
    elif running == 1:
        click.echo("the cluster is down; 1 running job goes on under its keeper, and `flagplot up` finds it again")
    else:
        click.echo(
            f"the cluster is down; {running} running jobs go on under their keepers, and `flagplot up` finds them again"
        )


async def _say_goodbye(folder: Path, cancel_jobs: bool) -> tuple[int, list[str]]:
    """Ask the controller how many jobs run, and to cancel them and stop where that is wanted."""
    from flagplot.client.calls import Calls
    from flagplot.client.connection import Connection
    from flagplot.client.target import resolve
    from flagplot_wire.requests import Shutdown

    try:
        connection = await Connection.open(resolve(data_dir=folder))
    except Refused as refused:
        return 0, [f"the controller does not answer: {refused.message}"]
    messages: list[str] = []
    try:
        calls = Calls(connection)
        status = await calls.status()
        if cancel_jobs:
            acted = await calls.shutdown(Shutdown("cancel"))
            messages = [one.message for one in acted.results if one.message]
            deadline = time.monotonic() + local.STOP_S
            while local.ready_file(folder) is not None and time.monotonic() < deadline:
                await asyncio.sleep(local.POLL_S)
        return status.running, messages
    finally:
        await connection.close()
