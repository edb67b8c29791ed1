"""`flagplot bcast`: one file to every node of a job, handed on from node to node."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click

from flagplot.cli.common import ask, target_of
from flagplot.cli.progress import Progress
from flagplot.client.broadcast import Broadcast, Wish
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.broadcast import FANOUT, PIECE
from flagplot_wire.errors import Refused
from flagplot_wire.text import clean


@click.command("bcast")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("destination")
@click.option("--jobid", metavar="JOB", help="To the nodes of this job; else of the job that we are in.")
@click.option("-f", "--force", is_flag=True, help="Replace a file that is there.")
@click.option("-p", "--preserve", is_flag=True, help="Give it the permissions and times that it has here.")
@click.option(
    "-F", "--fanout", type=click.IntRange(1, 64), default=FANOUT, metavar="N", help="Each node hands it on to so many."
)
@click.pass_context
def command(
    context: click.Context, file: Path, destination: str, jobid: str | None, force: bool, preserve: bool, fanout: int
) -> None:
    """Send a file to the same place on every node of a job, as sbcast.

    It goes from here to the first nodes, which hand it on to others; each compares the checksum before the file
    appears, whole or not at all. A destination that ends in / is the folder for it.
    """
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not read files here", "run flagplot bcast on your own machine")
    job = jobid or os.environ.get("FLAGPLOT_JOB_ID")
    if not job:
        raise Refused("usage", "no job was named, and we are in none", "use --jobid")
    if not destination.startswith("/"):
        raise Refused("usage", f"{destination!r}: the path on the nodes must be absolute")
    if destination.endswith("/"):
        destination += file.name
    found = ask(context, lambda calls: calls.job(job)).jobs
    allocation = found[0].status.allocation if found else None
    if allocation is None:
        raise Refused("not_running", f"job {job} holds no nodes")
    try:
        told = file.stat()
        pieces = _pieces(file)
        first = next(pieces, b"")
    except OSError as wrong:
        raise Refused("usage", f"cannot read {file}: {wrong.strerror}") from wrong
    mode = told.st_mode & 0o777 if preserve else 0o755 if os.access(file, os.X_OK) else 0o644
    times = (told.st_atime_ns, told.st_mtime_ns) if preserve else ()
    wish = Wish(job, destination, mode, force, fanout, times)
    progress = Progress(file.name, told.st_size)
    asyncio.run(_send(target_of(context), wish, allocation.names, chain((first,), pieces), progress))


def _pieces(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as source:
        while data := source.read(PIECE):
            yield data


async def _send(target: Target, wish: Wish, nodes: list[str], content: Iterable[bytes], progress: Progress) -> None:
    connection = await Connection.open(target)
    broadcast = Broadcast(connection, wish, nodes)
    try:
        with progress:
            summed = await broadcast.send(content, progress.add)
    except OSError as wrong:
        raise Refused("usage", f"cannot read on: {wrong.strerror}: no node has the file") from wrong
    finally:
        await connection.close()
    for node in nodes:
        if node in broadcast.wrong:
            print(f"flagplot: {node}: {clean(broadcast.wrong[node])}", file=sys.stderr)
    if broadcast.wrong:
        raise Refused("bad_file", f"{len(broadcast.wrong)} of {len(nodes)} nodes do not have the file")
    print(f"{wish.path} is on {len(nodes)} nodes, sha256 {summed}")
