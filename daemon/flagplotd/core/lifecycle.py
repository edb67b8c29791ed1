"""An attempt's life: start, confirmations, ends, requeue; and the counters of its array."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import JobNumber
from flagplot_wire.indices import first_indices, has_index, remove_index
from flagplot_wire.job import Job, Status
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Drain
from flagplotd.core.apply import HOLDING
from flagplotd.core.orders import AckOn, LaunchOn, StopOn
from flagplotd.core.recheck import why_not
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import AttemptEnded, AttemptStarted, Planned, Start

_OUTCOME = {
    "timeout": JobState.TIMEOUT,
    "stopped": JobState.CANCELLED,
    "oom": JobState.OUT_OF_MEMORY,
    "lost": JobState.NODE_FAIL,
    "launch_failed": JobState.FAILED,
}
_BROKEN_NODE = re.compile(r"No space left|Read-only file system|ENOSPC|EROFS|Input/output error")
USER_FAULT = "user: "
"""A launch failure with this prefix is the submitter's mistake, not the node's."""


def planned(step: Stepper, plan: Planned) -> None:
    """Commit a plan: every start is checked against the state of now, and skipped where it no longer holds."""
    for planned_start in plan.starts:
        if not why_not(step.state, planned_start, step.now):
            start(step, planned_start)
    step.state.forecasts = {
        forecast.number: forecast for forecast in plan.forecasts if forecast.number in step.state.pending
    }


def start(step: Stepper, planned_start: Start) -> None:
    """Start a job or the next element of an array."""
    job = step.state.jobs[planned_start.number]
    if job.is_array:
        job = split_off(step, job, planned_start.index)
    job = step.change(
        job,
        "started",
        state=JobState.RUNNING,
        attempt=job.status.attempt + 1,
        start_time=step.now,
        end_time=0,
        exit_code=None,
        signal=0,
        ending=None,
        message="",
        allocation=planned_start.allocation,
        retry_at=0,
    )
    count_in_array(step, job, running=1)
    step.live(job)
    for index, name in enumerate(planned_start.allocation.names):
        step.order(LaunchOn(name, job.number, job.status.attempt, index))


def split_off(step: Stepper, array: Job, index: int | None) -> Job:
    """Make an element of an array a job of its own."""
    if index is None or not has_index(array.status.waiting, index):
        index = first_indices(array.status.waiting, 1)[0]
    number = JobNumber(step.state.next_number)
    element = Job(
        number,
        array.user,
        array.uid,
        msgspec.structs.replace(array.spec, array=None, dependency=None),
        Status(
            submit_time=array.status.submit_time,
            eligible_time=array.status.eligible_time,
            priority=array.status.priority,
        ),
        array.gid,
        array.number,
        index,
    )
    step.emit(ev.JobAdded(element))
    step.change(array, "split", waiting=remove_index(array.status.waiting, index))
    return step.state.jobs[number]


def count_in_array(step: Stepper, job: Job, *, running: int = 0, ended: int = 0, failed: int = 0) -> None:
    """Bring the counters of the job's array up to date and end the array with its last element."""
    array = step.state.jobs.get(job.array_number) if job.array_index is not None else None
    if array is None:
        return
    status = array.status
    step.change(
        array,
        "counted",
        elements_running=status.elements_running + running,
        elements_ended=status.elements_ended + ended,
        elements_failed=status.elements_failed + failed,
        start_time=status.start_time or (step.now if running > 0 else 0),
    )
    settle_array(step, array.number)


def settle_array(step: Stepper, number: JobNumber) -> None:
    """Give an array record the state that follows from its elements."""
    array = step.state.jobs[number]
    status = array.status
    if status.waiting:
        if status.state is not JobState.PENDING and not status.state.ended:
            step.change(array, "waiting", state=JobState.PENDING)
        return
    elements = step.state.elements.get(number, {})
    if status.elements_ended < len(elements):
        if status.state is JobState.PENDING:
            step.change(array, "running", state=JobState.RUNNING)
        elif status.state.ended:
            step.change(array, "requeued", state=JobState.PENDING, end_time=0)
            step.change(step.state.jobs[number], "running", state=JobState.RUNNING)
        return
    if status.state.ended:
        return
    states = {step.state.jobs[element].status.state for element in elements.values()}
    if status.ending is JobState.CANCELLED or (JobState.CANCELLED in states and len(states) == 1):
        final = JobState.CANCELLED
    else:
        final = JobState.FAILED if status.elements_failed else JobState.COMPLETED
    step.change(array, "ended", state=final, end_time=step.now, ending=None, exit_code=_worst(step, elements))
    step.replan()


def _worst(step: Stepper, elements: dict[int, JobNumber]) -> int:
    return max((step.state.jobs[element].status.exit_code or 0 for element in elements.values()), default=0)


def attempt_started(step: Stepper, stimulus: AttemptStarted) -> None:
    """A node confirmed its part."""
    job = step.state.jobs.get(stimulus.number)
    if job is not None and job.status.attempt == stimulus.attempt and job.status.state in HOLDING:
        step.live(job).started.add(stimulus.node)


def attempt_ended(step: Stepper, stimulus: AttemptEnded) -> None:
    """A node reports an end; it is always acknowledged, and counted once."""
    end = stimulus.end
    step.order(AckOn(stimulus.node, (Attempt(end.number, end.attempt),)))
    part_ended(step, stimulus.node, end)


def part_ended(step: Stepper, node: str, end: AttemptEnd) -> None:
    """Count the end of one node's part; the first node's (or, for tasks, every part's) decides the job's."""
    job = step.state.jobs.get(end.number)
    if job is None or job.status.attempt != end.attempt or job.status.state not in HOLDING:
        return
    names = job.status.allocation.names if job.status.allocation else []
    live = step.live(job)
    if node not in names or node in live.ended:
        return
    live.ended.add(node)
    if job.status.state is not JobState.COMPLETING:
        final = _decides(job, node == names[0], end, len(live.ended) == len(names))
        if final is None:
            return
        job = _begin_end(step, job, node, end, final)
        for name in names:
            if name not in live.ended:
                step.order(StopOn(name, job.number, job.status.attempt, step.state.settings.kill_wait_s))
    elif node == names[0] and job.status.exit_code is None and end.cause not in ("launch_failed", "lost"):
        job = step.change(job, "exited", exit_code=end.exit_code, signal=end.signal)
    if len(live.ended) == len(names):
        finish(step, job)


def _decides(job: Job, first: bool, end: AttemptEnd, all_ended: bool) -> JobState | None:
    outcome = _OUTCOME.get(end.cause) or (
        JobState.COMPLETED if end.exit_code == 0 and end.signal == 0 else JobState.FAILED
    )
    if job.spec.request.launch == "batch":
        if first or outcome is not JobState.COMPLETED:
            return outcome
        return None
    return outcome if outcome is not JobState.COMPLETED or all_ended else None


def _begin_end(step: Stepper, job: Job, node: str, end: AttemptEnd, final: JobState) -> Job:
    failed_to_launch = end.cause == "launch_failed"
    message = end.message
    changes: dict[str, Any] = {}
    if failed_to_launch and not message.startswith(USER_FAULT):
        failures = job.status.launch_failures + 1
        settings = step.state.settings
        final = JobState.PENDING
        message = f"could not start on {node}: {message}"
        changes = {
            "launch_failures": failures,
            "retry_at": step.now + settings.launch_retry_s * 2 ** min(failures - 1, 8),
        }
        if _BROKEN_NODE.search(message):
            drain_broken(step, node, message)
    elif failed_to_launch:
        message = message.removeprefix(USER_FAULT)
    elif final is JobState.NODE_FAIL:
        message = message or f"node {node} failed"
        if job.spec.requeue:
            final = JobState.PENDING
    return step.change(
        job,
        "ending",
        state=JobState.COMPLETING,
        ending=final,
        exit_code=None if failed_to_launch or end.cause == "lost" else end.exit_code,
        signal=end.signal,
        message=message,
        **changes,
    )


def drain_broken(step: Stepper, node_name: str, message: str) -> None:
    """A node that cannot store anything drains itself."""
    node = step.state.nodes.get(node_name)
    if node is not None and node.drain is None:
        drain = Drain(f"cannot start jobs: {message[:200]}", "flagplotd", step.now)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "drained", "flagplotd"))


def finish(step: Stepper, job: Job) -> None:
    """Every part of the attempt is known to have ended: the resources are free."""
    step.state.live.pop(job.number, None)
    final = job.status.ending or JobState.FAILED
    if final is JobState.PENDING:
        back_to_pending(step, job)
        return
    job = step.change(job, "ended", state=final, ending=None, end_time=step.now)
    count_in_array(step, job, running=-1, ended=1, failed=int(final is not JobState.COMPLETED))
    step.replan()


def back_to_pending(step: Stepper, job: Job) -> None:
    """Requeue: the same number, the next attempt. Too many launch failures hold the job."""
    was_ended, was_holding = job.status.state.ended, job.status.state in HOLDING
    failed = was_ended and job.status.state is not JobState.COMPLETED
    if job.status.launch_failures >= step.state.settings.max_launch_failures:
        spec = msgspec.structs.replace(job.spec, hold="admin")
        step.emit(ev.JobSpecChanged(job.number, spec, f"held after {job.status.launch_failures} failed starts"))
        job = step.state.jobs[job.number]
    job = step.change(
        job,
        "requeued",
        state=JobState.PENDING,
        ending=None,
        allocation=None,
        start_time=0,
        end_time=0,
        exit_code=None,
        signal=0,
        restarts=job.status.restarts + 1,
        eligible_time=step.now,
    )
    count_in_array(step, job, running=-int(was_holding), ended=-int(was_ended), failed=-int(failed))
    step.replan()
