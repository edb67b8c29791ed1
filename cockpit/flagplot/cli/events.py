"""`flagplot events`: the journal."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from flagplot.cli.common import ask, json_option
from flagplot.client.calls import Calls
from flagplot_wire import events as ev
from flagplot_wire.requests import GetEvents
from flagplot_wire.text import clean, counted

POLL_S = 0.5


@click.command("events")
@click.option("-f", "--follow", is_flag=True, help="Go on as events happen.")
@click.option("--job", default="", help="Only events of this job.")
@click.option("--node", default="", help="Only events of this node.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@json_option
@click.pass_context
def command(context: click.Context, follow: bool, job: str, node: str, limit: int, as_json: bool) -> None:
    """Show what happened, oldest first. With --json one object a line."""
    ask(context, lambda calls: _print(calls, follow, job, node, limit, as_json))


async def _print(calls: Calls, follow: bool, job: str, node: str, limit: int, as_json: bool) -> None:
    after = -1
    while True:
        reply = await calls.events(GetEvents(after, limit, job, node))
        for event in reply.events:
            after = max(after, event.seq)
            print(_json(event) if as_json else line_of(event), flush=True)
        if not follow:
            return
        await asyncio.sleep(POLL_S)


def _json(event: ev.Event) -> str:
    import msgspec

    return msgspec.json.encode(event).decode()


def line_of(event: ev.Event) -> str:
    """One event as a line: number, local time, what happened."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    return f"{event.seq:>7}  {at}  {clean(words_of(event.body))}"


def words_of(body: Any) -> str:
    """An event's body in words."""
    match body:
        case ev.JobAdded(job):
            return f"job {job.display_id} ({job.spec.name}) of {job.user} submitted"
        case ev.JobChanged(number, status, cause, by):
            who = f" by {by}" if by else ""
            where = f" on {','.join(status.allocation.names)}" if status.allocation and cause == "started" else ""
            return f"job {number} {cause}{who}{where}: {status.state}{f', {status.message}' if status.message else ''}"
        case ev.JobSpecChanged(number, _, what, by):
            return f"job {number} {what}{f' by {by}' if by else ''}"
        case ev.StepChanged(step):
            code = f", exit code {step.exit_code}" if step.exit_code else ""
            return f"step {step.id} ({step.name}) of {step.user}: {step.state}{code}"
        case ev.JobsForgotten(numbers):
            return f"{counted(len(numbers), 'ended job')} left the queue"
        case ev.NodeChanged(node, cause, by):
            reason = f": {node.drain.reason}" if node.drain and cause == "drained" else ""
            return f"node {node.name} {cause}{f' by {by}' if by else ''}{reason}"
        case ev.NodeRemoved(name, by):
            return f"node {name} removed{f' by {by}' if by else ''}"
        case ev.PartitionChanged(partition, _):
            return f"partition {partition.name} configured"
        case ev.ControllerStarted(epoch, version):
            return f"controller {version} started, epoch {epoch}"
    return type(body).__name__
