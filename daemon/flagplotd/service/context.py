"""What every handler works with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from flagplotd.config import Config
from flagplotd.core.state import State, Who
from flagplotd.service.agents import Agents
from flagplotd.service.claims import Claims
from flagplotd.service.cycle import Cycle
from flagplotd.service.dispatch import Dispatch
from flagplotd.service.loop import Loop
from flagplotd.service.relay import ClientStreams
from flagplotd.service.spool import Spool


class Server(Struct):
    """The parts of a running controller."""

    folder: Path
    config: Config
    loop: Loop
    agents: Agents
    dispatch: Dispatch
    cycle: Cycle
    stopping: asyncio.Event
    claims: Claims
    spool: Spool
    started: int
    simulated: bool = False
    port: int = 0
    host_key: str = ""

    @property
    def state(self) -> State:
        """The state of this moment (it is another object after a failed commit: never keep it)."""
        return self.loop.state


class Asking(Struct, eq=False):
    """One request's surroundings: the controller, who asks, and the streams of that connection."""

    server: Server
    who: Who
    streams: ClientStreams
