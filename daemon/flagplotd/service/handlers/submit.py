"""`Submit`: the gate before the core."""

from __future__ import annotations

from msgspec.structs import replace

from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import JobSpec
from flagplot_wire.replies import Acted, Submitted
from flagplot_wire.requests import Submit
from flagplotd.core import gate
from flagplotd.core.stimuli import SubmitJob
from flagplotd.service.context import Asking, Server
from flagplotd.service.handlers.estimate import forecast
from flagplotd.service.sizes import size_of

MAX_SCRIPT = 4 * 1024 * 1024
MAX_ENVIRONMENT = 1024 * 1024
MAX_SPEC = 64 * 1024
MAX_KEY = 128


async def handle(asking: Asking, request: Submit) -> Submitted | Acted:
    """Check what the core does not see, then hand the job in; the reply comes when it is durable."""
    server, payload = asking.server, request.payload
    if not request.key or len(request.key) > MAX_KEY:
        raise Refused("bad_request", f"a submission needs a key of 1 to {MAX_KEY} characters")
    if len(payload.script.encode(errors="surrogatepass")) > MAX_SCRIPT:
        raise Refused("bad_script", "the script is larger than 4 MiB", "keep data in files beside it")
    if sum(len(name) + len(value) for name, value in payload.environment.items()) > MAX_ENVIRONMENT:
        raise Refused("bad_request", "the environment is larger than 1 MiB", "export fewer variables (--export)")
    if sum(len(text) for text in payload.args) > MAX_ENVIRONMENT:
        raise Refused("bad_request", "the arguments are larger than 1 MiB", "keep data in files")
    if size_of(request.spec) > MAX_SPEC:
        raise Refused("bad_request", "the options of the job are larger than 64 KiB", "shorten the longest of them")
    _no_nul(request)
    await server.cycle.loaded.wait()
    if request.dry_run:
        await server.loop.settled()
        return Submitted(JobNumber(0), forecast=await forecast(asking, request.spec))
    never = never_fits(server, _with_partition(asking, request.spec))
    reply = await server.loop.reply(SubmitJob(asking.who, request.spec, request.key, never), payload)
    if isinstance(reply, Submitted) and not reply.again:
        server.dispatch.payloads.keep(reply.number, payload)
    return reply


def _no_nul(request: Submit) -> None:
    spec, payload = request.spec, request.payload
    texts = (spec.work_dir, spec.stdout, spec.stderr, spec.stdin, *payload.args, *payload.environment)
    if any("\0" in text for text in (*texts, *payload.environment.values(), payload.script)):
        raise Refused("bad_request", "a path, argument, variable or the script holds a NUL byte")


def _with_partition(asking: Asking, spec: JobSpec) -> JobSpec:
    if spec.partition or not asking.server.state.partitions:
        return spec
    return replace(spec, partition=gate.find_partition(asking.server.state, "", asking.who).name)


def never_fits(server: Server, spec: JobSpec) -> str:
    """The scheduler's sentence, remembered until a node changes: identical requests come by the thousand."""
    from flagplotd.sched import explain

    known, key = server.loop.never, (spec.partition, spec.request)
    if key not in known:
        if len(known) > 1_000:
            known.clear()
        known[key] = explain.never_fits(server.state, spec)
    return known[key]
