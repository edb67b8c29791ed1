"""What changed between two looks at the queue, as sentences: one line for each change, read from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flagplot.language import tr
from flagplot.view.words import state_look
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job
from flagplot_wire.text import clean
from flagplot_wire.units import format_limit


def by_id(jobs: Iterable[Job]) -> dict[str, Job]:
    """Jobs by the number people write (`41`, `42_3`)."""
    return {job.display_id: job for job in jobs}


def changes(before: Mapping[str, Job], after: Mapping[str, Job]) -> list[str]:
    """Sentences without control characters: new jobs, changed ones, and those that left, in the order of `after`."""
    lines = []
    for name, job in after.items():
        old = before.get(name)
        if old is None:
            lines.append(tr("{job} is new: {state}").format(job=_who(job), state=_state(job)))
        elif old.status.state != job.status.state or old.status.attempt != job.status.attempt:
            lines.append(_was(job, _state(job), old))
        elif state_look(old).word != state_look(job).word:
            lines.append(_was(job, state_look(job).word, old))
        elif old.time_limit_s != job.time_limit_s:
            lines.append(
                tr("{job} has the time limit {limit}").format(job=_who(job), limit=format_limit(job.time_limit_s))
            )
    lines += [
        tr("{job} left the queue, was {old}").format(job=_who(job), old=state_look(job).word)
        for name, job in before.items()
        if name not in after
    ]
    return [clean(line) for line in lines]


def _who(job: Job) -> str:
    return tr("job {id} ({name}) of {user}").format(id=job.display_id, name=job.spec.name, user=job.user)


def _was(job: Job, state: str, old: Job) -> str:
    return tr("{job} is {state}, was {old}").format(job=_who(job), state=state, old=state_look(old).word)


def _state(job: Job) -> str:
    """The state with where or why."""
    status, word = job.status, state_look(job).word
    if status.state.ended:
        return f"{word}: {status.message}" if status.message else word
    return f"{word} on {compress_hosts(status.allocation.names)}" if status.allocation else word
