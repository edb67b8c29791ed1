"""Frames between the controller and an agent; the agent dials in.

A start carries (job, attempt, epoch): the agent writes the attempt down before it executes anything, answers a
repeated one with what it did, and refuses an older epoch. Ends are kept by the agent until acknowledged.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import JobSpec, Payload
from flagplot_wire.node import Inventory
from flagplot_wire.steps import StepEnd
from flagplot_wire.telemetry import NodeSample


class Attempt(Struct, frozen=True):
    """One start of one job."""

    number: JobNumber
    attempt: int


class AttemptEnd(Struct, frozen=True, omit_defaults=True):
    """How an attempt ended on one node.

    `cause` is `exited` (see `exit_code`, `signal`), `timeout`, `stopped` (by order), `oom`, `launch_failed`
    (`message` names what and why), or `lost` (found gone after a reboot or a keeper's death). `drain` (a reason)
    asks that the node takes no new jobs: its prolog or epilog failed. `gpu_percent` is the mean utilisation of each of
    the attempt's GPUs, added up (None: not measured, or it holds none). `oom_kills` counts the processes that the
    kernel killed because the job's memory there was used up, whatever ended the attempt.
    """

    number: JobNumber
    attempt: int
    cause: Literal["exited", "timeout", "stopped", "oom", "launch_failed", "lost"]
    exit_code: int = 0
    signal: int = 0
    time: int = 0
    started: int = 0
    message: str = ""
    cpu_ms: int = 0
    memory_peak_mib: int = 0
    drain: str = ""
    gpu_percent: int | None = None
    oom_kills: int = 0


class AgentHello(Struct, frozen=True, omit_defaults=True, tag="agent_hello"):
    """First frame of an agent: what it is, what it runs, which ends are not acknowledged.

    `epoch` is the highest it has obeyed; `user` is who jobs run as (`root`: as whoever submitted).
    """

    protocol: int
    version: str
    node: str
    inventory: Inventory
    time: int
    epoch: Epoch = Epoch(0)
    pid: int = 0
    user: str = ""
    running: tuple[Attempt, ...] = ()
    ended: tuple[AttemptEnd, ...] = ()


class AgentWelcome(Struct, frozen=True, omit_defaults=True, tag="agent_welcome"):
    """Accepted. `refused` (a sentence) means: not accepted, try again only after a change.

    `vram_guard`, `idle_gpus` and `health_resume` are the cluster's policies (see `node_policy`); empty: none said.
    """

    epoch: Epoch
    cluster: str = ""
    heartbeat_s: int = 5
    sample_s: int = 2
    kill_wait_s: int = 30
    refused: str = ""
    streams_key: str = ""
    vram_guard: str = ""
    idle_gpus: str = ""
    health_resume: str = ""


class Heartbeat(Struct, frozen=True, omit_defaults=True, tag="heartbeat"):
    """Alive; sent every `heartbeat_s` with what runs, for reconciliation."""

    time: int
    running: tuple[Attempt, ...] = ()


class SampleReport(Struct, frozen=True, tag="sample"):
    """The latest measurements."""

    sample: NodeSample


class InventoryReport(Struct, frozen=True, tag="inventory"):
    """The hardware changed (a GPU was lost or came back)."""

    inventory: Inventory


class HealthReport(Struct, frozen=True, omit_defaults=True, tag="health"):
    """What the node's own checks find wrong, a sentence each (none: healthy); repeated while something is.

    `resume`: a drain that such a report made may be taken back by one without reasons.
    """

    reasons: tuple[str, ...] = ()
    resume: bool = False


class AskTime(Struct, frozen=True, tag="ask_time"):
    """`TellTime` with the same `call`."""

    call: int


class TellTime(Struct, frozen=True, tag="tell_time"):
    """The controller's clock, seconds since the epoch."""

    call: int
    time: int


class Launch(Struct, frozen=True, omit_defaults=True, tag="launch"):
    """Start this node's part of an attempt.

    `deadline_s` is seconds from the start to SIGTERM (0: no limit), `kill_wait_s` from there to SIGKILL.
    `node_index` says which part of `allocation` is meant; the batch script runs on part 0 only.
    """

    epoch: Epoch
    number: JobNumber
    attempt: int
    user: str
    uid: int
    gid: int
    spec: JobSpec
    payload: Payload
    allocation: Allocation
    node_index: int
    deadline_s: int
    kill_wait_s: int = 30
    restarts: int = 0
    submit_host: str = ""
    cluster: str = ""
    array_number: JobNumber = JobNumber(0)
    array_index: int | None = None
    array_min: int = 0
    array_max: int = 0
    array_count: int = 0


class Stop(Struct, frozen=True, omit_defaults=True, tag="stop"):
    """End an attempt: SIGTERM, after `kill_wait_s` SIGKILL (0: at once). `reason` goes to the job's output."""

    epoch: Epoch
    number: JobNumber
    attempt: int
    kill_wait_s: int = 30
    reason: str = ""


class Signal(Struct, frozen=True, tag="signal"):
    """Send one signal (`USR1`) to the processes of an attempt, and nothing else."""

    epoch: Epoch
    number: JobNumber
    attempt: int
    signal: str


class Extend(Struct, frozen=True, tag="extend"):
    """The time limit changed: SIGTERM now comes `deadline_s` seconds after the start (0: never)."""

    epoch: Epoch
    number: JobNumber
    attempt: int
    deadline_s: int


class Started(Struct, frozen=True, omit_defaults=True, tag="started"):
    """The attempt is running here since `time`; `stdout` and `stderr` are the real paths (batch node)."""

    number: JobNumber
    attempt: int
    time: int
    stdout: str = ""
    stderr: str = ""
    enforced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Ended(Struct, frozen=True, tag="ended"):
    """An attempt ended; repeated until acknowledged. One that ended before its start was told brings that too."""

    end: AttemptEnd
    started: Started | None = None


class AckEnds(Struct, frozen=True, tag="ack_ends"):
    """These ends are durable at the controller: forget them."""

    ends: tuple[Attempt, ...]


class ReadFile(Struct, frozen=True, omit_defaults=True, tag="read_file"):
    """`FilePiece` with the same `call`: a piece of an attempt's output, opened as the job's user.

    With `search` it is the piece around the last place before `offset` (negative: the end) where that text stands.
    """

    call: int
    number: JobNumber
    attempt: int
    stream: Literal["stdout", "stderr"]
    path: str
    user: str
    uid: int
    gid: int
    offset: int
    limit: int
    search: str = ""


class FilePiece(Struct, frozen=True, omit_defaults=True, tag="file_piece"):
    """The bytes, or why not (`error` a sentence; empty: fine). `found` and `searched` are as in `replies.Output`."""

    call: int
    path: str
    offset: int = 0
    size: int = 0
    data: bytes = b""
    error: str = ""
    found: int = -1
    searched: int = -1


class JobNoted(Struct, frozen=True, tag="job_noted"):
    """Something that the owner of a running attempt should read: a sentence."""

    number: JobNumber
    attempt: int
    message: str


class StepEnded(Struct, frozen=True, tag="step_ended"):
    """A node's part of a step ended; repeated until acknowledged, and before the end of its job."""

    end: StepEnd


class AckSteps(Struct, frozen=True, tag="ack_steps"):
    """These ends of steps (job, attempt, step) are durable at the controller: forget them."""

    ends: tuple[tuple[JobNumber, int, int], ...]


class StopStep(Struct, frozen=True, omit_defaults=True, tag="stop_step"):
    """End a step: SIGTERM, after `kill_wait_s` SIGKILL."""

    epoch: Epoch
    number: JobNumber
    attempt: int
    step: int
    kill_wait_s: int = 30


class Reboot(Struct, frozen=True, tag="reboot"):
    """Reboot the machine by the site's program: no job is on it any more."""

    epoch: Epoch
    reason: str


class RebootFailed(Struct, frozen=True, tag="reboot_failed"):
    """Why the machine was not rebooted."""

    message: str


class Leave(Struct, frozen=True, omit_defaults=True, tag="leave"):
    """Shut the agent down. `jobs`: leave them to the keeper, or end them first."""

    jobs: Literal["leave", "cancel"] = "leave"


FromAgent = (
    AgentHello
    | Heartbeat
    | SampleReport
    | InventoryReport
    | Started
    | Ended
    | FilePiece
    | StepEnded
    | HealthReport
    | AskTime
    | JobNoted
    | RebootFailed
)
ToAgent = (
    AgentWelcome
    | Launch
    | Stop
    | Signal
    | Extend
    | AckEnds
    | ReadFile
    | Leave
    | AckSteps
    | StopStep
    | TellTime
    | Reboot
)
