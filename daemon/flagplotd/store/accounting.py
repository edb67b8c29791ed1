"""Reading from the store who used what, and how well ended jobs used what they held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flagplot_wire.accounting import Efficiency, UsedBy
from flagplot_wire.job import Job
from flagplotd.store.queries import reading
from flagplotd.store.rows import job_decoder, step_decoder

_USED = """
SELECT user, account, count(*),
       sum(cpu_s * (min(end_time, :until) - max(start_time, :since)) / max(end_time - start_time, 1)),
       sum(gpu_s * (min(end_time, :until) - max(start_time, :since)) / max(end_time - start_time, 1))
FROM jobs WHERE end_time > :since AND start_time > 0 AND start_time <= :until
GROUP BY user, account
"""
"""Of a job that reached beyond the time asked for counts the part within, as if it had held everything evenly."""


def used(path: Path, since: int, until: int, running: Iterable[Job]) -> list[UsedBy]:
    """Who held what from `since` until `until`: ended jobs by the store, `running` ones by what they hold."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    with reading(path) as db:
        for user, account, jobs, cpu_s, gpu_s in db.execute(_USED, {"since": since, "until": until}):
            found[user, account] = (jobs, cpu_s, gpu_s)
    for job in running:
        held, begun = job.status.allocation, job.status.start_time
        seconds = min(job.status.held_s(until), until - since)
        if held is not None and begun <= until and seconds >= 0:
            jobs, cpu_s, gpu_s = found.get((job.user, job.spec.account), (0, 0, 0))
            found[job.user, job.spec.account] = (
                jobs + 1, cpu_s + held.cpus * seconds, gpu_s + held.gpu_millis * seconds // 1_000
            )  # fmt: skip
    rows = [UsedBy(*who, *what) for who, what in found.items()]
    return sorted(rows, key=lambda row: (-row.gpu_s, -row.cpu_s, row.user, row.account))


def ended(path: Path, user: str, limit: int) -> list[Efficiency]:
    """The last jobs of a user that ran and ended, latest first."""
    with reading(path) as db:
        rows = db.execute(
            "SELECT record FROM jobs WHERE user=? AND end_time>0 AND start_time>0 ORDER BY end_time DESC, number DESC LIMIT ?",
            (user, limit),
        )
        jobs = [job_decoder.decode(record) for (record,) in rows]
        cpu_ms: dict[tuple[int, int], int] = {}
        marks = ",".join("?" * len(jobs))
        sql = f"SELECT record FROM steps WHERE step >= 0 AND number IN ({marks})"
        for (record,) in db.execute(sql, [job.number for job in jobs]):
            step = step_decoder.decode(record)
            key = (step.number, step.attempt)
            cpu_ms[key] = cpu_ms.get(key, 0) + step.cpu_ms
    return [
        _efficiency(job, cpu_ms.get((job.number, job.status.attempt), 0))
        for job in jobs
        if job.status.allocation is not None
    ]


def _efficiency(job: Job, steps_ms: int) -> Efficiency:
    status, used_of = job.status, job.status.used
    held = status.allocation
    assert held is not None
    cpu_ms = memory = gpu = None
    if used_of is not None:
        cpu_ms = None if used_of.cpu_ms is None else used_of.cpu_ms + steps_ms
        memory, gpu = used_of.memory_peak_mib, used_of.gpu_percent
    gpus = sum(len(part.gpus) for part in held.nodes)
    return Efficiency(
        job.number, job.display_id, job.spec.name, str(status.state), status.end_time, status.held_s(status.end_time),
        held.cpus, held.memory_mib, held.gpu_millis, cpu_ms, memory, None if gpu is None or not gpus else gpu // gpus,
    )  # fmt: skip
