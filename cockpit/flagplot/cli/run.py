"""`flagplot run`: a step in the job that we are in, or a job of its own for it (as `srun`)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from typing import Any

import click
import msgspec

from flagplot.cli.common import print_warnings, target_of
from flagplot.cli.submit import SubmitCommand, split_own
from flagplot.cli.terminal import Printer, on_this_terminal, tell, window
from flagplot.client.calls import Calls
from flagplot.client.connection import Connection
from flagplot.client.inherited import with_inherited
from flagplot.client.steps import StepClient
from flagplot.client.target import Target
from flagplot.script.build import build, parse_arguments
from flagplot.script.options import Given
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, JobSpec, Payload
from flagplot_wire.requests import Act
from flagplot_wire.steps import StepSpec

OF_JOBS = ("mem", "mem-per-cpu", "mem-per-gpu", "gpus", "gpus-per-node", "gres", "vram", "time")
"""Options that people give to steps in vain: those of the job hold."""
OWN = {
    "--label": False,
    "-l": False,
    "--pty": False,
    "--kill-on-bad-exit": False,
    "-K": False,
    "--jobid": True,
    "--no-container": False,
    "--help": False,
    "-h": False,
}
POLL_S = 0.2
SOON_S = 0.02
"""The first look, since most jobs start at once; the pauses grow to `POLL_S`."""
PLACEHOLDER = "#!/bin/sh\n# This job holds its nodes for flagplot run.\n"


@click.command(
    "run", cls=SubmitCommand, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("-l", "--label", is_flag=True, help="Write each line behind the rank of its task.")
@click.option("--pty", is_flag=True, help="Give the task a terminal.")
@click.option("-K", "--kill-on-bad-exit", is_flag=True, help="End all tasks when one fails.")
@click.option("--jobid", metavar="JOB", help="Run in this running job of yours.")
@click.option("--no-container", is_flag=True, help="Run outside of the job's container.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] COMMAND [ARGS]...")
@click.pass_context
def command(
    context: click.Context,
    label: bool,
    pty: bool,
    kill_on_bad_exit: bool,
    jobid: str | None,
    no_container: bool,
    words: tuple[str, ...],
) -> None:
    """Run a command over the job's nodes; outside a job, in a job made for it.

    Output comes back as it is written; the exit code is the highest of the tasks. In a job with a container it runs
    in that.
    """
    own, rest = split_own(list(words), OWN)
    label = label or "--label" in own or "-l" in own
    pty = pty or "--pty" in own
    kill = kill_on_bad_exit or "--kill-on-bad-exit" in own or "-K" in own
    outside = no_container or "--no-container" in own
    given, argv = parse_arguments(rest)
    if not argv:
        raise Refused("usage", "no command was given", "flagplot run [OPTIONS] COMMAND")
    job = str(own.get("--jobid", jobid) or os.environ.get("FLAGPLOT_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "")
    spec, payload, warnings = _built(given, argv)
    if spec.container_image and outside:
        raise Refused("bad_container", "--container-image and --no-container contradict each other")
    if spec.array:
        raise Refused("usage", "--array is for submit: a step has ranks", "-n says how many tasks")
    if spec.stage_in or spec.stage_out:
        raise Refused("usage", "--stage-in and --stage-out are for submit", "flagplot cp copies while the job runs")
    unheeded = [f"--{one.option.long}" for one in given if one.option.long in OF_JOBS] if job else []
    if unheeded:
        warnings.append(f"{', '.join(unheeded)}: no effect on a step, which has what job {job} holds")
    print_warnings(warnings)
    step = step_of(spec, given, argv, payload.environment, pty, kill)
    step = msgspec.structs.replace(step, no_container=outside)
    sys.exit(asyncio.run(_run(target_of(context), job, spec, step, label)))


def _built(given: list[Given], argv: list[str]) -> tuple[JobSpec, Payload, list[str]]:
    environment = {key: value for key, value in os.environ.items() if key not in ("FLAGPLOT_FD", "FLAGPLOT_SOCKET")}
    return build(
        [], given, script_text=PLACEHOLDER, script_name=os.path.basename(argv[0]), args=argv[1:], work_dir=os.getcwd(),
        environment=environment, now=int(time.time()), utc_offset_s=time.localtime().tm_gmtoff,
    )  # fmt: skip


def step_of(
    spec: JobSpec, given: list[Given], argv: list[str], environment: dict[str, str], pty: bool, kill: bool
) -> StepSpec:
    """The step that these options ask for; what was not given stays with the job's."""
    said = {one.option.long for one in given}
    request = spec.request
    rows, columns = window()
    return StepSpec(
        spec.name,
        tuple(argv),
        environment,
        spec.work_dir,
        tasks=request.tasks,
        nodes=request.nodes_min if "nodes" in said else 0,
        tasks_per_node=request.tasks_per_node,
        cpus_per_task=request.cpus_per_task if "cpus-per-task" in said else 0,
        gpus_per_task=sum(one.count for one in request.gpus_per_task),
        nodelist=request.nodelist,
        exclude=request.exclude,
        pty=pty,
        rows=rows,
        columns=columns,
        stdin=spec.stdin if spec.stdin.isdecimal() or spec.stdin in ("none", "all") else "all",
        stdout="" if spec.stdout == "all" else spec.stdout,
        stderr=spec.stderr,
        input="" if spec.stdin.isdecimal() or spec.stdin in ("none", "all") else spec.stdin,
        append=spec.open_mode == "append",
        kill_on_bad_exit=kill,
        container_image=spec.container_image,
        container_mounts=spec.container_mounts,
        container_workdir=spec.container_workdir,
    )


async def _run(target: Target, job: str, spec: JobSpec, step: StepSpec, label: bool) -> int:
    connection = await Connection.open(target)
    try:
        if job:
            return await carry(connection, job, step, label)
        async with Allocation(connection, spec, step.environment) as allocation:
            found = await allocation.started()
            if found is None:
                return allocation.exit_code
            allocation.exit_code = await carry(connection, str(found.number), _inside(step), label)
            return allocation.exit_code
    finally:
        await connection.close()


def _inside(step: StepSpec) -> StepSpec:
    """The allocation was made to these counts: the step has the job's own layout."""
    return msgspec.structs.replace(step, tasks=0, nodes=0, tasks_per_node=0, nodelist=(), exclude=())


async def carry(connection: Connection, job: str, step: StepSpec, label: bool = False, as_owner: bool = False) -> int:
    """Start a step and stay with it."""
    printer = Printer(label)
    client = StepClient(connection, printer, tell)
    found = await client.start(job, step, as_owner)
    printer.tasks(found.tasks)
    return await on_this_terminal(client, printer, step.pty, stdin=step.stdin != "none" and not step.input)


class Allocation:
    """A job made for one command: asked for, waited for, ended."""

    def __init__(self, connection: Connection, spec: JobSpec, environment: dict[str, str]) -> None:
        request = msgspec.structs.replace(spec.request, launch="interactive")
        self._spec = msgspec.structs.replace(spec, request=request, requeue=False, stdout="", stderr="", stdin="")
        self._payload = with_inherited(Payload(PLACEHOLDER))
        self._calls = Calls(connection)
        self._number = 0
        self.exit_code = 130

    async def __aenter__(self) -> Allocation:
        reply = await self._calls.submit(self._spec, self._payload, uuid.uuid4().hex)
        self._number = reply.number
        print_warnings(reply.warnings)
        await self._calls.claim(str(self._number))
        return self

    async def started(self) -> Job | None:
        """Wait for the job, saying why it waits; None when it ended instead."""
        told = ""
        began = time.monotonic()
        try:
            while True:
                reply = await self._calls.job(str(self._number))
                job = reply.jobs[0]
                state = str(job.status.state)
                if state == "RUNNING":
                    if told:
                        tell(f"job {self._number} has been allocated")
                    return job
                if state != "PENDING":
                    tell(
                        f"job {self._number} is {state.lower()}{': ' if job.status.message else ''}{job.status.message}"
                    )
                    self.exit_code = 1
                    return None
                words = _reasons(reply.forecasts)
                if words != told and time.monotonic() - began > 0.5:
                    told = words
                    tell(f"job {self._number} queued and waiting for resources ({words})")
                waited = time.monotonic() - began
                await asyncio.sleep(max(SOON_S, min(waited / 2, POLL_S)))
        except asyncio.CancelledError:
            await self._calls.act(Act("cancel", (str(self._number),)))
            tell(f"job {self._number} was cancelled while it waited")
            raise

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._calls.end_job(str(self._number), self.exit_code)
        except Refused as refused:
            tell(refused.message)


def _reasons(forecasts: Any) -> str:
    for forecast in forecasts:
        if forecast.never:
            return str(forecast.never)
        words = [f"{one.why}{': ' if one.text else ''}{one.text}" for one in forecast.reasons]
        if words:
            return "; ".join(words)
    return "not looked at yet"
