"""Byte streams between a client and something on a node: a step, a port, a file.

A stream is opened by a request, then carries bytes both ways until each side has said its end. Neither side sends
more than the other has granted: `WINDOW` bytes at first, then what `StreamCredit` adds. So a reader that is slow
holds up its own stream alone, and the controller between them never keeps more than a window of a stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from flagplot_wire.agentlink import Launch
from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.steps import StepPart, StepSpec

WINDOW = 256 * 1024
"""Bytes that may be under way on a stream, in each direction."""
PIECE = 32 * 1024
"""Bytes in one frame at most."""
MAX_STREAMS = 4_096
"""Open streams of one connection."""


class StreamData(Struct, frozen=True, tag="stream_data"):
    """Bytes."""

    stream: int
    data: bytes


class StreamCredit(Struct, frozen=True, tag="stream_credit"):
    """The other side may send so many bytes more."""

    stream: int
    count: int


class StreamEnd(Struct, frozen=True, omit_defaults=True, tag="stream_end"):
    """This side sends no more; with `code` (a refusal's) the stream is over both ways, and why."""

    stream: int
    code: str = ""
    message: str = ""
    hint: str = ""


StreamFrame = StreamData | StreamCredit | StreamEnd


class ConnectStep(Struct, frozen=True, omit_defaults=True, tag="connect_step"):
    """To the agent: this node's part of a step. `launch` starts it (None: it runs already and is watched, and with
    `stdin` takes the watcher's input too)."""

    stream: int
    number: JobNumber
    attempt: int
    step: int
    launch: Launch | None = None
    spec: StepSpec | None = None
    parts: tuple[StepPart, ...] = ()
    part: int = 0
    stdin: bool = False


class ConnectPort(Struct, frozen=True, tag="connect_port"):
    """To the agent: a TCP port that a process of the job's user listens on."""

    stream: int
    number: JobNumber
    attempt: int
    uid: int
    port: int


class ConnectFile(Struct, frozen=True, omit_defaults=True, tag="connect_file"):
    """To the agent: one file or folder as the job's user. `read` sends a tar archive of `path`; `write` takes one
    and unpacks it to `path`; `bcast` is a node's part in sending a file to many (`flagplot_wire.broadcast`), which `mode`
    and `force` are for. `send` and `receive` are one side of `flagplot_wire.filetree`: `path` may have wildcards for
    `send`, and `receive` goes on with an earlier copy with `force`."""

    stream: int
    number: JobNumber
    attempt: int
    user: str
    uid: int
    gid: int
    verb: Literal["read", "write", "bcast", "send", "receive"]
    path: str
    mode: int = 0o644
    force: bool = False


class StreamsHello(Struct, frozen=True, tag="streams_hello"):
    """First frame of an agent's second channel, which carries streams; `key` is the one it was welcomed with."""

    node: str
    key: str


class ServeClient(Struct, frozen=True, tag="serve_client"):
    """To the controller: a process of a job on this node wants to be served as the job's user."""

    stream: int
    number: JobNumber


class StageFile(Struct, frozen=True, tag="stage_file"):
    """To the controller: entry `index` of a running attempt's `stage_in` is wanted on this node, or of its `stage_out`
    comes from it, as a tar archive."""

    stream: int
    number: JobNumber
    attempt: int
    direction: Literal["in", "out"]
    index: int


FromStreams = StreamsHello | StreamData | StreamCredit | StreamEnd | ServeClient | StageFile
ToStreams = StreamData | StreamCredit | StreamEnd | ConnectStep | ConnectPort | ConnectFile


class Meter:
    """How much of one direction of a stream is granted and not yet used. Bytes."""

    def __init__(self) -> None:
        self.left = WINDOW

    def take(self, count: int) -> None:
        """Account for bytes under way; raises `Refused` where they were not granted."""
        self.left -= count
        if self.left < 0:
            raise Refused("protocol", f"a stream brought {-self.left} bytes more than it was granted")

    def grant(self, count: int) -> None:
        """More may be sent; raises `Refused` where that makes more than a window."""
        if not 0 < count <= WINDOW - self.left:
            raise Refused("protocol", f"a stream was granted {count} bytes beyond its window")
        self.left += count


class News(Protocol):
    """What one waits on until something happened (an `asyncio.Event`)."""

    def set(self) -> None:
        """Something happened."""

    def clear(self) -> None:
        """Nothing has, from now on."""

    async def wait(self) -> object:
        """Until something has."""


class End:
    """One end of a stream: `send` takes frames for the other end, `news` is set with all that changes.

    `read` and `write` wait; everything else is done at once.
    """

    def __init__(self, number: int, send: Callable[[StreamFrame], None], news: News) -> None:
        self.number = number
        self._send = send
        self._news = news
        self._out = Meter()
        self._granted = Meter()
        self._came: deque[bytes] = deque()
        self._owed = 0
        self.eof = False
        self.said_end = False
        self.refused: Refused | None = None

    def arrived(self, frame: StreamFrame) -> None:
        """A frame of the other end; one that keeps to no credit ends the stream."""
        try:
            match frame:
                case StreamData(data=data):
                    self._granted.take(len(data))
                    self._came.append(data)
                case StreamCredit(count=count):
                    self._out.grant(count)
                case StreamEnd():
                    self.eof = True
                    if frame.code:
                        self.refused = Refused(frame.code, frame.message, frame.hint)
        except Refused as wrong:
            self.close(wrong)
        self._news.set()

    async def change(self) -> None:
        """Wait until something arrived."""
        self._news.clear()
        await self._news.wait()

    async def read(self) -> bytes:
        """Some bytes; empty at the end. Raises the other end's `Refused`."""
        while (data := self.take()) is None:
            await self.change()
        return data

    async def write(self, data: bytes) -> None:
        """Send all, as the other end takes it. Raises its `Refused`."""
        view = memoryview(data)
        while view:
            view = view[self.put(view) :]
            if view:
                await self.change()

    def take(self) -> bytes | None:
        """What came, in order; None while nothing is there, empty at the end. Raises the other end's `Refused`."""
        if self._came:
            data = self._came.popleft()
            self._owed += len(data)
            if self._owed >= WINDOW // 4 or not self._came:
                self._granted.grant(self._owed)
                if not self.eof:
                    self._send(StreamCredit(self.number, self._owed))
                self._owed = 0
            return data
        if self.refused is not None:
            raise self.refused
        return b"" if self.eof else None

    def put(self, data: bytes | memoryview) -> int:
        """Send as much as is granted; returns how many bytes that is. Raises the other end's `Refused`."""
        if self.refused is not None:
            raise self.refused
        if self.said_end:
            raise Refused("unavailable", "the stream was ended by this side")
        count = min(len(data), self._out.left)
        for start in range(0, count, PIECE):
            self._send(StreamData(self.number, bytes(data[start : min(start + PIECE, count)])))
        self._out.left -= count
        return count

    def finish(self) -> None:
        """Say that no more comes from this side."""
        if not self.said_end:
            self.said_end = True
            self._send(StreamEnd(self.number))

    def close(self, why: Refused | None = None) -> None:
        """End it both ways."""
        if self.refused is None:
            self.refused = why or Refused("gone", "the stream was closed by this side")
            self._send(StreamEnd(self.number, self.refused.code, self.refused.message, self.refused.hint))
            self.said_end = True
            self._news.set()

    @property
    def over(self) -> bool:
        """True when no frame is awaited or allowed any more."""
        return self.refused is not None or (self.eof and self.said_end)

    def lost(self, why: Refused) -> None:
        """What carried the stream is gone."""
        self.eof = True
        self.refused = self.refused or why
        self._news.set()
