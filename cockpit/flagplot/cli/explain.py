"""`flagplot explain`: why is it pending?"""

from __future__ import annotations

import time

import click

from flagplot.cli.common import ask, json_option
from flagplot_wire.text import clean
from flagplot_wire.units import format_age

EXPLAINED = ("never", "hints", "planned_nodes")
"""Keys that a job's object gets here beside its own."""


@click.command("explain")
@click.argument("job")
@json_option
@click.pass_context
def command(context: click.Context, job: str, as_json: bool) -> None:
    """All reasons why a job is pending, the jobs in front, the planned start, and what would start it now."""
    reply = ask(context, lambda calls: calls.explain(job))
    if as_json:
        from flagplot.output.json import forecast_object, job_object, print_json

        more = forecast_object(reply.forecast)
        print_json({**job_object(reply.job, reply.forecast), **{key: more[key] for key in EXPLAINED}})
        return
    print(f"job {clean(reply.job.display_id)} ({clean(reply.job.spec.name)}) is {reply.job.status.state}")
    if reply.forecast is None:
        if reply.text:
            print(clean(reply.text))
        return
    forecast = reply.forecast
    for reason in forecast.reasons:
        jobs = f": {', '.join(map(str, reason.jobs))}" if reason.jobs else ""
        print(f"  {reason.why:<24}{clean(reason.text)}{jobs}")
    if forecast.never:
        print(f"It can never start: {clean(forecast.never)}")
    elif forecast.start is not None:
        ahead = forecast.start - int(time.time())
        where = f" on {clean(', '.join(forecast.nodes))}" if forecast.nodes else ""
        print(f"Planned to start {'now' if ahead <= 0 else f'in {format_age(ahead)}'}{where}")
    else:
        print("No start is planned yet")
    for hint in forecast.hints:
        print(f"It {clean(hint)}")
