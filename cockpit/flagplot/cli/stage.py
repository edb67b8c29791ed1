"""`flagplot stage` and `flagplot fetch`: the files that come with a job, and those that it leaves."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from flagplot.cli.common import json_option, target_of
from flagplot.client import staging
from flagplot.client.connection import Connection
from flagplot.client.target import Target
from flagplot_wire.errors import Exit, Refused
from flagplot_wire.text import clean


@click.command("stage")
@click.argument("job")
@click.pass_context
def stage(context: click.Context, job: str) -> None:
    """Send the files of --stage-in that a job still waits for: submit was interrupted, or could not go on."""
    _may_touch_files()
    asyncio.run(staging.send(target_of(context), job, tell))
    print(f"job {clean(job)} has its files")


@click.command("fetch")
@click.argument("job")
@click.option(
    "--to", "folder", type=click.Path(path_type=Path), help="Into this folder instead of the places that were named."
)
@json_option
@click.pass_context
def fetch(context: click.Context, job: str, folder: Path | None, as_json: bool) -> None:
    """Fetch what an ended job left by --stage-out, to the places named there."""
    _may_touch_files()
    if folder is not None and not folder.is_dir():
        raise Refused("usage", f"{folder} is no folder")
    try:
        places, missing = asyncio.run(_fetch(target_of(context), job, folder))
    except OSError as wrong:
        raise Refused("usage", f"cannot write {wrong.filename or 'the files'}: {wrong.strerror}") from wrong
    if as_json:
        from flagplot.output.json import print_json

        print_json({"job": job, "fetched": places, "missing": missing})
    for place in places if not as_json else ():
        print(clean(place))
    for source in missing:
        print(
            f"flagplot: {clean(source)} was not left by job {clean(job)} (flagplot show job {clean(job)} says why)",
            file=sys.stderr,
        )
    if missing:
        sys.exit(int(Exit.REFUSED))


async def _fetch(target: Target, job: str, folder: Path | None) -> tuple[list[str], list[str]]:
    connection = await Connection.open(target)
    try:
        return await staging.fetch(connection, job, folder)
    finally:
        await connection.close()


def send_after_submit(target: Target, number: int) -> None:
    """Send a new job's files; where that fails the job waits for them."""
    try:
        asyncio.run(staging.send(target, str(number), tell))
    except (Refused, OSError, KeyboardInterrupt) as wrong:
        why = "interrupted" if isinstance(wrong, KeyboardInterrupt) else str(wrong)
        raise Refused(
            "unavailable",
            f"job {number} waits for its files: {why}",
            f"flagplot stage {number} sends them, flagplot cancel {number} gives up",
        ) from wrong


def tell(text: str) -> None:
    """A sentence on standard error."""
    print(f"flagplot: {clean(text)}", file=sys.stderr)


def _may_touch_files() -> None:
    if os.environ.get("FLAGPLOT_CONFINED") == "1":
        raise Refused("not_permitted", "this session may not touch files here", "run it on your own machine")
