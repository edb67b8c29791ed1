"""An attempt's life: start, confirmations, ends, requeue."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Drain
from flagplotd.core import arrays, step_records, usage
from flagplotd.core.apply import HOLDING
from flagplotd.core.orders import AckOn, LaunchOn, StopOn
from flagplotd.core.recheck import why_not
from flagplotd.core.sharing import Sharing
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import AttemptEnded, AttemptNoted, AttemptStarted, Planned, Start

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


def planned(step: Stepper, plan: Planned) -> set[JobNumber]:
    """Commit a plan: every start is checked against the state of now, and skipped where it no longer holds. Returns the
    jobs and arrays that started."""
    started = set[JobNumber]()
    sharing = Sharing(step.state, step.now) if plan.starts else None
    for planned_start in plan.starts:
        job = step.state.jobs.get(planned_start.number)
        if why_not(step.state, planned_start, step.now, sharing):
            # What it would have taken is for others: the next plan knows what was in its way.
            step.replan()
            continue
        start(step, planned_start)
        started.add(planned_start.number)
        step.state.forecasts.pop(planned_start.number, None)
        if sharing is not None and job is not None:
            sharing.take(job)
    told = {forecast.number: forecast for forecast in plan.forecasts if forecast.number in step.state.pending}
    if plan.whole:
        step.state.forecasts = told
    else:
        step.state.forecasts.update(told)
    return started


def start(step: Stepper, planned_start: Start) -> None:
    """Start a job or the next element of an array."""
    job = step.state.jobs[planned_start.number]
    if job.is_array:
        job = arrays.split_off(step, job, planned_start.index)
    else:
        arrays.count(step, job, running=1)
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
        parts_ended=(),
        preempted_by=JobNumber(0),
        suspended_s=0,
        used=None,
    )
    step.live(job)
    for index, name in enumerate(planned_start.allocation.names):
        step.order(LaunchOn(name, job.number, job.status.attempt, index))


def attempt_started(step: Stepper, stimulus: AttemptStarted) -> None:
    """A node confirmed its part."""
    job = step.state.jobs.get(stimulus.number)
    if job is not None and job.status.attempt == stimulus.attempt and job.status.state in HOLDING:
        step.live(job).started.add(stimulus.node)


def attempt_noted(step: Stepper, stimulus: AttemptNoted) -> None:
    """A node warns the job's owner."""
    job = step.state.jobs.get(stimulus.number)
    if job is None or job.status.attempt != stimulus.attempt or job.status.state is not JobState.RUNNING:
        return
    if job.status.allocation is not None and stimulus.node in job.status.allocation.names:
        step.change(job, "warned", message=stimulus.message)


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
    if end.drain:
        drain_broken(step, node, end.drain)
    if node == names[0]:
        step_records.batch_ended(step, job, node, end, max(job.status.start_time, min(end.time or step.now, step.now)))
    all_ended = len(live.ended) == len(names)
    changes: dict[str, Any] = {
        "parts_ended": tuple(name for name in names if name in live.ended),
        "used": usage.used_by_part(job, node, end),
    }
    if job.status.state is not JobState.COMPLETING:
        final = _decides(job, node == names[0], end, all_ended)
        if final is not None:
            changes |= _verdict(step, job, node, end, final)
            for name in names:
                if name not in live.ended:
                    step.order(StopOn(name, job.number, job.status.attempt, step.state.settings.kill_wait_s))
    else:
        if node == names[0] and job.status.exit_code is None and end.cause not in ("launch_failed", "lost"):
            changes |= {"exit_code": end.exit_code, "signal": end.signal}
        told_elsewhere = job.spec.request.launch == "interactive" or end.oom_kills > 0
        if told_elsewhere and end.cause == "stopped" and not job.status.message:
            # Its client or its first node has said how it ended; this node tells why, such as a limit that was reached.
            changes["message"] = end.message
        if end.oom_kills and job.status.ending is JobState.FAILED:
            # It failed by what its steps were killed for, here or on another node.
            changes["ending"] = JobState.OUT_OF_MEMORY
    if all_ended:
        finish(step, job, end.time, **changes)
    elif "ending" in changes:
        step.change(job, "ending", state=JobState.COMPLETING, **changes)
    else:
        step.change(job, "part ended", **changes)


def _decides(job: Job, first: bool, end: AttemptEnd, all_ended: bool) -> JobState | None:
    outcome = _OUTCOME.get(end.cause) or (
        JobState.COMPLETED if end.exit_code == 0 and end.signal == 0 else JobState.FAILED
    )
    if job.spec.request.launch == "batch":
        if first or outcome is not JobState.COMPLETED:
            return outcome
        return None
    return outcome if outcome is not JobState.COMPLETED or all_ended else None


def _verdict(step: Stepper, job: Job, node: str, end: AttemptEnd, final: JobState) -> dict[str, Any]:
    """What a deciding end changes of the job, beside its state; `ending` is the state to come."""
    told = end.cause not in ("launch_failed", "lost")
    changes: dict[str, Any] = {
        "ending": final,
        "exit_code": end.exit_code if told else None,
        "signal": end.signal,
        "message": end.message,
        "launch_failures": 0,
    }
    if end.cause == "launch_failed" and end.message.startswith(USER_FAULT):
        changes["message"] = end.message.removeprefix(USER_FAULT)
    elif end.cause == "launch_failed":
        failures = job.status.launch_failures + 1
        message = f"could not start on {node}: {end.message}"
        changes |= {
            "ending": JobState.PENDING,
            "launch_failures": failures,
            "retry_at": step.now + step.state.settings.launch_retry_s * 2 ** min(failures - 1, 8),
            "message": message,
        }
        if _BROKEN_NODE.search(message):
            drain_broken(step, node, f"cannot start jobs: {message}")
    elif end.cause == "lost":
        changes["message"] = end.message or f"node {node} failed"
        if job.spec.requeue:
            changes["ending"] = JobState.PENDING
    return changes


def drain_broken(step: Stepper, node_name: str, reason: str) -> None:
    """A node that cannot store anything, or whose prolog or epilog fails, drains itself."""
    node = step.state.nodes.get(node_name)
    if node is not None and (node.drain is None or node.drain.health):
        drain = Drain(reason[:220], "flagplotd", step.now)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=drain), "drained", "flagplotd"))


def finish(step: Stepper, job: Job, end_time: int = 0, **changes: Any) -> None:
    """Every part of the attempt is known to have ended: the resources are free.

    `end_time` is the node's word (0: unknown), taken where it lies between the start and now.
    """
    step.state.live.pop(job.number, None)
    final: JobState = changes.pop("ending", None) or job.status.ending or JobState.FAILED
    ended = max(job.status.start_time, min(end_time or step.now, step.now))
    usage.charge_end(step, job, ended)
    lost = final is JobState.NODE_FAIL or (final is JobState.PENDING and not job.status.exit_code)
    step_records.close(step, job, "NODE_FAIL" if lost else "CANCELLED", ended)
    if final is JobState.PENDING:
        back_to_pending(step, job, ended, **changes)
        return
    changes |= {
        "state": final,
        "ending": None,
        "end_time": ended,
        "parts_ended": (),
        "stop_by": 0,
        "suspended_at": 0,
    }
    job = step.change(job, "ended", **changes)
    arrays.count(step, job, running=-1, ended=1, failed=int(final is not JobState.COMPLETED))
    step.replan()


def back_to_pending(step: Stepper, job: Job, ended: int = 0, **changes: Any) -> None:
    """Requeue: the same number, the next attempt. Too many launch failures in a row hold the job.

    `ended` is when an attempt that has no end yet ended (0: now); what it held is kept for the records of usage.
    """
    was_ended, was_holding = job.status.state.ended, job.status.state in HOLDING
    failed = was_ended and job.status.state is not JobState.COMPLETED
    failures = changes.get("launch_failures", job.status.launch_failures)
    if failures >= step.state.settings.max_launch_failures:
        spec = msgspec.structs.replace(job.spec, hold="admin")
        step.emit(ev.JobSpecChanged(job.number, spec, f"held after {failures} failed starts"))
        job = step.state.jobs[job.number]
    changes |= {
        "state": JobState.PENDING,
        "ending": None,
        "allocation": None,
        "start_time": 0,
        "end_time": 0,
        "exit_code": None,
        "signal": 0,
        "restarts": job.status.restarts + 1,
        "eligible_time": step.now,
        "parts_ended": (),
        "stop_by": 0,
        "suspended_at": 0,
        "used": None,
        **usage.held_before(job, ended or step.now),
    }
    by = changes.pop("by", "")
    job = step.change(job, "requeued", by, **changes)
    arrays.count(step, job, running=-int(was_holding), ended=-int(was_ended), failed=-int(failed))
    step.replan()
