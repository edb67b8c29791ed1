"""What the controller answers, and what it pushes to subscribers."""

from __future__ import annotations

from msgspec import Struct, field

from flagplot_wire.accounting import Efficiency, Quota, UsedBy
from flagplot_wire.events import Event
from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Forecast, Job
from flagplot_wire.node import Node, NodeGroup, Partition
from flagplot_wire.policy import FairshareRow, PriorityRow, Record, Reservation
from flagplot_wire.steps import Step
from flagplot_wire.streams import StreamCredit, StreamData, StreamEnd
from flagplot_wire.telemetry import NodeSample


class Failure(Struct, frozen=True, omit_defaults=True, tag="failure"):
    """The request was refused; the fields are those of `Refused`."""

    code: str
    message: str
    hint: str = ""


class Welcome(Struct, frozen=True, omit_defaults=True, tag="welcome"):
    """Who the controller takes the client for, and what it may do. `rights` holds the roles' words."""

    cluster: str
    user: str
    roles: tuple[str, ...]
    epoch: Epoch
    version: str
    time: int
    simulated: bool = False


class SnapshotPart(Struct, frozen=True, omit_defaults=True, tag="snapshot"):
    """A piece of the cluster's state as of event `seq`; `last` is True on the final piece.

    The first piece (`first`) tells the client to drop what it had. Without `first`, nothing but `last` follows
    before events: the client was up to date enough. `groups` are all there are, in the first piece of either kind.
    """

    seq: int
    epoch: Epoch
    first: bool = False
    last: bool = False
    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    samples: tuple[NodeSample, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class EventsPushed(Struct, frozen=True, tag="pushed_events"):
    """Events in order, without gaps after the snapshot's or the former push's last seq."""

    events: tuple[Event, ...]


class ForecastsPushed(Struct, frozen=True, omit_defaults=True, tag="pushed_forecasts"):
    """Forecasts that changed, and jobs that no longer have one."""

    forecasts: tuple[Forecast, ...] = ()
    gone: tuple[JobNumber, ...] = ()


class SamplesPushed(Struct, frozen=True, tag="pushed_samples"):
    """The latest samples of some nodes."""

    samples: tuple[NodeSample, ...]


class Progress(Struct, frozen=True, omit_defaults=True, tag="pushed_progress"):
    """A long piece of work inside the controller (`compiling the scheduler`), done/total; total 0: unknown."""

    what: str
    done: int = 0
    total: int = 0


class Submitted(Struct, frozen=True, omit_defaults=True, tag="submitted"):
    """The job's number; `again` is True when the key had been used; `warnings` are sentences."""

    number: JobNumber
    again: bool = False
    warnings: tuple[str, ...] = ()
    forecast: Forecast | None = None


class ActedOn(Struct, frozen=True, omit_defaults=True):
    """What became of one target: empty `error` means done."""

    target: str
    error: str = ""
    message: str = ""


class Acted(Struct, frozen=True, omit_defaults=True, tag="acted"):
    """One result for each target, in the order asked."""

    results: tuple[ActedOn, ...] = ()


class Confined(Struct, frozen=True, omit_defaults=True):
    """What nodes (a host list) enforce of a running job, and in sentences what they do not."""

    number: JobNumber
    nodes: str
    enforced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Jobs(Struct, frozen=True, omit_defaults=True, tag="jobs"):
    """Jobs with their forecasts where they have one; `more` says that further jobs follow the last of these.

    `confined` tells of the jobs' latest attempts what their nodes told at the start.
    """

    jobs: tuple[Job, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    more: bool = False
    confined: tuple[Confined, ...] = ()


class HeldOnNode(Struct, frozen=True, omit_defaults=True):
    """What one job holds on one node, for listings (see the job for details)."""

    number: JobNumber
    display_id: str
    user: str
    state: str
    cpus: int
    memory_mib: int
    gpus: tuple[tuple[int, int], ...] = ()
    """(GPU index, shards held)."""
    until: int = 0


class NodeView(Struct, frozen=True, omit_defaults=True):
    """A node with its state word, what is held on it and its latest sample."""

    node: Node
    state: str
    partitions: tuple[str, ...] = ()
    held: tuple[HeldOnNode, ...] = ()
    sample: NodeSample | None = None


class Nodes(Struct, frozen=True, tag="nodes"):
    """Nodes in natural order of their names."""

    nodes: tuple[NodeView, ...]


class Partitions(Struct, frozen=True, tag="partitions"):
    """Partitions in the order of the configuration."""

    partitions: tuple[Partition, ...]


class Policies(Struct, frozen=True, omit_defaults=True, tag="policies"):
    """Accounts, associations, QoS and reservations; `more` where they did not fit one frame."""

    records: tuple[Record, ...] = ()
    more: bool = False


class Priorities(Struct, frozen=True, omit_defaults=True, tag="priorities"):
    """The factors of pending jobs, highest priority first; `more` where they did not fit one frame."""

    rows: tuple[PriorityRow, ...] = ()
    more: bool = False


class Fairshares(Struct, frozen=True, omit_defaults=True, tag="fairshares"):
    """The fair tree, depth first; `more` where it did not fit one frame."""

    rows: tuple[FairshareRow, ...] = ()
    more: bool = False


class UsageReport(Struct, frozen=True, omit_defaults=True, tag="usage_report"):
    """Who used what, the most GPU-seconds first; `more` where it did not fit one frame. `user` is whom `ended` (latest
    first) and `quotas` are of."""

    used: tuple[UsedBy, ...] = ()
    user: str = ""
    ended: tuple[Efficiency, ...] = ()
    quotas: tuple[Quota, ...] = ()
    more: bool = False


class Script(Struct, frozen=True, omit_defaults=True, tag="script"):
    """A job's script as submitted."""

    number: JobNumber
    script: str
    args: tuple[str, ...] = ()


class Template(Struct, frozen=True):
    """A job script to start from, by the name of its file."""

    name: str
    script: str


class Templates(Struct, frozen=True, omit_defaults=True, tag="job_templates"):
    """The site's templates by name; `problems` are sentences about files that cannot be offered."""

    templates: tuple[Template, ...] = ()
    problems: tuple[str, ...] = ()


class Explained(Struct, frozen=True, omit_defaults=True, tag="explained"):
    """The job and the fresh forecast; `forecast` is None for a job that is not pending."""

    job: Job
    forecast: Forecast | None = None
    text: str = ""


class Estimated(Struct, frozen=True, omit_defaults=True, tag="estimated"):
    """The forecast of a job not submitted (its number is 0), and warnings."""

    forecast: Forecast
    warnings: tuple[str, ...] = ()


class Output(Struct, frozen=True, omit_defaults=True, tag="output"):
    """Bytes `offset .. offset+len(data)` of a file of `size` bytes on `node`; `ended`: the job writes no more.

    Of a search `found` is the place of the text; where it is -1, it was looked for down to `searched` (0: all of it; -1:
    not at all, by an older agent), and the next request can go on from there.
    """

    path: str
    node: str
    offset: int
    size: int
    data: bytes
    ended: bool = False
    found: int = -1
    searched: int = -1


class StepStarted(Struct, frozen=True, tag="step_started"):
    """The step; its parts have the streams of the request, in order."""

    step: Step


class Opened(Struct, frozen=True, omit_defaults=True, tag="opened"):
    """The stream is open, to this node."""

    node: str


class Steps(Struct, frozen=True, omit_defaults=True, tag="job_steps"):
    """Steps of one job in order; that of the script first."""

    steps: tuple[Step, ...] = ()


class Events(Struct, frozen=True, tag="events"):
    """Journal entries in order."""

    events: tuple[Event, ...]


class AgentStatus(Struct, frozen=True, omit_defaults=True):
    """One agent as `flagplot status` shows it."""

    node: str
    responding: bool
    version: str = ""
    last_seen: int = 0
    jobs: int = 0
    pid: int = 0


class ControllerStatus(Struct, frozen=True, omit_defaults=True, tag="controller_status"):
    """The controller at a glance. Times are epoch seconds, `memory_mib` is resident memory."""

    cluster: str
    version: str
    pid: int
    host: str
    port: int
    epoch: Epoch
    started: int
    seq: int
    running: int = 0
    pending: int = 0
    simulated: bool = False
    accepting: bool = True
    problem: str = ""
    host_key: str = ""
    memory_mib: int = 0
    last_cycle_us: int = 0
    agents: tuple[AgentStatus, ...] = field(default_factory=tuple)


class Stage(Struct, frozen=True, omit_defaults=True, tag="stage"):
    """A job's transfers: which entries of `stage_in` and `stage_out` the controller has (by index), and the job."""

    job: Job
    have_in: tuple[int, ...] = ()
    have_out: tuple[int, ...] = ()


Push = SnapshotPart | EventsPushed | ForecastsPushed | SamplesPushed | Progress | StreamData | StreamCredit | StreamEnd

Reply = (
    Failure
    | Welcome
    | Submitted
    | Acted
    | Jobs
    | Nodes
    | Partitions
    | Policies
    | Priorities
    | Fairshares
    | UsageReport
    | Script
    | Templates
    | Explained
    | Estimated
    | Output
    | Events
    | ControllerStatus
    | StepStarted
    | Opened
    | Steps
    | Stage
)
