"""What an action will do to a job, in words for the question that comes before it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flagplot.language import tr
from flagplot.view.queue import job_target
from flagplot.view.words import state_look
from flagplot_wire.job import Job, State
from flagplot_wire.text import clean, fit, width

MOST = (14, 10, 10)
"""Cells of name, owner and state at most: with the longest effect a line fits 80 columns. An id is never cut."""


def effect(verb: str, job: Job) -> str:
    """What `cancel`, `hold`, `release` or `requeue` does to a job in the state it is in."""
    state = job.status.state
    if state.ended and verb != "requeue":
        return tr("nothing: has ended")
    match verb:
        case "hold" if state is not State.PENDING:
            return tr("cannot: has started")
        case "hold":
            return tr("nothing: is held" if job.spec.hold else "waits until released")
        case "release":
            return tr("may start" if job.spec.hold else "nothing: is not held")
        case "requeue":
            if state is State.PENDING:
                return tr("nothing: waits already")
            return tr("waits again" if state.ended else "stops and waits again")
    return tr("never starts" if state is State.PENDING else "stops")


def lines(verb: str, targets: Mapping[str, Job | None]) -> list[str]:
    """Targets as a question lists them, in columns: id, name, owner, state, what will happen; unknown ones by id."""
    return in_columns(targets, lambda job: effect(verb, job))


def in_columns(targets: Mapping[str, Job | None], what: Callable[[Job], str]) -> list[str]:
    """The same with `what` happens in words."""
    rows = {
        target: (job_target(job), clean(job.spec.name), clean(job.user), state_look(job).word)
        for target, job in targets.items()
        if job is not None
    }
    longest = [max(map(width, column)) for column in zip(*rows.values(), strict=True)]
    widths = [*longest[:1], *map(min, longest[1:], MOST)]
    return [
        "  ".join([*map(fit, rows[target], widths), f"→ {what(job)}"]) if job is not None else target
        for target, job in targets.items()
    ]
