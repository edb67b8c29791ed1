"""What an action will do to a job, in words for the question that comes before it. Pure."""

from __future__ import annotations

from flagplot.view.queue import job_target
from flagplot_wire.job import Job, State
from flagplot_wire.text import clean


def effect(verb: str, job: Job) -> str:
    """What `cancel`, `hold`, `release` or `requeue` does to a job in the state it is in."""
    state = job.status.state
    if state.ended and verb != "requeue":
        return "has ended: nothing happens"
    match verb:
        case "hold" if state is not State.PENDING:
            return "has started: cannot be held"
        case "hold":
            return "is held already" if job.spec.hold else "will wait until it is released"
        case "release":
            return "may start" if job.spec.hold else "is not held: nothing happens"
        case "requeue":
            return "waits already: nothing happens" if state is State.PENDING else "stops and waits to start anew"
    return "never starts" if state is State.PENDING else "stops"


def line(verb: str, job: Job) -> str:
    """A job as a question lists it: id, name, owner, state, what will happen."""
    name, user = clean(job.spec.name), clean(job.user)
    return f"{job_target(job)}  {name}  {user}  {job.status.state}  → {effect(verb, job)}"
