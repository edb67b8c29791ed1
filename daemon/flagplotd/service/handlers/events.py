"""`GetEvents`: the journal."""

from __future__ import annotations

from flagplot_wire.replies import Events
from flagplot_wire.requests import GetEvents
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_one
from flagplotd.service.sizes import pieces
from flagplotd.store import queries

MAX_EVENTS = 5_000


async def handle(asking: Asking, request: GetEvents) -> Events:
    """The last events after `after`, of a job (with an array's elements) or a node where named."""
    limit = min(max(request.limit, 1), MAX_EVENTS)
    number = (await find_one(asking, request.job)).number if request.job else 0
    await asking.server.loop.settled()
    found_events = await asking.server.loop.store.read(
        lambda path: queries.events(path, request.after, limit, number, request.node)
    )
    found_events.reverse()
    latest = next(pieces(found_events, MAX_EVENTS), ())
    return Events(latest[::-1])
