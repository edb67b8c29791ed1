"""What may happen to the cluster: the only inputs of `step`."""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.agentlink import Attempt, AttemptEnd
from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Forecast, JobSpec
from flagplot_wire.node import Inventory, Partition
from flagplot_wire.policy import Record
from flagplot_wire.requests import Act, ChangePolicy, DrainNodes, RebootNodes, RemoveNodes, ResumeNodes, Update
from flagplot_wire.steps import StepEnd, StepSpec
from flagplotd.core.state import Who


class SubmitJob(Struct, frozen=True):
    """A checked submission. The payload goes to the store in the same transaction, outside the core.

    `never` is the scheduler's word that no configured node can ever hold it (empty: one can).
    """

    who: Who
    spec: JobSpec
    key: str
    never: str = ""
    dry_run: bool = False


class ActOnJobs(Struct, frozen=True):
    """cancel, hold, release or requeue by a person."""

    who: Who
    request: Act


class UpdateJobs(Struct, frozen=True):
    """A change of jobs by a person."""

    who: Who
    request: Update


class Drain(Struct, frozen=True):
    """Nodes out of service."""

    who: Who
    request: DrainNodes


class Resume(Struct, frozen=True):
    """Nodes back in service."""

    who: Who
    request: ResumeNodes


class Reboot(Struct, frozen=True):
    """Nodes that shall reboot."""

    who: Who
    request: RebootNodes


class Remove(Struct, frozen=True):
    """Nodes gone for good."""

    who: Who
    request: RemoveNodes


class ChangeRecords(Struct, frozen=True):
    """A person adds, modifies or removes accounts, users, QoS, partitions or reservations."""

    who: Who
    request: ChangePolicy


class Boot(Struct, frozen=True):
    """The controller starts: a new epoch, the configured partitions, nodes, accounts, users, QoS and reservations."""

    epoch: Epoch
    version: str
    partitions: tuple[Partition, ...] = ()
    nodes: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()


class AgentJoined(Struct, frozen=True):
    """An agent connected: its hardware, what it runs and which ends it still keeps."""

    node: str
    inventory: Inventory
    version: str
    running: tuple[Attempt, ...] = ()
    ended: tuple[AttemptEnd, ...] = ()


class AgentLost(Struct, frozen=True):
    """An agent's connection ended, or its heartbeats stopped."""

    node: str


class InventoryChanged(Struct, frozen=True):
    """An agent's hardware changed while connected."""

    node: str
    inventory: Inventory


class RebootFailed(Struct, frozen=True):
    """A node could not reboot, and why."""

    node: str
    message: str


class Checked(Struct, frozen=True):
    """A node's own checks: what is wrong (nothing: healthy), and whether their own drain ends with it."""

    node: str
    reasons: tuple[str, ...] = ()
    resume: bool = False


class AttemptStarted(Struct, frozen=True):
    """A node confirmed its part of a start."""

    node: str
    number: JobNumber
    attempt: int
    time: int


class AttemptNoted(Struct, frozen=True):
    """A node has a sentence for the owner of a running attempt."""

    node: str
    number: JobNumber
    attempt: int
    message: str


class AttemptEnded(Struct, frozen=True):
    """A node reports the end of its part of an attempt (perhaps again)."""

    node: str
    end: AttemptEnd


class Reported(Struct, frozen=True):
    """A heartbeat's list of what a node runs: what is missing is dead, what is extra must stop."""

    node: str
    running: tuple[Attempt, ...]


class Start(Struct, frozen=True):
    """A planned start; `index` is the array index when `number` is an array record."""

    number: JobNumber
    allocation: Allocation
    index: int | None = None


class Preempt(Struct, frozen=True):
    """Attempts to be preempted for a pending job, and the allocation that it could have with them gone."""

    number: JobNumber
    victims: tuple[Attempt, ...]
    allocation: Allocation


class Planned(Struct, frozen=True):
    """A scheduling cycle's result, re-checked start by start and preemption by preemption against the state of now.

    `forecasts` replaces the whole table of forecasts, or is what changed of it where it is not `whole`. `given_up` are jobs that did not start although all of their
    victims had gone: what is kept for them is free again.
    """

    starts: tuple[Start, ...]
    forecasts: tuple[Forecast, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    given_up: tuple[JobNumber, ...] = ()
    whole: bool = True


class BeginStep(Struct, frozen=True):
    """Somebody starts a step in a running job."""

    who: Who
    job: str
    spec: StepSpec
    as_owner: bool = False


class StepPartEnded(Struct, frozen=True):
    """A node reports the end of its part of a step (perhaps again)."""

    node: str
    end: StepEnd


class EndStep(Struct, frozen=True):
    """A person ends a step."""

    who: Who
    job: str
    step: int


class EndInteractive(Struct, frozen=True):
    """An interactive job's client is done (`who` says so), or gone (`who` is None, `why` a sentence)."""

    who: Who | None
    job: str
    exit_code: int = 0
    why: str = ""


class Staged(Struct, frozen=True):
    """The files that come with a job are with the controller."""

    who: Who
    job: str


class Tick(Struct, frozen=True):
    """Time passed: leases end, held-back retries and begin times come due, old ended jobs are forgotten."""


Stimulus = (
    SubmitJob
    | ActOnJobs
    | UpdateJobs
    | Drain
    | Resume
    | Remove
    | ChangeRecords
    | Boot
    | AgentJoined
    | AgentLost
    | InventoryChanged
    | Checked
    | RebootFailed
    | Reboot
    | AttemptStarted
    | AttemptNoted
    | AttemptEnded
    | Reported
    | Planned
    | BeginStep
    | StepPartEnded
    | EndStep
    | EndInteractive
    | Staged
    | Tick
)
