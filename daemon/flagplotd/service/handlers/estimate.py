"""`Estimate`: when and where a job would start if it were submitted now."""

from __future__ import annotations

from flagplot_wire.errors import Refused
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import Forecast, JobSpec, Reason, Why
from flagplot_wire.replies import Estimated
from flagplot_wire.requests import Estimate
from flagplotd.core import gate
from flagplotd.service.context import Asking

COMPILING = Reason(Why.NOT_YET_EXAMINED, "the scheduler is still being compiled")


async def handle(asking: Asking, request: Estimate) -> Estimated:
    """The forecast of a job not submitted."""
    await asking.server.cycle.loaded.wait()
    await asking.server.loop.settled()
    return Estimated(await forecast(asking, request.spec))


async def forecast(asking: Asking, asked: JobSpec) -> Forecast:
    """Refuses what `Submit` would refuse; the snapshot is taken here, the plan made in the scheduler's thread."""
    from flagplotd.sched import explain
    from flagplotd.sched.eligible import why_waiting

    server = asking.server
    state, now, policy = server.state, server.loop.now(), server.cycle.policy
    spec = gate.check_spec(state, asked, asking.who)
    if sentence := explain.never_fits(state, spec):
        raise Refused("never_fits", sentence, gate.wider(spec.request))
    job = explain.imagined(spec, asking.who, now)
    if reasons := why_waiting(state, job, now):
        only_begin = all(reason.why is Why.BEGIN_TIME for reason in reasons)
        return Forecast(JobNumber(0), tuple(reasons), spec.begin if only_begin else None)
    if not server.cycle.compiled.is_set():
        return Forecast(JobNumber(0), (COMPILING,))
    return await server.cycle.ask(lambda snapshot: explain.forecast_of(snapshot, policy, explain.UNSUBMITTED), job)
