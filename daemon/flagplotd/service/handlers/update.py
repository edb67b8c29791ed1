"""`Update`: change jobs."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import Update
from flagplotd.core.stimuli import UpdateJobs
from flagplotd.service.cleaning import cleaned
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: Update) -> Acted | Submitted:
    """Change what is not None."""
    return await asking.server.loop.reply(UpdateJobs(asking.who, cleaned(request)))
