"""`GetPartitions`."""

from __future__ import annotations

from flagplot_wire.replies import Partitions
from flagplot_wire.requests import GetPartitions
from flagplotd.service.context import Asking


async def handle(asking: Asking, _request: GetPartitions) -> Partitions:
    """Partitions in the order of the configuration."""
    await asking.server.loop.settled()
    return Partitions(tuple(asking.server.state.partitions.values()))
