"""`GetScript`: a job's script, for its owner and operators."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Script
from flagplot_wire.requests import GetScript
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_one, owner_or_operator


async def handle(asking: Asking, request: GetScript) -> Script:
    """The script as submitted."""
    job = await find_one(asking, request.job)
    owner_or_operator(asking, job)
    payload = await asking.server.dispatch.payloads.get(job.array_number or job.number)
    if payload is None:
        raise Refused("not_found", f"the script of job {job.display_id} is not in the store")
    return Script(job.number, payload.script, payload.args)
