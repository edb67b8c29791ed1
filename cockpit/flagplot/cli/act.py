"""`flagplot cancel | hold | release | requeue`."""

from __future__ import annotations

from typing import Any

import click

from flagplot.cli.common import ask, finish, json_option
from flagplot.client.calls import Calls
from flagplot_wire.errors import Refused
from flagplot_wire.replies import Acted
from flagplot_wire.requests import Act


def _run(context: click.Context, verb: Any, jobs: tuple[str, ...], as_json: bool, signal: str = "") -> None:
    finish(ask(context, lambda calls: calls.act(Act(verb, jobs, signal))), as_json)


@click.command("cancel")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("-s", "--signal", default="", help="Send this signal (USR1) instead of ending the job.")
@json_option
@click.pass_context
def cancel(context: click.Context, jobs: tuple[str, ...], signal: str, as_json: bool) -> None:
    """Cancel jobs: 41, 41_3 or 41_[1-3], or a step: 41.0. Running ones get SIGTERM, after the grace period SIGKILL."""
    steps = [text for text in jobs if "." in text]
    if not steps:
        _run(context, "cancel", jobs, as_json, signal)
        return
    if signal or len(steps) < len(jobs):
        raise Refused("usage", "steps are cancelled by themselves and without --signal", "flagplot cancel 41.0")

    async def each(calls: Calls) -> Acted:
        found = [await calls.cancel_step(*_step(text)) for text in steps]
        return Acted(tuple(one for acted in found for one in acted.results))

    finish(ask(context, each), as_json)


def _step(text: str) -> tuple[str, int]:
    job, _, step = text.partition(".")
    if not step.isdecimal():
        raise Refused("usage", f"{text!r} is no step that can be cancelled: write 41.0")
    return job, int(step)


@click.command("hold")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@json_option
@click.pass_context
def hold(context: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """Keep pending jobs from starting."""
    _run(context, "hold", jobs, as_json)


@click.command("release")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@json_option
@click.pass_context
def release(context: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """Let held jobs start."""
    _run(context, "release", jobs, as_json)


@click.command("requeue")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@json_option
@click.pass_context
def requeue(context: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """Start jobs again from the beginning, with the same number."""
    _run(context, "requeue", jobs, as_json)
