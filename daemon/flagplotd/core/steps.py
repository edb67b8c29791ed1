"""Steps of running jobs: their layout over the nodes, their records, and the end of interactive jobs."""

from __future__ import annotations

import shlex

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation, NodeAlloc
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Acted, ActedOn, StepStarted
from flagplot_wire.steps import Step, StepPart, StepSpec
from flagplot_wire.text import clean
from flagplotd.core.orders import AckStepOn, StopOn, StopStepOn
from flagplotd.core.people import may, targets
from flagplotd.core.step_records import MAX_COMMAND, Final
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import BeginStep, EndInteractive, EndStep, StepPartEnded

MAX_TASKS = 65_536


def layout(allocation: Allocation, spec: StepSpec) -> tuple[StepPart, ...]:
    """How a step's tasks lie on the job's nodes, in blocks as `srun` does; raises `Refused`.

    Without counts it has the job's own layout. `-N` takes the first nodes; more tasks than the job has spread
    evenly, the first nodes taking one more.
    """
    chosen = _chosen_nodes(allocation, spec)
    if spec.nodes and spec.nodes > len(chosen):
        raise Refused("bad_request", f"the step wants {spec.nodes} nodes, the job has {len(chosen)} of them for it")
    if spec.nodes:
        chosen = chosen[: spec.nodes]
    if spec.tasks and not spec.nodes and not spec.nodelist and spec.tasks < len(chosen):
        chosen = chosen[: spec.tasks]
    if spec.tasks and spec.tasks < len(chosen):
        raise Refused("bad_request", f"{spec.tasks} tasks cannot run on {len(chosen)} nodes", "give a higher -n")
    counts = _counts(chosen, spec)
    if sum(counts) > MAX_TASKS:
        raise Refused("bad_request", f"a step has at most {MAX_TASKS} tasks")
    parts, first = [], 0
    for one, count in zip(chosen, counts, strict=True):
        if count:
            parts.append(StepPart(one.node, count, first))
        first += count
    return tuple(parts)


def _chosen_nodes(allocation: Allocation, spec: StepSpec) -> list[NodeAlloc]:
    names = allocation.names
    for name in spec.nodelist:
        if name not in names:
            raise Refused("bad_request", f"node {clean(name)} is not one of the job's: {', '.join(names[:8])}")
    chosen = [
        one
        for one in allocation.nodes
        if (not spec.nodelist or one.node in spec.nodelist) and one.node not in spec.exclude
    ]
    if not chosen:
        raise Refused("bad_request", "no node of the job is left for the step")
    return chosen


def _counts(chosen: list[NodeAlloc], spec: StepSpec) -> list[int]:
    if spec.pty and not spec.tasks and not spec.tasks_per_node:
        return [1] + [0] * (len(chosen) - 1)
    if spec.tasks_per_node and not spec.tasks:
        return [spec.tasks_per_node] * len(chosen)
    if not spec.tasks:
        return [max(one.tasks, 1) for one in chosen]
    if spec.tasks_per_node and spec.tasks > spec.tasks_per_node * len(chosen):
        raise Refused(
            "bad_request", f"{spec.tasks} tasks, {spec.tasks_per_node} a node, need more than {len(chosen)} nodes"
        )
    rooms = [one.tasks for one in chosen]
    if not spec.tasks_per_node and spec.tasks == sum(rooms):
        return rooms
    share, more = divmod(spec.tasks, len(chosen))
    return [share + (place < more) for place in range(len(chosen))]


def begin(step: Stepper, stimulus: BeginStep) -> StepStarted:
    """Lay a step out and give it a number; raises `Refused`."""
    job = running(step, stimulus.job)
    if job.user != stimulus.who.user:
        may(stimulus.who, job)
        if not stimulus.as_owner:
            raise Refused(
                "not_permitted", f"job {job.display_id} belongs to {job.user}",
                f"--as-owner starts it as {job.user}; that is written down",
            )  # fmt: skip
    assert job.status.allocation is not None
    spec = stimulus.spec
    parts = layout(job.status.allocation, spec)
    if spec.pty and sum(part.tasks for part in parts) != 1:
        raise Refused("bad_request", "a terminal belongs to one task", "use -n 1 with --pty")
    by = "" if job.user == stimulus.who.user else f"started by {stimulus.who.user}"
    record = Step(
        job.number,
        job.status.attempt,
        step.state.next_step.get(job.number, 0),
        clean(spec.name)[:256] or "step",
        job.user,
        parts=parts,
        command=clean(shlex.join(spec.argv))[:MAX_COMMAND],
        start_time=step.now,
        message=by,
        pty=spec.pty,
    )
    step.emit(ev.StepChanged(record))
    return StepStarted(record)


def running(step: Stepper, text: str) -> Job:
    """The one running job that a person means."""
    job, chosen, _ = targets(step.state, text)
    if chosen is not None and len(chosen) == 1:
        job = step.state.jobs[chosen[0]]
    if job.is_array:
        raise Refused("bad_request", f"job {job.number} is an array: name one running element, such as {job.number}_1")
    if job.status.state is not JobState.RUNNING or job.status.allocation is None:
        word = job.status.state.lower()
        raise Refused("not_running", f"job {job.display_id} is {word}, not running", "a step needs its allocation")
    return job


def part_of_step_ended(step: Stepper, stimulus: StepPartEnded) -> None:
    """A node reports the end of its part of a step; it is always acknowledged, and counted once."""
    end = stimulus.end
    step.order(AckStepOn(stimulus.node, ((end.number, end.attempt, end.step),)))
    record = step.state.steps.get(end.number, {}).get(end.step)
    if record is None or record.attempt != end.attempt or stimulus.node in record.ended:
        return
    names = [part.node for part in record.parts]
    if stimulus.node not in names:
        return
    ended = (*record.ended, stimulus.node)
    worst = end if end.exit_code > record.exit_code else record
    message = record.message or clean(end.message)
    changes: dict[str, object] = {
        "ended": tuple(name for name in names if name in ended),
        "exit_code": worst.exit_code,
        "signal": worst.signal,
        "cpu_ms": record.cpu_ms + end.cpu_ms,
        "memory_peak_mib": max(record.memory_peak_mib, end.memory_peak_mib),
        "message": message,
    }
    if len(ended) == len(names):
        final: Final = "COMPLETED" if not worst.exit_code and end.cause == "exited" else "FAILED"
        job = step.state.jobs.get(end.number)
        with_its_job = worst.signal and job is not None and job.status.state is not JobState.RUNNING
        if end.cause == "cancelled" or with_its_job:
            final = "CANCELLED"
        changes |= {"state": final, "end_time": max(record.start_time, min(end.time or step.now, step.now))}
    step.emit(ev.StepChanged(msgspec.structs.replace(record, **changes)))


def end_step(step: Stepper, stimulus: EndStep) -> Acted:
    """A person ends a step."""
    job = running(step, stimulus.job)
    may(stimulus.who, job)
    record = step.state.steps.get(job.number, {}).get(stimulus.step)
    name = f"{job.display_id}.{stimulus.step}"
    if record is None:
        raise Refused("not_found", f"there is no running step {name}")
    for part in record.parts:
        if part.node not in record.ended:
            wait = step.state.settings.kill_wait_s
            step.order(StopStepOn(part.node, job.number, record.attempt, record.step, wait))
    return Acted((ActedOn(name, message="cancelled"),))


def end_interactive(step: Stepper, stimulus: EndInteractive) -> Acted:
    """The client of an interactive job is done with it, or gone."""
    job = targets(step.state, stimulus.job)[0]
    if stimulus.who is not None:
        may(stimulus.who, job)
    if job.spec.request.launch != "interactive":
        raise Refused("bad_request", f"job {job.display_id} is no interactive job: use cancel")
    name = job.display_id
    if job.status.state is JobState.PENDING:
        step.change(job, "cancelled", state=JobState.CANCELLED, end_time=step.now, message=stimulus.why)
        step.replan()
    elif job.status.state is JobState.RUNNING:
        assert job.status.allocation is not None
        ending = JobState.CANCELLED if stimulus.why else JobState.FAILED if stimulus.exit_code else JobState.COMPLETED
        step.change(
            job, "ending", state=JobState.COMPLETING, ending=ending, exit_code=stimulus.exit_code, message=stimulus.why
        )
        for node in job.status.allocation.names:
            step.order(StopOn(node, job.number, job.status.attempt, step.state.settings.kill_wait_s))
    return Acted((ActedOn(name, message="ended"),))
