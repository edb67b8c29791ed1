"""The agent's line to its keeper: finds it, starts it where there is none, and again when it is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

log = logging.getLogger("flagplot-agent")
KEEPER_START_S = 20.0
RETRY_S = 1.0
LEAVE_S = 2.0
"""For a keeper that is just being started to be told that we leave; a forgotten one ends by itself."""


class KeeperLine:
    """`heard` is awaited with each event of the keeper; `hello` is the first one of a connection."""

    def __init__(self, folder: Path, heard: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self._folder = folder
        self._heard = heard
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: list[bytes] = []
        self._leaving = False

    async def run(self) -> None:
        """Stay connected until cancelled or told to leave."""
        while not self._leaving:
            try:
                reader, self._writer = await self._reach()
                self._unsent.clear()
                self.order(do="hello")
                while line := await reader.readline():
                    await self._heard(json.loads(line))
            except (OSError, ValueError) as wrong:
                log.error("no line to the keeper: %s", wrong)
                await asyncio.sleep(RETRY_S)
            finally:
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
            if not self._leaving:
                log.error("the keeper is gone; looking for another")

    def order(self, **command: Any) -> None:
        """Tell the keeper, together with what else it is told in this turn of the loop. While it is away nothing is
        sent: `hello` is the moment to catch up."""
        if self._writer is not None:
            if not self._unsent:
                asyncio.get_running_loop().call_soon(self._flush)
            self._unsent.append(json.dumps(command).encode() + b"\n")

    def _flush(self) -> None:
        if self._writer is not None and self._unsent:
            self._writer.write(b"".join(self._unsent))
        self._unsent.clear()

    async def leave(self) -> None:
        """We end: the keeper ends too when nothing runs any more."""
        deadline = time.monotonic() + LEAVE_S
        while self._writer is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._leaving = True
        self.order(do="leave")
        self._flush()
        if self._writer is not None:
            try:
                await self._writer.drain()
            except ConnectionError as wrong:
                log.info("the keeper is gone already: %s", wrong)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        path = self._folder / "keeper.sock"
        deadline = time.monotonic() + KEEPER_START_S
        keeper: subprocess.Popen[bytes] | None = None
        while True:
            try:
                return await asyncio.open_unix_connection(str(path), limit=1 << 24)
            except (FileNotFoundError, ConnectionRefusedError):
                if keeper is None or keeper.poll() is not None:
                    # One that ended at once found another at work, which may not listen yet.
                    keeper = start_keeper(self._folder)
                elif time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)


def start_keeper(folder: Path) -> subprocess.Popen[bytes]:
    """Start a keeper in a session of its own; it outlives us."""
    with open(folder / "keeper.log", "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flagplot_agent.launch.keeper", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
