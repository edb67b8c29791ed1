"""What a step's client and its nodes say to each other, inside a stream. Standard library only.

A message is a kind (one letter), a length (4 bytes, big-endian) and that many bytes. To the node: `i` input bytes
for the tasks that read it (empty: its end), `c` a JSON command (`signal`, `end`, `resize`). From the node: `o` and
`e` output and error, each behind the task's rank (4 bytes), and `n` JSON news: `started`, `exited`, `failed`.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from flagplot_wire.errors import Refused

_HEAD = struct.Struct(">cI")
_RANK = struct.Struct(">I")
MAX_MESSAGE = 1 << 20


def message(kind: bytes, data: bytes) -> bytes:
    """One message."""
    return _HEAD.pack(kind, len(data)) + data


def output(kind: bytes, rank: int, data: bytes) -> bytes:
    """Output of a task."""
    return message(kind, _RANK.pack(rank) + data)


def rank_of(content: bytes) -> tuple[int, bytes]:
    """The rank and the bytes of an `o` or `e` message."""
    return _RANK.unpack_from(content)[0], content[_RANK.size :]


def news(**what: Any) -> bytes:
    """Something happened to a task."""
    return message(b"n", json.dumps(what).encode())


class Reader:
    """Cuts bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Add bytes; returns whole messages as (kind, data). Raises `Refused` on what is none."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._buffer)
            if length > MAX_MESSAGE:
                raise Refused("protocol", f"a message of {length} bytes, above the {MAX_MESSAGE} allowed")
            whole = _HEAD.size + length
            if len(self._buffer) < whole:
                break
            found.append((kind, bytes(self._buffer[_HEAD.size : whole])))
            del self._buffer[:whole]
        return found
