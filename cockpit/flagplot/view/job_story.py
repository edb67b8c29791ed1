"""A job's steps and ranks, its attempts, and what happened to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from flagplot.client.mirror import Mirror
from flagplot.language import tr
from flagplot.view.bars import Piece
from flagplot.view.events import row_of
from flagplot.view.words import about, clock_time, elapsed, memory, state_words
from flagplot_wire import events as ev
from flagplot_wire.alloc import Allocation
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Job, State
from flagplot_wire.steps import Step
from flagplot_wire.text import clean, counted

Row = tuple[str, list[Piece]]
"""A label and the pieces beside it."""
_STEP = {"RUNNING": State.RUNNING, "COMPLETED": State.COMPLETED, "FAILED": State.FAILED, "CANCELLED": State.CANCELLED,
         "NODE_FAIL": State.NODE_FAIL}  # fmt: skip


def rank_words(first: int, tasks: int) -> str:
    """`rank 0`, `ranks 8-15`."""
    return f"rank {first}" if tasks == 1 else f"ranks {first}-{first + tasks - 1}"


def ranks(held: Allocation | None, ended: bool) -> list[Row]:
    """Which of the job's tasks are where."""
    if held is None:
        return []
    tasks = sum(part.tasks for part in held.nodes)
    where = f"{counted(tasks, 'task')} on {counted(len(held.nodes), 'node')}"
    rows: list[Row] = [("Had" if ended else "Has", [(where, "bold")])]
    for part in held.nodes:
        gpus = f"  {counted(len(part.gpus), 'GPU')}" if part.gpus else ""
        words = f"{rank_words(part.first_rank, part.tasks)}  {counted(part.cpus, 'CPU')} ({part.cpu_ids}){gpus}"
        rows.append(("", [(f"{clean(part.node)}  ", "plain"), (words, "dim")]))
    return rows


def step_rows(steps: Sequence[Step], now: int) -> list[Row]:
    """Each step with how it is, what it took, and its ranks where it has several; that of the script first."""
    rows: list[Row] = []
    for step in steps:
        look = state_words(step.state)
        took = (step.end_time or now) - step.start_time if step.start_time else 0
        head: list[Piece] = [(f"{clean(step.name)}  ", "bold"), (f"{look.glyph} {look.word}", look.role)]
        head.append((f"  {elapsed(max(0, took))}  {counted(step.tasks, 'task')}{_end_of(step)}", "plain"))
        rows.append((clean(step.id), head))
        if step.command:
            rows.append(("", [(clean(step.command), "dim")]))
        if step.message:
            rows.append(("", [(clean(step.message), "warning")]))
        if step.tasks > 1 or len(step.parts) > 1:
            for part in step.parts:
                done = tr("  ended") if part.node in step.ended and step.state == "RUNNING" else ""
                words = f"{rank_words(part.first_rank, part.tasks)}{done}"
                rows.append(("", [(f"  {clean(part.node)}  ", "plain"), (words, "dim")]))
    return rows


def _end_of(step: Step) -> str:
    """How it ended and what it used."""
    if step.state == "RUNNING":
        return ""
    code = ""
    if step.signal:
        code = "  " + tr("signal {number}").format(number=step.signal)
    elif step.exit_code:
        code = "  " + tr("exit code {code}").format(code=step.exit_code)
    used = f"  CPU {about(step.cpu_ms // 1_000)}" if step.cpu_ms else ""
    peak = "  " + tr("{amount} at its peak").format(amount=memory(step.memory_peak_mib))
    return code + used + (peak if step.memory_peak_mib else "")


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt of a job; `ended` is 0 while it lasts, `state` the word of how it is or what came of it."""

    attempt: int
    started: int
    nodes: tuple[str, ...]
    ended: int = 0
    state: str = "RUNNING"
    message: str = ""


def attempts(events: Sequence[ev.Event], job: Job) -> list[Tried]:
    """The attempts that the journal tells of (with the present one, from the job's own record), the first one first."""
    found: dict[int, Tried] = {}
    for event in events:
        body = event.body
        if not isinstance(body, ev.JobChanged) or body.number != job.number or not body.status.attempt:
            continue
        status = body.status
        if status.state is State.PENDING:
            # Requeued: the record of the attempt is emptied, the reason stays.
            if (last := found.get(status.attempt)) is not None and not last.ended:
                found[status.attempt] = replace(last, ended=event.time, state="REQUEUED", message=status.message)
            continue
        names = tuple(status.allocation.names) if status.allocation is not None else ()
        found[status.attempt] = Tried(
            status.attempt, status.start_time, names, status.end_time, str(status.state), status.message
        )
    status = job.status
    if status.attempt and status.state is not State.PENDING:
        names = tuple(status.allocation.names) if status.allocation is not None else ()
        found[status.attempt] = Tried(
            status.attempt, status.start_time, names, status.end_time, str(status.state), status.message
        )
    return [found[attempt] for attempt in sorted(found)]


def attempt_rows(tried: Sequence[Tried], now: int, zone: tzinfo | None = None) -> list[Row]:
    """Each attempt: when, how long, where, what came of it."""
    rows: list[Row] = []
    for one in tried:
        look = state_words(one.state)
        role = "warning" if one.state == "REQUEUED" else look.role
        took = elapsed(max(0, (one.ended or now) - one.started))
        glyph = "↺" if one.state == "REQUEUED" else look.glyph
        head: list[Piece] = [
            (f"{glyph} {look.word}", role),
            (f"  after {took}" if one.ended else f"  for {took}", "plain"),
        ]
        where = f"  on {clean(compress_hosts(one.nodes))}" if one.nodes else ""
        head.append((f"{where}  from {clock_time(one.started, zone)}", "dim"))
        rows.append((f"Attempt {one.attempt}", head))
        if one.message:
            rows.append(("", [(clean(one.message), "warning")]))
    return rows


def story(events: Sequence[ev.Event], mirror: Mirror, job: Job, zone: tzinfo | None = None) -> list[Row]:
    """What happened to the job (and the elements of an array), the latest first."""
    rows: list[Row] = []
    for event in reversed(events):
        row = row_of(event, mirror)
        by = f"  by {clean(row.by)}" if row.by else ""
        other = f"{row.target}  " if row.job != job.number else ""
        pieces: list[Piece] = [(f"{row.glyph} {row.what}  ", row.role), (other, "dim")]
        rows.append((clock_time(event.time, zone), [*pieces, (row.text, "plain"), (by, "dim")]))
    return rows
