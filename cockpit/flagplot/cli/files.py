"""`flagplot cp`: files to and from the nodes of a job, as its user, without a shared file system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from flagplot.cli.common import target_of
from flagplot.client.archive import pack, unpack
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.requests import OpenFile


@click.command("cp")
@click.argument("source")
@click.argument("destination")
@click.option("-w", "--nodelist", "node", default="", metavar="NODE", help="On this node of the job (its first).")
@click.pass_context
def cp(context: click.Context, source: str, destination: str, node: str) -> None:
    """Copy a file or folder between here and a running job: flagplot cp JOB:/path HERE, or HERE JOB:/path."""
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not touch files here", "run flagplot cp on your own machine")
    from_job, to_job = _in_job(source), _in_job(destination)
    if (from_job is None) == (to_job is None):
        raise Refused("usage", "one of the two must be in a job", "write it as JOB:/path")
    asyncio.run(_copy(target_of(context), from_job, to_job, source, destination, node))


def _in_job(text: str) -> tuple[str, str] | None:
    job, colon, path = text.partition(":")
    if not colon or not job.replace("_", "").isdecimal():
        return None
    if not path.startswith("/"):
        raise Refused("usage", f"{text!r}: the path on the node must be absolute")
    return job, path


async def _copy(
    target: Target, from_job: tuple[str, str] | None, to_job: tuple[str, str] | None, source: str, there: str, node: str
) -> None:
    connection = await Connection.open(target)
    stream = connection.streams.make()
    try:
        if from_job is not None:
            await Calls(connection).opened(OpenFile(from_job[0], stream.number, "read", from_job[1], node))
            await unpack(stream, Path(there))
        elif to_job is not None:
            if not os.path.lexists(source):
                raise Refused("usage", f"there is no {source}")
            await Calls(connection).opened(OpenFile(to_job[0], stream.number, "write", to_job[1], node))
            await pack(stream, Path(source))
            # The node says its end when all of it is on its disk.
            while await stream.read():
                continue
    finally:
        stream.close()
        await connection.close()
