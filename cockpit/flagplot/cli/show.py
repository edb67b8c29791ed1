"""`flagplot show job | node | partition`: one thing in full; `show priority | fairshare`: who stands where, and why."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from flagplot.cli.common import ask, json_option
from flagplot.client.calls import Calls
from flagplot.output.json import (
    fairshare_object,
    gpu_objects,
    job_object,
    node_object,
    print_json,
    priority_object,
    record_object,
    step_object,
)
from flagplot.output.table import table
from flagplot.view.policy import fairshare_table, priority_table
from flagplot.view.words import clock_time, elapsed, memory
from flagplot_wire.errors import Refused
from flagplot_wire.patterns import default_stdout
from flagplot_wire.replies import Jobs, Steps
from flagplot_wire.requests import GetFairshare
from flagplot_wire.text import clean


@click.group("show")
def command() -> None:
    """Show a job, a node or a partition in full; priorities; fair shares."""


def print_fields(found: dict[str, Any]) -> None:
    """One `name  value` a line, for people; what does not apply is a dash, a list of objects has a line for each."""
    wide = max(len(name) for name in found)
    for name, value in found.items():
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
            for index, one in enumerate(value):
                print(f"{name if index == 0 else '':<{wide}}  {clean(_word(one)[1:-1])}")
            continue
        print(f"{name:<{wide}}  {clean(_text(name, value)) or '-'}")


def _text(name: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(_word(one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={_word(one)}" for key, one in value.items())
    if name.endswith("_time") or name == "expected_start":
        return clock_time(value)
    if name == "time_limit_s":
        return elapsed(value) if value else "UNLIMITED"
    return memory(value) if name.endswith("_mib") else str(value)


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + " ".join(f"{key}={_word(one)}" for key, one in value.items()) + ")"
    return str(value)


def whole_object(reply: Jobs, text: str) -> dict[str, Any]:
    """The job asked for; an array with its elements."""
    if not reply.jobs:
        raise Refused("not_found", f"there is no job {text}", "flagplot queue --all lists jobs")
    forecasts = {one.number: one for one in reply.forecasts}
    objects = [job_object(job, forecasts.get(job.number)) for job in reply.jobs]
    for job, found in zip(reply.jobs, objects, strict=True):
        found["confined"] = [msgspec.to_builtins(one) for one in reply.confined if one.number == job.number]
    arrays = [found for job, found in zip(reply.jobs, objects, strict=True) if job.is_array]
    if arrays and "_" not in text:
        arrays[0]["elements"] = [found for found in objects if found["array_task_id"] is not None]
        return arrays[0]
    elements = [found for found in objects if found["array_waiting"] is None]
    return (elements or objects)[0]


@command.command("job")
@click.argument("job")
@json_option
@click.pass_context
def show_job(context: click.Context, job: str, as_json: bool) -> None:
    """One job, also when it ended long ago; an array with its elements."""

    async def both(calls: Calls) -> tuple[Jobs, Steps]:
        return await calls.job(job), await calls.steps(job)

    jobs, steps = ask(context, both)
    found = whole_object(jobs, job)
    found["steps"] = [step_object(one) for one in steps.steps]
    if as_json:
        print_json(found)
        return
    elements = found.pop("elements", None)
    steps_found = found.pop("steps")
    confined = found.pop("confined")
    found["standard_output"] = found["standard_output"] or default_stdout(found["array_task_id"] is not None)
    print_fields(found)
    for one in confined:
        print(f"on {one['nodes']}: enforced {', '.join(map(clean, one.get('enforced', ()))) or 'nothing'}")
        for note in one.get("notes", ()):
            print(f"  {clean(note)}")
    for one in steps_found:
        print(
            f"step {one['id']}: {one['state']} {clean(one['name'])}, {one['tasks']} tasks on {','.join(one['nodes'])}, "
            f"exit code {one['exit_code']}, {one['elapsed_s']} s, CPU {one['cpu_ms'] / 1000:.1f} s, "
            f"{one['memory_peak_mib']} MiB"
        )
    for element in elements or ():
        print(f"element {element['display_id']}: {element['state']} {' '.join(element['nodes'])}")


@command.command("node")
@click.argument("node")
@json_option
@click.pass_context
def show_node(context: click.Context, node: str, as_json: bool) -> None:
    """One node with its GPUs."""
    reply = ask(context, lambda calls: calls.nodes((node,)))
    if not reply.nodes:
        raise Refused("not_found", f"there is no node {node}", "flagplot nodes lists them")
    found = [{**node_object(view), "gpu_list": gpu_objects(view)} for view in reply.nodes]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for one in found:
        print_fields(one)


@command.command("partition")
@click.argument("partition", required=False)
@json_option
@click.pass_context
def show_partition(context: click.Context, partition: str | None, as_json: bool) -> None:
    """One partition, or all."""
    reply = ask(context, lambda calls: calls.partitions())
    found = [one for one in reply.partitions if partition in (None, one.name)]
    if not found:
        there = ", ".join(one.name for one in reply.partitions)
        raise Refused("not_found", f"there is no partition {partition}", f"there are: {there}")
    objects = [record_object(one) for one in found]
    if as_json:
        print_json(objects if partition is None else objects[0])
        return
    for one_object in objects:
        print_fields(one_object)


@command.command("priority")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@json_option
@click.pass_context
def show_priority(context: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """What the priorities of pending jobs (all, or these) are made of, highest first."""
    rows = ask(context, lambda calls: calls.priority(jobs)).rows
    if as_json:
        print_json([priority_object(row) for row in rows])
        return
    print(table(*priority_table(rows)))


@command.command("fairshare")
@click.option("-u", "--user", "users", multiple=True, help="Only this user (may be given again).")
@click.option("-A", "--account", "accounts", multiple=True, help="Only this account (may be given again).")
@json_option
@click.pass_context
def show_fairshare(context: click.Context, users: tuple[str, ...], accounts: tuple[str, ...], as_json: bool) -> None:
    """The fair tree: shares, usage and the factor that follows from them."""
    rows = ask(context, lambda calls: calls.fairshare(GetFairshare(accounts, users))).rows
    if as_json:
        print_json([fairshare_object(row) for row in rows])
        return
    print(table(*fairshare_table(rows)))
