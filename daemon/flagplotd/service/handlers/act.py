"""`Act`: cancel, hold, release, requeue."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import Act
from flagplotd.core.stimuli import ActOnJobs
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: Act) -> Acted | Submitted:
    """One verb on jobs."""
    return await asking.server.loop.reply(ActOnJobs(asking.who, request))
