"""Files of a job's user on this node: read and written by a process that has become that user."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from flagplot_agent.steps.streams import NodeStream
from flagplot_wire.errors import Refused
from flagplot_wire.streams import ConnectFile

HELPER = Path(__file__).with_name("filehelper.py")


async def serve_file(stream: NodeStream, call: ConnectFile) -> None:
    """Carry bytes between the stream and the helper; its error is the stream's."""
    user = ["-", "0", "0"] if os.getuid() else [call.user, str(call.uid), str(call.gid)]
    ours, theirs = socket.socketpair()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(HELPER), *user, call.verb, call.path, str(call.mode), str(int(call.force)),
            stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=asyncio.subprocess.PIPE, cwd="/", env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    finally:
        theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    carrying = asyncio.create_task(stream.join(reader, writer, last=False))
    try:
        assert process.stderr is not None
        told = (await process.stderr.read(4096)).decode("utf-8", "replace").strip()
        code = await process.wait()
        if code:
            carrying.cancel()
            raise Refused("bad_file", told or f"{call.path}: the helper ended with {code}")
        await carrying
    finally:
        carrying.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
