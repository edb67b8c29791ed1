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
QUIET_S = 1.0
"""Without a word for so long the controller is asked whether it is there."""
SILENT_S = 1.5
"""Without an answer for so long the person is told; with QUIET_S and a tick of the screen that is less than 3 s."""
GONE_S = 15.0
"""Without an answer for so long the connection is given up and made anew."""
RETRY_S = 3.0
"""Without an answer for so long a second connection is tried beside a silent one: TCP, after a cut, waits about as long
again before it sends anew."""
TRY_S, LONGEST_TRY_S = 4.0, 15.0
"""How long an attempt to connect may take: each is given more than the one before, for lines that are slow and not cut."""
LOOK_S = 0.25
"""How often it is looked whether events are missing, or whether a silent controller speaks again."""


class Live:
    """`mirror` is what is known, `calls` acts; `run` keeps both going until cancelled."""

    def __init__(self, target: Target, telemetry: bool = True) -> None:
        self.target, self.telemetry = target, telemetry
        self.mirror = Mirror()
        self.calls = Calls(self)
        self._connection: Connection | None = None
        self._gap = False
        self._heard_at = 0.0
        self._try_s = TRY_S

    @property
    def connection(self) -> Connection | None:
        """The connection of the moment; None while there is none."""
        return None if self._connection is None or self._connection.closed.is_set() else self._connection

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        """Ask over the connection of the moment; refused while there is none."""
        if self._connection is None or self._connection.closed.is_set() or not self.mirror.connected:
            raise Refused("no_controller", self.mirror.problem or "not connected to the controller yet", START_HINT)
        reply = await self._connection.ask(request)
        self._heard()
        return reply

    async def run(self) -> None:
        """Connect, follow, reconnect."""
        pause, connection = FIRST_PAUSE_S, None
        while True:
            try:
                connection = await self._follow(connection or await self._open())
                pause = FIRST_PAUSE_S
                if connection is not None:
                    continue
            except Refused as refused:
                connection = None
                self._lost(f"{refused.message}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _open(self) -> Connection:
        allowed, self._try_s = self._try_s, min(2 * self._try_s, LONGEST_TRY_S)
        try:
            async with asyncio.timeout(allowed):
                connection = await Connection.open(self.target, self._push)
        except TimeoutError as late:
            raise Refused("no_controller", f"{self.target} does not answer") from late
        self._try_s = TRY_S
        return connection

    async def _follow(self, connection: Connection) -> Connection | None:
        """Until the connection is over; returns the one that took its place, if there is one already."""
        self._connection, fresh = connection, None
        try:
            self.mirror.welcome = connection.welcome
            self.mirror.connected, self.mirror.problem = True, ""
            self._heard()
            known = self.mirror.complete
            await self._subscribe(connection, self.mirror.seq if known else -1, self.mirror.epoch if known else 0)
            fresh = await self._watch(connection)
            return fresh
        finally:
            self._connection = None
            if fresh is None:
                self._lost(connection.problem or "the connection to the controller is lost")
            await connection.close()

    async def _subscribe(self, connection: Connection, after: int, epoch: int) -> None:
        self._gap = False
        await connection.tell(requests.Subscribe(after, epoch, self.telemetry))

    async def _watch(self, connection: Connection) -> Connection | None:
        while not connection.closed.is_set():
            try:
                # Until the moment that it has been quiet for long enough, not until the look after it.
                quiet = time.monotonic() - self._heard_at
                await asyncio.wait_for(connection.closed.wait(), min(LOOK_S, max(0.0, QUIET_S - quiet)))
            except TimeoutError:
                if self._gap:
                    await self._subscribe(connection, -1, 0)
                elif time.monotonic() - self._heard_at >= QUIET_S and (fresh := await self._alive(connection)):
                    return fresh
        return None

    async def _alive(self, connection: Connection) -> Connection | None:
        """Ask whether the controller is there; tell that it is silent, and give it up after GONE_S. Over a network a
        second connection is tried meanwhile: it is returned if it is there before the answer."""
        asked = time.monotonic()
        answer = asyncio.ensure_future(connection.ask(requests.GetStatus(agents=False)))
        second: asyncio.Task[Connection] | None = None
        try:
            while not answer.done():
                silent = time.monotonic() - max(asked, self._heard_at)
                if silent >= GONE_S:
                    raise Refused("no_controller", f"the controller has not answered for {GONE_S:.0f} s")
                if silent >= SILENT_S and self.mirror.connected:
                    self._lost("the controller does not answer")
                if second is not None and second.done():
                    done, second = second, None
                    if done.exception() is None:
                        return done.result()
                if second is None and silent >= RETRY_S and self.target.kind == "ssh":
                    second = asyncio.create_task(self._open())
                waiting = {answer} if second is None else {answer, second}
                await asyncio.wait(
                    waiting, timeout=SILENT_S - silent if silent < SILENT_S else LOOK_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )  # fmt: skip
            answer.result()
            self._heard()
            return None
        finally:
            answer.cancel()
            await self._drop(second)

    async def _drop(self, second: asyncio.Task[Connection] | None) -> None:
        """Of no use any more: the first one answered."""
        if second is None:
            return
        second.cancel()
        await asyncio.wait({second})
        if not second.cancelled() and second.exception() is None:
            await second.result().close()

    def _push(self, push: Any) -> None:
        self._heard()
        try:
            self.mirror.take(push)
        except Gap:
            self._gap = True

    def _heard(self) -> None:
        self.mirror.heard = int(time.time())
        self._heard_at = time.monotonic()
        if not self.mirror.connected and self.connection is not None:
            self.mirror.connected, self.mirror.problem = True, ""
            self.mirror.version += 1

    def _lost(self, problem: str) -> None:
        self.mirror.connected, self.mirror.problem = False, problem
        self.mirror.version += 1
