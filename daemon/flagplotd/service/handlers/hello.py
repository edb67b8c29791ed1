"""`Hello`: the versions must agree."""

from __future__ import annotations

from flagplot_wire import PROTOCOL_VERSION, __version__
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Welcome
from flagplot_wire.requests import Hello
from flagplotd.service.context import Asking


async def handle(asking: Asking, request: Hello) -> Welcome:
    """Say who the controller takes the client for."""
    if request.protocol != PROTOCOL_VERSION:
        older = "client" if request.protocol < PROTOCOL_VERSION else "controller"
        raise Refused(
            "wrong_version",
            f"the client speaks protocol {request.protocol}, the controller {PROTOCOL_VERSION} ({__version__})",
            f"update the {older}",
        )
    server = asking.server
    return Welcome(
        cluster=server.state.settings.cluster,
        user=asking.who.user,
        roles=asking.who.roles,
        epoch=server.state.epoch,
        version=__version__,
        time=server.loop.now(),
        simulated=server.simulated,
    )
