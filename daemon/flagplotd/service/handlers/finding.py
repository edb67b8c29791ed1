"""Finding a job by what a person wrote, live or from the store."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.ids import parse_job_ref
from flagplot_wire.indices import has_index
from flagplot_wire.job import Job
from flagplot_wire.replies import Jobs
from flagplotd.service.context import Asking
from flagplotd.service.sizes import pieces
from flagplotd.store import queries


async def find_all(asking: Asking, text: str) -> list[Job]:
    """The job, or an array with all its elements, or the elements named (an element that still waits
    is its array); raises `Refused`."""
    ref = parse_job_ref(text)
    loop = asking.server.loop
    await loop.settled()
    state = loop.state
    job = state.jobs.get(ref.number)
    if job is not None and (not job.is_array or not job.status.state.ended):
        elements = [state.jobs[number] for number in state.elements.get(ref.number, {}).values()]
        found = [job, *sorted(elements, key=lambda one: one.number)]
    else:
        found = await loop.store.read(lambda path: queries.jobs(path, ref.number))
    if not found:
        raise Refused("not_found", f"there is no job {ref.number}")
    if ref.indices is None:
        return found
    if not found[0].is_array:
        raise Refused("not_found", f"job {ref.number} is no array")
    chosen = [job for job in found if job.array_index is not None and job.array_index in ref.indices]
    if not chosen and any(has_index(found[0].status.waiting, index) for index in ref.indices):
        return found[:1]
    if not chosen:
        raise Refused("not_found", f"array {ref.number} has no element {ref.indices[0]}")
    return chosen


async def find_one(asking: Asking, text: str) -> Job:
    """The one job meant; an array without an index is the array's record."""
    return (await find_all(asking, text))[0]


PAGE = 20_000


def page(asking: Asking, jobs: list[Job], after: int) -> Jobs:
    """The jobs behind number `after`, as many as one frame may hold, with their forecasts."""
    start = next((place for place, job in enumerate(jobs) if job.number > after), len(jobs)) if after else 0
    some = next(pieces(jobs[start:], PAGE), ())
    forecasts = asking.server.state.forecasts
    found = tuple(forecasts[job.number] for job in some if job.number in forecasts)
    return Jobs(some, found, more=start + len(some) < len(jobs))


def owner_or_operator(asking: Asking, job: Job) -> None:
    """Refuse people who may not see inside this job."""
    if job.user != asking.who.user and not asking.who.operator:
        raise Refused(
            "not_permitted", f"job {job.display_id} belongs to {job.user}: only they and operators may read this"
        )
