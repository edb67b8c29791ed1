"""The controller's whole live state. Changed by `apply` alone, from events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from flagplot_wire.ids import Epoch, JobNumber
from flagplot_wire.job import Forecast, Job
from flagplot_wire.node import Node, Partition
from flagplot_wire.policy import Account, Association, PreemptMode, Qos, Reservation, Usage
from flagplot_wire.steps import Step


class Switch(Struct, frozen=True):
    """A switch of the network: a leaf joins `nodes`, another joins `switches`. A `block` is a leaf whose nodes
    share a faster fabric (an NVLink domain)."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    block: bool = False


class Settings(Struct, frozen=True):
    """What of the configuration the core's decisions depend on. Times are seconds."""

    cluster: str = "flagplot"
    max_array_size: int = 100_001
    max_jobs: int = 1_000_000
    max_launch_failures: int = 5
    launch_retry_s: int = 10
    kill_wait_s: int = 30
    lease_s: int = 0
    """After so long without an agent's word its jobs are known dead; 0: never. Agents must be run with a shorter `--lease`."""
    keep_ended_s: int = 86_400
    keep_ended: int = 10_000
    enforce: Literal["off", "limits", "associations"] = "limits"
    """`limits`: users in no account work without limits; `associations`: they are refused; `off`: no limits."""
    refuse_impossible: bool = True
    """Refuse a job that a limit makes impossible; else it waits with that reason."""
    usage_half_life_s: int = 7 * 86_400
    usage_every_s: int = 300
    switches: tuple[Switch, ...] = ()
    racks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The racks that nodes stand in: people are shown them, nothing is decided by them."""
    licenses: tuple[tuple[str, int], ...] = ()
    preempt_mode: PreemptMode = "off"
    preempt_by: Literal["qos", "partition"] = "qos"
    preempt_exempt_s: int = 0
    weight_cpu: int = 1_000
    weight_memory_gib: int = 0
    weight_gpu: int = 8_000
    """TRES billing weights in thousandths: a second of one CPU, GiB or GPU."""
    node_weights: tuple[tuple[str, int], ...] = ()
    """Weights of nodes that have another than 1."""


class Who(Struct, frozen=True):
    """Somebody who asks, as the gate established it. `roles` of: user, operator, admin."""

    user: str
    uid: int
    gid: int = 0
    roles: tuple[str, ...] = ("user",)

    @property
    def operator(self) -> bool:
        """May act on other people's jobs and on nodes."""
        return "operator" in self.roles or "admin" in self.roles

    @property
    def admin(self) -> bool:
        """May stop the controller and change its configuration."""
        return "admin" in self.roles


@dataclass(slots=True)
class NodeUse:
    """What running and completing jobs hold on one node; kept by `apply`, checked by `invariants`.

    `cpus` is a bit mask of CPU ids; `gpu_shards[i]` counts the shards held of GPU i; `jobs` holds numbers.
    """

    cpus: int = 0
    memory_mib: int = 0
    gpu_shards: list[int] = field(default_factory=list)
    jobs: set[JobNumber] = field(default_factory=set)


@dataclass(slots=True)
class Live:
    """What is known of a running attempt: which nodes confirmed its start and its end.

    Only the ends are journalled too (`Status.parts_ended`). `missing` tells since when a node's heartbeats
    lack a part whose start it had confirmed.
    """

    attempt: int
    started: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    missing: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class State:
    """The cluster. `jobs` holds live jobs and lately ended ones; `use` follows from their allocations.

    `elements` maps an array to index → number of its split-off elements; `by_key` maps (user, submit key) to
    the job it made; `forecasts` and `live` are not journalled. `names` lists the numbers of pending and active
    jobs by (user, name) in order; `accounts`, `qos` and `reservations` go by name, `associations` and `usage`
    by `user@account`; `default_accounts` maps users to the accounts of their default associations; `usage_at` is
    when the usage was last decayed; `submitted` counts the pending and running jobs by the keys of `limits.scopes`,
    `held` sums `needs.held_by` of the active ones by the same keys, `seats` their licenses by name;
    `suspended` lists the suspended jobs and `given_room` the pending ones that others are preempted for;
    `site` holds the site factors that are not 0;
    `steps` are the running steps of jobs, `next_step` the number of a job's next one;
    `due` is a heap of the times at which pending jobs may start; `swept_at`, `used_at` and `planned_at` are when old
    jobs were last forgotten, usage was last looked at and a cycle was last wanted for the passing of time.
    """

    settings: Settings = field(default_factory=Settings)
    epoch: Epoch = Epoch(0)
    seq: int = 0
    next_number: int = 1
    jobs: dict[JobNumber, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    use: dict[str, NodeUse] = field(default_factory=dict)
    elements: dict[JobNumber, dict[int, JobNumber]] = field(default_factory=dict)
    by_key: dict[tuple[str, str], JobNumber] = field(default_factory=dict)
    pending: set[JobNumber] = field(default_factory=set)
    active: set[JobNumber] = field(default_factory=set)
    suspended: set[JobNumber] = field(default_factory=set)
    given_room: set[JobNumber] = field(default_factory=set)
    forecasts: dict[JobNumber, Forecast] = field(default_factory=dict)
    live: dict[JobNumber, Live] = field(default_factory=dict)
    names: dict[tuple[str, str], list[JobNumber]] = field(default_factory=dict)
    due: list[tuple[int, JobNumber]] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    associations: dict[str, Association] = field(default_factory=dict)
    qos: dict[str, Qos] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    usage_at: int = 0
    steps: dict[JobNumber, dict[int, Step]] = field(default_factory=dict)
    next_step: dict[JobNumber, int] = field(default_factory=dict)
    default_accounts: dict[str, str] = field(default_factory=dict)
    submitted: dict[str, int] = field(default_factory=dict)
    held: dict[str, list[int]] = field(default_factory=dict)
    seats: dict[str, int] = field(default_factory=dict)
    swept_at: int = 0
    used_at: int = 0
    planned_at: int = 0
    site: dict[JobNumber, int] = field(default_factory=dict)
