"""Running a site's program as the agent's user, with a time limit and nobody else's hands on it."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from flagplot_agent.launch.taskprolog import ending

MAX_OUTPUT = 64 * 1024


class Ran(NamedTuple):
    """Empty `wrong`: it ended with exit code 0. `output` is the beginning of what it wrote."""

    wrong: str
    output: str


def why_not(path: Path) -> str:
    """Why a program must not be run by the agent (empty: it may): what others can write, others can command."""
    try:
        found = path.stat()
    except OSError as wrong:
        return f"cannot be run: {wrong.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    if found.st_uid not in (0, os.getuid()):
        return "belongs to another user than root and the agent's: it is not run"
    if found.st_mode & stat.S_IWOTH:
        return "can be written by everybody: it is not run"
    return ""


async def run_program(
    path: Path,
    environment: Mapping[str, str],
    limit_s: int,
    log: Path,
    started: Callable[[int], None] = lambda _pid: None,
    errors: bool = True,
) -> Ran:
    """Run it to its end with its output (and `errors`) in `log`; `started` hears its pid, which leads a group.

    What it leaves in the background goes on and is not waited for. Over the limit, or where we are cancelled, its
    whole group is killed.
    """
    why = why_not(path)
    if why:
        return Ran(why, "")
    try:
        with open(log, "wb") as out:
            process = await asyncio.create_subprocess_exec(
                str(path),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out if errors else asyncio.subprocess.DEVNULL,
                cwd="/",
                env=dict(environment),
                start_new_session=True,
            )
    except OSError as wrong:
        return Ran(f"cannot be run: {wrong.strerror}", "")
    started(process.pid)
    wrong_end = f"did not end within {limit_s} s"
    try:
        async with asyncio.timeout(limit_s):
            code = await process.wait()
        wrong_end = ending(code) if code else ""
    except TimeoutError:
        kill_group(process.pid)
        await process.wait()
    except asyncio.CancelledError:
        kill_group(process.pid)
        raise
    with open(log, "rb") as file:
        output = file.read(MAX_OUTPUT).decode("utf-8", "replace")
    return Ran(wrong_end, output)


def kill_group(leader: int) -> None:
    """End a program with all that it started in its group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
