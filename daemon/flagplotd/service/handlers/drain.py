"""`DrainNodes`: no new jobs on these nodes."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import DrainNodes
from flagplotd.core.stimuli import Drain
from flagplotd.service.cleaning import cleaned
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: DrainNodes) -> Acted | Submitted:
    """Take nodes out of service."""
    return await asking.server.loop.reply(Drain(asking.who, cleaned(request)))
