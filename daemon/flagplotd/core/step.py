"""`step`: one stimulus in, events (already applied) and orders out."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted, Failure, StepStarted, Submitted
from flagplotd.core import agents, gate, health, lifecycle, people, policy, preempting, reboots, staging, steps, update
from flagplotd.core import stimuli as st
from flagplotd.core.orders import Outcome
from flagplotd.core.state import State
from flagplotd.core.stepper import Stepper


def step(state: State, stimulus: st.Stimulus, now: int) -> Outcome:
    """Decide what follows from a stimulus at `now` (epoch seconds).

    The events of the outcome are applied to `state` already; the caller makes them durable, then carries out
    the orders and gives the reply. People's mistakes come back as a `Failure`, or per target in `Acted`.
    """
    stepper = Stepper(state, now)
    reply: Submitted | Acted | StepStarted | Failure | None
    try:
        reply = _decide(stepper, stimulus)
    except Refused as refused:
        reply = Failure(refused.code, refused.message, refused.hint)
    return Outcome(tuple(stepper.events), tuple(stepper.orders), reply)


def _decide(stepper: Stepper, stimulus: st.Stimulus) -> Submitted | Acted | StepStarted | None:
    match stimulus:
        case st.SubmitJob():
            return gate.submit(stepper, stimulus)
        case st.ActOnJobs():
            return people.act_on_jobs(stepper, stimulus)
        case st.UpdateJobs():
            return update.update_jobs(stepper, stimulus)
        case st.Drain():
            return people.drain(stepper, stimulus)
        case st.Resume():
            return people.resume(stepper, stimulus)
        case st.Reboot():
            return reboots.ask(stepper, stimulus)
        case st.Remove():
            return people.remove(stepper, stimulus)
        case st.ChangeRecords():
            return policy.change_records(stepper, stimulus)
        case st.BeginStep():
            return steps.begin(stepper, stimulus)
        case st.EndStep():
            return steps.end_step(stepper, stimulus)
        case st.EndInteractive():
            return steps.end_interactive(stepper, stimulus)
        case st.Staged():
            return staging.staged(stepper, stimulus)
    _happened(stepper, stimulus)
    return None


def _happened(stepper: Stepper, stimulus: st.Stimulus) -> None:
    match stimulus:
        case st.Planned():
            preempting.planned(stepper, stimulus, lifecycle.planned(stepper, stimulus))
        case st.AttemptStarted():
            lifecycle.attempt_started(stepper, stimulus)
        case st.AttemptNoted():
            lifecycle.attempt_noted(stepper, stimulus)
        case st.AttemptEnded():
            lifecycle.attempt_ended(stepper, stimulus)
        case st.StepPartEnded():
            steps.part_of_step_ended(stepper, stimulus)
        case st.Reported():
            agents.reported(stepper, stimulus)
            reboots.when_idle(stepper, stimulus)
        case st.AgentJoined():
            agents.joined(stepper, stimulus)
        case st.AgentLost():
            agents.lost(stepper, stimulus)
        case st.InventoryChanged():
            agents.inventory_changed(stepper, stimulus)
        case st.Checked():
            health.checked(stepper, stimulus)
        case st.RebootFailed():
            reboots.failed(stepper, stimulus)
        case st.Boot():
            agents.boot(stepper, stimulus)
        case st.Tick():
            agents.tick(stepper)
