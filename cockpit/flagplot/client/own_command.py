"""Commands that a person set up for themselves, run beside the cockpit with nothing of a shell between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from flagplot_wire.errors import Refused

KEPT = 16_384
"""Bytes of its output that are kept, the last ones."""


async def run_beside(
    command: Sequence[str], more: Mapping[str, str] | None = None, timeout_s: float | None = None
) -> tuple[int, str]:
    """Its exit code and the end of its output; raises `Refused` where it cannot be run or is too slow (it is killed)."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env={**os.environ, **(more or {})}, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as wrong:
        raise Refused("usage", f"{command[0]} cannot be run: {wrong}") from wrong
    try:
        output = await asyncio.wait_for(_end_of(process), timeout_s)
    except TimeoutError as late:
        raise Refused("usage", f"{command[0]} took more than {timeout_s:.0f} s and was ended") from late
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")


async def _end_of(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    output = b""
    while data := await process.stdout.read(65_536):
        output = (output + data)[-KEPT:]
    await process.wait()
    return output
