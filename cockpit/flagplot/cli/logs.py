"""`flagplot logs`: a job's output, from the node that has it."""

from __future__ import annotations

import asyncio
import sys
from typing import Literal

import click

from flagplot.cli.common import ask
from flagplot.client.calls import Calls
from flagplot_wire.errors import Refused
from flagplot_wire.requests import ReadOutput

PIECE = 256 * 1024
POLL_S = 0.5


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("-e", "--stderr", is_flag=True, help="Standard error, where it has a file of its own.")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last lines.")
@click.pass_context
def command(context: click.Context, job: str, follow: bool, stderr: bool, lines: int | None) -> None:
    """Print a job's output as it is; to a terminal, control characters are shown instead of sent."""
    stream: Literal["stdout", "stderr"] = "stderr" if stderr else "stdout"
    ask(context, lambda calls: _print(calls, job, stream, follow, lines))


async def _print(calls: Calls, job: str, stream: Literal["stdout", "stderr"], follow: bool, lines: int | None) -> None:
    offset = 0
    if lines is not None:
        offset = await _tail_offset(calls, job, stream, lines, follow)
    while True:
        try:
            piece = await calls.output(ReadOutput(job, stream, offset, PIECE))
        except Refused as refused:
            if not follow or refused.code not in ("not_started", "no_output", "unavailable"):
                raise
            await asyncio.sleep(POLL_S)
            continue
        write(piece.data)
        offset = piece.offset + len(piece.data)
        if piece.data and offset < piece.size:
            continue
        if not follow or piece.ended:
            return
        await asyncio.sleep(POLL_S)


async def _tail_offset(calls: Calls, job: str, stream: Literal["stdout", "stderr"], lines: int, follow: bool) -> int:
    try:
        piece = await calls.output(ReadOutput(job, stream, -PIECE, PIECE))
    except Refused:
        if follow:
            return 0
        raise
    found = piece.data.split(b"\n")
    if found and not found[-1]:
        found.pop()
    kept = found[-lines:] if lines else []
    return piece.offset + len(piece.data) - len(b"\n".join(kept)) - (1 if piece.data.endswith(b"\n") and kept else 0)


def write(data: bytes) -> None:
    """Raw bytes to a file or pipe; made safe for a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    from flagplot_wire.text import clean

    sys.stdout.write(clean(data.decode("utf-8", "replace").replace("\r\n", "\n"), keep_newlines=True))
    sys.stdout.flush()
