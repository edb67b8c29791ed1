"""What the service needs of a connection, and the unix socket's form of it. SSH brings another."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Stream(Protocol):
    """A connected byte stream."""

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Send without waiting."""

    async def drain(self) -> None:
        """Wait until the other side keeps up."""

    def close(self) -> None:
        """End the connection."""


class SocketStream:
    """A stream over asyncio's reader and writer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        try:
            return await self._reader.read(65_536)
        except ConnectionError:
            return b""

    def write(self, data: bytes) -> None:
        """Send without waiting."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the other side keeps up; a broken connection shows at the next read."""
        try:
            await self._writer.drain()
        except ConnectionError:
            self._writer.close()

    def close(self) -> None:
        """End the connection."""
        self._writer.close()
