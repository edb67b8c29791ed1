"""Who watches a step beside its client: the last output, then what comes. A watcher that is slow misses some.

What a watcher types goes between the client's messages, never into one.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque

from flagplot_agent.steps.streams import NodeStream
from flagplot_wire import step_messages

KEPT = 64 * 1024
"""Bytes of output that a watcher sees of what was before."""
BEHIND = 1024 * 1024
"""Bytes that may wait for a watcher."""


class Tap:
    """Stands between a step's parent and its client: shows watchers what passes, and lets them put in a word."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._out = step_messages.Reader()
        self._in = step_messages.Reader()
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._watchers: set[Watcher] = set()

    async def read(self, count: int) -> bytes:
        """As `StreamReader.read`."""
        data = await self._reader.read(count)
        for kind, content in self._out.feed(data):
            whole = step_messages.message(kind, content)
            if kind in (b"o", b"e"):
                self._kept.append(whole)
                self._size += len(whole)
                while self._size > KEPT and len(self._kept) > 1:
                    self._size -= len(self._kept.popleft())
            for one in self._watchers:
                one.offer(whole)
        if not data:
            for one in self._watchers:
                one.offer(b"")
        return data

    def write(self, data: bytes) -> None:
        """What the client says, passed on message by message; raises `Refused` on what is none."""
        for kind, content in self._in.feed(data):
            self._writer.write(step_messages.message(kind, content))

    async def drain(self) -> None:
        """Until the step's parent keeps up."""
        await self._writer.drain()

    def can_write_eof(self) -> bool:
        """As `StreamWriter.can_write_eof`."""
        return self._writer.can_write_eof()

    def write_eof(self) -> None:
        """The client says no more."""
        self._writer.write_eof()

    def close(self) -> None:
        """The step is done with."""
        self._writer.close()

    async def show(self, stream: NodeStream, stdin: bool) -> None:
        """Show it to a watcher until the step has ended, or the watcher is gone; its input counts with `stdin`."""
        watcher = Watcher()
        for whole in self._kept:
            watcher.offer(whole)
        self._watchers.add(watcher)
        hearing = asyncio.create_task(self._hear(stream, stdin))
        try:
            while not hearing.done():
                next_one = asyncio.create_task(watcher.queue.get())
                await asyncio.wait((next_one, hearing), return_when=asyncio.FIRST_COMPLETED)
                if not next_one.done():
                    next_one.cancel()
                    return
                whole = next_one.result()
                if not whole:
                    return
                await stream.write(whole)
                watcher.waiting -= len(whole)
        finally:
            self._watchers.discard(watcher)
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def _hear(self, stream: NodeStream, stdin: bool) -> None:
        """What a watcher says, until it is gone. Without `stdin` it is dropped."""
        reader = step_messages.Reader()
        while data := await stream.read():
            for kind, content in reader.feed(data):
                if stdin and _harmless(kind, content) and not self._writer.is_closing():
                    self._writer.write(step_messages.message(kind, content))
                    await self._writer.drain()


def _harmless(kind: bytes, content: bytes) -> bool:
    """Input, or a new size of the terminal: a watcher ends nothing, nor does what it says by mistake."""
    if kind != b"c":
        return kind == b"i"
    try:
        command = json.loads(content)
        return bool(command["do"] == "resize") and all(type(command[name]) is int for name in ("rows", "columns"))
    except (ValueError, KeyError, TypeError):
        return False


class Watcher:
    """One who watches."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.waiting = 0

    def offer(self, whole: bytes) -> None:
        """A message, or the end; output is dropped while too much waits."""
        if self.waiting > BEHIND and whole[:1] in (b"o", b"e"):
            return
        self.waiting += len(whole)
        self.queue.put_nowait(whole)
