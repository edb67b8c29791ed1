"""Files of a job's user on this node: read and written by a process that has become that user."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

from flagplot_agent.steps.streams import NodeStream
from flagplot_wire.errors import Refused
from flagplot_wire.streams import ConnectFile

PIECE = 64 * 1024
END_S = 5.0
"""For the helper to clean up when the client is gone."""


async def send_file(stream: NodeStream, call: ConnectFile) -> str:
    """Send what `read` gives; the stream's end is said only when all of it was read, and awaited from the other side.

    Returns a sentence on what was left out (empty: nothing).
    """
    process, ours = await _helper(call, "")
    reader, writer = await asyncio.open_connection(sock=ours)
    ending = asyncio.create_task(_ended(process))
    try:
        while data := await reader.read(PIECE):
            await stream.write(data)
        code, told = await ending
        if code:
            raise Refused("bad_file", told or f"{call.path}: the helper ended with {code}")
        stream.finish()
        while await stream.read():
            continue
        return told
    finally:
        writer.close()
        if process.returncode is None:
            process.kill()
        await asyncio.gather(ending, return_exceptions=True)


async def _helper(call: ConnectFile, address: str) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """The process that reads or writes as the user, and our end of its input and output."""
    user = ["-", "0", "0"] if os.getuid() else [call.user, str(call.uid), str(call.gid)]
    words = [*user, call.verb, call.path, str(call.mode), str(int(call.force)), address]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ours, theirs = socket.socketpair()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "flagplot_agent.steps.filehelper", *words, stdin=theirs.fileno(),
            stdout=theirs.fileno(), stderr=asyncio.subprocess.PIPE, cwd="/", env=environment,
        )  # fmt: skip
    finally:
        theirs.close()
    return process, ours


async def serve_file(stream: NodeStream, call: ConnectFile, address: str) -> None:
    """Carry bytes between the stream and the helper; its error is the stream's. `address` is this node's."""
    process, ours = await _helper(call, address)
    reader, writer = await asyncio.open_connection(sock=ours)
    carrying = asyncio.create_task(stream.join(reader, writer, last=False))
    ending = asyncio.create_task(_ended(process))
    try:
        await asyncio.wait((carrying, ending), return_when=asyncio.FIRST_COMPLETED)
        if carrying.done() and carrying.exception() is not None and process.returncode is None:
            # The client is gone: what it began is not to be taken for whole.
            process.terminate()
        code, told = await asyncio.wait_for(ending, END_S if carrying.done() and carrying.exception() else None)
        if code:
            carrying.cancel()
            raise Refused("bad_file", told or f"{call.path}: the helper ended with {code}")
        await carrying
    finally:
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """The helper's exit code and what it said."""
    assert process.stderr is not None
    told = (await process.stderr.read(4096)).decode("utf-8", "replace").strip()
    return await process.wait(), told
