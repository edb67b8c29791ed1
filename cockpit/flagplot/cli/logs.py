"""`flagplot logs`: a job's output, from the node that has it."""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections.abc import Callable
from typing import Literal

import click
import msgspec

from flagplot.cli.common import ask, json_option
from flagplot.client.calls import Calls
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Output
from flagplot_wire.requests import ReadOutput

Stream = Literal["stdout", "stderr"]
PIECE = 2 * 1024 * 1024
"""A node starts a process as the job's user for each piece: small ones come at a tenth of the speed."""
TAIL = 256 * 1024
POLL_S = 0.5


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("-e", "--stderr", is_flag=True, help="Standard error, where it has a file of its own.")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last lines.")
@json_option
@click.pass_context
def command(context: click.Context, job: str, follow: bool, stderr: bool, lines: int | None, as_json: bool) -> None:
    """Print a job's output as it is; to a terminal, control characters are shown instead of sent.

    With --json one object a line, for each piece of the output.
    """
    stream: Stream = "stderr" if stderr else "stdout"
    write = json_writer(stream) if as_json else write_raw
    ask(context, lambda calls: _print(calls, job, stream, follow, lines, write))


async def _print(
    calls: Calls, job: str, stream: Stream, follow: bool, lines: int | None, write: Callable[[Output, bool], None]
) -> None:
    """Hand the output over in pieces; the last call says that it is the last. Without `follow` it is what was there at first."""
    offset, until = 0, -1
    if lines is not None:
        offset, until = await _tail(calls, job, stream, lines, follow)
    while True:
        try:
            piece = await calls.output(ReadOutput(job, stream, offset, PIECE))
        except Refused as refused:
            if not follow or refused.code not in ("not_started", "no_output", "unavailable"):
                raise
            await asyncio.sleep(POLL_S)
            continue
        until = piece.size if follow or until < 0 else until
        piece = msgspec.structs.replace(piece, data=piece.data[: max(until - piece.offset, 0)])
        offset = piece.offset + len(piece.data)
        more = bool(piece.data) and offset < until
        last = not more and (not follow or piece.ended)
        write(piece, last)
        if last:
            return
        if not more:
            await asyncio.sleep(POLL_S)


async def _tail(calls: Calls, job: str, stream: Stream, lines: int, follow: bool) -> tuple[int, int]:
    """Where the last lines begin, and where they end now (-1: there is nothing yet)."""
    try:
        piece = await calls.output(ReadOutput(job, stream, -TAIL, TAIL))
    except Refused:
        if follow:
            return 0, -1
        raise
    found = piece.data.split(b"\n")
    if found and not found[-1]:
        found.pop()
    kept = found[-lines:] if lines else []
    end = piece.offset + len(piece.data)
    return end - len(b"\n".join(kept)) - (1 if piece.data.endswith(b"\n") and kept else 0), end


def write_raw(piece: Output, last: bool) -> None:
    """Raw bytes to a file or pipe; made safe for a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(piece.data)
        sys.stdout.buffer.flush()
        return
    from flagplot_wire.text import clean

    sys.stdout.write(clean(piece.data.decode("utf-8", "replace").replace("\r\n", "\n"), keep_newlines=True))
    sys.stdout.flush()


def json_writer(stream: Stream) -> Callable[[Output, bool], None]:
    """A writer of one object a line; bytes that are no UTF-8 become U+FFFD, a character cut in two waits for its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(piece: Output, last: bool) -> None:
        text = decoder.decode(piece.data, final=last)
        if not piece.data and not last:
            return
        found = {
            "stream": stream,
            "node": piece.node,
            "path": piece.path,
            "offset": piece.offset,
            "bytes": len(piece.data),
            "size": piece.size,
            "ended": piece.ended,
            "text": text,
        }
        print(msgspec.json.encode(found).decode(), flush=True)

    return write
