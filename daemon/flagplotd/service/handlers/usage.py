"""`GetUsage`: who used what, how well, and what is left."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import UsageReport
from flagplot_wire.requests import GetUsage
from flagplotd.core.quotas import quotas
from flagplotd.service.context import Asking
from flagplotd.service.sizes import pieces
from flagplotd.store import accounting

PAGE = 20_000
MAX_ENDED = 500


async def handle(asking: Asking, request: GetUsage) -> UsageReport:
    """Usage is added up in a reader's thread; what runs is what ran when it was asked."""
    user = request.user or asking.who.user
    if user != asking.who.user and not asking.who.operator:
        raise Refused(
            "not_permitted", "only operators may ask for the jobs and limits of others", f"you are {asking.who.user}"
        )
    loop = asking.server.loop
    now = loop.now()
    since, until = max(request.since, 0), min(request.until or now, now)
    if since >= until:
        raise Refused("usage", "the time asked for is empty: it begins at or after its end")
    await loop.settled()
    state = asking.server.state
    running = [state.jobs[number] for number in state.active]
    of_user = () if request.skip else tuple(quotas(state, user, now))
    rows = await loop.store.read(lambda path: accounting.used(path, since, until, running))
    rows = rows[max(request.skip, 0) :]
    some = next(pieces(rows, PAGE), ())
    more = len(some) < len(rows)
    if request.skip:
        return UsageReport(some, user, more=more)
    most = min(max(request.jobs, 0), MAX_ENDED)
    ended = await loop.store.read(lambda path: accounting.ended(path, user, most))
    return UsageReport(some, user, tuple(ended), of_user, more)
