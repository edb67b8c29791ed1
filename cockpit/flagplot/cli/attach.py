"""`flagplot attach`: watch a running step, and type into it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext

import click

from flagplot.cli.common import target_of
from flagplot.cli.terminal import Printer, feeding, following_window, raw_terminal, tell, window
from flagplot.client.connection import Connection
from flagplot.client.steps import StepClient
from flagplot.client.target import Target
from flagplot_wire.errors import Refused
from flagplot_wire.steps import BATCH

DETACH = "ctrl-]"


@click.command("attach")
@click.argument("name", metavar="JOB[.STEP]")
@click.option("--step", metavar="STEP", help="This step (0) instead of the last one begun.")
@click.option("-l", "--label", is_flag=True, help="Write each line behind the rank of its task.")
@click.option("--no-stdin", is_flag=True, help="Only watch.")
@click.option("--detach-key", default=DETACH, metavar="KEY", help=f"Key that leaves the step ({DETACH}); none: no key.")
@click.pass_context
def command(context: click.Context, name: str, step: str | None, label: bool, no_stdin: bool, detach_key: str) -> None:
    """Join a running step (the last one begun): its latest output, then what comes; your input reaches its tasks.

    Leaving it, by the detach key or Ctrl-C, lets it run on. Several may be attached at once.
    """
    job, dot, number = name.partition(".")
    number = step if step is not None else number
    if number == BATCH:
        raise Refused("usage", f"{job}.{BATCH} is the job's script: it reads /dev/null, or the file of -i",
                      "flagplot logs -f JOB follows its output; steps (flagplot run) can be attached to")  # fmt: skip
    if (dot or step is not None) and not number.isdecimal():
        raise Refused("usage", f"{number!r} is no step: write 41.0", "flagplot logs -f JOB follows the script's output")
    key = parse_key(detach_key)
    sys.exit(asyncio.run(_attach(target_of(context), job, int(number) if number else -1, label, not no_stdin, key)))


def parse_key(text: str) -> bytes:
    """The byte of `ctrl-]` and the like; empty for `none`. Raises `Refused`."""
    if text.lower() == "none":
        return b""
    head, _, letter = text.lower().partition("-")
    if head != "ctrl" or len(letter) != 1 or not (letter.isascii() and (letter.isalpha() or letter in "@[\\]^_")):
        raise Refused("usage", f"--detach-key {text!r}: write ctrl-a to ctrl-z, ctrl-] or the like, or none")
    return bytes([ord(letter.upper()) & 0x1F])


async def _attach(target: Target, job: str, number: int, label: bool, stdin: bool, key: bytes) -> int:
    connection = await Connection.open(target)
    try:
        printer = Printer(label)
        client = StepClient(connection, printer, tell)
        try:
            step = await client.watch(job, number, stdin)
        except Refused as refused:
            if not stdin or refused.code != "not_permitted":
                raise
            step, stdin = await client.watch(job, number), False
            tell(f"only watching: {refused.message}")
        printer.tasks(step.tasks)
        return await _joined(client, printer, step.id, step.pty, stdin, key)
    finally:
        await connection.close()


async def _joined(client: StepClient, printer: Printer, name: str, pty: bool, stdin: bool, key: bytes) -> int:
    """Until the step has ended (its exit code), or the detach key was pressed (0)."""
    left = asyncio.Event()
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raw = pty and stdin and terminal
    if terminal and stdin:
        keys = f"{_written(key)} leaves it running" if key and raw else "Ctrl-C leaves it running"
        tell(f"attached to step {name}: {keys}")
    running = asyncio.create_task(client.run())
    leaving = asyncio.create_task(left.wait())
    following = following_window(client) if raw else nullcontext()
    with following, raw_terminal(raw), feeding(client, key if raw else b"", left.set) if stdin else nullcontext():
        if raw:
            # What is drawn on the whole screen is drawn anew, for this one.
            rows, columns = window()
            client.command(do="resize", rows=rows, columns=columns)
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
    printer.flush()
    leaving.cancel()
    if running.done():
        return running.result()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    tell(f"left step {name}, which goes on")
    return 0


def _written(key: bytes) -> str:
    return f"Ctrl-{chr(key[0] | 0x40)}"
