"""`Explain`: all reasons why a job is pending."""

from __future__ import annotations

import msgspec

from flagplot_wire.job import Forecast, Job
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Explained
from flagplot_wire.requests import Explain
from flagplotd.service.context import Asking
from flagplotd.service.handlers.estimate import COMPILING
from flagplotd.service.handlers.finding import find_one


async def handle(asking: Asking, request: Explain) -> Explained:
    """A fresh forecast, made for this question."""
    server = asking.server
    await server.cycle.loaded.wait()
    job = await find_one(asking, request.job)
    if job.status.state is not JobState.PENDING:
        return Explained(job, None, _not_pending(job))
    from flagplotd.sched.explain import in_words

    found = await _forecast(asking, job)
    return Explained(job, found, in_words(found, server.loop.now()))


async def _forecast(asking: Asking, job: Job) -> Forecast:
    from flagplotd.sched import explain
    from flagplotd.sched.eligible import why_waiting

    server = asking.server
    state, now, policy = server.state, server.loop.now(), server.cycle.policy
    never = explain.never_fits(state, job.spec)
    idle = why_waiting(state, job, now)
    if idle:
        known = state.forecasts.get(job.number)
        return Forecast(job.number, tuple(idle), known.start if known else None, never=never)
    if not server.cycle.compiled.is_set():
        return Forecast(job.number, (COMPILING,), never=never)
    found = await server.cycle.ask(lambda snapshot: explain.forecast_of(snapshot, policy, job.number))
    return msgspec.structs.replace(found, never=never) if never else found


def _not_pending(job: Job) -> str:
    status = job.status
    where = ", ".join(status.allocation.names) if status.allocation else ""
    if status.state.ended:
        return f"Job {job.display_id} ended: {status.state}." + (f" {status.message}." if status.message else "")
    return f"Job {job.display_id} is {status.state}" + (f" on {where}." if where else ".")
