"""The live connection of a cockpit: keeps a mirror, reconnects for ever, resumes by sequence number."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from flagplot.client.calls import Calls
from flagplot.client.connection import START_HINT, Connection
from flagplot.client.mirror import Gap, Mirror
from flagplot.client.target import Target
from flagplot_wire import replies, requests
from flagplot_wire.errors import Refused

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
QUIET_S = 3.0
"""Without a word for so long the controller is asked whether it is there."""


class Live:
    """`mirror` is what is known, `calls` acts; `run` keeps both going until cancelled."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.mirror = Mirror()
        self.calls = Calls(self)
        self._connection: Connection | None = None
        self._gap = False

    @property
    def connection(self) -> Connection | None:
        """The connection of the moment; None while there is none."""
        return None if self._connection is None or self._connection.closed.is_set() else self._connection

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        """Ask over the connection of the moment; refused while there is none."""
        if self._connection is None or self._connection.closed.is_set():
            raise Refused("no_controller", self.mirror.problem or "not connected to the controller yet", START_HINT)
        reply = await self._connection.ask(request)
        self._heard()
        return reply

    async def run(self) -> None:
        """Connect, follow, reconnect."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._follow()
                pause = FIRST_PAUSE_S
            except Refused as refused:
                self._lost(f"{refused.message}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _follow(self) -> None:
        connection = await Connection.open(self.target, self._push)
        self._connection = connection
        try:
            self.mirror.welcome = connection.welcome
            self.mirror.connected, self.mirror.problem = True, ""
            self._heard()
            known = self.mirror.complete
            await self._subscribe(connection, self.mirror.seq if known else -1, self.mirror.epoch if known else 0)
            await self._watch(connection)
        finally:
            self._connection = None
            self._lost(connection.problem or "the connection to the controller is lost")
            await connection.close()

    async def _subscribe(self, connection: Connection, after: int, epoch: int) -> None:
        self._gap = False
        await connection.tell(requests.Subscribe(after, epoch))

    async def _watch(self, connection: Connection) -> None:
        while not connection.closed.is_set():
            try:
                await asyncio.wait_for(connection.closed.wait(), 0.5)
            except TimeoutError:
                if self._gap:
                    await self._subscribe(connection, -1, 0)
                elif time.time() - self.mirror.heard > QUIET_S:
                    await asyncio.wait_for(self._alive(connection), QUIET_S)

    async def _alive(self, connection: Connection) -> None:
        await connection.ask(requests.GetStatus(agents=False))
        self._heard()

    def _push(self, push: Any) -> None:
        self._heard()
        try:
            self.mirror.take(push)
        except Gap:
            self._gap = True

    def _heard(self) -> None:
        self.mirror.heard = int(time.time())

    def _lost(self, problem: str) -> None:
        self.mirror.connected, self.mirror.problem = False, problem
        self.mirror.version += 1
