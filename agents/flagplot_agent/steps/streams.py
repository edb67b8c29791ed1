"""The agent's second channel: many byte streams to what runs here, each held up by its own reader alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncssh

from flagplot_agent.background import Background
from flagplot_wire import streams as ws
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.errors import Refused

log = logging.getLogger("flagplot-agent")
SUBSYSTEM = "flagplot-streams"


class Readable(Protocol):
    """What bytes are read from."""

    async def read(self, count: int, /) -> bytes:
        """Some bytes; empty at the end."""


class Writable(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> None:
        """Take bytes."""

    async def drain(self) -> None:
        """Until it keeps up."""

    def can_write_eof(self) -> bool:
        """True when its end can be told."""

    def write_eof(self) -> None:
        """No more comes."""

    def close(self) -> None:
        """It is done with."""


class NodeStream(ws.End):
    """One stream, for a coroutine that reads and writes it."""

    def __init__(self, number: int, send: Callable[[Any], None]) -> None:
        super().__init__(number, send, asyncio.Event())

    async def join(self, reader: Readable, writer: Writable, last: bool = True) -> None:
        """Carry bytes both ways until both sides have ended; raises OSError or `Refused` when one is gone.

        Without `last` the end of what is read here is left for the caller to say: it may be no good end.
        """

        async def inwards() -> None:
            reads = True
            while data := await self.read():
                # Who stopped reading may still have something to say: what comes for it is dropped.
                try:
                    if reads:
                        writer.write(data)
                        await writer.drain()
                except ConnectionError:
                    reads = False
            if reads and writer.can_write_eof():
                writer.write_eof()

        async def outwards() -> None:
            while data := await reader.read(ws.PIECE):
                await self.write(data)
            if last:
                self.finish()

        tasks = [asyncio.create_task(inwards()), asyncio.create_task(outwards())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()


class Streams:
    """All streams. `serve(stream, call)` answers one that the controller opens; a refusal ends it with the reason."""

    def __init__(self, serve: Callable[[NodeStream, Any], Awaitable[None]]) -> None:
        self._serve = serve
        self._open: dict[int, NodeStream] = {}
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._background = Background()
        self._next = 1

    def send(self, body: Any) -> None:
        """One frame; how much may be under way is limited stream by stream."""
        if self._process is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(encode(body))

    async def run(self, connection: asyncssh.SSHClientConnection, node: str, key: str) -> None:
        """Serve one connection's channel until it ends."""
        self._process = await connection.create_process(subsystem=SUBSYSTEM, encoding=None)
        self.send(ws.StreamsHello(node, key))
        decoder: Decoder[Any] = Decoder(ws.ToStreams)
        try:
            while data := await self._process.stdout.read(65_536):
                for _, body in decoder.feed(data):
                    self._take(body)
        except (OSError, asyncssh.Error, Refused) as wrong:
            log.warning("the channel for streams ended: %s", wrong)
        finally:
            self._process = None
            lost = Refused("unavailable", "the connection to the controller is lost")
            for stream in list(self._open.values()):
                stream.lost(lost)
            self._open.clear()

    def _take(self, body: Any) -> None:
        if isinstance(body, Refused):
            log.warning("ignored a frame of the controller: %s", body.message)
        elif isinstance(body, (ws.StreamData, ws.StreamCredit, ws.StreamEnd)):
            stream = self._open.get(body.stream)
            if stream is not None:
                stream.arrived(body)
        else:
            stream = self._add(body.stream)
            self._background.start(self._answer(stream, body))

    def _add(self, number: int) -> NodeStream:
        stream = self._open[number] = NodeStream(number, self.send)
        return stream

    async def _answer(self, stream: NodeStream, call: Any) -> None:
        try:
            await self._serve(stream, call)
            stream.finish()
        except Refused as refused:
            stream.close(refused)
        except OSError as wrong:
            stream.close(Refused("gone", f"the connection ended: {wrong.strerror or wrong}"))
        except Exception as wrong:
            # One bad stream must not end the agent.
            log.exception("a stream failed")
            stream.close(Refused("internal", f"the agent met a defect: {type(wrong).__name__}", "see its log"))
        finally:
            self._open.pop(stream.number, None)

    def begin(self, make: Callable[[int], Any]) -> NodeStream:
        """Open a stream from here; `make(number)` is the frame that says what for. Raises `Refused`."""
        if self._process is None:
            raise Refused("unavailable", "the controller is not connected")
        number, self._next = self._next, self._next + 2
        stream = self._add(number)
        self.send(make(number))
        return stream

    def forget(self, stream: NodeStream) -> None:
        """A stream that was opened from here is done with."""
        stream.close()
        self._open.pop(stream.number, None)
