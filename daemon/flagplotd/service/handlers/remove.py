"""`RemoveNodes`: nodes gone for good."""

from __future__ import annotations

from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import RemoveNodes
from flagplotd.core.stimuli import Remove
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: RemoveNodes) -> Acted | Submitted:
    """Forget nodes."""
    reply = await asking.server.loop.reply(Remove(asking.who, request))
    for name in list(asking.server.loop.hub.samples):
        if name not in asking.server.state.nodes:
            del asking.server.loop.hub.samples[name]
    return reply
