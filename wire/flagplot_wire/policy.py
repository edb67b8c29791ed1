"""Who shares the cluster and by which rules: accounts, associations, QoS, reservations (`sacctmgr(1)`, `scontrol(1)`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct

if TYPE_CHECKING:
    from flagplot_wire.node import Partition

ROOT = "root"
"""The account above all others."""

USE_PARENT = -1
"""Shares of a user that stands for its account in the fair tree (Slurm's `Fairshare=parent`)."""

PreemptMode = Literal["", "off", "cancel", "requeue", "suspend"]
"""What becomes of a preempted job; empty: as the cluster is configured."""


class Limits(Struct, frozen=True, omit_defaults=True):
    """What may be used; None is no limit. `gpu_minutes` is over the decayed usage and what running jobs may still use.

    `jobs`, `nodes`, `cpus`, `gpus`, `memory_mib` are of all running jobs together, `submitted` of pending and
    running ones. The `job_*` limits are of each job; `job_wall_s` is its time limit in seconds.
    """

    jobs: int | None = None
    submitted: int | None = None
    nodes: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    memory_mib: int | None = None
    gpu_minutes: int | None = None
    job_nodes: int | None = None
    job_cpus: int | None = None
    job_gpus: int | None = None
    job_wall_s: int | None = None


class Account(Struct, frozen=True, omit_defaults=True, tag="account"):
    """An account; `shares` count among its siblings, `limits` hold for all below it. `qos` are those allowed
    (empty: those of the parent, for the root all)."""

    name: str
    parent: str = ROOT
    shares: int = 1
    limits: Limits = Limits()
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    coordinators: tuple[str, ...] = ()
    description: str = ""

    @property
    def key(self) -> str:
        """What names it among records of its kind."""
        return self.name


class Association(Struct, frozen=True, omit_defaults=True, tag="user"):
    """A user in an account. A user has one `default` association. `shares` may be `USE_PARENT`."""

    user: str
    account: str
    shares: int = 1
    default: bool = False
    limits: Limits = Limits()
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    priority: int = 0

    @property
    def key(self) -> str:
        """What names it among records of its kind: `user@account`."""
        return f"{self.user}@{self.account}"


class Qos(Struct, frozen=True, omit_defaults=True, tag="qos"):
    """A quality of service. `limits` hold for all its jobs together, `user_limits` for each user's, and
    `account_limits` for each account's. Its jobs may preempt those of `preempts`; they are safe from preemption
    for `exempt_s` after their start and get `grace_s` between the warning and the end."""

    name: str
    priority: int = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: PreemptMode = ""
    grace_s: int = 0
    exempt_s: int = 0
    limits: Limits = Limits()
    user_limits: Limits = Limits()
    account_limits: Limits = Limits()
    usage_percent: int = 100
    description: str = ""

    @property
    def key(self) -> str:
        """What names it among records of its kind."""
        return self.name


class Reservation(Struct, frozen=True, omit_defaults=True, tag="reservation"):
    """Nodes, or cores and GPUs on them, kept free for somebody from `start` to `end` (epoch seconds).

    `cores` and `gpus` count on each node (None with both None: the whole node). Without users and accounts it
    is nobody's: a maintenance window. `flex` lets its jobs use other nodes and start before it; `ignore_jobs`
    accepts that jobs run into it; `repeat_s` moves it on by so much when it ended (86,400: daily).
    """

    name: str
    start: int
    end: int
    nodes: tuple[str, ...] = ()
    all_nodes: bool = False
    cores: int | None = None
    gpus: int | None = None
    licenses: tuple[tuple[str, int], ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str = ""
    flex: bool = False
    ignore_jobs: bool = False
    maintenance: bool = False
    repeat_s: int = 0

    def covered(self, nodes: Iterable[str], partitions: Mapping[str, Partition]) -> set[str]:
        """The names of the nodes that it is about, of all `nodes` and with the `partitions` as they are."""
        if self.nodes:
            return set(self.nodes)
        partition = partitions.get(self.partition)
        if partition is not None and not partition.all_nodes:
            return set(partition.nodes)
        return set(nodes) if self.all_nodes or partition is not None else set()

    comment: str = ""

    @property
    def key(self) -> str:
        """What names it among records of its kind."""
        return self.name

    def admits(self, user: str, account: str) -> bool:
        """True when a job of this user and account may use it."""
        return user in self.users or account in self.accounts


Record = Account | Association | Qos | Reservation
Kind = Literal["account", "user", "qos", "reservation"]
"""The tags of `Record`."""


def kind_of(record: Record) -> Kind:
    """The kind of a record."""
    return cast(Kind, record.__struct_config__.tag)


class Usage(Struct, frozen=True):
    """Decayed usage of an association at the time it was last brought up to date: thousandths of weighted
    TRES-seconds, and GPU-seconds with the thousandths of a second beyond them (so that decay loses nothing)."""

    key: str
    weighted: int
    gpu_seconds: int
    gpu_millis: int = 0


class PriorityRow(Struct, frozen=True, omit_defaults=True):
    """The parts of a pending job's priority (`sprio(1)`), each weighted already, and their sum less `nice`, from 0 to
    2^32 - 1. Where an operator set the priority it is the total, and all parts are 0."""

    number: int
    job: str
    user: str
    account: str
    partition: str
    qos: str
    total: int
    age: int = 0
    fairshare: int = 0
    size: int = 0
    partition_part: int = 0
    qos_part: int = 0
    tres: int = 0
    nice: int = 0
    site: int = 0
    association: int = 0


class FairshareRow(Struct, frozen=True, omit_defaults=True):
    """A line of the fair tree (`sshare(1)`), depth first. `usage` is in weighted TRES-seconds; `norm_shares` and
    `norm_usage` are parts of a million among siblings; `level` is the level fairshare × 1,000,000 (None: never
    used), `factor` of a user × 1,000,000. A user whose `shares` are `USE_PARENT` has its account's parts."""

    account: str
    user: str
    depth: int
    shares: int
    norm_shares: int
    usage: int
    norm_usage: int
    level: int | None = None
    factor: int | None = None
