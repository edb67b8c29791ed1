"""What every part of `step` works with: the state, the moment, and what has been decided so far."""

from __future__ import annotations

from typing import Any

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.job import Job, Status
from flagplot_wire.job import State as JobState
from flagplotd.core.apply import apply
from flagplotd.core.moves import check_move
from flagplotd.core.orders import Order, Replan
from flagplotd.core.state import Live, State


class Stepper:
    """Collects the events and orders of one step; an event is applied as soon as it is emitted."""

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.events: list[ev.Body] = []
        self.orders: list[Order] = []
        self.wants_plan = False

    def emit(self, body: ev.Body) -> None:
        """Decide an event."""
        apply(self.state, body)
        self.events.append(body)

    def order(self, order: Order) -> None:
        """Want something done."""
        self.orders.append(order)

    def replan(self) -> None:
        """Want a scheduling cycle (once is enough)."""
        if not self.wants_plan:
            self.wants_plan = True
            self.orders.append(Replan())

    def change(self, job: Job, cause: str, by: str = "", **changes: Any) -> Job:
        """Change a job's status; a move of state is checked against the table. Returns the job as it is now.

        Room that others are preempted for is a pending job's alone."""
        status: Status = msgspec.structs.replace(job.status, **changes)
        if status.victims and status.state is not JobState.PENDING:
            status = msgspec.structs.replace(status, victims=(), room=())
        check_move(job, status.state)
        self.emit(ev.JobChanged(job.number, status, cause, by))
        return self.state.jobs[job.number]

    def live(self, job: Job) -> Live:
        """What is known of the job's running attempt."""
        live = self.state.live.get(job.number)
        if live is None or live.attempt != job.status.attempt:
            live = self.state.live[job.number] = Live(job.status.attempt, ended=set(job.status.parts_ended))
        return live
