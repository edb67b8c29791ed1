"""`GetQueue`: jobs, filtered as squeue does."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.ids import parse_job_ref
from flagplot_wire.job import SHORT, Job, State
from flagplot_wire.replies import Jobs
from flagplot_wire.requests import GetQueue
from flagplot_wire.text import clean
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import page

_WORDS = {word: state for state, short in SHORT.items() for word in (state.value, short)}


async def handle(asking: Asking, request: GetQueue) -> Jobs:
    """Live jobs by number; those that ended lately too with `ended` or where a filter names their state."""
    wanted = _states(request.states)
    refs = [parse_job_ref(text) for text in request.jobs]
    nodes = {name for text in request.nodes for name in expand_hosts(text)}
    await asking.server.loop.settled()
    state = asking.server.state

    def takes(job: Job) -> bool:
        now = job.status.state
        if wanted:
            if now not in wanted:
                return False
        elif now.ended and not request.ended:
            return False
        if request.users and job.user not in request.users:
            return False
        if request.partitions and job.spec.partition not in request.partitions:
            return False
        if nodes and not nodes.intersection(job.status.allocation.names if job.status.allocation else ()):
            return False
        if job.is_array and not job.status.waiting and state.elements.get(job.number):
            return False
        return not refs or any(
            job.number == ref.number
            if ref.indices is None and job.array_index is None
            else job.array_number == ref.number and (ref.indices is None or job.array_index in ref.indices)
            for ref in refs
        )

    candidates = sorted(state.jobs) if request.ended or wanted & _ENDED else sorted(state.pending | state.active)
    jobs = [state.jobs[number] for number in candidates if number > request.after and takes(state.jobs[number])]
    return page(asking, jobs, request.after)


_ENDED = frozenset(state for state in State if state.ended)


def _states(words: tuple[str, ...]) -> frozenset[State]:
    found: set[State] = set()
    for word in words:
        if word.upper() == "ALL":
            return frozenset(State)
        state = _WORDS.get(word.upper())
        if state is None:
            raise Refused("usage", f"{clean(word)!r} is no job state", f"there are: {', '.join(State)} and all")
        found.add(state)
    return frozenset(found)
