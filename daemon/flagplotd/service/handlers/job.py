"""`GetJob`: one job, or an array with its elements, whether or not they have ended."""

from __future__ import annotations

import msgspec

from flagplot_wire.replies import Jobs
from flagplot_wire.requests import GetJob
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_all, page


async def handle(asking: Asking, request: GetJob) -> Jobs:
    """Records with forecasts where there are some, and what their nodes enforce."""
    found = page(asking, await find_all(asking, request.job), request.after)
    told = asking.server.agents.told
    return msgspec.structs.replace(found, confined=tuple(one for job in found.jobs for one in told.confined(job)))
