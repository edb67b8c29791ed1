"""Who watches a step beside its client: the last output, then what comes. A watcher that is slow misses some."""

from __future__ import annotations

import asyncio
from collections import deque

from flagplot_agent.steps.streams import NodeStream
from flagplot_wire import step_messages

KEPT = 64 * 1024
"""Bytes of output that a watcher sees of what was before."""
BEHIND = 1024 * 1024
"""Bytes that may wait for a watcher."""


class Tap:
    """Stands between a step's parent and its client, and shows watchers what passes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._cut = step_messages.Reader()
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._watchers: set[Watcher] = set()

    async def read(self, count: int) -> bytes:
        """As `StreamReader.read`."""
        data = await self._reader.read(count)
        for kind, content in self._cut.feed(data):
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

    async def show(self, stream: NodeStream) -> None:
        """Show it to a watcher until the step has ended, or the watcher is gone."""
        watcher = Watcher()
        for whole in self._kept:
            watcher.offer(whole)
        self._watchers.add(watcher)
        leaving = asyncio.create_task(stream.read())
        try:
            while not leaving.done():
                next_one = asyncio.create_task(watcher.queue.get())
                await asyncio.wait((next_one, leaving), return_when=asyncio.FIRST_COMPLETED)
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
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)


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
