"""`ResumeNodes`: nodes back to jobs."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import ResumeNodes
from flagplotd.core.stimuli import Resume
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: ResumeNodes) -> Acted | Submitted:
    """Put nodes back into service."""
    return await asking.server.loop.reply(Resume(asking.who, request))
