"""`GetPriority`: the factors of pending jobs, as sprio shows them."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.replies import Priorities
from flagplot_wire.requests import GetPriority
from flagplot_wire.text import clean
from flagplotd.sched.priority import inputs, priorities, row
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_all
from flagplotd.service.sizes import pieces

PAGE = 10_000


async def handle(asking: Asking, request: GetPriority) -> Priorities:
    """As of this moment; ties by number. A job that is named and not pending is refused."""
    named = [await _pending(asking, text) for text in request.jobs]
    await asking.server.loop.settled()
    server, state = asking.server, asking.server.state
    numbers = {number for some in named for number in some} & state.pending if named else state.pending
    jobs = [job for job in (state.jobs[number] for number in sorted(numbers)) if not _spent(job)]
    policy, now = server.cycle.policy, server.loop.now()
    given = inputs(state, policy, server.cycle.fairshare)
    values = priorities(jobs, given, policy, now)
    order = sorted(range(len(jobs)), key=lambda place: -values[place])[max(request.skip, 0) :]
    rows = [row(jobs[place], given, policy, now) for place in order[:PAGE]]
    some = next(pieces(rows, PAGE), ())
    return Priorities(some, more=len(some) < len(order))


async def _pending(asking: Asking, text: str) -> set[JobNumber]:
    found = await find_all(asking, text)
    numbers = {job.number for job in found if job.number in asking.server.state.pending and not _spent(job)}
    if not numbers:
        raise Refused("not_pending", f"job {clean(text)} is {found[0].status.state}: only pending jobs have a priority")
    return numbers


def _spent(job: Job) -> bool:
    """An array whose elements have all become jobs of their own."""
    return job.is_array and not job.status.waiting
