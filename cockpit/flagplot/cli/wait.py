"""`flagplot wait`: until jobs have ended."""

from __future__ import annotations

import asyncio
import sys

import click

from flagplot.cli.common import ask
from flagplot.cli.show import whole_object
from flagplot.client.calls import Calls
from flagplot_wire.errors import Exit, Refused
from flagplot_wire.text import clean

POLL_S = 0.25
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"}


@click.command("wait")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--timeout", type=click.IntRange(1), help="Give up after so many seconds (exit code 9).")
@click.pass_context
def command(context: click.Context, jobs: tuple[str, ...], timeout: int | None) -> None:
    """Wait until all jobs have ended; exits with the job's code (the first that is not 0)."""
    codes = ask(context, lambda calls: _wait(calls, jobs, timeout))
    sys.exit(next((code for code in codes if code), 0))


async def _wait(calls: Calls, jobs: tuple[str, ...], timeout: int | None) -> list[int]:
    deadline = asyncio.get_running_loop().time() + timeout if timeout else None
    codes = []
    for job in jobs:
        while True:
            found = whole_object(await calls.job(job), job)
            if found["state"] in ENDED:
                break
            if deadline and asyncio.get_running_loop().time() > deadline:
                raise Refused("unavailable", f"job {job} is still {found['state']} after {timeout} s")
            await asyncio.sleep(POLL_S)
        if found["state"] != "COMPLETED":
            print(f"flagplot: job {clean(job)} ended as {found['state']}: {clean(found['message'])}", file=sys.stderr)
        codes.append(exit_code(found["state"], found["exit_code"]))
    return codes


def exit_code(state: str, code: int | None) -> int:
    """The job's own code; 1 for a job that did not complete and has none (cancelled, timed out, lost)."""
    if code:
        return min(code, 255)
    return int(Exit.OK if state == "COMPLETED" else Exit.FAILED)
