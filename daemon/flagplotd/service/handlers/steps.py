"""Steps, ports and files of running jobs: who may, then a stream to the node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from flagplot_wire import streams as ws
from flagplot_wire.errors import Refused
from flagplot_wire.job import Job, Payload
from flagplot_wire.job import State as JobState
from flagplot_wire.replies import Acted, Opened, Steps, StepStarted
from flagplot_wire.requests import CancelStep, Claim, EndJob, GetSteps, OpenFile, OpenPort, StartStep, WatchStep
from flagplot_wire.steps import StepEnd, StepPart
from flagplotd.core import stimuli as st
from flagplotd.service.context import Asking
from flagplotd.service.handlers.finding import find_one, owner_or_operator
from flagplotd.service.relay import NodeStreams
from flagplotd.service.sizes import size_of
from flagplotd.store import queries

MAX_SPEC = 2 * 1024 * 1024


async def start(asking: Asking, request: StartStep) -> StepStarted:
    """Write the step down, then connect the client to each of its nodes, which start it."""
    server, spec = asking.server, request.spec
    boxed = (spec.container_image, spec.container_mounts, spec.container_workdir)
    texts = (spec.work_dir, spec.stdout, spec.stderr, spec.input, *boxed, *spec.argv, *spec.environment)
    if any("\0" in text for text in (*texts, *spec.environment.values())):
        raise Refused("bad_request", "a path, argument or variable holds a NUL byte")
    if size_of(spec) > MAX_SPEC:
        raise Refused("bad_request", "the step's arguments and environment are larger than 2 MiB", "export less")
    reply = await server.loop.answer(st.BeginStep(asking.who, request.job, spec, request.as_owner), StepStarted)
    step = reply.step
    job = server.state.jobs[step.number]
    payload = await server.dispatch.payloads.get(job.array_number or job.number) or Payload("")
    environment = {**(payload.environment if spec.kind == "shell" else {}), **spec.environment}
    launch = server.dispatch.step_launch(job, payload, environment)
    try:
        opened = _open_all(asking, request.stream, step.parts)
    except Refused as refused:
        for part in step.parts:
            end = StepEnd(step.number, step.attempt, step.step, part.node, "lost", 1, message=refused.message)
            server.loop.post(st.StepPartEnded(part.node, end))
        raise
    slim = replace(spec, environment={})
    for index, (node, there) in enumerate(opened):
        node.send(ws.ConnectStep(there, step.number, step.attempt, step.step, launch, slim, step.parts, index))
    return reply


async def watch(asking: Asking, request: WatchStep) -> StepStarted:
    """Connect the client to the parts of a running step that have not ended, to see what they write."""
    job = await find_one(asking, request.job)
    owner_or_operator(asking, job)
    if request.stdin and job.user != asking.who.user:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}", "--no-stdin only watches it")
    running = asking.server.state.steps.get(job.number, {})
    step = running.get(request.step if request.step >= 0 else max(running, default=-1))
    if step is None and request.step >= 0:
        what = f"step {job.display_id}.{request.step}"
        raise Refused("not_running", f"{what} does not run", "flagplot show job lists the steps")
    if step is None:
        script = (
            "; its script reads no input from here (-i gives it a file)" if job.status.state is JobState.RUNNING else ""
        )
        raise Refused(
            "not_running", f"no step of job {job.display_id} runs{script}",
            "flagplot logs -f follows the script's output, flagplot run starts a step",
        )  # fmt: skip
    parts = tuple(part for part in step.parts if part.node not in step.ended)
    for node, there in _open_all(asking, request.stream, parts):
        node.send(ws.ConnectStep(there, step.number, step.attempt, step.step, stdin=request.stdin))
    return StepStarted(replace(step, parts=parts))


def _open(asking: Asking, number: int, name: str) -> tuple[NodeStreams, int]:
    """Connect stream `number` of the client to a node; returns the node's streams and its number for this one."""
    link = asking.server.agents.links.get(name)
    if link is None or link.streams is None:
        raise Refused("unavailable", f"node {name} is not connected", "try again when it is back")
    return link.streams, asking.streams.open(number, link.streams)


def _open_all(asking: Asking, first: int, parts: Sequence[StepPart]) -> list[tuple[NodeStreams, int]]:
    """As `_open`, for the nodes of a step: all of them, or none where one refuses."""
    opened: list[tuple[NodeStreams, int]] = []
    try:
        for part in parts:
            opened.append(_open(asking, first + len(opened), part.node))
    except Refused as refused:
        for index in range(len(opened)):
            asking.streams.relays[first + index].end(refused)
        raise
    return opened


async def _running(asking: Asking, text: str, node: str, as_owner: bool = False) -> tuple[Job, str]:
    """The job and the node meant (empty: its first), where the asker may go there."""
    job = await find_one(asking, text)
    owner_or_operator(asking, job)
    if job.user != asking.who.user and not as_owner:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}", "say --as-owner")
    if job.status.state is not JobState.RUNNING or job.status.allocation is None:
        raise Refused("not_running", f"job {job.display_id} is {job.status.state.lower()}, not running")
    names = job.status.allocation.names
    if node and node not in names:
        raise Refused("bad_request", f"node {node} is not one of the job's: {', '.join(names[:8])}")
    return job, node or names[0]


async def open_port(asking: Asking, request: OpenPort) -> Opened:
    """A TCP connection to a port of the job."""
    if not 0 < request.port < 65_536:
        raise Refused("bad_request", f"{request.port} is no port")
    job, node = await _running(asking, request.job, request.node, request.as_owner)
    streams, there = _open(asking, request.stream, node)
    streams.send(ws.ConnectPort(there, job.number, job.status.attempt, job.uid, request.port))
    return Opened(node)


async def open_file(asking: Asking, request: OpenFile) -> Opened:
    """A file of the job's user on a node; only its owner."""
    job, node = await _running(asking, request.job, request.node)
    if "\0" in request.path or not request.path:
        raise Refused("bad_request", "a path is needed, without NUL bytes")
    streams, there = _open(asking, request.stream, node)
    streams.send(
        ws.ConnectFile(
            there, job.number, job.status.attempt, job.user, job.uid, job.gid, request.verb, request.path,
            request.mode & 0o777, request.force,
        )
    )  # fmt: skip
    return Opened(node)


async def steps(asking: Asking, request: GetSteps) -> Steps:
    """A job's steps, from the store."""
    job = await find_one(asking, request.job)
    return Steps(tuple(await asking.server.loop.store.read(lambda path: queries.steps(path, job.number))))


async def cancel(asking: Asking, request: CancelStep) -> Acted:
    """End a step."""
    return await asking.server.loop.answer(st.EndStep(asking.who, request.job, request.step), Acted)


async def claim(asking: Asking, request: Claim) -> Acted:
    """The job lives as long as this connection."""
    job = await find_one(asking, request.job)
    if job.user != asking.who.user:
        raise Refused("not_permitted", f"job {job.display_id} belongs to {job.user}")
    if job.spec.request.launch != "interactive":
        raise Refused("bad_request", f"job {job.display_id} is no interactive job")
    asking.server.claims.take(job.number, asking)
    return Acted()


async def end_job(asking: Asking, request: EndJob) -> Acted:
    """The client is done with its job."""
    return await asking.server.loop.answer(st.EndInteractive(asking.who, request.job, request.exit_code), Acted)
