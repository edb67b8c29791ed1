"""Whether a job's dependency holds (sbatch(1), --dependency)."""

from __future__ import annotations

from typing import Literal

from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.job import DependencyTerm, Job
from flagplot_wire.job import State as JobState
from flagplotd.core.state import State

Verdict = Literal["ok", "wait", "never"]


def check(state: State, job: Job, now: int) -> tuple[Verdict, tuple[JobNumber, ...]]:
    """`ok`, `wait` or `never`, and the jobs that are waited for (or made it impossible)."""
    dependency = job.spec.dependency
    if dependency is None:
        return "ok", ()
    verdicts = [_term(state, job, term, now) for term in dependency.terms]
    words = [verdict for verdict, _ in verdicts]
    blocking = tuple(number for verdict, jobs in verdicts if verdict != "ok" for number in jobs)
    if dependency.any_of:
        if "ok" in words:
            return "ok", ()
        return ("wait" if "wait" in words else "never"), blocking
    if "never" in words:
        return "never", tuple(number for verdict, jobs in verdicts if verdict == "never" for number in jobs)
    return ("wait", blocking) if "wait" in words else ("ok", ())


def _term(state: State, job: Job, term: DependencyTerm, now: int) -> tuple[Verdict, tuple[JobNumber, ...]]:
    if term.kind == "singleton":
        older = tuple(
            other.number
            for number in (*state.pending, *state.active)
            if (other := state.jobs[number]).number < job.number
            and other.user == job.user
            and other.spec.name == job.spec.name
            and (job.array_index is None or other.array_number != job.array_number)
        )
        return ("wait", tuple(sorted(older))) if older else ("ok", ())
    verdicts = [(_one(state, term, text, now), text) for text in term.jobs]
    for wanted in ("never", "wait"):
        blocking = [text for verdict, text in verdicts if verdict == wanted]
        if blocking:
            return wanted, tuple(parse_job_ref(text).number for text in blocking)
    return "ok", ()


def _one(state: State, term: DependencyTerm, text: str, now: int) -> Verdict:
    ref = parse_job_ref(text)
    target = state.jobs.get(ref.number)
    if ref.indices is not None and target is not None:
        element = state.elements.get(ref.number, {}).get(ref.indices[0])
        if element is None:
            return "wait" if target.status.waiting else "never"
        target = state.jobs.get(element)
    if target is None:
        return "ok" if term.kind in ("after", "afterany") else "never"
    status = target.status
    if term.kind == "after":
        began = status.start_time or (status.end_time if status.state.ended else 0)
        return "ok" if began and began + term.delay_s <= now else "wait"
    if not status.state.ended:
        return "wait"
    if term.kind == "afterany":
        return "ok"
    good = status.state is JobState.COMPLETED
    return "ok" if good == (term.kind == "afterok") else "never"
