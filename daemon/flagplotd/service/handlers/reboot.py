"""`RebootNodes`: nodes reboot when they hold no jobs any more."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import RebootNodes
from flagplotd.core.stimuli import Reboot
from flagplotd.service.cleaning import cleaned
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: RebootNodes) -> Acted | Submitted:
    """Mark nodes for a reboot."""
    return await asking.server.loop.reply(Reboot(asking.who, cleaned(request)))
