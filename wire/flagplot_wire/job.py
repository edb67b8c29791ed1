"""The job model, in Slurm's states and words."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from flagplot_wire.alloc import Allocation
from flagplot_wire.ids import JobNumber

NO_LIMIT = 0
"""A time limit of 0 seconds means no limit, as `-t 0` does in Slurm."""


class State(StrEnum):
    """Job states; the last seven are ends."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"

    @property
    def ended(self) -> bool:
        """True for the states a job does not leave (other than by a requeue)."""
        return self in ENDED

    @property
    def short(self) -> str:
        """The compact code of `squeue` (`PD`, `R`, …)."""
        return SHORT[self]


ENDED = frozenset(
    {
        State.COMPLETED,
        State.FAILED,
        State.CANCELLED,
        State.TIMEOUT,
        State.OUT_OF_MEMORY,
        State.NODE_FAIL,
        State.PREEMPTED,
    }
)

SHORT: dict[State, str] = {
    State.PENDING: "PD",
    State.RUNNING: "R",
    State.SUSPENDED: "S",
    State.COMPLETING: "CG",
    State.COMPLETED: "CD",
    State.FAILED: "F",
    State.CANCELLED: "CA",
    State.TIMEOUT: "TO",
    State.OUT_OF_MEMORY: "OOM",
    State.NODE_FAIL: "NF",
    State.PREEMPTED: "PR",
}


class Why(StrEnum):
    """Why a pending job does not run, in Slurm's words (`squeue(1)`, JOB REASON CODES)."""

    PRIORITY = "Priority"
    RESOURCES = "Resources"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    HELD_USER = "JobHeldUser"
    HELD_ADMIN = "JobHeldAdmin"
    ARRAY_LIMIT = "JobArrayTaskLimit"
    PARTITION_DOWN = "PartitionDown"
    PARTITION_TIME = "PartitionTimeLimit"
    PARTITION_NODES = "PartitionNodeLimit"
    NODES_DOWN = "ReqNodeNotAvail"
    REQUEUE_DELAY = "JobLaunchFailure"
    STAGE_IN = "BurstBufferStageIn"
    LICENSES = "Licenses"
    RESERVATION = "Reservation"
    RESERVED = "ReservedForOthers"
    ASSOC_JOBS = "AssocGrpJobsLimit"
    ASSOC_NODES = "AssocGrpNodeLimit"
    ASSOC_CPUS = "AssocGrpCpuLimit"
    ASSOC_GPUS = "AssocGrpGRES"
    ASSOC_MEMORY = "AssocGrpMemLimit"
    ASSOC_GPU_MINUTES = "AssocGrpGRESMinutes"
    ASSOC_JOB = "AssocMaxPerJobLimit"
    QOS_JOBS = "QOSGrpJobsLimit"
    QOS_NODES = "QOSGrpNodeLimit"
    QOS_CPUS = "QOSGrpCpuLimit"
    QOS_GPUS = "QOSGrpGRES"
    QOS_MEMORY = "QOSGrpMemLimit"
    QOS_GPU_MINUTES = "QOSGrpGRESMinutes"
    QOS_JOB = "QOSMaxPerJobLimit"
    NOT_YET_EXAMINED = "None"


class Reason(Struct, frozen=True, omit_defaults=True, gc=False):
    """One blocker of a pending job: the word, a sentence part for people, and the jobs in front if any."""

    why: Why
    text: str = ""
    jobs: tuple[JobNumber, ...] = ()


class Forecast(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the last scheduling cycle says of a pending job: *all* blockers and the planned start.

    `start` is epoch seconds (None: not planned), `nodes` where it would run. `never` is a sentence why the job
    can never start as the cluster is now (empty: it can). `hints` are changes that would start it now
    ("1 GPU instead of 4"). Not journalled: the next cycle makes it again.
    """

    number: JobNumber
    reasons: tuple[Reason, ...] = ()
    start: int | None = None
    nodes: tuple[str, ...] = ()
    never: str = ""
    hints: tuple[str, ...] = ()


class GpuCount(Struct, frozen=True, omit_defaults=True, gc=False):
    """A number of whole GPUs, of one type (lower case) or of any (empty)."""

    count: int
    type: str = ""


class LicenseCount(Struct, frozen=True, omit_defaults=True, gc=False):
    """A number of a cluster-wide license."""

    name: str
    count: int = 1


class Request(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a job asks for.

    Memory is MiB; `mem_per_node_mib` of 0 asks for all memory of each node (None: not given). `gpus` counts
    over the whole job, `gpus_per_node` on each node. `shards` and `vram_mib` ask for a share of one GPU per
    node, of `share_type` (empty: any); the controller turns VRAM into shards node by node.
    `time_limit_s` is None while not given (the partition's default applies), `NO_LIMIT` for none.
    `tasks` is 0 while not given: one per node, or as many as `tasks_per_node` makes.
    `switches` is the most leaf switches a gang may span (0: any), given up after `switches_wait_s` of waiting (0:
    never). `contiguous` wants neighbours in the order of names; `near_gpus` wants all cores on the NUMA nodes of
    the GPUs and does not start without (`--gres-flags=enforce-binding`).
    `constraint` is as `flagplot_wire.constraint` reads it. With `cpus_per_gpu` a node gives that many CPUs for each
    of its whole GPUs instead of `cpus_per_task`, and at least one for each task (0: not given). `oversubscribe`
    accepts other jobs on its nodes where the partition would give whole nodes.
    `launch` is `batch` (the script runs once, on the first node, as sbatch does) or `tasks` (it runs once per
    task, with its rank in the environment, as `srun` does). An `interactive` job runs no script: it holds its nodes
    for the steps of the client that made it, and ends with that.
    """

    nodes_min: int = 1
    nodes_max: int = 1
    tasks: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    mem_per_node_mib: int | None = None
    mem_per_cpu_mib: int | None = None
    mem_per_gpu_mib: int | None = None
    gpus: tuple[GpuCount, ...] = ()
    gpus_per_node: tuple[GpuCount, ...] = ()
    gpus_per_task: tuple[GpuCount, ...] = ()
    shards: int = 0
    vram_mib: int = 0
    share_type: str = ""
    time_limit_s: int | None = None
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    constraint: str = ""
    exclusive: bool = False
    licenses: tuple[LicenseCount, ...] = ()
    switches: int = 0
    switches_wait_s: int = 0
    contiguous: bool = False
    near_gpus: bool = False
    launch: Literal["batch", "tasks", "interactive"] = "batch"
    cpus_per_gpu: int = 0
    oversubscribe: bool = False


class DependencyTerm(Struct, frozen=True, omit_defaults=True, gc=False):
    """One term of `--dependency`; `delay_s` belongs to `after` alone, `jobs` is empty for `singleton`."""

    kind: Literal["after", "afterany", "afterok", "afternotok", "singleton"]
    jobs: tuple[str, ...] = ()
    delay_s: int = 0


class Dependency(Struct, frozen=True, gc=False):
    """Terms joined by `,` (all must hold) or `?` (any one)."""

    terms: tuple[DependencyTerm, ...]
    any_of: bool = False


class ArraySpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """`--array`: indices as a list (`0-9,15`) and how many may run at once (0: no limit)."""

    indices: str
    limit: int = 0


class Transfer(Struct, frozen=True, gc=False):
    """A file or folder that is copied for a job: `--stage-in` from the submitting machine to the job's nodes, `--stage-out`
    from its first node to the submitting machine. The path there is absolute, that on the nodes a pattern as for outputs.
    """

    source: str
    target: str


class JobSpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """What was submitted, without the script. Names of partition, account and QoS are empty while not given.

    `stdout` and `stderr` are patterns as in sbatch(1) (stderr empty: joined to stdout); `begin` is epoch
    seconds (0: at once); `hold` tells who holds it. `work_dir` is absolute. `mail_type` are words of
    `flagplot_wire.mail.TYPES`, `mail_user` is whom to tell (empty: the job's user).
    """

    name: str
    work_dir: str
    request: Request = field(default_factory=Request)
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    open_mode: Literal["truncate", "append"] = "truncate"
    comment: str = ""
    dependency: Dependency | None = None
    begin: int = 0
    hold: Literal["", "user", "admin"] = ""
    requeue: bool = True
    array: ArraySpec | None = None
    nice: int = 0
    script_name: str = ""
    command: str = ""
    container_image: str = ""
    container_mounts: str = ""
    container_workdir: str = ""
    mail_type: tuple[str, ...] = ()
    mail_user: str = ""
    stage_in: tuple[Transfer, ...] = ()
    stage_out: tuple[Transfer, ...] = ()


class Payload(Struct, frozen=True, omit_defaults=True):
    """What only the node needs: the script, its arguments and the environment. Stored apart from the job.

    `umask` and `limits` are those of the submitting process: soft limits by their name in setrlimit(2) without
    `RLIMIT_` (-1: unlimited).
    """

    script: str
    args: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    umask: int = 0o022
    limits: dict[str, int] = field(default_factory=dict)


class Used(Struct, frozen=True, omit_defaults=True, gc=False):
    """What an attempt used, added up over its nodes as their parts end; None: not measured on one of them.

    `cpu_ms` is the CPU time of its tasks (steps have their own), `memory_peak_mib` the most at one moment on each
    node, `gpu_percent` the mean utilisation of each of its GPUs (300: three GPUs that were always busy).
    """

    cpu_ms: int | None = 0
    memory_peak_mib: int | None = 0
    gpu_percent: int | None = 0


class Status(Struct, frozen=True, omit_defaults=True, gc=False):
    """The changing part of a job. Times are epoch seconds, 0 while not yet.

    `attempt` counts starts (0: never started). `exit_code` and `signal` are of the script (None: no end yet).
    `ending` is, while COMPLETING, the state that will follow. `allocation` stays after the end as history.
    `message` is a sentence for the person (why it failed, who cancelled it). `priority` orders pending jobs.
    For an array record `waiting` lists the indices not yet split off, and the counters count its elements.
    `retry_at` is when a job may start again after a launch failure. `parts_ended` names the nodes whose part
    of a running or completing attempt is known to have ended. `site_factor` is what an operator adds to its priority.
    `preempted_by` is the job that the attempt made room for, kept until the next start; `victims` are those that a
    pending job is being given the room of, on the nodes of `room`. `stop_by` is when a preempted job is killed at the
    latest. `suspended_at` is since when an attempt is stopped (it holds no CPUs then), `suspended_s` how long it was stopped before.
    `used` is what the attempt used, as far as its parts have ended; `before_cpu_s` and `before_gpu_s` are the CPU- and
    GPU-seconds that earlier attempts held.
    `staging`: the files of `stage_in` are not all with the controller yet.
    """

    state: State = State.PENDING
    attempt: int = 0
    restarts: int = 0
    submit_time: int = 0
    eligible_time: int = 0
    start_time: int = 0
    end_time: int = 0
    exit_code: int | None = None
    signal: int = 0
    ending: State | None = None
    allocation: Allocation | None = None
    message: str = ""
    priority: int = 0
    waiting: str = ""
    elements_running: int = 0
    elements_ended: int = 0
    elements_failed: int = 0
    retry_at: int = 0
    launch_failures: int = 0
    parts_ended: tuple[str, ...] = ()
    preempted_by: JobNumber = JobNumber(0)
    victims: tuple[JobNumber, ...] = ()
    stop_by: int = 0
    suspended_at: int = 0
    suspended_s: int = 0
    room: tuple[str, ...] = ()
    site_factor: int = 0
    used: Used | None = None
    before_cpu_s: int = 0
    before_gpu_s: int = 0
    staging: bool = False

    def held_s(self, until: int) -> int:
        """For how many seconds the attempt has held its allocation at `until`, while it was not suspended."""
        until = min(self.end_time or until, self.suspended_at or until)
        return max(until - self.start_time - self.suspended_s, 0) if self.start_time and self.allocation else 0


class Job(Struct, frozen=True, omit_defaults=True, gc=False):
    """A job. `array_number` and `array_index` are set on an element that was split off its array.

    A record with `spec.array` set is the array itself: it stands for the elements not yet split off, never
    holds an allocation, and ends when its last element has ended.
    """

    number: JobNumber
    user: str
    uid: int
    spec: JobSpec
    status: Status = field(default_factory=Status)
    gid: int = 0
    array_number: JobNumber = JobNumber(0)
    array_index: int | None = None

    @property
    def is_array(self) -> bool:
        """True for an array record."""
        return self.spec.array is not None

    @property
    def display_id(self) -> str:
        """The id as people write it: `41`, `41_3`, or `41_[4-9%2]` for an array's waiting elements."""
        if self.array_index is not None:
            return f"{self.array_number}_{self.array_index}"
        if self.spec.array is None or not self.status.waiting:
            return str(self.number)
        limit = f"%{self.spec.array.limit}" if self.spec.array.limit else ""
        return f"{self.number}_[{self.status.waiting}{limit}]"

    @property
    def time_limit_s(self) -> int:
        """The time limit in seconds, `NO_LIMIT` for none."""
        limit = self.spec.request.time_limit_s
        return NO_LIMIT if limit is None else limit

    @property
    def limit_ends(self) -> int:
        """When the time limit of the attempt ends it, as of the moment of its suspension if it is suspended (0: it has
        no limit or did not start)."""
        limit = self.time_limit_s
        return self.status.start_time + limit + self.status.suspended_s if limit and self.status.start_time else 0
