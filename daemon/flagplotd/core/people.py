"""What people do to jobs and nodes: cancel, hold, release, requeue, drain, resume, remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.indices import compress_indices, expand_indices
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Drain, Node
from flagplot_wire.replies import Acted, ActedOn
from flagplot_wire.text import clean
from flagplotd.core import arrays
from flagplotd.core import stimuli as st
from flagplotd.core.apply import holds
from flagplotd.core.gate import check_runs
from flagplotd.core.lifecycle import back_to_pending
from flagplotd.core.orders import SignalOn, StopOn
from flagplotd.core.state import State, Who
from flagplotd.core.stepper import Stepper


def targets(state: State, text: str) -> tuple[Job, list[JobNumber] | None, list[int]]:
    """What a person means by a job: the record, chosen elements (None: the whole), and waiting indices."""
    ref = parse_job_ref(text)
    job = state.jobs.get(ref.number)
    if job is None:
        raise Refused("not_found", f"there is no job {ref.number} in the queue", "flagplot queue --all lists them")
    if ref.indices is None:
        return job, None, []
    if not job.is_array:
        raise Refused("not_found", f"job {ref.number} is no array")
    split = state.elements.get(job.number, {})
    left = set(_waiting(job))
    missing = [index for index in ref.indices if index not in split and index not in left]
    if missing:
        raise Refused("not_found", f"array {ref.number} has no element {missing[0]} left")
    chosen = [split[index] for index in ref.indices if index in split]
    return job, chosen, [index for index in ref.indices if index not in split]


def _waiting(array: Job) -> list[int]:
    return expand_indices(array.status.waiting) if array.status.waiting else []


def may(who: Who, job: Job) -> None:
    """Only the owner and operators act on a job."""
    if job.user != who.user and not who.operator:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}")


def each(texts: Iterable[str], act: Callable[[str], str]) -> Acted:
    """Run an action on every target; one refusal does not stop the rest."""
    results = []
    for text in texts:
        try:
            results.append(ActedOn(text, message=act(text)))
        except Refused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            results.append(ActedOn(text, refused.code, refused.message + hint))
    return Acted(tuple(results))


def act_on_jobs(step: Stepper, stimulus: st.ActOnJobs) -> Acted:
    """cancel, hold, release, requeue."""
    request, who = stimulus.request, stimulus.who

    def one(text: str) -> str:
        job, chosen, waiting = targets(step.state, text)
        may(who, job)
        if request.verb == "cancel" and request.signal:
            return send_signal(step, job, chosen, request.signal)
        if request.verb == "cancel":
            return cancel(step, who, job, chosen, waiting)
        if request.verb == "requeue":
            return requeue(step, who, job, chosen)
        if waiting:
            raise Refused("bad_request", "elements that wait in an array are held with the whole array")
        return hold_all(step, who, job, chosen, request.verb == "hold")

    return each(request.jobs, one)


def cancel(step: Stepper, who: Who, job: Job, chosen: list[JobNumber] | None, waiting: list[int]) -> str:
    """Cancel a job, an array with all its elements, or some elements."""
    message = f"cancelled by {who.user}"
    if not job.is_array:
        return cancel_one(step, job, message, who.user)
    if chosen is None:
        if job.status.state.ended:
            raise Refused("already_ended", f"job {job.display_id} already ended as {job.status.state}")
        arrays.settle(step, job, "cancelled", who.user, waiting="", ending=JobState.CANCELLED, message=message)
        chosen = list(step.state.elements.get(job.number, {}).values())
    else:
        if not waiting and all(step.state.jobs[number].status.state.ended for number in chosen):
            raise Refused("already_ended", f"job {step.state.jobs[chosen[0]].display_id} already ended")
        left = compress_indices(set(_waiting(job)).difference(waiting))
        check_runs(left)
        arrays.settle(step, job, "cancelled", who.user, waiting=left)
    for number in chosen:
        if not step.state.jobs[number].status.state.ended:
            cancel_one(step, step.state.jobs[number], message, who.user)
    return message


def cancel_one(step: Stepper, job: Job, message: str, by: str) -> str:
    """Cancel one job that is no array record."""
    if job.status.state.ended:
        raise Refused("already_ended", f"job {job.display_id} already ended as {job.status.state}")
    if job.status.state is JobState.PENDING:
        job = step.change(job, "cancelled", by, state=JobState.CANCELLED, end_time=step.now, message=message)
        arrays.count(step, job, ended=1, failed=1)
        step.replan()
        return message
    stop(step, job, JobState.CANCELLED, message, by)
    return message


def stop(step: Stepper, job: Job, ending: JobState, message: str, by: str) -> None:
    """End a running attempt; what follows is `ending`."""
    cause = "cancelled" if ending is JobState.CANCELLED else "stopping"
    if job.status.state is JobState.COMPLETING:
        if job.status.ending is not ending and JobState.PENDING in (job.status.ending, ending):
            step.change(job, cause, by, ending=ending, message=message)
        return
    step.change(job, cause, by, state=JobState.COMPLETING, ending=ending, message=message)
    assert job.status.allocation is not None
    reason = f"CANCELLED BY {by}" if ending is JobState.CANCELLED else f"REQUEUED BY {by}"
    for name in job.status.allocation.names:
        if name not in step.live(job).ended:
            step.order(StopOn(name, job.number, job.status.attempt, step.state.settings.kill_wait_s, reason))


def send_signal(step: Stepper, job: Job, chosen: list[JobNumber] | None, signal: str) -> str:
    """Send one signal to running jobs."""
    name = signal.upper().removeprefix("SIG")
    if not (name.isascii() and name.isalnum()) or len(name) > 10:
        raise Refused("bad_request", f"{clean(signal)!r} is no signal", "write a name such as USR1")
    numbers = [job.number] if chosen is None else chosen
    if job.is_array and chosen is None:
        numbers = list(step.state.elements.get(job.number, {}).values())
    running = [
        step.state.jobs[number] for number in numbers if step.state.jobs[number].status.state is JobState.RUNNING
    ]
    if not running:
        raise Refused("not_running", f"job {job.display_id} is not running")
    for one in running:
        assert one.status.allocation is not None
        for node in one.status.allocation.names:
            step.order(SignalOn(node, one.number, one.status.attempt, name))
    return f"sent SIG{name}"


def hold_all(step: Stepper, who: Who, job: Job, chosen: list[JobNumber] | None, wanted: bool) -> str:
    """Hold or release a job, an array with its pending elements, or some elements."""
    numbers = [job.number] if chosen is None else chosen
    if job.is_array and chosen is None:
        elements = step.state.elements.get(job.number, {}).values()
        numbers = [number for number in (job.number, *elements) if number in step.state.pending] or [job.number]
    said = [hold(step, who, step.state.jobs[number], wanted) for number in numbers]
    return said[0]


def hold(step: Stepper, who: Who, job: Job, wanted: bool) -> str:
    """Hold or release a pending job; what an operator holds, only operators release."""
    if job.status.state is not JobState.PENDING:
        raise Refused("not_pending", f"job {job.display_id} is {job.status.state}: only pending jobs are held")
    if wanted:
        kind: Literal["user", "admin"] = "user" if job.user == who.user else "admin"
        if job.spec.hold not in (kind, "admin"):
            spec = msgspec.structs.replace(job.spec, hold=kind)
            step.emit(ev.JobSpecChanged(job.number, spec, "held", who.user))
            step.replan()
        return "held"
    if job.spec.hold == "admin" and not who.operator:
        raise Refused("not_permitted", f"job {job.display_id} was held by an operator, who must release it")
    if job.spec.hold:
        step.emit(ev.JobSpecChanged(job.number, msgspec.structs.replace(job.spec, hold=""), "released", who.user))
        step.change(step.state.jobs[job.number], "released", who.user, launch_failures=0, retry_at=0)
        step.replan()
    return "released"


def requeue(step: Stepper, who: Who, job: Job, chosen: list[JobNumber] | None) -> str:
    """Start again from the beginning: stop first when it runs."""
    if job.is_array and chosen is None:
        chosen = list(step.state.elements.get(job.number, {}).values())
    numbers = [job.number] if chosen is None else chosen
    done = 0
    for number in numbers:
        one = step.state.jobs[number]
        if holds(one):  # the last wish wins, also over a cancel that is under way
            stop(step, one, JobState.PENDING, f"requeued by {who.user}", who.user)
            done += 1
        elif one.status.state.ended and not one.is_array:
            back_to_pending(step, one, message=f"requeued by {who.user}", launch_failures=0, by=who.user)
            done += 1
    if not done:
        raise Refused("not_running", f"job {job.display_id} is pending already")
    return "requeued"


def need_operator(who: Who, what: str) -> None:
    """Refuse who may not act on nodes."""
    if not who.operator:
        raise Refused("not_permitted", f"only operators may {what} nodes; you are {who.user}")


def node_names(texts: Iterable[str]) -> list[str]:
    """The names of some host lists, each once."""
    return list(dict.fromkeys(name for text in texts for name in expand_hosts(text)))


def drain(step: Stepper, stimulus: st.Drain) -> Acted:
    """No new jobs on these nodes."""
    need_operator(stimulus.who, "drain")
    reason = clean(stimulus.request.reason).strip()
    if not reason:
        raise Refused("bad_request", "a drain needs a reason", "add --reason 'what is wrong'")

    def one(name: str) -> str:
        node = known_node(step, name)
        kept = Drain(reason, stimulus.who.user, step.now)
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=kept), "drained", stimulus.who.user))
        jobs = len(step.state.use[name].jobs) if name in step.state.use else 0
        return f"draining, {jobs} jobs go on" if jobs else "drained"

    acted = each(node_names(stimulus.request.nodes), one)
    step.replan()
    return acted


def resume(step: Stepper, stimulus: st.Resume) -> Acted:
    """Back in service."""
    need_operator(stimulus.who, "resume")

    def one(name: str) -> str:
        node = known_node(step, name)
        if node.drain is None:
            return "was not drained"
        if node.drain.reboot == "ordered" and node.responding:
            raise Refused("in_use", f"{name} is about to reboot", "if it does not, drain it anew, then resume it")
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, drain=None), "resumed", stimulus.who.user))
        return "resumed"

    acted = each(node_names(stimulus.request.nodes), one)
    step.replan()
    return acted


def remove(step: Stepper, stimulus: st.Remove) -> Acted:
    """Forget nodes that are gone."""
    need_operator(stimulus.who, "remove")

    def one(name: str) -> str:
        node = known_node(step, name)
        if node.responding or (name in step.state.use and step.state.use[name].jobs):
            raise Refused("in_use", f"{name} responds or holds jobs", "stop its agent and end its jobs first")
        step.emit(ev.NodeRemoved(name, stimulus.who.user))
        return "removed"

    return each(node_names(stimulus.request.nodes), one)


def known_node(step: Stepper, name: str) -> Node:
    """The node of a name; raises `Refused` where there is none."""
    node = step.state.nodes.get(name)
    if node is None:
        raise Refused("not_found", f"there is no node {clean(name)!r}", "flagplot nodes lists them")
    return node
