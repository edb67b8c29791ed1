"""What is told of jobs by mail and webhook: which changes, and in which words. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from flagplot_wire.events import Event, JobChanged
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job
from flagplot_wire.mail import WORDS, kind_of_mail, percents_due
from flagplot_wire.text import clean
from flagplot_wire.units import format_duration
from flagplotd.core.state import State

REMEMBERED = 20_000
"""Notices remembered so that none is made twice; the oldest are forgotten."""


class Notice(Struct, frozen=True):
    """One thing to tell: `by` is `mail` or `webhook`, `kind` a word of `flagplot_wire.mail.TYPES`."""

    by: str
    kind: str
    job: Job


class Noticing:
    """Decides which events are told. Every start, end and requeue of an attempt is told once."""

    def __init__(self, webhook_on: tuple[str, ...] = ()) -> None:
        self.webhook_on = webhook_on
        self._told: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def of(self, state: State, events: Iterable[Event]) -> list[Notice]:
        """What durable events are worth telling; `state` holds the jobs that they concern."""
        found: list[Notice] = []
        for event in events:
            body = event.body
            if not isinstance(body, JobChanged) or (job := state.jobs.get(body.number)) is None:
                continue
            for by, wanted in (("mail", job.spec.mail_type), ("webhook", self.webhook_on)):
                if wanted:
                    now = msgspec.structs.replace(job, status=body.status)
                    found += self._fresh(by, kind_of_mail(now, body.cause, event.time, wanted), now)
        return found

    def due(self, state: State, now: int) -> list[Notice]:
        """The running jobs whose time limit is over by the part that they asked mail for."""
        jobs = [job for number in state.active if (job := state.jobs[number]).spec.mail_type]
        return [one for job in jobs for kind in percents_due(job, now)[-1:] for one in self._fresh("mail", kind, job)]

    def _fresh(self, by: str, kind: str, job: Job) -> list[Notice]:
        key = (by, kind, job.number, job.status.attempt, job.status.restarts, job.status.end_time)
        if not kind or key in self._told:
            return []
        self._told[key] = None
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return [Notice(by, kind, job)]


def subject(notice: Notice, now: int) -> str:
    """As Slurm's, so that filters go on working but for the first word."""
    job, status = notice.job, notice.job.status
    words = [f"Flagplot Job_id={job.display_id} Name={clean(job.spec.name)} {WORDS[notice.kind]}"]
    if status.start_time and status.state.value != "PENDING":
        words.append(f"Run time {format_duration(max(0, (status.end_time or now) - status.start_time))}")
    if status.state.ended:
        words += [status.state.value, f"ExitCode {status.exit_code or 0}"]
    return ", ".join(words)


def body(notice: Notice, cluster: str) -> str:
    """A few lines, none of which begins with what a user wrote."""
    job, status = notice.job, notice.job.status
    lines = [("Cluster", cluster), ("Job", job.display_id), ("Name", job.spec.name), ("User", job.user)]
    lines += [("State", status.state.value), ("Partition", job.spec.partition)]
    if status.allocation is not None:
        lines.append(("Nodes", compress_hosts(status.allocation.names)))
    if status.state.ended:
        lines.append(("Exit code", str(status.exit_code or 0) + (f", signal {status.signal}" if status.signal else "")))
    if job.is_array:
        lines.append(("Elements", f"{status.elements_ended} ended, {status.elements_failed} of them failed"))
    lines += [("Message", status.message), ("Work dir", job.spec.work_dir)]
    return "".join(f"{label}: {clean(value)}\n" for label, value in lines if value)


def payload(notice: Notice, cluster: str, now: int) -> dict[str, Any]:
    """What a webhook gets, as JSON."""
    job, status = notice.job, notice.job.status
    return {
        "event": notice.kind,
        "text": subject(notice, now),
        "cluster": cluster,
        "job_id": int(job.number),
        "display_id": job.display_id,
        "name": job.spec.name,
        "user": job.user,
        "state": status.state.value,
        "partition": job.spec.partition,
        "account": job.spec.account,
        "nodes": status.allocation.names if status.allocation else [],
        "start_time": status.start_time or None,
        "end_time": status.end_time or None,
        "exit_code": status.exit_code,
        "signal": status.signal or None,
        "message": status.message,
        "time": now,
    }
