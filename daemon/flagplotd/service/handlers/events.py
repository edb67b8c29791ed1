"""`GetEvents`: the journal."""

from __future__ import annotations

from flagplot_wire.ids import parse_job_ref
from flagplot_wire.replies import Events
from flagplot_wire.requests import GetEvents
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_all
from flagplotd.store import queries

MAX_EVENTS = 5_000


async def handle(asking: Asking, request: GetEvents) -> Events:
    """The last events after `after`, of a job (with an array's elements) or a node where named."""
    limit = min(max(request.limit, 1), MAX_EVENTS)
    numbers: list[int] | None = None
    if request.job:
        found = await find_all(asking, request.job)
        numbers = [job.number for job in found] or [parse_job_ref(request.job).number]
    await asking.server.loop.settled()
    found_events = await asking.server.loop.store.read(
        lambda path: queries.events(path, request.after, limit, numbers, request.node)
    )
    return Events(tuple(found_events))
