"""Byte streams over a client's connection: to steps, ports and files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flagplot_wire import streams as ws
from flagplot_wire.errors import Refused


class ByteStream(ws.End):
    """One stream, which its connection forgets when it is closed."""

    def __init__(self, number: int, send: Callable[[Any], None], forget: Callable[[int], None]) -> None:
        super().__init__(number, send, asyncio.Event())
        self._forget = forget

    def close(self, why: Refused | None = None) -> None:
        """End it both ways."""
        if not self.over:
            super().close(why)
        self._forget(self.number)

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes both ways until both sides have ended; raises OSError or `Refused` when one is gone."""

        async def inwards() -> None:
            while data := await self.read():
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

        async def outwards() -> None:
            while data := await reader.read(ws.PIECE):
                await self.write(data)
            self.finish()

        tasks = [asyncio.create_task(inwards()), asyncio.create_task(outwards())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()
            self.close()


class Streams:
    """All streams of a connection."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._open: dict[int, ByteStream] = {}
        self._next = 1
        self._reserved: list[range] = []

    def reserve(self) -> int:
        """The first of many numbers, for a request whose answer tells how many streams it leads to."""
        first, self._next = self._next, self._next + ws.MAX_STREAMS
        self._reserved.append(range(first, self._next))
        return first

    def at(self, number: int) -> ByteStream:
        """The stream of a reserved number."""
        if number not in self._open:
            self._open[number] = ByteStream(number, self._send, self._gone)
        return self._open[number]

    def release(self, first: int) -> None:
        """Frames of these numbers are late from now on."""
        self._reserved = [one for one in self._reserved if one.start != first]

    def make(self) -> ByteStream:
        """A stream with a number of its own; a request then says what it leads to."""
        number, self._next = self._next, self._next + 1
        stream = self._open[number] = ByteStream(number, self._send, self._gone)
        return stream

    def _gone(self, number: int) -> None:
        self._open.pop(number, None)

    def take(self, frame: ws.StreamFrame) -> None:
        """A frame of the controller."""
        stream = self._open.get(frame.stream)
        if stream is None and any(frame.stream in one for one in self._reserved):
            stream = self.at(frame.stream)
        if stream is not None:
            stream.arrived(frame)

    def lost(self, why: Refused) -> None:
        """The connection is gone."""
        for stream in self._open.values():
            stream.lost(why)
