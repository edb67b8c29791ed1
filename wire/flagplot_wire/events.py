"""Events: the journal, the live stream of every cockpit and the replay after a crash are made of these.

An event carries the new state of what it changes, so that applying one twice changes nothing.
Tags and fields are append-only: journals written by older versions load for ever.
"""

from __future__ import annotations

from msgspec import Struct

from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Job, JobSpec, Status
from flagplot_wire.node import Node, Partition
from flagplot_wire.policy import Kind, Record, Usage
from flagplot_wire.steps import Step


class JobAdded(Struct, frozen=True, tag="job_added"):
    """A job was submitted, or an element was split off its array."""

    job: Job


class JobChanged(Struct, frozen=True, omit_defaults=True, tag="job_changed"):
    """A job's status is now `status`. `cause` is a word (`started`, `ended`, `cancelled`, `requeued`, …)."""

    number: JobNumber
    status: Status
    cause: str
    by: str = ""


class JobSpecChanged(Struct, frozen=True, omit_defaults=True, tag="job_spec_changed"):
    """Someone updated, held or released a job; `what` says it in words."""

    number: JobNumber
    spec: JobSpec
    what: str
    by: str = ""


class JobsForgotten(Struct, frozen=True, tag="jobs_forgotten"):
    """Ended jobs left the live state; the store keeps their history."""

    numbers: tuple[JobNumber, ...]


class NodeChanged(Struct, frozen=True, omit_defaults=True, tag="node_changed"):
    """A node is new or changed. `cause` is a word (`registered`, `lost`, `back`, `drained`, `resumed`)."""

    node: Node
    cause: str
    by: str = ""


class NodeRemoved(Struct, frozen=True, omit_defaults=True, tag="node_removed"):
    """A node left the cluster."""

    name: str
    by: str = ""


class PartitionChanged(Struct, frozen=True, omit_defaults=True, tag="partition_changed"):
    """A partition is new or changed."""

    partition: Partition
    by: str = ""


class PartitionRemoved(Struct, frozen=True, omit_defaults=True, tag="partition_removed"):
    """A partition without jobs is gone."""

    name: str
    by: str = ""


class PolicyChanged(Struct, frozen=True, omit_defaults=True, tag="policy_changed"):
    """An account, association, QoS or reservation is new or changed; `what` says it in words."""

    record: Record
    what: str = ""
    by: str = ""


class PolicyRemoved(Struct, frozen=True, omit_defaults=True, tag="policy_removed"):
    """An account, association, QoS or reservation is gone."""

    kind: Kind
    key: str
    by: str = ""


class UsageUpdated(Struct, frozen=True, omit_defaults=True, tag="usage_updated"):
    """The decayed usage of associations at `time`; those not named keep theirs."""

    time: int
    usage: tuple[Usage, ...]


class StepChanged(Struct, frozen=True, tag="step_changed"):
    """A step began, a part of it ended, or all of it."""

    step: Step


class ControllerStarted(Struct, frozen=True, tag="controller_started"):
    """The controller started; every start has a higher epoch."""

    epoch: Epoch
    version: str


Body = (
    JobAdded
    | JobChanged
    | JobSpecChanged
    | JobsForgotten
    | NodeChanged
    | NodeRemoved
    | PartitionChanged
    | PartitionRemoved
    | PolicyChanged
    | PolicyRemoved
    | UsageUpdated
    | StepChanged
    | ControllerStarted
)


class Event(Struct, frozen=True):
    """One entry of the journal: `seq` has no gaps, `time` is epoch seconds."""

    seq: int
    time: int
    body: Body
