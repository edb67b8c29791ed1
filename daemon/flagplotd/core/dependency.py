"""Whether a job's dependency holds (sbatch(1), --dependency)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

from flagplot_wire.ids import JobNumber, parse_job_ref
from flagplot_wire.indices import has_index
from flagplot_wire.job import DependencyTerm, Job, JobSpec
from flagplot_wire.job import State as JobState
from flagplotd.core.state import State

Verdict = Literal["ok", "wait", "never"]
MOST_NAMED = 10
"""So many of the older jobs that a singleton waits for are named."""


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
        same = state.names.get((job.user, job.spec.name), [])
        older = same[: min(bisect_left(same, job.number), MOST_NAMED + 1)]
        named = tuple(number for number in older if number != job.array_number)[:MOST_NAMED]
        return ("wait", named) if named else ("ok", ())
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
        index = ref.indices[0]
        element = state.elements.get(ref.number, {}).get(index)
        if element is None and has_index(target.status.waiting, index):
            return "wait"
        if element is None and target.spec.array and has_index(target.spec.array.indices, index):
            return "never" if term.kind == "afterok" else "ok"  # it was cancelled before it was split off
        target = state.jobs.get(element) if element is not None else None
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


def circle(state: State, number: JobNumber, spec: JobSpec) -> tuple[JobNumber, ...]:
    """The way from `number` back to itself if it had the dependencies of `spec`; empty when there is none."""
    came_from = dict.fromkeys(_targets(spec), number)
    todo = list(came_from)
    while todo:
        at = todo.pop()
        if at == number:
            way = [came_from[at]]
            while way[-1] != number:
                way.append(came_from[way[-1]])
            return (number, *reversed(way[:-1]), number)
        job = state.jobs.get(at)
        for target in _targets(job.spec) if job is not None and at in state.pending else ():
            if target not in came_from:
                came_from[target] = at
                todo.append(target)
    return ()


def _targets(spec: JobSpec) -> list[JobNumber]:
    terms = spec.dependency.terms if spec.dependency else ()
    return [parse_job_ref(text).number for term in terms for text in term.jobs]
