"""Transfers of jobs: from the owner to the controller before the start, back after the end."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.replies import Acted, Opened, Stage
from flagplot_wire.requests import GetStage, OpenStage, StageDone
from flagplotd.core.stimuli import Staged
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_one, owner_or_operator
from flagplotd.service.spool import LocalEnd


async def open_stage(asking: Asking, request: OpenStage) -> Opened:
    """Connect the client's stream to the archive."""
    job = await _own(asking, request.job)
    known = job.spec.stage_in if request.direction == "in" else job.spec.stage_out
    if not 0 <= request.index < len(known):
        raise Refused("bad_request", f"job {job.display_id} has no such transfer")
    if request.direction == "in" and job.status.state.ended:
        raise Refused("bad_request", f"job {job.display_id} is {job.status.state.lower()}")
    if request.direction == "in" and not job.status.staging:
        raise Refused("bad_request", f"job {job.display_id} has all its files already")
    end = LocalEnd(asking.streams, request.stream)
    asking.server.spool.start(
        end.end_of, job.number, request.direction, request.index, request.direction == "out", end.forget
    )
    return Opened("")


async def stage(asking: Asking, request: GetStage) -> Stage:
    """What is here."""
    job = await find_one(asking, request.job)
    owner_or_operator(asking, job)
    spool = asking.server.spool
    return Stage(
        job,
        spool.have(job.number, "in", len(job.spec.stage_in)),
        spool.have(job.number, "out", len(job.spec.stage_out)),
    )


async def done(asking: Asking, request: StageDone) -> Acted:
    """All is here: the job may start."""
    job = await _own(asking, request.job)
    missing = len(job.spec.stage_in) - len(asking.server.spool.have(job.number, "in", len(job.spec.stage_in)))
    if missing and job.status.staging:
        raise Refused("bad_request", f"{missing} of the files of job {job.display_id} are not here")
    return await asking.server.loop.answer(Staged(asking.who, str(job.number)), Acted)


async def _own(asking: Asking, text: str) -> Job:
    job = await find_one(asking, text)
    if job.user != asking.who.user:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}")
    return job
