"""One file for each request; the table below finds the handler by the request's type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flagplot_wire import requests as rq
from flagplot_wire.replies import Reply
from flagplotd.service.context import Asking
from flagplotd.service.handlers import (
    act,
    change_policy,
    drain,
    estimate,
    events,
    explain,
    fairshare,
    hello,
    job,
    nodes,
    output,
    partitions,
    policy,
    priority,
    queue,
    reboot,
    remove,
    resume,
    script,
    shutdown,
    stage,
    status,
    steps,
    submit,
    templates,
    update,
    usage,
)

Handler = Callable[[Asking, Any], Awaitable[Reply]]

HANDLERS: dict[type, Handler] = {
    rq.Hello: hello.handle,
    rq.Submit: submit.handle,
    rq.Act: act.handle,
    rq.Update: update.handle,
    rq.DrainNodes: drain.handle,
    rq.ResumeNodes: resume.handle,
    rq.RebootNodes: reboot.handle,
    rq.RemoveNodes: remove.handle,
    rq.GetQueue: queue.handle,
    rq.GetNodes: nodes.handle,
    rq.GetJob: job.handle,
    rq.GetScript: script.handle,
    rq.GetTemplates: templates.handle,
    rq.GetPartitions: partitions.handle,
    rq.GetPriority: priority.handle,
    rq.GetFairshare: fairshare.handle,
    rq.GetUsage: usage.handle,
    rq.ChangePolicy: change_policy.handle,
    rq.GetPolicy: policy.handle,
    rq.Explain: explain.handle,
    rq.Estimate: estimate.handle,
    rq.ReadOutput: output.handle,
    rq.GetEvents: events.handle,
    rq.GetStatus: status.handle,
    rq.Shutdown: shutdown.handle,
    rq.StartStep: steps.start,
    rq.WatchStep: steps.watch,
    rq.OpenPort: steps.open_port,
    rq.OpenFile: steps.open_file,
    rq.OpenStage: stage.open_stage,
    rq.GetStage: stage.stage,
    rq.StageDone: stage.done,
    rq.GetSteps: steps.steps,
    rq.CancelStep: steps.cancel,
    rq.Claim: steps.claim,
    rq.EndJob: steps.end_job,
}
"""`Subscribe` is not here: it belongs to the connection (see `flagplotd.service.session`)."""
