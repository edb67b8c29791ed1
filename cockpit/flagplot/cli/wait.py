"""`flagplot wait`: until jobs have ended."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from flagplot.cli.common import ask, json_option
from flagplot.cli.show import whole_object
from flagplot.client.calls import Calls
from flagplot.output.json import print_json
from flagplot_wire.errors import Exit, Refused
from flagplot_wire.text import clean

POLL_S = 0.25
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"}


@click.command("wait")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--timeout", type=click.IntRange(1), help="Give up after so many seconds (exit code 9).")
@json_option
@click.pass_context
def command(context: click.Context, jobs: tuple[str, ...], timeout: int | None, as_json: bool) -> None:
    """Wait until all jobs have ended; exits with the job's code (the first that is not 0)."""
    ended = ask(context, lambda calls: _wait(calls, jobs, timeout, tell=not as_json))
    if as_json:
        print_json(ended)
    codes = [exit_code(found["state"], found["exit_code"]) for found in ended]
    sys.exit(next((code for code in codes if code), 0))


async def _wait(calls: Calls, jobs: tuple[str, ...], timeout: int | None, tell: bool) -> list[dict[str, Any]]:
    """The jobs as objects, each once it has ended; `tell` says at once which did not complete."""
    deadline = asyncio.get_running_loop().time() + timeout if timeout else None
    ended = []
    for job in jobs:
        while True:
            found = whole_object(await calls.job(job), job)
            if found["state"] in ENDED:
                break
            if deadline and asyncio.get_running_loop().time() > deadline:
                raise Refused("unavailable", f"job {job} is still {found['state']} after {timeout} s")
            await asyncio.sleep(POLL_S)
        if tell and found["state"] != "COMPLETED":
            why = f": {found['message']}" if found["message"] else f" with exit code {found['exit_code']}"
            print(f"flagplot: job {clean(job)} ended as {found['state']}{clean(why)}", file=sys.stderr)
        ended.append(found)
    return ended


def exit_code(state: str, code: int | None) -> int:
    """The job's own code; 1 for a job that did not complete and has none (cancelled, timed out, lost)."""
    if code:
        return min(code, 255)
    return int(Exit.OK if state == "COMPLETED" else Exit.FAILED)
