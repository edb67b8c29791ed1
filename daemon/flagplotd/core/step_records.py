"""What the end of an attempt means for the records of its steps."""

from __future__ import annotations

from typing import Literal

import msgspec

from flagplot_wire import events as ev
from flagplot_wire.agentlink import AttemptEnd
from flagplot_wire.job import Job
from flagplot_wire.steps import BATCH_STEP, Step, StepPart
from flagplotd.core.stepper import Stepper

Final = Literal["COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL"]
MAX_COMMAND = 400


def close(step: Stepper, job: Job, final: Final, ended: int) -> None:
    """The job's attempt is over: so is every step whose end nobody told."""
    for record in list(step.state.steps.get(job.number, {}).values()):
        step.emit(ev.StepChanged(msgspec.structs.replace(record, state=final, end_time=ended)))


def batch_ended(step: Stepper, job: Job, node: str, end: AttemptEnd, ended: int) -> None:
    """The script's own record, `JOB.batch`, once its end is known."""
    if job.spec.request.launch != "batch" or end.cause in ("launch_failed", "lost"):
        return
    failed: Final = "CANCELLED" if end.cause == "stopped" else "FAILED"
    record = Step(
        job.number, job.status.attempt, BATCH_STEP, "batch", job.user,
        "COMPLETED" if end.cause == "exited" and end.exit_code == 0 else failed,
        (StepPart(node, 1, 0),), job.spec.command[:MAX_COMMAND], job.status.start_time, ended, end.exit_code, end.signal,
        end.cpu_ms, end.memory_peak_mib, end.message, (node,), batch=True,
    )  # fmt: skip
    step.emit(ev.StepChanged(record))
