"""`flagplot queue`: jobs, in squeue's columns."""

from __future__ import annotations

import getpass
import time

import click

from flagplot.cli.common import ask, json_option
from flagplot.output.table import table
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Forecast, Job
from flagplot_wire.replies import Jobs
from flagplot_wire.requests import GetQueue
from flagplot_wire.units import format_duration, format_limit

HEADER = ("JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)")
LONG = ("JOBID", "PARTITION", "NAME", "USER", "STATE", "TIME", "TIME_LIMIT", "NODES", "GPUS", "NODELIST(REASON)")


@click.command("queue")
@click.option("-u", "--user", "users", multiple=True, help="Jobs of this user (may be given again).")
@click.option("--me", is_flag=True, help="Your own jobs.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Jobs of this partition.")
@click.option("-t", "--states", "states", help="States, by word or code: PD,R,completed.")
@click.option("-w", "--nodelist", "nodes", help="Jobs on these nodes (a host list).")
@click.option("-j", "--jobs", "jobs", help="These jobs: 41,42_3.")
@click.option("-a", "--all", "everything", is_flag=True, help="Those that ended lately too.")
@click.option("-l", "--long", "wide", is_flag=True, help="More columns.")
@click.option("--watch", is_flag=False, flag_value=2, default=None, type=click.IntRange(1), metavar="[SECONDS]",
              help="Print again every two (or these many) seconds.")  # fmt: skip
@json_option
@click.pass_context
def command(
    context: click.Context, users: tuple[str, ...], me: bool, partitions: tuple[str, ...], states: str | None,
    nodes: str | None, jobs: str | None, everything: bool, wide: bool, watch: int | None, as_json: bool,
) -> None:  # fmt: skip
    """List pending and running jobs."""
    request = GetQueue(
        _split(jobs),
        (*users, *([getpass.getuser()] if me else [])),
        partitions,
        tuple(word.upper() for word in _split(states)),
        (nodes,) if nodes else (),
        everything or bool(states),
    )
    while True:
        reply = ask(context, lambda calls: calls.queue(request))
        forecasts = {one.number: one for one in reply.forecasts}
        if as_json:
            from flagplot.output.json import job_object, print_json

            print_json([job_object(job, forecasts.get(job.number)) for job in reply.jobs])
        else:
            print(text_of(reply, int(time.time()), wide), flush=True)
        if watch is None:
            return
        time.sleep(watch)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def text_of(reply: Jobs, now: int, wide: bool) -> str:
    """The table."""
    forecasts = {one.number: one for one in reply.forecasts}
    rows = [row_of(job, forecasts.get(job.number), now, wide) for job in reply.jobs]
    return table(LONG if wide else HEADER, rows, right=(0, 5, 6, 7, 8) if wide else (0, 5, 6))


def row_of(job: Job, forecast: Forecast | None, now: int, wide: bool) -> list[str]:
    """One job's cells."""
    status = job.status
    began = status.start_time
    elapsed = (status.end_time or now) - began if began else 0
    nodes = len(status.allocation.nodes) if status.allocation else job.spec.request.nodes_min
    if status.state == "PENDING":
        words = ",".join(str(one.why) for one in forecast.reasons) if forecast else "None"
        where = f"({words or 'None'})"
    elif status.state.ended and status.message:
        where = f"({status.message})"
    else:
        where = compress_hosts(status.allocation.names) if status.allocation else ""
    head = [job.display_id, job.spec.partition, job.spec.name, job.user]
    if not wide:
        return [*head, status.state.short, format_duration(elapsed), str(nodes), where]
    gpus = sum(gpu.whole for part in status.allocation.nodes for gpu in part.gpus) if status.allocation else 0
    limit = format_limit(job.time_limit_s)
    return [*head, str(status.state), format_duration(elapsed), limit, str(nodes), str(gpus), where]
