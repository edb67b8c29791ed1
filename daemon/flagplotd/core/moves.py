"""The one table of legal moves between job states."""

from __future__ import annotations

from flagplot_wire.job import ENDED, Job, State

_ENDS = frozenset(ENDED)
LEGAL: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.CANCELLED, State.FAILED, State.COMPLETED}),
    State.RUNNING: frozenset({State.SUSPENDED, State.COMPLETING, State.PENDING}) | _ENDS,
    State.SUSPENDED: frozenset({State.RUNNING, State.COMPLETING, State.PENDING}) | _ENDS,
    State.COMPLETING: frozenset({State.PENDING}) | _ENDS,
    **{end: frozenset({State.PENDING}) for end in ENDED},
}
"""PENDING → COMPLETED and FAILED belong to array records, whose elements all ended before the record ran."""


class IllegalMove(Exception):
    """A bug: a job was about to make a move that is not in the table. Carries the job's story."""

    def __init__(self, job: Job, to: State) -> None:
        status = job.status
        super().__init__(
            f"job {job.display_id} cannot go from {status.state} to {to}: attempt {status.attempt}, "
            f"restarts {status.restarts}, submitted {status.submit_time}, started {status.start_time}, "
            f"ended {status.end_time}, ending {status.ending}, message {status.message!r}"
        )


def check_move(job: Job, to: State) -> None:
    """Raise `IllegalMove` unless the job may go to `to` (staying is always allowed)."""
    if to != job.status.state and to not in LEGAL[job.status.state]:
        raise IllegalMove(job, to)
