"""`flagplot queue`: jobs, in squeue's columns."""

from __future__ import annotations

import asyncio
import getpass
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from flagplot.cli.common import all_meant, ask, ask_all, cluster_option, exit_of, json_option, tell_silent
from flagplot.client.calls import Calls
from flagplot.output.table import table
from flagplot.view.changes import by_id, changes
from flagplot.view.squeue_format import Seen, lines, parse_letters, parse_names
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import compress_hosts
from flagplot_wire.job import Forecast, Job
from flagplot_wire.replies import Jobs
from flagplot_wire.requests import GetQueue
from flagplot_wire.text import clean
from flagplot_wire.units import format_duration, format_limit

Shape = Callable[[Jobs, int], str]
"""Jobs and the moment as text."""
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
              help="Go on with a line for each change, looked for every two (or these many) seconds.")  # fmt: skip
@click.option("-o", "--format", "letters", help="Columns by squeue's letters: '%.18i %.9P %j %t %R'.")
@click.option("-O", "--Format", "names", help="Columns by squeue's names: JobID,Name:30,TimeLeft,ReasonList.")
@click.option("--noheader", is_flag=True, help="Without the line of titles.")
@cluster_option
@json_option
@click.pass_context
def command(
    context: click.Context, users: tuple[str, ...], me: bool, partitions: tuple[str, ...], states: str | None,
    nodes: str | None, jobs: str | None, everything: bool, wide: bool, watch: int | None, letters: str | None,
    names: str | None, noheader: bool, cluster: str | None, as_json: bool,
) -> None:  # fmt: skip
    """List pending and running jobs."""
    shape = shape_of(letters, names, wide, noheader)
    request = GetQueue(
        _split(jobs),
        (*users, *([getpass.getuser()] if me else [])),
        partitions,
        tuple(word.upper() for word in _split(states)),
        (nodes,) if nodes else (),
        everything or bool(states),
    )
    if all_meant(context, cluster):
        if watch is not None:
            raise Refused("usage", "--watch follows one cluster", "give its name")
        _print_all(request, shape, as_json, wide, noheader, letters is not None or names is not None)
        return
    try:
        ask(context, lambda calls: _print(calls, request, shape, watch, as_json), cluster)
    except KeyboardInterrupt:
        if watch is None:
            raise
        # Whoever watches ends it so: that is no failure.


def shape_of(letters: str | None, names: str | None, wide: bool, noheader: bool) -> Shape:
    """How jobs are printed by the options; raises `Refused` for columns that there are not."""
    if letters is not None and names is not None:
        raise Refused("usage", "-o and -O both choose the columns: give one")
    if letters is None and names is None:
        return lambda reply, now: text_of(reply, now, wide, noheader)
    line = parse_letters(letters) if letters is not None else parse_names(names or "")

    def text(reply: Jobs, now: int) -> str:
        forecasts = {one.number: one for one in reply.forecasts}
        seen = [Seen(job, now, forecasts.get(job.number), _moment) for job in reply.jobs]
        return "\n".join(lines(line, seen, not noheader))

    return text


def _moment(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at else "N/A"


async def _print(calls: Calls, request: GetQueue, shape: Shape, watch: int | None, as_json: bool) -> None:
    """The queue once; while watched its changes after it, as sentences or as JSON arrays of the jobs that changed."""
    reply = await calls.queue(request)
    if as_json:
        _print_json(reply.jobs, reply)
    else:
        _print_text(shape(reply, int(time.time())))
    while watch is not None:
        await asyncio.sleep(watch)
        before, reply = by_id(reply.jobs), await calls.queue(request)
        after = by_id(reply.jobs)
        if not as_json:
            for line in changes(before, after):
                print(time.strftime("%H:%M:%S"), line, flush=True)
        elif changed := [job for name, job in after.items() if before.get(name) != job]:
            _print_json(changed, reply)


def _print_all(request: GetQueue, shape: Shape, as_json: bool, wide: bool, noheader: bool, chosen: bool) -> None:
    """The queues of all clusters: one table with a column more, or with chosen columns one after the other, as squeue."""
    found = ask_all(lambda calls: calls.queue(request))
    answered, now = tell_silent(found), int(time.time())
    if as_json:
        from flagplot.output.json import print_json

        print_json(
            [{"cluster": name, **one} for name, reply in answered.items() for one in _objects(reply.jobs, reply)]
        )
    elif chosen:
        for name, reply in answered.items():
            _print_text(f"CLUSTER: {clean(name)}")
            _print_text(shape(reply, now))
    else:
        rows = [[name, *row] for name, reply in answered.items() for row in rows_of(reply, now, wide)]
        _print_text(_table(("CLUSTER", *(LONG if wide else HEADER)), rows, wide, noheader, 1))
    exit_of(found)


def _print_text(text: str) -> None:
    if text:
        print(text, flush=True)


def _print_json(jobs: Iterable[Job], reply: Jobs) -> None:
    from flagplot.output.json import print_json

    print_json(_objects(jobs, reply))
    sys.stdout.flush()


def _objects(jobs: Iterable[Job], reply: Jobs) -> list[dict[str, Any]]:
    from flagplot.output.json import job_object

    forecasts = {one.number: one for one in reply.forecasts}
    return [job_object(job, forecasts.get(job.number)) for job in jobs]


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def text_of(reply: Jobs, now: int, wide: bool, noheader: bool = False) -> str:
    """The table."""
    return _table(LONG if wide else HEADER, rows_of(reply, now, wide), wide, noheader, 0)


def rows_of(reply: Jobs, now: int, wide: bool) -> list[list[str]]:
    """The cells of all jobs."""
    forecasts = {one.number: one for one in reply.forecasts}
    return [row_of(job, forecasts.get(job.number), now, wide) for job in reply.jobs]


def _table(header: Sequence[str], rows: list[list[str]], wide: bool, noheader: bool, shifted: int) -> str:
    text = table(header, rows, right=[at + shifted for at in ((0, 5, 6, 7, 8) if wide else (0, 5, 6))])
    return text.partition("\n")[2] if noheader else text


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
