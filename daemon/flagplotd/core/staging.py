"""Files that come with a job and go after it: a job waits until those of `stage_in` are with the controller."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Acted, ActedOn
from flagplotd.core.people import targets
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import Staged


def staged(step: Stepper, stimulus: Staged) -> Acted:
    """All files of a job are here: it may start."""
    job = targets(step.state, stimulus.job)[0]
    if job.user != stimulus.who.user:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}")
    if job.status.state.ended:
        raise Refused("bad_request", f"job {job.display_id} is {job.status.state.lower()}")
    if job.status.staging and job.status.state is JobState.PENDING:
        step.change(job, "staged", staging=False)
        step.replan()
    return Acted((ActedOn(job.display_id, message="its files are with the controller"),))
