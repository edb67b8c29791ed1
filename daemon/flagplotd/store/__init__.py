"""The store: SQLite, one writing connection in one thread, short-lived readers beside it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from flagplotd.core.state import Settings, State
from flagplotd.store import queries
from flagplotd.store.lock import Lock, Reserve
from flagplotd.store.writer import Batch, Writer, damaged, is_full

__all__ = ["Batch", "Store", "damaged", "is_full"]

T = TypeVar("T")


class Store:
    """A data directory's store, opened by one process at a time. Raises `Refused` where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "flagplot.db"
        self._lock = Lock(folder)
        self.reserve = Reserve(folder)
        self._writing = ThreadPoolExecutor(1, "store-writer")
        self._reading = ThreadPoolExecutor(2, "store-reader")
        try:
            self.writer = self._writing.submit(Writer, self.path).result()
        except BaseException:
            self._lock.release()
            self._writing.shutdown()
            raise

    def load(self, settings: Settings) -> State:
        """The live state as of the last commit."""
        try:
            return queries.load(self.path, settings)
        except (sqlite3.DatabaseError, ValueError) as wrong:
            raise damaged(self.path, str(wrong)) from wrong

    async def commit(self, batch: Batch) -> None:
        """Make a batch durable; raises sqlite3.Error or OSError when it is not."""
        await self.write(lambda: self.writer.commit(batch))

    async def write(self, work: Callable[[], T]) -> T:
        """Run something on the writing connection's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)

    async def read(self, query: Callable[[Path], T]) -> T:
        """Run a function of `queries` beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, query, self.path)

    def noted(self, key: str) -> str:
        """A small value kept beside the state; empty when there is none."""
        return queries.meta(self.path, key)

    async def note(self, key: str, value: str) -> None:
        """Keep a small value beside the state."""
        await self.write(lambda: self.writer.note(key, value))

    def close(self) -> None:
        """Finish what was given to the writer, checkpoint, and let another controller start."""
        self._writing.submit(self.writer.close).result()
        self._writing.shutdown()
        self._reading.shutdown()
        self._lock.release()
