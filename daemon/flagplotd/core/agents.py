"""Nodes come, go, report and are given up."""

from __future__ import annotations

from heapq import heappop

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Job
from flagplot_wire.job import State as JobState
from flagplot_wire.node import Node
from flagplotd.core import configured, reboots, reservations, suspending, usage
from flagplotd.core.lifecycle import attempt_ended, part_ended
from flagplotd.core.orders import LaunchOn, StopOn
from flagplotd.core.stepper import Stepper
from flagplotd.core.stimuli import AgentJoined, AgentLost, AttemptEnded, Boot, InventoryChanged, Reported

UNCONFIRMED_S = 30
"""A part that a node's heartbeats lack for so long was never started there, or is gone."""
SWEEP_S = 10
"""Ended jobs are looked through for old ones at most so often."""
REPLAN_S = 30
"""With jobs pending, a scheduling cycle is wanted at least so often: forecasts age."""


def boot(step: Stepper, stimulus: Boot) -> None:
    """The controller starts: a new epoch, the configuration, and no agent connected yet.

    Leases of nodes with jobs start anew, for no agent could reach the controller while it was down. Configured
    records replace those of the same name; raises `Refused`, with nothing done, where they fit nothing.
    """
    records = configured.wanted(step.state, stimulus, step.now)
    step.emit(ev.ControllerStarted(stimulus.epoch, stimulus.version))
    for partition in stimulus.partitions:
        if step.state.partitions.get(partition.name) != partition:
            step.emit(ev.PartitionChanged(partition))
    names = {partition.name for partition in stimulus.partitions}
    for partition in list(step.state.partitions.values()):
        left_out = names and partition.name not in names and not partition.added_by
        if left_out and (partition.up or partition.default):
            closed = msgspec.structs.replace(partition, up=False, default=False, comment="no longer configured")
            step.emit(ev.PartitionChanged(closed))
    for record in records:
        step.emit(ev.PolicyChanged(record, "configured"))
    weights = dict(step.state.settings.node_weights)
    for name in stimulus.nodes:
        if name not in step.state.nodes:
            step.emit(ev.NodeChanged(Node(name, since=step.now, weight=weights.get(name, 1)), "configured"))
    for node in list(step.state.nodes.values()):
        if node.weight != weights.get(node.name, 1):
            step.emit(ev.NodeChanged(msgspec.structs.replace(node, weight=weights.get(node.name, 1)), "configured"))
    for node in list(step.state.nodes.values()):
        if node.responding or _jobs_on(step, node.name):
            changed = msgspec.structs.replace(node, responding=False, since=step.now)
            step.emit(ev.NodeChanged(changed, "lost"))
    step.state.live.clear()


def joined(step: Stepper, stimulus: AgentJoined) -> None:
    """An agent connected: take its hardware and bring both sides' view of the attempts together."""
    old = step.state.nodes.get(stimulus.node)
    if old is None:
        old = Node(stimulus.node, weight=dict(step.state.settings.node_weights).get(stimulus.node, 1))
    rebooted = old.inventory is not None and old.inventory.boot_id != stimulus.inventory.boot_id
    node = msgspec.structs.replace(
        old,
        inventory=stimulus.inventory,
        responding=True,
        since=step.now,
        agent_version=stimulus.version,
        down_reason="",
    )
    done = reboots.back(node) if rebooted else node
    cause = "rebooted" if done is not node else "back" if old.inventory else "registered"
    step.emit(ev.NodeChanged(done, cause))
    for end in stimulus.ended:
        attempt_ended(step, AttemptEnded(stimulus.node, end))
    running = {(attempt.number, attempt.attempt) for attempt in stimulus.running}
    for job in _jobs_on(step, stimulus.node):
        live = step.live(job)
        completing = job.status.state is JobState.COMPLETING
        live.missing.pop(stimulus.node, None)
        if (job.number, job.status.attempt) in running:
            live.started.add(stimulus.node)
            if completing:
                step.order(StopOn(stimulus.node, job.number, job.status.attempt, _kill_wait(step, job)))
            elif job.status.state is JobState.SUSPENDED:
                suspending.stop_on(step, job, stimulus.node)
            elif job.status.suspended_s:
                suspending.continue_on(step, job, stimulus.node)
        elif stimulus.node in live.ended:
            continue
        elif rebooted:
            _lose(step, job, stimulus.node, f"node {stimulus.node} was restarted")
        elif completing or stimulus.node in live.started:
            _lose(step, job, stimulus.node, f"node {stimulus.node} no longer knows the job")
        else:
            _launch_again(step, job, stimulus.node)
    _stop_strangers(step, stimulus.node, stimulus.running)
    step.replan()


def reported(step: Stepper, stimulus: Reported) -> None:
    """A heartbeat: what is missing is sent again or given up, what should not run is stopped.

    A part counts as missing only after a while, since its start or its end may be on its way.
    """
    running = {(attempt.number, attempt.attempt) for attempt in stimulus.running}
    for job in _jobs_on(step, stimulus.node):
        live = step.live(job)
        if (job.number, job.status.attempt) in running:
            live.started.add(stimulus.node)
            live.missing.pop(stimulus.node, None)
            if job.status.state is JobState.SUSPENDED:
                # A process that was forked while they were being stopped is stopped too.
                suspending.stop_on(step, job, stimulus.node)
            continue
        if stimulus.node in live.ended:
            continue
        since = live.missing.setdefault(stimulus.node, step.now)
        if step.now - since <= UNCONFIRMED_S:
            continue
        del live.missing[stimulus.node]
        if stimulus.node in live.started:
            _lose(step, job, stimulus.node, f"node {stimulus.node} no longer knows the job")
            continue
        _launch_again(step, job, stimulus.node)
        if job.status.state is JobState.COMPLETING:
            step.order(StopOn(stimulus.node, job.number, job.status.attempt, 0))
    _stop_strangers(step, stimulus.node, stimulus.running)


def _kill_wait(step: Stepper, job: Job) -> int:
    """What is left of its grace where it was preempted."""
    return max(job.status.stop_by - step.now, 1) if job.status.stop_by else step.state.settings.kill_wait_s


def _launch_again(step: Stepper, job: Job, node: str) -> None:
    """Agents answer a repeated start with what became of it, so that it is safe to ask."""
    assert job.status.allocation is not None
    step.order(LaunchOn(node, job.number, job.status.attempt, job.status.allocation.names.index(node)))


def _stop_strangers(step: Stepper, node: str, running: tuple[Attempt, ...]) -> None:
    for attempt in running:
        job = step.state.jobs.get(attempt.number)
        ours = (
            job is not None
            and job.status.attempt == attempt.attempt
            and attempt.number in (step.state.use[node].jobs if node in step.state.use else ())
        )
        if not ours:
            step.order(StopOn(node, attempt.number, attempt.attempt, 0, "the controller knows no such attempt"))


def lost(step: Stepper, stimulus: AgentLost) -> None:
    """An agent is gone; its jobs are presumed to go on."""
    node = step.state.nodes.get(stimulus.node)
    if node is not None and node.responding:
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, responding=False, since=step.now), "lost"))
        step.replan()


def inventory_changed(step: Stepper, stimulus: InventoryChanged) -> None:
    """A GPU failed or came back."""
    node = step.state.nodes.get(stimulus.node)
    if node is not None and node.inventory != stimulus.inventory:
        step.emit(ev.NodeChanged(msgspec.structs.replace(node, inventory=stimulus.inventory), "hardware"))
        step.replan()


def tick(step: Stepper) -> None:
    """Give up attempts whose lease is over, forget what ended long ago, bring the usage up to date, wake the
    scheduler for what came due."""
    settings = step.state.settings
    if settings.lease_s:
        for node in list(step.state.nodes.values()):
            if not node.responding and node.since and step.now - node.since >= settings.lease_s:
                for job in _jobs_on(step, node.name):
                    if node.name not in step.live(job).ended:
                        _lose(step, job, node.name, f"node {node.name} was not heard of for {settings.lease_s} s")
    if not 0 <= step.now - step.state.swept_at < SWEEP_S:
        step.state.swept_at = step.now
        _forget(step)
    usage.update_when_due(step)
    reservations.tick(step)
    _wake(step)


def _wake(step: Stepper) -> None:
    state, came_due = step.state, False
    while state.due and state.due[0][0] <= step.now:
        came_due |= heappop(state.due)[1] in state.pending
    if came_due or (state.pending and not 0 <= step.now - state.planned_at < REPLAN_S):
        state.planned_at = step.now
        step.replan()


def _lose(step: Stepper, job: Job, node: str, message: str) -> None:
    part_ended(step, node, AttemptEnd(job.number, job.status.attempt, "lost", time=step.now, message=message))


def _jobs_on(step: Stepper, node: str) -> list[Job]:
    use = step.state.use.get(node)
    return [step.state.jobs[number] for number in sorted(use.jobs)] if use else []


def _forget(step: Stepper) -> None:
    settings, state = step.state.settings, step.state
    if len(state.jobs) == len(state.pending) + len(state.active):
        return
    ended = sorted(
        (job.status.end_time, number)
        for number, job in state.jobs.items()
        if job.status.state.ended and job.array_index is None
    )
    surplus = max(len(ended) - settings.keep_ended, 0)
    old = [
        number
        for position, (end_time, number) in enumerate(ended)
        if position < surplus or step.now - end_time >= settings.keep_ended_s
    ]
    if not old:
        return
    wanted = _depended_on(step)
    numbers: list[JobNumber] = []
    for number in old:
        family = [*state.elements.get(number, {}).values(), number]
        if wanted.isdisjoint(family):
            numbers += family
    if numbers:
        step.emit(ev.JobsForgotten(tuple(numbers)))
        gone = set(numbers)
        for key in [key for key, number in state.by_key.items() if number in gone]:
            del state.by_key[key]


def _depended_on(step: Stepper) -> set[int]:
    found: set[int] = set()
    for number in step.state.pending:
        dependency = step.state.jobs[number].spec.dependency
        for term in dependency.terms if dependency else ():
            found.update(int(text.partition("_")[0]) for text in term.jobs)
    return found
