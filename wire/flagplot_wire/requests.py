"""What a client may ask of the controller. Every request has one reply type, named in its docstring."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from flagplot_wire.job import JobSpec, Payload
from flagplot_wire.steps import StepSpec
from flagplot_wire.streams import StreamCredit, StreamData, StreamEnd


class Subscribe(Struct, frozen=True, omit_defaults=True, tag="subscribe"):
    """`Snapshot` parts, then pushes for as long as the connection lasts.

    With `after` and `epoch` of an earlier snapshot the controller sends only the events since, where it still
    has them; otherwise a full snapshot. `telemetry` asks for samples too.
    """

    after: int = -1
    epoch: int = 0
    telemetry: bool = True


class Submit(Struct, frozen=True, omit_defaults=True, tag="submit"):
    """`Submitted`. `key` makes it idempotent: the same key of the same user answers with the same job.

    `dry_run` checks everything and submits nothing (`Submitted` with number 0 and the forecast).
    """

    spec: JobSpec
    payload: Payload
    key: str
    dry_run: bool = False


class Act(Struct, frozen=True, omit_defaults=True, tag="act"):
    """`Acted`: one verb on jobs, written as people do (`41`, `41_3`, `41_[1-3]`). `signal` is for `cancel`."""

    verb: Literal["cancel", "hold", "release", "requeue"]
    jobs: tuple[str, ...]
    signal: str = ""


class Update(Struct, frozen=True, omit_defaults=True, tag="update"):
    """`Acted`: change jobs. Only what is not None changes; `time_limit` is text as `-t` takes it, `licenses` as
    `--licenses` does. An empty account or QoS gives the default, an empty reservation or license none. Only operators
    set `priority` and `site_factor`, which adds to the priority."""

    jobs: tuple[str, ...]
    time_limit: str | None = None
    name: str | None = None
    partition: str | None = None
    nice: int | None = None
    priority: int | None = None
    comment: str | None = None
    dependency: str | None = None
    begin: str | None = None
    cpus_per_task: int | None = None
    memory: str | None = None
    gpus_per_node: str | None = None
    nodes: str | None = None
    array_limit: int | None = None
    requeue: bool | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    licenses: str | None = None
    site_factor: int | None = None


class DrainNodes(Struct, frozen=True, tag="drain"):
    """`Acted`: take nodes (host lists) out of service for new jobs."""

    nodes: tuple[str, ...]
    reason: str


class ResumeNodes(Struct, frozen=True, tag="resume"):
    """`Acted`: give nodes back to jobs."""

    nodes: tuple[str, ...]


class RebootNodes(Struct, frozen=True, tag="reboot"):
    """`Acted`: drain nodes (host lists), reboot each as soon as it holds no jobs, and give it back to jobs after that."""

    nodes: tuple[str, ...]
    reason: str


class RemoveNodes(Struct, frozen=True, tag="remove_nodes"):
    """`Acted`: forget nodes that are gone for good (not responding and without jobs)."""

    nodes: tuple[str, ...]


class GetQueue(Struct, frozen=True, omit_defaults=True, tag="queue"):
    """`Jobs`: live jobs by number; with `ended` those ended lately too. Empty filters match all.

    A long answer comes in pages: while the reply says `more`, ask again with `after` its last job's number.
    """

    jobs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ended: bool = False
    after: int = 0


class GetNodes(Struct, frozen=True, omit_defaults=True, tag="nodes"):
    """`Nodes`: nodes with what is held on them and their latest samples."""

    nodes: tuple[str, ...] = ()


class GetJob(Struct, frozen=True, omit_defaults=True, tag="job"):
    """`Jobs` with the history from the store: the job, or every element of an array (paged as `GetQueue`)."""

    job: str
    after: int = 0


class GetScript(Struct, frozen=True, tag="script"):
    """`Script` of a job (its owner, operators and admins only)."""

    job: str


class GetTemplates(Struct, frozen=True, tag="templates"):
    """`Templates`: the site's job scripts to start from."""


class GetPartitions(Struct, frozen=True, tag="partitions"):
    """`Partitions`."""


class ChangePolicy(Struct, frozen=True, omit_defaults=True, tag="change_policy"):
    """`Acted`: add, modify or remove accounts, users (associations), QoS, partitions or reservations by name.

    `values` are settings by key as people write them (`{"shares": "10", "max-gpus": "64"}`); an empty value
    takes a limit away, and `+a,b` or `-a` adds to a list or takes from it. A user's account is the value
    `account`, or the name is `ada@physics`.
    """

    verb: Literal["add", "modify", "remove"]
    kind: Literal["account", "user", "qos", "partition", "reservation"]
    names: tuple[str, ...]
    values: dict[str, str] = {}


class GetPolicy(Struct, frozen=True, omit_defaults=True, tag="policy"):
    """`Policies`: the records of one kind (empty: all), by name where names are given, without the first `skip`."""

    kind: Literal["", "account", "user", "qos", "reservation"] = ""
    names: tuple[str, ...] = ()
    skip: int = 0


class GetPriority(Struct, frozen=True, omit_defaults=True, tag="priority"):
    """`Priorities`: the factors of pending jobs, highest first, without the first `skip`; of these jobs where some
    are given."""

    jobs: tuple[str, ...] = ()
    skip: int = 0


class GetFairshare(Struct, frozen=True, omit_defaults=True, tag="fairshare"):
    """`Fairshares`: the fair tree, depth first, without the first `skip` lines; of these accounts, and of these users
    with the accounts they are in, where some are given."""

    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    skip: int = 0


class GetUsage(Struct, frozen=True, omit_defaults=True, tag="usage"):
    """`UsageReport`: who used what from `since` until `until` (epoch seconds; 0: now), without the first `skip` lines.

    Without `skip` it tells too of the last `jobs` ended jobs of `user` (empty: yourself; operators any) and of the
    limits that hold for them.
    """

    since: int
    until: int = 0
    user: str = ""
    jobs: int = 20
    skip: int = 0


class Explain(Struct, frozen=True, tag="explain"):
    """`Explained`: all reasons why a job is pending, and when and where it is planned."""

    job: str


class Estimate(Struct, frozen=True, tag="estimate"):
    """`Estimated`: when and where this would start if submitted now; refuses what `Submit` would refuse."""

    spec: JobSpec


class ReadOutput(Struct, frozen=True, omit_defaults=True, tag="output"):
    """`Output`: a piece of a job's output, read on the node that has it.

    `offset` counts bytes from the start; negative counts from the end. `limit` is at most 256 KiB.
    With `search` it is the piece around the last place before `offset` (negative: the end) where that text stands, in
    whatever case of ASCII letters: the node looks for it, without sending or keeping what it reads.
    """

    job: str
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: int = 0
    limit: int = 65_536
    search: str = ""


class GetEvents(Struct, frozen=True, omit_defaults=True, tag="events"):
    """`Events` of the journal with seq > `after`, the last `limit` of them; `job` or `node` filter."""

    after: int = -1
    limit: int = 1_000
    job: str = ""
    node: str = ""


class GetStatus(Struct, frozen=True, omit_defaults=True, tag="status"):
    """`ControllerStatus`; without `agents` it costs the same for any number of nodes."""

    agents: bool = True


class Hello(Struct, frozen=True, omit_defaults=True, tag="hello"):
    """First frame of a client; `Welcome`, or a refusal with code `wrong_version`."""

    protocol: int
    version: str
    client: str = ""


class Shutdown(Struct, frozen=True, omit_defaults=True, tag="shutdown"):
    """`Acted`: stop the controller (admins). `jobs` says what becomes of running jobs."""

    jobs: Literal["leave", "cancel"] = "leave"


class StartStep(Struct, frozen=True, tag="start_step"):
    """`StepStarted`: run a step in a running job. Part `i` of it is stream `stream + i` of this connection.

    `as_owner` is what operators must say to start one in another person's job; it runs as the job's user.
    """

    job: str
    spec: StepSpec
    stream: int
    as_owner: bool = False


class WatchStep(Struct, frozen=True, omit_defaults=True, tag="watch_step"):
    """`StepStarted`: watch a running step (-1: the last one begun); streams as with `StartStep`.

    With `stdin` what is sent reaches its tasks as input; the job's owner alone may ask for that.
    """

    job: str
    step: int
    stream: int
    stdin: bool = False


class OpenPort(Struct, frozen=True, omit_defaults=True, tag="open_port"):
    """`Opened`: stream `stream` is a TCP connection to a port on a node of the job (empty: its first)."""

    job: str
    stream: int
    port: int
    node: str = ""
    as_owner: bool = False


class OpenFile(Struct, frozen=True, omit_defaults=True, tag="open_file"):
    """`Opened`: stream `stream` reads or writes a file on a node of the job, as `ConnectFile` says."""

    job: str
    stream: int
    verb: Literal["read", "write", "bcast", "send", "receive"]
    path: str
    node: str = ""
    mode: int = 0o644
    force: bool = False


class OpenStage(Struct, frozen=True, tag="open_stage"):
    """`Opened`: stream `stream` carries one transfer of a job between its owner and the controller, as a tar archive.

    `in` takes entry `index` of `stage_in`, whole or not at all, and ends when it is on the controller's disk; `out`
    sends entry `index` of `stage_out`.
    """

    job: str
    stream: int
    direction: Literal["in", "out"]
    index: int


class GetStage(Struct, frozen=True, tag="stage"):
    """`Stage` of a job (its owner and operators)."""

    job: str


class StageDone(Struct, frozen=True, tag="stage_done"):
    """`Acted`: all entries of `stage_in` are with the controller, so the job may start; refused while one lacks."""

    job: str


class GetSteps(Struct, frozen=True, tag="steps"):
    """`Steps` of a job, running or not."""

    job: str


class CancelStep(Struct, frozen=True, omit_defaults=True, tag="cancel_step"):
    """`Acted`: end a step (`123.0`)."""

    job: str
    step: int


class Claim(Struct, frozen=True, tag="claim"):
    """`Acted`: this connection is that of an interactive job's client: the job ends soon after it."""

    job: str


class EndJob(Struct, frozen=True, tag="end_job"):
    """`Acted`: an interactive job is done, with this exit code."""

    job: str
    exit_code: int = 0


AnyRequest = (
    Hello
    | Subscribe
    | Submit
    | Act
    | Update
    | DrainNodes
    | ResumeNodes
    | RebootNodes
    | RemoveNodes
    | GetQueue
    | GetNodes
    | GetJob
    | GetScript
    | GetTemplates
    | GetPartitions
    | ChangePolicy
    | GetPolicy
    | GetPriority
    | GetFairshare
    | GetUsage
    | Explain
    | Estimate
    | ReadOutput
    | GetEvents
    | GetStatus
    | Shutdown
    | StartStep
    | WatchStep
    | OpenPort
    | OpenFile
    | OpenStage
    | GetStage
    | StageDone
    | GetSteps
    | CancelStep
    | Claim
    | EndJob
    | StreamData
    | StreamCredit
    | StreamEnd
)
