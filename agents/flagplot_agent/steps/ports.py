"""A TCP port of a job: only one that the job's user listens on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flagplot_agent.steps.streams import NodeStream
from flagplot_wire.errors import Refused
from flagplot_wire.streams import ConnectPort

LISTEN = "0A"
"""A listening socket in /proc/net/tcp."""
ADDRESSES = (("tcp", "127.0.0.1"), ("tcp6", "::1"))


async def serve_port(stream: NodeStream, call: ConnectPort) -> None:
    """Connect to the port on this node and carry its bytes."""
    found = {kind: listeners(Path(f"/proc/net/{kind}"), call.port) for kind, _ in ADDRESSES}
    everyone = found["tcp"] | found["tcp6"]
    if not everyone:
        raise Refused("not_found", f"nothing listens on port {call.port} of this node", "is it still starting?")
    if call.uid not in everyone:
        raise Refused("not_permitted", f"port {call.port} of this node belongs to another user")
    wrong: OSError | None = None
    for kind, address in sorted(ADDRESSES, key=lambda one: call.uid not in found[one[0]]):
        if found[kind] - {call.uid}:
            continue
        try:
            reader, writer = await asyncio.open_connection(address, call.port)
        except OSError as refused:
            wrong = refused
            continue
        await stream.join(reader, writer)
        return
    raise Refused(
        "unavailable", f"cannot connect to port {call.port}: {wrong.strerror if wrong else 'not on loopback'}"
    )


def listeners(table: Path, port: int) -> set[int]:
    """The uids that listen on a port, by the kernel's table."""
    try:
        lines = table.read_text().splitlines()[1:]
    except FileNotFoundError:
        return set()
    fields = (line.split() for line in lines)
    return {int(one[7]) for one in fields if one[3] == LISTEN and int(one[1].rpartition(":")[2], 16) == port}
