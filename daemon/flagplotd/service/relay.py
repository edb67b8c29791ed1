"""Streams between clients and nodes: frames pass through under new numbers, within what each end has granted.

An agent carries all its streams on a second channel, so that they never stand before its heartbeats. Nothing is
kept here but what is under way, at most a window for each direction of a stream.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from flagplot_wire import streams as ws
from flagplot_wire.codec import Decoder, encode
from flagplot_wire.errors import Refused
from flagplot_wire.streams import End, Meter, StreamCredit, StreamData, StreamEnd, StreamFrame
from flagplot_wire.text import clean
from flagplotd.service.streams import Stream

log = logging.getLogger("flagplotd.relay")


class Taker(Protocol):
    """What takes the frames of a client's stream: a relay to a node, or an end of the controller's own."""

    def from_client(self, frame: StreamFrame) -> None:
        """A frame of the client."""

    def end(self, why: Refused) -> None:
        """End it."""

    def left(self) -> None:
        """The client is gone."""


class Wishes(Protocol):
    """What is done with the streams that an agent opens."""

    def serve_client(self, node: NodeStreams, wish: ws.ServeClient, /) -> None:
        """A job's process wants to be served."""

    def serve_stage(self, node: NodeStreams, wish: ws.StageFile, /) -> None:
        """A transfer of a job is wanted, or comes."""


class NodeStreams:
    """The streams of one agent. `wishes` takes those that it opens."""

    def __init__(self, node: str, stream: Stream, wishes: Wishes) -> None:
        self.node = node
        self._stream = stream
        self._wishes = wishes
        self._numbers = itertools.count(2, 2)
        self.takers: dict[int, Callable[[StreamFrame], None]] = {}
        """What is done with the frames of a stream. Ours have even numbers, those that the agent opens odd ones."""

    def send(self, body: Struct) -> None:
        """One frame to the agent."""
        self._stream.write(encode(body))

    def open(self, taker: Callable[[StreamFrame], None]) -> int:
        """A number for a new stream; raises `Refused` where there are too many."""
        if len(self.takers) >= ws.MAX_STREAMS:
            raise Refused("unavailable", f"node {self.node} has {ws.MAX_STREAMS} streams open, the most it may")
        number = next(self._numbers)
        self.takers[number] = taker
        return number

    async def run(self, decoder: Decoder[Struct], frames: list[tuple[int, Struct | Refused]]) -> None:
        """Until the channel ends; never waits for anyone but the agent."""
        try:
            while True:
                for _, body in frames:
                    self._take(body)
                data = await self._stream.read()
                if not data:
                    return
                frames = decoder.feed(data)
        finally:
            self.close()

    def _take(self, body: Struct | Refused) -> None:
        match body:
            case StreamData() | StreamCredit() | StreamEnd():
                taker = self.takers.get(body.stream)
                if taker is not None:
                    taker(body)
            case ws.ServeClient():
                self._wishes.serve_client(self, body)
            case ws.StageFile():
                self._wishes.serve_stage(self, body)
            case Refused():
                log.warning("node %s: %s", self.node, body.message)

    def close(self) -> None:
        """The channel is gone, and every stream with it."""
        self._stream.close()
        takers, self.takers = self.takers, {}
        for number, taker in takers.items():
            taker(StreamEnd(number, "unavailable", f"the connection to node {self.node} is lost"))


class Relay:
    """One stream between a client and a node."""

    def __init__(self, client: ClientStreams, number: int, node: NodeStreams) -> None:
        self._client = client
        self._number = number
        self._node = node
        self.there = node.open(self.from_node)
        self._down, self._up = Meter(), Meter()
        self._ends = 0

    def from_client(self, frame: StreamFrame) -> None:
        """Pass a client's frame on."""
        self._pass(frame, self._down, self._up, lambda: self._to_node(frame))

    def from_node(self, frame: StreamFrame) -> None:
        """Pass a node's frame on."""
        self._pass(frame, self._up, self._down, lambda: self._to_client(frame))

    def _pass(self, frame: StreamFrame, used: Meter, granted: Meter, forward: Callable[[], None]) -> None:
        try:
            if isinstance(frame, StreamData):
                used.take(len(frame.data))
            elif isinstance(frame, StreamCredit):
                granted.grant(frame.count)
        except Refused as wrong:
            self.end(wrong)
            return
        forward()
        if isinstance(frame, StreamEnd):
            self._ends += 1
            if frame.code or self._ends == 2:
                self._forget()

    def _to_node(self, frame: StreamFrame) -> None:
        self._node.send(_renumbered(frame, self.there))

    def _to_client(self, frame: StreamFrame) -> None:
        self._client.send(_renumbered(frame, self._number))

    def end(self, why: Refused) -> None:
        """End it towards both."""
        self._to_node(StreamEnd(0, why.code, why.message, why.hint))
        self._to_client(StreamEnd(0, why.code, why.message, why.hint))
        self._forget()

    def left(self) -> None:
        """The client is gone."""
        self._to_node(StreamEnd(0, "gone", "the client left"))
        self._node.takers.pop(self.there, None)

    def _forget(self) -> None:
        self._node.takers.pop(self.there, None)
        self._client.relays.pop(self._number, None)


def _renumbered(frame: StreamFrame, number: int) -> StreamFrame:
    match frame:
        case StreamData():
            return StreamData(number, frame.data)
        case StreamCredit():
            return StreamCredit(number, frame.count)
    return StreamEnd(number, frame.code, clean(frame.message), clean(frame.hint))


class ClientStreams:
    """The streams of one client's connection."""

    def __init__(self, send: Callable[[Struct], None]) -> None:
        self.send = send
        self.relays: dict[int, Taker] = {}

    def open(self, number: int, node: NodeStreams) -> int:
        """Connect stream `number` of the client to a node; returns the node's number for it. Raises `Refused`."""
        self._check(number)
        relay = Relay(self, number, node)
        self.relays[number] = relay
        return relay.there

    def take_over(self, number: int, taker: Taker) -> None:
        """Have `taker` serve stream `number` of the client; raises `Refused`."""
        self._check(number)
        self.relays[number] = taker

    def _check(self, number: int) -> None:
        if number in self.relays or not 0 < number < 2**31:
            raise Refused("bad_request", f"stream {number} is open already")
        if len(self.relays) >= ws.MAX_STREAMS:
            raise Refused("bad_request", f"this connection has {ws.MAX_STREAMS} streams open, the most it may")

    def take(self, frame: StreamFrame) -> None:
        """A frame of the client. One for a stream that is over is late, and dropped."""
        relay = self.relays.get(frame.stream)
        if relay is not None:
            relay.from_client(frame)

    def close(self) -> None:
        """The client is gone."""
        for relay in self.relays.values():
            relay.left()
        self.relays.clear()


class NodeClient:
    """A client on a node, served over a stream of its agent (a `Stream` for `Session`)."""

    def __init__(self, node: NodeStreams, number: int) -> None:
        self._changed = asyncio.Event()
        self._end = End(number, node.send, self._changed)
        self._out = bytearray()
        self._node = node
        node.takers[number] = self._arrived

    def _arrived(self, frame: StreamFrame) -> None:
        self._end.arrived(frame)
        self._flush()

    def _flush(self) -> None:
        try:
            with memoryview(self._out) as waiting:
                sent = self._end.put(waiting)
            del self._out[:sent]
        except Refused:
            self._out.clear()
        self._changed.set()

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        try:
            return await self._end.read()
        except Refused:
            return b""

    def write(self, data: bytes) -> None:
        """Send without waiting."""
        self._out += data
        self._flush()

    async def drain(self) -> None:
        """Wait until the other side keeps up."""
        while len(self._out) > ws.WINDOW and not self._end.over:
            await self._end.change()

    def close(self) -> None:
        """End the connection."""
        self._end.close()
        self._node.takers.pop(self._end.number, None)
