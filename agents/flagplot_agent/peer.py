"""Who is at the other end of a local socket."""

from __future__ import annotations

import asyncio
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def uid_of_peer(writer: asyncio.StreamWriter) -> int:
    """The uid of the process that connected, by the kernel's word; raises OSError."""
    sock = writer.get_extra_info("socket")
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)
