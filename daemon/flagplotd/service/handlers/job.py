"""`GetJob`: one job, or an array with its elements, whether or not they have ended."""

from __future__ import annotations

from flagplot_wire.replies import Jobs
from flagplot_wire.requests import GetJob
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_all


async def handle(asking: Asking, request: GetJob) -> Jobs:
    """Records with forecasts where there are some."""
    jobs = await find_all(asking, request.job)
    forecasts = asking.server.state.forecasts
    return Jobs(tuple(jobs), tuple(forecasts[job.number] for job in jobs if job.number in forecasts))
