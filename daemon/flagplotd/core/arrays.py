"""Arrays: one record with counters, from which elements are split off when they start."""

from __future__ import annotations

from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import count_indices, first_indices, has_index, remove_index
from flagplot_wire.job import Job, Status
from flagplot_wire.job import State as JobState
from flagplotd.core.stepper import Stepper


def split_off(step: Stepper, array: Job, index: int | None) -> Job:
    """Make an element of an array a job of its own (that is about to run); returns it, pending."""
    if index is None or not has_index(array.status.waiting, index):
        index = first_indices(array.status.waiting, 1)[0]
    status = array.status
    element = Job(
        JobNumber(step.state.next_number),
        array.user,
        array.uid,
        msgspec.structs.replace(array.spec, array=None, dependency=None, hold=""),
        Status(
            submit_time=status.submit_time,
            eligible_time=status.eligible_time,
            priority=status.priority,
            site_factor=status.site_factor,
        ),
        array.gid,
        array.number,
        index,
    )
    step.emit(ev.JobAdded(element))
    settle(
        step,
        array,
        "split",
        waiting=remove_index(status.waiting, index),
        elements_running=status.elements_running + 1,
        start_time=status.start_time or step.now,
    )
    return element


def count(step: Stepper, job: Job, *, running: int = 0, ended: int = 0, failed: int = 0) -> None:
    """Bring the counters of the job's array (if it has one) up to date."""
    array = step.state.jobs.get(job.array_number) if job.array_index is not None else None
    if array is None:
        return
    status = array.status
    settle(
        step,
        array,
        "counted",
        elements_running=status.elements_running + running,
        elements_ended=status.elements_ended + ended,
        elements_failed=status.elements_failed + failed,
    )


def settle(step: Stepper, array: Job, cause: str, by: str = "", **changes: Any) -> None:
    """Change an array record and give it the state that follows from its elements."""
    status: Status = msgspec.structs.replace(array.status, **changes)
    state = _state(step, array, status)
    if state.ended and not array.status.state.ended:
        changes |= {"end_time": step.now, "ending": None, "exit_code": _worst(step, array)}
        step.replan()
    elif array.status.state.ended and not state.ended:
        array = step.change(array, "requeued", by, state=JobState.PENDING, end_time=0, exit_code=None)
    if msgspec.structs.replace(array.status, state=state, **changes) != array.status:
        step.change(array, cause, by, state=state, **changes)


def _state(step: Stepper, array: Job, status: Status) -> JobState:
    if status.waiting:
        return JobState.PENDING
    elements = step.state.elements.get(array.number, {})
    if status.elements_ended < len(elements):
        return JobState.RUNNING
    if array.status.state.ended:
        return array.status.state
    bad = {step.state.jobs[number].status.state for number in elements.values()} - {JobState.COMPLETED}
    assert array.spec.array is not None
    if len(elements) < count_indices(array.spec.array.indices) or status.ending is JobState.CANCELLED:
        bad.add(JobState.CANCELLED)
    if not bad:
        return JobState.COMPLETED
    only_cancelled = bad == {JobState.CANCELLED} or status.ending is JobState.CANCELLED
    return JobState.CANCELLED if only_cancelled else JobState.FAILED


def _worst(step: Stepper, array: Job) -> int:
    elements = step.state.elements.get(array.number, {}).values()
    return max((step.state.jobs[number].status.exit_code or 0 for number in elements), default=0)
